//! The index of a directory: a root in its first block and nodes below. Root and
//! nodes look like blocks whose directory entries leave the rest of the block free,
//! so that a reader without indexes skips them.
//!
//! The first index entry holds limit and count in place of a hash; it covers all
//! hashes below that of the second entry.

use super::{Value, crc};
use crate::BLOCK;

/// Offset of the entries in the root's block.
pub(crate) const ROOT_ENTRIES: usize = 32;
/// Offset of the entries in a node's block.
pub(crate) const NODE_ENTRIES: usize = 8;
/// Bytes of an index entry.
pub(crate) const ENTRY: usize = 8;
/// Most levels of nodes between the root and the blocks of directory entries.
pub(crate) const LEVELS_MAX: u8 = 1;

const INFO: usize = 24;

/// An index entry, which covers the hashes up to that of the next entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Least hash in the block; bit 0 says that names with this hash begin in the block before.
    pub(crate) hash: u32,
    /// Logical block of the directory: a node, or a block of directory entries.
    pub(crate) block: u32,
}

/// Description of the index in its root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Info {
    /// Hash version as on the medium; flags of the superblock add the signedness of bytes.
    pub(crate) hash_version: u8,
    /// Levels of nodes below the root, at most [`LEVELS_MAX`].
    pub(crate) levels: u8,
}

/// Most entries that a block holds from offset `at` on; the tail takes the room of one.
pub(crate) const fn limit(at: usize, tail: bool) -> usize {
    (BLOCK - at) / ENTRY - tail as usize
}

/// Reads the root's description; `None` if `block` is no sound root.
//= ext4-layout 5.4
pub(crate) fn info(block: &[u8; BLOCK]) -> Option<Info> {
    let (reserved, rest) = (u32::load(&block[INFO..]), &block[INFO + 4..]);
    let info = Info {
        hash_version: rest[0],
        levels: rest[2],
    };
    let sound = reserved == 0 && rest[1] == 8 && rest[3] & 1 == 0;
    (sound && info.levels <= LEVELS_MAX).then_some(info)
}

/// Writes the description to the root's `block`.
pub(crate) fn put_info(block: &mut [u8; BLOCK], info: Info) {
    block[INFO..INFO + 8].copy_from_slice(&[0, 0, 0, 0, info.hash_version, 8, info.levels, 0]);
}

/// Reads the entries from `at` on; `None` if the limit is wrong, the count is 0 or above the
/// limit, or the hashes are not sorted.
pub(crate) fn entries(block: &[u8; BLOCK], at: usize, tail: bool) -> Option<Vec<Entry>> {
    let (most, count) = (u16::load(&block[at..]), u16::load(&block[at + 2..]));
    let (most, count) = (usize::from(most), usize::from(count));
    if most != limit(at, tail) || count == 0 || count > most {
        return None;
    }
    let parts = block[at..].chunks_exact(ENTRY).take(count);
    let mut entries: Vec<_> = parts
        .map(|part| Entry {
            hash: u32::load(part),
            block: u32::load(&part[4..]),
        })
        .collect();
    entries[0].hash = 0;
    entries.is_sorted_by_key(|e| e.hash).then_some(entries)
}

/// Index of the entry that covers `hash`, by binary search in `block`; `None` if limit or count
/// is wrong.
pub(crate) fn child(block: &[u8; BLOCK], at: usize, hash: u32, tail: bool) -> Option<usize> {
    let (most, count) = (u16::load(&block[at..]), u16::load(&block[at + 2..]));
    let (most, count) = (usize::from(most), usize::from(count));
    if most != limit(at, tail) || count == 0 || count > most {
        return None;
    }
    let hash_at = |index: usize| u32::load(&block[at + index * ENTRY..]);
    let (mut low, mut high) = (1, count);
    while low < high {
        let middle = usize::midpoint(low, high);
        if hash_at(middle) > hash {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(low - 1)
}

/// The entry number `index`, and the count of entries. The caller has checked the block with
/// [`entries`] or [`child`].
pub(crate) fn entry(block: &[u8; BLOCK], at: usize, index: usize) -> (Entry, usize) {
    let count = usize::from(u16::load(&block[at + 2..]));
    let part = &block[at + index * ENTRY..];
    let hash = if index == 0 { 0 } else { u32::load(part) };
    let block = u32::load(&part[4..]);
    (Entry { hash, block }, count)
}

/// Writes `entries` from offset `at` on, with limit and count.
pub(crate) fn put_entries(block: &mut [u8; BLOCK], at: usize, entries: &[Entry], tail: bool) {
    for (entry, part) in entries.iter().zip(block[at..].chunks_exact_mut(ENTRY)) {
        entry.hash.save(part);
        entry.block.save(&mut part[4..]);
    }
    (limit(at, tail) as u16).save(&mut block[at..]);
    (entries.len() as u16).save(&mut block[at + 2..]);
}

/// Writes the head of a node: one unused directory entry as long as the block.
pub(crate) fn put_node_head(block: &mut [u8; BLOCK]) {
    block[..NODE_ENTRIES].fill(0);
    (BLOCK as u16).save(&mut block[4..]);
}

/// Offset of the checksum: the second half of the tail, which follows the last possible entry.
fn checksum_at(at: usize) -> usize {
    at + limit(at, true) * ENTRY + 4
}

/// The checksum of the bytes up to the last used entry and of the tail; `None` if the count is
/// above the limit.
//= ext4-layout 5.4
pub(crate) fn checksum(seed: u32, block: &[u8; BLOCK], at: usize) -> Option<u32> {
    let count = usize::from(u16::load(&block[at + 2..]));
    if count > limit(at, true) {
        return None;
    }
    let tail = checksum_at(at) - 4;
    let crc1 = crc(seed, &block[..at + count * ENTRY]);
    let crc2 = crc(crc1, &block[tail..tail + 4]);
    Some(crc(crc2, &[0; 4]))
}

/// Whether the stored checksum matches the block.
pub(crate) fn is_whole(seed: u32, block: &[u8; BLOCK], at: usize) -> bool {
    let stored = u32::load(&block[checksum_at(at)..]);
    checksum(seed, block, at) == Some(stored)
}

/// Stores the checksum, unless the count is above the limit.
pub(crate) fn seal(seed: u32, block: &mut [u8; BLOCK], at: usize) {
    if let Some(sum) = checksum(seed, block, at) {
        sum.save(&mut block[checksum_at(at)..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_of_root_and_node_matches_the_format() {
        assert_eq!(limit(ROOT_ENTRIES, true), 507);
        assert_eq!(limit(NODE_ENTRIES, true), 510);
        assert_eq!(limit(ROOT_ENTRIES, false), 508);
    }

    #[test]
    fn search_for_a_hash_finds_the_last_entry_not_above() {
        let mut block = [0; BLOCK];
        let list = [0, 10, 20, 21].into_iter().zip(1..);
        let list: Vec<_> = list.map(|(hash, block)| Entry { hash, block }).collect();
        put_node_head(&mut block);
        put_entries(&mut block, NODE_ENTRIES, &list, true);
        assert_eq!(entries(&block, NODE_ENTRIES, true), Some(list));
        for (hash, index) in [(0, 0), (9, 0), (10, 1), (20, 2), (99, 3)] {
            assert_eq!(
                child(&block, NODE_ENTRIES, hash, true),
                Some(index),
                "{hash}"
            );
        }
        seal(3, &mut block, NODE_ENTRIES);
        assert!(is_whole(3, &block, NODE_ENTRIES));
    }
}
