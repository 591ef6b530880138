//! The on-disk format: one home for each layout of bytes.
//!
//! Invariant: readers and writers of a structure share its table of fields; a node that passed
//! [`node::verify`] has items of the sizes that the accessors need.
//!
//! Numbers are little endian. A tree is found by its number in the tree of roots; an item
//! by its key: an object, a kind and an offset whose meaning the kind gives.
//= btrfs-format 1

pub(crate) mod extent;
pub(crate) mod inode;
pub(crate) mod node;
pub(crate) mod superblock;
pub(crate) mod tree;

/// Bytes of a sector, the unit of file contents: 4096.
pub const SECTOR: usize = 4096;
/// [`SECTOR`] as an address.
pub(crate) const SECTOR_BYTES: u64 = SECTOR as u64;
/// Bytes of a node of a tree: 16384, the default of `mkfs.btrfs`.
pub const NODE: usize = 16_384;
/// [`NODE`] as an address.
pub(crate) const NODE_BYTES: u64 = NODE as u64;
/// Sectors of a node.
pub(crate) const NODE_SECTORS: usize = NODE / SECTOR;

/// Contents of a sector.
pub type Block = [u8; SECTOR];

/// Identity of a file system, or of a part of one.
pub(crate) type Uuid = [u8; 16];

/// Sum of a node, a superblock or a sector of contents.
pub(crate) fn sum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// The same without the inversions at either end, as hashes of names use it.
//= btrfs-format 4.2
pub(crate) fn raw_crc(seed: u32, bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!seed, bytes)
}

/// Hash of a name: the offset of its [`kind::DIR_ITEM`] in the directory.
//= btrfs-format 4.2
pub(crate) fn name_hash(name: &[u8]) -> u64 {
    u64::from(raw_crc(!1, name))
}

/// Numbers of trees, and of objects in them.
pub(crate) mod id {
    pub(crate) const ROOT_TREE: u64 = 1;
    pub(crate) const EXTENT_TREE: u64 = 2;
    pub(crate) const CHUNK_TREE: u64 = 3;
    pub(crate) const DEV_TREE: u64 = 4;
    pub(crate) const FS_TREE: u64 = 5;
    /// The object in the tree of roots whose entry names the default subvolume.
    pub(crate) const ROOT_DIR: u64 = 6;
    pub(crate) const CSUM_TREE: u64 = 7;
    pub(crate) const UUID_TREE: u64 = 9;
    pub(crate) const ORPHANS: u64 = -5_i64 as u64;
    pub(crate) const LOG: u64 = -6_i64 as u64;
    pub(crate) const DATA_RELOC_TREE: u64 = -9_i64 as u64;
    pub(crate) const CSUMS: u64 = -10_i64 as u64;
    /// The first object that is a file; the directory at the top of a subvolume.
    pub(crate) const FIRST_FREE: u64 = 256;
    pub(crate) const LAST_FREE: u64 = -256_i64 as u64;
    /// The object that devices are items of.
    pub(crate) const DEV_ITEMS: u64 = 1;
    /// The object that chunks are items of.
    pub(crate) const CHUNKS: u64 = 256;
    /// Number of the only device.
    pub(crate) const DEVICE: u64 = 1;

    /// Whether a tree is one of files: a subvolume or a snapshot.
    pub(crate) const fn is_subvolume(tree: u64) -> bool {
        tree == FS_TREE || FIRST_FREE <= tree && tree <= LAST_FREE
    }
}

