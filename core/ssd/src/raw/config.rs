//! Configuration of an open-channel drive, and the geometry that it reports to its host.
//!
//! Invariants of a [`RawGeometry`]: a parallel unit is a die, and a group a channel; chunk c of a
//! unit is block c of all its planes, so no table is needed. Addresses pack group, unit, chunk and
//! block from the top, each in as many bits as it needs, so the address space has gaps where a
//! count is no power of two.

use crate::config::{ConfigError, DriveConfig, Interface};
use crate::layout;
use crate::zoned::Unwritten;
use nand::{Geometry, Row, UNIT};
use serde::{Deserialize, Serialize};

/// Bytes of metadata that the drive stores beside each block for its host.
pub const META: usize = 16;
/// Spare words that the metadata of a block take.
const META_WORDS: u32 = META as u32 / 4;
/// Largest number of addresses in a command: its completion has a bit for each.
//= ocssd-2.0 3.2
pub const MOST_ADDRESSES: usize = 64;

/// Rules of an open-channel drive, besides its flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawConfig {
    /// Written blocks of 4 KiB before the write pointer of an open chunk that cannot be read yet; 0
    /// where a block is readable as soon as its program completes.
    pub cached: u32,
    /// Result of reading a block that is not written, or not readable yet.
    pub read_unwritten: Unwritten,
}

/// Geometry of an open-channel drive. A block is of 4 KiB.
//= ocssd-2.0 2.1
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawGeometry {
    /// Groups, which share no resources: channels.
    pub groups: u32,
    /// Parallel units of a group, which work concurrently: dies.
    pub units: u32,
    /// Chunks of a parallel unit.
    pub chunks: u32,
    /// Blocks of a chunk.
    pub blocks: u32,
    /// Blocks of the smallest write, one program; writes are multiples of it.
    pub write_min: u32,
    /// Blocks of a write that performs best.
    pub write_opt: u32,
    /// Written blocks before the write pointer of an open chunk that cannot be read yet.
    pub cached: u32,
    flash: Geometry,
}

/// Physical address of a block, as packed bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ppa(pub u64);

/// A physical address, unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Group of the drive, below [`RawGeometry::groups`].
    pub group: u32,
    /// Parallel unit in the group.
    pub unit: u32,
    /// Chunk in the parallel unit.
    pub chunk: u32,
    /// Block in the chunk.
    pub block: u32,
}

/// Bits that distinguish `count` values.
const fn bits(count: u32) -> u32 {
    u32::BITS - (count - 1).leading_zeros()
}

impl RawGeometry {
    /// The geometry of `config`; `None` for a drive of another interface.
    ///
    /// # Errors
    /// Names the knob that makes it impossible.
    pub fn new(config: &DriveConfig) -> Result<Option<Self>, ConfigError> {
        let open = config.interface == Interface::OpenChannel;
        let Some(raw) = config.raw.filter(|_| open) else {
            if open || config.raw.is_some() {
                let expected =
                    "a table [raw] on a drive of the interface open-channel, and on no other";
                return Err(ConfigError::range("raw", open, expected));
            }
            return Ok(None);
        };
        let flash = layout::few_sectors(config, "an open-channel drive")?;
        let geometry = Self {
            groups: flash.channels,
            units: flash.dies() / flash.channels,
            chunks: flash.blocks_per_plane,
            blocks: flash.sectors_per_block() * flash.planes,
            write_min: flash.sectors_per_program(),
            write_opt: flash.sectors_per_program(),
            cached: raw.cached,
            flash,
        };
        geometry.check(config)?;
        Ok(Some(geometry))
    }

