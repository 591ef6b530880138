//! Cleaning: a line is chosen, what is valid on it is moved, and its chunks are reset.
//!
//! The table hears of what was moved once all of a line is on flash. Units are shared by lines
//! that are cleaned one after the other, so that nothing is padded between them.
//!
//! Invariants: a chunk is reset only when no sector and no record of a deallocation needs what
//! is on it, durably so, and nobody reads it. A line is chosen only if there is room for what
//! is on it; should that be used up by programs that fail, everything that writes is refused.

use crate::lines::{Line, LineState, Step};
use crate::meta::{Beside, Kind, MOST_RANGES, Trimmed, put_ranges};
use crate::state::{Inner, Item, MOVED, State, USER, What};
use host::{RawMark, RawPort, Who};
use sim::join_all;
use ssd::{Cause, ChunkState, MOST_ADDRESSES, Ppa, RawStatus, ReadCause, victim};
use std::rc::Rc;

/// Sectors that wait to be moved, at most: a choice of ours.
const MOST_MOVING: usize = 4 * MOST_ADDRESSES;

impl<P: RawPort> Inner<P> {
    /// Cleans lines, for ever.
    pub(crate) async fn collect(self: Rc<Self>) {
        loop {
            let chosen = self.choose();
            match chosen {
                Some(line) => self.clean(line).await,
                None => self.collect.wait(&self.sim).await,
            }
        }
    }

    /// The next line to clean, if there are too few free ones.
    fn choose(&self) -> Option<usize> {
        let chosen = {
            let state = &mut *self.state.borrow_mut();
            let free = state.lines.free();
            // Without a background, lines are cleaned once new data may have none.
            let enough = self.config.reserve + self.config.background.max(1);
            if free >= enough || self.failure.get().is_some() {
                return None;
            }
            let chosen = self.next_line(state);
            if let Some(line) = chosen {
                state.lines.step(line, Step::Choose);
            } else if free > self.config.reserve || !stands_still(state) {
                return None;
            }
            chosen
        };
        if chosen.is_none() {
            self.refuse();
        }
        chosen
    }

    /// The line that is cleaned next: one on which nothing is needed, whatever the policy
    /// says, for that costs nothing; else one that gains a unit at least, and whose sectors
    /// have somewhere to go.
    fn next_line(&self, state: &State) -> Option<usize> {
        let mut views = state.lines.views(state.number);
        let empty = views.find(|view| view.valid == 0 && view.pages > 0);
        let empty = empty.map(|view| view.line as usize);
        empty.or_else(|| self.next_to_move(state))
    }

    /// The line that is next of those from which something has to be moved.
    fn next_to_move(&self, state: &State) -> Option<usize> {
        let (least, lines) = (self.geometry.write_min, &state.lines);
        let room = match state.frontiers[MOVED].line {
            _ if lines.free() > 0 => u32::MAX,
            Some(line) => lines.room(line),
            None => 0,
        };
        let views = lines.views(state.number);
        let gains = views.filter(|view| view.valid > 0 && view.valid + least <= view.pages);
        let fits = gains.filter(|view| view.valid.next_multiple_of(least) <= room);
        victim(self.config.victim, fits).map(|line| line as usize)
    }

    async fn clean(self: &Rc<Self>, line: usize) {
        let mut whole = true;
        while whole && self.failure.get().is_none() {
            let places = self.movable(line);
            let (has_records, is_empty) = {
                let lines = &self.state.borrow().lines;
                (lines.has_records(line), lines.is_empty(line))
            };
            if is_empty {
                break;
            }
            if places.is_empty() && !has_records {
                // What is left is pinned, or a newer version has not settled.
                self.progress.wait(&self.sim).await;
                continue;
            }
            whole = self.move_from(line, &places).await;
        }
        while self.state.borrow().lines.lines[line].readers > 0 {
            self.progress.wait(&self.sim).await;
        }
        if self.failure.get().is_some() {
            return;
        }
        if whole {
            self.reset(line).await;
        } else {
            self.state.borrow_mut().lines.step(line, Step::Lose);
        }
        self.wake_all();
    }

    /// The blocks of a line of which the sectors may be moved now. One that a newer version
    /// is about to leave without an owner need not be.
    fn movable(&self, line: usize) -> Vec<u32> {
        let state = self.state.borrow();
        let mut held = state.lines.held(line);
        held.retain(|&place| {
            let owner = state.lines.owner(place);
            owner.is_some_and(|sector| {
                state.table.get(sector) == Some(place) && !state.pins.is_pinned(sector)
            })
        });
        held
    }

    /// Moves these blocks of a line, and its records, and waits until the table says so.
    /// False if one of them cannot be read.
    async fn move_from(self: &Rc<Self>, line: usize, places: &[u32]) -> bool {
        let mut whole = true;
        for places in places.chunks(MOST_ADDRESSES) {
            whole &= self.queue_from(places).await;
            self.wait_for_moves(MOST_MOVING).await;
        }
        self.queue_records(line);
        self.top_up().await;
        self.state.borrow_mut().frontiers[MOVED].force();
        self.work[MOVED].notify(&self.sim);
        self.wait_for_moves(0).await;
        self.take_over().await;
        self.progress.notify(&self.sim);
        whole
    }

    /// Waits until no more than `most` sectors wait to be moved.
    async fn wait_for_moves(&self, most: usize) {
        while self.state.borrow().moving > most && self.failure.get().is_none() {
            self.progress.wait(&self.sim).await;
        }
    }

