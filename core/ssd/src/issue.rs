//! The path from the buffer to flash: units, lines, failed programs.
//!
//! One task for each frontier forms units of the slots that wait there. The *issue* of a unit is
//! one instant: it takes a sequence number, invalidates the older versions and submits the program.
//! The durable point is the completion of that program.

use crate::credits::Credits;
use crate::drive::{Core, IoError};
use crate::fdp::FdpEventKind;
use crate::frontier::Kind;
use crate::jobs::{Unit, Work};
use crate::layout::NONE;
use crate::ledger::Cause;
use crate::line::LineState;
use crate::map::Where;
use crate::recover::word;
use crate::state::{Issue, State};
use nand::{Payload, Program, Ticket};
use std::rc::Rc;

/// Programs that the drive may issue while a line is open: the spare area stores stamps as
/// differences of 32 bits within a block.
pub(crate) const MAX_SPAN: u64 = 1 << 31;

impl Core {
    /// Task that turns the slots of a frontier into programs; ends when the drive turns read-only.
    pub(crate) async fn write_frontier(self: Rc<Self>, frontier: usize) {
        loop {
            while !self.is_ready(frontier) {
                self.work[frontier].wait(&self.sim).await;
            }
            if let Some((credits, group)) = self.credits_of(frontier) {
                credits.wait(&self.sim, group).await;
            }
            let (now, begin) = (self.sim.now(), self.turns.program(self.sim.now()));
            if begin > now {
                self.sim.sleep_until(begin).await;
            }
            if !self.is_ready(frontier) {
                continue;
            }
            if self.open_line(frontier, false).await.is_err() {
                return;
            }
            self.issue_waiting(frontier);
        }
    }

    /// The credits that pace a frontier of the host, and its group; `None` for other frontiers.
    fn credits_of(&self, frontier: usize) -> Option<(&Credits, u32)> {
        let credits = self.credits.as_ref()?;
        let queue = &self.state.borrow().frontiers[frontier];
        matches!(queue.kind, Kind::Host(_)).then_some((credits, queue.group))
    }

    fn is_ready(&self, frontier: usize) -> bool {
        self.state.borrow().frontiers[frontier].is_ready(self.layout.unit)
    }

    /// Wakes the writer of `frontier`, even if it waits for a free line.
    pub(crate) fn wake(&self, frontier: usize) {
        self.work[frontier].notify(&self.sim);
        if self.state.borrow().frontiers[frontier].waits > 0 {
            self.space.notify(&self.sim);
        }
    }

    /// Issues one unit of the waiting slots, if enough of them are still live.
    fn issue_waiting(self: &Rc<Self>, frontier: usize) {
        let mut dead = Vec::new();
        let mut state = self.state.borrow_mut();
        let queue = &state.frontiers[frontier];
        let forced = queue.pushed > 0 || (queue.forced > 0 && !queue.borrowed);
        let line = queue.open;
        let room = state.room(&self.layout, line).expect("the line was opened");
        let mut slots = self.jobs.list();
        state.gather(frontier, room, &mut slots, &mut dead);
        for &slot in &dead {
            self.free_slot(&mut state, frontier, slot);
        }
        let enough = slots.len() == room || forced;
        if !enough {
            // Some slots were dead: wait for more.
            state.put_back(frontier, &slots);
        }
        let group = state.frontiers[frontier].group as usize;
        // The collector counted dead copies as lines that come; it has to look again.
        let starved = !enough && !dead.is_empty() && state.stalled[group] > 0;
        drop(state);
        if !dead.is_empty() {
            self.progress.notify(&self.sim);
        }
        if starved {
            self.collect[group].notify(&self.sim);
        }
        if enough && !slots.is_empty() {
            self.issue(frontier, slots, None);
        } else {
            self.jobs.recycle(slots);
        }
    }

    /// Frees a slot that will not be written, and its room in buffer or window.
    pub(crate) fn free_slot(&self, state: &mut State, frontier: usize, index: u32) {
        let slot = *state.slots.get(index);
        state.slots.release(index);
        if slot.moved {
            let group = state.frontiers[frontier].group;
            self.window[group as usize].put(1);
        } else if slot.cause != Cause::Map as u8 {
            self.buffer.put(1);
        }
    }

