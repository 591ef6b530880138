//! The superblock, in bytes 1,024 to 4,095 of the first two blocks, and the numbers of
//! a file system that follow from it.
//!
//! Invariants: a [`Geometry`] that was decoded has areas that lie one after the other
//! within the medium, in whole segments, and tables that are large enough for the main
//! area, so its users need not check its numbers again.

use super::{BLOCK, Block, MAGIC, SEG_BLOCKS, blank, layout};

/// Offset of the superblock in its block, in bytes.
pub(crate) const OFFSET: usize = 1024;
/// Largest number of segments: 16 TiB.
const SEGMENTS_MAX: u32 = 16 * 1024 * 1024 / 2;
/// The inode of the root directory.
pub(crate) const ROOT: u32 = 3;

//= f2fs-layout 1
layout! { 3072:
    MAGIC_NUMBER: u32 = 0,
    MAJOR: u16 = 4,
    MINOR: u16 = 6,
    LOG_SECTOR: u32 = 8,
    LOG_SECTORS_PER_BLOCK: u32 = 12,
    LOG_BLOCK: u32 = 16,
    LOG_SEGMENT: u32 = 20,
    SEGS_PER_SEC: u32 = 24,
    SECS_PER_ZONE: u32 = 28,
    BLOCK_COUNT: u64 = 36,
    SECTION_COUNT: u32 = 44,
    SEGMENT_COUNT: u32 = 48,
    SEGMENTS_CP: u32 = 52,
    SEGMENTS_SIT: u32 = 56,
    SEGMENTS_NAT: u32 = 60,
    SEGMENTS_SSA: u32 = 64,
    SEGMENTS_MAIN: u32 = 68,
    SEGMENT0: u32 = 72,
    CP: u32 = 76,
    SIT: u32 = 80,
    NAT: u32 = 84,
    SSA: u32 = 88,
    MAIN: u32 = 92,
    ROOT_INO: u32 = 96,
    NODE_INO: u32 = 100,
    META_INO: u32 = 104,
    UUID: [u8; 16] = 108,
    LABEL: [u8; 1024] = 124,
    EXTENSIONS: u32 = 1148,
    EXTENSION_LIST: [u8; 512] = 1152,
    CP_PAYLOAD: u32 = 1664,
    FEATURES: u32 = 2180,
    DEVICES: u8 = 2201,
}

/// Places and sizes of the areas of a file system, in blocks and segments of the format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Blocks of the medium.
    pub(crate) blocks: u64,
    pub(crate) segs_per_sec: u32,
    pub(crate) secs_per_zone: u32,
    pub(crate) segments: u32,
    pub(crate) segment0: u32,
    pub(crate) cp: u32,
    pub(crate) sit: u32,
    pub(crate) nat: u32,
    pub(crate) ssa: u32,
    pub(crate) main: u32,
    /// Segments of both copies of the SIT.
    pub(crate) sit_segments: u32,
    /// Segments of both copies of the NAT.
    pub(crate) nat_segments: u32,
    pub(crate) ssa_segments: u32,
    pub(crate) main_segments: u32,
    pub(crate) uuid: [u8; 16],
    /// Endings of names whose contents are cold.
    pub(crate) cold: Vec<Vec<u8>>,
}

/// Why a superblock cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SuperError {
    /// The magic number is missing.
    #[error("there is no superblock of F2FS")]
    Magic,
    /// Sizes that the format allows and that are not built.
    #[error("blocks of 4096 bytes and segments of 512 blocks are expected")]
    Unit,
    /// Numbers that contradict each other.
    #[error("the areas of the file system do not fit each other or the medium")]
    Areas,
    /// Feature bits of the format that are set; none is supported.
    #[error("features {0:#x} are not supported; none is expected")]
    Features(u32),
    /// The file system spans several devices.
    #[error("a file system on several devices is not supported")]
    Devices,
    /// The bitmap of the SIT outside the block of the checkpoint.
    #[error("a checkpoint whose bitmaps need blocks of their own is not supported")]
    Payload,
}

