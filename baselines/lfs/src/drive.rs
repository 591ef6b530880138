//! F2FS on any drive: in place on a port of blocks, or on zones.

use crate::inplace::InPlace;
use crate::mkfs::{MkfsError, MkfsOptions, format};
use crate::mount::{MountError, MountOptions, mount_with};
use crate::persist::{Log, MainArea, Pack, Persist, SectionUse, Table};
use crate::zones::{Zoned, linear, open_zones};
use crate::{Block, LfsFs, Recovery};
use host::{BlockPort, Disk, Linear, Who, ZoneDisk, ZonedPort};
use nand::Payload;
use sim::{Boxed, Sim};
use vfs::{AnyBody, Result};

/// Strategy of [`Persist`], chosen by the kind of the drive.
pub enum OnDrive {
    /// Tables and logs are written in place, on a drive without zones.
    Blocks(InPlace),
    /// Tables lie in conventional zones, logs in sequential zones.
    Zones(Zoned),
}

impl Persist for OnDrive {
    type Main = Self;

    fn main(&self) -> &Self {
        self
    }

    async fn read_table(&self, table: Table) -> Result<Box<Block>> {
        match self {
            Self::Blocks(on) => on.read_table(table).await,
            Self::Zones(on) => on.read_table(table).await,
        }
    }

    async fn write_tables(&self, blocks: Vec<(Table, Box<Block>)>) -> Result<()> {
        match self {
            Self::Blocks(on) => on.write_tables(blocks).await,
            Self::Zones(on) => on.write_tables(blocks).await,
        }
    }

    async fn commit(&self, pack: Pack) -> Result<u64> {
        match self {
            Self::Blocks(on) => on.commit(pack).await,
            Self::Zones(on) => on.commit(pack).await,
        }
    }
}

impl MainArea for OnDrive {
    async fn read(&self, addr: u32, blocks: &mut [Payload], who: Who) -> Result<()> {
        match self {
            Self::Blocks(on) => on.read(addr, blocks, who).await,
            Self::Zones(on) => on.main().read(addr, blocks, who).await,
        }
    }

    async fn write(&self, addr: u32, blocks: &[Payload], log: Log, who: Who) -> Result<()> {
        match self {
            Self::Blocks(on) => on.write(addr, blocks, log, who).await,
            Self::Zones(on) => on.main().write(addr, blocks, log, who).await,
        }
    }

    async fn flush(&self) -> Result<()> {
        match self {
            Self::Blocks(on) => on.flush().await,
            Self::Zones(on) => on.main().flush().await,
        }
    }

    async fn discard(&self, addr: u32, blocks: u32) -> Result<()> {
        match self {
            Self::Blocks(on) => on.discard(addr, blocks).await,
            Self::Zones(on) => on.main().discard(addr, blocks).await,
        }
    }

    fn takes(&self, addr: u32) -> bool {
        match self {
            Self::Blocks(on) => on.takes(addr),
            Self::Zones(on) => on.main().takes(addr),
        }
    }

    fn is_lost(&self, addr: u32) -> bool {
        match self {
            Self::Blocks(on) => on.is_lost(addr),
            Self::Zones(on) => on.main().is_lost(addr),
        }
    }

    fn has(&self, addr: u32) -> bool {
        match self {
            Self::Blocks(on) => on.has(addr),
            Self::Zones(on) => on.main().has(addr),
        }
    }

    async fn settle(&self, uses: &[SectionUse]) -> Result<()> {
        match self {
            Self::Blocks(on) => on.settle(uses).await,
            Self::Zones(on) => on.main().settle(uses).await,
        }
    }
}

/// Makes a file system on a drive: with [`format_zones`] on `zones` if it has any, else with
/// [`format()`] on `disk`.
///
/// # Errors
/// [`MkfsError::Io`] if the drive failed; otherwise the option that does not fit the drive.
pub fn format_drive<'a>(
    sim: &Sim,
    disk: &Disk,
    zones: Option<ZoneDisk>,
    options: &'a MkfsOptions,
) -> Boxed<'a, std::result::Result<(), MkfsError>> {
    match zones {
        Some(zones) => format_zones(sim, &zones, options),
        None => format(disk, options),
    }
}

