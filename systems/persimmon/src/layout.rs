//! Which zones of a drive are for what.
//!
//! Zone 0 has the superblock, which is written once; zones 1 and 2 have checkpoints in
//! turn; then come the zones of metadata, and then the main area, each of whose sections
//! is a zone. Addresses are blocks of zones without gaps.
//!
//! The addresses that F2FS has for its checkpoints and tables lie within those of the
//! zones before the main area, and are never used as they are: tables are where the map
//! says, and checkpoints where the write pointers lead. So an image that is shown with
//! everything at these addresses is one of F2FS.

use crate::config::MkfsOptions;
use crate::format::{PER_CHUNK, Record, ZONES_MAX};
use host::Packing;
use lfs::{BLOCK, Geometry};
use ssd::ZoneLimits;
use std::ops::Range;
use units::SECTOR;

/// Blocks of a segment of F2FS.
const SEGMENT: u32 = 512;
/// The zones of checkpoints.
pub(crate) const CHECKPOINTS: [u32; 2] = [1, 2];
/// The first zone of metadata.
pub(crate) const METADATA: u32 = 3;

/// Why a drive cannot be divided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// Conventional zones.
    #[error("{0} of the zones are conventional: Persimmon wants none, and would not use them")]
    Conventional(u32),
    /// Zones that hold no segment.
    #[error("zones that hold {0} bytes are too small: a segment of 2 MiB has to fit")]
    Small(u64),
    /// Too few of them.
    #[error("{zones} zones are too few: {wanted} are for superblock, checkpoints and metadata")]
    Few {
        /// Zones of the drive.
        zones: u32,
        /// Those that files cannot have.
        wanted: u32,
    },
    /// Too many for the bitmap of a chunk page.
    #[error("{0} zones of metadata are too many: a chunk page has bits for 320")]
    Many(u32),
    /// Too many for the format.
    #[error("a drive of {0} blocks of 4096 bytes is too large: up to 16 TiB are supported")]
    Large(u64),
    /// Zones that a checkpoint may not fit, which has up to 512 blocks of F2FS and others.
    #[error("zones of {0} blocks are too small for a checkpoint: 1024 are needed")]
    Checkpoint(u32),
}

/// How the zones of a drive are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Blocks that are used of a zone.
    pub(crate) zone_blocks: u32,
    pub(crate) metadata_zones: u32,
}

/// Blocks of a zone, and zones, of a drive with such limits.
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
    /// How a drive with such zones is divided.
    ///
    /// Metadata get the share of the paper, and at least so many zones that cleaning goes
    /// on: what can be valid, the zones that are kept free, and the one that is written.
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
        // Seven more, or F2FS has no room for its logs.
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

    /// As a superblock says, on a drive with such zones; none if that cannot be.
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

    /// The first block of the main area.
    pub(crate) const fn main(&self) -> u32 {
        (METADATA + self.metadata_zones) * self.zone_blocks
    }

    /// The blocks of a zone.
    pub(crate) const fn blocks(&self, zone: u32) -> Range<u32> {
        zone * self.zone_blocks..(zone + 1) * self.zone_blocks
    }

    /// The blocks of a zone of metadata, by its number among those.
    pub(crate) const fn metadata(&self, zone: u32) -> Range<u32> {
        self.blocks(METADATA + zone)
    }

    /// The zone of metadata that a block is in; none if it is elsewhere.
    pub(crate) fn metadata_zone(&self, addr: u32) -> Option<u32> {
        let zone = (addr / self.zone_blocks).checked_sub(METADATA)?;
        (zone < self.metadata_zones).then_some(zone)
    }

    /// The plan of F2FS for it.
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
