//! Work in flight in a core: a window of instructions and a store buffer.
//!
//! Instructions start and retire in order, at the core's width. Instructions between memory
//! operations affect no shared state. So instruction `i` starts at `lag + i · slot`, where `lag`
//! grows only by stalls, and all instructions up to `i` have retired by `retired + i · slot`.
//! Instruction `i` starts no earlier than instruction `i - window` has retired. The window stores
//! only memory operations; times of other instructions follow by arithmetic.
//!
//! Invariants: `popped <= known <= tail`. The completion times of operations below `known` are
//! known. Every growth of `lag` is charged to a cause, so the causes and the slots of
//! instructions add up to the core's time. While an operation has a line to request, it is in
//! exactly one of `issues`, `waiting` and `stalled`, or waits for another operation's result.

use crate::issues::Issues;
use crate::tick::Tick;
use std::collections::VecDeque;

/// Cause of core time spent on anything but the slots of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Waiting for data from the caches.
    Cache,
    /// Waiting for data from the host's DRAM.
    Host,
    /// Waiting for data that the device served without flash.
    Device,
    /// Waiting for data that the device read from flash.
    Flash,
    /// Waiting for room in the store buffer.
    Stores,
    /// Waiting for the device to accept writes: the host holds its maximum of refused writes,
    /// so a load cannot be issued.
    Room,
    /// Fences, and barriers between threads.
    Order,
    /// Context switches of threads.
    Switch,
    /// Interrupts: pages that move, translations that end.
    Kernel,
    /// Idle: no thread to run.
    Idle,
}

/// Number of variants of [`Cause`].
pub const CAUSES: usize = 10;

/// A memory operation in the window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemOp {
    /// Number of the instruction on its core.
    pub(crate) index: u64,
    pub(crate) at: u64,
    /// Number of the operation in its thread.
    pub(crate) place: u64,
    /// Time at which its result is available; [`Tick::NEVER`] while unknown.
    pub(crate) done: Tick,
    /// Latest arrival among its lines so far; once retired, the window's `retired` up to it.
    pub(crate) so_far: Tick,
    /// Time at which its delay hint arrives; [`Tick::NEVER`] without a hint.
    pub(crate) delayed: Tick,
    /// Head of the list of operations that depend on its result, and its successor in the list
    /// of the operation that it depends on.
    first_dependent: Short,
    next_dependent: Short,
    /// Its entry of the buffer, if it is a store.
    pending: u32,
    pub(crate) size: u8,
    pub(crate) store: bool,
    pub(crate) translated: bool,
    /// Whether it waited, until the time in `rooms`, because the host held its maximum of refused
    /// writes. Cleared if an older operation retires later and so hides the wait.
    pub(crate) roomless: bool,
    /// Lines not requested yet, one bit each.
    pub(crate) parts: u8,
    /// Lines requested that have no known arrival time, one bit each.
    pub(crate) waits: u8,
    pub(crate) cause: Cause,
}

const _: () = assert!(size_of::<MemOp>() == 64, "a line of the simulating machine");

/// Index of an operation in the ring, or [`NOBODY`] for none.
type Short = u16;
const NOBODY: Short = Short::MAX;

/// Entry of the store buffer: a store or a flush.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    /// Number of the store's own operation in the window; for a flush, number of the operation
    /// that follows it.
    pub(crate) op: u64,
    /// Number of the instruction on its core.
    pub(crate) index: u64,
    pub(crate) thread: u32,
    pub(crate) place: u64,
    pub(crate) at: u64,
    pub(crate) size: u8,
    pub(crate) flush: bool,
    /// Time at which it retires; [`Tick::NEVER`] while unknown.
    pub(crate) retired: Tick,
    pub(crate) parts: u8,
    /// Time of its start, or of the latest arrival of one of its lines.
    pub(crate) done: Tick,
    /// Whether it waits for a line with an unknown arrival time.
    pub(crate) waits: bool,
    /// Numbers, plus one, of the previous entries in the buckets of its first and last line.
    before: [u64; 2],
}

