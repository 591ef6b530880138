//! Cleaning: a line is chosen, what is valid on it is moved, and its chunks are reset.
//!
//! Invariant: a chunk is reset only when no sector and no record of a deallocation needs
//! what is on it, durably so, and nobody reads it.

use crate::lines::{Line, LineState, Step, transition};
use crate::meta::{Beside, Kind, put_ranges, take_ranges};
use crate::state::{Inner, Item, USER, What};
use crate::table::Table;
use host::{RawMark, RawPort, Who};
use sim::join_all;
use ssd::{Cause, ChunkState, MOST_ADDRESSES, Ppa, RawBlock, RawStatus, ReadCause, victim};
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
            let enough = self.config.reserve + self.config.background;
            if free >= enough || self.failure.get().is_some() {
                return None;
            }
            let least = self.geometry.write_min;
            let views = state.lines.views(state.number);
            let gains = views.filter(|view| view.valid + least <= view.pages);
            let chosen = victim(self.config.victim, gains).map(|line| line as usize);
            if let Some(line) = chosen {
                let line = &mut state.lines.lines[line];
                line.state = transition(line.state, Step::Choose);
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

    async fn clean(self: &Rc<Self>, line: usize) {
        let mut lost = false;
        loop {
            let held = self.state.borrow().lines.held(line);
            if held.is_empty() || lost || self.failure.get().is_some() {
                break;
            }
            for places in held.chunks(MOST_ADDRESSES) {
                lost |= !self.queue_from(line, places).await;
                while self.state.borrow().moving > MOST_MOVING && self.failure.get().is_none() {
                    self.progress.wait(&self.sim).await;
                }
            }
            while self.state.borrow().moving > 0 && self.failure.get().is_none() {
                self.progress.wait(&self.sim).await;
            }
            // What is left is pinned, or a newer version has not settled.
            if !self.state.borrow().lines.held(line).is_empty() && !lost {
                self.progress.wait(&self.sim).await;
            }
        }
        while self.state.borrow().lines.lines[line].readers > 0 {
            self.progress.wait(&self.sim).await;
        }
        if self.failure.get().is_some() {
            return;
        }
        if lost {
            let state = &mut *self.state.borrow_mut();
            lose(&mut state.lines.lines[line]);
        } else {
            self.reset(line).await;
        }
        self.wake_all();
    }

    /// Queues what is valid of these blocks of a line to be moved. False if one of them
    /// cannot be read, or is nothing that this mapping has written.
    async fn queue_from(&self, line: usize, places: &[u32]) -> bool {
        let at: Vec<Ppa> = places.iter().map(|&place| self.ppa(place)).collect();
        let read = self.port.read(&at, ReadCause::Gc, Who::default());
        let Ok(read) = read.await else {
            return false;
        };
        let state = &mut *self.state.borrow_mut();
        let mut items = Vec::new();
        let mut known = true;
        for (&place, block) in places.iter().zip(read) {
            let Some(beside) = Beside::parse(&block.meta) else {
                known = false;
                continue;
            };
            if beside.kind == Kind::Trims {
                state.lines.lines[line]
                    .records
                    .retain(|&record| record != place);
                items.extend(record(state, &block));
                continue;
            }
            // Its owner may be another sector than the one that it was written for.
            if let Some(sector) = state.lines.owner(place)
                && state.pins.begin_move(sector)
            {
                items.push(Item {
                    what: What::Moved(sector, place),
                    number: beside.number,
                    payload: block.payload,
                    mark: mark(Cause::Gc),
                });
            }
        }
        self.queue_moves(state, items);
        known
    }

    /// Makes the chunks of a line free.
    async fn reset(&self, line: usize) {
        let units = (0..self.geometry.all_units()).map(|unit| self.reset_chunk(line, unit));
        let good = join_all(units.collect()).await;
        let state = &mut *self.state.borrow_mut();
        state.stats.cleaned += 1;
        let line = &mut state.lines.lines[line];
        for (member, good) in line.members.iter_mut().zip(good) {
            (member.given, member.good, member.gone) = (0, good, !good);
        }
        line.erases += 1;
        line.state = transition(line.state, Step::Clean);
        if !line.members.iter().any(|member| member.good) {
            lose(line);
        }
    }

    /// Makes a chunk free, and says whether it is.
    async fn reset_chunk(&self, line: usize, unit: u32) -> bool {
        let number = unit * self.geometry.chunks + line as u32;
        let Ok(told) = self.port.report(number, 1).await else {
            return false;
        };
        let [info] = told[..] else { return false };
        let closed = match info.state {
            ChunkState::Free => return true,
            ChunkState::Offline => return false,
            ChunkState::Closed => true,
            // Only a closed chunk can be reset.
            ChunkState::Open => self.fill(number, info.write_pointer).await,
        };
        closed && self.port.reset(&[info.start]).await.is_ok()
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
                Ok(()) => {}
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

/// What of a record of deallocations still says something: that an older version than the
/// record, if there is one, does not count. A table that is kept says it itself.
fn record(state: &crate::state::State, block: &RawBlock) -> Option<Item> {
    if matches!(state.table, Table::Pm(_)) {
        return None;
    }
    let mut ranges = take_ranges(&block.payload);
    let says = |sector: u32| state.table.get(sector).is_none();
    ranges.retain(|range| (range.first..range.first.saturating_add(range.count)).any(says));
    let number = ranges.iter().map(|range| range.number).max()?;
    Some(Item {
        payload: put_ranges(&ranges),
        what: What::Record,
        number,
        mark: mark(Cause::Gc),
    })
}

/// Whether nothing that is under way could free a line.
fn stands_still(state: &crate::state::State) -> bool {
    let busy = |line: &Line| line.members.iter().any(|member| member.busy);
    let waits = !state.frontiers[USER].queue.is_empty() && state.frontiers[USER].line.is_none();
    let mut lines = state.lines.lines.iter();
    waits && !lines.any(|line| busy(line) || line.state == LineState::Cleaning)
}

fn lose(line: &mut Line) {
    line.state = transition(line.state, Step::Lose);
}
