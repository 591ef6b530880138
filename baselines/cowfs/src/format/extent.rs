//! Items about space: extents and their references, extents of files, checksums of contents, and
//! block groups.
//= btrfs-format 3

use super::{Key, SECTOR_BYTES, kind};

/// An extent: so many references, since this generation, of this kind. References that fit follow.
pub(crate) mod item {
    units::layout! { 24:
        REFS: u64 = 0,
        GENERATION: u64 = 8,
        FLAGS: u64 = 16,
    }
    pub(crate) const SIZE: usize = 24;
}

/// It holds contents of files.
pub(crate) const DATA: u64 = 1;
/// It is a node.
pub(crate) const TREE_BLOCK: u64 = 2;
/// Whatever the node leads to is referred to by the node, not by the tree that it is in.
pub(crate) const FULL_BACKREF: u64 = 1 << 8;

/// Bytes that references inside an extent's item may make of it, at most; others have
/// items of their own. A sixteenth of a leaf, as in Linux.
pub(crate) const ITEM_MOST: usize = super::node::LEAF / 16;

/// Reference to an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ref {
    /// A node: the tree that it is in.
    Tree(u64),
    /// Contents: a tree, an inode, and where the extent would begin in the file.
    Data { root: u64, ino: u64, offset: u64 },
    /// A node: the node that leads to it.
    Node(u64),
    /// Contents: the leaf that leads to them.
    Leaf(u64),
}

/// Bytes of an extent of a file in [`Ref::Data`].
mod data_ref {
    units::layout! { 28:
        ROOT: u64 = 0,
        INO: u64 = 8,
        OFFSET: u64 = 16,
        COUNT: u32 = 24,
    }
    pub(super) const SIZE: usize = 28;
}

impl Ref {
    /// Its kind as an item.
    pub(crate) const fn kind(self) -> u8 {
        match self {
            Self::Tree(_) => kind::TREE_BLOCK_REF,
            Self::Data { .. } => kind::EXTENT_DATA_REF,
            Self::Node(_) => kind::SHARED_BLOCK_REF,
            Self::Leaf(_) => kind::SHARED_DATA_REF,
        }
    }

    /// Second part of the reference's key: a number, or the hash of a data reference.
    //= btrfs-format 3.2
    pub(crate) fn hash(self) -> u64 {
        match self {
            Self::Tree(number) | Self::Node(number) | Self::Leaf(number) => number,
            Self::Data { root, ino, offset } => {
                let high = super::raw_crc(!0, &root.to_le_bytes());
                let low = super::raw_crc(!0, &ino.to_le_bytes());
                let low = super::raw_crc(low, &offset.to_le_bytes());
                u64::from(high) << 31 ^ u64::from(low)
            }
        }
    }

    /// Bytes of it within the item of an extent.
    const fn len(self) -> usize {
        match self {
            Self::Tree(_) | Self::Node(_) => 9,
            Self::Data { .. } => 1 + data_ref::SIZE,
            Self::Leaf(_) => 13,
        }
    }

    /// Its bytes within the item of an extent, there `count` times.
    fn put(self, count: u32, out: &mut Vec<u8>) {
        out.push(self.kind());
        match self {
            Self::Tree(number) | Self::Node(number) => out.extend(number.to_le_bytes()),
            Self::Leaf(number) => {
                out.extend(number.to_le_bytes());
                out.extend(count.to_le_bytes());
            }
            Self::Data { .. } => out.extend(self.item(count)),
        }
    }

    /// Its bytes as an item of its own, there `count` times.
    pub(crate) fn item(self, count: u32) -> Vec<u8> {
        match self {
            Self::Tree(_) | Self::Node(_) => Vec::new(),
            Self::Leaf(_) => count.to_le_bytes().to_vec(),
            Self::Data { root, ino, offset } => {
                let mut bytes = vec![0; data_ref::SIZE];
                data_ref::ROOT.put(&mut bytes, root);
                data_ref::INO.put(&mut bytes, ino);
                data_ref::OFFSET.put(&mut bytes, offset);
                data_ref::COUNT.put(&mut bytes, count);
                bytes
            }
        }
    }

