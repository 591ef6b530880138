//! Nodes of an extent tree: a header of 12 bytes and entries of 12 bytes, in the
//! map of the inode or in a block with a checksum behind the last entry.
//!
//! Invariants of a node that [`Node::decode`] accepts: entries are sorted, do not overlap and lie
//! within the range of the parent's entry; the depth is the expected one, so every walk ends.

use super::{Field, Value, crc, layout};
use crate::BLOCK;

/// Bytes of the header, and of an entry.
pub(crate) const ENTRY: usize = 12;
/// Entries of the map of an inode.
pub(crate) const ROOT_MAX: usize = 4;
/// Entries of a block.
pub(crate) const BLOCK_MAX: usize = (BLOCK - ENTRY) / ENTRY;
/// Greatest depth of a tree: levels above the leaves.
pub(crate) const DEPTH_MAX: u16 = 5;
/// Longest written extent in blocks; an unwritten extent has at most one block less.
pub(crate) const LEN_MAX: u32 = 32768;
/// Checksum of a node's block, behind the last possible entry.
pub(crate) const CHECKSUM: Field<u32> = Field::at(ENTRY + BLOCK_MAX * ENTRY);
const _: () = assert!(CHECKSUM.at == 4092);

const MAGIC_NUMBER: u16 = 0xF30A;

//= ext4-layout 5.3
layout! { 12:
    MAGIC: u16 = 0x0,
    ENTRIES: u16 = 0x2,
    MAX: u16 = 0x4,
    DEPTH: u16 = 0x6,
    GENERATION: u32 = 0x8,
}

/// An extent (consecutive blocks of a file) in a leaf, or a pointer to a lower node in any other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    /// First block of the file.
    pub(crate) logical: u32,
    /// Length in blocks; 0 of a pointer.
    pub(crate) len: u32,
    /// Whether the blocks are allocated and read as zeros, since they were never written.
    pub(crate) unwritten: bool,
    /// First block on the medium, or the block of the lower node.
    pub(crate) start: u64,
}

impl Entry {
    /// One past the last block of the file.
    pub(crate) fn end(&self) -> u64 {
        u64::from(self.logical) + u64::from(self.len)
    }

    /// Most blocks of an extent, by whether it is unwritten.
    pub(crate) fn longest(unwritten: bool) -> u32 {
        LEN_MAX - u32::from(unwritten)
    }

    /// Whether `self` and `next` make one extent: adjacent in the file and on the medium, of the
    /// same kind, and no longer together than [`Entry::longest`].
    pub(crate) fn joins(&self, next: &Self) -> bool {
        self.end() == u64::from(next.logical)
            && self.start + u64::from(self.len) == next.start
            && self.unwritten == next.unwritten
            && self.len + next.len <= Self::longest(self.unwritten)
    }

    /// The part of the extent within blocks `from..to` of the file; `None` if they do not meet.
    pub(crate) fn part(&self, from: u64, to: u64) -> Option<Self> {
        let first = from.max(u64::from(self.logical));
        let last = to.min(self.end());
        (first < last).then(|| Self {
            logical: first as u32,
            len: (last - first) as u32,
            start: self.start + (first - u64::from(self.logical)),
            unwritten: self.unwritten,
        })
    }

    //= ext4-layout 5.3
    fn decode(bytes: &[u8], leaf: bool) -> Self {
        let logical = u32::load(bytes);
        if !leaf {
            let start = u64::from(u32::load(&bytes[4..])) | u64::from(u16::load(&bytes[8..])) << 32;
            return Self {
                logical,
                start,
                ..Self::default()
            };
        }
        let len = u32::from(u16::load(&bytes[4..]));
        let hi = u64::from(u16::load(&bytes[6..]));
        let unwritten = len > LEN_MAX;
        Self {
            logical,
            len: if unwritten { len - LEN_MAX } else { len },
            unwritten,
            start: u64::from(u32::load(&bytes[8..])) | hi << 32,
        }
    }

    fn encode(&self, bytes: &mut [u8], leaf: bool) {
        self.logical.save(bytes);
        if leaf {
            let len = self.len + if self.unwritten { LEN_MAX } else { 0 };
            (len as u16).save(&mut bytes[4..]);
            ((self.start >> 32) as u16).save(&mut bytes[6..]);
            (self.start as u32).save(&mut bytes[8..]);
        } else {
            (self.start as u32).save(&mut bytes[4..]);
            ((self.start >> 32) as u16).save(&mut bytes[8..]);
            0_u16.save(&mut bytes[10..]);
        }
    }
}

/// A decoded node of the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    /// Levels below the node; 0 of a leaf.
    pub(crate) depth: u16,
    /// Extents of a leaf or pointers of another node, by logical block.
    pub(crate) entries: Vec<Entry>,
}

