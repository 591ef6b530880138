//! Lines: the same chunk of every parallel unit, where the next unit of writing goes, and
//! how much of each is valid.
//!
//! Invariants, defended by [`Lines::check`]: the valid sectors of a line are those of its
//! blocks that a sector of the table owns; an open line has a chunk with room, or one that is
//! being written. States move
//! by [`transition`] alone.

use ssd::{ChunkState, LineView, Place, RawGeometry};

/// State of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LineState {
    /// Nothing on it: its good chunks are free.
    Free,
    /// Written now.
    Open,
    /// Written to its end, or as far as it will be.
    Closed,
    /// Being cleaned.
    Cleaning,
    /// It has no good chunk, or a sector of it can be neither read nor given up.
    Lost,
}

/// What happens to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It is taken to be written.
    Take,
    /// No chunk of it has room any more.
    Fill,
    /// It is written on after the power was off.
    Reopen,
    /// It is chosen to be cleaned.
    Choose,
    /// Everything on it was moved, and its chunks are free.
    Clean,
    /// It has no good chunk any more, or cannot be cleaned.
    Lose,
}

/// The state that follows.
///
/// # Panics
/// If there is no such step, which is our own mistake.
pub(crate) fn transition(state: LineState, step: Step) -> LineState {
    match (state, step) {
        (LineState::Free, Step::Take) => LineState::Open,
        (LineState::Open, Step::Fill) => LineState::Closed,
        (LineState::Closed, Step::Reopen) => LineState::Open,
        (LineState::Closed, Step::Choose) => LineState::Cleaning,
        (LineState::Cleaning, Step::Clean) => LineState::Free,
        (LineState::Free | LineState::Cleaning, Step::Lose) => LineState::Lost,
        (state, step) => panic!("a line that is {state:?} has no step {step:?}"),
    }
}

/// A chunk of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    /// Blocks that were given out.
    pub(crate) given: u32,
    /// Whether a write of it is under way.
    pub(crate) busy: bool,
    /// Whether it can be written.
    pub(crate) good: bool,
    /// Whether it is offline.
    pub(crate) gone: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) state: LineState,
    /// By parallel unit.
    pub(crate) members: Vec<Member>,
    /// Where the next unit goes, if that one is idle.
    next: usize,
    /// Blocks that sectors of the table are on.
    pub(crate) valid: u32,
    /// Reads under way.
    pub(crate) readers: u32,
    /// When it was taken: numbers of versions so far.
    pub(crate) since: u64,
    pub(crate) erases: u32,
    /// Sectors of deallocations on it.
    pub(crate) records: Vec<u32>,
}

pub(crate) struct Lines {
    geometry: RawGeometry,
    pub(crate) lines: Vec<Line>,
    /// By block on flash: the sector that owns it plus one, or 0.
    owners: Vec<u32>,
}

