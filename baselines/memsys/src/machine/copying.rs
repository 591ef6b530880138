//! Promotion look-aside buffer: copies pages to the host, line by line.
//!
//! Lines are requested in order, so one number replaces the buffer's bitmaps: lines below `sent`
//! have been requested. For a page of 2 MiB, `sent / 64` is the number of chunks that the first
//! level of bitmaps marks, and `sent % 64` the number of lines of the next chunk that the second
//! level marks. All lines of a chunk of 4 KiB come from one flash page. If one of them is not in
//! the device's memory, the whole chunk is left for later and the next one begins. Once its page
//! has arrived, the rest of the chunk goes first, because the page may be evicted again. A write
//! to a line below `sent` goes to the host's copy, which is then newer; other writes go to the
//! device and are copied later. The device serves reads, except of lines with a newer copy.

use super::device::Purpose;
use super::{Action, Machine, Values};
use crate::cache::Block;
use crate::far::{Far, ReadReply, Tag};
use crate::link::{Ndr, Response};
use crate::op::Program;
use crate::pages::is_far;
use crate::tick::Tick;
use crate::tiering::Promote;
use std::collections::VecDeque;

/// Number of counters of copies, hashed by page; a zero counter skips the search for a copy.
pub(super) const NEAR: usize = 1_024;

/// One entry of the buffer.
#[derive(Clone, Debug)]
pub(super) struct Copying {
    /// Virtual page that moves; `None` for a fetch of the page cache.
    pub(super) page: Option<u64>,
    /// First line on the device, and first line in the host.
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) lines: u64,
    sent: u64,
    arrived: u64,
    last: Tick,
    /// Next line of each postponed chunk that has arrived in the device's memory.
    here: VecDeque<u64>,
    /// Line of each postponed chunk that is requested again once all chunks have begun.
    left: VecDeque<u64>,
    /// Earliest time of the next request.
    from_then: Tick,
    /// Whether the next request is scheduled; at most one is.
    asks: bool,
    /// Lines with a copy newer than the device's data, one bit each.
    pub(super) newer: Vec<u64>,
}

impl Copying {
    fn is_newer(&self, index: u64) -> bool {
        self.newer[(index / 64) as usize] & 1 << (index % 64) != 0
    }

    pub(super) fn mark_newer(&mut self, index: u64) {
        self.newer[(index / 64) as usize] |= 1 << (index % 64);
    }

    /// Index of the next line to request: of arrived chunks first, then new ones, then postponed.
    fn next(&mut self) -> Option<u64> {
        let begins = (self.sent < self.lines).then_some(self.sent);
        let here = self.here.pop_front().or(begins);
        here.or_else(|| self.left.pop_front())
    }

    /// Requests the rest of the chunk of line `index` next.
    fn go_on(&mut self, index: u64) {
        if index % 64 != 63 {
            self.here.push_front(index + 1);
        }
    }
}

/// Next step of a copy after a line was requested.
enum Then {
    /// The line arrives at a known time, and the next one can be requested.
    Next,
    /// The line arrives at an unknown time; its chunk waits for it.
    Comes,
    /// The line must be requested again, and no line before this time.
    At(Tick),
}

