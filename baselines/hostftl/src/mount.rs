//! Mounting: what chunks and sectors on flash say, made into a mapping.
//!
//! Nothing is written before the first command, so a cut during recovery changes nothing.

use crate::buffer::Buffer;
use crate::config::{FtlConfig, FtlError, Home};
use crate::lines::{LineState, Lines};
use crate::meta::{Beside, Kind, take_ranges};
use crate::pins::Pins;
use crate::state::{Frontier, FtlStats, HostFtl, Inner, MOVED, State, USER};
use crate::table::{PmTable, Table};
use host::{RawPort, Who};
use nand::UNIT;
use sim::{Signal, Sim, join_all};
use ssd::{ChunkState, MOST_ADDRESSES, Ppa, RawBlock, RawGeometry, ReadCause};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use units::{NoSpace, Refusals};

/// Chunks that are asked for at once, and reads of recovery that are under way: choices of
/// ours.
const CHUNKS: u32 = 1024;
const READS: usize = 64;

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
        let mut lines = Lines::new(geometry, &chunks);
        check_space(&chunks, &config, &geometry, sectors)?;
        let mut stats = FtlStats::default();
        let (table, number) = match home {
            Home::Pm(table) => (adopt(&mut lines, &geometry, table, sectors).await?, 1),
            Home::Dram => rebuild(&port, &geometry, &mut lines, sectors, &mut stats).await?,
        };
        let frontiers = [USER, MOVED].map(|_| Frontier {
            line: lines.reopen(),
            ..Frontier::default()
        });
        let state = State {
            table,
            lines,
            buffer: Buffer::default(),
            frontiers,
            trims: Vec::new(),
            flushing: 0,
            number,
            moving: 0,
            pins: Pins::default(),
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

/// Sectors of the table.
fn sectors(config: &FtlConfig, geometry: &RawGeometry) -> Result<u32, FtlError> {
    let all = u64::from(geometry.all_chunks()) * u64::from(geometry.blocks);
    let wanted = config.capacity.0 / UNIT as u64 + u64::from(config.hidden);
    let fits = u32::try_from(wanted).ok().filter(|_| wanted <= all);
    fits.ok_or_else(|| FtlError::Space(NoSpace::new("sectors", wanted, all, all)))
}

/// State and written blocks of every chunk.
async fn report<P: RawPort>(
    port: &P,
    geometry: &RawGeometry,
) -> Result<Vec<(ChunkState, u32)>, FtlError> {
    let mut chunks = Vec::new();
    let all = geometry.all_chunks();
    for first in (0..all).step_by(CHUNKS as usize) {
        let told = port.report(first, CHUNKS.min(all - first)).await?;
        chunks.extend(told.iter().map(|info| (info.state, info.write_pointer)));
    }
    Ok(chunks)
}

/// Refuses a drive whose good lines cannot hold the sectors, the open lines, the one that is
/// cleaned, and those that cleaning may take.
fn check_space(
    chunks: &[(ChunkState, u32)],
    config: &FtlConfig,
    geometry: &RawGeometry,
    sectors: u32,
) -> Result<(), FtlError> {
    let good = chunks
        .iter()
        .filter(|(state, _)| *state != ChunkState::Offline);
    let has = good.count() as u64 / u64::from(geometry.all_units());
    let line = u64::from(geometry.all_units()) * u64::from(geometry.blocks);
    let need = u64::from(sectors).div_ceil(line) + u64::from(config.reserve) + 3;
    if need <= has {
        return Ok(());
    }
    let all = u64::from(geometry.chunks);
    let full = NoSpace::new("lines", need, has, all).rest("bad chunks");
    Err(FtlError::Space(full))
}

/// Takes a table over that was kept.
async fn adopt(
    lines: &mut Lines,
    geometry: &RawGeometry,
    kept: PmTable,
    sectors: u32,
) -> Result<Table, FtlError> {
    let table = Table::pm(kept.clone(), sectors)?;
    kept.read_all().await;
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

/// The newest version of each sector, as what lies beside sectors on flash says.
struct Versions {
    table: Table,
    /// By sector: the number of its version plus one, or 0.
    numbers: Vec<u64>,
    /// The highest number of all.
    last: u64,
}

async fn rebuild<P: RawPort>(
    port: &P,
    geometry: &RawGeometry,
    lines: &mut Lines,
    sectors: u32,
    stats: &mut FtlStats,
) -> Result<(Table, u64), FtlError> {
    let mut versions = Versions {
        table: Table::dram(sectors),
        numbers: vec![0; sectors as usize],
        last: 0,
    };
    for line in in_turn(lines) {
        let places = written(lines, line);
        for group in places.chunks(READS * MOST_ADDRESSES) {
            let reads = group.chunks(MOST_ADDRESSES).map(|places| async move {
                let at: Vec<Ppa> = places
                    .iter()
                    .map(|&p| geometry.ppa(geometry.nth(p)))
                    .collect();
                read_alone(port, &at).await
            });
            for (places, blocks) in group
                .chunks(MOST_ADDRESSES)
                .zip(join_all(reads.collect()).await)
            {
                stats.recovered += places.len() as u64;
                for (&place, block) in places.iter().zip(blocks) {
                    let record = block.is_some_and(|block| versions.take(place, &block));
                    if record {
                        lines.lines[line].records.push(place);
                    }
                }
            }
        }
    }
    for sector in 0..sectors {
        if let Some(place) = versions.table.get(sector) {
            lines.own(place, Some(sector));
        }
    }
    Ok((versions.table, versions.last + 1))
}

/// Lines in the order in which recovery reads them: the fullest first. Of copies with the
/// same number the first counts, so that what cleaning had moved to a line that the power
/// tore is left there, and the line can be reset without moving anything.
fn in_turn(lines: &Lines) -> Vec<usize> {
    let written = |line: &usize| {
        let members = lines.lines[*line].members.iter();
        members.map(|member| member.given).sum::<u32>()
    };
    let mut order: Vec<usize> = (0..lines.lines.len()).collect();
    order.sort_by_key(|line| (std::cmp::Reverse(written(line)), *line));
    order
}

/// Reads blocks; those that cannot be read alone are none.
async fn read_alone<P: RawPort>(port: &P, at: &[Ppa]) -> Vec<Option<RawBlock>> {
    if let Ok(blocks) = port.read(at, ReadCause::Recovery, Who::default()).await {
        return blocks.into_iter().map(Some).collect();
    }
    let mut all = Vec::new();
    for ppa in at {
        let read = port
            .read(&[*ppa], ReadCause::Recovery, Who::default())
            .await;
        all.push(read.ok().and_then(|mut blocks| blocks.pop()));
    }
    all
}

/// The blocks of a line that are written.
fn written(lines: &Lines, line: usize) -> Vec<u32> {
    let members = lines.lines[line].members.iter().enumerate();
    let blocks = members.flat_map(|(unit, member)| {
        (0..member.given).map(move |block| lines.place(line, unit, block))
    });
    blocks.collect()
}

impl Versions {
    /// Takes in a block; whether it is a record of deallocations.
    fn take(&mut self, place: u32, block: &RawBlock) -> bool {
        let Some(beside) = Beside::parse(&block.meta) else {
            return false;
        };
        self.last = self.last.max(beside.number);
        match beside.kind {
            Kind::Padding => false,
            Kind::Data(sector) => {
                self.see(sector, beside.number, Some(place));
                false
            }
            Kind::Trims => {
                for range in take_ranges(&block.payload) {
                    let end = range.first.saturating_add(range.count);
                    for sector in range.first..end.min(self.numbers.len() as u32) {
                        self.see(sector, range.number, None);
                    }
                }
                true
            }
        }
    }

    fn see(&mut self, sector: u32, number: u64, place: Option<u32>) {
        let Some(known) = self.numbers.get_mut(sector as usize) else {
            return;
        };
        if *known < number + 1 {
            *known = number + 1;
            self.table.put(sector, place);
        }
    }
}
