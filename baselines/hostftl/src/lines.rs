//! Lines (superblocks): the same chunk of every parallel unit, with the place of the next unit to
//! write and the number of valid sectors.
//!
//! Invariants, defended by [`Lines::check`]: the valid sectors of a line are its blocks that a
//! sector of the table owns. A record of deallocations counts while it is the newest known version
//! of a sector, so sectors and records together never outnumber the entries of the table. An open
//! line has a chunk with room, or one that is being written. Only [`transition`] changes states.

use crate::meta::{MOST_RANGES, Trimmed};
use ssd::{ChunkInfo, ChunkState, LineView, Place, RawGeometry};
use std::collections::BTreeMap;

/// State of a line, which [`transition`] alone changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LineState {
    /// Nothing is needed on the line: its good chunks are free.
    Free,
    /// Being written, as the write point of a frontier.
    Open,
    /// Full, or closed early.
    Closed,
    /// Chosen by cleaning, which moves its valid sectors.
    Cleaning,
    /// No good chunk is left, or a sector can be neither read nor given up.
    Lost,
}

/// Event of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Taken as an open line.
    Take,
    /// Every chunk is full or bad.
    Fill,
    /// Written on after a power cut.
    Reopen,
    /// Chosen by cleaning, which begins to move its sectors.
    Choose,
    /// Everything was moved, and the chunks are free.
    Clean,
    /// No good chunk is left, cleaning cannot empty the line, or recovery could not read all of it.
    Lose,
}

/// State after the event.
///
/// # Panics
/// If `state` allows no such event, which is a bug here.
fn transition(state: LineState, step: Step) -> LineState {
    match (state, step) {
        (LineState::Free, Step::Take) => LineState::Open,
        (LineState::Open, Step::Fill) => LineState::Closed,
        (LineState::Closed, Step::Reopen) => LineState::Open,
        (LineState::Closed, Step::Choose) => LineState::Cleaning,
        (LineState::Cleaning, Step::Clean) => LineState::Free,
        (LineState::Free | LineState::Closed | LineState::Cleaning, Step::Lose) => LineState::Lost,
        (state, step) => panic!("a line that is {state:?} has no step {step:?}"),
    }
}

/// A chunk of a line, in one parallel unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    /// Blocks handed out for writing, from the start of the chunk.
    pub(crate) given: u32,
    /// Whether a write to the chunk is in progress.
    pub(crate) busy: bool,
    /// Whether the chunk can be written.
    pub(crate) good: bool,
    /// Whether a program failed here; the reset then takes the chunk offline.
    pub(crate) doomed: bool,
    /// Whether the chunk is offline.
    pub(crate) gone: bool,
}

/// A record of deallocations on a line.
#[derive(Clone, Debug)]
struct Record {
    ranges: Vec<Trimmed>,
    /// Sectors whose newest known version is this record.
    count: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) state: LineState,
    /// Chunks, by parallel unit.
    pub(crate) members: Vec<Member>,
    /// Parallel unit for the next unit, if its chunk is idle.
    next: usize,
    /// Number of blocks that sectors of the table own.
    pub(crate) valid: u32,
    /// Reads in flight on the line.
    pub(crate) readers: u32,
    /// Age: the version number at which the line was taken.
    pub(crate) since: u64,
    /// Wear of the most worn chunk, as the drive last reported.
    pub(crate) wear: u8,
    /// Erases since the mount.
    pub(crate) erases: u32,
    /// Counting records on the line, by block.
    records: BTreeMap<u32, Record>,
    /// Sectors that `records` count for.
    buried: u32,
}

impl Line {
    /// Blocks that the records need once merged.
    fn record_blocks(&self) -> u32 {
        let together = self.buried.div_ceil(MOST_RANGES as u32);
        together.min(self.records.len() as u32)
    }
}

pub(crate) struct Lines {
    geometry: RawGeometry,
    pub(crate) lines: Vec<Line>,
    /// By flash block: its owner, as sector plus one, or 0.
    owners: Vec<u32>,
    /// By sector: the block of the record that deallocates it plus one, or 0. Empty with a table in
    /// persistent memory, which needs no records.
    tombs: Vec<u32>,
    free: u32,
}

impl Lines {
    /// Lines of a drive from its chunk descriptors, in order of chunk numbers. Deallocations of
    /// `sectors` sectors are tracked by records.
    pub(crate) fn new(geometry: RawGeometry, chunks: &[ChunkInfo], sectors: u32) -> Self {
        let units = geometry.all_units();
        let lines = (0..geometry.chunks).map(|line| {
            let infos = (0..units).map(|unit| chunks[(unit * geometry.chunks + line) as usize]);
            let members: Vec<Member> = infos.clone().map(|info| member(&geometry, &info)).collect();
            let mut states = infos.clone().map(|info| info.state);
            let used = states.any(|s| matches!(s, ChunkState::Open | ChunkState::Closed));
            Line {
                state: match used {
                    true => LineState::Closed,
                    false if members.iter().any(|m| !m.gone) => LineState::Free,
                    false => LineState::Lost,
                },
                members,
                next: 0,
                valid: 0,
                readers: 0,
                since: 0,
                wear: infos.map(|info| info.wear).max().unwrap_or_default(),
                erases: 0,
                records: BTreeMap::new(),
                buried: 0,
            }
        });
        let lines: Vec<Line> = lines.collect();
        let free = lines.iter().filter(|line| line.state == LineState::Free);
        Self {
            free: free.count() as u32,
            lines,
            owners: vec![0; (geometry.all_chunks() * geometry.blocks) as usize],
            tombs: vec![0; sectors as usize],
            geometry,
        }
    }

