//! Byte layouts of the medium; reader and writer share each one.
//!
//! Invariant: each block ends with a checksum over its kind and contents, seeded by the identity of
//! the layer. So a block cannot pass for another kind, for one of another layer, or for data.

use nand::{Payload, UNIT};
use std::sync::Arc;
use units::layout::Value;

/// A block of the medium: a unit of 4,096 bytes.
pub(crate) type Block = [u8; UNIT];

/// Marks an unmapped address; no unit has this number.
pub(crate) const NONE: u32 = u32::MAX;

/// Entries in a table page.
pub(crate) const PER_PAGE: usize = 1018;
/// Table pages that a directory block covers, two bits each.
pub(crate) const PER_DIRECTORY: usize = 16_320;
/// Pairs in a log block: 4 bytes for each address, so that a block stands for 2 MiB of data as in
/// the paper.
//= remap 3.5
pub(crate) const PER_LOG: usize = 510;

const MAGIC: [u8; 8] = *b"fl-remap";
const VERSION: u32 = 1;
const SUM_AT: usize = 4092;

/// Kind of a block, part of the checksum's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Superblock = 1,
    Header,
    Directory,
    Page,
    Log,
}

/// Computes and checks block checksums (CRC-32C) of one layer, seeded by its UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sums(u32);

impl Sums {
    pub(crate) fn of(uuid: &[u8; 16]) -> Self {
        Self(crc32c::crc32c(uuid))
    }

    fn of_block(self, block: &Block, kind: Kind) -> u32 {
        let seeded = crc32c::crc32c_append(self.0, &[kind as u8]);
        crc32c::crc32c_append(seeded, &block[..SUM_AT])
    }

    fn seal(self, mut block: Box<Block>, kind: Kind) -> Box<Block> {
        let sum = self.of_block(&block, kind);
        sum.save(&mut block[SUM_AT..]);
        block
    }

    fn is_sealed(self, block: &Block, kind: Kind) -> bool {
        let sum: u32 = Value::load(&block[SUM_AT..]);
        sum == self.of_block(block, kind)
    }
}

/// A zeroed block, to be filled by an encoder.
pub(crate) fn blank() -> Box<Block> {
    Box::new([0; UNIT])
}

/// Wraps `block` as a payload for the port below.
pub(crate) fn payload(block: Box<Block>) -> Payload {
    Payload::Bytes(Arc::from(block))
}

mod superblock {
    units::layout! { 4092:
        MAGIC: [u8; 8] = 0,
        VERSION: u32 = 8,
        UUID: [u8; 16] = 16,
        /// Units of the medium, and `LOGICAL`: units that the layer offers.
        UNITS: u32 = 32,
        LOGICAL: u32 = 36,
        /// Original addresses that one table covers.
        PARTITION: u32 = 40,
        /// First unit and length of each area; `PAGES` counts table pages, each with two places.
        DIRECTORY: u32 = 44,
        DIRECTORY_UNITS: u32 = 48,
        LOG: u32 = 52,
        LOG_UNITS: u32 = 56,
        TABLES: u32 = 60,
        PAGES: u32 = 64,
        DATA: u32 = 68,
        DATA_UNITS: u32 = 72,
    }
}

/// Geometry of the layer, in units, as the superblock records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Super {
    pub(crate) uuid: [u8; 16],
    pub(crate) units: u32,
    pub(crate) logical: u32,
    pub(crate) partition: u32,
    /// First unit of the first of the two directories.
    pub(crate) directory: u32,
    /// Blocks of one of the two directories.
    pub(crate) directory_units: u32,
    pub(crate) log: u32,
    pub(crate) log_units: u32,
    pub(crate) tables: u32,
    /// Pages of all tables; each page has two places on the medium.
    pub(crate) pages: u32,
    pub(crate) data: u32,
    pub(crate) data_units: u32,
}

pub(crate) fn encode_super(layout: &Super) -> Box<Block> {
    use superblock as at;
    let mut block = blank();
    let bytes = &mut block[..];
    at::MAGIC.put(bytes, MAGIC);
    at::VERSION.put(bytes, VERSION);
    at::UUID.put(bytes, layout.uuid);
    at::UNITS.put(bytes, layout.units);
    at::LOGICAL.put(bytes, layout.logical);
    at::PARTITION.put(bytes, layout.partition);
    at::DIRECTORY.put(bytes, layout.directory);
    at::DIRECTORY_UNITS.put(bytes, layout.directory_units);
    at::LOG.put(bytes, layout.log);
    at::LOG_UNITS.put(bytes, layout.log_units);
    at::TABLES.put(bytes, layout.tables);
    at::PAGES.put(bytes, layout.pages);
    at::DATA.put(bytes, layout.data);
    at::DATA_UNITS.put(bytes, layout.data_units);
    Sums::of(&layout.uuid).seal(block, Kind::Superblock)
}