    /// Issues `slots` as one unit of the frontier's open line, and starts its program. `first` is
    /// the sequence number of the first try, `None` if this is the first.
    fn issue(self: &Rc<Self>, frontier: usize, slots: Vec<u32>, first: Option<u64>) {
        if let Some((credits, group)) = self.credits_of(frontier) {
            credits.spend(group, slots.len());
        }
        let (issue, ticket) = self.submit(frontier, slots);
        let line = issue.line;
        self.let_run(issue, ticket, first);
        let mut state = self.state.borrow_mut();
        if state.peek_unit(&self.layout, line).is_none() {
            self.close_line(&mut state, frontier);
        }
    }

    /// Starts a submitted program. Programs reach their die in the order of submission.
    fn let_run(&self, issue: Issue, ticket: Ticket, first: Option<u64>) {
        let first = first.unwrap_or(issue.sequence);
        self.start_job(Work::Program {
            issue,
            first,
            ticket: Some(ticket),
        });
    }

    fn submit(&self, frontier: usize, slots: Vec<u32>) -> (Issue, Ticket) {
        let mut state = self.state.borrow_mut();
        let line = state.frontiers[frontier].open;
        let unit = state
            .next_unit(&self.layout, line)
            .expect("the open line has room");
        let sequence = state.in_flight.begin();
        let base = line * self.layout.line_pages + unit * self.layout.unit;
        let mut memory = self.jobs.unit.borrow_mut();
        let Unit { words, payload } = &mut *memory;
        words.clear();
        for (position, &slot) in slots.iter().enumerate() {
            let (place, from) = (base + position as u32, state.slots.get(slot).old);
            state.place_slot(&self.layout, slot, line, place);
            let entry = *state.slots.get(slot);
            if entry.moved && from != NONE {
                self.tell_copied(&state, from, place, state.slots.payload(slot));
            }
            words.push(word::word(&self.layout, entry.page, entry.tag));
            state.ledger.program(entry.cause, entry.tag, 1);
            // Until the program has completed, reads of the slot get the contents from the flash.
            payload.extend(state.slots.take_payload(slot));
        }
        self.book(&mut state, frontier, &slots);
        let data_end = self
            .layout
            .line_data
            .saturating_sub(unit * self.layout.unit);
        self.fill_up(&mut state, words, data_end);
        let ticket = self.program(&state, line, unit, sequence, words, payload);
        state.lines.begin_program(line);
        let issue = Issue {
            frontier,
            line,
            unit,
            sequence,
            slots,
        };
        (issue, ticket)
    }

    /// Counts the pages of a unit for the handle of its frontier. Relocated data of several handles
    /// count for none.
    fn book(&self, state: &mut State, frontier: usize, slots: &[u32]) {
        let apart = self.keeps_apart();
        let queue = &state.frontiers[frontier];
        let handle = match queue.kind {
            Kind::Host(handle) => handle,
            Kind::Moved(handle) if apart => handle,
            Kind::Moved(_) | Kind::Map | Kind::MovedMap | Kind::Journal => return,
        };
        let handle = queue.group * self.layout.handles + handle;
        let booked = |&&slot: &&u32| apart || !state.slots.get(slot).moved;
        let pages = slots.iter().filter(booked).count() as u64;
        state.ledger.handles[handle as usize].media_pages += pages;
    }

    /// Whether data of different handles stay apart when relocated.
    fn keeps_apart(&self) -> bool {
        self.config.placement.persistently_isolated || self.layout.handles == 1
    }

    /// The handle, counted over all groups, through which all data of a frontier were written;
    /// `None` if there is no such single handle.
    pub(crate) fn owner(&self, state: &State, frontier: u16) -> Option<u32> {
        let frontier = &state.frontiers[usize::from(frontier)];
        let handle = match frontier.kind {
            Kind::Host(handle) | Kind::Moved(handle) if self.keeps_apart() => handle,
            Kind::Host(handle) if handle > 0 || self.config.collection.separate => handle,
            _ => return None,
        };
        Some(frontier.group * self.layout.handles + handle)
    }