impl Pending {
    /// A store of `size` bytes at `at`, or a flush there, that is started at `now`.
    pub(crate) fn new(
        thread: u32,
        place: u64,
        (at, size): (u64, u8),
        flush: bool,
        now: Tick,
    ) -> Self {
        Self {
            op: 0,
            index: 0,
            thread,
            place,
            at,
            size,
            flush,
            retired: Tick::NEVER,
            parts: parts(at, size),
            done: now,
            waits: false,
            before: [0; 2],
        }
    }

    /// Buckets of the first and the last line.
    fn buckets(&self) -> (usize, usize) {
        let last = (self.at + u64::from(self.size) - 1) / 64;
        (filter(self.at / 64), filter(last))
    }
}

/// Mask of the lines that `size` bytes at `at` touch: 1 for one line, 3 for two.
fn parts(at: u64, size: u8) -> u8 {
    if at / 64 == (at + u64::from(size) - 1) / 64 {
        1
    } else {
        3
    }
}

/// Whether two ranges of addresses and sizes overlap.
pub(crate) fn overlap(a: u64, a_size: u8, b: u64, b_size: u8) -> bool {
    a < b + u64::from(b_size) && b < a + u64::from(a_size)
}

pub(crate) struct Window {
    ops: Vec<MemOp>,
    mask: u64,
    size: u64,
    pub(crate) slot: Tick,
    pub(crate) lag: Tick,
    pub(crate) spent: [Tick; CAUSES],
    /// Number of the next instruction.
    pub(crate) index: u64,
    pub(crate) popped: u64,
    pub(crate) known: u64,
    pub(crate) tail: u64,
    /// Number of the first operation of the running thread.
    pub(crate) first: u64,
    retired: Tick,
    retired_cause: Cause,
    /// `retired` of the operations that have left the window.
    popped_retired: Tick,
    popped_cause: Cause,
    /// Time until which one of those operations waited for the device to accept writes.
    popped_room: Tick,
    /// For each operation with `roomless`: time until which it waited, by its place in the ring.
    rooms: Vec<Tick>,
    pub(crate) squashed: u64,
    /// Operations to be issued at a known time.
    pub(crate) issues: Issues,
    /// Operations that wait for an MSHR, in order of their wait.
    pub(crate) waiting: VecDeque<u64>,
    /// Operations that wait for an older store.
    pub(crate) stalled: Vec<u64>,
    pub(crate) stores: VecDeque<Pending>,
    /// Number of the oldest entry of `stores`.
    oldest_store: u64,
    pub(crate) store_limit: usize,
    /// Times at which stores already written to the cache leave the buffer.
    pub(crate) releases: VecDeque<Tick>,
    pub(crate) last_release: Tick,
    /// Earliest time at which the next store may be written to the cache.
    pub(crate) drain_from: Tick,
    /// Whether `drain_from` is the time at which the oldest store gets an MSHR.
    pub(crate) drain_full: bool,
    /// Number, plus one, of the youngest store in each bucket of lines; [`Pending`] links to
    /// older ones.
    lines: [u64; 256],
    /// Flushes in the buffer that have not retired.
    flushes: usize,
    pub(crate) values: Vec<[u8; 64]>,
}

/// Whether, and when, the next instruction can start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    At(Tick, Cause),
    /// Something older must become known first.
    Blocked,
}

fn filter(line: u64) -> usize {
    (line ^ line >> 8) as usize & 255
}

