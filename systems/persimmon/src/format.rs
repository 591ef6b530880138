//! The bytes that are added to the format of F2FS.
//!
//! Invariant: each of the blocks here says what it is, and ends with a checksum that the
//! identity of the file system seeds, so that it is told from any other block.

use lfs::Block;
use units::layout::Value;

/// Addresses of a chunk page.
//= dissertation 4.3.1
pub(crate) const PER_CHUNK: usize = 1010;
/// Zones that the bitmap of a chunk page has bits for.
//= dissertation 4.3.2
pub(crate) const ZONES_MAX: usize = 320;
/// Addresses of a block of the directory.
pub(crate) const PER_DIRECTORY: usize = 1023;

/// A block of zeros.
pub(crate) fn blank() -> Box<Block> {
    Box::new([0; lfs::BLOCK])
}

/// The checksums of one file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sums(u32);

impl Sums {
    pub(crate) fn of(uuid: &[u8; 16]) -> Self {
        Self(crc32c::crc32c(uuid))
    }

    fn of_bytes(self, bytes: &[u8]) -> u32 {
        crc32c::crc32c_append(self.0, bytes)
    }

    /// The checksum of a block of this kind.
    fn of_block(self, block: &Block, kind: Kind) -> u32 {
        let seeded = crc32c::crc32c_append(self.0, &[kind as u8]);
        crc32c::crc32c_append(seeded, &block[..SUM_AT])
    }

    /// Ends a block with its checksum.
    fn seal(self, block: &mut Block, kind: Kind) {
        let sum = self.of_block(block, kind);
        sum.save(&mut block[SUM_AT..]);
    }

    fn is_sealed(self, block: &Block, kind: Kind) -> bool {
        let sum: u32 = Value::load(&block[SUM_AT..]);
        sum == self.of_block(block, kind)
    }
}

/// What a block is: its checksum is of that too.
#[derive(Clone, Copy)]
enum Kind {
    Page = 1,
    Directory,
    Footer,
}

/// Where the checksum of a block lies.
const SUM_AT: usize = 4092;

/// A chunk page: the addresses of a part of the metadata, all of them.
mod page {
    //= dissertation 4.3.1
    units::layout! { 4092:
        ENTRIES: [u8; 4040] = 0,
        /// The zone that became less valid by the change that the page was written for,
        /// and how many of its blocks are not valid.
        ZONE: u32 = 4040,
        INVALID: u32 = 4044,
        /// Zones of metadata that are in use.
        BITMAP: [u8; 40] = 4048,
        /// Which part it is, and the lower half of the number of the zone's opening.
        INDEX: u16 = 4088,
        EPOCH: u16 = 4090,
    }
}

/// Addresses of metadata blocks; 0 for one that was never written.
pub(crate) type Entries = [u32; PER_CHUNK];

/// What a chunk page says beside the addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct About {
    pub(crate) index: u16,
    pub(crate) epoch: u16,
    pub(crate) zone: u32,
    pub(crate) invalid: u32,
    pub(crate) bitmap: [u8; ZONES_MAX / 8],
}

/// Writes a chunk page.
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

/// Reads a chunk page; none if the block is something else.
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

/// Writes the blocks of the directory, which says where the chunk pages are.
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

/// Reads a block of the directory.
pub(crate) fn decode_directory(block: &Block, sums: Sums) -> Option<Vec<u32>> {
    let pages = block[..SUM_AT].chunks(4).map(Value::load);
    sums.is_sealed(block, Kind::Directory)
        .then(|| pages.collect())
}

/// The footer of a checkpoint.
mod footer {
    //= dissertation 4.4
    units::layout! { 4092:
        MAGIC: [u8; 8] = 0,
        VERSION: u64 = 8,
        /// Blocks of the pack of F2FS, and of the directory behind it.
        PACK: u32 = 16,
        DIRECTORY: u32 = 20,
        /// Openings of zones of metadata so far.
        EPOCH: u32 = 24,
        /// Openings and written blocks of each zone of metadata.
        ZONES: [u8; 2560] = 64,
    }
}

const FOOTER: [u8; 8] = *b"prsmfoot";

/// A zone of metadata, as a checkpoint has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ZoneAt {
    /// The number of its opening; 0 if it is free.
    pub(crate) epoch: u32,
    /// Blocks that are written.
    pub(crate) written: u32,
}

/// What a footer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) version: u64,
    pub(crate) pack: u32,
    pub(crate) directory: u32,
    pub(crate) epoch: u32,
    /// As many as the bitmap has bits.
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

/// What stands before the superblock of F2FS.
mod record {
    units::layout! { 24:
        MAGIC: [u8; 8] = 0,
        /// Of this format.
        REVISION: u32 = 8,
        ZONE_BLOCKS: u32 = 12,
        METADATA_ZONES: u32 = 16,
        SUM: u32 = 20,
    }
}

const RECORD: [u8; 8] = *b"persimmn";
const REVISION: u32 = 1;

/// What the superblock says beside that of F2FS.
//= dissertation 4.3.4
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Blocks of a zone.
    pub(crate) zone_blocks: u32,
    /// Zones for metadata.
    pub(crate) metadata_zones: u32,
}

impl Record {
    /// Writes it into the superblock's block.
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