    fn check(&self, config: &DriveConfig) -> Result<(), ConfigError> {
        if config.geometry.spare_words < META_WORDS {
            let expected = format!("at least {META_WORDS}, {META} bytes of metadata for a block");
            let knob = "geometry.spare_words";
            return Err(ConfigError::range(
                knob,
                config.geometry.spare_words,
                expected,
            ));
        }
        if self.write_min as usize > MOST_ADDRESSES {
            let expected = format!("programs of at most {MOST_ADDRESSES} blocks of 4 KiB");
            return Err(ConfigError::range(
                "geometry.planes",
                self.write_min,
                expected,
            ));
        }
        if self.cached >= self.blocks || !self.cached.is_multiple_of(self.write_min) {
            let expected = format!("a multiple of {} below {}", self.write_min, self.blocks);
            return Err(ConfigError::range("raw.cached", self.cached, expected));
        }
        let alone = config.front.is_none() && config.zones.is_none();
        if !alone {
            let expected = "neither a front nor zones on a drive whose mapping the host holds";
            return Err(ConfigError::range("raw", "open-channel", expected));
        }
        let raw = config.geometry.bytes();
        if config.capacity.0 == 0
            || config.capacity.0 > raw
            || !config.capacity.0.is_multiple_of(UNIT as u64)
        {
            let expected = format!("a multiple of 4096 up to the {raw} bytes of the flash");
            return Err(ConfigError::range("capacity", config.capacity.0, expected));
        }
        Ok(())
    }

    /// Parallel units of all groups.
    #[must_use]
    pub const fn all_units(&self) -> u32 {
        self.groups * self.units
    }

    /// Chunks of all parallel units.
    #[must_use]
    pub const fn all_chunks(&self) -> u32 {
        self.all_units() * self.chunks
    }

    /// The address of `place`.
    //= ocssd-2.0 1.2.3
    #[must_use]
    pub const fn ppa(&self, place: Place) -> Ppa {
        let (unit, chunk, block) = (bits(self.units), bits(self.chunks), bits(self.blocks));
        let address = (place.group as u64) << unit | place.unit as u64;
        let address = address << chunk | place.chunk as u64;
        Ppa(address << block | place.block as u64)
    }

    /// Unpacks an address; `None` if there is no such block.
    //= ocssd-2.0 1.2.3
    #[must_use]
    pub fn place(&self, ppa: Ppa) -> Option<Place> {
        let mut rest = ppa.0;
        let mut take = |count: u32| {
            let part = rest & ((1 << bits(count)) - 1);
            rest >>= bits(count);
            u32::try_from(part).ok().filter(|&part| part < count)
        };
        let (block, chunk, unit) = (take(self.blocks)?, take(self.chunks)?, take(self.units)?);
        let group = u32::try_from(rest)
            .ok()
            .filter(|&group| group < self.groups)?;
        Some(Place {
            group,
            unit,
            chunk,
            block,
        })
    }

    /// Index of a chunk in the drive: ordered by group, unit, chunk.
    #[must_use]
    pub const fn chunk_index(&self, place: Place) -> u32 {
        (place.group * self.units + place.unit) * self.chunks + place.chunk
    }

    /// The first block of the chunk at `index` in the drive.
    #[must_use]
    pub const fn chunk_place(&self, index: u32) -> Place {
        let unit = index / self.chunks;
        Place {
            group: unit / self.units,
            unit: unit % self.units,
            chunk: index % self.chunks,
            block: 0,
        }
    }

    /// The block at index `number` among all blocks of 4 KiB of the flash, chunk by chunk.
    #[must_use]
    pub const fn nth(&self, number: u32) -> Place {
        Place {
            block: number % self.blocks,
            ..self.chunk_place(number / self.blocks)
        }
    }

    /// Index of `place` among all blocks of 4 KiB of the flash; fits into four bytes.
    #[must_use]
    pub const fn number(&self, place: Place) -> u32 {
        self.chunk_index(place) * self.blocks + place.block
    }

    /// The flash row and plane of a block, and its sector in the page.
    pub(super) fn row(&self, place: Place) -> (Row, u32) {
        let per_page = self.flash.sectors_per_page();
        let (program, within) = (place.block / self.write_min, place.block % self.write_min);
        let per_row = per_page * self.flash.planes;
        let row = Row {
            die: place.unit * self.groups + place.group,
            page: program * self.flash.pages_per_program + within / per_row,
            blocks: [place.chunk; nand::MAX_PLANES],
            planes: 1 << (within % per_row / per_page),
        };
        (row, within % per_page)
    }

    /// All planes of the blocks of a chunk, at its first page.
    pub(super) fn blocks_of(&self, chunk: u32) -> Row {
        let (row, _) = self.row(self.chunk_place(chunk));
        Row {
            planes: ((1_u32 << self.flash.planes) - 1) as u8,
            ..row
        }
    }
}
