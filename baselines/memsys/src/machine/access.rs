//! Loads, and the path of a line from memory to the requesting core.

use super::device::Waiter;
use super::{Machine, NO_THREAD};
use crate::cache::Block;
use crate::far::Far;
use crate::hierarchy::{Level, Look};
use crate::op::Program;
use crate::pages::{Sampled, is_far, split};
use crate::tick::Tick;
use crate::tiering::{Promote, Tiering};
use crate::tlb::Translated;
use crate::window::Cause;

/// Observer of the values of loads and stores, thread by thread in program order, as they
/// retire.
///
/// A load returns the last store of its own thread to an address. Of other threads it
/// returns stores from before their last barrier, unless a thread has stored there since.
pub trait Values {
    /// Whether contents are kept; false for a timing-only run.
    const KEPT: bool;
    /// `thread` stored `bytes` at `at`.
    fn stored(&mut self, thread: u32, at: u64, bytes: &[u8]);
    /// `thread` loaded `bytes` from `at`.
    fn loaded(&mut self, thread: u32, at: u64, bytes: &[u8]);
}

/// Observer of a timing-only run: no contents are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeOnly;

impl Values for TimeOnly {
    const KEPT: bool = false;
    fn stored(&mut self, _: u32, _: u64, _: &[u8]) {}
    fn loaded(&mut self, _: u32, _: u64, _: &[u8]) {}
}

