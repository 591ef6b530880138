//! Misses: page fetches from flash, on demand or by prefetch.

use crate::cache::{LINES, PAGE, line_of};
use crate::estimate::{Estimate, estimate, is_long};
use crate::mshr::{Mshr, Stage};
use crate::state::{Place, Shared, State, payload};
use memsys::{FarEvent, ReadReply, Tag};
use nand::Payload;
use ssd::{Cause, ReadCause};
use std::rc::Rc;
use units::Ns;

impl Shared {
    /// Reads a line that missed cache and log; the look-ups ended at `looked`. Returns a delay
    /// hint only if the request takes hints.
    pub(crate) fn miss(
        self: &Rc<Self>,
        state: &mut State,
        looked: Ns,
        (page, at): (u32, u32),
        (tag, takes_hints): (Tag, bool),
    ) -> ReadReply {
        let stage = state.mshrs.get(page).map(|mshr| mshr.stage);
        if stage == Some(Stage::Arrived) || stage.is_none() && !self.drive.is_on_flash(page) {
            return self.at_hand(state, looked, page, at);
        }
        state.counters.misses += 1;
        let expected = match stage {
            Some(_) => self.coalesce(state, looked, page),
            None => {
                let expected = self.expect(page);
                let mshr = Mshr::new(looked, looked + expected.time, false);
                self.open(state, page, mshr);
                self.fetch_ahead(state, looked, page);
                expected
            }
        };
        //= skybyte 3.1
        if takes_hints && is_long(expected, &self.config.hints) {
            state.counters.delays += 1;
            state.counters.delays_by_collection += u64::from(expected.blocked);
            return ReadReply::Delay(looked);
        }
        if let Some(mshr) = state.mshrs.get_mut(page) {
            mshr.waiters.push((tag, at));
            mshr.read |= 1 << at;
        }
        ReadReply::Waits
    }

    /// Answers from a register that has arrived or from the drive's write buffer, without
    /// flash. Inserts the page into the cache if that needs no waiting.
    fn at_hand(self: &Rc<Self>, state: &mut State, looked: Ns, page: u32, at: u32) -> ReadReply {
        state.counters.buffer_hits += 1;
        let time = state.dram.access(looked, staged(page, at));
        let mut data = None;
        if self.config.drive.flash.keep_contents {
            let (contents, lost) = match state.mshrs.get(page) {
                Some(mshr) => (mshr.contents.clone(), mshr.lost),
                None => {
                    let lost = state.lost_behind(&self.drive, page);
                    (state.contents_behind(&self.drive, page), lost)
                }
            };
            data = (lost >> at & 1 == 0).then(|| line_of(contents.as_ref(), at));
        }
        match state.mshrs.get_mut(page) {
            Some(mshr) => {
                (mshr.keep, mshr.ahead) = (true, false);
                mshr.read |= 1 << at;
            }
            None => {
                if let Some(slot) = self.try_install(state, page) {
                    state.cache.note_read(slot, 1 << at);
                }
            }
        }
        ReadReply::Data(time, data)
    }

    /// Joins a fetch in flight. Returns the rest of the time estimated when it was requested.
    /// A fetch that has waited longer for an MSHR has no time left, so a read that joins it
    /// gets no delay hint: it blocks until the page arrives. Threads thus make progress even
    /// where pages are evicted before their requesters run again.
    fn coalesce(self: &Rc<Self>, state: &mut State, looked: Ns, page: u32) -> Estimate {
        state.counters.coalesced += 1;
        let mut time = Ns::ZERO;
        let mut was_ahead = false;
        if let Some(mshr) = state.mshrs.get_mut(page) {
            time = mshr.expected.since(looked);
            was_ahead = std::mem::replace(&mut mshr.ahead, false);
            mshr.keep = true;
        }
        if was_ahead {
            state.counters.prefetches_late += 1;
            self.fetch_ahead(state, looked, page);
        }
        Estimate {
            time,
            blocked: false,
        }
    }

    /// Estimate for a flash read queued now; zero if the page is not on flash.
    pub(crate) fn expect(&self, page: u32) -> Estimate {
        let load = self.drive.flash_load(page);
        let none = Estimate {
            time: Ns::ZERO,
            blocked: false,
        };
        load.map_or(none, |load| {
            let queue = self.config.hints.queue;
            estimate(&load, &self.timing, PAGE as u64, queue)
        })
    }