/// Kinds of items, the second part of a [`Key`].
pub(crate) mod kind {
    pub(crate) const INODE_ITEM: u8 = 1;
    pub(crate) const INODE_REF: u8 = 12;
    pub(crate) const INODE_EXTREF: u8 = 13;
    pub(crate) const XATTR_ITEM: u8 = 24;
    pub(crate) const ORPHAN_ITEM: u8 = 48;
    pub(crate) const DIR_ITEM: u8 = 84;
    pub(crate) const DIR_INDEX: u8 = 96;
    pub(crate) const EXTENT_DATA: u8 = 108;
    pub(crate) const EXTENT_CSUM: u8 = 128;
    pub(crate) const ROOT_ITEM: u8 = 132;
    pub(crate) const ROOT_BACKREF: u8 = 144;
    pub(crate) const ROOT_REF: u8 = 156;
    pub(crate) const EXTENT_ITEM: u8 = 168;
    pub(crate) const METADATA_ITEM: u8 = 169;
    pub(crate) const TREE_BLOCK_REF: u8 = 176;
    pub(crate) const EXTENT_DATA_REF: u8 = 178;
    pub(crate) const SHARED_BLOCK_REF: u8 = 182;
    pub(crate) const SHARED_DATA_REF: u8 = 184;
    pub(crate) const BLOCK_GROUP_ITEM: u8 = 192;
    pub(crate) const DEV_EXTENT: u8 = 204;
    pub(crate) const DEV_ITEM: u8 = 216;
    pub(crate) const CHUNK_ITEM: u8 = 228;
    pub(crate) const UUID_SUBVOL: u8 = 251;
}

/// Flags of a chunk and its block group: the type of contents, and the profile.
pub(crate) mod group {
    pub(crate) const DATA: u64 = 1;
    pub(crate) const SYSTEM: u64 = 2;
    pub(crate) const METADATA: u64 = 4;
    /// Two copies on the same device.
    pub(crate) const DUP: u64 = 1 << 5;
    /// The bits that say what, as opposed to how.
    pub(crate) const WHAT: u64 = DATA | SYSTEM | METADATA;
}

/// Key of an item; items of a tree are in the order of their keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) object: u64,
    pub(crate) kind: u8,
    pub(crate) offset: u64,
}

impl Key {
    /// Bytes of a key: 17.
    pub(crate) const BYTES: usize = 17;
    /// The last one of all.
    pub(crate) const MAX: Self = Self::new(u64::MAX, u8::MAX, u64::MAX);

    pub(crate) const fn new(object: u64, kind: u8, offset: u64) -> Self {
        Self {
            object,
            kind,
            offset,
        }
    }

    /// The key behind this one; none behind the last.
    pub(crate) const fn next(self) -> Option<Self> {
        let Self {
            object,
            kind,
            offset,
        } = self;
        if let Some(offset) = offset.checked_add(1) {
            return Some(Self::new(object, kind, offset));
        }
        match (kind.checked_add(1), object.checked_add(1)) {
            (Some(kind), _) => Some(Self::new(object, kind, 0)),
            (None, Some(object)) => Some(Self::new(object, 0, 0)),
            (None, None) => None,
        }
    }

    pub(crate) fn get(bytes: &[u8]) -> Self {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        Self::new(word(0), bytes[8], word(9))
    }

    pub(crate) fn put(self, bytes: &mut [u8]) {
        bytes[..8].copy_from_slice(&self.object.to_le_bytes());
        bytes[8] = self.kind;
        bytes[9..Self::BYTES].copy_from_slice(&self.offset.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_follow_each_other() {
        let key = Key::new(5, 1, 7);
        assert_eq!(key.next(), Some(Key::new(5, 1, 8)));
        assert_eq!(Key::new(5, 1, u64::MAX).next(), Some(Key::new(5, 2, 0)));
        let last = Key::new(5, u8::MAX, u64::MAX);
        assert_eq!(last.next(), Some(Key::new(6, 0, 0)));
        assert_eq!(Key::MAX.next(), None);
        let mut bytes = [0; Key::BYTES];
        key.put(&mut bytes);
        assert_eq!(Key::get(&bytes), key);
    }

    /// The name of the default subvolume, as `mkfs.btrfs` hashes it.
    #[test]
    fn names_are_hashed_as_by_others() {
        assert_eq!(name_hash(b"default"), 2_378_154_706);
    }
}
