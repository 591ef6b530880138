//! Formatting a drive, and mounting it.

use crate::errors::OnError;
use crate::file::File;
use crate::fs::ZoneFs;
use crate::superblock::{BLOCK, Superblock, SuperblockError};
use host::{Purpose, Who, ZoneDisk, ZonedPort};
use sim::{Boxed, Sim};
use ssd::{Content, ZoneAction, ZoneInfo, ZoneKind, ZoneState, ZoneStatus};
use std::cell::{Cell, RefCell};
use units::{Extent, Origin, SECTOR};
use vfs::AnyBody;

/// Sectors in a block.
const SECTORS: u64 = BLOCK as u64 / SECTOR;
/// Zone descriptors fetched by one report.
const REPORT: u32 = 4096;

/// Options of a mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `errors=`: the reaction to an I/O error.
    pub errors: OnError,
    /// `explicit-open`: opening a file for writing opens its zone, so that no write fails for lack
    /// of an open zone.
    pub explicit_open: bool,
    /// `ro`: mounts the file system read-only.
    pub read_only: bool,
    /// Origin to which requests of this mount are attributed.
    pub origin: Origin,
}

/// Error of a mount or of `mkfs`.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The superblock is missing or invalid.
    #[error(transparent)]
    Superblock(#[from] SuperblockError),
    /// The drive rejected a command or failed.
    #[error("the drive says: {0}")]
    Drive(#[from] ZoneStatus),
    /// Blocks of the drive, of so many bytes, differ from those of the file system.
    #[error("the drive has blocks of {0} bytes, and zonefs here blocks of 4096")]
    Blocks(u64),
}

pub(crate) const fn who(origin: Origin, purpose: Purpose) -> Who {
    Who { origin, purpose }
}

/// Formats a drive: resets the sequential zones that can be reset, and writes the superblock.
///
/// # Errors
/// [`MountError::Blocks`] or the error of the drive.
pub fn mkfs<'a>(
    port: &impl ZonedPort,
    superblock: &'a Superblock,
    origin: Origin,
) -> Boxed<'a, Result<(), MountError>> {
    mkfs_disk(ZoneDisk::from(port), superblock, origin)
}

fn mkfs_disk(
    port: ZoneDisk,
    superblock: &Superblock,
    origin: Origin,
) -> Boxed<'_, Result<(), MountError>> {
    Box::pin(async move { make(&port, superblock, origin).await })
}

async fn make(port: &ZoneDisk, superblock: &Superblock, origin: Origin) -> Result<(), MountError> {
    let zones = report(port).await?;
    for zone in zones
        .iter()
        .filter(|zone| zone.kind == ZoneKind::Sequential)
    {
        let ends = [ZoneState::Empty, ZoneState::ReadOnly, ZoneState::Offline];
        if !ends.contains(&zone.state) {
            port.manage(zone.zone, ZoneAction::Reset).await?;
        }
    }
    let block = superblock.encode();
    let extent = Extent::new(0, SECTORS as u32);
    let who = who(origin, Purpose::Superblock);
    port.write(extent, Content::Bytes(&block), who, true)
        .await?;
    if zones
        .first()
        .is_some_and(|zone| zone.kind == ZoneKind::Sequential)
    {
        port.manage(0, ZoneAction::Finish).await?;
    }
    port.flush().await?;
    Ok(())
}

async fn report(port: &ZoneDisk) -> Result<Vec<ZoneInfo>, MountError> {
    let limits = port.limits();
    if limits.block != SECTORS {
        return Err(MountError::Blocks(limits.block * SECTOR));
    }
    let mut zones = Vec::new();
    for first in (0..limits.zones).step_by(REPORT as usize) {
        zones.extend(port.report(first, REPORT).await?);
    }
    Ok(zones)
}

/// Closes a zone that an earlier user left open, so that all open zones belong to this mount. A
/// zone without data would stay active after a close, so it is reset.
//= zonefs 6
async fn close(port: &ZoneDisk, zone: &ZoneInfo) -> Result<(), ZoneStatus> {
    let open = [ZoneState::ImplicitlyOpen, ZoneState::ExplicitlyOpen];
    if zone.kind == ZoneKind::Conventional || !open.contains(&zone.state) {
        return Ok(());
    }
    let action = match zone.written() {
        0 => ZoneAction::Reset,
        _ => ZoneAction::Close,
    };
    port.manage(zone.zone, action).await
}

impl From<ZoneFs> for AnyBody {
    fn from(body: ZoneFs) -> Self {
        Self::new(body)
    }
}

impl ZoneFs {
    /// Mounts the file system on `port`, and closes zones left open.
    ///
    /// # Errors
    /// An invalid superblock, blocks of another size, or an error of the drive.
    pub fn mount(
        sim: &Sim,
        port: &impl ZonedPort,
        options: Options,
    ) -> Boxed<'static, Result<Self, MountError>> {
        Self::boxed(sim.clone(), ZoneDisk::from(port), options)
    }

    fn boxed(
        sim: Sim,
        port: ZoneDisk,
        options: Options,
    ) -> Boxed<'static, Result<Self, MountError>> {
        Box::pin(async move { Self::on(&sim, port, options).await })
    }

    async fn on(sim: &Sim, port: ZoneDisk, options: Options) -> Result<Self, MountError> {
        let zones = report(&port).await?;
        let mut block = [0; BLOCK];
        let extent = Extent::new(0, SECTORS as u32);
        let reader = who(options.origin, Purpose::Superblock);
        port.read(extent, &mut block.as_mut_slice(), reader).await?;
        let superblock = Superblock::decode(&block)?;
        let looks = (superblock.perm, (superblock.uid, superblock.gid));
        //= zonefs 2
        // The zone of the superblock is not a file.
        let rest = zones.get(1..).unwrap_or_default();
        let together = |a: &ZoneInfo, b: &ZoneInfo| {
            superblock.aggregates && a.kind == b.kind && a.kind == ZoneKind::Conventional
        };
        let mut files = [Vec::new(), Vec::new()];
        for zones in rest.chunk_by(together) {
            let file = File::new(sim, zones, looks);
            close(&port, &zones[0]).await?;
            files[file.group as usize].push(file);
        }
        let limits = port.limits();
        let is_limited = limits.max_open > 0 || limits.max_active > 0;
        Ok(Self {
            sim: sim.clone(),
            read_only: Cell::new(options.read_only),
            options: Options {
                // Without a limit no zone needs to be kept open.
                explicit_open: options.explicit_open && is_limited,
                ..options
            },
            port,
            files,
            refused: RefCell::default(),
        })
    }
}
