//! Mounting: what chunks say, and a table that was kept or rebuilt, made into a mapping.
//!
//! Nothing is written before the first command, so a cut during recovery changes nothing.

use crate::buffer::Buffer;
use crate::config::{FtlConfig, FtlError, Home};
use crate::lines::{LineState, Lines};
use crate::pins::Pins;
use crate::recover::rebuild;
use crate::state::{Frontier, FtlStats, HostFtl, Inner, MOVED, State, USER};
use crate::table::{PmTable, Table};
use host::RawPort;
use nand::UNIT;
use sim::{Signal, Sim};
use ssd::{ChunkInfo, ChunkState, RawGeometry};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use units::{NoSpace, Refusals};

/// Chunks that are asked for at once: a choice of ours.
const CHUNKS: u32 = 1024;

impl<P: RawPort> HostFtl<P> {
    /// Mounts the mapping of a drive, whatever was left of it; of a new drive an empty one.
    ///
    /// # Errors
    /// If the flash is too small, the table makes no sense, or the drive refuses something.
    pub async fn mount(
        sim: &Sim,
        port: P,
        config: FtlConfig,
        home: Home,
    ) -> Result<Self, FtlError> {
        let geometry = port.geometry();
        if geometry.cached > 0 {
            return Err(FtlError::Cached(geometry.cached));
        }
        let sectors = sectors(&config, &geometry)?;
        let chunks = report(&port, &geometry).await?;
        check_space(&chunks, &config, &geometry, sectors)?;
        let (mut lines, stats, (table, number)) =
            recover(&port, &chunks, home, (sectors, config.hidden)).await?;
        let frontiers = reopen(&mut lines, &config);
        let state = State {
            table,
            lines,
            buffer: Buffer::default(),
            frontiers,
            trims: Vec::new(),
            flushing: 0,
            number,
            moving: 0,
            shifted: Vec::new(),
            pins: Pins::default(),
            settling: 0,
            stats,
            refusals: Refusals::default(),
        };
        let inner = Rc::new(Inner {
            sim: sim.clone(),
            port,
            config,
            geometry,
            sectors,
            state: RefCell::new(state),
            work: [Signal::default(), Signal::default()],
            progress: Signal::default(),
            collect: Signal::default(),
            failure: Cell::new(None),
        });
        for frontier in [USER, MOVED] {
            sim.spawn_detached(Rc::clone(&inner).write_frontier(frontier));
        }
        sim.spawn_detached(Rc::clone(&inner).collect());
        Ok(Self { inner })
    }
}

/// Goes on with lines that were written when the power went.
fn reopen(lines: &mut Lines, config: &FtlConfig) -> [Frontier; 2] {
    let mut frontiers = [Frontier::default(), Frontier::default()];
    // Cleaning needs the room more if new data may have no line.
    let short = lines.free() <= config.reserve;
    for frontier in if short { [MOVED, USER] } else { [USER, MOVED] } {
        frontiers[frontier].line = lines.reopen();
    }
    frontiers
}

/// Sectors of the table.
fn sectors(config: &FtlConfig, geometry: &RawGeometry) -> Result<u32, FtlError> {
    let all = u64::from(geometry.all_chunks()) * u64::from(geometry.blocks);
    // Entries are numbers plus one, and the last of them is that of a line that was lost.
    if all >= u64::from(u32::MAX) {
        let most = u64::from(u32::MAX) - 1;
        return Err(FtlError::Space(NoSpace::new("blocks", all, most, most)));
    }
    let wanted = config.capacity.0 / UNIT as u64 + u64::from(config.hidden);
    let fits = u32::try_from(wanted).ok().filter(|_| wanted <= all);
    fits.ok_or_else(|| FtlError::Space(NoSpace::new("sectors", wanted, all, all)))
}

/// The descriptor of every chunk.
async fn report<P: RawPort>(port: &P, geometry: &RawGeometry) -> Result<Vec<ChunkInfo>, FtlError> {
    let mut chunks = Vec::new();
    let all = geometry.all_chunks();
    for first in (0..all).step_by(CHUNKS as usize) {
        chunks.extend(port.report(first, CHUNKS.min(all - first)).await?);
    }
    Ok(chunks)
}

