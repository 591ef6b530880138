//! Writes: from the buffer to units of flash, and from there to the table. A version is durable
//! when its program and the fence behind its entry have ended; in a buffer in persistent memory it
//! is durable before all of this.

use crate::buffer::Waiting;
use crate::lasting::take_in;
use crate::lines::Step;
use crate::meta::{Beside, Kind, MOST_RANGES, put_ranges};
use crate::pins::Part;
use crate::policy::quota;
use crate::state::{Frontier, Inner, Item, MOVED, Queued, State, USER, What};
use crate::table::Table;
use host::{RawMark, RawPort, Who};
use nand::{Payload, UNIT};
use ssd::{Cause, IoError, Meta, Ppa, RawError, RawStatus};
use std::rc::Rc;
use units::NoSpace;

/// A unit being written: the block range of a chunk, and the items in it.
pub(crate) struct Unit {
    frontier: usize,
    line: usize,
    member: usize,
    block: u32,
    pub(crate) items: Vec<Item>,
}

/// An update of a table entry: the sector, and the block that the entry led to before.
struct Change {
    sector: u32,
    before: Option<u32>,
}

/// Counts a flush in progress until dropped.
struct Flushing<'a, P>(&'a Inner<P>);

impl<P> Drop for Flushing<'_, P> {
    fn drop(&mut self) {
        self.0.state.borrow_mut().flushing -= 1;
    }
}

/// Counts an update of entries in progress until dropped.
struct Settling<'a, P>(&'a Inner<P>);

impl<P> Drop for Settling<'_, P> {
    fn drop(&mut self) {
        self.0.state.borrow_mut().settling -= 1;
    }
}

impl<P: RawPort> Inner<P> {
    /// Takes in a version of a sector once the buffer has room. Waits for a holder of the sector,
    /// unless `part` shows that the caller holds it.
    pub(crate) async fn write_sector(
        self: &Rc<Self>,
        sector: u32,
        payload: Payload,
        who: Who,
        part: Option<&Part<'_, P>>,
    ) -> Result<(), IoError> {
        let waiting = |number| Waiting {
            number,
            payload,
            mark: RawMark {
                cause: Cause::Host,
                who,
            },
        };
        let kept = self.state.borrow().slots.as_ref().map(|s| s.kept.clone());
        match kept {
            Some(kept) => self.write_lasting(&kept, sector, waiting, part).await?,
            None => self.write_passing(sector, waiting, part).await?,
        }
        self.work[USER].notify(&self.sim);
        Ok(())
    }

    /// Takes in a version that becomes durable with a later flush.
    async fn write_passing(
        &self,
        sector: u32,
        waiting: impl FnOnce(u64) -> Waiting,
        part: Option<&Part<'_, P>>,
    ) -> Result<(), IoError> {
        loop {
            self.failed()?;
            {
                let state = &mut *self.state.borrow_mut();
                let room = state.buffer.held() < self.quota(state);
                if room && (part.is_some() || !state.pins.is_held(sector)) {
                    let number = Self::next_number(state);
                    take_in(state, sector, waiting(number));
                    return Ok(());
                }
            }
            self.collect.notify(&self.sim);
            self.progress.wait(&self.sim).await;
        }
    }

    /// Most sectors that new data may have in the buffer now.
    pub(crate) fn quota(&self, state: &State) -> u32 {
        let all = (self.config.buffer.0 / UNIT as u64) as u32;
        let least = self.geometry.write_min;
        let (reserve, free) = (self.config.reserve, state.lines.free());
        let enough = reserve + self.config.background;
        quota(all.max(least), least, free, reserve, enough)
    }

    /// Makes every earlier write and deallocation durable.
    pub(crate) async fn flush(self: &Rc<Self>) -> Result<(), IoError> {
        match self.is_durable() {
            true => self.failed(),
            false => self.write_out().await,
        }
    }

    /// Writes out every earlier write and deallocation, and waits for the end of that.
    async fn write_out(self: &Rc<Self>) -> Result<(), IoError> {
        let last = {
            let state = &mut *self.state.borrow_mut();
            self.force(state);
            state.flushing += 1;
            state.number
        };
        let _flushing = Flushing(self);
        while self.has_older(last) {
            self.failed()?;
            self.progress.wait(&self.sim).await;
            // An awaited version may have been deallocated meanwhile.
            let state = &mut *self.state.borrow_mut();
            if !state.trims.is_empty() && state.slots.is_none() {
                self.force(state);
            }
        }
        self.failed()
    }

    /// Forces all that is not durable to be written.
    pub(crate) fn force(&self, state: &mut State) {
        self.queue_trims(state);
        if state.slots.is_none() {
            state.frontiers[USER].force();
        }
        self.work[USER].notify(&self.sim);
    }

