//! Garbage collection, static wear levelling, and erasing.
//!
//! One task for each reclaim group chooses victims; the work is spread over the dies. Copies go
//! through the write buffer into a frontier of their own, and a copy that is no longer the newest
//! version when its turn comes is skipped. A line is erased once no page on it is valid, every
//! program issued up to then has completed, and no read of it is under way.

use crate::config::DriveConfig;
use crate::drive::Core;
use crate::fdp::Moving;
use crate::frontier::Kind;
use crate::layout::{Layout, NONE};
use crate::ledger::{Cause, ReadCause};
use crate::line::LineState;
use crate::observed::Relocation;
use crate::policy;
use crate::recover::word;
use crate::state::State;
use nand::{BlockState, NandError, Payload, Priority, Row};
use std::collections::VecDeque;
use std::rc::Rc;

/// Valid pages of one page row: the row's unit and position, its planes, and the flash pages.
struct RowOfPages {
    unit: u32,
    row: u32,
    planes: u8,
    pages: Vec<u32>,
}

/// The relocation of one row of pages.
pub(crate) struct Copying {
    line: u32,
    source: RowOfPages,
    target: usize,
    cause: Cause,
    moving: Rc<Moving>,
}

/// Copies that the collector of a group may have on their way: enough for the reads of each die,
/// and at least one more row beside the leftovers of every frontier (each less than a unit). Each
/// group has its own window, so that a waiting group does not delay another.
pub(crate) fn window(layout: &Layout, config: &DriveConfig, frontiers: u32) -> u32 {
    let reads = layout.unit * layout.dies_per_group * config.collection.reads_per_die.max(1);
    reads.max(frontiers * (layout.unit - 1) + layout.unit)
}

impl Core {
    /// Task that collects lines of `group` whenever too few are free; never ends.
    pub(crate) async fn collect_group(self: Rc<Self>, group: u32) {
        loop {
            match self.choose(group) {
                Some((line, cause)) => {
                    let begin = self.sim.now();
                    let valid = self.state.borrow().lines.lines[line as usize].valid;
                    if let Some(credits) = &self.credits {
                        credits.begin(group, valid, self.layout.line_data);
                    }
                    self.collect_line(line, cause).await;
                    if let Some(credits) = &self.credits {
                        credits.end(&self.sim, group);
                    }
                    if self.nand.tracer().is_on() {
                        self.observed.add(Relocation {
                            line,
                            group,
                            cause,
                            valid,
                            begin,
                            end: self.sim.now(),
                        });
                    }
                }
                None => {
                    if let Some(credits) = &self.credits {
                        credits.rest(&self.sim, group);
                    }
                    self.collect[group as usize].wait(&self.sim).await;
                }
            }
        }
    }

    /// Chooses the next line to collect; `None` if enough lines are free or no line gains.
    fn choose(&self, group: u32) -> Option<(u32, Cause)> {
        let mut state = self.state.borrow_mut();
        let policy = self.config.collection;
        let movers = state.movers(&self.layout, &self.config, group, None);
        let reserve = self.layout.reserve_lines(&self.config, movers);
        let hanging = state.hanging(&self.layout, group);
        let coming = state.lines.free_count(group) + state.lines.reclaiming(group);
        let coming = coming.saturating_sub(hanging);
        let stalled = state.stalled[group as usize];
        let wanted = reserve + policy.background_lines.max(u32::from(stalled > 0));
        let batch = &self.in_batch[group as usize];
        let goes_on = if batch.get() { policy.batch_lines } else { 0 };
        if coming >= wanted.saturating_add(goes_on) {
            batch.set(false);
            return None;
        }
        batch.set(true);
        let Some((line, cause)) = self.pick(&mut state, group, coming >= reserve) else {
            let comes = state.lines.reclaiming(group) > 0;
            let closing = state.lines.is_closing(group);
            let at_rest = state.in_flight.is_empty();
            drop(state);
            if stalled > 0 && !closing {
                self.push_leftovers(group);
                if at_rest && !comes {
                    self.become_read_only();
                }
            }
            return None;
        };
        self.book_victim(&mut state, line, stalled > 0);
        state.lines.transition(line, LineState::Collecting);
        Some((line, cause))
    }

