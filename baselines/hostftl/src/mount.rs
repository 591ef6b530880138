//! Mount: builds a mapping from the chunk descriptors and a table, kept or rebuilt.
//!
//! Invariant: recovery writes no flash, and frees only overtaken slots of a buffer in persistent
//! memory, so a cut during recovery changes nothing.

use crate::buffer::{Buffer, Waiting};
use crate::config::{FtlConfig, FtlError, Home};
use crate::lines::{LineState, Lines};
use crate::meta::MOST_NUMBERS;
use crate::pins::Pins;
use crate::recover::{Rebuilt, rebuild};
use crate::slots::{Kept, PmBuffer, Slots};
use crate::state::{Frontier, FtlStats, HostFtl, Inner, MOVED, Queued, State, USER};
use crate::table::{PmTable, Table};
use host::{RawMark, RawPort, Who};
use nand::UNIT;
use sim::{Signal, Sim};
use ssd::{Cause, ChunkInfo, ChunkState, RawGeometry};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use units::{NoSpace, Refusals};

/// Chunk descriptors requested at once: our choice.
const CHUNKS: u32 = 1024;

impl<P: RawPort> HostFtl<P> {
    /// Mounts the mapping of a drive in any state; a new drive gives an empty mapping.
    ///
    /// # Errors
    /// If the flash is too small, the table is damaged, or the drive fails.
    pub async fn mount(
        sim: &Sim,
        port: P,
        config: FtlConfig,
        home: Home,
    ) -> Result<Self, FtlError> {
        Self::mount_with(sim, port, config, home, None).await
    }