    /// Whether a version with a number below `last` is not durable.
    fn has_older(&self, last: u64) -> bool {
        let state = self.state.borrow();
        let oldest = match state.slots {
            Some(_) => state.buffer.oldest_trim(),
            None => state.buffer.oldest(),
        };
        oldest.is_some_and(|number| number < last)
    }

    /// Packs pending deallocations into records and queues these; with a buffer in persistent
    /// memory, ahead of other entries, which are durable already.
    pub(crate) fn queue_trims(&self, state: &mut State) {
        let trims = std::mem::take(&mut state.trims);
        for ranges in trims.chunks(MOST_RANGES) {
            let item = Item {
                payload: put_ranges(ranges),
                number: ranges.iter().map(|range| range.number).max().unwrap_or(0),
                mark: RawMark {
                    cause: Cause::Journal,
                    who: Who::default(),
                },
                what: What::Trims(ranges.to_vec()),
            };
            let frontier = &mut state.frontiers[USER];
            match state.slots {
                Some(_) => frontier.put_first(item),
                None => frontier.queue.push_back(Queued::Item(item)),
            }
        }
    }

    /// Task: writes units of a frontier, until the simulation ends.
    pub(crate) async fn write_frontier(self: Rc<Self>, frontier: usize) {
        loop {
            let next = self.next_unit(frontier);
            match next {
                Some(unit) => {
                    let inner = Rc::clone(&self);
                    self.sim
                        .spawn_detached(async move { inner.write_unit(unit).await });
                }
                None => {
                    if frontier == MOVED && self.is_stuck() {
                        self.refuse();
                    }
                    self.work[frontier].wait(&self.sim).await;
                }
            }
        }
    }

    /// Whether cleaning has nowhere to write: no line is free, and only cleaning frees lines.
    fn is_stuck(&self) -> bool {
        let state = self.state.borrow();
        let Frontier { queue, line, .. } = &state.frontiers[MOVED];
        !queue.is_empty() && line.is_none() && state.lines.free() == 0
    }

    /// The next unit of a frontier with its place; `None` if there is too little to write, or no
    /// place now.
    fn next_unit(&self, frontier: usize) -> Option<Unit> {
        let state = &mut *self.state.borrow_mut();
        let step = self.geometry.write_min as usize;
        // Versions deallocated while queued take no space.
        while let Some(&Queued::Sector(sector)) = state.frontiers[frontier].queue.front()
            && !state.buffer.waits(sector)
        {
            state.frontiers[frontier].pop();
        }
        let Frontier { queue, forced, .. } = &state.frontiers[frontier];
        let enough = queue.len() >= step || (*forced > 0 && !queue.is_empty());
        if !enough || self.failure.get().is_some() {
            return None;
        }
        let line = self.open_line(state, frontier)?;
        let (member, block) = state.lines.give(line)?;
        let mut items = Vec::new();
        while items.len() < step {
            match state.frontiers[frontier].pop() {
                None => break,
                Some(Queued::Item(item)) => items.push(item),
                Some(Queued::Sector(sector)) => {
                    let waiting = state.buffer.issue(sector);
                    items.extend(waiting.map(|waiting| Item {
                        what: What::Data(sector),
                        number: waiting.number,
                        payload: waiting.payload,
                        mark: waiting.mark,
                    }));
                }
            }
        }
        Some(Unit {
            frontier,
            line,
            member,
            block,
            items,
        })
    }

    /// Open line of a frontier; takes a free line if there is none and the reserve allows.
    fn open_line(&self, state: &mut State, frontier: usize) -> Option<usize> {
        if let Some(line) = state.frontiers[frontier].line {
            return Some(line);
        }
        let kept = if frontier == USER {
            self.config.reserve
        } else {
            0
        };
        if state.lines.free() <= kept {
            self.collect.notify(&self.sim);
            return None;
        }
        let line = state.lines.take(state.number);
        state.frontiers[frontier].line = line;
        self.collect.notify(&self.sim);
        line
    }

