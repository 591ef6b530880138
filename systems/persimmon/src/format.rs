//! On-disk blocks that Persimmon adds to the format of F2FS.
//!
//! Invariant: each block ends with a checksum seeded by the file system's UUID and the
//! block's kind, so no other block is taken for one of that kind.

use lfs::Block;
use units::layout::Value;

/// Metadata block addresses in a chunk page.
//= dissertation 4.3.1
pub(crate) const PER_CHUNK: usize = 1010;
/// Bits in the zone bitmap (ZB) of a chunk page: the most metadata zones of a drive.
//= dissertation 4.3.2
pub(crate) const ZONES_MAX: usize = 320;
/// Chunk page addresses in a directory block.
pub(crate) const PER_DIRECTORY: usize = 1023;

/// Allocates a block filled with zeros.
pub(crate) fn blank() -> Box<Block> {
    Box::new([0; lfs::BLOCK])
}

/// Checksums (CRC32C) of one file system; holds the seed made from its UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sums(u32);

impl Sums {
    pub(crate) fn of(uuid: &[u8; 16]) -> Self {
        Self(crc32c::crc32c(uuid))
    }

    fn of_bytes(self, bytes: &[u8]) -> u32 {
        crc32c::crc32c_append(self.0, bytes)
    }

    /// Checksum of a block's first [`SUM_AT`] bytes, seeded with its kind.
    fn of_block(self, block: &Block, kind: Kind) -> u32 {
        let seeded = crc32c::crc32c_append(self.0, &[kind as u8]);
        crc32c::crc32c_append(seeded, &block[..SUM_AT])
    }

    /// Stores the checksum at the end of the block.
    fn seal(self, block: &mut Block, kind: Kind) {
        let sum = self.of_block(block, kind);
        sum.save(&mut block[SUM_AT..]);
    }

    fn is_sealed(self, block: &Block, kind: Kind) -> bool {
        let sum: u32 = Value::load(&block[SUM_AT..]);
        sum == self.of_block(block, kind)
    }
}

/// Kind of a block; the checksum covers it.
#[derive(Clone, Copy)]
enum Kind {
    Page = 1,
    Directory,
    Footer,
}

/// Byte offset of a block's checksum.
const SUM_AT: usize = 4092;

/// Chunk page: all addresses of one part of the map.
mod page {
    //= dissertation 4.3.1
    units::layout! { 4092:
        ENTRIES: [u8; 4040] = 0,
        /// The zone that lost a valid block by the change for which the page was written,
        /// and the count of that zone's invalid blocks.
        ZONE: u32 = 4040,
        INVALID: u32 = 4044,
        /// Bitmap of the metadata zones in use.
        BITMAP: [u8; 40] = 4048,
        /// Number of the part, and the lower half of the epoch at which the zone was opened.
        INDEX: u16 = 4088,
        EPOCH: u16 = 4090,
    }
}

/// Addresses of the metadata blocks of one part; 0 for a block that was never written.
pub(crate) type Entries = [u32; PER_CHUNK];

/// Fields of a chunk page other than its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct About {
    pub(crate) index: u16,
    pub(crate) epoch: u16,
    pub(crate) zone: u32,
    pub(crate) invalid: u32,
    pub(crate) bitmap: [u8; ZONES_MAX / 8],
}

/// Encodes a chunk page with its checksum.
pub(crate) fn encode_page(entries: &Entries, about: &About, sums: Sums) -> Box<Block> {
    let mut block = blank();
    for (entry, out) in entries.iter().zip(block.chunks_mut(4)) {
        entry.save(out);
    }
    let bytes = &mut block[..];
    page::ZONE.put(bytes, about.zone);
    page::INVALID.put(bytes, about.invalid);
    page::BITMAP.put(bytes, about.bitmap);
    page::INDEX.put(bytes, about.index);
    page::EPOCH.put(bytes, about.epoch);
    sums.seal(&mut block, Kind::Page);
    block
}

