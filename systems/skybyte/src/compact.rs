//! Compaction: a full half of the log goes to flash, page by page.
//!
//! Invariant: a page leaves the older half at the instant at which it enters the drive's
//! write buffer, so readers and a power cut always find it.

use crate::cache::{LINES, PAGE};
use crate::log::Log;
use crate::state::{Shared, State, payload};
use nand::Payload;
use ssd::{Cause, ReadCause};
use std::cell::Cell;
use std::rc::Rc;

impl Shared {
    /// Compacts each half that fills up. Returns only when the drive accepts no more writes.
    pub(crate) async fn compact_for_ever(self: Rc<Self>) {
        loop {
            while !self.is_compacting() {
                self.compact.wait(&self.sim).await;
            }
            if !self.compact_half().await {
                return;
            }
        }
    }

    fn is_compacting(&self) -> bool {
        let state = self.state.borrow();
        state.log.as_ref().is_some_and(Log::is_compacting)
    }

    /// Writes all pages of the older half, `pages_in_work` of them at a time. Returns false
    /// if the drive accepts no more writes.
    //= skybyte 3.2
    async fn compact_half(self: &Rc<Self>) -> bool {
        let begun = self.sim.now();
        let next = Rc::new(Cell::new(0));
        let workers: Vec<_> = (0..self.config.log.pages_in_work)
            .map(|_| {
                let (shared, next) = (Rc::clone(self), Rc::clone(&next));
                let work = async move { shared.compact_pages(&next).await };
                self.sim.spawn(work)
            })
            .collect();
        let mut all = true;
        for worker in workers {
            all &= worker.await;
        }
        if !all {
            return false;
        }
        let mut state = self.state.borrow_mut();
        let now = self.sim.now();
        state.counters.compactions += 1;
        state.counters.compaction_time += now.since(begun);
        if let Some(log) = &mut state.log {
            log.finish();
        }
        state.tell_room(now);
        true
    }

    /// Compacts pages from place `next` of the index on; all workers share `next`.
    async fn compact_pages(&self, next: &Cell<usize>) -> bool {
        loop {
            let found = {
                let state = self.state.borrow();
                let log = state.log.as_ref();
                log.and_then(|log| log.next_to_compact(next.get()))
            };
            let Some((page, after)) = found else {
                return true;
            };
            next.set(after);
            if !self.compact_page(page).await {
                return false;
            }
        }
    }

    async fn compact_page(&self, page: u32) -> bool {
        let reads = {
            let state = self.state.borrow();
            let mask = state.log.as_ref().map_or(0, |log| log.old_mask(page));
            state.cache.find(page).is_none() && mask != u64::MAX && self.drive.is_on_flash(page)
        };
        if reads {
            let read = self.drive.fetch_page(page, ReadCause::LogCleaning).await;
            let mut state = self.state.borrow_mut();
            state.counters.compacted_after_read += 1;
            state.counters.media_errors += u64::from(read.is_err());
        }
        if self.drive.take_room().await.is_err() {
            return false;
        }
        self.write_page(&mut self.state.borrow_mut(), page);
        true
    }

    /// Moves the page's lines of the older half into the write buffer of the drive, where
    /// the caller has reserved room.
    fn write_page(&self, state: &mut State, page: u32) {
        let mask = state.log.as_ref().map_or(0, |log| log.old_mask(page));
        if mask == 0 {
            // The host has taken it meanwhile.
            self.drive.give_room_back();
            return;
        }
        let cached = state.cache.find(page);
        let merged = self.config.drive.flash.keep_contents.then(|| match cached {
            Some(slot) => payload(state.cache.contents(slot)),
            None => self.merged(state, page, mask),
        });
        self.drive.put_page(page, merged, Cause::LogCleaning);
        state.dram.move_lines(self.sim.now(), u64::from(LINES));
        if let Some(log) = &mut state.log {
            log.compacted(page);
        }
        state.counters.compacted_pages += 1;
        state.counters.compacted_from_cache += u64::from(cached.is_some());
        state.counters.compacted_lines += u64::from(mask.count_ones());
    }

    /// Contents of a page on the drive, overlaid with its lines of the older half. Lost
    /// lines that the log does not replace stay lost.
    fn merged(&self, state: &State, page: u32, mask: u64) -> Payload {
        let behind = self.drive.page(page);
        let lost = behind.lost() & !mask;
        let mut bytes: [u8; PAGE] = behind.to_bytes();
        if let Some(log) = &state.log {
            log.merge_old(page, |at, line| {
                let from = at as usize * 64;
                bytes[from..from + 64].copy_from_slice(&line);
            });
        }
        Payload::with_lost(bytes, lost)
    }
}
