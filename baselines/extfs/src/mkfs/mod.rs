//! Creation of an empty file system: a pure function from options to the blocks to
//! write; all other blocks may hold any bytes.
//!
//! Invariant: the result depends on the options alone; UUID, seed of hashes and time are options.
//!
//! mkfs writes the first block of the first inode table and leaves the others as they are: an inode
//! that was never used counts as free whatever its slot holds. An older journal must be gone, so a
//! caller deallocates a used medium first.

mod maker;

use crate::buffer::BLOCK;
use crate::format::{crc, group, hash, inode as raw, superblock as sb};
use crate::geometry::Geometry;
use maker::Maker;
use std::collections::BTreeMap;
use vfs::Timestamp;

/// Blocks with their contents, by number.
pub type Blocks = BTreeMap<u64, Box<[u8; BLOCK]>>;

/// Options of a new file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MkfsOptions {
    /// Size of the medium in blocks of 4096 bytes.
    pub blocks: u64,
    /// UUID of the file system, the seed of its checksums.
    pub uuid: [u8; 16],
    /// Seed of the hashes of names.
    pub hash_seed: [u8; 16],
    /// Time of creation, for superblock and inodes.
    pub now: Timestamp,
    /// Label, up to 16 bytes.
    pub label: String,
    /// Bytes of the medium for each inode; 16384 by default, as in `mke2fs`.
    pub bytes_per_inode: u64,
    /// Bytes of an inode: 128 or 256.
    pub inode_size: u16,
    /// Blocks of the journal; `None` for a file system without a journal.
    pub journal_blocks: Option<u32>,
    /// Percentage of the blocks that only root may fill; 5 by default, as in `mke2fs`.
    pub reserved_percent: u8,
    /// Groups of a flexible group, with adjacent bitmaps and inode tables: a power of two, 16 by
    /// default, as in `mke2fs`.
    pub flex_groups: u32,
}

impl MkfsOptions {
    /// The choices of `mke2fs` for a medium of `blocks` blocks, with fixed UUID, seed and time.
    #[must_use]
    pub fn new(blocks: u64) -> Self {
        Self {
            blocks,
            uuid: *b"\x1f\x1a\x55\x10\x00\x00\x40\x00\x80\x00extfs\x01",
            hash_seed: *b"\x9e\x37\x79\xb9\x7f\x4a\x4c\x15\xbf\x58\x47\x6d\x1c\xe4\xe5\xb9",
            now: Timestamp::default(),
            label: String::new(),
            bytes_per_inode: 16384,
            inode_size: 256,
            journal_blocks: Some(default_journal(blocks)).filter(|&blocks| blocks > 0),
            reserved_percent: 5,
            flex_groups: 16,
        }
    }
}

/// Reason why a file system cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MkfsError {
    /// The medium is too small.
    #[error("{0} blocks of 4096 bytes are too few for a file system; 256 are needed at least")]
    TooSmall(u64),
    /// The medium is too large.
    #[error("{0} blocks of 4096 bytes are too many for a file system")]
    TooLarge(u64),
    /// The size of inodes is not supported.
    #[error("inodes of {0} bytes are not supported, only of 128 and 256")]
    InodeSize(u16),
    /// There must be between 1024 and 4 MiB for each inode.
    #[error("{0} bytes per inode are out of range: 1024 to 4194304 are possible")]
    InodeRatio(u64),
    /// The journal does not fit.
    #[error(
        "a journal of {0} blocks does not fit; it takes at least 1024 and at most half of the blocks"
    )]
    Journal(u32),
    /// The groups of a flexible group are no power of two.
    #[error("{0} groups cannot lie together: a power of two up to 1024 is needed")]
    Flex(u32),
    /// The label is too long.
    #[error("the label is longer than 16 bytes")]
    Label,
    /// More than half is reserved.
    #[error("{0} % cannot be reserved, at most 50")]
    Reserved(u8),
}

/// Size of the journal for a file system of `blocks` blocks, as `mke2fs` chooses it up to
/// 1 TiB; 0 for no journal.
const fn default_journal(blocks: u64) -> u32 {
    match blocks {
        0..2048 => 0,
        2048..32_768 => 1024,
        32_768..262_144 => 4096,
        262_144..524_288 => 8192,
        524_288..4_194_304 => 16_384,
        4_194_304..8_388_608 => 32_768,
        8_388_608..16_777_216 => 65_536,
        _ => 131_072,
    }
}

const GROUP_BLOCKS: u64 = 32_768;
const JOURNAL_INODE: u32 = 8;
const LOST_FOUND: u32 = 11;