/// Demands of [`Node::decode`] on a node, from the parent's entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expect {
    /// Depth of the node; `None` of a root, which may have any.
    pub(crate) depth: Option<u16>,
    /// First block of the file that the node may map.
    pub(crate) from: u64,
    /// One past the last block of the file that the node may map.
    pub(crate) to: u64,
}

impl Expect {
    /// Demands on a root: any depth, all 2^32 blocks of a file.
    pub(crate) const ROOT: Self = Self {
        depth: None,
        from: 0,
        to: 1 << 32,
    };
}

impl Node {
    /// Reads a node from the map of an inode or a block; `None` if it is not sound or fails
    /// `expect`.
    pub(crate) fn decode(bytes: &[u8], expect: Expect) -> Option<Self> {
        let most = (bytes.len() - ENTRY) / ENTRY;
        let (count, max) = (ENTRIES.get(bytes), MAX.get(bytes));
        let depth = DEPTH.get(bytes);
        let shape = MAGIC.get(bytes) == MAGIC_NUMBER
            && usize::from(max) <= most
            && count <= max
            && depth <= DEPTH_MAX
            && expect.depth.is_none_or(|wanted| wanted == depth);
        if !shape {
            return None;
        }
        let parts = bytes[ENTRY..].chunks_exact(ENTRY).take(usize::from(count));
        let entries: Vec<_> = parts.map(|part| Entry::decode(part, depth == 0)).collect();
        let node = Self { depth, entries };
        node.is_sound(expect).then_some(node)
    }

    fn is_sound(&self, expect: Expect) -> bool {
        let mut from = expect.from;
        if self.entries.is_empty() {
            return expect.depth.is_none() && self.depth == 0;
        }
        self.entries.iter().enumerate().all(|(index, entry)| {
            let first = u64::from(entry.logical);
            let fits = first >= from || index == 0 && self.depth > 0 && expect.depth.is_none();
            let end = if self.depth == 0 {
                entry.end()
            } else {
                first + 1
            };
            from = end;
            fits && end > first && end <= expect.to && entry.start != 0
        })
    }

    /// Writes the node over `bytes`, the map of an inode or a block; bytes behind the entries stay.
    pub(crate) fn encode(&self, bytes: &mut [u8]) {
        let most = (bytes.len() - ENTRY) / ENTRY;
        MAGIC.put(bytes, MAGIC_NUMBER);
        ENTRIES.put(bytes, self.entries.len() as u16);
        MAX.put(bytes, most as u16);
        DEPTH.put(bytes, self.depth);
        for (entry, part) in self
            .entries
            .iter()
            .zip(bytes[ENTRY..].chunks_exact_mut(ENTRY))
        {
            entry.encode(part, self.depth == 0);
        }
    }

    /// Index of the last entry that begins at or before `logical`; `None` if all begin after it.
    pub(crate) fn position(&self, logical: u64) -> Option<usize> {
        let after = self
            .entries
            .partition_point(|e| u64::from(e.logical) <= logical);
        after.checked_sub(1)
    }
}

/// The map of an empty file: a leaf without entries.
pub(crate) fn empty_map() -> [u8; super::inode::MAP_SIZE] {
    let mut map = [0; super::inode::MAP_SIZE];
    Node::default().encode(&mut map);
    map
}

/// The checksum of a node's block; `seed` is that of the inode.
//= ext4-layout 5.3
pub(crate) fn checksum(seed: u32, block: &[u8; BLOCK]) -> u32 {
    crc(seed, &block[..CHECKSUM.at])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(logical: u32, len: u32, start: u64, unwritten: bool) -> Entry {
        Entry {
            logical,
            len,
            unwritten,
            start,
        }
    }

    #[test]
    fn leaf_encoded_and_decoded_is_unchanged() {
        let entries = vec![
            entry(0, 32768, 1 << 40, false),
            entry(40_000, 32767, 9, true),
        ];
        let leaf = Node { depth: 0, entries };
        let mut map = [0; 60];
        leaf.encode(&mut map);
        assert_eq!(Node::decode(&map, Expect::ROOT), Some(leaf));
    }

    #[test]
    fn overlaps_and_wrong_depths_are_refused() {
        let entries = vec![entry(0, 10, 100, false), entry(9, 1, 300, false)];
        let mut map = [0; 60];
        Node { depth: 0, entries }.encode(&mut map);
        assert_eq!(Node::decode(&map, Expect::ROOT), None);
        let depth = Some(1);
        let child = Expect {
            depth,
            ..Expect::ROOT
        };
        assert_eq!(Node::decode(&empty_map(), child), None);
    }

    #[test]
    fn decode_of_random_bytes_does_not_panic() {
        let mut rng = sim::Seed(1).stream("bytes");
        for _ in 0..10_000 {
            let mut map = [0; 60];
            Node::default().encode(&mut map);
            for _ in 0..rng.below(6) {
                map[rng.below(60) as usize] = rng.next_u64() as u8;
            }
            let _ = Node::decode(&map, Expect::ROOT);
        }
    }
}
