//! The checkpoint: a pack of blocks, whose first and last say the same, in one of two
//! segments in turn.
//!
//! A pack is: the head; blocks with orphans; summaries of the logs of data, compact or
//! normal; summaries of the logs of nodes, after a clean unmount; the head again.

use super::superblock::Geometry;
use super::{BLOCK, Block, SEG_BLOCKS, blank, crc, layout};

/// Flag: a clean unmount wrote the pack.
pub(crate) const UMOUNT: u32 = 0x1;
/// Flag: the pack has blocks with orphans.
pub(crate) const ORPHANS: u32 = 0x2;
/// Flag: the summaries of the data logs are compact.
pub(crate) const COMPACT: u32 = 0x4;
/// Flag: nodes written after the pack carry its checksum beside its version.
pub(crate) const CRC_RECOVERY: u32 = 0x40;

/// Orphans that one block can list.
pub(crate) const ORPHANS_PER_BLOCK: usize = 1020;

/// Orphans of a pack at most, which has two heads and a block for each log besides.
pub(crate) const ORPHANS_MOST: usize = (SEG_BLOCKS as usize - 2 - 6) * ORPHANS_PER_BLOCK;

/// Offset of the checksum in heads that this crate writes: the last one that the format allows.
const SUM_AT: usize = 4092;

/// Largest accepted checkpoint version and elapsed seconds, so that neither can overflow.
const NUMBER_MAX: u64 = u64::MAX / 2;

/// Logs of each kind that the format has room for.
const LOGS: usize = 8;

//= f2fs-layout 2
layout! { 4096:
    VERSION: u64 = 0,
    USER_BLOCKS: u64 = 8,
    VALID_BLOCKS: u64 = 16,
    RESERVED_SEGMENTS: u32 = 24,
    OVERPROVISION: u32 = 28,
    FREE_SEGMENTS: u32 = 32,
    NODE_SEGMENTS: [u8; 32] = 36,
    NODE_OFFSETS: [u8; 16] = 68,
    DATA_SEGMENTS: [u8; 32] = 84,
    DATA_OFFSETS: [u8; 16] = 116,
    FLAGS: u32 = 132,
    PACK_BLOCKS: u32 = 136,
    PACK_SUMMARIES: u32 = 140,
    VALID_NODES: u32 = 144,
    VALID_INODES: u32 = 148,
    NEXT_NID: u32 = 152,
    SIT_BYTES: u32 = 156,
    NAT_BYTES: u32 = 160,
    SUM_OFFSET: u32 = 164,
    ELAPSED: u64 = 168,
    ALLOC_TYPES: [u8; 16] = 176,
}

/// Offset of the SIT bitmap in the head; the NAT bitmap follows it.
const BITMAPS: usize = 192;

/// Write point of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogAt {
    pub(crate) segment: u32,
    /// The next block to write in it.
    pub(crate) at: u16,
    /// Whether it fills gaps of a segment that is in use.
    pub(crate) fills: bool,
}

impl LogAt {
    /// The start of a segment that nothing is in.
    pub(crate) const fn start_of(segment: u32) -> Self {
        Self {
            segment,
            at: 0,
            fills: false,
        }
    }
}

/// Decoded head of a checkpoint pack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) version: u64,
    pub(crate) user_blocks: u64,
    pub(crate) valid_blocks: u64,
    pub(crate) reserved_segments: u32,
    pub(crate) overprovision: u32,
    pub(crate) free_segments: u32,
    /// Logs of data, hot, warm, cold, and then of nodes.
    pub(crate) logs: [LogAt; 6],
    pub(crate) flags: u32,
    pub(crate) pack_blocks: u32,
    pub(crate) summaries_at: u32,
    pub(crate) valid_nodes: u32,
    pub(crate) valid_inodes: u32,
    pub(crate) next_nid: u32,
    pub(crate) elapsed: u64,
    /// Which copy of each block of the SIT counts.
    pub(crate) sit_bitmap: Vec<u8>,
    /// Which copy of each block of the NAT counts.
    pub(crate) nat_bitmap: Vec<u8>,
}

/// Bytes of the bitmaps of SIT and NAT.
const fn bitmap_bytes(geometry: &Geometry) -> (usize, usize) {
    let per_segment = SEG_BLOCKS as usize / 8;
    (
        geometry.sit_segments as usize / 2 * per_segment,
        geometry.nat_segments as usize / 2 * per_segment,
    )
}