/// Refuses a drive on which cleaning could come to its end while there is room: whose good
/// lines cannot hold the sectors, the open lines, the one that is cleaned and those that
/// cleaning may take; or where so little is spare that, once new data wait and all lines but
/// the reserve and one are closed, each of these may lack less than a unit of being valid
/// from end to end, so that to clean one gains nothing.
fn check_space(
    chunks: &[ChunkInfo],
    config: &FtlConfig,
    geometry: &RawGeometry,
    sectors: u32,
) -> Result<(), FtlError> {
    if config.reserve == 0 {
        return Err(FtlError::Reserve);
    }
    let good = chunks
        .iter()
        .filter(|info| info.state != ChunkState::Offline);
    let has = good.count() as u64 / u64::from(geometry.all_units());
    let line = u64::from(geometry.all_units()) * u64::from(geometry.blocks);
    let (sectors, reserve) = (u64::from(sectors), u64::from(config.reserve));
    let whole = sectors.div_ceil(line) + reserve + 3;
    let gains = line - u64::from(geometry.write_min).min(line - 1);
    let need = whole.max(sectors.div_ceil(gains) + reserve + 1);
    if need <= has {
        return Ok(());
    }
    let all = u64::from(geometry.chunks);
    let full = NoSpace::new("lines", need, has, all).rest("bad chunks");
    Err(FtlError::Space(full))
}

/// The lines of a drive and the table at its home, with the number of the next version; of
/// so many sectors, the last of which are hidden.
async fn recover<P: RawPort>(
    port: &P,
    chunks: &[ChunkInfo],
    home: Home,
    (sectors, hidden): (u32, u32),
) -> Result<(Lines, FtlStats, (Table, u64)), FtlError> {
    let geometry = port.geometry();
    let buried = match home {
        Home::Dram | Home::Moving(_) => sectors,
        Home::Pm(_) => 0,
    };
    let mut lines = Lines::new(geometry, chunks, buried);
    let mut stats = FtlStats::default();
    let found = match home {
        Home::Pm(table) => (adopt(&mut lines, &geometry, table, sectors).await?, 1),
        Home::Dram => rebuild(port, &geometry, &mut lines, sectors, &mut stats).await?,
        Home::Moving(table) => {
            // What was hidden is nobody's.
            let shown = sectors - hidden;
            let (from, number) = rebuild(port, &geometry, &mut lines, shown, &mut stats).await?;
            let moved = move_to(&from, &geometry, table, shown, sectors);
            (moved.await?, number)
        }
    };
    Ok((lines, stats, found))
}

/// Takes a table over that was kept.
async fn adopt(
    lines: &mut Lines,
    geometry: &RawGeometry,
    kept: PmTable,
    sectors: u32,
) -> Result<Table, FtlError> {
    kept.check(sectors)?;
    kept.check_drive(geometry)?;
    kept.read_all().await;
    let table = Table::Pm(kept);
    let all = geometry.all_chunks() * geometry.blocks;
    for sector in 0..sectors {
        let Some(place) = table.get(sector) else {
            continue;
        };
        let damaged = |what: &str| {
            Err(FtlError::Table(format!(
                "sector {sector} leads to block {place}, {what}"
            )))
        };
        if place >= all {
            return damaged("which there is not");
        }
        let at = geometry.nth(place);
        let unit = at.group * geometry.units + at.unit;
        let line = &lines.lines[at.chunk as usize];
        if at.block >= line.members[unit as usize].given || line.state != LineState::Closed {
            return damaged("which is not written");
        }
        if lines.owner(place).is_some() {
            return damaged("which another sector leads to");
        }
        lines.own(place, Some(sector));
    }
    Ok(table)
}

/// Copies a table to persistent memory, where it is one once all of it is durable.
async fn move_to(
    from: &Table,
    geometry: &RawGeometry,
    kept: PmTable,
    shown: u32,
    sectors: u32,
) -> Result<Table, FtlError> {
    kept.check(sectors)?;
    let of = |sector: u32| (sector < shown).then(|| from.get(sector)).flatten();
    // A cut may have left some of it here before.
    let others: Vec<u32> = (0..sectors).filter(|&s| kept.get(s) != of(s)).collect();
    for &sector in &others {
        kept.put(sector, of(sector));
    }
    kept.settle(others.into_iter()).await;
    kept.take_drive(geometry).await;
    Ok(Table::Pm(kept))
}
