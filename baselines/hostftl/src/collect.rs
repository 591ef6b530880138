//! Cleaning (garbage collection): chooses a line, moves its valid sectors, and resets its chunks.
//!
//! The table is updated once everything moved off a line is on flash. Lines cleaned one after the
//! other share units, so that little is padded between them.
//!
//! Invariants: a chunk is reset only when, durably, no sector and no deallocation record needs it,
//! and no read is in flight on its line. A line is chosen only if its sectors have room elsewhere;
//! if failing programs use that room up, all writes fail.

use crate::lines::{Line, LineState, Step};
use crate::meta::{Beside, Kind, MOST_RANGES, Trimmed, put_ranges};
use crate::state::{Inner, Item, MOVED, State, USER, What};
use host::{RawMark, RawPort, Who};
use sim::join_all;
use ssd::{Cause, ChunkState, MOST_ADDRESSES, Ppa, RawStatus, ReadCause, victim};
use std::rc::Rc;

/// Most sectors queued for moving: our choice.
const MOST_MOVING: usize = 4 * MOST_ADDRESSES;

impl<P: RawPort> Inner<P> {
    /// Task: cleans lines until the simulation ends.
    pub(crate) async fn collect(self: Rc<Self>) {
        loop {
            let chosen = self.choose();
            match chosen {
                Some(line) => self.clean(line).await,
                None => self.collect.wait(&self.sim).await,
            }
        }
    }

    /// Chooses the next line if free lines are too few. Stops all writes if no line can be cleaned
    /// and nothing in flight could free one.
    fn choose(&self) -> Option<usize> {
        let chosen = {
            let state = &mut *self.state.borrow_mut();
            let free = state.lines.free();
            // With `background` 0, cleaning starts when new data can take no line.
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

    /// Next line to clean: an empty one regardless of policy, since it costs nothing; otherwise one
    /// that gains at least a unit, and whose sectors have room elsewhere.
    fn next_line(&self, state: &State) -> Option<usize> {
        let mut views = state.lines.views(state.number);
        let empty = views.find(|view| view.valid == 0 && view.pages > 0);
        let empty = empty.map(|view| view.line as usize);
        empty.or_else(|| self.next_to_move(state))
    }

    /// Victim among the lines with valid sectors.
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
                // The rest is pinned, or waits for a newer version to settle.
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

    /// Blocks of a line whose sectors may be moved now. Skips a block that a newer version is about
    /// to invalidate.
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

    /// Moves these blocks and the records of a line, and waits until they are in the table. False
    /// if a block cannot be read.
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

    /// Waits until at most `most` items of cleaning are unwritten.
    async fn wait_for_moves(&self, most: usize) {
        while self.state.borrow().moving > most && self.failure.get().is_none() {
            self.progress.wait(&self.sim).await;
        }
    }

    /// Fills the last unit with sectors of the next victim, which must move anyway, to avoid
    /// padding.
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
            // An unreadable block is handled when the line itself is cleaned.
            self.queue_from(&places).await;
        }
    }

    /// Queues the valid sectors of these blocks for moving. False if a block cannot be read, or has
    /// no metadata of this mapping.
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
            // The owner may differ from the sector in the metadata, after an exchange.
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

    /// Queues merged records for the ranges of a line that still hide older versions. Their ranges
    /// are in memory and need no read.
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

    /// Resets the chunks of a line and frees the line; a line without good chunks is lost.
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

    /// Resets a chunk, padding it full first if it is open; returns its wear, or `None` if it is
    /// offline.
    async fn reset_chunk(&self, line: usize, unit: u32) -> Option<u8> {
        let number = unit * self.geometry.chunks + line as u32;
        let told = self.port.report(number, 1).await.ok()?;
        let [info] = told[..] else { return None };
        let closed = match info.state {
            ChunkState::Free => return Some(info.wear),
            ChunkState::Offline => return None,
            ChunkState::Closed => true,
            // Only a closed chunk can be reset, so fill it.
            ChunkState::Open => self.fill(number, info.write_pointer).await,
        };
        let free = closed && self.port.reset(&[info.start]).await.is_ok();
        free.then_some(info.wear)
    }

    /// Pads a chunk from block `from` to its end; returns whether it is closed.
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

/// Whether new data wait for a line and nothing in flight could free one.
fn stands_still(state: &State) -> bool {
    let busy = |line: &Line| line.members.iter().any(|member| member.busy);
    let waits = !state.frontiers[USER].queue.is_empty() && state.frontiers[USER].line.is_none();
    let mut lines = state.lines.lines.iter();
    waits && !lines.any(|line| busy(line) || line.state == LineState::Cleaning)
}