    /// Picks the victim. Wear levelling may pick a cold line, which frees nothing, only while the
    /// reserve is whole (`is_whole`).
    fn pick(&self, state: &mut State, group: u32, is_whole: bool) -> Option<(u32, Cause)> {
        let threshold = self.config.wear.static_threshold;
        if threshold > 0
            && is_whole
            && let Some(line) = policy::coldest(
                threshold,
                state.most_erases,
                state.least_worn(&self.layout, group).into_iter(),
            )
        {
            return Some((line, Cause::WearLevelling));
        }
        let policies = self.policies.borrow();
        let line = if policies.choose_victims() {
            policies.line(state.candidates(&self.layout, group))
        } else if let Some(pools) = state.demand(&self.layout, &self.config, group) {
            policy::by_demand(pools.into_iter())
        } else {
            policy::victim(
                self.config.collection.victim,
                state.pool_victims(&self.layout, group).flatten(),
            )
        };
        line.map(|line| (line, Cause::Gc))
    }

    fn book_victim(&self, state: &mut State, line: u32, foreground: bool) {
        let valid = state.lines.lines[line as usize].valid;
        let tenth = (valid * 10 / self.layout.line_data).min(9);
        state.ledger.victims[tenth as usize] += 1;
        state.ledger.victim_pages += u64::from(valid);
        state.ledger.lines_collected += 1;
        state.ledger.lines_collected_foreground += u64::from(foreground);
        if let Some(handle) = self.owner(state, state.lines.lines[line as usize].frontier) {
            state.ledger.handles[handle as usize].moved_pages += u64::from(valid);
        }
    }

    /// Makes writes fail from now on: no line can be collected and none is about to become free.
    pub(crate) fn become_read_only(&self) {
        if self.read_only.replace(true) {
            return;
        }
        self.buffer.put(usize::MAX / 4);
        self.space.notify(&self.sim);
        self.progress.notify(&self.sim);
        if let Some(front) = &self.front {
            front.read_only(&self.sim);
        }
    }

    /// Forces out copies that do not fill a unit. Only used without a victim whose copies would
    /// fill it: padding could consume all that was gained, again and again.
    fn push_leftovers(&self, group: u32) {
        let mut state = self.state.borrow_mut();
        let mut woken = Vec::new();
        for (index, queue) in state.frontiers.iter_mut().enumerate() {
            // A frontier is woken once for the same copies: otherwise writers that wait for a line
            // could wake each other without end.
            if queue.group == group && queue.pushed < queue.copies.len() {
                queue.pushed = queue.copies.len();
                woken.push(index);
            }
        }
        drop(state);
        for index in woken {
            self.wake(index);
        }
    }

    /// Relocates the valid pages of `line`, then starts the task that erases it once the copies are
    /// written.
    async fn collect_line(self: &Rc<Self>, line: u32, cause: Cause) {
        let (target, group) = (self.target(line), self.layout.group(line));
        let moving = Rc::new(Moving::default());
        let mut rows = VecDeque::new();
        for unit in 0..self.layout.units_per_line {
            self.gather_valid(line, unit, &mut rows);
            while let Some(row) = rows.pop_front() {
                self.take_window(group, row.pages.len()).await;
                moving.reading.update(|reads| reads + 1);
                self.start_copy(Copying {
                    line,
                    source: row,
                    target,
                    cause,
                    moving: Rc::clone(&moving),
                });
            }
        }
        while moving.reading.get() > 0 {
            self.progress.wait(&self.sim).await;
        }
        self.report_moved(line, &moving);
        let core = Rc::clone(self);
        self.sim
            .spawn_detached(async move { core.reclaim(line).await });
    }

    /// Waits for room in the window of `group` for `pages` copies.
    async fn take_window(&self, group: u32, pages: usize) {
        let window = &self.window[group as usize];
        if !window.try_take(pages) {
            self.unblock_copies(group);
            window.take(pages).await;
        }
    }

