//! The node address table: where each node is.

use super::{BLOCK, Block};

/// Bytes of an entry.
pub(crate) const SIZE: usize = 9;
/// Entries of a block.
pub(crate) const PER_BLOCK: usize = BLOCK / SIZE;

mod raw {
    //= f2fs-layout 3
    super::super::layout! { 9:
        VERSION: u8 = 0,
        INO: u32 = 1,
        ADDR: u32 = 5,
    }
}

/// Entry of the node address table: version, inode and address of a node (0 if it is free).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NatEntry {
    /// Raised by one, wrapping, each time the number is freed; tells stale summaries apart.
    pub(crate) version: u8,
    /// The inode that the node belongs to.
    pub(crate) ino: u32,
    /// Block address of the node; 0 for a number that is free.
    pub(crate) addr: u32,
}

impl NatEntry {
    /// Decodes an entry from its bytes in a table block or journal.
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        Self {
            version: raw::VERSION.get(bytes),
            ino: raw::INO.get(bytes),
            addr: raw::ADDR.get(bytes),
        }
    }

    /// Encodes the entry at the start of `bytes`.
    pub(crate) fn encode(self, bytes: &mut [u8]) {
        raw::VERSION.put(bytes, self.version);
        raw::INO.put(bytes, self.ino);
        raw::ADDR.put(bytes, self.addr);
    }
}

/// All entries of a block.
pub(crate) fn decode(block: &Block) -> Vec<NatEntry> {
    let entries = block.chunks_exact(SIZE).take(PER_BLOCK);
    entries.map(NatEntry::decode).collect()
}

/// Addresses of all entries of a block, 0 for a free number; the other fields are not decoded.
pub(crate) fn addresses(block: &Block) -> impl Iterator<Item = u32> {
    let entries = block.chunks_exact(SIZE).take(PER_BLOCK);
    entries.map(|entry| raw::ADDR.get(entry))
}

/// Writes all entries of a block.
pub(crate) fn encode(entries: &[NatEntry]) -> Box<Block> {
    let mut block = super::blank();
    for (entry, out) in entries.iter().zip(block.chunks_exact_mut(SIZE)) {
        entry.encode(out);
    }
    block
}
