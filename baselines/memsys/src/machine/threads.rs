//! Threads on cores: scheduling, waiting, and the cost of switches.
//!
//! A thread waits in the queue, runs on a core, or waits at a barrier. A thread with stores in a
//! core's buffer is queued only after the last of them has left, so that it sees them on any core
//! that it runs on next.

use super::device::Waiter;
use super::{Machine, NO_THREAD, Values};
use crate::config::Policy;
use crate::far::Far;
use crate::op::{Op, Program};
use crate::tick::Tick;
use crate::tiering::{Promote, Tiering};
use crate::window::Cause;

/// Exceptions in a row after which a thread blocks on the line of its instruction, whatever
/// the hints of the device. A choice of ours, so that programs terminate even if their pages
/// leave the device's cache before the requesting thread runs again.
const PATIENCE: u32 = 1_000;

#[derive(Debug, Default)]
pub(super) struct Thread {
    pub(super) ops: Vec<Op>,
    /// Number of the first of them.
    pub(super) base: u64,
    pub(super) cursor: usize,
    /// The program has no more.
    pub(super) ended: bool,
    /// The thread has ended and all of its operations are done.
    pub(super) gone: bool,
    pub(super) begun: bool,
    pub(super) meets: bool,
    pub(super) received: Tick,
    /// Stores in the buffer of the core that it left.
    pub(super) stores: u32,
    /// It is to be queued once they are gone.
    pub(super) queued_then: bool,
    /// The page of the cache of pages that it waits for.
    pub(super) wants: Option<u64>,
    /// Number of the operation that raised the last exception, plus one; and how often it
    /// has raised another since.
    pub(super) delayed_at: u64,
    pub(super) delayed_again: u32,
}