    /// The reference that an item of its own is, and how often.
    pub(crate) fn of_item(key: Key, data: &[u8]) -> Option<(Self, u32)> {
        Some(match key.kind {
            kind::TREE_BLOCK_REF => (Self::Tree(key.offset), 1),
            kind::SHARED_BLOCK_REF => (Self::Node(key.offset), 1),
            kind::SHARED_DATA_REF => {
                let count = data.first_chunk::<4>()?;
                (Self::Leaf(key.offset), u32::from_le_bytes(*count))
            }
            kind::EXTENT_DATA_REF => Self::of_data(data)?,
            _ => return None,
        })
    }

    fn of_data(data: &[u8]) -> Option<(Self, u32)> {
        let data = data.get(..data_ref::SIZE)?;
        let found = Self::Data {
            root: data_ref::ROOT.get(data),
            ino: data_ref::INO.get(data),
            offset: data_ref::OFFSET.get(data),
        };
        Some((found, data_ref::COUNT.get(data)))
    }

    /// The reference at the start of `bytes`, how often it is there, and its length.
    fn within(bytes: &[u8]) -> Option<(Self, u32, usize)> {
        let (&kind, rest) = bytes.split_first()?;
        if kind == kind::EXTENT_DATA_REF {
            let (found, count) = Self::of_data(rest)?;
            return Some((found, count, found.len()));
        }
        let number = u64::from_le_bytes(*rest.first_chunk::<8>()?);
        Some(match kind {
            kind::TREE_BLOCK_REF => (Self::Tree(number), 1, 9),
            kind::SHARED_BLOCK_REF => (Self::Node(number), 1, 9),
            kind::SHARED_DATA_REF => {
                let count = u32::from_le_bytes(*rest[8..].first_chunk::<4>()?);
                (Self::Leaf(number), count, 13)
            }
            _ => return None,
        })
    }
}

/// An extent, as its item says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) refs: u64,
    pub(crate) generation: u64,
    pub(crate) flags: u64,
    /// References within the item, each with how often it is there.
    pub(crate) inline: Vec<(Ref, u32)>,
}

impl Extent {
    pub(crate) fn get(data: &[u8]) -> Option<Self> {
        if data.len() < item::SIZE {
            return None;
        }
        let (mut at, mut inline) = (item::SIZE, Vec::new());
        while at < data.len() {
            let (found, count, len) = Ref::within(&data[at..])?;
            inline.push((found, count));
            at += len;
        }
        Some(Self {
            refs: item::REFS.get(data),
            generation: item::GENERATION.get(data),
            flags: item::FLAGS.get(data),
            inline,
        })
    }

    /// Its bytes. References are sorted by kind, and those of a kind from the highest hash on.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = vec![0; item::SIZE];
        item::REFS.put(&mut out, self.refs);
        item::GENERATION.put(&mut out, self.generation);
        item::FLAGS.put(&mut out, self.flags);
        let mut sorted = self.inline.clone();
        sorted.sort_by_key(|(found, _)| (found.kind(), std::cmp::Reverse(found.hash())));
        for (found, count) in sorted {
            found.put(count, &mut out);
        }
        out
    }

    /// Whether one more reference has room within the item.
    pub(crate) fn has_room(&self, more: Ref) -> bool {
        let held: usize = self.inline.iter().map(|(found, _)| found.len()).sum();
        item::SIZE + held + more.len() < ITEM_MOST
    }
}

/// Fields of a block group's item.
pub(crate) mod group {
    units::layout! { 24:
        USED: u64 = 0,
        CHUNK_OBJECT: u64 = 8,
        FLAGS: u64 = 16,
    }
    pub(crate) const SIZE: usize = 24;
}

