//! The superblock: bytes 1024 to 2047 of the medium, with copies in some groups.
//!
//! Invariants: this module alone knows names and bits of features; the checksum
//! covers all bytes before itself.

use super::{crc, layout};

/// Bytes of a superblock.
pub(crate) const SIZE: usize = 1024;
/// Offset of the first superblock in block 0.
pub(crate) const OFFSET: usize = 1024;
/// Value of `MAGIC` in a superblock of ext4.
pub(crate) const MAGIC_NUMBER: u16 = 0xEF53;
/// `STATE`: the last mount ended with an unmount.
pub(crate) const STATE_CLEAN: u16 = 1;
/// `STATE`: an error was recorded; the file system needs a check.
pub(crate) const STATE_ERROR: u16 = 2;
/// `LAST_ERROR_CODE`: the medium failed (`EXT4_ERR_EIO`).
const ERROR_EIO: u8 = 2;
/// `FLAGS`: directory hashes take bytes of names as signed.
pub(crate) const FLAG_SIGNED_HASH: u32 = 1;
/// `FLAGS`: directory hashes take bytes of names as unsigned.
pub(crate) const FLAG_UNSIGNED_HASH: u32 = 2;
/// `CHECKSUM_TYPE`: CRC-32C, the only type that the format defines.
pub(crate) const CHECKSUM_CRC32C: u8 = 1;

//= ext4-layout 4.1
layout! { 1024:
    INODES_COUNT: u32 = 0x0,
    BLOCKS_LO: u32 = 0x4,
    RESERVED_LO: u32 = 0x8,
    FREE_BLOCKS_LO: u32 = 0xC,
    FREE_INODES: u32 = 0x10,
    FIRST_DATA_BLOCK: u32 = 0x14,
    LOG_BLOCK_SIZE: u32 = 0x18,
    LOG_CLUSTER_SIZE: u32 = 0x1C,
    BLOCKS_PER_GROUP: u32 = 0x20,
    CLUSTERS_PER_GROUP: u32 = 0x24,
    INODES_PER_GROUP: u32 = 0x28,
    MOUNT_TIME: u32 = 0x2C,
    WRITE_TIME: u32 = 0x30,
    MOUNTS: u16 = 0x34,
    MOUNTS_MAX: u16 = 0x36,
    MAGIC: u16 = 0x38,
    STATE: u16 = 0x3A,
    ERRORS: u16 = 0x3C,
    MINOR_REVISION: u16 = 0x3E,
    LAST_CHECK: u32 = 0x40,
    CHECK_INTERVAL: u32 = 0x44,
    CREATOR_OS: u32 = 0x48,
    REVISION: u32 = 0x4C,
    RESERVED_UID: u16 = 0x50,
    RESERVED_GID: u16 = 0x52,
    FIRST_INODE: u32 = 0x54,
    INODE_SIZE: u16 = 0x58,
    BLOCK_GROUP: u16 = 0x5A,
    COMPAT: u32 = 0x5C,
    INCOMPAT: u32 = 0x60,
    RO_COMPAT: u32 = 0x64,
    UUID: [u8; 16] = 0x68,
    LABEL: [u8; 16] = 0x78,
    RESERVED_GDT_BLOCKS: u16 = 0xCE,
    JOURNAL_UUID: [u8; 16] = 0xD0,
    JOURNAL_INODE: u32 = 0xE0,
    JOURNAL_DEVICE: u32 = 0xE4,
    LAST_ORPHAN: u32 = 0xE8,
    HASH_SEED: [u8; 16] = 0xEC,
    HASH_VERSION: u8 = 0xFC,
    JOURNAL_BACKUP_TYPE: u8 = 0xFD,
    DESCRIPTOR_SIZE: u16 = 0xFE,
    DEFAULT_MOUNT_OPTIONS: u32 = 0x100,
    FIRST_META_GROUP: u32 = 0x104,
    MKFS_TIME: u32 = 0x108,
    JOURNAL_BLOCKS: [u8; 68] = 0x10C,
    BLOCKS_HI: u32 = 0x150,
    RESERVED_HI: u32 = 0x154,
    FREE_BLOCKS_HI: u32 = 0x158,
    MIN_EXTRA_ISIZE: u16 = 0x15C,
    WANT_EXTRA_ISIZE: u16 = 0x15E,
    FLAGS: u32 = 0x160,
    LOG_GROUPS_PER_FLEX: u8 = 0x174,
    CHECKSUM_TYPE: u8 = 0x175,
    ERROR_COUNT: u32 = 0x194,
    FIRST_ERROR_TIME: u32 = 0x198,
    LAST_ERROR_TIME: u32 = 0x1CC,
    BACKUP_GROUPS: [u8; 8] = 0x24C,
    CHECKSUM_SEED: u32 = 0x270,
    FIRST_ERROR_CODE: u8 = 0x27A,
    LAST_ERROR_CODE: u8 = 0x27B,
    ORPHAN_FILE_INODE: u32 = 0x280,
    CHECKSUM: u32 = 0x3FC,
}