    /// Applies an event to a line, and keeps the number of free lines.
    pub(crate) fn step(&mut self, line: usize, step: Step) {
        let state = &mut self.lines[line].state;
        let before = std::mem::replace(state, transition(*state, step));
        self.free -= u32::from(before == LineState::Free);
        self.free += u32::from(*state == LineState::Free);
    }

    /// Line of a block.
    pub(crate) fn of(&self, place: u32) -> usize {
        self.geometry.nth(place).chunk as usize
    }

    /// Number of block `block` of the chunk in parallel unit `unit` of a line.
    pub(crate) fn place(&self, line: usize, unit: usize, block: u32) -> u32 {
        let place = Place {
            group: unit as u32 / self.geometry.units,
            unit: unit as u32 % self.geometry.units,
            chunk: line as u32,
            block,
        };
        self.geometry.number(place)
    }

    pub(crate) fn owner(&self, place: u32) -> Option<u32> {
        self.owners[place as usize].checked_sub(1)
    }

    /// Sets the owner of a block; `None` makes the block invalid.
    pub(crate) fn own(&mut self, place: u32, sector: Option<u32>) {
        let line = self.of(place);
        let owner = &mut self.owners[place as usize];
        let line = &mut self.lines[line];
        line.valid -= u32::from(*owner != 0);
        *owner = sector.map_or(0, |sector| sector + 1);
        line.valid += u32::from(*owner != 0);
    }

    /// Adds a record at block `place`, which is the newest known version of `sectors`.
    pub(crate) fn note(&mut self, place: u32, ranges: Vec<Trimmed>, sectors: &[u32]) {
        let mut count = 0;
        for &sector in sectors {
            let tomb = self.tombs.get(sector as usize);
            // A record may name a sector twice.
            if tomb.is_some_and(|&tomb| tomb != place + 1) {
                self.unbury(sector);
                self.tombs[sector as usize] = place + 1;
                count += 1;
            }
        }
        if count > 0 {
            let line = self.of(place);
            let line = &mut self.lines[line];
            line.buried += count;
            line.records.insert(place, Record { ranges, count });
        }
    }

    /// Drops the record of a sector that has a newer version.
    pub(crate) fn unbury(&mut self, sector: u32) {
        let Some(tomb) = self.tombs.get_mut(sector as usize) else {
            return;
        };
        let Some(place) = std::mem::take(tomb).checked_sub(1) else {
            return;
        };
        let line = self.of(place);
        let line = &mut self.lines[line];
        line.buried -= 1;
        if let Some(record) = line.records.get_mut(&place) {
            record.count -= 1;
            if record.count == 0 {
                line.records.remove(&place);
            }
        }
    }

    /// Ranges on a line that still count for a sector, each with the block of its record.
    pub(crate) fn ranges(&self, line: usize) -> Vec<(Trimmed, u32)> {
        let records = self.lines[line].records.iter();
        let ranges = records.flat_map(|(&place, record)| {
            let says = move |sector: u32| self.tomb(sector) == Some(place);
            let ranges = record.ranges.iter();
            ranges
                .filter(move |range| (range.first..range.first + range.count).any(says))
                .map(move |&range| (range, place))
        });
        ranges.collect()
    }

    /// Block of the record that deallocates a sector.
    pub(crate) fn tomb(&self, sector: u32) -> Option<u32> {
        self.tombs.get(sector as usize)?.checked_sub(1)
    }

    /// Whether the line has records that count.
    pub(crate) fn has_records(&self, line: usize) -> bool {
        !self.lines[line].records.is_empty()
    }

    /// Whether the line has neither valid sectors nor counting records.
    pub(crate) fn is_empty(&self, line: usize) -> bool {
        self.lines[line].valid == 0 && self.lines[line].records.is_empty()
    }

    /// Owned blocks of a line.
    pub(crate) fn held(&self, line: usize) -> Vec<u32> {
        let entry = &self.lines[line];
        let members = entry.members.iter().enumerate();
        let blocks = members.flat_map(|(unit, member)| {
            (0..member.given).map(move |block| self.place(line, unit, block))
        });
        blocks.filter(|&p| self.owner(p).is_some()).collect()
    }

    pub(crate) const fn free(&self) -> u32 {
        self.free
    }