/// A piece of a file.
mod file {
    units::layout! { 53:
        GENERATION: u64 = 0,
        RAM_BYTES: u64 = 8,
        COMPRESSION: u8 = 16,
        ENCRYPTION: u8 = 17,
        OTHER: u16 = 18,
        KIND: u8 = 20,
        BYTENR: u64 = 21,
        LEN: u64 = 29,
        OFFSET: u64 = 37,
        BYTES: u64 = 45,
    }
    pub(super) const SIZE: usize = 53;
    /// Bytes before contents that lie in the item.
    pub(super) const INLINE: usize = 21;
}

/// Bytes of contents that lie in an item of a file, at most: 2048, the default of Linux.
pub(crate) const INLINE_MOST: u64 = 2_048;

/// A piece of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// The contents themselves, from the start of the file.
    Inline(&'a [u8]),
    /// A part of an extent.
    Extent(Part),
}

/// A part of an extent that a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// The generation that it was written in.
    pub(crate) generation: u64,
    /// Address of the extent; 0 for a hole.
    pub(crate) bytenr: u64,
    /// Bytes of the extent.
    pub(crate) len: u64,
    /// Offset of the part in the extent, in bytes.
    pub(crate) offset: u64,
    /// Bytes of the part.
    pub(crate) bytes: u64,
    /// Whether it was written: else it reads as zeros.
    pub(crate) written: bool,
}

impl Part {
    /// The part of this part that begins `skip` bytes behind its start.
    pub(crate) const fn from(self, skip: u64) -> Self {
        Self {
            offset: self.offset + skip,
            bytes: self.bytes - skip,
            ..self
        }
    }

    /// Its first `bytes` bytes.
    pub(crate) const fn until(self, bytes: u64) -> Self {
        Self { bytes, ..self }
    }

    /// Reference that the inode `ino` of the tree `root` holds on the extent, with the part at
    /// offset `at` of the file.
    pub(crate) const fn owner(self, root: u64, ino: u64, at: u64) -> Ref {
        Ref::Data {
            root,
            ino,
            offset: at.wrapping_sub(self.offset),
        }
    }

    pub(crate) const fn is_hole(self) -> bool {
        self.bytenr == 0
    }

    /// Its bytes as an item.
    pub(crate) fn item(self) -> [u8; file::SIZE] {
        let mut bytes = [0; file::SIZE];
        let out = &mut bytes[..];
        file::GENERATION.put(out, self.generation);
        file::RAM_BYTES.put(out, if self.is_hole() { self.bytes } else { self.len });
        file::KIND.put(out, if self.written { 1 } else { 2 });
        file::BYTENR.put(out, self.bytenr);
        file::LEN.put(out, if self.is_hole() { 0 } else { self.len });
        file::OFFSET.put(out, self.offset);
        file::BYTES.put(out, self.bytes);
        bytes
    }
}

/// The item of contents that lie in it.
pub(crate) fn inline_item(generation: u64, contents: &[u8]) -> Vec<u8> {
    let mut out = vec![0; file::INLINE];
    file::GENERATION.put(&mut out, generation);
    file::RAM_BYTES.put(&mut out, contents.len() as u64);
    out.extend_from_slice(contents);
    out
}

/// The piece of a file that an item is; none if it is packed in a way that nothing here can read.
pub(crate) fn piece(data: &[u8]) -> Option<Piece<'_>> {
    let plain = file::COMPRESSION.get(data) == 0
        && file::ENCRYPTION.get(data) == 0
        && file::OTHER.get(data) == 0;
    if !plain {
        return None;
    }
    if file::KIND.get(data) == 0 {
        return Some(Piece::Inline(&data[file::INLINE..]));
    }
    Some(Piece::Extent(part(data)))
}

/// The part of an extent that an item of a file refers to, also if it is packed; none if it
/// is a hole, or has the contents itself.
pub(crate) fn referred(data: &[u8]) -> Option<Part> {
    (file::KIND.get(data) != 0)
        .then(|| part(data))
        .filter(|part| !part.is_hole())
}

fn part(data: &[u8]) -> Part {
    Part {
        generation: file::GENERATION.get(data),
        bytenr: file::BYTENR.get(data),
        len: file::LEN.get(data),
        offset: file::OFFSET.get(data),
        bytes: file::BYTES.get(data),
        written: file::KIND.get(data) == 1,
    }
}