    /// Resolves a deadlock of copies. After a power cut or failed blocks have left too few free
    /// lines, copies may wait for a line that only a victim under collection can become, and that
    /// victim may wait for copies left over at another frontier. The collector cannot force those
    /// out later, because the waiting copies may have taken the whole window.
    pub(crate) fn unblock_copies(&self, group: u32) {
        let stuck = {
            let state = self.state.borrow();
            let mut frontiers = state.frontiers.iter();
            state.lines.free_count(group) == 0
                && state.in_flight.is_empty()
                && !state.lines.is_erasing(group)
                && frontiers.any(|f| f.group == group && !f.copies.is_empty() && f.open == NONE)
        };
        if stuck && self.state.borrow().is_lost(&self.layout, group) {
            self.become_read_only();
        } else if stuck {
            self.push_leftovers(group);
        }
    }

    /// Watchdog of the firmware: turns the drive read-only if the simulation has come to rest while
    /// tasks wait for a line or for the end of a forced write. Returns whether it did.
    ///
    /// The checks before this one find most of these states at once. This one finds the rest, so
    /// that the host gets an error for its commands instead of no answer.
    pub(crate) fn give_up_at_rest(&self) -> bool {
        let waits = self.state.borrow().has_waiting();
        if waits && !self.read_only.get() {
            self.become_read_only();
            return true;
        }
        false
    }

    /// Turns the drive read-only if a retried program waits for a line that can only be erased
    /// after that program.
    pub(crate) fn give_up_if_stuck(&self) {
        let stuck = self.state.borrow().is_stuck(&self.layout);
        if stuck {
            self.become_read_only();
        }
    }

    /// Index of the frontier that takes copies from `line`.
    pub(crate) fn target(&self, line: u32) -> usize {
        let state = self.state.borrow();
        let source = &state.frontiers[usize::from(state.lines.lines[line as usize].frontier)];
        let isolated = self.config.placement.persistently_isolated;
        let wanted = match source.kind {
            Kind::Map | Kind::MovedMap => Kind::MovedMap,
            Kind::Host(handle) | Kind::Moved(handle) if !self.config.collection.separate => {
                Kind::Host(if isolated { handle } else { 0 })
            }
            Kind::Host(handle) | Kind::Moved(handle) if isolated => Kind::Moved(handle),
            _ => Kind::Moved(state.mover(&self.layout, line)),
        };
        let group = self.layout.group(line);
        let mut frontiers = state.frontiers.iter();
        frontiers
            .position(|f| f.kind == wanted && f.group == group)
            .expect("every kind has its frontier")
    }

    /// Adds the valid pages of a unit to `rows`, which is empty, grouped by page row.
    fn gather_valid(&self, line: u32, unit: u32, rows: &mut VecDeque<RowOfPages>) {
        let state = self.state.borrow();
        let first = unit * self.layout.unit;
        let pages = line * self.layout.line_pages + first;
        for (offset, page) in (first..).zip(pages..pages + self.layout.unit) {
            if !state.lines.is_valid_in(line, page) {
                continue;
            }
            let at = self.layout.place(offset);
            match rows.back_mut() {
                Some(row) if row.row == at.row => {
                    row.planes |= 1 << at.plane;
                    row.pages.push(page);
                }
                _ => {
                    let mut pages = self.jobs.list();
                    pages.push(page);
                    rows.push_back(RowOfPages {
                        unit,
                        row: at.row,
                        planes: 1 << at.plane,
                        pages,
                    });
                }
            }
        }
    }

    /// Marks the line of `copy` as being read, and returns the row, bytes and priority of the read.
    pub(crate) fn begin_copy(&self, copy: &Copying) -> (Row, u32, Priority) {
        let source = &copy.source;
        let row = Row {
            planes: source.planes,
            ..self.row(&self.state.borrow(), copy.line, source.unit, source.row)
        };
        self.begin_reading(copy.line, ReadCause::Gc, row);
        let bytes = copy.source.pages.len() as u32 * self.layout.page_bytes() as u32;
        (row, bytes, Priority::Normal)
    }