/// A class of features, by the access that an implementation may take that lacks a feature of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// An implementation without the feature may read and write.
    Compat,
    /// An implementation without the feature must not mount.
    Incompat,
    /// An implementation without the feature may only read.
    RoCompat,
}

macro_rules! features {
    ($($name:ident = $class:ident $bit:literal $text:literal,)*) => {
        $(pub(crate) const $name: u32 = $bit;)*
        /// Class, bit and name of each feature that has a name.
        const NAMES: &[(Class, u32, &str)] = &[$((Class::$class, $name, $text),)*];
    };
}

//= ext4-layout 4.1
features! {
    COMPAT_HAS_JOURNAL = Compat 0x4 "has_journal",
    COMPAT_EXT_ATTR = Compat 0x8 "ext_attr",
    COMPAT_RESIZE_INODE = Compat 0x10 "resize_inode",
    COMPAT_DIR_INDEX = Compat 0x20 "dir_index",
    COMPAT_SPARSE_SUPER2 = Compat 0x200 "sparse_super2",
    COMPAT_FAST_COMMIT = Compat 0x400 "fast_commit",
    COMPAT_STABLE_INODES = Compat 0x800 "stable_inodes",
    COMPAT_ORPHAN_FILE = Compat 0x1000 "orphan_file",
    INCOMPAT_COMPRESSION = Incompat 0x1 "compression",
    INCOMPAT_FILETYPE = Incompat 0x2 "filetype",
    INCOMPAT_RECOVER = Incompat 0x4 "needs_recovery",
    INCOMPAT_JOURNAL_DEV = Incompat 0x8 "journal_dev",
    INCOMPAT_META_BG = Incompat 0x10 "meta_bg",
    INCOMPAT_EXTENTS = Incompat 0x40 "extent",
    INCOMPAT_64BIT = Incompat 0x80 "64bit",
    INCOMPAT_MMP = Incompat 0x100 "mmp",
    INCOMPAT_FLEX_BG = Incompat 0x200 "flex_bg",
    INCOMPAT_EA_INODE = Incompat 0x400 "ea_inode",
    INCOMPAT_DIRDATA = Incompat 0x1000 "dirdata",
    INCOMPAT_CSUM_SEED = Incompat 0x2000 "metadata_csum_seed",
    INCOMPAT_LARGEDIR = Incompat 0x4000 "large_dir",
    INCOMPAT_INLINE_DATA = Incompat 0x8000 "inline_data",
    INCOMPAT_ENCRYPT = Incompat 0x1_0000 "encrypt",
    INCOMPAT_CASEFOLD = Incompat 0x2_0000 "casefold",
    RO_SPARSE_SUPER = RoCompat 0x1 "sparse_super",
    RO_LARGE_FILE = RoCompat 0x2 "large_file",
    RO_HUGE_FILE = RoCompat 0x8 "huge_file",
    RO_GDT_CSUM = RoCompat 0x10 "uninit_bg",
    RO_DIR_NLINK = RoCompat 0x20 "dir_nlink",
    RO_EXTRA_ISIZE = RoCompat 0x40 "extra_isize",
    RO_QUOTA = RoCompat 0x100 "quota",
    RO_BIGALLOC = RoCompat 0x200 "bigalloc",
    RO_METADATA_CSUM = RoCompat 0x400 "metadata_csum",
    RO_READONLY = RoCompat 0x1000 "read-only",
    RO_PROJECT = RoCompat 0x2000 "project",
    RO_SHARED_BLOCKS = RoCompat 0x4000 "shared_blocks",
    RO_VERITY = RoCompat 0x8000 "verity",
    RO_ORPHAN_PRESENT = RoCompat 0x1_0000 "orphan_present",
}