    /// Fills the last unit up with sectors of the line that is next, which have to be moved
    /// anyway, so that it need not be padded.
    async fn top_up(&self) {
        let next = {
            let state = &*self.state.borrow();
            let step = self.geometry.write_min as usize;
            let lacks = state.frontiers[MOVED].queue.len().next_multiple_of(step)
                - state.frontiers[MOVED].queue.len();
            let next = self.next_to_move(state).filter(|_| lacks > 0);
            next.map(|line| (line, lacks))
        };
        if let Some((line, lacks)) = next {
            let mut places = self.movable(line);
            places.truncate(lacks);
            // One that cannot be read is found again when the line itself is cleaned.
            self.queue_from(&places).await;
        }
    }

    /// Queues what is valid of these blocks to be moved. False if one of them cannot be read,
    /// or is nothing that this mapping has written.
    async fn queue_from(&self, places: &[u32]) -> bool {
        if places.is_empty() {
            return true;
        }
        let at: Vec<Ppa> = places.iter().map(|&place| self.ppa(place)).collect();
        let read = self.port.read(&at, ReadCause::Gc, Who::default());
        let Ok(read) = read.await else {
            return false;
        };
        let state = &mut *self.state.borrow_mut();
        let mut items = Vec::new();
        let mut known = true;
        for (&place, block) in places.iter().zip(read) {
            let beside = Beside::parse(&block.meta);
            let Some(Beside { number, .. }) = beside.filter(|b| matches!(b.kind, Kind::Data(_)))
            else {
                known = false;
                continue;
            };
            // Its owner may be another sector than the one that it was written for.
            if let Some(sector) = state.lines.owner(place)
                && state.pins.begin_move(sector)
            {
                items.push(Item {
                    what: What::Moved(sector, place),
                    number,
                    payload: block.payload,
                    mark: mark(Cause::Gc),
                });
            }
        }
        self.queue_moves(state, items.into_iter());
        known
    }

    /// Queues what the records of a line still say: that an older version than the record, if
    /// there is one, does not count. They are put together, and need not be read: their
    /// ranges are in memory.
    fn queue_records(&self, line: usize) {
        let state = &mut *self.state.borrow_mut();
        let all = state.lines.ranges(line);
        let items = all.chunks(MOST_RANGES).map(|part| {
            let ranges: Vec<Trimmed> = part.iter().map(|(range, _)| *range).collect();
            Item {
                payload: put_ranges(&ranges),
                number: ranges.iter().map(|range| range.number).max().unwrap_or(0),
                what: What::Records(part.to_vec()),
                mark: mark(Cause::Gc),
            }
        });
        self.queue_moves(state, items);
    }

    /// Makes the chunks of a line free.
    async fn reset(&self, line: usize) {
        let units = (0..self.geometry.all_units()).map(|unit| self.reset_chunk(line, unit));
        let told = join_all(units.collect()).await;
        let state = &mut *self.state.borrow_mut();
        state.stats.cleaned += 1;
        let entry = &mut state.lines.lines[line];
        for (member, told) in entry.members.iter_mut().zip(told) {
            let good = told.is_some();
            (member.given, member.good, member.doomed) = (0, good, false);
            member.gone = !good;
            entry.wear = entry.wear.max(told.unwrap_or_default());
        }
        entry.erases += 1;
        let is_good = entry.members.iter().any(|member| member.good);
        state.lines.step(line, Step::Clean);
        if !is_good {
            state.lines.step(line, Step::Lose);
        }
    }

    /// Makes a chunk free, and says how worn it is; none if it is offline.
    async fn reset_chunk(&self, line: usize, unit: u32) -> Option<u8> {
        let number = unit * self.geometry.chunks + line as u32;
        let told = self.port.report(number, 1).await.ok()?;
        let [info] = told[..] else { return None };
        let closed = match info.state {
            ChunkState::Free => return Some(info.wear),
            ChunkState::Offline => return None,
            ChunkState::Closed => true,
            // Only a closed chunk can be reset.
            ChunkState::Open => self.fill(number, info.write_pointer).await,
        };
        let free = closed && self.port.reset(&[info.start]).await.is_ok();
        free.then_some(info.wear)
    }

    /// Writes nothing to a chunk up to its end, and says whether it is closed.
    async fn fill(&self, chunk: u32, from: u32) -> bool {
        let step = self.geometry.write_min;
        let first = chunk * self.geometry.blocks;
        for block in (from..self.geometry.blocks).step_by(step as usize) {
            let places = first + block..first + block + step;
            let at: Vec<Ppa> = places.map(|place| self.ppa(place)).collect();
            let meta = vec![Beside::PADDING.bytes(); at.len()];
            let marks = vec![mark(Cause::Padding); at.len()];
            match self.port.write(&at, &[], &meta, &marks).await {
                Ok(()) => self.state.borrow_mut().stats.filled += u64::from(step),
                Err(error) => return error.status == RawStatus::EarlyClose,
            }
        }
        true
    }
}

fn mark(cause: Cause) -> RawMark {
    RawMark {
        cause,
        who: Who::default(),
    }
}

/// Whether nothing that is under way could free a line.
fn stands_still(state: &State) -> bool {
    let busy = |line: &Line| line.members.iter().any(|member| member.busy);
    let waits = !state.frontiers[USER].queue.is_empty() && state.frontiers[USER].line.is_none();
    let mut lines = state.lines.lines.iter();
    waits && !lines.any(|line| busy(line) || line.state == LineState::Cleaning)
}
