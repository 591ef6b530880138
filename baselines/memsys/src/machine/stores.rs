//! The store buffer: retired stores are written to the cache in order.

use super::access::{Access, part_of};
use super::device::Waiter;
use super::{Machine, Values, stored_value};
use crate::config::StoreMiss;
use crate::far::Far;
use crate::op::Program;
use crate::pages::is_far;
use crate::tick::Tick;
use crate::tiering::Promote;
use crate::window::Pending;

impl<F: Far, P: Program, W: Values, M: Promote> Machine<'_, F, P, W, M> {
    /// Issues a store with a known address: requests its lines to own them. The store can retire
    /// at once.
    pub(super) fn issue_store(&mut self, core: usize, number: u64, now: Tick) {
        let op = *self.cores[core].window.op(number);
        for part in 0..2 {
            if op.parts & 1 << part == 0 {
                continue;
            }
            let at = part_of(op.at, op.size, part).0;
            if self.asks_to_own(at)
                && let Access::Delayed(time) = self.access(core, at, true, now, Waiter::Own(number))
            {
                self.delay(core, number, time);
            }
        }
        let op = self.cores[core].window.op_mut(number);
        op.parts = 0;
        op.so_far = now + self.times.cycle;
        self.complete(core, number, now);
    }

    /// Whether a store requests its line as soon as its address is known. Behind a page cache it
    /// always does, because the cache must fetch the page under either policy.
    #[inline]
    fn asks_to_own(&self, at: u64) -> bool {
        self.config.store_miss == StoreMiss::Own || self.is_page_cached(self.pages.line_of(at))
    }

    /// Answers a load from the stores before it, or lets it wait for one. False if
    /// none concerns it.
    pub(super) fn forward(&mut self, core: usize, number: u64, now: Tick) -> bool {
        let window = &mut self.cores[core].window;
        let op = *window.op(number);
        let Some(index) = window.older_store(number, op.at, op.size) else {
            return false;
        };
        let store = window.stores[index];
        let end = |at: u64, size: u8| at + u64::from(size);
        let covers = store.at <= op.at && end(op.at, op.size) <= end(store.at, store.size);
        if !covers {
            // Part of it comes from the cache, once the store is there.
            window.stalled.push(number);
            return true;
        }
        let written = if store.retired == Tick::NEVER {
            window.depend_on(number, store.op)
        } else {
            Tick::ZERO
        };
        if written == Tick::NEVER {
            return true;
        }
        self.counts.forwarded += 1;
        let l1 = self.times.l1;
        if W::KEPT {
            let value = stored_value(store.thread, store.place);
            let from = (op.at - store.at) as usize;
            let size = op.size as usize;
            if let Some(loaded) = window.value(number) {
                loaded[..size].copy_from_slice(&value[from..from + size]);
            }
        }
        let op = window.op_mut(number);
        op.parts = 0;
        op.so_far = written.max(now) + l1;
        self.complete(core, number, now);
        true
    }

    /// Recomputes when the oldest store is written to the cache.
    pub(super) fn next_drain(&mut self, core: usize) {
        let one = &mut self.cores[core];
        one.drain = match one.window.stores.front() {
            Some(oldest) if !oldest.waits && oldest.retired != Tick::NEVER => {
                oldest.retired.max(one.window.drain_from)
            }
            _ => Tick::NEVER,
        };
    }

    /// Reschedules operations that wait for an MSHR, which may be free by now, or for a store.
    pub(super) fn unstall(&mut self, core: usize, now: Tick) {
        let one = &mut self.cores[core];
        while let Some(number) = one.window.stalled.pop() {
            one.window.issues.push(now, number);
        }
        if !one.window.waiting.is_empty() {
            one.retry = now;
        }
        if one.window.drain_full || one.window.drain_from == Tick::NEVER {
            one.window.drain_from = one.window.drain_from.min(now);
        }
        one.window.drain_full = false;
        self.next_drain(core);
        self.refresh(core);
    }

    /// The oldest store goes to the cache, or the oldest flush to memory.
    pub(super) fn drain(&mut self, core: usize, now: Tick) {
        let Some(&entry) = self.cores[core].window.stores.front() else {
            return;
        };
        if entry.flush {
            if self.flush(core, entry.at, now) {
                self.gone(core, now, now);
            } else {
                self.cores[core].window.drain_from = Tick::NEVER;
                self.next_drain(core);
            }
            return;
        }
        if self.no_register(core, &entry, now) {
            return self.next_drain(core);
        }
        let value = W::KEPT.then(|| stored_value(entry.thread, entry.place));
        for part in 0..2 {
            if entry.parts & 1 << part == 0 {
                continue;
            }
            let (at, offset, start, length) = part_of(entry.at, entry.size, part);
            let access = self.access_to_write(core, at, now);
            let window = &mut self.cores[core].window;
            let Some(oldest) = window.stores.front_mut() else {
                return;
            };
            match access {
                Access::Known(done, _) => {
                    oldest.parts &= !(1 << part);
                    oldest.done = oldest.done.max(done);
                    let line = self.pages.line_of(at);
                    self.caches.write(core, line);
                    if let (Some(value), Some(bytes)) = (value, self.caches.data(line)) {
                        bytes[offset..offset + length]
                            .copy_from_slice(&value[start..start + length]);
                    }
                    continue;
                }
                Access::Waits => oldest.waits = true,
                Access::Delayed(time) => {
                    window.drain_from = time + Tick::of(self.config.os.ask_again);
                }
                Access::Full(time) => window.drain_from = time,
                Access::NoRoom => window.drain_from = Tick::NEVER,
            }
            self.next_drain(core);
            return;
        }
        let done = self.cores[core]
            .window
            .stores
            .front()
            .map_or(now, |oldest| oldest.done);
        self.gone(core, now, done);
    }

    /// Whether it is plain that there is no register for a store; it asks when there is.
    fn no_register(&mut self, core: usize, entry: &Pending, now: Tick) -> bool {
        let owns = entry.parts == 1 && self.config.store_miss == StoreMiss::Own;
        let full = owns.then(|| self.full_at(core, entry.at, now)).flatten();
        let window = &mut self.cores[core].window;
        window.drain_full = full.is_some();
        window.drain_from = full.unwrap_or(window.drain_from);
        window.drain_full
    }

    fn access_to_write(&mut self, core: usize, at: u64, now: Tick) -> Access {
        let line = self.pages.line_of(at);
        let asks = self.asks_to_own(at);
        if !asks && is_far(line) && !self.caches.holds(line) {
            return self.write_through(core, at, line, now);
        }
        self.access(core, at, true, now, Waiter::Drain)
    }

    /// The oldest store or flush is where it belongs.
    fn gone(&mut self, core: usize, now: Tick, done: Tick) {
        let window = &mut self.cores[core].window;
        let Some(entry) = window.forget_oldest() else {
            return;
        };
        window.last_release = window.last_release.max(done);
        window.releases.push_back(window.last_release);
        window.drain_from = now + self.times.cycle;
        self.cores[core].news = true;
        let window = &self.cores[core].window;
        if !window.stalled.is_empty() {
            self.unstall(core, now);
        }
        self.next_drain(core);
        if self.cores[core].thread != entry.thread {
            self.store_gone(entry.thread, now);
        }
    }
}
