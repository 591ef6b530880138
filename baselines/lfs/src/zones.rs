//! F2FS on zones: the tables lie in conventional zones, and each section of the main area
//! is a zone that is written in order.
//!
//! Addresses of the format count the used sectors of zones without gaps ([`host::Linear`]);
//! of each sequential zone whole segments are used. So the layout does not depend on how the
//! size of a zone exceeds its capacity. Where both are equal, and zones are of whole
//! segments, the layout is that of Linux on such a drive.
//!
//! # Invariants
//!
//! - A zone is written at its write pointer only, so logs enter free sections only. If the
//!   zone of a log was written further than the last checkpoint says, a mount moves the log
//!   to another section.
//! - A zone is active only while a log is in it: a log leaves a zone when it is full, and a
//!   mount finishes other zones that hold data, and resets free ones.

use crate::Block;
use crate::format::superblock::Geometry;
use crate::format::{BLOCK, SEG_BLOCKS};
use crate::inplace::{InPlace, OpenError, errno, extent};
use crate::mkfs::{Areas, MkfsError, MkfsOptions, table_segments};
use crate::persist::{Found, Log, MainArea, Pack, Persist, SectionUse, Table};
use host::{BlockPort, Disk, Linear, Packing, Who, ZoneDisk, ZonedPort};
use nand::Payload;
use sim::Sim;
use ssd::{Content, ZoneAction, ZoneKind, ZoneLimits, ZoneState};
use units::{Bytes, Origin, Placement, SECTOR};
use vfs::{Errno, Result};

/// Bytes of a segment: the used part of a zone is a multiple of them.
const GRAIN: Bytes = Bytes(SEG_BLOCKS as u64 * BLOCK as u64);
/// Sectors of a block.
const SECTORS: u64 = BLOCK as u64 / SECTOR;

/// The address space of zones with `limits`: whole segments of each sequential zone.
#[must_use]
pub const fn packing(limits: ZoneLimits) -> Packing {
    Packing::new(limits, GRAIN.0 / SECTOR)
}

/// The zones of `port` as one range of sectors, in the address space of [`packing`].
pub fn linear(sim: &Sim, port: &impl ZonedPort) -> Linear<ZoneDisk> {
    Linear::in_grains(sim, ZoneDisk::from(port), GRAIN)
}

/// The main area on zones: section `n` is the `n`th zone from the start of the area.
pub struct MainZones {
    linear: Linear<ZoneDisk>,
    /// First block of the main area; `section` is the number of blocks of a section.
    main: u32,
    section: u32,
}

impl MainZones {
    /// The main area of a file system with this geometry; the caller checks [`Self::fits`].
    pub fn new(linear: Linear<ZoneDisk>, geometry: &Geometry) -> Self {
        Self {
            linear,
            main: geometry.main(),
            section: geometry.section_blocks(),
        }
    }

    /// Whether each section of `geometry` is the used part of one sequential zone.
    #[must_use]
    pub fn fits(&self, geometry: &Geometry) -> bool {
        let packing = self.linear.packing();
        let conventional = packing.conventional() / SECTORS;
        let behind = u64::from(self.main).checked_sub(conventional);
        let room = packing.room() / SECTORS;
        u64::from(geometry.section_blocks()) == room
            && behind.is_some_and(|behind| behind.is_multiple_of(room))
    }

    /// The zones as one range of sectors.
    pub const fn linear(&self) -> &Linear<ZoneDisk> {
        &self.linear
    }

    /// The zone of the block at `addr`, and the block's offset in the zone in sectors.
    fn place(&self, addr: u32) -> (u32, u64) {
        let packing = self.linear.packing();
        let (zone, at) = packing.place(u64::from(addr) * SECTORS);
        (zone, at - u64::from(zone) * packing.limits().size)
    }
}

impl MainArea for MainZones {
    async fn read(&self, addr: u32, mut blocks: &mut [Payload], who: Who) -> Result<()> {
        let extent = extent(addr, blocks.len());
        let read = self.linear.read(extent, &mut blocks, who);
        read.await.map_err(errno)
    }

    async fn write(&self, addr: u32, blocks: &[Payload], _: Log, who: Who) -> Result<()> {
        let (extent, content) = (extent(addr, blocks.len()), Content::Sectors(blocks));
        let write = self.linear.write(extent, content, Placement(0), who, false);
        write.await.map_err(errno)
    }

    async fn flush(&self) -> Result<()> {
        self.linear.flush().await.map_err(errno)
    }

    async fn discard(&self, addr: u32, blocks: u32) -> Result<()> {
        let trim = self.linear.trim(extent(addr, blocks as usize));
        trim.await.map_err(errno)
    }