    /// Takes the least worn free line; among equals, the one with the fewest erases.
    pub(crate) fn take(&mut self, now: u64) -> Option<usize> {
        let free = self.lines.iter().enumerate();
        let free = free.filter(|(_, line)| line.state == LineState::Free);
        let (number, _) = free.min_by_key(|(number, line)| (line.wear, line.erases, *number))?;
        self.step(number, Step::Take);
        let line = &mut self.lines[number];
        (line.since, line.next) = (now, 0);
        Some(number)
    }

    /// Blocks that can still be written on a line.
    pub(crate) fn room(&self, line: usize) -> u32 {
        let members = self.lines[line].members.iter();
        let good = members.filter(|member| member.good);
        good.map(|member| self.geometry.blocks - member.given).sum()
    }

    /// Reopens the closed line with the most room, which a power cut interrupted, so that repeated
    /// cuts do not use up lines.
    pub(crate) fn reopen(&mut self) -> Option<usize> {
        let closed = self.lines.iter().enumerate();
        let closed = closed.filter(|(_, line)| line.state == LineState::Closed);
        let (room, number) = closed
            .map(|(number, _)| (self.room(number), number))
            .max()?;
        if room == 0 {
            return None;
        }
        self.step(number, Step::Reopen);
        Some(number)
    }

    /// Next place on an open line, on an idle chunk: parallel unit and first block. `None` if all
    /// chunks with room are busy.
    pub(crate) fn give(&mut self, line: usize) -> Option<(usize, u32)> {
        let (blocks, step) = (self.geometry.blocks, self.geometry.write_min);
        let entry = &mut self.lines[line];
        let count = entry.members.len();
        let turns = (0..count).map(|turn| (entry.next + turn) % count);
        let open = |m: &Member| m.good && m.given < blocks;
        let mut idle =
            turns.filter(|&unit| open(&entry.members[unit]) && !entry.members[unit].busy);
        let unit = idle.next()?;
        let member = &mut entry.members[unit];
        let block = member.given;
        member.given += step;
        member.busy = true;
        entry.next = (unit + 1) % count;
        Some((unit, block))
    }

    /// Whether every chunk of the line is full or bad.
    pub(crate) fn is_full(&self, line: usize) -> bool {
        let mut members = self.lines[line].members.iter();
        members.all(|m| !m.good || m.given >= self.geometry.blocks)
    }

    /// Blocks that the line will have after it is cleaned.
    fn blocks(&self, line: &Line) -> u32 {
        let chunks = line.members.iter().filter(|m| !m.gone && !m.doomed);
        chunks.count() as u32 * self.geometry.blocks
    }

    /// Lines that may be cleaned, as seen by victim policies.
    pub(crate) fn views(&self, now: u64) -> impl Iterator<Item = LineView> {
        let lines = self.lines.iter().enumerate();
        let closed = lines.filter(|(_, line)| {
            line.state == LineState::Closed && !line.members.iter().any(|m| m.busy)
        });
        closed.map(move |(number, line)| LineView {
            line: number as u32,
            valid: line.valid + line.record_blocks(),
            pages: self.blocks(line),
            age: now.saturating_sub(line.since),
            erases: line.erases,
        })
    }

    /// Panics if an invariant does not hold.
    pub(crate) fn check(&self) {
        for (number, line) in self.lines.iter().enumerate() {
            let members = line.members.iter().enumerate();
            let owned = members.map(|(unit, member)| {
                let places = (0..self.geometry.blocks).map(|b| (b, self.place(number, unit, b)));
                let owned = places.filter(|&(_, place)| self.owner(place).is_some());
                owned
                    .inspect(|&(block, _)| assert!(block < member.given))
                    .count() as u32
            });
            assert_eq!(line.valid, owned.sum::<u32>(), "line {number}");
            let records = &line.records;
            let buried = records.values().map(|record| record.count).sum::<u32>();
            assert_eq!(line.buried, buried, "line {number}");
            assert!(records.keys().all(|&record| self.of(record) == number));
            assert!(
                line.state != LineState::Free || self.is_empty(number),
                "line {number} is free"
            );
            let busy = line.members.iter().any(|member| member.busy);
            let full = line.state == LineState::Open && self.is_full(number);
            assert!(!full || busy, "line {number} is full and open");
        }
        let buried = self.tombs.iter().filter(|&&tomb| tomb != 0).count() as u32;
        assert_eq!(buried, self.lines.iter().map(|l| l.buried).sum::<u32>());
        let free = self.lines.iter().filter(|l| l.state == LineState::Free);
        assert_eq!(free.count() as u32, self.free);
    }
}

fn member(geometry: &RawGeometry, info: &ChunkInfo) -> Member {
    Member {
        given: info.write_pointer,
        busy: false,
        good: match info.state {
            ChunkState::Free | ChunkState::Open => true,
            // A chunk closed early takes no writes until its reset.
            ChunkState::Closed => info.write_pointer == geometry.blocks,
            ChunkState::Offline => false,
        },
        doomed: false,
        gone: info.state == ChunkState::Offline,
    }
}