    async fn write_unit(self: Rc<Self>, unit: Unit) {
        let step = self.geometry.write_min;
        let first = {
            let state = self.state.borrow();
            state.lines.place(unit.line, unit.member, unit.block)
        };
        let at: Vec<Ppa> = (first..first + step).map(|place| self.ppa(place)).collect();
        let mut payload: Vec<Payload> = unit.items.iter().map(|i| i.payload.clone()).collect();
        payload.resize(step as usize, Payload::Zero);
        let mut meta: Vec<Meta> = unit.items.iter().map(|item| beside(item).bytes()).collect();
        meta.resize(step as usize, Beside::PADDING.bytes());
        let mut marks: Vec<RawMark> = unit.items.iter().map(|item| item.mark).collect();
        let padding = RawMark {
            cause: Cause::Padding,
            who: Who::default(),
        };
        marks.resize(step as usize, padding);
        let written = self.port.write(&at, &payload, &meta, &marks).await;
        match written {
            Ok(()) if unit.frontier == MOVED => self.end_move(unit, first),
            Ok(()) => self.end_unit(unit, first).await,
            Err(error) => self.fail_unit(unit, error),
        }
        self.wake_all();
    }

    /// Ends the program of a unit of new data: updates the table, then invalidates the previous
    /// blocks.
    async fn end_unit(&self, mut unit: Unit, first: u32) {
        while self.is_pinned(&unit) {
            self.progress.wait(&self.sim).await;
        }
        self.hand_over(&mut unit);
        let changes = self.apply(&unit, first);
        self.settle_changes(changes).await;
        self.leave_unit(&unit).await;
        let state = &mut *self.state.borrow_mut();
        for item in &unit.items {
            match &item.what {
                What::Data(sector) => state.buffer.settle(*sector, item.number),
                What::Trims(ranges) => {
                    for range in ranges {
                        let sectors = range.first..range.first + range.count;
                        sectors.for_each(|sector| state.buffer.settle(sector, range.number));
                    }
                }
                What::Moved(..) | What::Records(_) => {}
            }
        }
        release(state, &unit);
    }

    /// Whether a version of the unit belongs to a pinned sector: a record of exchanges may name its
    /// slot, which must stay until the unpin.
    fn is_pinned(&self, unit: &Unit) -> bool {
        let state = self.state.borrow();
        state.pins.has_pinned()
            && unit.items.iter().any(|item| match item.what {
                What::Data(sector) => {
                    let owner = state.buffer.owner(sector, item.number);
                    owner.is_some_and(|sector| state.pins.is_pinned(sector))
                }
                What::Trims(_) | What::Moved(..) | What::Records(_) => false,
            })
    }

    /// Assigns each block of a unit to the sector that its version belongs to by now.
    fn hand_over(&self, unit: &mut Unit) {
        let buffer = &self.state.borrow().buffer;
        for item in &mut unit.items {
            if let What::Data(sector) = &mut item.what
                && let Some(owner) = buffer.owner(*sector, item.number)
            {
                *sector = owner;
            }
        }
    }

    /// Enters the versions of a unit of new data into the table, without waiting for durability.
    fn apply(&self, unit: &Unit, first: u32) -> Vec<Change> {
        let state = &mut *self.state.borrow_mut();
        let mut changes = Vec::new();
        state.stats.padding += u64::from(self.geometry.write_min) - unit.items.len() as u64;
        for (item, place) in unit.items.iter().zip(first..) {
            match &item.what {
                What::Data(sector) => {
                    state.stats.data += 1;
                    if state.buffer.end(*sector, item.number) {
                        changes.push(change(state, *sector, Some(place)));
                        state.lines.unbury(*sector);
                    }
                }
                What::Trims(ranges) => {
                    state.stats.records += 1;
                    let mut gone = Vec::new();
                    for range in ranges {
                        let ends = |&sector: &u32| state.buffer.end(sector, range.number);
                        gone.extend((range.first..range.first + range.count).filter(ends));
                    }
                    state.lines.note(place, ranges.clone(), &gone);
                    changes.extend(gone.iter().map(|&sector| change(state, sector, None)));
                }
                What::Moved(..) | What::Records(_) => {}
            }
        }
        changes
    }

    /// Ends the program of a unit of moved items. The table is updated only when the whole source
    /// line is on flash, so a cut before leaves nothing needed on the new line.
    fn end_move(&self, unit: Unit, first: u32) {
        let state = &mut *self.state.borrow_mut();
        state.stats.padding += u64::from(self.geometry.write_min) - unit.items.len() as u64;
        state.moving -= unit.items.len();
        release(state, &unit);
        let whats = unit.items.into_iter().map(|item| item.what);
        state.shifted.extend(whats.zip(first..));
    }

