//! Division of a drive's zones.
//!
//! Zone 0 has the superblock, which is written once; zones 1 and 2 have checkpoints in
//! turn; the metadata zones follow, and then the main area, in which each section is a
//! zone. Addresses count blocks through the zones without gaps.
//!
//! The F2FS addresses of checkpoints and tables lie within the zones before the main area
//! and are virtual: the map locates tables, and write pointers locate checkpoints. An image
//! that shows both at their virtual addresses is a valid F2FS image.

use crate::config::MkfsOptions;
use crate::format::{PER_CHUNK, Record, ZONES_MAX};
use host::Packing;
use lfs::{BLOCK, Geometry};
use ssd::ZoneLimits;
use std::ops::Range;
use units::SECTOR;

/// Blocks of a segment of F2FS.
const SEGMENT: u32 = 512;
/// Drive zones of the two checkpoint zones.
pub(crate) const CHECKPOINTS: [u32; 2] = [1, 2];
/// Drive zone of metadata zone 0.
pub(crate) const METADATA: u32 = 3;

/// A drive whose zones cannot hold a Persimmon file system.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The drive has this many conventional zones; Persimmon supports none.
    #[error("{0} of the zones are conventional: Persimmon wants none, and would not use them")]
    Conventional(u32),
    /// A zone of this capacity in bytes holds no segment of 2 MiB.
    #[error("zones that hold {0} bytes are too small: a segment of 2 MiB has to fit")]
    Small(u64),
    /// The drive has too few zones for the main area behind the metadata.
    #[error("{zones} zones are too few: {wanted} are for superblock, checkpoints and metadata")]
    Few {
        /// Zones of the drive.
        zones: u32,
        /// Zones that superblock, checkpoints and metadata take.
        wanted: u32,
    },
    /// The plan needs this many metadata zones: more than a chunk page's bitmap has bits for.
    #[error("{0} zones of metadata are too many: a chunk page has bits for 320")]
    Many(u32),
    /// The drive has this many blocks of 4 KiB: more than a 32-bit address can name.
    #[error("a drive of {0} blocks of 4096 bytes is too large: up to 16 TiB are supported")]
    Large(u64),
    /// A zone of this many blocks may not fit a checkpoint: up to 512 blocks of F2FS's pack,
    /// the directory and the footer.
    #[error("zones of {0} blocks are too small for a checkpoint: 1024 are needed")]
    Checkpoint(u32),
}

/// Sizes from which the address of every area follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Usable blocks of a zone.
    pub(crate) zone_blocks: u32,
    pub(crate) metadata_zones: u32,
}

/// Usable blocks of a zone, and the count of zones, of a drive with these limits.
fn zones_of(limits: ZoneLimits) -> Result<(u32, u32), LayoutError> {
    let packing: Packing = lfs::packing(limits);
    let zone_blocks = packing.room() * SECTOR / BLOCK as u64;
    let blocks = zone_blocks * u64::from(limits.zones);
    match (limits.conventional, u32::try_from(zone_blocks)) {
        (0, _) if blocks > u64::from(u32::MAX) => Err(LayoutError::Large(blocks)),
        (0, Ok(blocks @ 1..)) => Ok((blocks, limits.zones)),
        (0, _) => Err(LayoutError::Small(limits.capacity * SECTOR)),
        (count, _) => Err(LayoutError::Conventional(count)),
    }
}

impl Layout {
    /// Plans the division of a drive with these limits.
    ///
    /// The metadata area has the paper's share, and at least enough zones for cleaning to make
    /// progress: the zones that valid blocks can fill, the free reserve, and the write zone.
    //= dissertation 4.3.4
    pub(crate) fn plan(limits: ZoneLimits, options: &MkfsOptions) -> Result<Self, LayoutError> {
        let (zone_blocks, zones) = zones_of(limits)?;
        if zone_blocks < 2 * SEGMENT {
            return Err(LayoutError::Checkpoint(zone_blocks));
        }
        let per_zone = u64::from(zone_blocks / SEGMENT);
        let rest = u64::from(zones.saturating_sub(METADATA));
        let tables = lfs::table_segments(rest * per_zone) * u64::from(SEGMENT);
        let pages = tables.div_ceil(PER_CHUNK as u64);
        let share = (tables * u64::from(options.metadata_percent) / 100).div_ceil(per_zone * 512);
        let valid = (tables + pages).div_ceil(per_zone * 512);
        let wanted = share.max(valid + u64::from(options.clean_at) + 1);
        let metadata_zones = u32::try_from(wanted).unwrap_or(u32::MAX);
        if metadata_zones as usize > ZONES_MAX {
            return Err(LayoutError::Many(metadata_zones));
        }
        let before = METADATA + metadata_zones;
        // F2FS needs seven main zones for its logs.
        if zones < before + 7 {
            return Err(LayoutError::Few {
                zones,
                wanted: before,
            });
        }
        Ok(Self {
            zone_blocks,
            metadata_zones,
        })
    }

    /// Layout that a superblock records; `None` if it does not fit the drive's zones.
    pub(crate) fn of(record: Record, geometry: &Geometry, limits: ZoneLimits) -> Option<Self> {
        let (zone_blocks, zones) = zones_of(limits).ok()?;
        let layout = Self {
            zone_blocks: record.zone_blocks,
            metadata_zones: record.metadata_zones,
        };
        let fits = record.zone_blocks == zone_blocks
            && (1..=ZONES_MAX).contains(&(record.metadata_zones as usize))
            && METADATA + record.metadata_zones < zones
            && geometry.main() == layout.main()
            && geometry.section_blocks() == zone_blocks
            && geometry.tables().len() <= usize::from(u16::MAX) * PER_CHUNK;
        fits.then_some(layout)
    }

    /// First block of the main area.
    pub(crate) const fn main(&self) -> u32 {
        (METADATA + self.metadata_zones) * self.zone_blocks
    }

    /// Blocks of drive zone `zone`.
    pub(crate) const fn blocks(&self, zone: u32) -> Range<u32> {
        zone * self.zone_blocks..(zone + 1) * self.zone_blocks
    }

    /// Blocks of metadata zone `zone`, counted from the first metadata zone.
    pub(crate) const fn metadata(&self, zone: u32) -> Range<u32> {
        self.blocks(METADATA + zone)
    }

    /// Metadata zone that contains block `addr`; `None` if the block lies elsewhere.
    pub(crate) fn metadata_zone(&self, addr: u32) -> Option<u32> {
        let zone = (addr / self.zone_blocks).checked_sub(METADATA)?;
        (zone < self.metadata_zones).then_some(zone)
    }

    /// Mkfs options of the F2FS body on this layout.
    pub(crate) fn body(&self, limits: ZoneLimits, options: &MkfsOptions) -> lfs::MkfsOptions {
        let blocks = u64::from(limits.zones) * u64::from(self.zone_blocks);
        lfs::MkfsOptions {
            uuid: options.uuid,
            now: options.now,
            label: options.label.clone(),
            segs_per_sec: self.zone_blocks / SEGMENT,
            overprovision: Some(options.overprovision),
            reserved_sections: Some(options.reserved_zones),
            areas: Some(lfs::Areas {
                first: self.blocks(CHECKPOINTS[0]).start,
                main: self.main(),
            }),
            ..lfs::MkfsOptions::new(blocks)
        }
    }
}