/// Reads a superblock; `None` if magic, version or checksum do not match.
pub(crate) fn decode_super(block: &Block) -> Option<Super> {
    use superblock as at;
    let (magic, version) = (at::MAGIC.get(block), at::VERSION.get(block));
    if magic != MAGIC || version != VERSION {
        return None;
    }
    let layout = Super {
        uuid: at::UUID.get(block),
        units: at::UNITS.get(block),
        logical: at::LOGICAL.get(block),
        partition: at::PARTITION.get(block),
        directory: at::DIRECTORY.get(block),
        directory_units: at::DIRECTORY_UNITS.get(block),
        log: at::LOG.get(block),
        log_units: at::LOG_UNITS.get(block),
        tables: at::TABLES.get(block),
        pages: at::PAGES.get(block),
        data: at::DATA.get(block),
        data_units: at::DATA_UNITS.get(block),
    };
    let is_sealed = Sums::of(&layout.uuid).is_sealed(block, Kind::Superblock);
    is_sealed.then_some(layout)
}

mod header {
    units::layout! { 4092:
        SEQUENCE: u64 = 0,
        /// Number of the first transaction behind the checkpoint, and the block of the log area
        /// where that transaction begins.
        NEXT_TX: u32 = 8,
        LOG_AT: u32 = 12,
        ENTRIES: u64 = 16,
    }
}

/// Head of a checkpoint; the parity of `sequence` selects its directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) sequence: u64,
    pub(crate) next_tx: u32,
    pub(crate) log_at: u32,
    pub(crate) entries: u64,
}

pub(crate) fn encode_header(header: &Header, sums: Sums) -> Box<Block> {
    let mut block = blank();
    header::SEQUENCE.put(&mut block[..], header.sequence);
    header::NEXT_TX.put(&mut block[..], header.next_tx);
    header::LOG_AT.put(&mut block[..], header.log_at);
    header::ENTRIES.put(&mut block[..], header.entries);
    sums.seal(block, Kind::Header)
}

pub(crate) fn decode_header(block: &Block, sums: Sums) -> Option<Header> {
    let read = sums.is_sealed(block, Kind::Header).then(|| Header {
        sequence: header::SEQUENCE.get(block),
        next_tx: header::NEXT_TX.get(block),
        log_at: header::LOG_AT.get(block),
        entries: header::ENTRIES.get(block),
    });
    // The next checkpoint needs a number too.
    read.filter(|header| header.sequence < u64::MAX)
}

/// Which of its two places on the medium holds the current version of a table page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Place {
    /// Neither place: the page maps no address.
    #[default]
    Absent,
    First,
    Second,
}

impl Place {
    fn of(bits: u8) -> Option<Self> {
        [Self::Absent, Self::First, Self::Second]
            .get(usize::from(bits))
            .copied()
    }
}

mod directory {
    units::layout! { 4092:
        PLACES: [u8; 4080] = 0,
        SEQUENCE: u64 = 4080,
        INDEX: u32 = 4088,
    }
}

/// Encodes block `index` of the directory of checkpoint `sequence`; `places` are those of its
/// pages.
pub(crate) fn encode_directory(
    places: &[Place],
    sequence: u64,
    index: u32,
    sums: Sums,
) -> Box<Block> {
    let mut block = blank();
    for (at, place) in places.iter().enumerate() {
        block[at / 4] |= (*place as u8) << (at % 4 * 2);
    }
    directory::SEQUENCE.put(&mut block[..], sequence);
    directory::INDEX.put(&mut block[..], index);
    sums.seal(block, Kind::Directory)
}

/// Reads block `index` of the directory of checkpoint `sequence` into `places`; false if the block
/// is anything else.
pub(crate) fn decode_directory(
    block: &Block,
    places: &mut [Place],
    (sequence, index): (u64, u32),
    sums: Sums,
) -> bool {
    let is_it = sums.is_sealed(block, Kind::Directory)
        && directory::SEQUENCE.get(block) == sequence
        && directory::INDEX.get(block) == index;
    if !is_it {
        return false;
    }
    for (at, place) in places.iter_mut().enumerate() {
        let Some(read) = Place::of(block[at / 4] >> (at % 4 * 2) & 3) else {
            return false;
        };
        *place = read;
    }
    true
}

/// Checkpoint of a directory block; `None` if the block is anything else.
pub(crate) fn sequence_of(block: &Block, sums: Sums) -> Option<u64> {
    let is_sealed = sums.is_sealed(block, Kind::Directory);
    is_sealed.then(|| directory::SEQUENCE.get(block))
}

mod page {
    units::layout! { 4092:
        ENTRIES: [u8; 4072] = 0,
        INDEX: u32 = 4072,
    }
}

/// Transformed addresses by original address; [`NONE`] where unmapped.
pub(crate) type Entries = [u32; PER_PAGE];

/// Encodes page `index` of the tables.
pub(crate) fn encode_page(entries: &Entries, index: u32, sums: Sums) -> Box<Block> {
    let mut block = blank();
    for (entry, out) in entries.iter().zip(block.chunks_mut(4)) {
        entry.save(out);
    }
    page::INDEX.put(&mut block[..], index);
    sums.seal(block, Kind::Page)
}

