//! The segment information table: which blocks of each segment are in use.

use super::{BLOCK, Block, SEG_BLOCKS};

/// Bytes of an entry.
pub(crate) const SIZE: usize = 74;
/// Entries of a block.
pub(crate) const PER_BLOCK: usize = BLOCK / SIZE;
/// Bytes of a map of a segment.
pub(crate) const MAP: usize = SEG_BLOCKS as usize / 8;

mod raw {
    //= f2fs-layout 4
    super::super::layout! { 74:
        BLOCKS: u16 = 0,
        MAP: [u8; 64] = 2,
        TIME: u64 = 66,
    }
}

/// Entry of the segment information table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SitEntry {
    /// Blocks in use, as it says itself.
    pub(crate) valid: u16,
    /// The log that it was written by, 0 to 5: data hot, warm, cold, then nodes.
    pub(crate) log: u8,
    /// A bit for each block in use.
    pub(crate) map: [u8; MAP],
    /// Time of the last write to the segment, in seconds that the file system was mounted.
    pub(crate) time: u64,
}

impl Default for SitEntry {
    fn default() -> Self {
        Self {
            valid: 0,
            log: 0,
            map: [0; MAP],
            time: 0,
        }
    }
}

impl SitEntry {
    /// Decodes an entry from its bytes in a table block or journal.
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let blocks = raw::BLOCKS.get(bytes);
        Self {
            valid: blocks & 0x3FF,
            log: (blocks >> 10) as u8,
            map: raw::MAP.get(bytes),
            time: raw::TIME.get(bytes),
        }
    }

    /// Encodes the entry at the start of `bytes`.
    pub(crate) fn encode(&self, bytes: &mut [u8]) {
        raw::BLOCKS.put(bytes, self.valid | u16::from(self.log) << 10);
        raw::MAP.put(bytes, self.map);
        raw::TIME.put(bytes, self.time);
    }

    /// Whether its parts agree.
    pub(crate) fn is_sound(&self) -> bool {
        let set: u32 = self.map.iter().map(|byte| byte.count_ones()).sum();
        u32::from(self.valid) == set && self.log < 6
    }
}

/// All entries of a block.
pub(crate) fn decode(block: &Block) -> impl Iterator<Item = SitEntry> {
    let entries = block.chunks_exact(SIZE).take(PER_BLOCK);
    entries.map(SitEntry::decode)
}

/// A block of entries.
pub(crate) fn encode<'a>(entries: impl Iterator<Item = &'a SitEntry>) -> Box<Block> {
    let mut block = super::blank();
    for (entry, out) in entries.zip(block.chunks_exact_mut(SIZE)) {
        entry.encode(out);
    }
    block
}
