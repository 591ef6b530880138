//! Mkfs and mount on a zoned port.

use crate::checkpoint::Checkpoints;
use crate::config::{MkfsOptions, Options};
use crate::format::{Record, Sums, blank};
use crate::layout::{Layout, LayoutError};
use crate::log::{Log, extent, payload, read_blocks};
use crate::map::Map;
use crate::persist::Appended;
use crate::recover::{Medium, OpenError, find};
use host::{BlockPort, Linear, Purpose, Who, ZoneDisk, ZonedPort};
use lfs::{Block, Geometry, LfsFs, MainZones, Recovery, Turns};
use nand::Payload;
use sim::{Boxed, Sim};
use ssd::{Content, IoError, ZoneAction, ZoneLimits, ZoneStatus};
use units::{Origin, Placement, SECTOR};
use vfs::{AnyBody, Errno, Result};

/// Reasons why `format()` fails.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MkfsError {
    /// The drive's zones cannot hold the areas of Persimmon.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The F2FS body rejects the options or the size.
    #[error(transparent)]
    Body(#[from] lfs::MkfsError),
    /// A command to the drive failed.
    #[error("the drive failed: {0}")]
    Io(#[from] IoError),
    /// Writing the metadata or the first checkpoint failed.
    #[error("the drive failed: {0}")]
    Errno(#[from] Errno),
}

/// Reasons why [`mount`] fails.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MountError {
    /// The drive has no Persimmon state that can be read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The F2FS body cannot be mounted or recovered from that state.
    #[error(transparent)]
    Body(#[from] lfs::MountError),
}

/// Zones of a powered drive, for recovery.
pub(crate) struct Powered<'a> {
    pub(crate) linear: &'a Linear<ZoneDisk>,
    pub(crate) origin: Origin,
}

impl Medium for Powered<'_> {
    fn limits(&self) -> ZoneLimits {
        *self.linear.packing().limits()
    }

    fn written(&self, zone: u32, zone_blocks: u32) -> u32 {
        let info = self.linear.port().zone(zone);
        let written = info.map_or(0, |info| info.readable());
        let blocks = written * SECTOR / lfs::BLOCK as u64;
        u32::try_from(blocks).unwrap_or(u32::MAX).min(zone_blocks)
    }

    async fn read(&self, addr: u32, count: u32) -> Result<Vec<Box<Block>>> {
        let who = Who {
            origin: self.origin,
            purpose: Purpose::Metadata,
        };
        let payloads = read_blocks(self.linear, addr, count as usize, who).await?;
        let copy = |payload: &Payload| {
            let mut block = blank();
            let known = payload.copy_to(0, &mut block[..]);
            known.then_some(block).ok_or(Errno::EIO)
        };
        payloads.iter().map(copy).collect()
    }
}

/// Makes a file system on the zones of `port`. All zones are reset first; read-only zones
/// are set offline.
///
/// # Errors
/// [`MkfsError`] if the zones or options do not fit, or the drive fails.
pub fn format<'a>(
    sim: &Sim,
    port: &impl ZonedPort,
    options: &'a MkfsOptions,
) -> Boxed<'a, std::result::Result<(), MkfsError>> {
    format_linear(lfs::linear(sim, port), options)
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
    let limits = *linear.packing().limits();
    let layout = Layout::plan(limits, options)?;
    let body = layout.body(limits, options);
    let mut blocks = lfs::mkfs(&body)?;
    let sums = Sums::of(&options.uuid);
    linear.clear().await?;
    let record = Record {
        zone_blocks: layout.zone_blocks,
        metadata_zones: layout.metadata_zones,
    };
    for at in 0..2 {
        if let Some(block) = blocks.get_mut(&at) {
            record.put(block, sums);
        }
    }
    let geometry = Geometry::decode(&blocks[&0], body.blocks).map_err(|_| Errno::EIO)?;
    write_all(linear, layout, sums, &geometry, blocks).await
}

/// Writes the blocks of a new F2FS image: tables to the log, the first pack as a checkpoint,
/// everything else in place.
async fn write_all(
    linear: &Linear<ZoneDisk>,
    layout: Layout,
    sums: Sums,
    geometry: &Geometry,
    blocks: lfs::Blocks,
) -> std::result::Result<(), MkfsError> {
    let (mut pack, mut tables) = (Vec::new(), Vec::new());
    for (at, block) in blocks {
        let at = u32::try_from(at).map_err(|_| Errno::EIO)?;
        let checkpoints = geometry.checkpoints();
        if checkpoints.contains(&at) {
            // The first pack; the second place has no valid pack.
            if at < checkpoints.start + checkpoints.len() as u32 / 2 {
                pack.push(block);
            }
        } else if geometry.tables().contains(&at) {
            // A block that was never written reads as zeros.
            if *block != *blank() {
                tables.push((at, block));
            }
        } else {
            let who = Who::default();
            let block = [payload(block)];
            let content = Content::Sectors(&block);
            let write = linear.write(extent(at, 1), content, Placement(0), who, false);
            write.await?;
        }
    }
    let finish = linear.port().manage(0, ZoneAction::Finish);
    finish
        .await
        .map_err(|status: ZoneStatus| IoError::Zone(status))?;
    let map = Map::new(layout, geometry.tables());
    let log = Log::new(linear.clone(), (layout, sums), Options::default(), map);
    log.append(tables, Purpose::Metadata).await?;
    let (decoded, _) = lfs::Pack::decode(pack.clone(), geometry).ok_or(Errno::EIO)?;
    let checkpoints = Checkpoints::new(layout, Origin(0), 0, [0; 2]);
    let version = decoded.version();
    Ok(checkpoints.append(&log, version, pack).await?)
}

/// Mounts Persimmon from the zones of `port`, and recovers after an unclean shutdown.
///
/// # Errors
/// [`MountError`] if no state is found, the body cannot recover, or the drive fails.
pub fn mount(
    sim: &Sim,
    port: &impl ZonedPort,
    options: Options,
) -> Boxed<'static, std::result::Result<(LfsFs<Appended>, Recovery), MountError>> {
    mount_linear(sim.clone(), lfs::linear(sim, port), options)
}

fn mount_linear(
    sim: Sim,
    linear: Linear<ZoneDisk>,
    options: Options,
) -> Boxed<'static, std::result::Result<(LfsFs<Appended>, Recovery), MountError>> {
    Box::pin(async move { open(&sim, linear, options).await })
}

/// The mounted file system as one of any kind.
#[must_use]
pub fn into_any(body: LfsFs<Appended>) -> AnyBody {
    AnyBody::new(body)
}

async fn open(
    sim: &Sim,
    linear: Linear<ZoneDisk>,
    options: Options,
) -> std::result::Result<(LfsFs<Appended>, Recovery), MountError> {
    let origin = options.body.origin;
    let powered = Powered {
        linear: &linear,
        origin,
    };
    let state = find(&powered, options.parts()).await?;
    let main = MainZones::new(linear.clone(), &state.found.geometry);
    let strategy = Appended {
        main,
        turns: Turns::of(&state.found),
        log: Log::new(linear, (state.layout, state.sums), options, state.map),
        checkpoints: Checkpoints::new(state.layout, origin, state.turn, state.written),
    };
    let mounted = lfs::mount_with(sim, strategy, state.found, options.body.for_zones());
    Ok(mounted.await?)
}