fn piece_is_sound(key: Key, data: &[u8]) -> bool {
    if data.len() < file::INLINE || file::KIND.get(data) > 2 {
        return false;
    }
    match piece(data) {
        // A compressed piece is not read, but its reference to the extent is known.
        None => file::KIND.get(data) == 0 || data.len() == file::SIZE,
        Some(Piece::Inline(bytes)) => key.offset == 0 && bytes.len() <= super::SECTOR,
        Some(Piece::Extent(part)) => {
            let numbers = [part.bytenr, part.len, part.offset, part.bytes, key.offset];
            let aligned = numbers.iter().all(|n| n.is_multiple_of(SECTOR_BYTES));
            let end = part.offset.checked_add(part.bytes);
            let within = part.is_hole() || end.is_some_and(|end| end <= part.len);
            let fits = key.offset.checked_add(part.bytes).is_some();
            let placed = part.bytenr.checked_add(part.len).is_some();
            data.len() == file::SIZE && aligned && within && fits && placed && part.bytes > 0
        }
    }
}

/// Bytes of contents that the sums in an item are of.
pub(crate) fn summed(data: &[u8]) -> u64 {
    data.len() as u64 / 4 * SECTOR_BYTES
}

/// Whether an item is one that the functions here can read, if it is one of theirs.
pub(crate) fn is_sound(key: Key, data: &[u8]) -> bool {
    let whole = |n: u64| n.is_multiple_of(SECTOR_BYTES);
    let within = |len: u64| {
        len > 0 && whole(key.object) && whole(len) && key.object.checked_add(len).is_some()
    };
    match key.kind {
        kind::EXTENT_DATA => data.len() >= file::SIZE.min(data.len()) && piece_is_sound(key, data),
        kind::EXTENT_CSUM => {
            let end = key.offset.checked_add(summed(data));
            let aligned = key.offset.is_multiple_of(SECTOR_BYTES);
            !data.is_empty() && data.len().is_multiple_of(4) && aligned && end.is_some()
        }
        kind::EXTENT_ITEM => within(key.offset) && Extent::get(data).is_some(),
        kind::METADATA_ITEM => within(super::NODE_BYTES) && Extent::get(data).is_some(),
        kind::EXTENT_DATA_REF => data.len() == data_ref::SIZE,
        kind::SHARED_DATA_REF => data.len() == 4,
        kind::BLOCK_GROUP_ITEM => data.len() == group::SIZE && within(key.offset),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extent_keeps_its_references_in_order() {
        let data = |ino| Ref::Data {
            root: 5,
            ino,
            offset: 0,
        };
        let extent = Extent {
            refs: 5,
            generation: 7,
            flags: DATA,
            inline: vec![(Ref::Leaf(9), 1), (data(1), 2), (data(2), 1), (data(3), 1)],
        };
        let again = Extent::get(&extent.bytes()).unwrap();
        let hashes: Vec<u64> = again.inline[..3].iter().map(|(r, _)| r.hash()).collect();
        assert!(hashes.is_sorted_by(|a, b| a > b));
        assert_eq!(again.inline[3], (Ref::Leaf(9), 1));
        assert_eq!(Extent::get(&extent.bytes()[..30]), None);
    }

    #[test]
    fn a_piece_of_a_file_is_read_back() {
        let part = Part {
            generation: 7,
            bytenr: 1 << 20,
            len: 1 << 16,
            offset: 4_096,
            bytes: 8_192,
            written: true,
        };
        assert_eq!(piece(&part.item()), Some(Piece::Extent(part)));
        let late = part.from(4_096);
        assert_eq!((late.offset, late.bytes), (8_192, 4_096));
        assert_eq!(late.owner(5, 257, 8_192), part.owner(5, 257, 4_096));
        let inline = inline_item(7, b"text");
        assert_eq!(piece(&inline), Some(Piece::Inline(b"text")));
        let key = Key::new(257, kind::EXTENT_DATA, 4_096);
        assert!(piece_is_sound(key, &part.item()) && !piece_is_sound(key, &inline));
    }
}