/// Whether the bitmaps of such a file system fit the head.
pub(crate) const fn bitmaps_fit(geometry: &Geometry) -> bool {
    let (sit, nat) = bitmap_bytes(geometry);
    BITMAPS + sit + nat <= SUM_AT
}

fn u32_at(bytes: &[u8], index: usize) -> u32 {
    super::Value::load(&bytes[index * 4..])
}

fn u16_at(bytes: &[u8], index: usize) -> u16 {
    super::Value::load(&bytes[index * 2..])
}

impl Head {
    /// Decodes and checks a head; `None` if it is damaged or does not fit `geometry`.
    pub(crate) fn decode(block: &Block, geometry: &Geometry) -> Option<Self> {
        let at = SUM_OFFSET.get(block) as usize;
        let (sit, nat) = bitmap_bytes(geometry);
        if !(BITMAPS..=SUM_AT).contains(&at) || BITMAPS + sit + nat > at {
            return None;
        }
        let sum: u32 = super::Value::load(&block[at..]);
        let sizes = (SIT_BYTES.get(block) as usize, NAT_BYTES.get(block) as usize);
        if sum != crc(&block[..at]) || sizes != (sit, nat) {
            return None;
        }
        let mut logs = [LogAt::default(); 6];
        let (data, data_at) = (DATA_SEGMENTS.get(block), DATA_OFFSETS.get(block));
        let (node, node_at) = (NODE_SEGMENTS.get(block), NODE_OFFSETS.get(block));
        let types = ALLOC_TYPES.get(block);
        for (index, log) in logs.iter_mut().enumerate() {
            let (segments, offsets) = match index {
                0..3 => (&data, &data_at),
                _ => (&node, &node_at),
            };
            *log = LogAt {
                segment: u32_at(segments, index % 3),
                at: u16_at(offsets, index % 3),
                fills: types[index] != 0,
            };
        }
        let head = Self {
            version: VERSION.get(block),
            user_blocks: USER_BLOCKS.get(block),
            valid_blocks: VALID_BLOCKS.get(block),
            reserved_segments: RESERVED_SEGMENTS.get(block),
            overprovision: OVERPROVISION.get(block),
            free_segments: FREE_SEGMENTS.get(block),
            logs,
            flags: FLAGS.get(block),
            pack_blocks: PACK_BLOCKS.get(block),
            summaries_at: PACK_SUMMARIES.get(block),
            valid_nodes: VALID_NODES.get(block),
            valid_inodes: VALID_INODES.get(block),
            next_nid: NEXT_NID.get(block),
            elapsed: ELAPSED.get(block),
            sit_bitmap: block[BITMAPS..BITMAPS + sit].to_vec(),
            nat_bitmap: block[BITMAPS + sit..BITMAPS + sit + nat].to_vec(),
        };
        head.is_sound(geometry).then_some(head)
    }

    fn is_sound(&self, geometry: &Geometry) -> bool {
        let main = u64::from(geometry.main_segments) * u64::from(SEG_BLOCKS);
        let log =
            |log: &LogAt| log.segment < geometry.main_segments && u32::from(log.at) < SEG_BLOCKS;
        let apart = |(index, log): (usize, &LogAt)| {
            let mut before = self.logs[..index].iter();
            before.all(|other| other.segment != log.segment)
        };
        self.logs.iter().all(log)
            && self.logs.iter().enumerate().all(apart)
            && (3..=SEG_BLOCKS).contains(&self.pack_blocks)
            && (1..self.pack_blocks).contains(&self.summaries_at)
            && self.user_blocks <= main
            && self.valid_blocks <= main
            && self.reserved_segments < geometry.main_segments
            && self.overprovision < geometry.main_segments
            && self.valid_nodes <= geometry.nids()
            && self.valid_inodes <= geometry.nids()
            && self.version <= NUMBER_MAX
            && self.elapsed <= NUMBER_MAX
    }

