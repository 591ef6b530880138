//! What the front knows, and its steps that take no time.
//!
//! Invariant: at every instant a line is what the first of these has of it that has any:
//! a register whose page has arrived, or that took in a write; the cache; the newer half
//! of the log; the older half; the drive's write buffer; flash; zeros. Each step from one
//! of these places to another is one instant.

use crate::cache::{Cache, Contents, LINES, PAGE, Slot, Victim};
use crate::config::{ConfigError, DeviceConfig};
use crate::log::Log;
use crate::media::FrontMedia;
use crate::metrics::{Counters, Metrics};
use crate::mshr::Mshrs;
use crate::prefetch::Prefetcher;
use crate::promote::Promotion;
use crate::{cache, dram::Dram};
use memsys::FarEvent;
use nand::{Payload, Timing};
use sim::{Signal, Sim};
use ssd::{Cause, Drive};
use std::cell::RefCell;
use std::collections::VecDeque;
use units::Ns;

/// What all tasks of the device share.
pub(crate) struct Shared {
    pub(crate) sim: Sim,
    pub(crate) config: DeviceConfig,
    pub(crate) timing: Timing,
    pub(crate) drive: Drive,
    /// Pages that the host may use.
    pub(crate) pages: u32,
    pub(crate) state: RefCell<State>,
    /// A half of the log has to be compacted.
    pub(crate) compact: Signal,
    /// A place of the cache is kept no longer.
    pub(crate) placed: Signal,
    /// What had been counted when measuring began.
    pub(crate) before: RefCell<Metrics>,
}

pub(crate) struct State {
    pub(crate) cache: Cache,
    pub(crate) log: Option<Log>,
    pub(crate) mshrs: Mshrs,
    pub(crate) dram: Dram,
    pub(crate) prefetcher: Prefetcher,
    pub(crate) promotion: Promotion,
    pub(crate) events: VecDeque<FarEvent>,
    /// Since when a write is refused for which no room was made.
    pub(crate) refused: Option<Ns>,
    pub(crate) counters: Counters,
    keep_contents: bool,
}

impl State {
    pub(crate) fn new(config: &DeviceConfig, front: FrontMedia) -> Result<Self, ConfigError> {
        let keep_contents = config.drive.flash.keep_contents;
        let log = match (config.has_log(), front.log) {
            (false, None) => None,
            (true, None) => Some(Log::new(&config.log, keep_contents)),
            (true, Some(kept)) => {
                let log = Log::recovered(&config.log, kept);
                Some(log.ok_or(ConfigError::Media { what: "a log" })?)
            }
            (false, Some(_)) => return Err(ConfigError::Media { what: "a log" }),
        };
        Ok(Self {
            cache: Cache::new(&config.cache, config.cached_pages(), keep_contents),
            log,
            mshrs: Mshrs::new(config.cache.mshrs),
            dram: Dram::new(&config.dram),
            prefetcher: Prefetcher::new(config.cache.prefetch),
            promotion: Promotion::new(config.promotion),
            events: VecDeque::new(),
            refused: None,
            counters: Counters::default(),
            keep_contents,
        })
    }

    /// Address of a line in the cache's part of the DRAM.
    #[inline]
    pub(crate) fn address(&self, slot: Slot, at: u32) -> u64 {
        self.cache.frame(slot) * PAGE as u64 + u64::from(at) * 64
    }

    /// Address of the log in the DRAM, which lies behind the cache.
    #[inline]
    pub(crate) fn log_address(&self) -> u64 {
        u64::from(self.cache.fill().1) * PAGE as u64
    }

    /// What a page holds that is neither in the cache nor in a register.
    pub(crate) fn contents_behind(&self, drive: &Drive, page: u32) -> Contents {
        if !self.keep_contents {
            return None;
        }
        let mut contents = match drive.page(page) {
            Payload::Zero => None,
            Payload::Bytes(bytes) => Some(bytes),
            other => Some(std::sync::Arc::new(other.to_bytes())),
        };
        if let Some(log) = &self.log {
            log.merge(page, |at, line| cache::set_line(&mut contents, at, &line));
        }
        contents
    }