impl Geometry {
    /// Reads it from the first or second block of a medium of `blocks` blocks.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn decode(block: &Block, blocks: u64) -> Result<Self, SuperError> {
        let sb = &block[OFFSET..];
        if MAGIC_NUMBER.get(sb) != MAGIC {
            return Err(SuperError::Magic);
        }
        let log_block = LOG_SECTOR
            .get(sb)
            .checked_add(LOG_SECTORS_PER_BLOCK.get(sb));
        if (LOG_BLOCK.get(sb), LOG_SEGMENT.get(sb), log_block) != (12, 9, Some(12)) {
            return Err(SuperError::Unit);
        }
        if FEATURES.get(sb) != 0 {
            return Err(SuperError::Features(FEATURES.get(sb)));
        }
        if DEVICES.get(sb) != 0 {
            return Err(SuperError::Devices);
        }
        if CP_PAYLOAD.get(sb) != 0 {
            return Err(SuperError::Payload);
        }
        let list = EXTENSION_LIST.get(sb);
        let count = (EXTENSIONS.get(sb) as usize).min(64);
        let ending = |raw: &[u8]| raw.iter().copied().take_while(|&b| b != 0).collect();
        let geometry = Self {
            blocks: BLOCK_COUNT.get(sb),
            segs_per_sec: SEGS_PER_SEC.get(sb),
            secs_per_zone: SECS_PER_ZONE.get(sb),
            segments: SEGMENT_COUNT.get(sb),
            segment0: SEGMENT0.get(sb),
            cp: CP.get(sb),
            sit: SIT.get(sb),
            nat: NAT.get(sb),
            ssa: SSA.get(sb),
            main: MAIN.get(sb),
            sit_segments: SEGMENTS_SIT.get(sb),
            nat_segments: SEGMENTS_NAT.get(sb),
            ssa_segments: SEGMENTS_SSA.get(sb),
            main_segments: SEGMENTS_MAIN.get(sb),
            uuid: UUID.get(sb),
            cold: list.chunks(8).take(count).map(ending).collect(),
        };
        let inodes = (ROOT_INO.get(sb), NODE_INO.get(sb), META_INO.get(sb));
        let sound = inodes == (ROOT, 1, 2)
            && SEGMENTS_CP.get(sb) == 2
            && geometry.is_sound(blocks)
            && SECTION_COUNT.get(sb) == geometry.main_segments / geometry.segs_per_sec;
        sound.then_some(geometry).ok_or(SuperError::Areas)
    }

    /// Whether its areas lie one after the other on a medium of so many blocks.
    fn is_sound(&self, blocks: u64) -> bool {
        let area = |segments: u32| u64::from(segments) * u64::from(SEG_BLOCKS);
        let starts = [
            u64::from(self.segment0),
            u64::from(self.cp),
            u64::from(self.sit),
            u64::from(self.nat),
            u64::from(self.ssa),
        ];
        let mut end = starts[0];
        let sizes = [
            0,
            area(2),
            area(self.sit_segments),
            area(self.nat_segments),
            area(self.ssa_segments),
        ];
        let mut in_row = self.segment0 >= 2 && self.segments <= SEGMENTS_MAX;
        for (start, size) in starts.into_iter().zip(sizes) {
            in_row &= start == end;
            end = start + size;
        }
        let main_end = u64::from(self.main) + area(self.main_segments);
        let even = |segments: u32| segments >= 2 && segments.is_multiple_of(2);
        in_row
            && u64::from(self.main) >= end
            && main_end <= blocks.min(self.blocks)
            && main_end <= u64::from(u32::MAX)
            && even(self.sit_segments)
            && even(self.nat_segments)
            && self.main_segments >= 6
            && self.segs_per_sec >= 1
            && self.secs_per_zone >= 1
            && self.main_segments.is_multiple_of(self.segs_per_sec)
            && self.sit_blocks() <= self.sit_segments / 2 * SEG_BLOCKS
            && area(self.ssa_segments) >= u64::from(self.main_segments)
            && super::checkpoint::bitmaps_fit(self)
    }

    /// Encodes the superblock with `label` as a whole block; its other bytes are zero.
    pub(crate) fn encode(&self, label: &str) -> Box<Block> {
        let mut block = blank();
        let sb = &mut block[OFFSET..];
        MAGIC_NUMBER.put(sb, MAGIC);
        MAJOR.put(sb, 1);
        MINOR.put(sb, 15);
        LOG_SECTOR.put(sb, 9);
        LOG_SECTORS_PER_BLOCK.put(sb, 3);
        LOG_BLOCK.put(sb, 12);
        LOG_SEGMENT.put(sb, 9);
        SEGS_PER_SEC.put(sb, self.segs_per_sec);
        SECS_PER_ZONE.put(sb, self.secs_per_zone);
        BLOCK_COUNT.put(sb, self.blocks);
        SECTION_COUNT.put(sb, self.main_segments / self.segs_per_sec);
        SEGMENT_COUNT.put(sb, self.segments);
        SEGMENTS_CP.put(sb, 2);
        SEGMENTS_SIT.put(sb, self.sit_segments);
        SEGMENTS_NAT.put(sb, self.nat_segments);
        SEGMENTS_SSA.put(sb, self.ssa_segments);
        SEGMENTS_MAIN.put(sb, self.main_segments);
        SEGMENT0.put(sb, self.segment0);
        CP.put(sb, self.cp);
        SIT.put(sb, self.sit);
        NAT.put(sb, self.nat);
        SSA.put(sb, self.ssa);
        MAIN.put(sb, self.main);
        ROOT_INO.put(sb, ROOT);
        NODE_INO.put(sb, 1);
        META_INO.put(sb, 2);
        UUID.put(sb, self.uuid);
        let mut name = [0; 1024];
        for (unit, out) in label.encode_utf16().zip(name.chunks_mut(2)) {
            out.copy_from_slice(&unit.to_le_bytes());
        }
        LABEL.put(sb, name);
        EXTENSIONS.put(sb, self.cold.len() as u32);
        let mut list = [0; 512];
        for (ending, out) in self.cold.iter().zip(list.chunks_mut(8)) {
            out[..ending.len()].copy_from_slice(ending);
        }
        EXTENSION_LIST.put(sb, list);
        block
    }

    /// The first block of the main area, which is divided into sections.
    #[must_use]
    pub const fn main(&self) -> u32 {
        self.main
    }

    /// Blocks of a section.
    #[must_use]
    pub const fn section_blocks(&self) -> u32 {
        self.segs_per_sec * SEG_BLOCKS
    }

    /// Blocks of the tables: SIT, NAT and summaries, one after the other.
    #[must_use]
    pub const fn tables(&self) -> std::ops::Range<u32> {
        self.sit..self.ssa + self.main_segments
    }

    /// Blocks of the two checkpoint packs, a segment each.
    #[must_use]
    pub const fn checkpoints(&self) -> std::ops::Range<u32> {
        self.cp..self.cp + 2 * SEG_BLOCKS
    }

    /// UUID of the file system, which `mkfs` sets.
    #[must_use]
    pub const fn uuid(&self) -> &[u8; 16] {
        &self.uuid
    }

    /// Blocks of one copy of the SIT that are in use.
    pub(crate) const fn sit_blocks(&self) -> u32 {
        self.main_segments.div_ceil(super::sit::PER_BLOCK as u32)
    }

    /// Blocks of one copy of the NAT.
    pub(crate) const fn nat_blocks(&self) -> u32 {
        self.nat_segments / 2 * SEG_BLOCKS
    }

    /// Upper bound of node numbers, exclusive.
    pub(crate) const fn nids(&self) -> u32 {
        self.nat_blocks() * super::nat::PER_BLOCK as u32
    }

    /// Sections of the main area.
    #[must_use]
    pub const fn sections(&self) -> u32 {
        self.main_segments / self.segs_per_sec
    }

    /// Whether a block of the main area has this address.
    pub(crate) const fn is_main(&self, addr: u32) -> bool {
        addr >= self.main && addr - self.main < self.main_segments * SEG_BLOCKS
    }

    /// The segment of an address of the main area, and the place in it.
    pub(crate) const fn place_of(&self, addr: u32) -> (u32, u32) {
        let at = addr - self.main;
        (at / SEG_BLOCKS, at % SEG_BLOCKS)
    }

    /// The address of a place in a segment.
    pub(crate) const fn addr_of(&self, segment: u32, at: u32) -> u32 {
        self.main + segment * SEG_BLOCKS + at
    }
}

const _: () = assert!(OFFSET + 3072 == BLOCK);