    /// Enters moved items into the table, as far as they are still the newest.
    pub(crate) async fn take_over(&self) {
        let (shifted, changes) = {
            let state = &mut *self.state.borrow_mut();
            let shifted = std::mem::take(&mut state.shifted);
            let mut changes = Vec::new();
            for (what, to) in &shifted {
                match what {
                    What::Moved(sector, from) => {
                        state.stats.moved += 1;
                        if state.table.get(*sector) == Some(*from) {
                            changes.push(change(state, *sector, Some(*to)));
                        }
                    }
                    What::Records(ranges) => {
                        state.stats.records += 1;
                        let lines = &mut state.lines;
                        let still = ranges.iter().flat_map(|&(range, from)| {
                            let sectors = range.first..range.first + range.count;
                            let lines = &*lines;
                            sectors.filter(move |&sector| lines.tomb(sector) == Some(from))
                        });
                        let still: Vec<u32> = still.collect();
                        let ranges = ranges.iter().map(|(range, _)| *range).collect();
                        lines.note(*to, ranges, &still);
                    }
                    What::Data(_) | What::Trims(_) => {}
                }
            }
            (shifted, changes)
        };
        self.settle_changes(changes).await;
        let state = &mut *self.state.borrow_mut();
        for (what, _) in &shifted {
            if let What::Moved(sector, _) = what {
                state.pins.end_move(*sector);
            }
        }
    }

    /// Makes table updates durable; then invalidates the previous blocks.
    async fn settle_changes(&self, changes: Vec<Change>) {
        let sectors = changes.iter().map(|change| change.sector).collect();
        self.settle(sectors).await;
        let state = &mut *self.state.borrow_mut();
        for change in changes {
            if let Some(before) = change.before
                && state.lines.owner(before) == Some(change.sector)
                && state.table.get(change.sector) != Some(before)
            {
                state.lines.own(before, None);
            }
        }
    }

    /// Makes the entries of these sectors durable, if the table is in persistent memory.
    pub(crate) async fn settle(&self, sectors: Vec<u32>) {
        let table = match &self.state.borrow().table {
            Table::Dram(_) => return,
            Table::Pm(table) => table.clone(),
        };
        if !sectors.is_empty() {
            self.state.borrow_mut().settling += 1;
            let _settling = Settling(self);
            table.settle(sectors.into_iter()).await;
        }
    }

    /// Handles a failed program: closes the chunk, and queues the items to be written elsewhere
    /// first.
    fn fail_unit(&self, unit: Unit, error: RawError) {
        if error.status != RawStatus::EarlyClose {
            self.fail(IoError::ReadOnly);
            return;
        }
        let state = &mut *self.state.borrow_mut();
        state.stats.failed += 1;
        let member = &mut state.lines.lines[unit.line].members[unit.member];
        (member.good, member.doomed, member.given) = (false, true, unit.block);
        release(state, &unit);
        for item in unit.items.into_iter().rev() {
            let obsolete = matches!(item.what, What::Data(sector)
                if state.buffer.owner(sector, item.number).is_none());
            if !obsolete {
                state.frontiers[unit.frontier].put_first(item);
            }
        }
    }

    /// Records that no line is free and cleaning gains nothing; all writes fail from now on.
    pub(crate) fn refuse(&self) {
        let state = &mut *self.state.borrow_mut();
        let (free, all) = (state.lines.free(), state.lines.lines.len() as u64);
        let kept = u64::from(self.config.reserve);
        state.refusals.note(self.sim.now(), "lines", || {
            NoSpace::new("lines", 1, u64::from(free), all)
                .keeping(kept)
                .rest("data")
        });
        self.fail(IoError::ReadOnly);
    }

    /// Queues items of cleaning.
    pub(crate) fn queue_moves(&self, state: &mut State, items: impl Iterator<Item = Item>) {
        let queue = &mut state.frontiers[MOVED].queue;
        let before = queue.len();
        queue.extend(items.map(Queued::Item));
        state.moving += queue.len() - before;
        self.work[MOVED].notify(&self.sim);
    }
}

/// Sets a table entry; the sector owns the new block at once.
fn change(state: &mut State, sector: u32, place: Option<u32>) -> Change {
    let before = state.table.get(sector);
    state.table.put(sector, place);
    if let Some(place) = place {
        state.lines.own(place, Some(sector));
    }
    Change { sector, before }
}

/// Marks the chunk of a unit idle, and closes its line if the line is full.
fn release(state: &mut State, unit: &Unit) {
    state.lines.lines[unit.line].members[unit.member].busy = false;
    let open = state.frontiers[unit.frontier].line == Some(unit.line);
    if open && state.lines.is_full(unit.line) {
        state.lines.step(unit.line, Step::Fill);
        state.frontiers[unit.frontier].line = None;
    }
}

fn beside(item: &Item) -> Beside {
    let kind = match &item.what {
        What::Data(sector) | What::Moved(sector, _) => Kind::Data(*sector),
        What::Trims(_) | What::Records(_) => Kind::Trims,
    };
    Beside {
        kind,
        number: item.number,
    }
}