impl Window {
    pub(crate) fn new(size: u64, slot: Tick, store_limit: u64, payloads: bool) -> Self {
        let ring = size.next_power_of_two().max(64) as usize;
        let nothing = MemOp {
            index: 0,
            at: 0,
            place: 0,
            done: Tick::ZERO,
            so_far: Tick::ZERO,
            delayed: Tick::NEVER,
            first_dependent: NOBODY,
            next_dependent: NOBODY,
            pending: 0,
            size: 0,
            store: false,
            translated: false,
            roomless: false,
            parts: 0,
            waits: 0,
            cause: Cause::Cache,
        };
        Self {
            ops: vec![nothing; ring],
            mask: ring as u64 - 1,
            size,
            slot,
            lag: Tick::ZERO,
            spent: [Tick::ZERO; CAUSES],
            index: 0,
            popped: 0,
            known: 0,
            tail: 0,
            first: 0,
            retired: Tick::ZERO,
            retired_cause: Cause::Cache,
            popped_retired: Tick::ZERO,
            popped_cause: Cause::Cache,
            popped_room: Tick::ZERO,
            rooms: vec![Tick::ZERO; ring],
            squashed: 0,
            issues: Issues::with_capacity(ring),
            waiting: VecDeque::with_capacity(ring),
            stalled: Vec::with_capacity(ring),
            stores: VecDeque::with_capacity(store_limit as usize + 1),
            oldest_store: 0,
            store_limit: store_limit as usize,
            releases: VecDeque::with_capacity(store_limit as usize + 1),
            last_release: Tick::ZERO,
            drain_from: Tick::ZERO,
            drain_full: false,
            lines: [0; 256],
            flushes: 0,
            values: vec![[0; 64]; if payloads { ring } else { 0 }],
        }
    }

    #[inline]
    pub(crate) fn op(&self, number: u64) -> &MemOp {
        &self.ops[(number & self.mask) as usize]
    }

    #[inline]
    pub(crate) fn op_mut(&mut self, number: u64) -> &mut MemOp {
        &mut self.ops[(number & self.mask) as usize]
    }

    /// Storage for the value of an operation, if values are kept.
    pub(crate) fn value(&mut self, number: u64) -> Option<&mut [u8; 64]> {
        self.values.get_mut((number & self.mask) as usize)
    }

    /// Start time of the next instruction if nothing delays it further.
    #[inline]
    pub(crate) fn time(&self) -> Tick {
        self.lag + self.slot.times(self.index)
    }

    /// Delays the next instruction to `time` at the earliest; charges the delay to `cause`.
    #[inline]
    pub(crate) fn until(&mut self, time: Tick, cause: Cause) {
        let lag = time.since(self.slot.times(self.index));
        if lag > self.lag {
            self.spent[cause as usize] += lag - self.lag;
            self.lag = lag;
        }
    }

    /// Delays the next instruction to the start that [`Self::start`] returned. The part of the
    /// delay in which a retiring operation itself waited to be issued is charged to
    /// [`Cause::Room`].
    #[inline]
    pub(crate) fn start_at(&mut self, time: Tick, cause: Cause) {
        self.until(time.min(self.popped_room), Cause::Room);
        self.until(time, cause);
    }

    /// Records that operation `number` waited until `now` because the host held its maximum of
    /// refused writes.
    pub(crate) fn waits_for_room(&mut self, number: u64, now: Tick) {
        self.op_mut(number).roomless = true;
        let place = number & self.mask;
        self.rooms[place as usize] = now;
    }

    /// Delays the core by `span`, charged to `cause`.
    pub(crate) fn spend(&mut self, span: Tick, cause: Cause) {
        self.spent[cause as usize] += span;
        self.lag += span;
    }

    /// Earliest start of the next instruction, a memory operation; blocked if it depends on a
    /// completion that is unknown.
    #[inline]
    pub(crate) fn start(&mut self, store: bool) -> Start {
        while self.popped < self.tail {
            let op = self.op(self.popped);
            if op.index + self.size > self.index {
                break;
            }
            if self.popped == self.known {
                return Start::Blocked;
            }
            let roomless = op.roomless;
            (self.popped_retired, self.popped_cause) = (op.so_far, op.cause);
            if roomless {
                self.popped_room = self.rooms[(self.popped & self.mask) as usize];
            }
            self.popped += 1;
        }
        let room = self.popped_retired.since(self.slot.times(self.size));
        let mut start = (self.lag, Cause::Cache);
        if room > start.0 {
            start = (room, self.popped_cause);
        }
        let mut time = start.0 + self.slot.times(self.index);
        if store {
            while self.releases.front().is_some_and(|&free| free <= time) {
                self.releases.pop_front();
            }
            if self.stores.len() + self.releases.len() >= self.store_limit {
                let Some(&free) = self.releases.front() else {
                    return Start::Blocked;
                };
                time = free;
                start.1 = Cause::Stores;
            }
        }
        Start::At(time, start.1)
    }