/// Bytes that operation number `place` of `thread` writes if it is a store, truncated to
/// its size by the caller.
#[must_use]
pub fn stored_value(thread: u32, place: u64) -> [u8; 64] {
    let mut state = (place << 20 ^ u64::from(thread)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut bytes = [0; 64];
    for word in bytes.chunks_exact_mut(8) {
        state = (state ^ state >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word.copy_from_slice(&state.to_le_bytes());
    }
    bytes
}

/// Outcome of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// The data are there at this time.
    Known(Tick, Cause),
    /// The arrival of the data is not known yet.
    Waits,
    /// They take long, and that is known at this time.
    Delayed(Tick),
    /// It must be asked again at this time; never, if something must end first.
    Full(Tick),
    /// It must be asked again when the device has taken in writes that it refused.
    NoRoom,
}

/// The bytes of an access that lie in one line: where in the line, where in the
/// access, how many.
pub(super) fn part_of(at: u64, size: u8, part: u8) -> (u64, usize, usize, usize) {
    let first = 64 - at % 64;
    if part == 0 {
        let length = first.min(u64::from(size)) as usize;
        (at, (at % 64) as usize, 0, length)
    } else {
        (
            at + first,
            0,
            first as usize,
            size as usize - first as usize,
        )
    }
}

impl<F: Far, P: Program, W: Values, M: Promote> Machine<'_, F, P, W, M> {
    /// Issues operation `number` of `core`: translates its addresses, then requests its lines.
    pub(super) fn issue(&mut self, core: usize, number: u64, now: Tick) {
        let op = *self.cores[core].window.op(number);
        debug_assert!(
            op.parts != 0,
            "it waits in one place, and only while it has to ask"
        );
        if !op.translated {
            self.cores[core].window.op_mut(number).translated = true;
            let mut ready = self.translate(core, op.at, now);
            let last = op.at + u64::from(op.size) - 1;
            if self.pages.page_of(last) != self.pages.page_of(op.at) {
                ready = ready.max(self.translate(core, last, now));
            }
            if ready > now {
                self.cores[core].window.issues.push(ready, number);
                return;
            }
        }
        if op.store {
            self.issue_store(core, number, now);
        } else if !self.forward(core, number, now) {
            self.issue_load(core, number, now);
        }
    }

    fn issue_load(&mut self, core: usize, number: u64, now: Tick) {
        let op = *self.cores[core].window.op(number);
        if op.roomless {
            self.cores[core].window.waits_for_room(number, now);
        }
        for part in 0..2 {
            if op.parts & 1 << part == 0 {
                continue;
            }
            let (at, offset, start, length) = part_of(op.at, op.size, part);
            let access = self.access(core, at, false, now, Waiter::Load(number, part));
            let op = self.cores[core].window.op_mut(number);
            match access {
                Access::Known(done, cause) => {
                    op.parts &= !(1 << part);
                    if done >= op.so_far {
                        (op.so_far, op.cause) = (done, cause);
                    }
                    if W::KEPT {
                        let line = self.pages.line_of(at);
                        let bytes = self.caches.data(line).copied();
                        self.take_value(core, number, start, bytes, offset, length);
                    }
                }
                Access::Waits => {
                    op.parts &= !(1 << part);
                    op.waits += 1;
                }
                Access::Delayed(time) => {
                    op.parts &= !(1 << part);
                    op.waits += 1;
                    self.delay(core, number, time);
                }
                Access::Full(time) => {
                    let one = &mut self.cores[core];
                    one.window.waiting.push_back(number);
                    one.retry = one.retry.min(time);
                    return;
                }
                Access::NoRoom => {
                    let window = &mut self.cores[core].window;
                    window.waits_for_room(number, now);
                    window.waiting.push_back(number);
                    return;
                }
            }
        }
        self.complete(core, number, now);
    }

    /// Lets the first ask again that waits for a register. It stays the first if there
    /// is none; if there was one, the next asks at once.
    pub(super) fn retry(&mut self, core: usize, now: Tick) {
        self.cores[core].retry = Tick::NEVER;
        let Some(&number) = self.cores[core].window.waiting.front() else {
            return;
        };
        if let Some(room) = self.full_for(core, number, now) {
            self.cores[core].retry = room;
            return;
        }
        self.cores[core].window.waiting.pop_front();
        self.issue(core, number, now);
        let waiting = &mut self.cores[core].window.waiting;
        if waiting.back() == Some(&number) {
            waiting.rotate_right(1);
        } else if let Some(&next) = waiting.front() {
            self.cores[core].retry = self.full_for(core, next, now).unwrap_or(now);
            let one = &self.cores[core];
            if one.window.drain_full
                && one.drain <= now
                && let Some(at) = one.window.stores.front().map(|oldest| oldest.at)
                && let Some(room) = self.full_at(core, at, now)
            {
                // The register that the oldest store waited for has been taken.
                self.cores[core].window.drain_from = room;
                self.next_drain(core);
            }
        }
    }

    /// Time at which operation `number` can get an MSHR; `None` if one may be free now, or if the
    /// operation needs other than exactly its first line.
    fn full_for(&mut self, core: usize, number: u64, now: Tick) -> Option<Tick> {
        let op = self.cores[core].window.op(number);
        if op.parts != 1 {
            return None;
        }
        let at = op.at;
        self.full_at(core, at, now)
    }

    /// Like [`Self::full_for`], for the line of the virtual address `at`.
    #[inline]
    pub(super) fn full_at(&mut self, core: usize, at: u64, now: Tick) -> Option<Tick> {
        let pages = &self.pages;
        let room = self.caches.full(core, || pages.line_of(at), now)?;
        (!self.is_asked(self.pages.line_of(at))).then_some(room)
    }

    /// Stores loaded bytes into the value of operation `number`, where values are kept.
    pub(super) fn take_value(
        &mut self,
        core: usize,
        number: u64,
        start: usize,
        line: Option<Block>,
        offset: usize,
        length: usize,
    ) {
        let line = line.unwrap_or([0; 64]);
        if let Some(value) = self.cores[core].window.value(number) {
            value[start..start + length].copy_from_slice(&line[offset..offset + length]);
        }
    }

    /// Completes an operation if it waits for nothing more, and wakes its dependents.
    pub(super) fn complete(&mut self, core: usize, number: u64, now: Tick) {
        let window = &mut self.cores[core].window;
        let op = window.op_mut(number);
        if op.parts == 0 && op.waits == 0 && op.done == Tick::NEVER {
            op.done = op.so_far;
            let ready = op.done.max(now);
            window.wake(number, ready);
            self.learn(core);
        }
    }

    /// Records a delay hint, received at `time`, for an operation that has not retired.
    pub(super) fn delay(&mut self, core: usize, number: u64, time: Tick) {
        self.counts.hints += 1;
        let op = self.cores[core].window.op_mut(number);
        if op.delayed == Tick::NEVER {
            op.delayed = time;
            op.cause = Cause::Flash;
            self.learn(core);
        }
    }

    /// Retires operations of a core with known completion, reports their values, and plans the
    /// core's next step if it was blocked.
    pub(super) fn learn(&mut self, core: usize) {
        let one = &mut self.cores[core];
        let before = one.window.known;
        one.fault = one.window.advance();
        if W::KEPT && one.thread != NO_THREAD {
            for number in before..one.window.known {
                let op = *one.window.op(number);
                let size = op.size as usize;
                if op.store {
                    let value = stored_value(one.thread, op.place);
                    self.values.stored(one.thread, op.at, &value[..size]);
                } else if let Some(value) = one.window.value(number) {
                    self.values.loaded(one.thread, op.at, &value[..size]);
                }
            }
        }
        if one.window.known != before {
            one.news = true;
        }
        self.next_drain(core);
        // The running core plans at the end of its step.
        if core != self.running {
            if self.cores[core].plan == super::plan::Plan::Blocked {
                self.plan(core);
            }
            self.refresh(core);
        }
    }

    /// Time at which the translation of `at` is available; walks the page table if both TLB
    /// levels miss.
    #[inline]
    fn translate(&mut self, core: usize, at: u64, now: Tick) -> Tick {
        let page = self.pages.page_of(at);
        match self.cores[core].tlb.look(page) {
            Translated::First(ready) => ready.max(now),
            Translated::Second(ready) => {
                self.counts.first_tlb_misses += 1;
                ready.max(now + self.times.second_tlb)
            }
            Translated::Nowhere => {
                self.counts.first_tlb_misses += 1;
                let ready = self.walk(core, page, now + self.times.second_tlb);
                self.cores[core].tlb.walks(page, ready);
                ready
            }
        }
    }

    /// Reads the tables. The levels above the last are taken to be at hand, as in the
    /// caches that walkers have for them.
    fn walk(&mut self, core: usize, page: u64, now: Tick) -> Tick {
        self.counts.walks += 1;
        let line = self.pages.table_line(page);
        self.caches.asker = 0;
        let done = match self.caches.look(core, line, false, now) {
            Look::Hit(done, _) => done,
            Look::Full(_) => self.host_read(core, line, now).0,
            Look::Miss(leaves) => {
                self.caches.counts.llc_misses -= 1;
                self.counts.walk_misses += 1;
                let (done, data) = self.host_read(core, line, leaves);
                self.caches.miss_until(core, done);
                self.caches.fill(core, line, (false, false), done, &data);
                self.send_out(leaves);
                done
            }
        };
        let sampled = self.pages.reference(page);
        if sampled == Sampled::No {
            return done;
        }
        let Tiering::Sampled(_, sampling) = self.config.tiering else {
            return done;
        };
        let fault = Tick::of(sampling.fault);
        self.cores[core].window.spend(fault, Cause::Kernel);
        if sampled == Sampled::Again {
            self.want(page, now);
        }
        done + fault
    }

    /// Asks for the line of the virtual address `at`.
    #[inline]
    pub(super) fn access(
        &mut self,
        core: usize,
        at: u64,
        own: bool,
        now: Tick,
        waiter: Waiter,
    ) -> Access {
        let line = self.pages.line_of(at);
        self.caches.asker = waiter.asker();
        match self.caches.look(core, line, own, now) {
            Look::Hit(done, level) => {
                if level == Level::Last {
                    self.look_ahead(core, line, now);
                }
                Access::Known(done, Cause::Cache)
            }
            Look::Full(room) => match self.join(core, line, waiter) {
                Some(access) => access,
                None => Access::Full(room),
            },
            Look::Miss(leaves) => {
                self.pages.touch(at);
                let access = self.bring(core, line, own, leaves, waiter);
                if !matches!(access, Access::Known(..)) {
                    // It is a miss once its line comes: until then it may join another, be
                    // given up, or have to ask again.
                    self.caches.uncount_miss(own);
                }
                self.look_ahead(core, line, now);
                access
            }
        }
    }

    /// Brings a line that no cache has.
    fn bring(&mut self, core: usize, line: u64, own: bool, leaves: Tick, waiter: Waiter) -> Access {
        if is_far(line) {
            return self.bring_far(core, line, own, leaves, waiter);
        }
        self.pages.used(line);
        let (done, data) = self.host_read(core, line, leaves);
        self.host.add(done - leaves, Tick::ZERO);
        self.known(core, line, own, done, &data, leaves);
        Access::Known(done, Cause::Host)
    }

    /// Fills a line of which it is known when it comes.
    pub(super) fn known(
        &mut self,
        core: usize,
        line: u64,
        own: bool,
        done: Tick,
        data: &Block,
        now: Tick,
    ) {
        self.caches.miss_until(core, done);
        self.caches.fill(core, line, (own, false), done, data);
        self.send_out(now);
    }

    /// Reads a line of the host's DRAM; returns its arrival time and its contents.
    pub(super) fn host_read(&mut self, core: usize, line: u64, now: Tick) -> (Tick, Block) {
        let (node, at) = split(line);
        let mut done = self.drams[node as usize].access(now, at).done;
        if self.cores[core].node != node {
            done += self.times.away;
        }
        (done, self.host_data(line))
    }

    pub(super) fn host_data(&self, line: u64) -> Block {
        if !W::KEPT {
            return [0; 64];
        }
        self.memory.get(&line).copied().unwrap_or([0; 64])
    }

    /// Writes a line of the host's DRAM; no operation waits for it.
    pub(super) fn host_write(&mut self, line: u64, data: &Block, now: Tick) {
        let (node, at) = split(line);
        self.drams[node as usize].access(now, at);
        self.host_keep(line, data);
        self.pages.mark_dirty(line);
    }

    pub(super) fn host_keep(&mut self, line: u64, data: &Block) {
        if W::KEPT {
            self.memory.insert(line, *data);
        }
    }
}