    fn takes(&self, addr: u32) -> bool {
        let (zone, within) = self.place(addr);
        let info = self.linear.port().zone(zone);
        info.is_some_and(|info| {
            let next = match info.state {
                state if state.is_lost() => None,
                // A write at the start of a zone resets it first.
                _ if within == 0 => Some(0),
                _ => Some(info.written()),
            };
            info.kind == ZoneKind::Conventional || next == Some(within)
        })
    }

    fn is_lost(&self, addr: u32) -> bool {
        let (zone, _) = self.place(addr);
        let info = self.linear.port().zone(zone);
        info.is_some_and(|info| info.state.is_lost())
    }

    fn has(&self, addr: u32) -> bool {
        let (zone, within) = self.place(addr);
        let info = self.linear.port().zone(zone);
        info.is_some_and(|info| info.kind == ZoneKind::Conventional || within < info.readable())
    }

    async fn settle(&self, uses: &[SectionUse]) -> Result<()> {
        for (section, used) in (0..).zip(uses) {
            let first = self.main + section * self.section;
            let (zone, _) = self.place(first);
            let info = self.linear.port().zone(zone).ok_or(Errno::EIO)?;
            let action = match (used, info.state) {
                _ if info.kind == ZoneKind::Conventional => None,
                (_, state) if state == ZoneState::Empty || state.is_lost() => None,
                (SectionUse::Free, _) => Some(ZoneAction::Reset),
                (SectionUse::Kept, state) => state.is_active().then_some(ZoneAction::Finish),
                (SectionUse::Open, _) => None,
            };
            if let Some(action) = action {
                let done = self.linear.port().manage(zone, action).await;
                if !self.is_lost(first) {
                    done.map_err(|status| errno(status.into()))?;
                }
            }
        }
        Ok(())
    }
}

/// The strategy of F2FS on zones: tables in place in conventional zones, logs in the others.
pub struct Zoned {
    tables: InPlace,
    main: MainZones,
}

impl Zoned {
    /// The port of the drive with the zones.
    pub const fn port(&self) -> &ZoneDisk {
        self.main.linear.port()
    }
}

impl Persist for Zoned {
    type Main = MainZones;

    fn main(&self) -> &MainZones {
        &self.main
    }

    async fn read_table(&self, table: Table) -> Result<Box<Block>> {
        self.tables.read_table(table).await
    }

    async fn write_tables(&self, blocks: Vec<(Table, Box<Block>)>) -> Result<()> {
        self.tables.write_tables(blocks).await
    }

    async fn commit(&self, pack: Pack) -> Result<u64> {
        self.tables.commit(pack).await
    }
}

/// Number of segments of a sequential zone.
fn zone_segments(packing: &Packing) -> u32 {
    (packing.room() * SECTOR / GRAIN.0) as u32
}

/// Number of conventional zones of `size` bytes that superblocks and tables need for a main
/// area of `sequential` zones with `capacity` bytes each.
#[must_use]
pub fn conventional_zones(size: Bytes, capacity: Bytes, sequential: u32) -> u32 {
    let segments = u64::from(sequential) * (capacity.0 / GRAIN.0);
    // The first segment holds the superblocks.
    let bytes = (1 + table_segments(segments)) * GRAIN.0;
    bytes.div_ceil(size.0.max(1)) as u32
}

impl MkfsOptions {
    /// Options for a drive with such zones: the tables lie in the conventional zones, and each
    /// sequential zone is a section. [`mkfs`](crate::mkfs()) reports if the tables do not fit.
    ///
    /// # Errors
    /// [`MkfsError::Zones`] if the capacity of a zone is less than a segment.
    pub fn on_zones(limits: ZoneLimits) -> std::result::Result<Self, MkfsError> {
        let packing = packing(limits);
        let segs_per_sec = zone_segments(&packing);
        if segs_per_sec == 0 {
            return Err(MkfsError::Zones(limits.capacity * SECTOR));
        }
        let areas = Areas {
            first: SEG_BLOCKS,
            main: (packing.conventional() / SECTORS) as u32,
        };
        Ok(Self {
            segs_per_sec,
            areas: Some(areas),
            ..Self::new(packing.sectors() / SECTORS)
        })
    }
}

/// Opens the last committed state on the zones of `port`.
///
/// # Errors
/// [`OpenError`]: no superblock, no whole checkpoint, sections that are not zones, or a failed
/// read.
pub(crate) async fn open_zones(
    sim: &Sim,
    port: &ZoneDisk,
    origin: Origin,
) -> std::result::Result<(Zoned, Found), OpenError> {
    let linear = linear(sim, port);
    let (tables, found) = InPlace::open(Disk::from(&linear), false, origin).await?;
    let main = MainZones::new(linear, &found.geometry);
    if !main.fits(&found.geometry) {
        return Err(OpenError::Zones);
    }
    Ok((Zoned { tables, main }, found))
}