    /// Allocates an MSHR for a page and starts its fetch, or queues the page for one.
    pub(crate) fn open(self: &Rc<Self>, state: &mut State, page: u32, mshr: Mshr) {
        state.counters.prefetches += u64::from(mshr.ahead);
        if state.mshrs.add(page, mshr) {
            self.begin(page);
        }
    }

    fn begin(self: &Rc<Self>, page: u32) {
        let shared = Rc::clone(self);
        self.sim.spawn_detached(async move {
            shared.fetch(page).await;
        });
    }

    /// Starts the prefetches that follow an access to `page`, as far as registers are free.
    pub(crate) fn fetch_ahead(self: &Rc<Self>, state: &mut State, looked: Ns, page: u32) {
        let (first, step, count) = state.prefetcher.asked(page);
        for at in 0..count {
            let page = first.saturating_add(at * step);
            let wanted = page < self.pages
                && state.mshrs.has_free()
                && state.mshrs.get(page).is_none()
                && state.cache.find(page).is_none()
                && self.drive.is_on_flash(page);
            if wanted {
                let expected = looked + self.expect(page).time;
                self.open(state, page, Mshr::new(looked, expected, true));
            }
        }
    }

    /// Fetches a page that holds a register from flash into the cache. Flash is read into a
    /// cache slot reserved beforehand, as there is no other memory for it: pages in flight
    /// never make the DRAM hold more than its capacity.
    async fn fetch(self: Rc<Self>, page: u32) {
        let since = self.state.borrow().mshrs.get(page).map(|mshr| mshr.since);
        self.sim.sleep_until(since.unwrap_or_default()).await;
        self.place(page).await;
        // A page whose lines are all overwritten needs no flash read.
        let waiting = |state: &State| state.mshrs.get(page).map_or(0, Mshr::waiting);
        let is_read = waiting(&self.state.borrow()) != u64::MAX;
        let is_lost = is_read && {
            let read = self.drive.fetch_page(page, ReadCause::CacheFetch).await;
            read.is_err()
        };
        if self.arrive(page, is_read, is_lost) {
            self.install(page).await;
        } else {
            self.give_back(page).await;
        }
    }

    /// Merges log and writes into a page that has arrived, and answers its waiters. Returns
    /// false if lines of it are lost: the cache takes only whole pages, so the caller writes
    /// the page back, its lost lines staying lost.
    //= skybyte 3.2
    fn arrive(&self, page: u32, is_read: bool, is_lost: bool) -> bool {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let now = self.sim.now();
        let contents = state.contents_behind(&self.drive, page);
        let logged = state.log.as_ref().map_or(0, |log| log.mask(page));
        let lines = u64::from(LINES) + u64::from(logged.count_ones());
        let lost = match is_lost {
            true => !logged,
            false => state.lost_behind(&self.drive, page),
        };
        state.dram.move_lines(now, lines);
        let Some(mshr) = state.mshrs.get_mut(page) else {
            return true;
        };
        mshr.stage = Stage::Arrived;
        (mshr.contents, mshr.lost) = (contents, lost);
        mshr.dirty |= !mshr.writes.is_empty();
        for (at, line) in std::mem::take(&mut mshr.writes) {
            mshr.set_line(at, line);
        }
        for (tag, at) in mshr.waiters.drain(..) {
            let time = state.dram.access(now, staged(page, at));
            let keeps = self.config.drive.flash.keep_contents;
            let data = keeps.then(|| line_of(mshr.contents.as_ref(), at));
            let data = data.filter(|_| mshr.lost >> at & 1 == 0);
            state.events.push_back(FarEvent::Data(tag, time, data));
        }
        if is_read && !mshr.ahead {
            state.counters.fetches += 1;
            state.counters.fetch_time += now.since(mshr.since);
        }
        state.prefetcher.came(page, mshr.ahead);
        state.counters.media_errors += u64::from(is_lost && lost != 0);
        lost == 0
    }