    /// Completes the words of a unit with padding, or with the summary beyond the line's data.
    fn fill_up(&self, state: &mut State, words: &mut Vec<u32>, data_end: u32) {
        let unit = self.layout.unit as usize;
        for position in words.len()..unit {
            let (mark, cause) = if position < data_end as usize {
                (word::PADDING, Cause::Padding)
            } else {
                (word::SUMMARY, Cause::Summary)
            };
            words.push(mark);
            state.ledger.program(cause as u8, 0, 1);
        }
        let per_page = self.layout.sectors_per_page as usize;
        if per_page > 1 {
            let pages = words.len();
            words.resize(pages * per_page, 0);
            for page in (0..pages).rev() {
                let word = words[page];
                words[page * per_page..][..per_page].fill(word);
            }
        }
    }

    /// Submits one unit to the flash; `payload` is extended with zeros, and empty afterwards.
    pub(crate) fn program(
        &self,
        state: &State,
        line: u32,
        unit: u32,
        sequence: u64,
        words: &[u32],
        payload: &mut Vec<Payload>,
    ) -> Ticket {
        let row = self.row(state, line, unit, self.layout.first_row(unit));
        let frontier = state.lines.lines[line as usize].frontier;
        if !payload.is_empty() {
            payload.resize(words.len(), Payload::Zero);
        }
        let program = Program {
            row,
            stamp: sequence,
            label: word::label(line, frontier),
            words,
            payload,
        };
        let ticket = self.nand.submit_program(program);
        payload.clear();
        ticket.expect("the firmware keeps the rules of the flash")
    }

    /// All planes of a page row of a line's unit.
    #[inline]
    pub(crate) fn row(&self, state: &State, line: u32, unit: u32, page: u32) -> nand::Row {
        let die = self.layout.die_in_group(unit);
        let first_die = self.layout.dies(self.layout.group(line)).start;
        let blocks = state.line_blocks(&self.layout, line, die);
        self.layout.row(first_die + die, blocks, page)
    }

    /// Closes the open line of a frontier. Its remaining units, of padding and summary, are written
    /// at once, unless a program in the line has failed.
    pub(crate) fn close_line(self: &Rc<Self>, state: &mut State, frontier: usize) {
        let line = std::mem::replace(&mut state.frontiers[frontier].open, NONE);
        state.frontiers[frontier].borrowed = false;
        let now = state.in_flight.next();
        let entry = &mut state.lines.lines[line as usize];
        entry.closed = now;
        let whole = entry.dead_dies.is_empty();
        let rest = entry.issued..self.layout.units_per_line;
        state.lines.transition(line, LineState::Closed);
        if whole {
            for unit in rest {
                self.write_summary(state, line, unit, frontier);
            }
        }
    }

    fn write_summary(self: &Rc<Self>, state: &mut State, line: u32, unit: u32, frontier: usize) {
        let sequence = state.in_flight.begin();
        let mut memory = self.jobs.unit.borrow_mut();
        let Unit { words, payload } = &mut *memory;
        words.clear();
        let data = self.layout.line_data;
        let data_end = data.saturating_sub(unit * self.layout.unit);
        self.fill_up(state, words, data_end);
        let ticket = self.program(state, line, unit, sequence, words, payload);
        state.lines.begin_program(line);
        state.lines.lines[line as usize].issued = unit + 1;
        let issue = Issue {
            frontier,
            line,
            unit,
            sequence,
            slots: Vec::new(),
        };
        self.let_run(issue, ticket, None);
    }

    /// Completes a program; its slots are then mapped to flash. A failed unit is issued again
    /// elsewhere instead ([`Core::retry`]). The sequence number of its first try stays under way
    /// until all its data, or newer versions of them, are on flash: until then no version that it
    /// superseded is erased, and no flush ends.
    pub(crate) fn complete(&self, issue: Issue, first: u64) {
        let mut state = self.state.borrow_mut();
        for &index in &issue.slots {
            state.map.prefetch(state.slots.get(index).page);
        }
        let group = state.frontiers[issue.frontier].group;
        let (mut host, mut moved) = (0, 0);
        let hiding = self.front.as_ref().filter(|front| front.hides_lines());
        for &index in &issue.slots {
            let slot = state.slots.get(index);
            moved += usize::from(slot.moved);
            host += usize::from(!slot.moved && slot.cause != Cause::Map as u8);
            if let Some(front) = hiding.filter(|_| !slot.moved) {
                front.written(slot.page, slot.serial);
            }
            state.settle_slot(index);
        }
        state.lines.end_program(issue.line);
        state.in_flight.end(issue.sequence);
        if issue.sequence != first {
            // Pages left out of the retry had been superseded by earlier programs.
            state.in_flight.end_after(first, issue.sequence);
        }
        self.forget_superseded(&mut state);
        drop(state);
        if host > 0 {
            self.buffer.put(host);
        }
        if moved > 0 {
            self.window[group as usize].put(moved);
        }
        self.jobs.recycle(issue.slots);
        self.finished();
    }

