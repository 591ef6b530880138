//! Planning of a core's next step: start a memory operation, or order threads.

use super::{Machine, NO_THREAD, RunError, Values};
use crate::far::Far;
use crate::op::{Op, Program};
use crate::tick::Tick;
use crate::tiering::Promote;
use crate::window::{Cause, Pending, Start};

/// Distance, in operations, at which the entry of a page is prefetched.
const LATER: usize = 6;

/// The next thing that a core's thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// Its next operation starts.
    Start(Tick, Cause),
    /// All that it did is done and it may be ordered after others.
    Settled(Tick),
    /// It is looked at again.
    Again(Tick),
    /// Something older must become known first.
    Blocked,
    /// There is no thread.
    Idle,
}

impl Plan {
    pub(super) fn time(self) -> Tick {
        match self {
            Self::Start(time, _) | Self::Settled(time) | Self::Again(time) => time,
            Self::Blocked | Self::Idle => Tick::NEVER,
        }
    }
}

impl<F: Far, P: Program, W: Values, M: Promote> Machine<'_, F, P, W, M> {
    /// Does the step of `core` that is due at `now`.
    pub(super) fn advance(&mut self, core: usize, now: Tick) {
        let one = &mut self.cores[core];
        let mut planned = false;
        if one.window.issues.next() <= now {
            if let Some(number) = one.window.issues.pop() {
                self.issue(core, number, now);
            }
        } else if one.retry <= now {
            self.retry(core, now);
        } else if one.drain <= now {
            self.drain(core, now);
        } else if one.fault <= now {
            self.take_exception(core, now);
        } else {
            match one.plan {
                Plan::Start(_, cause) => self.begin(core, now, cause),
                Plan::Settled(_) => self.order(core, now),
                Plan::Again(_) | Plan::Blocked | Plan::Idle => {}
            }
            self.plan(core);
            planned = true;
        }
        let one = &self.cores[core];
        if !planned && one.news && one.plan == Plan::Blocked {
            self.plan(core);
        }
        self.refresh(core);
    }

    /// Decides the next step of `core`, without executing it.
    pub(super) fn plan(&mut self, core: usize) {
        let blocked = self.cores[core].plan == Plan::Blocked;
        self.cores[core].news = false;
        let mut plan = self.next_plan(core);
        if let Plan::Start(time, _) = &mut plan
            && blocked
        {
            // It could not start while it was unknown whether it could.
            *time = self.now.max(*time);
        }
        self.cores[core].plan = plan;
    }

    fn next_plan(&mut self, core: usize) -> Plan {
        let one = &mut self.cores[core];
        let number = one.thread;
        if number == NO_THREAD {
            return Plan::Idle;
        }
        if one.window.time() >= one.slice_end {
            if one.window.time() >= self.times.last {
                return self.clock_ends(core);
            }
            one.preempt |= !self.os.queue.is_empty();
        }
        if one.preempt {
            return self.settled(core);
        }
        let thread = &mut self.os.threads[number as usize];
        while let Some(&op) = thread.ops.get(thread.cursor) {
            match op {
                Op::Compute(count) => {
                    one.window.index += u64::from(count);
                    thread.cursor += 1;
                    if one.window.time() >= self.times.last {
                        return self.clock_ends(core);
                    }
                }
                Op::Load { at, .. } | Op::Store { at, .. } | Op::Flush { at } => {
                    let store = !matches!(op, Op::Load { .. });
                    // Other cores' steps come before this one: until then it is there.
                    if at < self.footprint {
                        self.caches.prefetch(core, self.pages.line_of(at));
                    }
                    if let Some(&Op::Load { at, .. } | &Op::Store { at, .. }) =
                        thread.ops.get(thread.cursor + LATER)
                    {
                        self.pages.prefetch(at);
                    }
                    return match one.window.start(store) {
                        Start::At(time, cause) => Plan::Start(time, cause),
                        Start::Blocked => Plan::Blocked,
                    };
                }
                Op::Begin if thread.begun => thread.cursor += 1,
                // Operations in flight when measuring begins could be squashed and repeated.
                Op::Fence | Op::Meet | Op::Begin => return self.settled(core),
            }
        }
        if thread.ended {
            return self.settled(core);
        }
        self.refill(core, number)
    }

    /// The run fails: the next operation would be beyond the end of the clock.
    #[cold]
    fn clock_ends(&mut self, core: usize) -> Plan {
        self.failed = Some(RunError::Clock {
            thread: self.cores[core].thread,
            end: self.times.last.ns(),
            cores: self.config.cores,
        });
        Plan::Again(self.now)
    }

    /// Asks the program for more.
    fn refill(&mut self, core: usize, number: u32) -> Plan {
        let window = &self.cores[core].window;
        let thread = &mut self.os.threads[number as usize];
        // Operations that have not retired may be squashed and must be kept for a repetition.
        let oldest = if window.known < window.tail {
            (window.op(window.known).place - thread.base) as usize
        } else {
            thread.cursor
        };
        thread.ops.drain(..oldest);
        thread.base += oldest as u64;
        thread.cursor -= oldest;
        let before = thread.ops.len();
        thread.ended = !self.program.next(number, &mut thread.ops);
        if !thread.ended && thread.ops.len() == before {
            self.failed = Some(RunError::Idle(number));
        }
        if thread.ended
            && let Some(why) = self.program.failure()
        {
            self.failed = Some(RunError::Program(why));
        }
        Plan::Again(self.cores[core].window.time())
    }

    /// Plan for an ordering operation: settled at the time at which all operations in flight of
    /// the core are done, or blocked while that is unknown.
    fn settled(&self, core: usize) -> Plan {
        let one = &self.cores[core];
        if one.flushes > 0 || !one.window.stores.is_empty() {
            return Plan::Blocked;
        }
        match one.window.all_retired() {
            Some(retired) => {
                let stores = one.window.last_release.max(one.flushed);
                Plan::Settled(retired.max(stores))
            }
            None => Plan::Blocked,
        }
    }

    /// Starts the operation at the cursor.
    fn begin(&mut self, core: usize, now: Tick, cause: Cause) {
        let one = &mut self.cores[core];
        let thread = &mut self.os.threads[one.thread as usize];
        let place = thread.base + thread.cursor as u64;
        let op = thread.ops[thread.cursor];
        let (at, size, after) = match op {
            Op::Load { at, size, after } | Op::Store { at, size, after } => (at, size, after),
            Op::Flush { at } => (at, 1, 0),
            _ => return,
        };
        if !(1..=64).contains(&size) || at.saturating_add(u64::from(size)) > self.footprint {
            self.failed = Some(RunError::Address {
                thread: one.thread,
                at,
                size,
                end: self.footprint,
            });
            return;
        }
        thread.cursor += 1;
        one.window.start_at(now, cause);
        if !matches!(op, Op::Load { .. }) {
            self.buffer(core, (at, size), place, now);
        }
        let window = &mut self.cores[core].window;
        let store = match op {
            Op::Load { .. } => false,
            Op::Store { .. } => true,
            _ => {
                self.counts.flushes += 1;
                window.index += 1;
                return self.learn(core);
            }
        };
        let count = if store {
            &mut self.counts.stores
        } else {
            &mut self.counts.loads
        };
        *count += 1;
        let number = window.push(at, size, store, place);
        let ready = window.depend(number, u64::from(after));
        if ready <= now {
            self.issue(core, number, now);
        } else if ready != Tick::NEVER {
            window.issues.push(ready, number);
        }
    }

    /// Gives a store or a flush, which is the thread's operation `place`, its place in
    /// the buffer.
    fn buffer(&mut self, core: usize, (at, size): (u64, u8), place: u64, now: Tick) {
        let one = &mut self.cores[core];
        let thread = &self.os.threads[one.thread as usize];
        let flush = matches!(thread.ops[thread.cursor - 1], Op::Flush { .. });
        let entry = Pending::new(one.thread, place, (at, size), flush, now);
        one.window.push_store(entry);
    }

    /// Executes the ordering operation, or the preemption, that waited for a settled core.
    fn order(&mut self, core: usize, now: Tick) {
        let one = &mut self.cores[core];
        let number = one.thread;
        let thread = &mut self.os.threads[number as usize];
        one.window.until(now, Cause::Order);
        if one.preempt {
            one.preempt = false;
            self.counts.preemptions += 1;
            self.yield_core(core, now);
            self.requeue(core, number, now);
            return;
        }
        match thread.ops.get(thread.cursor) {
            Some(Op::Fence) => thread.cursor += 1,
            Some(Op::Begin) => {
                thread.cursor += 1;
                thread.begun = true;
                self.os.begun += 1;
                self.start_measuring(now);
            }
            Some(Op::Meet) => {
                thread.cursor += 1;
                self.yield_core(core, now);
                self.os.meeting += 1;
                self.os.threads[number as usize].meets = true;
                self.dispatch(core, now, self.switch_cost());
                self.part(now);
            }
            _ => self.end_thread(core, now),
        }
    }

    /// Begins to measure once all threads have passed their preparation.
    pub(super) fn start_measuring(&mut self, now: Tick) {
        let ended = self
            .os
            .threads
            .iter()
            .filter(|thread| thread.gone && !thread.begun);
        let passed = self.os.begun as usize + ended.count() == self.os.threads.len();
        if passed && self.os.begun > 0 && !self.os.measuring {
            self.os.measuring = true;
            for kind in [&mut self.host, &mut self.device, &mut self.flash] {
                kind.latencies.forget_longest();
            }
            self.base = Some(self.totals(now));
            self.far.begin(now.ns());
            self.pages.forget_touched();
        }
    }
}