    /// As [`Core::end_copy`], where pages of the map must be in memory for it.
    pub(crate) async fn copy_with_map(&self, copy: Copying, result: Result<(), NandError>) {
        let mut names = Vec::new();
        self.read_names(&copy, &mut names);
        self.move_map(&names).await;
        self.queue_row(copy, &names, result);
    }

    /// Queues the pages of a row that has been read for their frontier.
    pub(crate) fn end_copy(&self, copy: Copying, result: Result<(), NandError>) {
        let mut names = self.jobs.names.take();
        self.read_names(&copy, &mut names);
        self.queue_row(copy, &names, result);
        names.clear();
        self.jobs.names.replace(names);
    }

    /// Queues the pages of a row, which the spare area gives `names`.
    fn queue_row(&self, copy: Copying, names: &[(u32, u16)], result: Result<(), NandError>) {
        let (target, moving) = (copy.target, &copy.moving);
        let lost = result == Err(NandError::Uncorrectable);
        let copies = self.queue_copies(&copy.source.pages, names, target, copy.cause, lost);
        if let Some(credits) = &self.credits {
            let (group, pages) = (self.layout.group(copy.line), copy.source.pages.len());
            credits.relocated(&self.sim, group, pages as u32);
        }
        moving.pages.update(|pages| pages + copies);
        if copies > 0 {
            moving.page.set(names.first().map(|&(page, _)| page));
        }
        self.end_reading(copy.line);
        let ready = self.state.borrow().frontiers[target].is_ready(self.layout.unit);
        if ready {
            self.wake(target);
        } else {
            self.unblock_copies(self.layout.group(copy.line));
        }
        moving.reading.update(|reads| reads - 1);
        if moving.reading.get() == 0 {
            self.progress.notify(&self.sim);
        }
        self.jobs.recycle(copy.source.pages);
    }

    /// Adds mapped page and origin that the spare area names for each flash page of `copy`.
    fn read_names(&self, copy: &Copying, names: &mut Vec<(u32, u16)>) {
        let (state, media) = (self.state.borrow(), self.nand.media());
        let name = |&place: &u32| {
            let at = state.flash_page(&self.layout, place);
            let word = media.word(at.block, at.page, at.sector as usize);
            let word = word.expect("a valid page is readable");
            word::parse(&self.layout, word).expect("a valid page has a name")
        };
        names.extend(copy.source.pages.iter().map(name));
    }

    /// Queues copies of the pages that are still valid, and returns their number.
    fn queue_copies(
        &self,
        places: &[u32],
        names: &[(u32, u16)],
        target: usize,
        cause: Cause,
        lost: bool,
    ) -> u32 {
        let mut state = self.state.borrow_mut();
        let group = state.frontiers[target].group;
        let mut outdated = 0;
        for (&place, &(page, tag)) in places.iter().zip(names) {
            if !state.lines.is_valid(place) {
                outdated += 1;
                continue;
            }
            state.map.prefetch(page);
            let slot = state.insert_moved(target, page, place, cause, tag);
            if self.config.flash.keep_contents {
                for sector in 0..self.layout.sectors_per_page {
                    let payload = if lost {
                        Payload::Lost
                    } else {
                        self.flash_sector(&state, place, sector)
                    };
                    state.set_payload(slot, sector as usize, payload);
                }
            }
        }
        drop(state);
        if outdated > 0 {
            self.window[group as usize].put(outdated);
        }
        (places.len() - outdated) as u32
    }

    /// Erases `line` once no valid page, read or earlier program needs it, and frees or retires it.
    pub(crate) async fn reclaim(self: Rc<Self>, line: u32) {
        let needed = |core: &Self| {
            let state = core.state.borrow();
            let entry = &state.lines.lines[line as usize];
            entry.valid > 0 || entry.readers > 0
        };
        while needed(&self) {
            self.progress.wait(&self.sim).await;
        }
        let until = self.state.borrow().in_flight.next();
        self.state.borrow_mut().lines.lines[line as usize].erase_after = until;
        self.give_up_if_stuck();
        self.settle(until).await;
        while needed(&self) {
            self.progress.wait(&self.sim).await;
        }
        if self.read_only.get() {
            return;
        }
        self.drop_copies(line);
        {
            let mut state = self.state.borrow_mut();
            self.forget_superseded(&mut state);
            state.lines.transition(line, LineState::Erasing);
        }
        let whole = self.erase(line).await;
        let group = self.layout.group(line) as usize;
        let mut state = self.state.borrow_mut();
        let next = if whole {
            LineState::Free
        } else {
            LineState::Retired
        };
        state.lines.transition(line, next);
        let entry = &mut state.lines.lines[line as usize];
        entry.erases += 1;
        state.most_erases = state
            .most_erases
            .max(state.lines.lines[line as usize].erases);
        if !whole && self.is_worn_out(&state, group as u32) {
            drop(state);
            self.become_read_only();
            return;
        }
        drop(state);
        self.space.notify(&self.sim);
        self.collect[group].notify(&self.sim);
    }