    /// Wakes all tasks that wait for the end of a program.
    pub(crate) fn finished(&self) {
        self.progress.notify(&self.sim);
        self.give_up_if_stuck();
        let at_rest = self.state.borrow().in_flight.is_empty();
        for group in 0..self.layout.groups {
            if self.state.borrow().stalled[group as usize] > 0 {
                self.collect[group as usize].notify(&self.sim);
                if at_rest {
                    self.unblock_copies(group);
                }
            }
        }
    }

    /// Issues the data of a failed program again, as far as they are still the newest.
    pub(crate) async fn retry(self: &Rc<Self>, failed: Issue, first: u64) {
        let mut slots = self.take_back(&failed);
        if failed.sequence != first {
            // The first number keeps the versions that this try superseded.
            self.state.borrow_mut().in_flight.end(failed.sequence);
        }
        // A summary, for example, has no slots and needs no line.
        if !slots.is_empty() {
            let frontier = self.shelter(&failed);
            let group = self.layout.group(failed.line) as usize;
            self.state.borrow_mut().retries[group] += 1;
            let room = self.open_room(frontier, slots.len()).await;
            self.state.borrow_mut().retries[group] -= 1;
            if room.is_err() {
                return;
            }
            slots = self.still_newest(failed.frontier, slots);
            if !slots.is_empty() {
                self.issue(frontier, slots, Some(first));
                return;
            }
        }
        let mut state = self.state.borrow_mut();
        let until = state.in_flight.next();
        state.in_flight.end_after(first, until);
        drop(state);
        self.finished();
    }

    /// The frontier that takes the data of a failed program: the one that copies of them would go
    /// to. Its line may come from the reserve, whereas the failed frontier might wait for
    /// collection, which waits for the retry.
    fn shelter(&self, failed: &Issue) -> usize {
        self.target(failed.line)
    }

    /// Undoes the placement of a failed program's slots. Slots without a use are freed; the others
    /// are returned.
    fn take_back(&self, failed: &Issue) -> Vec<u32> {
        let mut state = self.state.borrow_mut();
        let die = self.layout.die_in_group(failed.unit);
        state.lines.end_program(failed.line);
        state.lines.lines[failed.line as usize].dead_dies.push(die);
        for &index in &failed.slots {
            let payload = self.slot_contents(&state, index);
            for (sector, payload) in payload.into_iter().enumerate() {
                state.set_payload(index, sector, payload);
            }
            let place = std::mem::replace(&mut state.slots.get_mut(index).place, NONE);
            state.invalidate(&self.layout, place);
            let successor = state.slots.get(index).successor;
            if successor != NONE && state.slots.get(successor).old == place {
                state.slots.get_mut(successor).old = NONE;
            }
        }
        drop(state);
        self.still_newest(failed.frontier, failed.slots.clone())
    }

    /// Keeps the slots whose page has no newer version issued already, and frees the others. The
    /// slots have no place on flash.
    fn still_newest(&self, frontier: usize, slots: Vec<u32>) -> Vec<u32> {
        let mut state = self.state.borrow_mut();
        let mut keep = Vec::new();
        for index in slots {
            let slot = *state.slots.get(index);
            let newest = match state.map.get(slot.page) {
                Where::Buffer(at) => at == index || state.slots.is_followed_by(&slot, at),
                _ => false,
            };
            if newest {
                keep.push(index);
            } else {
                self.free_slot(&mut state, frontier, index);
            }
        }
        keep
    }

    /// Ensures that a frontier has an open line with room, and waits for collection if no free line
    /// may be taken. `urgent` callers may take lines of the reserve.
    pub(crate) async fn open_line(
        self: &Rc<Self>,
        frontier: usize,
        urgent: bool,
    ) -> Result<(), IoError> {
        loop {
            if self.try_open(frontier, urgent) {
                return Ok(());
            }
            let group = self.state.borrow().frontiers[frontier].group as usize;
            self.count_waiting(frontier, 1);
            self.unblock_copies(group as u32);
            self.collect[group].notify(&self.sim);
            self.give_up_if_stuck();
            if !self.read_only.get() {
                self.space.wait(&self.sim).await;
            }
            self.count_waiting(frontier, -1);
            if self.read_only.get() {
                return Err(IoError::ReadOnly);
            }
        }
    }