/// Decodes a chunk page; `None` if the block is not one of this file system.
pub(crate) fn decode_page(block: &Block, sums: Sums) -> Option<(About, Box<Entries>)> {
    if !sums.is_sealed(block, Kind::Page) {
        return None;
    }
    let mut entries = Box::new([0; PER_CHUNK]);
    for (entry, bytes) in entries.iter_mut().zip(block.chunks(4)) {
        *entry = Value::load(bytes);
    }
    let about = About {
        index: page::INDEX.get(block),
        epoch: page::EPOCH.get(block),
        zone: page::ZONE.get(block),
        invalid: page::INVALID.get(block),
        bitmap: page::BITMAP.get(block),
    };
    Some((about, entries))
}

/// Encodes the directory: the address of each part's chunk page, in the order of parts.
pub(crate) fn encode_directory(pages: &[u32], sums: Sums) -> Vec<Box<Block>> {
    let block = |part: &[u32]| {
        let mut block = blank();
        for (page, out) in part.iter().zip(block.chunks_mut(4)) {
            page.save(out);
        }
        sums.seal(&mut block, Kind::Directory);
        block
    };
    pages.chunks(PER_DIRECTORY).map(block).collect()
}

/// Decodes a directory block; `None` if the checksum does not match.
pub(crate) fn decode_directory(block: &Block, sums: Sums) -> Option<Vec<u32>> {
    let pages = block[..SUM_AT].chunks(4).map(Value::load);
    sums.is_sealed(block, Kind::Directory)
        .then(|| pages.collect())
}

/// Footer: the last block of a checkpoint.
mod footer {
    //= dissertation 4.4
    units::layout! { 4092:
        MAGIC: [u8; 8] = 0,
        VERSION: u64 = 8,
        /// Blocks of the F2FS pack, and of the directory behind the pack.
        PACK: u32 = 16,
        DIRECTORY: u32 = 20,
        /// Count of metadata zones opened since mkfs.
        EPOCH: u32 = 24,
        /// Epoch and written blocks of each metadata zone, 4 bytes each.
        ZONES: [u8; 2560] = 64,
    }
}

const FOOTER: [u8; 8] = *b"prsmfoot";

/// State of a metadata zone as a checkpoint records it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ZoneAt {
    /// Epoch at which the zone was opened; 0 if the zone is free.
    pub(crate) epoch: u32,
    /// Blocks before the write pointer.
    pub(crate) written: u32,
}

/// Decoded footer of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) version: u64,
    pub(crate) pack: u32,
    pub(crate) directory: u32,
    pub(crate) epoch: u32,
    /// [`ZONES_MAX`] entries; those of zones that the drive does not have are zero.
    pub(crate) zones: Vec<ZoneAt>,
}

impl Footer {
    pub(crate) fn encode(&self, sums: Sums) -> Box<Block> {
        let mut block = blank();
        let bytes = &mut block[..];
        footer::MAGIC.put(bytes, FOOTER);
        footer::VERSION.put(bytes, self.version);
        footer::PACK.put(bytes, self.pack);
        footer::DIRECTORY.put(bytes, self.directory);
        footer::EPOCH.put(bytes, self.epoch);
        for (zone, out) in self
            .zones
            .iter()
            .zip(bytes[footer::ZONES.at..].chunks_mut(8))
        {
            zone.epoch.save(out);
            zone.written.save(&mut out[4..]);
        }
        sums.seal(&mut block, Kind::Footer);
        block
    }

    pub(crate) fn decode(block: &Block, sums: Sums) -> Option<Self> {
        if footer::MAGIC.get(block) != FOOTER || !sums.is_sealed(block, Kind::Footer) {
            return None;
        }
        let list = footer::ZONES.get(block);
        let zone = |bytes: &[u8]| ZoneAt {
            epoch: Value::load(bytes),
            written: Value::load(&bytes[4..]),
        };
        Some(Self {
            version: footer::VERSION.get(block),
            pack: footer::PACK.get(block),
            directory: footer::DIRECTORY.get(block),
            epoch: footer::EPOCH.get(block),
            zones: list.chunks(8).map(zone).collect(),
        })
    }
}