    /// Drops queued copies of the line's pages: none is valid any more, but they would look valid
    /// once the line is written again.
    fn drop_copies(&self, line: u32) {
        let mut state = self.state.borrow_mut();
        for target in 0..state.frontiers.len() {
            let copies = std::mem::take(&mut state.frontiers[target].copies);
            let mut keep = VecDeque::with_capacity(copies.len());
            for index in copies {
                if self.layout.line_of(state.slots.get(index).old).0 == line {
                    self.free_slot(&mut state, target, index);
                } else {
                    keep.push_back(index);
                }
            }
            let queue = &mut state.frontiers[target];
            queue.pushed = queue.pushed.min(keep.len());
            queue.copies = keep;
        }
    }

    /// Whether a group has lost so many lines that collection may find no line that gains.
    fn is_worn_out(&self, state: &State, group: u32) -> bool {
        let first = (group * self.layout.lines_per_group) as usize;
        let lines = &state.lines.lines[first..first + self.layout.lines_per_group as usize];
        let left = lines.iter().filter(|l| l.state != LineState::Retired);
        let valid: u64 = lines.iter().map(|l| u64::from(l.valid)).sum();
        let room = self.layout.most_valid(&self.config, left.count() as u32);
        valid > room
    }

    /// Erases the blocks of a line on all its dies in parallel. False if a bad block could not be
    /// replaced.
    async fn erase(self: &Rc<Self>, line: u32) -> bool {
        if let Some(ahead) = self.prefetcher() {
            ahead.forget(line);
        }
        let dies: Vec<_> = (0..self.layout.dies_per_group)
            .map(|die| {
                let core = Rc::clone(self);
                self.sim
                    .spawn(async move { core.erase_on_die(line, die).await })
            })
            .collect();
        let mut whole = true;
        for die in dies {
            whole &= die.await;
        }
        whole
    }

    async fn erase_on_die(&self, line: u32, die_in_group: u32) -> bool {
        self.retire_failed(line, die_in_group);
        loop {
            let row = self.row(&self.state.borrow(), line, die_in_group, 0);
            let result = self.nand.erase(row).await;
            if result.is_ok() {
                return true;
            }
            if !self.replace_bad(line, die_in_group) {
                return false;
            }
        }
    }

    /// Retires the blocks of `line` on this die if a program on it failed.
    fn retire_failed(&self, line: u32, die_in_group: u32) {
        let state = self.state.borrow();
        if state.lines.lines[line as usize]
            .dead_dies
            .contains(&die_in_group)
        {
            for block in self.row(&state, line, die_in_group, 0).blocks() {
                self.nand.retire(block);
            }
        }
    }

    /// Replaces the bad blocks of `line` on one die by spares. False if a plane has none left.
    fn replace_bad(&self, line: u32, die_in_group: u32) -> bool {
        let mut state = self.state.borrow_mut();
        let row = self.row(&state, line, die_in_group, 0);
        let first = State::block_index(&self.layout, line, die_in_group);
        for block in row.blocks() {
            if self.nand.media().state(block) != BlockState::Bad {
                continue;
            }
            let plane = row.die * self.layout.geometry.planes + block.plane;
            let Some(spare) = state.spares[plane as usize].pop() else {
                return false;
            };
            state.blocks[first + block.plane as usize] = spare;
        }
        true
    }
}