    /// Waits for a cache slot and reserves it for a page. Reserves none if the page is not to
    /// enter the cache, or if its victim cannot be written back as the drive accepts no more
    /// writes.
    async fn place(self: &Rc<Self>, page: u32) {
        let mut taken = false;
        loop {
            let place = {
                let mut state = self.state.borrow_mut();
                let wants = |mshr: &Mshr| mshr.keep && mshr.slot.is_none();
                if !state.mshrs.get(page).is_some_and(wants) {
                    break;
                }
                let place = self.make_slot(&mut state, page, &mut taken);
                if let Place::At(slot) = place {
                    state.cache.keep(slot);
                    if let Some(mshr) = state.mshrs.get_mut(page) {
                        mshr.slot = Some(slot);
                    }
                }
                place
            };
            match place {
                Place::At(_) => break,
                Place::Taken => self.placed.wait(&self.sim).await,
                Place::NoRoom if self.drive.take_room().await.is_err() => return,
                Place::NoRoom => taken = true,
            }
        }
        if taken {
            self.drive.give_room_back();
        }
    }

    /// Moves a page that has arrived into the cache. Reserves a slot first if none was wanted
    /// when the fetch began.
    async fn install(self: &Rc<Self>, page: u32) {
        self.place(page).await;
        let is_kept = |state: &State| {
            let mshr = state.mshrs.get(page);
            mshr.is_some_and(|mshr| mshr.keep && mshr.slot.is_none())
        };
        if is_kept(&self.state.borrow()) {
            self.stay(page);
            return;
        }
        let mut state = self.state.borrow_mut();
        let keeps = state.mshrs.get(page).is_some_and(|mshr| mshr.keep);
        let slot = state.mshrs.get_mut(page).filter(|_| keeps);
        let slot = slot.and_then(|mshr| mshr.slot.take());
        let ended = self.end(&mut state, page);
        if let (Some(slot), Some(mshr)) = (slot, ended) {
            state.cache.insert(slot, page, mshr.contents, mshr.ahead);
            state.cache.note_read(slot, mshr.read);
            state.cache.note_written(slot, mshr.written);
            if mshr.dirty {
                state.cache.set_dirty(slot);
            }
        }
    }

    /// Frees the register of a page and its reserved slot, and starts the next queued fetch.
    fn end(self: &Rc<Self>, state: &mut State, page: u32) -> Option<Mshr> {
        let (ended, next) = state.mshrs.end(page);
        if let Some(slot) = ended.as_ref().and_then(|mshr| mshr.slot) {
            state.cache.give_up(slot);
        }
        self.placed.notify(&self.sim);
        if let Some(next) = next {
            self.begin(next);
        }
        state.tell_room(self.sim.now());
        ended
    }

    /// Ends the fetch of a page that gets no slot, as the drive accepts no more writes. A
    /// dirty page stays in its register, the only copy of its lines.
    fn stay(self: &Rc<Self>, page: u32) {
        let mut state = self.state.borrow_mut();
        let dirty = state.mshrs.get(page).is_some_and(|mshr| mshr.dirty);
        if !dirty {
            self.end(&mut state, page);
        }
    }

    /// Writes a dirty page with lost lines back to the drive, including lines written while
    /// it waits for room there. A clean page is just dropped.
    async fn give_back(self: &Rc<Self>, page: u32) {
        let is_dirty = |state: &State| state.mshrs.get(page).is_some_and(|mshr| mshr.dirty);
        let waits = is_dirty(&self.state.borrow());
        if waits && self.drive.take_room().await.is_err() {
            self.stay(page);
            return;
        }
        let mut state = self.state.borrow_mut();
        let dirty = is_dirty(&state);
        let Some(mshr) = self.end(&mut state, page) else {
            return;
        };
        if dirty {
            let payload = Payload::with_lost(payload(mshr.contents).to_bytes(), mshr.lost);
            self.drive.put_page(page, Some(payload), Cause::Eviction);
        } else if waits {
            self.drive.give_room_back();
        }
    }
}

/// DRAM address used for the timing of a line that is not in the cache.
fn staged(page: u32, at: u32) -> u64 {
    u64::from(page) * PAGE as u64 + u64::from(at) * 64
}