/// Resets the sequential zones, sets read-only ones offline, and makes a file system with a
/// section for each. The zones, not `options`, determine sizes and areas.
///
/// # Errors
/// [`MkfsError::Io`] if a zone failed; otherwise the option that does not fit the zones.
pub fn format_zones<'a>(
    sim: &Sim,
    zones: &impl ZonedPort,
    options: &'a MkfsOptions,
) -> Boxed<'a, std::result::Result<(), MkfsError>> {
    format_linear(linear(sim, zones), options)
}

fn format_linear(
    linear: Linear<ZoneDisk>,
    options: &MkfsOptions,
) -> Boxed<'_, std::result::Result<(), MkfsError>> {
    Box::pin(async move { make(&linear, options).await })
}

async fn make(
    linear: &Linear<ZoneDisk>,
    options: &MkfsOptions,
) -> std::result::Result<(), MkfsError> {
    let fits = MkfsOptions::on_zones(*linear.packing().limits())?;
    let options = MkfsOptions {
        blocks: fits.blocks,
        segs_per_sec: fits.segs_per_sec,
        areas: fits.areas,
        ..options.clone()
    };
    linear.clear().await?;
    format(linear, &options).await
}

/// Mounts F2FS with tables in place, as Linux does, from `port`, and recovers files that were synced
/// after the last checkpoint.
///
/// # Errors
/// [`MountError`]: no superblock or whole checkpoint, a damaged part, a lack of room for
/// recovery, or a failure of the drive.
pub fn mount(
    sim: &Sim,
    port: &impl BlockPort,
    options: MountOptions,
) -> Boxed<'static, std::result::Result<(LfsFs<OnDrive>, Recovery), MountError>> {
    mount_on(sim.clone(), Disk::from(port), None, options)
}

/// Mounts F2FS from a drive, and recovers files that were synced after the last checkpoint. On zones
/// the options are changed by [`MountOptions::for_zones`].
///
/// # Errors
/// [`MountError`]: a damaged part, a lack of room for recovery, or a failure of the drive.
pub fn mount_drive(
    sim: &Sim,
    disk: Disk,
    zones: Option<ZoneDisk>,
    options: MountOptions,
) -> Boxed<'static, std::result::Result<(LfsFs<OnDrive>, Recovery), MountError>> {
    mount_on(sim.clone(), disk, zones, options)
}

fn mount_on(
    sim: Sim,
    disk: Disk,
    zones: Option<ZoneDisk>,
    options: MountOptions,
) -> Boxed<'static, std::result::Result<(LfsFs<OnDrive>, Recovery), MountError>> {
    Box::pin(async move {
        let Some(zones) = zones else {
            let opened = InPlace::open(disk, options.placed, options.origin);
            let (persist, found) = opened.await?;
            return mount_with(&sim, OnDrive::Blocks(persist), found, options).await;
        };
        let (persist, found) = open_zones(&sim, &zones, options.origin).await?;
        mount_with(&sim, OnDrive::Zones(persist), found, options.for_zones()).await
    })
}

impl From<LfsFs<OnDrive>> for AnyBody {
    fn from(body: LfsFs<OnDrive>) -> Self {
        Self::new(body)
    }
}

/// Mounts F2FS from `zones` with `options` changed by [`MountOptions::for_zones`], and recovers
/// files that were synced after the last checkpoint.
///
/// # Errors
/// [`MountError`] as for [`mount_drive`].
pub fn mount_zones(
    sim: &Sim,
    zones: &impl ZonedPort,
    options: MountOptions,
) -> Boxed<'static, std::result::Result<(LfsFs<OnDrive>, Recovery), MountError>> {
    mount_zone_disk(sim.clone(), ZoneDisk::from(zones), options)
}

fn mount_zone_disk(
    sim: Sim,
    zones: ZoneDisk,
    options: MountOptions,
) -> Boxed<'static, std::result::Result<(LfsFs<OnDrive>, Recovery), MountError>> {
    Box::pin(async move {
        let (persist, found) = open_zones(&sim, &zones, options.origin).await?;
        mount_with(&sim, OnDrive::Zones(persist), found, options.for_zones()).await
    })
}