/// Makes the blocks of a new file system.
///
/// # Errors
/// If an option is out of range.
pub fn mkfs(options: &MkfsOptions) -> Result<Blocks, MkfsError> {
    check(options)?;
    let geometry = plan(options)?;
    Maker::new(options, geometry).make()
}

fn check(options: &MkfsOptions) -> Result<(), MkfsError> {
    if options.blocks < 256 {
        return Err(MkfsError::TooSmall(options.blocks));
    }
    if options.blocks > 1 << 32 {
        return Err(MkfsError::TooLarge(options.blocks));
    }
    if ![128, 256].contains(&options.inode_size) {
        return Err(MkfsError::InodeSize(options.inode_size));
    }
    if !(1024..=4 << 20).contains(&options.bytes_per_inode) {
        return Err(MkfsError::InodeRatio(options.bytes_per_inode));
    }
    if let Some(blocks) = options.journal_blocks
        && (blocks < 1024 || u64::from(blocks) > options.blocks / 2)
    {
        return Err(MkfsError::Journal(blocks));
    }
    if !options.flex_groups.is_power_of_two() || options.flex_groups > 1024 {
        return Err(MkfsError::Flex(options.flex_groups));
    }
    if options.label.len() > 16 {
        return Err(MkfsError::Label);
    }
    if options.reserved_percent > 50 {
        return Err(MkfsError::Reserved(options.reserved_percent));
    }
    Ok(())
}

/// The geometry of the file system. A last group too small to hold 50 blocks besides its
/// copies of superblock and descriptors is left out.
fn plan(options: &MkfsOptions) -> Result<Geometry, MkfsError> {
    let mut geometry = numbers(options, options.blocks);
    let last = geometry.groups - 1;
    let copies = geometry.superblock_run(last).map_or(0, |run| run.len);
    let len = u64::from(geometry.group_len(last));
    if last > 0 && len < copies + 50 {
        geometry = numbers(options, options.blocks - len);
    }
    let inodes = u64::from(geometry.inodes_per_group) * u64::from(geometry.groups);
    if inodes > u64::from(u32::MAX) {
        return Err(MkfsError::TooLarge(options.blocks));
    }
    Ok(geometry)
}

fn numbers(options: &MkfsOptions, blocks: u64) -> Geometry {
    let groups = blocks.div_ceil(GROUP_BLOCKS) as u32;
    let slots = (BLOCK / usize::from(options.inode_size)) as u64;
    let wanted = blocks * BLOCK as u64 / options.bytes_per_inode;
    let per_group = wanted
        .div_ceil(u64::from(groups))
        .max(slots)
        .next_multiple_of(slots);
    let inodes_per_group = per_group.min(GROUP_BLOCKS) as u32;
    let journal = options.journal_blocks.is_some();
    Geometry {
        blocks,
        reserved_for: (0, 0),
        reserved_blocks: blocks * u64::from(options.reserved_percent) / 100,
        inodes: inodes_per_group.wrapping_mul(groups),
        blocks_per_group: GROUP_BLOCKS as u32,
        inodes_per_group,
        groups,
        flex_groups: options.flex_groups,
        inode_size: usize::from(options.inode_size),
        descriptor_size: group::SIZE,
        first_inode: LOST_FOUND,
        extra_size: if options.inode_size > 128 {
            raw::EXTRA_KNOWN
        } else {
            0
        },
        uuid: options.uuid,
        seed: crc(!0, &options.uuid),
        checksums: true,
        old_checksums: false,
        hash_seed: [0; 4],
        hash_version: hash::HALF_MD4,
        unsigned_hash: false,
        compat: sb::COMPAT_EXT_ATTR
            | sb::COMPAT_DIR_INDEX
            | if journal { sb::COMPAT_HAS_JOURNAL } else { 0 },
        incompat: sb::INCOMPAT_NEEDED | sb::INCOMPAT_64BIT | sb::INCOMPAT_FLEX_BG,
        ro_compat: sb::RO_SPARSE_SUPER
            | sb::RO_LARGE_FILE
            | sb::RO_HUGE_FILE
            | sb::RO_DIR_NLINK
            | sb::RO_METADATA_CSUM
            | if options.inode_size > 128 {
                sb::RO_EXTRA_ISIZE
            } else {
                0
            },
        reserved_gdt_blocks: 0,
        backup_groups: [0; 2],
        journal_inode: if journal { JOURNAL_INODE } else { 0 },
        orphan_file: 0,
    }
}