/// Record in the unused bytes before the F2FS superblock.
mod record {
    units::layout! { 24:
        MAGIC: [u8; 8] = 0,
        /// Revision of Persimmon's format.
        REVISION: u32 = 8,
        ZONE_BLOCKS: u32 = 12,
        METADATA_ZONES: u32 = 16,
        SUM: u32 = 20,
    }
}

const RECORD: [u8; 8] = *b"persimmn";
const REVISION: u32 = 1;

/// Persimmon's fields in the superblock block: the division of zones that mkfs chose.
//= dissertation 4.3.4
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Usable blocks of a zone.
    pub(crate) zone_blocks: u32,
    /// Count of metadata zones.
    pub(crate) metadata_zones: u32,
}

impl Record {
    /// Writes the record, with its checksum, into the superblock's block.
    pub(crate) fn put(self, block: &mut Block, sums: Sums) {
        let bytes = &mut block[..];
        record::MAGIC.put(bytes, RECORD);
        record::REVISION.put(bytes, REVISION);
        record::ZONE_BLOCKS.put(bytes, self.zone_blocks);
        record::METADATA_ZONES.put(bytes, self.metadata_zones);
        let sum = sums.of_bytes(&bytes[..record::SUM.at]);
        record::SUM.put(bytes, sum);
    }

    pub(crate) fn get(block: &Block, sums: Sums) -> Option<Self> {
        let known = record::MAGIC.get(block) == RECORD
            && record::REVISION.get(block) == REVISION
            && record::SUM.get(block) == sums.of_bytes(&block[..record::SUM.at]);
        known.then(|| Self {
            zone_blocks: record::ZONE_BLOCKS.get(block),
            metadata_zones: record::METADATA_ZONES.get(block),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUMS: Sums = Sums(7);

    #[test]
    fn a_page_takes_the_bytes_of_the_paper_and_is_told_from_any_other() {
        assert_eq!(page::INDEX.at, 4088, "1010 x 4 + 4 + 4 + 40");
        let mut entries = [0; PER_CHUNK];
        (entries[0], entries[1009]) = (7, u32::MAX);
        let about = About {
            index: 3,
            epoch: 9,
            zone: 1,
            invalid: 77,
            bitmap: std::array::from_fn(|byte| byte as u8),
        };
        let block = encode_page(&entries, &about, SUMS);
        let (told, read) = decode_page(&block, SUMS).unwrap();
        assert_eq!((told, *read), (about, entries));
        assert!(
            decode_page(&block, Sums(8)).is_none(),
            "another file system"
        );
        for at in 0..lfs::BLOCK {
            let mut wrong = block.clone();
            wrong[at] ^= 1;
            assert!(decode_page(&wrong, SUMS).is_none(), "byte {at}");
        }
        assert!(decode_page(&blank(), SUMS).is_none());
    }

    #[test]
    fn footer_directory_and_record_read_as_they_were_written() {
        let mut zones = vec![ZoneAt::default(); ZONES_MAX];
        zones[319] = ZoneAt {
            epoch: 5,
            written: 6,
        };
        let footer = Footer {
            version: 1 << 40,
            pack: 6,
            directory: 2,
            epoch: 5,
            zones,
        };
        let block = footer.encode(SUMS);
        assert_eq!(Footer::decode(&block, SUMS), Some(footer));
        assert_eq!(Footer::decode(&block, Sums(8)), None);
        assert_eq!(Footer::decode(&blank(), SUMS), None);
        let pages: Vec<u32> = (0..1500).collect();
        let blocks = encode_directory(&pages, SUMS);
        let read: Vec<u32> = blocks
            .iter()
            .flat_map(|block| decode_directory(block, SUMS).unwrap())
            .collect();
        assert_eq!((blocks.len(), &read[..1500]), (2, &pages[..]));
        let record = Record {
            zone_blocks: 512,
            metadata_zones: 4,
        };
        let mut block = blank();
        record.put(&mut block, SUMS);
        assert_eq!(Record::get(&block, SUMS), Some(record));
        assert_eq!(Record::get(&blank(), SUMS), None);
    }
}