    /// Encodes the head with its checksum as a block.
    pub(crate) fn encode(&self) -> Box<Block> {
        let mut block = blank();
        let bytes = &mut block[..];
        VERSION.put(bytes, self.version);
        USER_BLOCKS.put(bytes, self.user_blocks);
        VALID_BLOCKS.put(bytes, self.valid_blocks);
        RESERVED_SEGMENTS.put(bytes, self.reserved_segments);
        OVERPROVISION.put(bytes, self.overprovision);
        FREE_SEGMENTS.put(bytes, self.free_segments);
        let mut types = [0; 16];
        for (index, log) in self.logs.iter().enumerate() {
            let (segments, offsets) = match index {
                0..3 => (DATA_SEGMENTS.at, DATA_OFFSETS.at),
                _ => (NODE_SEGMENTS.at, NODE_OFFSETS.at),
            };
            let (segment, at) = (segments + index % 3 * 4, offsets + index % 3 * 2);
            bytes[segment..segment + 4].copy_from_slice(&log.segment.to_le_bytes());
            bytes[at..at + 2].copy_from_slice(&log.at.to_le_bytes());
            types[index] = u8::from(log.fills);
        }
        for segments in [DATA_SEGMENTS.at, NODE_SEGMENTS.at] {
            bytes[segments + 12..segments + 4 * LOGS].fill(0xFF);
        }
        FLAGS.put(bytes, self.flags);
        PACK_BLOCKS.put(bytes, self.pack_blocks);
        PACK_SUMMARIES.put(bytes, self.summaries_at);
        VALID_NODES.put(bytes, self.valid_nodes);
        VALID_INODES.put(bytes, self.valid_inodes);
        NEXT_NID.put(bytes, self.next_nid);
        SIT_BYTES.put(bytes, self.sit_bitmap.len() as u32);
        NAT_BYTES.put(bytes, self.nat_bitmap.len() as u32);
        SUM_OFFSET.put(bytes, SUM_AT as u32);
        ELAPSED.put(bytes, self.elapsed);
        ALLOC_TYPES.put(bytes, types);
        let (sit, nat) = (self.sit_bitmap.len(), self.nat_bitmap.len());
        bytes[BITMAPS..BITMAPS + sit].copy_from_slice(&self.sit_bitmap);
        bytes[BITMAPS + sit..BITMAPS + sit + nat].copy_from_slice(&self.nat_bitmap);
        let sum = crc(&bytes[..SUM_AT]);
        bytes[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
        block
    }
}

/// Stamp of nodes that are written after the checkpoint with the encoded `head`: its version,
/// with its checksum in the upper half if [`CRC_RECOVERY`] is set.
pub(crate) fn stamp(head: &Block) -> u64 {
    let at = (SUM_OFFSET.get(head) as usize).min(SUM_AT);
    let sum: u32 = super::Value::load(&head[at..]);
    match FLAGS.get(head) & CRC_RECOVERY {
        0 => VERSION.get(head),
        _ => VERSION.get(head) | u64::from(sum) << 32,
    }
}

mod orphan {
    //= f2fs-layout 2
    super::layout! { 4096:
        INDEX: u16 = 4084,
        BLOCKS: u16 = 4086,
        COUNT: u32 = 4088,
        CHECKSUM: u32 = 4092,
    }
}

/// The blocks that list `orphans`.
pub(crate) fn orphan_blocks(orphans: &[u32]) -> Vec<Box<Block>> {
    let total = orphans.len().div_ceil(ORPHANS_PER_BLOCK);
    let block = |(index, part): (usize, &[u32])| {
        let mut block = blank();
        for (ino, out) in part.iter().zip(block.chunks_mut(4)) {
            out.copy_from_slice(&ino.to_le_bytes());
        }
        orphan::INDEX.put(&mut block[..], index as u16 + 1);
        orphan::BLOCKS.put(&mut block[..], total as u16);
        orphan::COUNT.put(&mut block[..], part.len() as u32);
        let sum = crc(&block[..orphan::CHECKSUM.at]);
        orphan::CHECKSUM.put(&mut block[..], sum);
        block
    };
    let parts = orphans.chunks(ORPHANS_PER_BLOCK).enumerate();
    parts.map(block).collect()
}

/// The orphans that a block lists; `None` if its count exceeds [`ORPHANS_PER_BLOCK`].
pub(crate) fn orphans_of(block: &Block) -> Option<Vec<u32>> {
    let count = orphan::COUNT.get(block) as usize;
    let listed = block.get(..count.checked_mul(4)?)?;
    let known = count <= ORPHANS_PER_BLOCK;
    known.then(|| listed.chunks(4).map(super::Value::load).collect())
}

const _: () = assert!(ORPHANS_PER_BLOCK * 4 <= orphan::INDEX.at && SUM_AT + 4 == BLOCK);