    fn count_waiting(&self, frontier: usize, more: i32) {
        let mut state = self.state.borrow_mut();
        let queue = &mut state.frontiers[frontier];
        queue.waits = queue.waits.saturating_add_signed(more);
        let group = queue.group as usize;
        let is_host = matches!(queue.kind, Kind::Host(_));
        state.stalled[group] = state.stalled[group].saturating_add_signed(more);
        if is_host {
            self.count_stall(&mut state, more);
        }
    }

    /// Counts the time during which at least one frontier of the host waits for a line.
    fn count_stall(&self, state: &mut State, more: i32) {
        if state.stalled_hosts == 0 {
            state.stalled_since = self.sim.now();
        }
        state.stalled_hosts = state.stalled_hosts.saturating_add_signed(more);
        if state.stalled_hosts == 0 {
            state.ledger.stall_ns += self.sim.now().since(state.stalled_since).0;
        }
    }

    /// As [`Core::open_line`], urgently, with room for `pages` in its next unit.
    async fn open_room(self: &Rc<Self>, frontier: usize, pages: usize) -> Result<(), IoError> {
        loop {
            self.open_line(frontier, true).await?;
            let mut state = self.state.borrow_mut();
            let line = state.frontiers[frontier].open;
            if state
                .room(&self.layout, line)
                .is_some_and(|room| room >= pages)
            {
                return Ok(());
            }
            self.report_unit(&state, frontier, FdpEventKind::ImplicitlyModified);
            self.close_line(&mut state, frontier);
        }
    }

    fn try_open(self: &Rc<Self>, frontier: usize, urgent: bool) -> bool {
        let mut state = self.state.borrow_mut();
        let queue = &state.frontiers[frontier];
        let (open, kind, group) = (queue.open, queue.kind, queue.group);
        let (borrowed, copies) = (queue.borrowed, queue.has_copies(self.layout.unit));
        if open != NONE {
            let span = state.in_flight.next() - state.lines.lines[open as usize].opened;
            if span < MAX_SPAN && state.peek_unit(&self.layout, open).is_some() {
                return !borrowed || copies || urgent || self.keep_borrowed(&mut state, frontier);
            }
            if state.peek_unit(&self.layout, open).is_some() {
                self.report_unit(&state, frontier, FdpEventKind::ImplicitlyModified);
            }
            self.close_line(&mut state, frontier);
        }
        let movers = state.movers(&self.layout, &self.config, group, Some(kind));
        let reserve = self.layout.reserve_lines(&self.config, movers);
        let kept = match kind {
            Kind::Moved(_) | Kind::MovedMap => 0,
            _ if urgent || copies => 0,
            // The journal frees its old lines once it has a new one.
            Kind::Journal => self.layout.mover_lines(&self.config, movers),
            Kind::Host(_) | Kind::Map => reserve,
        };
        let free = state.lines.free_count(group);
        if free <= kept {
            return false;
        }
        let dynamic = self.config.wear.dynamic;
        let line = state.lines.take_free(group, dynamic).expect("counted");
        let now = state.in_flight.next();
        state.lines.open(line, frontier as u16, now);
        let queue = &mut state.frontiers[frontier];
        queue.open = line;
        queue.borrowed = matches!(kind, Kind::Host(_)) && free <= reserve;
        for other in 0..self.layout.groups {
            if other == group || state.loads[other as usize].is_full {
                state.weigh(&self.layout, &self.config, other);
            }
        }
        drop(state);
        self.collect[group as usize].notify(&self.sim);
        true
    }

    /// Lets new data into a line taken from the reserve if the reserve is whole without it. Returns
    /// whether it does.
    fn keep_borrowed(&self, state: &mut State, frontier: usize) -> bool {
        let (kind, group) = (
            state.frontiers[frontier].kind,
            state.frontiers[frontier].group,
        );
        let movers = state.movers(&self.layout, &self.config, group, Some(kind));
        let reserve = self.layout.reserve_lines(&self.config, movers);
        let whole = state.lines.free_count(group) >= reserve;
        state.frontiers[frontier].borrowed = !whole;
        whole
    }
}