impl<F: Far, P: Program, W: Values, M: Promote> Machine<'_, F, P, W, M> {
    /// Begins a copy of `lines` lines from device line `from` to host line `to`.
    //= skybyte 3.3
    pub(super) fn copy(&mut self, page: Option<u64>, from: u64, to: u64, lines: u64, now: Tick) {
        let entry = Copying {
            page,
            from,
            to,
            lines,
            sent: 0,
            arrived: 0,
            last: now,
            here: VecDeque::new(),
            left: VecDeque::new(),
            from_then: now,
            asks: false,
            newer: vec![0; (lines / 64) as usize],
        };
        let slot = match self.copies.iter().position(Option::is_none) {
            Some(slot) => {
                self.copies[slot] = Some(entry);
                slot
            }
            None => {
                self.copies.push(Some(entry));
                self.copies.len() - 1
            }
        };
        self.copying.push((from, slot as u16));
        let bucket = self.copy_bucket(from);
        self.copies_near[bucket] += 1;
        self.copy_next(slot as u16, now);
    }

    /// Schedules the next request of a copy, no earlier than `now`, if lines are left.
    fn copy_next(&mut self, slot: u16, now: Tick) {
        let Some(entry) = &mut self.copies[slot as usize] else {
            return;
        };
        let waits = entry.here.len() + entry.left.len();
        if (entry.sent < entry.lines || waits > 0) && !std::mem::replace(&mut entry.asks, true) {
            let time = now.max(entry.from_then);
            self.later(time, Action::Copy(slot));
        }
    }

    /// Index of the counter of copies near a line of the device.
    #[inline]
    fn copy_bucket(&self, line: u64) -> usize {
        (line / 64 / self.pages.chunks()) as usize % NEAR
    }

    /// Copy that contains a line of the device, and the line's index in it.
    #[inline]
    fn copy_of(&self, line: u64) -> Option<(u16, u64)> {
        if self.copies_near[self.copy_bucket(line)] == 0 {
            return None;
        }
        self.copying.iter().find_map(|&(from, slot)| {
            let entry = self.copies[slot as usize].as_ref()?;
            let index = line.checked_sub(from)?;
            (index < entry.lines).then_some((slot, index))
        })
    }

    /// Whether a copy of the page that begins at a line is under way.
    pub(super) fn is_copied(&self, from: u64) -> bool {
        self.copies_near[self.copy_bucket(from)] != 0
            && self.copying.iter().any(|copy| copy.0 == from)
    }

    /// Host line that holds a newer copy of a line of the device, if any.
    pub(super) fn newer_copy(&self, line: u64) -> Option<u64> {
        let (slot, index) = self.copy_of(line)?;
        let entry = self.copies[slot as usize].as_ref()?;
        (entry.page.is_some() && entry.is_newer(index)).then_some(entry.to + index)
    }

    /// Redirects a write to the host's copy, if the line has been copied or is cached there;
    /// returns whether it did. A write that is not `fresh` has waited, so it does not overwrite a
    /// newer copy.
    pub(super) fn redirect(&mut self, line: u64, data: &Block, now: Tick, fresh: bool) -> bool {
        if self.write_cached(line, data, now, fresh) {
            return true;
        }
        let Some((slot, index)) = self.copy_of(line) else {
            return false;
        };
        let Some(entry) = &mut self.copies[slot as usize] else {
            return false;
        };
        if index >= entry.sent {
            return false;
        }
        if fresh || !entry.is_newer(index) {
            entry.mark_newer(index);
            self.counts.redirected_writes += 1;
            self.store_copy(slot, index, data, now);
        }
        true
    }

    /// Writes a line of a copy to the host's DRAM.
    fn store_copy(&mut self, slot: u16, index: u64, data: &Block, now: Tick) {
        let Some(entry) = &self.copies[slot as usize] else {
            return;
        };
        let to = entry.to + index;
        if is_far(to) {
            self.write_page_cache(to, data, now);
        } else {
            self.host_write(to, data, now);
        }
    }

    /// Requests the next line of a copy, and schedules the request after it.
    pub(super) fn copy_line(&mut self, now: Tick, slot: u16) {
        let Some(entry) = &mut self.copies[slot as usize] else {
            return;
        };
        entry.asks = false;
        let Some(index) = entry.next() else {
            return;
        };
        let line = entry.from + index;
        // For the page cache, an access waits for the copy.
        let demanded = entry.page.is_none();
        let then = self.ask_for_copy(slot, index, line, demanded, now);
        if let Some(entry) = &mut self.copies[slot as usize] {
            let from = entry.sent;
            entry.sent = match then {
                Then::Next => from.max(index + 1),
                Then::Comes | Then::At(_) => from.max((index / 64 + 1) * 64),
            };
            match then {
                // The rest of a chunk that was postponed.
                Then::Next if index < from => entry.go_on(index),
                Then::Next | Then::Comes => {}
                Then::At(time) => {
                    entry.left.push_back(index);
                    entry.from_then = time;
                }
            }
        }
        self.copy_next(slot, now + self.link.data_span());
    }

    fn ask_for_copy(
        &mut self,
        slot: u16,
        index: u64,
        line: u64,
        demanded: bool,
        now: Tick,
    ) -> Then {
        if let Some(data) = self.posted.last_of(line).map(|post| post.data) {
            if let Some(entry) = &mut self.copies[slot as usize] {
                entry.mark_newer(index);
            }
            self.store_copy(slot, index, &data, now);
            self.copy_in(slot, now);
            return Then::Next;
        }
        let again = Tick::of(self.config.os.ask_again);
        let Some(tag) = self.requests.take(Purpose::Copy(slot, index), line) else {
            return Then::At(now + again);
        };
        self.counts.copy_reads += 1;
        let read = if demanded { F::read } else { F::copy_read };
        match self.ask_by(line, tag, now, read).1 {
            ReadReply::Data(time, data) => {
                self.requests.give(tag);
                let there = self.link.up(Tick::of(time), Response::MemData(Tag(tag)));
                self.copy_comes(there, slot, index, &data.unwrap_or([0; 64]));
                Then::Next
            }
            ReadReply::Waits => Then::Comes,
            ReadReply::Delay(time) => {
                self.requests.give(tag);
                let hint = Response::NoData(Ndr::SkyByteDelay, Tag(tag));
                Then::At(self.link.up(Tick::of(time), hint) + again)
            }
        }
    }

    /// Schedules the arrival of a line at a known time. Its contents are stored at once, as no
    /// access reads them before; the DRAM access takes place at the arrival.
    fn copy_comes(&mut self, there: Tick, slot: u16, index: u64, data: &Block) {
        if let Some(to) = self.copy_place(slot, index) {
            self.host_keep(to, data);
        }
        self.later(there, Action::Copied(slot, index));
    }

    /// Completes a line of a copy that had a known arrival time.
    pub(super) fn copy_is_there(&mut self, now: Tick, slot: u16, index: u64) {
        let place = self.copy_place(slot, index);
        let data = place.map_or([0; 64], |to| self.host_data(to));
        self.copy_arrived(now, slot, index, &data);
    }

    /// Host line for a line of a copy, unless a newer one was written there.
    fn copy_place(&self, slot: u16, index: u64) -> Option<u64> {
        let entry = self.copies[slot as usize].as_ref()?;
        (!entry.is_newer(index)).then_some(entry.to + index)
    }

    /// Completes a line that the device had to fetch from flash; the rest of its chunk is now in
    /// the device's memory and is requested next.
    pub(super) fn copy_came(&mut self, now: Tick, slot: u16, index: u64, data: &Block) {
        if let Some(entry) = &mut self.copies[slot as usize] {
            entry.go_on(index);
        }
        self.copy_arrived(now, slot, index, data);
        self.copy_next(slot, now);
    }

    /// A line has come, unless a newer one was written meanwhile.
    fn copy_arrived(&mut self, now: Tick, slot: u16, index: u64, data: &Block) {
        if self.copy_place(slot, index).is_some() {
            self.store_copy(slot, index, data, now);
        }
        self.copy_in(slot, now);
    }

    fn copy_in(&mut self, slot: u16, time: Tick) {
        if let Some(entry) = &mut self.copies[slot as usize] {
            entry.arrived += 1;
            entry.last = entry.last.max(time);
            if entry.arrived == entry.lines {
                let last = entry.last;
                self.later(last, Action::Finish(slot));
            }
        }
    }

    /// All lines of a copy have come.
    pub(super) fn copied(&mut self, now: Tick, slot: u16) {
        let Some(entry) = &self.copies[slot as usize] else {
            return;
        };
        match entry.page {
            Some(page) => self.moved(now, slot, page),
            None => self.fetched(now, slot),
        }
        for core in 0..self.cores.len() {
            self.unstall(core, now);
        }
    }

    /// Takes a copy out of the buffer.
    pub(super) fn end_copy(&mut self, slot: u16) -> Option<Copying> {
        let entry = self.copies[slot as usize].take()?;
        self.copying.retain(|copy| copy.1 != slot);
        let bucket = self.copy_bucket(entry.from);
        self.copies_near[bucket] -= 1;
        Some(entry)
    }
}