impl Lines {
    /// Lines of a drive whose chunks are in these states, by their numbers.
    pub(crate) fn new(geometry: RawGeometry, chunks: &[(ChunkState, u32)]) -> Self {
        let units = geometry.all_units();
        let lines = (0..geometry.chunks).map(|line| {
            let members: Vec<Member> = (0..units)
                .map(|unit| {
                    let (state, written) = chunks[(unit * geometry.chunks + line) as usize];
                    Member {
                        given: written,
                        busy: false,
                        good: match state {
                            ChunkState::Free | ChunkState::Open => true,
                            // One that was closed early takes nothing more until its reset.
                            ChunkState::Closed => written == geometry.blocks,
                            ChunkState::Offline => false,
                        },
                        gone: state == ChunkState::Offline,
                    }
                })
                .collect();
            let states = (0..units).map(|unit| chunks[(unit * geometry.chunks + line) as usize].0);
            let used = states
                .clone()
                .any(|s| matches!(s, ChunkState::Open | ChunkState::Closed));
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
                erases: 0,
                records: Vec::new(),
            }
        });
        Self {
            lines: lines.collect(),
            owners: vec![0; (geometry.all_chunks() * geometry.blocks) as usize],
            geometry,
        }
    }

    /// The line that a block is on.
    pub(crate) fn of(&self, place: u32) -> usize {
        self.geometry.nth(place).chunk as usize
    }

    /// The block at `block` of a member of a line.
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

    /// Says which sector a block holds, or that it holds none.
    pub(crate) fn own(&mut self, place: u32, sector: Option<u32>) {
        let line = self.of(place);
        let owner = &mut self.owners[place as usize];
        let line = &mut self.lines[line];
        line.valid -= u32::from(*owner != 0);
        *owner = sector.map_or(0, |sector| sector + 1);
        line.valid += u32::from(*owner != 0);
    }

    /// Blocks of a line that sectors of the table are on, or records of deallocations.
    pub(crate) fn held(&self, line: usize) -> Vec<u32> {
        let entry = &self.lines[line];
        let members = entry.members.iter().enumerate();
        let blocks = members.flat_map(|(unit, member)| {
            (0..member.given).map(move |block| self.place(line, unit, block))
        });
        let mut held: Vec<u32> = blocks.filter(|&p| self.owner(p).is_some()).collect();
        held.extend(&entry.records);
        held
    }

    pub(crate) fn free(&self) -> u32 {
        let free = self
            .lines
            .iter()
            .filter(|line| line.state == LineState::Free);
        free.count() as u32
    }

    /// The free line with the fewest erases.
    pub(crate) fn take(&mut self, now: u64) -> Option<usize> {
        let free = self.lines.iter().enumerate();
        let free = free.filter(|(_, line)| line.state == LineState::Free);
        let (number, _) = free.min_by_key(|(number, line)| (line.erases, *number))?;
        let line = &mut self.lines[number];
        line.state = transition(line.state, Step::Take);
        (line.since, line.next) = (now, 0);
        Some(number)
    }

    /// Goes on with the line that has the most room, of those that were written when the
    /// power went, so that cuts one after the other do not use up lines.
    pub(crate) fn reopen(&mut self) -> Option<usize> {
        let blocks = self.geometry.blocks;
        let room = |line: &Line| {
            let good = line.members.iter().filter(|member| member.good);
            good.map(|member| blocks - member.given).sum::<u32>()
        };
        let closed = self.lines.iter().enumerate();
        let closed = closed.filter(|(_, line)| line.state == LineState::Closed);
        let (number, line) = closed.max_by_key(|(_, line)| room(line))?;
        if room(line) == 0 {
            return None;
        }
        let line = &mut self.lines[number];
        line.state = transition(line.state, Step::Reopen);
        Some(number)
    }

    /// The next unit of an open line, on a chunk that is idle: the parallel unit and the
    /// first block. None if all that have room are busy.
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

    /// Whether no chunk of a line can take anything more.
    pub(crate) fn is_full(&self, line: usize) -> bool {
        let mut members = self.lines[line].members.iter();
        members.all(|m| !m.good || m.given >= self.geometry.blocks)
    }

    /// Blocks that a line will have once it is cleaned.
    fn blocks(&self, line: &Line) -> u32 {
        let chunks = line.members.iter().filter(|member| !member.gone);
        chunks.count() as u32 * self.geometry.blocks
    }

    /// Lines that may be cleaned, as policies see them.
    pub(crate) fn views(&self, now: u64) -> impl Iterator<Item = LineView> {
        let lines = self.lines.iter().enumerate();
        let closed = lines.filter(|(_, line)| {
            line.state == LineState::Closed && !line.members.iter().any(|m| m.busy)
        });
        closed.map(move |(number, line)| LineView {
            line: number as u32,
            valid: line.valid + line.records.len() as u32,
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
            let empty = line.valid == 0 && line.records.is_empty();
            assert!(
                line.state != LineState::Free || empty,
                "line {number} is free"
            );
            let busy = line.members.iter().any(|member| member.busy);
            let full = line.state == LineState::Open && self.is_full(number);
            assert!(!full || busy, "line {number} is full and open");
        }
    }
}
