//! Validated contents of the superblock.
//!
//! Invariant: numbers of a [`Geometry`] fit each other, so that arithmetic with
//! them neither overflows nor divides by zero, whatever image they come from.

use crate::BLOCK;
use crate::format::superblock::{self as sb, Class};
use crate::format::{crc, group, hash, inode, wide};
use crate::persist::Run;
use vfs::{Errno, TimeRange};

/// Reason why a file system cannot be mounted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MountError {
    /// No file system of this format: the magic number is wrong.
    #[error("no file system of this format here: the magic number is {0:#06x}, not 0xef53")]
    Magic(u16),
    /// The superblock is damaged.
    #[error("the superblock is damaged: its checksum is wrong")]
    Checksum,
    /// The superblock is damaged, and a copy of it is not.
    #[error(
        "the superblock is damaged; there is nothing to undo, and on an export of the drive \
         `e2fsck -b {0}` restores it from a copy"
    )]
    Copied(u64),
    /// A number of the superblock or of a group cannot be.
    #[error("the superblock or a group descriptor is damaged: {0} cannot be {1}")]
    Number(&'static str, u64),
    /// The size of blocks is not built.
    #[error("blocks of {0} bytes are not supported, only of 4096")]
    BlockSize(u64),
    /// The size of inodes is not built.
    #[error("inodes of {0} bytes are not supported, only of 128 and 256")]
    InodeSize(u16),
    /// Features that this implementation cannot read.
    #[error("the file system uses features that are not supported: {0}")]
    Features(String),
    /// Features that can be read and not written.
    #[error("the file system could be mounted read-only at most, because of these features: {0}")]
    ReadOnly(String),
    /// Required features that the file system lacks.
    #[error("the file system lacks features that are needed: {0}")]
    Lacks(String),
    /// An option of the mount is too small.
    #[error("{what} is {value}; at least {least} are needed")]
    Option {
        /// Name of the option.
        what: &'static str,
        /// Rejected value of the option.
        value: u64,
        /// Smallest valid value of the option.
        least: u64,
    },
    /// The journal is not empty.
    #[error("the journal holds changes, and the strategy does not replay them")]
    Unrecovered,
    /// The journal cannot be used.
    #[error("the journal cannot be used: {0}")]
    Journal(&'static str),
    /// The medium failed, or a structure on it is damaged.
    #[error("reading or preparing the file system failed: {0}")]
    Medium(#[from] Errno),
}

/// Numbers of a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) blocks: u64,
    pub(crate) reserved_blocks: u64,
    /// User and group, besides root, that may use the reserved blocks.
    pub(crate) reserved_for: (u32, u32),
    pub(crate) inodes: u32,
    pub(crate) blocks_per_group: u32,
    pub(crate) inodes_per_group: u32,
    pub(crate) groups: u32,
    /// Number of groups that place their bitmaps and tables together, a power of two; 1 for none.
    pub(crate) flex_groups: u32,
    pub(crate) inode_size: usize,
    pub(crate) descriptor_size: usize,
    pub(crate) first_inode: u32,
    /// Bytes that new inodes have behind the first 128 for fields.
    pub(crate) extra_size: u16,
    pub(crate) uuid: [u8; 16],
    /// Seed of all checksums.
    pub(crate) seed: u32,
    /// Whether metadata have checksums.
    pub(crate) checksums: bool,
    /// Whether group descriptors have the older checksum.
    pub(crate) old_checksums: bool,
    pub(crate) hash_seed: [u32; 4],
    pub(crate) hash_version: u8,
    pub(crate) unsigned_hash: bool,
    pub(crate) compat: u32,
    pub(crate) incompat: u32,
    pub(crate) ro_compat: u32,
    pub(crate) reserved_gdt_blocks: u32,
    pub(crate) backup_groups: [u32; 2],
    pub(crate) journal_inode: u32,
    /// The inode of the orphan file, which has no name; 0 without one.
    pub(crate) orphan_file: u32,
}

/// Groups from which on a flexible group keeps directories and files apart, as in
/// Linux (`EXT4_FLEX_SIZE_DIR_ALLOC_SCHEME`).
const FLEX_SCHEME: u32 = 4;

/// Groups of a flexible group. Any power of two will do: it only says where to look first.
fn flex_groups(incompat: u32, log: u8) -> u32 {
    match incompat & sb::INCOMPAT_FLEX_BG {
        0 => 1,
        _ => 1_u32.checked_shl(u32::from(log)).unwrap_or(1),
    }
}

fn ensure(holds: bool, name: &'static str, value: impl Into<u64>) -> Result<(), MountError> {
    if holds {
        return Ok(());
    }
    Err(MountError::Number(name, value.into()))
}

impl Geometry {
    /// Reads the 1024 bytes of a superblock.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, MountError> {
        let magic = sb::MAGIC.get(bytes);
        if magic != sb::MAGIC_NUMBER {
            return Err(MountError::Magic(magic));
        }
        Self::check_features(bytes)?;
        if sb::RO_COMPAT.get(bytes) & sb::RO_METADATA_CSUM != 0 {
            let kind = sb::CHECKSUM_TYPE.get(bytes);
            ensure(kind == sb::CHECKSUM_CRC32C, "the type of checksums", kind)?;
            if sb::checksum(bytes) != sb::CHECKSUM.get(bytes) {
                return Err(MountError::Checksum);
            }
        }
        let log = sb::LOG_BLOCK_SIZE.get(bytes);
        if log != 2 {
            let size = 1024_u64.checked_shl(log).unwrap_or(0);
            return Err(MountError::BlockSize(size));
        }
        let geometry = Self::read(bytes);
        geometry.check(bytes)?;
        Ok(geometry)
    }

    fn check_features(bytes: &[u8]) -> Result<(), MountError> {
        let (incompat, ro) = (sb::INCOMPAT.get(bytes), sb::RO_COMPAT.get(bytes));
        let unknown = incompat & !sb::INCOMPAT_KNOWN;
        if unknown != 0 {
            return Err(MountError::Features(sb::names(Class::Incompat, unknown)));
        }
        let lacks = sb::INCOMPAT_NEEDED & !incompat;
        if lacks != 0 {
            return Err(MountError::Lacks(sb::names(Class::Incompat, lacks)));
        }
        let read_only = ro & !sb::RO_KNOWN;
        if read_only != 0 {
            return Err(MountError::ReadOnly(sb::names(Class::RoCompat, read_only)));
        }
        Ok(())
    }

    fn read(b: &[u8]) -> Self {
        let (incompat, ro) = (sb::INCOMPAT.get(b), sb::RO_COMPAT.get(b));
        let uuid = sb::UUID.get(b);
        let seeded = incompat & sb::INCOMPAT_CSUM_SEED != 0;
        let words = |bytes: &[u8], n: usize| {
            u32::from_le_bytes(crate::format::Value::load(&bytes[n * 4..]))
        };
        let (hash_seed, backups) = (sb::HASH_SEED.get(b), sb::BACKUP_GROUPS.get(b));
        let checksums = ro & sb::RO_METADATA_CSUM != 0;
        let blocks = wide(sb::BLOCKS_LO.get(b), sb::BLOCKS_HI.get(b));
        let blocks_per_group = sb::BLOCKS_PER_GROUP.get(b);
        let long = incompat & sb::INCOMPAT_64BIT != 0;
        Self {
            blocks,
            reserved_blocks: wide(sb::RESERVED_LO.get(b), sb::RESERVED_HI.get(b)),
            reserved_for: (
                sb::RESERVED_UID.get(b).into(),
                sb::RESERVED_GID.get(b).into(),
            ),
            inodes: sb::INODES_COUNT.get(b),
            blocks_per_group,
            inodes_per_group: sb::INODES_PER_GROUP.get(b),
            groups: blocks.div_ceil(u64::from(blocks_per_group.max(1))) as u32,
            flex_groups: flex_groups(incompat, sb::LOG_GROUPS_PER_FLEX.get(b)),
            inode_size: usize::from(sb::INODE_SIZE.get(b)),
            descriptor_size: if long { group::SIZE } else { group::SHORT },
            first_inode: sb::FIRST_INODE.get(b),
            extra_size: sb::WANT_EXTRA_ISIZE.get(b).max(sb::MIN_EXTRA_ISIZE.get(b)),
            uuid,
            seed: if seeded {
                sb::CHECKSUM_SEED.get(b)
            } else {
                crc(!0, &uuid)
            },
            checksums,
            old_checksums: !checksums && ro & sb::RO_GDT_CSUM != 0,
            hash_seed: std::array::from_fn(|n| words(&hash_seed, n)),
            hash_version: sb::HASH_VERSION.get(b),
            unsigned_hash: sb::FLAGS.get(b) & sb::FLAG_UNSIGNED_HASH != 0,
            compat: sb::COMPAT.get(b),
            incompat,
            ro_compat: ro,
            reserved_gdt_blocks: u32::from(sb::RESERVED_GDT_BLOCKS.get(b)),
            backup_groups: std::array::from_fn(|n| words(&backups, n)),
            journal_inode: sb::JOURNAL_INODE.get(b),
            orphan_file: if sb::COMPAT.get(b) & sb::COMPAT_ORPHAN_FILE != 0 {
                sb::ORPHAN_FILE_INODE.get(b)
            } else {
                0
            },
        }
    }

    fn check(&self, b: &[u8]) -> Result<(), MountError> {
        let revision = sb::REVISION.get(b);
        ensure(revision == 1, "the revision", revision)?;
        if ![128, inode::MAX_SIZE].contains(&self.inode_size) {
            return Err(MountError::InodeSize(self.inode_size as u16));
        }
        let cluster = sb::LOG_CLUSTER_SIZE.get(b);
        ensure(cluster == 2, "the size of clusters", cluster)?;
        let first = sb::FIRST_DATA_BLOCK.get(b);
        ensure(first == 0, "the first data block", first)?;
        let per_group = self.blocks_per_group;
        let fits = (256..=32768).contains(&per_group) && per_group.is_multiple_of(8);
        ensure(fits, "the number of blocks of a group", per_group)?;
        let clusters = sb::CLUSTERS_PER_GROUP.get(b);
        ensure(
            clusters == per_group,
            "the number of clusters of a group",
            clusters,
        )?;
        let long = self.incompat & sb::INCOMPAT_64BIT != 0;
        let size = sb::DESCRIPTOR_SIZE.get(b);
        let fits = !long || usize::from(size) == group::SIZE;
        ensure(fits, "the size of a group descriptor", size)?;
        self.check_counts()
    }

    fn check_counts(&self) -> Result<(), MountError> {
        let most = if self.incompat & sb::INCOMPAT_64BIT != 0 {
            1 << 48
        } else {
            1 << 32
        };
        ensure(
            (64..most).contains(&self.blocks),
            "the number of blocks",
            self.blocks,
        )?;
        let inodes = self.inodes_per_group;
        let slots = (BLOCK / self.inode_size) as u32;
        let fits = inodes > 0
            && inodes <= 32768
            && inodes.is_multiple_of(8)
            && inodes.is_multiple_of(slots);
        ensure(fits, "the number of inodes of a group", inodes)?;
        let groups = self.blocks.div_ceil(u64::from(self.blocks_per_group));
        let total = groups.checked_mul(u64::from(inodes));
        let fits = total == Some(u64::from(self.inodes));
        ensure(fits, "the number of inodes", self.inodes)?;
        let first = self.first_inode;
        ensure((11..=inodes).contains(&first), "the first inode", first)?;
        let before = u64::from(self.gdt_blocks() + self.reserved_gdt_blocks) + 1;
        let fits = before < u64::from(self.blocks_per_group);
        ensure(fits, "the number of blocks of descriptors", before)?;
        let extra = usize::from(self.extra_size);
        let fits = self.inode_size == 128 || extra + 128 <= self.inode_size && extra % 4 == 0;
        ensure(
            fits,
            "the size of the further fields of an inode",
            self.extra_size,
        )?;
        let fits = self.reserved_blocks <= self.blocks;
        ensure(fits, "the number of reserved blocks", self.reserved_blocks)?;
        let version = self.hash_version;
        ensure(version <= 5, "the hash of directories", version)
    }

    /// Timestamps that an inode holds.
    pub(crate) fn times(&self) -> TimeRange {
        inode::times(self.inode_size > 128)
    }

    pub(crate) fn has_compat(&self, feature: u32) -> bool {
        self.compat & feature != 0
    }

    pub(crate) fn has_ro(&self, feature: u32) -> bool {
        self.ro_compat & feature != 0
    }

    /// Blocks of all group descriptors.
    pub(crate) fn gdt_blocks(&self) -> u32 {
        self.groups.div_ceil((BLOCK / self.descriptor_size) as u32)
    }

    /// The first block of `group`.
    pub(crate) fn group_start(&self, group: u32) -> u64 {
        u64::from(group) * u64::from(self.blocks_per_group)
    }

    /// The group in which contents of an inode of `group` best begin: as in Linux,
    /// the first one of its flexible group, and the next one for regular files,
    /// which leaves the first to directories.
    pub(crate) fn goal_group(&self, group: u32, regular: bool) -> u32 {
        if self.flex_groups < FLEX_SCHEME {
            return group;
        }
        let first = group & !(self.flex_groups - 1);
        let next = first + u32::from(regular);
        if next < self.groups { next } else { first }
    }

    /// Blocks of `group`; the last one may have fewer.
    pub(crate) fn group_len(&self, group: u32) -> u32 {
        let rest = self.blocks - self.group_start(group);
        rest.min(u64::from(self.blocks_per_group)) as u32
    }

    /// The group that `block` is in.
    pub(crate) fn group_of(&self, block: u64) -> u32 {
        (block / u64::from(self.blocks_per_group)) as u32
    }

    /// Whether `group` begins with a superblock and descriptors.
    //= ext4-layout 3.2
    pub(crate) fn has_superblock(&self, group: u32) -> bool {
        if self.has_compat(sb::COMPAT_SPARSE_SUPER2) {
            return group == 0 || self.backup_groups.contains(&group);
        }
        if group <= 1 || !self.has_ro(sb::RO_SPARSE_SUPER) {
            return true;
        }
        let power_of = |base: u32| {
            let mut rest = group;
            while rest.is_multiple_of(base) {
                rest /= base;
            }
            rest == 1
        };
        group % 2 == 1 && (power_of(3) || power_of(5) || power_of(7))
    }

    /// The blocks that `group` begins with for superblock and descriptors, with
    /// those into which the descriptors may grow.
    pub(crate) fn superblock_run(&self, group: u32) -> Option<Run> {
        let len = 1 + u64::from(self.gdt_blocks() + self.reserved_gdt_blocks);
        self.has_superblock(group).then(|| Run {
            start: self.group_start(group),
            len: len.min(u64::from(self.group_len(group))),
        })
    }

    /// Blocks of the inode table of a group.
    pub(crate) fn table_blocks(&self) -> u32 {
        self.inodes_per_group * self.inode_size as u32 / BLOCK as u32
    }

    /// Group and position in it of an inode.
    pub(crate) fn place_of(&self, ino: u32) -> (u32, u32) {
        let index = ino - 1;
        (index / self.inodes_per_group, index % self.inodes_per_group)
    }

    /// Hash function for new directories, for hash `version`.
    pub(crate) fn hasher(&self, version: u8) -> Option<hash::Hasher> {
        let unsigned = self.unsigned_hash && version < hash::UNSIGNED;
        let version = if unsigned {
            version + hash::UNSIGNED
        } else {
            version
        };
        hash::Hasher::of(version, self.hash_seed)
    }

    /// Bytes of a block of directory entries in front of its tail.
    pub(crate) const fn dir_end(&self) -> usize {
        BLOCK
            - if self.checksums {
                crate::format::dirent::TAIL
            } else {
                0
            }
    }

    /// Whether the bitmaps and the inode table of group descriptor `d` lie within the volume.
    pub(crate) fn is_possible(&self, d: &group::Descriptor) -> bool {
        let inside = |start: u64, len: u64| {
            start > 0 && start.checked_add(len).is_some_and(|end| end <= self.blocks)
        };
        let table = u64::from(self.table_blocks());
        inside(d.block_bitmap, 1) && inside(d.inode_bitmap, 1) && inside(d.inode_table, table)
    }
}