    /// Adds the next instruction, a memory operation, to the window; returns its number.
    pub(crate) fn push(&mut self, at: u64, size: u8, store: bool, place: u64) -> u64 {
        let number = self.tail;
        let index = self.index;
        let pending = self.oldest_store + self.stores.len() as u64 - u64::from(store);
        *self.op_mut(number) = MemOp {
            index,
            at,
            place,
            done: Tick::NEVER,
            so_far: Tick::ZERO,
            delayed: Tick::NEVER,
            first_dependent: NOBODY,
            next_dependent: NOBODY,
            pending: pending as u32,
            size,
            store,
            translated: false,
            roomless: false,
            parts: parts(at, size),
            waits: 0,
            cause: Cause::Cache,
        };
        self.index += 1;
        self.tail += 1;
        number
    }

    /// Time at which the result of the operation `back` before `number` is available; zero if
    /// there is no such dependency. If the time is unknown, registers `number` as a dependent and
    /// returns [`Tick::NEVER`].
    pub(crate) fn depend(&mut self, number: u64, back: u64) -> Tick {
        let Some(on) = number.checked_sub(back) else {
            return Tick::ZERO;
        };
        if back == 0 || on < self.first || on < self.popped {
            return Tick::ZERO;
        }
        self.depend_on(number, on)
    }

    /// Like [`Self::depend`], for a dependency on operation `on`, which is in the window.
    pub(crate) fn depend_on(&mut self, number: u64, on: u64) -> Tick {
        let source = self.op(on);
        if source.done != Tick::NEVER {
            return source.done;
        }
        let place = (number & self.mask) as Short;
        let source = self.op_mut(on);
        let next = std::mem::replace(&mut source.first_dependent, place);
        self.op_mut(number).next_dependent = next;
        Tick::NEVER
    }

    /// Wakes the operations that depend on `number`: its result is available at `ready`.
    #[inline]
    pub(crate) fn wake(&mut self, number: u64, ready: Tick) {
        let op = self.op_mut(number);
        let mut next = std::mem::replace(&mut op.first_dependent, NOBODY);
        while next != NOBODY {
            // Dependents are younger and in the window, so the place in the ring is unambiguous.
            let waits = number + (u64::from(next).wrapping_sub(number) & self.mask);
            self.issues.push(ready, waits);
            next = self.op(waits).next_dependent;
        }
    }

    /// Retires operations while their completion times are known. Returns the time at which the
    /// next one with a delay hint raises its exception, or [`Tick::NEVER`].
    pub(crate) fn advance(&mut self) -> Tick {
        while self.known < self.tail {
            let (slot, number) = (self.slot, self.known);
            let (retired, retired_cause) = (self.retired, self.retired_cause);
            let op = self.op_mut(number);
            let base = slot.times(op.index);
            let own = op.done.since(base);
            // A store that retires before its hint arrives raises no exception.
            let past = op.store && op.done != Tick::NEVER && own.max(retired) + base < op.delayed;
            if op.delayed != Tick::NEVER && !past {
                let exception = op.delayed.max(retired + base);
                self.retire_flushes();
                return exception;
            }
            if op.done == Tick::NEVER {
                break;
            }
            if own < retired {
                // An older operation retires later, so this one delays nothing.
                (op.cause, op.roomless) = (retired_cause, false);
            }
            op.so_far = own.max(retired);
            let (retired, store) = (op.so_far, op.store.then_some(op.pending));
            (self.retired, self.retired_cause) = (retired, op.cause);
            self.known += 1;
            if let Some(pending) = store {
                let index = pending.wrapping_sub(self.oldest_store as u32) as usize;
                debug_assert_eq!(self.stores[index].op, number, "a store has its entry");
                self.stores[index].retired = retired + base;
            }
        }
        self.retire_flushes();
        Tick::NEVER
    }