/// Reads page `index` of the tables into `entries`; false if the block is anything else (`entries`
/// are garbage then).
pub(crate) fn decode_page(block: &Block, entries: &mut Entries, index: u32, sums: Sums) -> bool {
    for (entry, bytes) in entries.iter_mut().zip(block.chunks(4)) {
        *entry = Value::load(bytes);
    }
    sums.is_sealed(block, Kind::Page) && page::INDEX.get(block) == index
}

mod log {
    units::layout! { 4092:
        PAIRS: [u8; 4080] = 0,
        TX: u32 = 4080,
        /// Index of the block within its transaction.
        INDEX: u16 = 4084,
        /// Pairs in the block, at most [`PER_LOG`].
        COUNT: u16 = 4086,
        /// Bit 0: first block of the transaction; bit 1: last block, which commits. The upper 14
        /// bits hold the low bits of the number of the checkpoint that the transaction follows.
        MARKS: u16 = 4088,
        /// Number of blocks in the transaction.
        BLOCKS: u16 = 4090,
    }
}

/// A mapping in the log: original unit `orig` leads to unit `trans` of the data area, or to
/// [`NONE`] after a discard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) orig: u32,
    pub(crate) trans: u32,
}

/// Fields of a log block apart from its pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) tx: u32,
    pub(crate) index: u16,
    pub(crate) blocks: u16,
    /// Low 14 bits of the number of the checkpoint that the transaction follows.
    pub(crate) base: u16,
}

/// The part of a checkpoint number that a log block has room for: its low 14 bits.
pub(crate) const fn base_of(sequence: u64) -> u16 {
    (sequence & 0x3fff) as u16
}

impl Record {
    const fn marks(&self) -> u16 {
        let begin = (self.index == 0) as u16;
        let commit = (self.index + 1 == self.blocks) as u16;
        begin | commit << 1 | self.base << 2
    }
}

//= remap 3.5
pub(crate) fn encode_log(pairs: &[Pair], record: Record, sums: Sums) -> Box<Block> {
    let mut block = blank();
    for (pair, out) in pairs.iter().zip(block.chunks_mut(8)) {
        pair.orig.save(out);
        pair.trans.save(&mut out[4..]);
    }
    log::TX.put(&mut block[..], record.tx);
    log::INDEX.put(&mut block[..], record.index);
    log::COUNT.put(&mut block[..], pairs.len() as u16);
    log::MARKS.put(&mut block[..], record.marks());
    log::BLOCKS.put(&mut block[..], record.blocks);
    sums.seal(block, Kind::Log)
}

/// Reads a log block; `None` if the block is anything else.
pub(crate) fn decode_log(block: &Block, sums: Sums) -> Option<(Record, Vec<Pair>)> {
    let record = Record {
        tx: log::TX.get(block),
        index: log::INDEX.get(block),
        blocks: log::BLOCKS.get(block),
        base: log::MARKS.get(block) >> 2,
    };
    let count = usize::from(log::COUNT.get(block));
    let is_it = sums.is_sealed(block, Kind::Log)
        && count <= PER_LOG
        && record.index < record.blocks
        && log::MARKS.get(block) == record.marks();
    let pair = |bytes: &[u8]| Pair {
        orig: Value::load(bytes),
        trans: Value::load(&bytes[4..]),
    };
    is_it.then(|| (record, block.chunks(8).take(count).map(pair).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    #[test]
    fn field_offsets_match_the_golden_file() {
        let mut print = String::new();
        let layouts: [(&str, &[units::layout::FieldInfo]); 5] = [
            ("superblock", superblock::FIELDS),
            ("header", header::FIELDS),
            ("directory", directory::FIELDS),
            ("page", page::FIELDS),
            ("log", log::FIELDS),
        ];
        for (name, fields) in layouts {
            let _ = writeln!(print, "{name}");
            for (field, at, len) in fields {
                let _ = writeln!(print, "  {at:4} {len:4} {field}");
            }
        }
        assert_eq!(print, include_str!("format.txt"));
    }

    #[test]
    fn blocks_round_trip_and_decode_as_no_other_kind() {
        let sums = Sums::of(&[7; 16]);
        let pairs = [
            Pair { orig: 1, trans: 2 },
            Pair {
                orig: 3,
                trans: NONE,
            },
        ];
        let record = Record {
            tx: 9,
            index: 0,
            blocks: 1,
            base: base_of(5),
        };
        let block = encode_log(&pairs, record, sums);
        assert_eq!(decode_log(&block, sums), Some((record, pairs.to_vec())));
        assert_eq!(decode_log(&block, Sums::of(&[8; 16])), None);
        assert_eq!(decode_header(&block, sums), None);
        for bit in (0..UNIT * 8).step_by(509) {
            let mut damaged = block.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode_log(&damaged, sums), None, "bit {bit}");
        }
        let mut places = [Place::Absent; 7];
        let written = [Place::First, Place::Absent, Place::Second, Place::First];
        let block = encode_directory(&written, 3, 1, sums);
        assert!(!decode_directory(&block, &mut places, (3, 0), sums));
        assert!(decode_directory(&block, &mut places, (3, 1), sums));
        assert_eq!(places[..4], written);
    }
}