impl<F: Far, P: Program, W: Values, M: Promote> Machine<'_, F, P, W, M> {
    /// An instruction that takes long would retire: its thread yields.
    //= skybyte 3.1
    pub(super) fn take_exception(&mut self, core: usize, now: Tick) {
        let one = &mut self.cores[core];
        let number = one.window.known;
        let op = *one.window.op(number);
        (one.fault, one.retry) = (Tick::NEVER, Tick::NEVER);
        one.preempt = false;
        let thread_number = one.thread;
        let thread = &mut self.os.threads[thread_number as usize];
        thread.cursor = (op.place - thread.base) as usize;
        self.counts.long_delays += 1;
        if thread.delayed_at == op.place + 1 {
            self.counts.repeated_delays += 1;
            thread.delayed_again += 1;
        } else {
            thread.delayed_again = 0;
        }
        thread.delayed_at = op.place + 1;
        let line = self.pages.line_of(op.at);
        self.uncount(core, number);
        self.cores[core].window.squash(number, now, Cause::Flash);
        let freed_last = self.squash_waiters(core, number);
        if self.config.os.free_on_squash {
            self.caches.squash(core, number);
            self.unstall(core, now);
        }
        if freed_last {
            for other in 0..self.cores.len() {
                self.unstall(other, now);
            }
        }
        self.yield_core(core, now);
        if self.is_page_cached(line) && self.awaits_page(line / 64, now) {
            self.os.threads[thread_number as usize].wants = Some(line / 64);
            self.dispatch_after(core, now, self.switch_cost(), true);
        } else {
            self.requeue(core, thread_number, now);
        }
    }

    /// Whether the instruction of `core` that asks has yielded so often that it waits now.
    pub(super) fn is_patient(&self, core: usize, asks: Waiter) -> bool {
        let (Waiter::Load(number, _) | Waiter::Own(number)) = asks else {
            return false;
        };
        let one = &self.cores[core];
        let thread = self.os.threads.get(one.thread as usize);
        let often = thread.filter(|thread| thread.delayed_again >= PATIENCE);
        often.is_some_and(|thread| thread.delayed_at == one.window.op(number).place + 1)
    }

    /// Cost of a switch: user-level with a hardware page cache, otherwise of the kernel.
    //= skybyte 6.8
    pub(super) fn switch_cost(&self) -> Tick {
        Tick::of(match self.config.tiering {
            Tiering::Cached(_) => self.config.os.user_switch,
            _ => self.config.os.switch,
        })
    }

    /// Queues the thread that just left `core`, and gives the core to the next thread.
    pub(super) fn requeue(&mut self, core: usize, number: u32, now: Tick) {
        let thread = &mut self.os.threads[number as usize];
        if thread.stores > 0 {
            thread.queued_then = true;
        } else {
            self.os.queue.push_back(number);
        }
        self.dispatch_after(core, now, self.switch_cost(), true);
        self.wake(now);
    }

    /// Removes squashed operations, from `number` on, from the counts of started ones.
    fn uncount(&mut self, core: usize, number: u64) {
        let window = &self.cores[core].window;
        let given_up = window.tail - number;
        let stores = (number..window.tail)
            .filter(|&op| window.op(op).store)
            .count() as u64;
        self.counts.stores -= stores;
        self.counts.loads -= given_up - stores;
        let flushes = window.stores.iter();
        let flushes = flushes.filter(|entry| entry.flush && entry.retired == Tick::NEVER);
        self.counts.flushes -= flushes.count() as u64;
    }

    /// Updates the least core time of all runnable threads: a woken thread counts from there.
    fn note_least(&mut self, now: Tick) {
        let received = |number: u32| self.os.threads[number as usize].received;
        let running = self.cores.iter().filter(|core| core.thread != NO_THREAD);
        let running = running.map(|core| received(core.thread) + now.since(core.since));
        let waiting = self.os.queue.iter().map(|&number| received(number));
        let least = running.chain(waiting).min().unwrap_or(Tick::ZERO);
        self.os.least = self.os.least.max(least);
    }

    /// Takes the thread from the core.
    pub(super) fn yield_core(&mut self, core: usize, now: Tick) {
        self.note_least(now);
        let one = &mut self.cores[core];
        let number = std::mem::replace(&mut one.thread, NO_THREAD);
        one.last = number;
        let thread = &mut self.os.threads[number as usize];
        thread.received += now.since(one.since);
        let mine = |entry: &&crate::window::Pending| entry.thread == number;
        thread.stores = one.window.stores.iter().filter(mine).count() as u32;
    }

    /// Lets a thread wait for a core, or gives it one that has none.
    pub(super) fn enqueue(&mut self, number: u32, now: Tick) {
        let thread = &mut self.os.threads[number as usize];
        if thread.stores > 0 {
            thread.queued_then = true;
            return;
        }
        // A thread that slept has not saved up core time.
        thread.received = thread.received.max(self.os.least);
        self.os.queue.push_back(number);
        self.wake(now);
    }

    /// Gives cores that have none the threads that wait.
    fn wake(&mut self, now: Tick) {
        while let Some(&number) = self.os.queue.front() {
            let idle = |core: &super::Core| core.thread == NO_THREAD;
            let own = self
                .cores
                .iter()
                .position(|core| idle(core) && core.last == number);
            let Some(core) = own.or_else(|| self.cores.iter().position(idle)) else {
                return;
            };
            self.dispatch(core, now, self.switch_cost());
        }
    }

    /// A store of a thread that left its core has gone.
    pub(super) fn store_gone(&mut self, number: u32, now: Tick) {
        let thread = &mut self.os.threads[number as usize];
        if thread.stores > 0 {
            thread.stores -= 1;
            if thread.stores == 0 && std::mem::take(&mut thread.queued_then) {
                self.enqueue(number, now);
            }
        }
    }

    /// Gives a core without a thread the next one, for `cost`. A thread that comes back
    /// to the core that it left pays only if an exception or the end of a slice made
    /// it leave.
    pub(super) fn dispatch(&mut self, core: usize, now: Tick, cost: Tick) {
        self.dispatch_after(core, now, cost, false);
    }

    fn dispatch_after(&mut self, core: usize, now: Tick, cost: Tick, yielded: bool) {
        debug_assert!(self.cores[core].thread == NO_THREAD, "the core is taken");
        if let Some(number) = self.pick() {
            let one = &mut self.cores[core];
            one.window.until(now, Cause::Idle);
            // The switch is the thread's, as in Linux: one that always yields at once would
            // have received next to nothing, and be next for ever.
            one.since = one.window.time();
            if one.last != NO_THREAD && (yielded || one.last != number) {
                self.counts.switches += 1;
                one.window.spend(cost, Cause::Switch);
            }
            one.thread = number;
            let slice_end = one.window.time() + Tick::of(self.config.os.slice);
            one.slice_end = slice_end.min(self.times.last);
            one.window.first = one.window.tail;
        }
        self.plan(core);
        self.refresh(core);
    }

    /// Picks the next thread by policy.
    //= skybyte 3.1
    fn pick(&mut self) -> Option<u32> {
        let at = match self.config.os.policy {
            Policy::RoundRobin => 0,
            Policy::Random if self.os.queue.is_empty() => 0,
            Policy::Random => self.os.rng.below(self.os.queue.len() as u64) as usize,
            Policy::Cfs => {
                let waiting = (0..self.os.queue.len()).rev();
                let received = |&at: &usize| self.os.threads[self.os.queue[at] as usize].received;
                waiting.min_by_key(|at| (received(at), *at)).unwrap_or(0)
            }
        };
        self.os.queue.remove(at)
    }

    /// Lets the threads go on that meet, once all have come.
    pub(super) fn part(&mut self, now: Tick) {
        if self.os.meeting == 0 || self.os.meeting < self.os.live {
            return;
        }
        self.os.meeting = 0;
        for number in 0..self.os.threads.len() as u32 {
            if std::mem::take(&mut self.os.threads[number as usize].meets) {
                self.enqueue(number, now);
            }
        }
    }

    /// The thread of a core is through.
    pub(super) fn end_thread(&mut self, core: usize, now: Tick) {
        let number = self.cores[core].thread;
        self.yield_core(core, now);
        self.os.threads[number as usize].gone = true;
        self.os.live -= 1;
        self.end = self.end.max(now);
        if self.os.live == 0 {
            // Cores that ran out of threads waited until here.
            for core in &mut self.cores {
                core.window.until(now, Cause::Idle);
            }
        }
        self.start_measuring(now);
        self.dispatch(core, now, self.switch_cost());
        self.part(now);
    }
}