/// Incompatible features that this crate requires of a file system.
pub(crate) const INCOMPAT_NEEDED: u32 = INCOMPAT_FILETYPE | INCOMPAT_EXTENTS;

/// Incompatible features that this crate supports.
pub(crate) const INCOMPAT_KNOWN: u32 =
    INCOMPAT_NEEDED | INCOMPAT_RECOVER | INCOMPAT_64BIT | INCOMPAT_FLEX_BG | INCOMPAT_CSUM_SEED;

/// Features of [`Class::RoCompat`] that this crate supports, so that it may write.
pub(crate) const RO_KNOWN: u32 = RO_SPARSE_SUPER
    | RO_LARGE_FILE
    | RO_HUGE_FILE
    | RO_GDT_CSUM
    | RO_DIR_NLINK
    | RO_EXTRA_ISIZE
    | RO_METADATA_CSUM;

/// Names of the features of `class` among `bits`, with commas between; a bit without a name
/// appears as `bit 0x…`.
pub(crate) fn names(class: Class, bits: u32) -> String {
    let one = |bit: u32| {
        let mut named = NAMES.iter().filter(|(c, b, _)| *c == class && *b == bit);
        let name = named.next().map(|(_, _, name)| (*name).to_owned());
        name.unwrap_or_else(|| format!("bit {bit:#x}"))
    };
    let set = (0..32).map(|n| 1 << n).filter(|bit| bits & bit != 0);
    set.map(one).collect::<Vec<_>>().join(", ")
}

/// The checksum that `superblock` should have.
pub(crate) fn checksum(superblock: &[u8]) -> u32 {
    crc(!0, &superblock[..CHECKSUM.at])
}

/// Records in `superblock` that the medium failed at `now`, in seconds since 1970. Returns false
/// and changes nothing if the superblock is not sound.
pub(crate) fn record_error(superblock: &mut [u8], now: u32) -> bool {
    let summed = RO_COMPAT.get(superblock) & RO_METADATA_CSUM != 0;
    let sound = !summed || CHECKSUM.get(superblock) == checksum(superblock);
    if MAGIC.get(superblock) != MAGIC_NUMBER || !sound {
        return false;
    }
    let state = STATE.get(superblock) | STATE_ERROR;
    STATE.put(superblock, state);
    let count = ERROR_COUNT.get(superblock).saturating_add(1);
    ERROR_COUNT.put(superblock, count);
    if count == 1 {
        FIRST_ERROR_TIME.put(superblock, now);
        FIRST_ERROR_CODE.put(superblock, ERROR_EIO);
    }
    LAST_ERROR_TIME.put(superblock, now);
    LAST_ERROR_CODE.put(superblock, ERROR_EIO);
    if summed {
        let sum = checksum(superblock);
        CHECKSUM.put(superblock, sum);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_known_and_unknown_bits_are_listed() {
        let bits = INCOMPAT_EXTENTS | INCOMPAT_CASEFOLD | 1 << 30;
        let text = names(Class::Incompat, bits);
        assert_eq!(text, "extent, casefold, bit 0x40000000");
    }
}