    /// Lines of a page whose contents are lost, a bit each.
    pub(crate) fn lost_behind(&self, drive: &Drive, page: u32) -> u64 {
        if !self.keep_contents {
            return 0;
        }
        let logged = self.log.as_ref().map_or(0, |log| log.mask(page));
        drive.page(page).lost() & !logged
    }

    /// Tells that a refused write may come again, if one was and there may be room. A log
    /// has none before a half of it is compacted, whatever ends besides.
    pub(crate) fn tell_room(&mut self, now: Ns) {
        if self.log.as_ref().is_some_and(|log| !log.has_room()) {
            return;
        }
        if let Some(since) = self.refused.take() {
            self.counters.stall_time += now.since(since);
            self.events.push_back(FarEvent::Room);
        }
    }

    /// A write finds no room.
    pub(crate) fn refuse(&mut self, now: Ns) {
        self.counters.stalls += 1;
        self.refused.get_or_insert(now);
    }

    /// Panics if an invariant does not hold.
    pub(crate) fn check(&self) {
        self.cache.check();
        self.mshrs.check();
        if let Some(log) = &self.log {
            log.check();
            let owns = self.cache.dirty_pages().is_empty();
            assert!(owns, "the log has all that flash has not");
        }
        let cached = |&(page, _): &(u32, _)| self.cache.find(page).is_some();
        assert!(!self.mshrs.busy().any(|entry| cached(&entry)));
    }
}

/// Whether a page can have a place in the cache.
pub(crate) enum Place {
    /// Here; the slot is free.
    At(Slot),
    /// Once the write buffer of the drive has room for what has to go.
    NoRoom,
    /// Once one of the pages has come for which all places are kept.
    Taken,
}

/// What a page is written back as.
pub(crate) fn payload(contents: Contents) -> Payload {
    contents.map_or(Payload::Zero, Payload::Bytes)
}

impl Shared {
    /// A slot for `page`, out of which another page may have to go to the write buffer of
    /// the drive; room there that was taken before is in `taken`.
    pub(crate) fn make_slot(&self, state: &mut State, page: u32, taken: &mut bool) -> Place {
        let writes_clean = self.config.cache.clean_write_back && state.log.is_none();
        let (slot, victim, cause_counter) = match state.cache.victim(page) {
            Victim::None(slot) => return Place::At(slot),
            Victim::Coming => return Place::Taken,
            Victim::Clean(slot, _) if !writes_clean => {
                state.cache.evict(slot);
                return Place::At(slot);
            }
            Victim::Clean(slot, victim) => (slot, victim, &mut state.counters.clean_evictions),
            Victim::Dirty(slot, victim) => (slot, victim, &mut state.counters.evictions),
        };
        if !*taken && !self.drive.try_room() {
            return Place::NoRoom;
        }
        *taken = false;
        *cause_counter += 1;
        let contents = state.cache.evict(slot);
        self.drive
            .put_page(victim, Some(payload(contents)), Cause::Eviction);
        state.dram.move_lines(self.sim.now(), u64::from(LINES));
        Place::At(slot)
    }

    /// Puts what a page holds into the cache at once, if there is room without waiting and
    /// nothing of it is lost.
    pub(crate) fn try_install(&self, state: &mut State, page: u32) -> Option<Slot> {
        if state.lost_behind(&self.drive, page) != 0 {
            return None;
        }
        let mut taken = false;
        let Place::At(slot) = self.make_slot(state, page, &mut taken) else {
            return None;
        };
        let contents = state.contents_behind(&self.drive, page);
        state.cache.insert(slot, page, contents, false);
        state.dram.move_lines(self.sim.now(), u64::from(LINES));
        Some(slot)
    }
}