    /// Like [`Self::mount`], with a write buffer in persistent memory if `buffer` is given: its
    /// versions come back, and a write is durable once it is in the buffer.
    ///
    /// # Errors
    /// As for [`Self::mount`], or if the buffer is damaged or of another mapping.
    pub async fn mount_with(
        sim: &Sim,
        port: P,
        config: FtlConfig,
        home: Home,
        buffer: Option<PmBuffer>,
    ) -> Result<Self, FtlError> {
        let geometry = port.geometry();
        if geometry.cached > 0 {
            return Err(FtlError::Cached(geometry.cached));
        }
        let sectors = sectors(&config, &geometry)?;
        let chunks = report(&port, &geometry).await?;
        check_space(&chunks, &config, &geometry, sectors)?;
        let mut waiting = match &buffer {
            Some(buffer) => buffer.open(&geometry).await?,
            None => Vec::new(),
        };
        let found = recover(&port, &chunks, home, (sectors, config.hidden)).await?;
        if let Some(buffer) = &buffer {
            leave_overtaken(buffer, &found.numbers, &mut waiting).await;
        }
        let slots = buffer.map(|buffer| Slots::new(buffer, &waiting));
        let mut state = found.state(slots, &config);
        replay(&mut state, waiting)?;
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

/// State that recovery found on flash and in a table in persistent memory.
struct Found {
    table: Table,
    lines: Lines,
    /// Number for the next version.
    number: u64,
    /// By sector: number of its version on flash plus one, or 0. Empty with a table in persistent
    /// memory, which is older than every version in a buffer.
    numbers: Vec<u64>,
    stats: FtlStats,
}

impl Found {
    /// The state of a mapping with an empty buffer.
    fn state(mut self, slots: Option<Slots>, config: &FtlConfig) -> State {
        let frontiers = reopen(&mut self.lines, config);
        State {
            table: self.table,
            lines: self.lines,
            buffer: Buffer::default(),
            slots,
            frontiers,
            trims: Vec::new(),
            flushing: 0,
            number: self.number,
            moving: 0,
            shifted: Vec::new(),
            pins: Pins::default(),
            settling: 0,
            stats: self.stats,
            refusals: Refusals::default(),
        }
    }
}

/// Frees slots with versions that are also on flash, or older than the flash version.
async fn leave_overtaken(buffer: &PmBuffer, numbers: &[u64], waiting: &mut Vec<Kept>) {
    let is_newer = |kept: &Kept| {
        let known = numbers.get(kept.sector as usize);
        known.is_none_or(|&known| known < kept.number + 1)
    };
    let overtaken = waiting.iter().filter(|kept| !is_newer(kept));
    let overtaken: Vec<u32> = overtaken.map(|kept| kept.slot).collect();
    buffer.free(&overtaken).await;
    waiting.retain(is_newer);
}

/// Queues the versions in a buffer for writing again.
fn replay(state: &mut State, mut waiting: Vec<Kept>) -> Result<(), FtlError> {
    // In the order of their writes.
    waiting.sort_by_key(|kept| kept.number);
    let last = waiting.last().map_or(0, |kept| kept.number);
    state.number = state.number.max(last + 1);
    if state.number > MOST_NUMBERS / 2 {
        return Err(FtlError::Numbers);
    }
    for kept in waiting {
        let mark = RawMark {
            cause: Cause::Host,
            who: Who::default(),
        };
        let version = Waiting {
            number: kept.number,
            payload: kept.payload,
            mark,
        };
        state.buffer.write(kept.sector, version);
        let queue = &mut state.frontiers[USER].queue;
        queue.push_back(Queued::Sector(kept.sector));
        state.stats.replayed += 1;
    }
    Ok(())
}

/// Reopens lines that were open at the power cut.
fn reopen(lines: &mut Lines, config: &FtlConfig) -> [Frontier; 2] {
    let mut frontiers = [Frontier::default(), Frontier::default()];
    // Cleaning takes the first line if new data may not take a line anyway.
    let short = lines.free() <= config.reserve;
    for frontier in if short { [MOVED, USER] } else { [USER, MOVED] } {
        frontiers[frontier].line = lines.reopen();
    }
    frontiers
}

/// Number of table entries: exported and hidden sectors, at most the blocks of the drive.
fn sectors(config: &FtlConfig, geometry: &RawGeometry) -> Result<u32, FtlError> {
    let all = u64::from(geometry.all_chunks()) * u64::from(geometry.blocks);
    // Entries are block numbers plus one, and the highest value stands for a lost line.
    if all >= u64::from(u32::MAX) {
        let most = u64::from(u32::MAX) - 1;
        return Err(FtlError::Space(NoSpace::new("blocks", all, most, most)));
    }
    let wanted = config.capacity.0 / UNIT as u64 + u64::from(config.hidden);
    let fits = u32::try_from(wanted).ok().filter(|_| wanted <= all);
    fits.ok_or_else(|| FtlError::Space(NoSpace::new("sectors", wanted, all, all)))
}

/// Reads the descriptors of all chunks.
async fn report<P: RawPort>(port: &P, geometry: &RawGeometry) -> Result<Vec<ChunkInfo>, FtlError> {
    let mut chunks = Vec::new();
    let all = geometry.all_chunks();
    for first in (0..all).step_by(CHUNKS as usize) {
        chunks.extend(port.report(first, CHUNKS.min(all - first)).await?);
    }
    Ok(chunks)
}

/// Rejects a drive on which cleaning could stall with free sectors left. The good lines must hold
/// all sectors, the open lines, the victim and the reserve of cleaning. They must also leave enough
/// spare: when new data wait and all lines but the reserve and one are closed, some line must lack
/// at least a unit of being fully valid, so that cleaning it gains one.
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

/// Recovers the lines of a drive and the table at its `home`, for `sectors` entries of which the
/// last `hidden` are hidden.
async fn recover<P: RawPort>(
    port: &P,
    chunks: &[ChunkInfo],
    home: Home,
    (sectors, hidden): (u32, u32),
) -> Result<Found, FtlError> {
    let geometry = port.geometry();
    let buried = match home {
        Home::Dram | Home::Moving(_) => sectors,
        Home::Pm(_) => 0,
    };
    let mut lines = Lines::new(geometry, chunks, buried);
    let mut stats = FtlStats::default();
    let found = match home {
        Home::Pm(table) => Rebuilt {
            table: adopt(&mut lines, &geometry, table, sectors).await?,
            next: 1,
            numbers: Vec::new(),
        },
        Home::Dram => rebuild(port, &geometry, &mut lines, sectors, &mut stats).await?,
        Home::Moving(table) => {
            // Hidden sectors have no contents after the move.
            let shown = sectors - hidden;
            let from = rebuild(port, &geometry, &mut lines, shown, &mut stats).await?;
            let moved = move_to(&from.table, &geometry, table, shown, sectors);
            Rebuilt {
                table: moved.await?,
                ..from
            }
        }
    };
    Ok(Found {
        table: found.table,
        lines,
        number: found.next,
        numbers: found.numbers,
        stats,
    })
}

/// Checks a table in persistent memory against the drive and assigns its blocks to their sectors.
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

/// Copies a rebuilt table to persistent memory; valid there once all entries are durable.
async fn move_to(
    from: &Table,
    geometry: &RawGeometry,
    kept: PmTable,
    shown: u32,
    sectors: u32,
) -> Result<Table, FtlError> {
    kept.check(sectors)?;
    let of = |sector: u32| (sector < shown).then(|| from.get(sector)).flatten();
    // An interrupted move may have left some entries already.
    let others: Vec<u32> = (0..sectors).filter(|&s| kept.get(s) != of(s)).collect();
    for &sector in &others {
        kept.put(sector, of(sector));
    }
    kept.settle(others.into_iter()).await;
    kept.take_drive(geometry).await;
    Ok(Table::Pm(kept))
}
