//! Entries of a directory in a block.
//!
//! An entry is 8 bytes and a name, padded to 4 bytes; its length leads to the next entry, so the
//! entries of a block cover the block. An entry of inode 0 is unused. With `metadata_csum` the last
//! 12 bytes look like an entry without a name and hold the checksum.
//!
//! Invariant: [`Entries`] yields an error and ends where an entry does not lie
//! within the block, so no bytes make a walk endless.

use super::{Field, Value, crc};
use crate::BLOCK;
use vfs::FileKind;

/// Bytes before the name.
pub(crate) const HEAD: usize = 8;
/// Bytes of the tail with the checksum.
pub(crate) const TAIL: usize = 12;
/// Checksum of the block, in the last four bytes of the tail.
pub(crate) const CHECKSUM: Field<u32> = Field::at(BLOCK - 4);

/// File kind that marks the tail; no file has it.
const TAIL_KIND: u8 = 0xDE;

/// Error of a block with an entry that does not lie within the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damaged;

/// A directory entry; `name` borrows from the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    /// Offset in the block.
    pub(crate) at: usize,
    /// Bytes to the next entry, free space behind the name included.
    pub(crate) len: usize,
    /// Inode number; 0 of an unused entry.
    pub(crate) ino: u32,
    /// File kind as on the medium; [`kind_of`] translates it.
    pub(crate) kind: u8,
    /// Name of the file, at most 255 bytes.
    pub(crate) name: &'a [u8],
}

impl Entry<'_> {
    /// Bytes of the entry in use, with padding; 0 of an unused entry.
    pub(crate) fn used(&self) -> usize {
        if self.ino == 0 {
            0
        } else {
            needed(self.name.len())
        }
    }
}

/// Bytes that an entry with a name of this length needs.
pub(crate) const fn needed(name: usize) -> usize {
    (HEAD + name).next_multiple_of(4)
}

/// Iterator over the entries of a block; ends after the first error.
pub(crate) struct Entries<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Entries<'a> {
    /// Walks the entries of `block` below `end`, which excludes the tail.
    pub(crate) fn new(block: &'a [u8], end: usize) -> Self {
        Self {
            bytes: &block[..end],
            at: 0,
        }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, Damaged>;

    //= ext4-layout 5.4
    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        if at >= self.bytes.len() {
            return None;
        }
        let rest = &self.bytes[at..];
        self.at = self.bytes.len();
        if rest.len() < HEAD {
            return Some(Err(Damaged));
        }
        let len = usize::from(u16::load(&rest[4..]));
        let name = usize::from(rest[6]);
        if len % 4 != 0 || len < needed(name) || len > rest.len() {
            return Some(Err(Damaged));
        }
        self.at = at + len;
        Some(Ok(Entry {
            at,
            len,
            ino: u32::load(rest),
            kind: rest[7],
            name: &rest[HEAD..HEAD + name],
        }))
    }
}

/// The entry of a name and its predecessor in the block; `None` if the block lacks the name.
pub(crate) type Found<'a> = Option<(Entry<'a>, Option<Entry<'a>>)>;

/// Searches the entries below `end` for `name`.
pub(crate) fn find<'a>(block: &'a [u8], end: usize, name: &[u8]) -> Result<Found<'a>, Damaged> {
    let mut before = None;
    for entry in Entries::new(block, end) {
        let entry = entry?;
        if entry.ino != 0 && entry.name == name {
            return Ok(Some((entry, before)));
        }
        before = Some(entry);
    }
    Ok(None)
}

/// The first entry with at least `needed` bytes of free space behind its name.
pub(crate) fn gap(block: &[u8], end: usize, needed: usize) -> Result<Option<Entry<'_>>, Damaged> {
    for entry in Entries::new(block, end) {
        let entry = entry?;
        if entry.len - entry.used() >= needed {
            return Ok(Some(entry));
        }
    }
    Ok(None)
}

/// Encodes an entry into a buffer that holds the longest entry. Returns the number of bytes
/// without padding.
pub(crate) fn encode(out: &mut [u8; 264], ino: u32, len: usize, kind: u8, name: &[u8]) -> usize {
    ino.save(out);
    (len as u16).save(&mut out[4..]);
    out[6] = name.len() as u8;
    out[7] = kind;
    out[HEAD..HEAD + name.len()].copy_from_slice(name);
    HEAD + name.len()
}

/// Writes an entry to `block` at offset `at`; bytes behind the name stay.
pub(crate) fn put(block: &mut [u8], at: usize, ino: u32, len: usize, kind: u8, name: &[u8]) {
    let mut bytes = [0; 264];
    let used = encode(&mut bytes, ino, len, kind, name);
    block[at..at + used].copy_from_slice(&bytes[..used]);
}

/// Writes a tail to the end of `block`; its checksum stays 0.
pub(crate) fn put_tail(block: &mut [u8; BLOCK]) {
    let tail = &mut block[BLOCK - TAIL..];
    tail.fill(0);
    (TAIL as u16).save(&mut tail[4..]);
    tail[7] = TAIL_KIND;
}

/// Whether `block` ends in a tail.
pub(crate) fn has_tail(block: &[u8; BLOCK]) -> bool {
    let tail = &block[BLOCK - TAIL..];
    u32::load(tail) == 0
        && usize::from(u16::load(&tail[4..])) == TAIL
        && tail[6] == 0
        && tail[7] == TAIL_KIND
}

/// The checksum of a block of entries, all bytes before the tail; `seed` is that of the directory.
//= ext4-layout 5.4
pub(crate) fn checksum(seed: u32, block: &[u8; BLOCK]) -> u32 {
    crc(seed, &block[..BLOCK - TAIL])
}

/// Translates the kind of an entry; an unknown number counts as a regular file.
pub(crate) fn kind_of(number: u8) -> FileKind {
    FileKind::of_entry(number).unwrap_or(FileKind::Regular)
}

/// The first block of a new directory: `.` and `..`, and an unsealed tail if `tail`.
pub(crate) fn first_block(ino: u32, parent: u32, tail: bool) -> Box<[u8; BLOCK]> {
    let mut block = Box::new([0; BLOCK]);
    let end = BLOCK - if tail { TAIL } else { 0 };
    put(&mut block[..], 0, ino, 12, 2, b".");
    put(&mut block[..], 12, parent, end - 12, 2, b"..");
    if tail {
        put_tail(&mut block);
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_block_holds_dot_entries_and_a_tail() {
        let block = first_block(2, 2, true);
        let end = BLOCK - TAIL;
        let names: Vec<_> = Entries::new(&block[..], end)
            .map(|e| e.unwrap().name)
            .collect();
        assert_eq!(names, [&b"."[..], b".."]);
        assert!(has_tail(&block));
        let (found, before) = find(&block[..], end, b"..").unwrap().unwrap();
        assert_eq!((found.at, before.unwrap().at), (12, 0));
        let gap = gap(&block[..], end, 4060).unwrap().unwrap();
        assert_eq!(gap.at, 12);
    }

    #[test]
    fn walk_over_random_bytes_ends() {
        let mut rng = sim::Seed(2).stream("bytes");
        for _ in 0..2_000 {
            let mut block = first_block(2, 2, true);
            for _ in 0..rng.below(8) {
                block[rng.below(64) as usize] = rng.next_u64() as u8;
            }
            let count = Entries::new(&block[..], BLOCK).count();
            assert!(count <= BLOCK / HEAD);
        }
    }
}