    /// Retires flushes: a flush retires with the operation before it.
    fn retire_flushes(&mut self) {
        if self.flushes == 0 {
            return;
        }
        for entry in self.stores.iter_mut().filter(|entry| entry.flush) {
            if entry.op <= self.known && entry.retired == Tick::NEVER {
                let retired = self.retired + self.slot.times(entry.index);
                entry.retired = retired.max(entry.done);
                self.flushes -= 1;
            }
        }
    }

    /// Time at which all operations in flight have retired, if known.
    pub(crate) fn all_retired(&self) -> Option<Tick> {
        let known = self.known == self.tail;
        known.then(|| self.time().max(self.retired + self.slot.times(self.index)))
    }

    /// Squashes operation `number` and all younger ones at `time`; the thread stops there.
    pub(crate) fn squash(&mut self, number: u64, time: Tick, cause: Cause) {
        self.issues.squash(number);
        self.stalled.retain(|&op| op < number);
        self.waiting.retain(|&op| op < number);
        while let Some(last) = self.stores.back() {
            if last.retired != Tick::NEVER {
                break;
            }
            self.forget_youngest();
        }
        let index = self.op(number).index;
        self.squashed += self.tail - number;
        self.index = index;
        self.tail = number;
        self.popped = self.popped.min(number);
        self.first = number;
        self.until(time, cause);
    }

    /// Puts the store or the flush that comes next at the end of the buffer.
    pub(crate) fn push_store(&mut self, mut entry: Pending) {
        (entry.op, entry.index) = (self.tail, self.index);
        self.flushes += usize::from(entry.flush);
        if !entry.flush {
            let number = self.oldest_store + self.stores.len() as u64 + 1;
            let (first, last) = entry.buckets();
            entry.before[0] = std::mem::replace(&mut self.lines[first], number);
            if last != first {
                entry.before[1] = std::mem::replace(&mut self.lines[last], number);
            }
        }
        self.stores.push_back(entry);
    }

    /// Takes the oldest entry out of the buffer.
    pub(crate) fn forget_oldest(&mut self) -> Option<Pending> {
        let entry = self.stores.pop_front()?;
        self.oldest_store += 1;
        self.uncount_flush(&entry);
        Some(entry)
    }

    /// Takes the youngest entry out of the buffer.
    fn forget_youngest(&mut self) {
        let Some(entry) = self.stores.pop_back() else {
            return;
        };
        if !entry.flush {
            let (first, last) = entry.buckets();
            if last != first {
                self.lines[last] = entry.before[1];
            }
            self.lines[first] = entry.before[0];
        }
        self.uncount_flush(&entry);
    }

    fn uncount_flush(&mut self, entry: &Pending) {
        if entry.flush && entry.retired == Tick::NEVER {
            self.flushes -= 1;
        }
    }

    /// The youngest store that is older than `number` and overlaps.
    #[inline]
    pub(crate) fn older_store(&self, number: u64, at: u64, size: u8) -> Option<usize> {
        let (first, last) = (filter(at / 64), filter((at + u64::from(size) - 1) / 64));
        let mut found = self.older_in(first, number, at, size);
        if last != first {
            found = found.max(self.older_in(last, number, at, size));
        }
        let hit = |entry: &Pending| {
            !entry.flush && entry.op < number && overlap(entry.at, entry.size, at, size)
        };
        debug_assert_eq!(found, self.stores.iter().rposition(hit), "a list is whole");
        found
    }

    /// [`Self::older_store`] among the stores of one bucket.
    #[inline]
    fn older_in(&self, bucket: usize, number: u64, at: u64, size: u8) -> Option<usize> {
        let mut next = self.lines[bucket];
        // Stores older than the oldest entry have left the buffer.
        while next > self.oldest_store {
            let index = (next - self.oldest_store - 1) as usize;
            let entry = &self.stores[index];
            if entry.op < number && overlap(entry.at, entry.size, at, size) {
                return Some(index);
            }
            next = entry.before[usize::from(entry.buckets().0 != bucket)];
        }
        None
    }
}
