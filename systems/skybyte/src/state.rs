//! State of the front, and its transitions that take no simulated time.
//!
//! Invariant: at every instant the value of a line is that of the first place below that has
//! it: a register whose page has arrived, or that accepted a write; the cache; the newer half
//! of the log; the older half; the drive's write buffer; flash; zeros. Each move from one
//! place to another is atomic in simulated time.

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

/// State and configuration shared by all tasks of the device.
pub(crate) struct Shared {
    pub(crate) sim: Sim,
    pub(crate) config: DeviceConfig,
    pub(crate) timing: Timing,
    pub(crate) drive: Drive,
    /// Capacity offered to the host, in pages of 4 KiB.
    pub(crate) pages: u32,
    pub(crate) state: RefCell<State>,
    /// Notified when a half of the log is full and must be compacted.
    pub(crate) compact: Signal,
    /// Notified when a reserved slot of the cache is filled or freed.
    pub(crate) placed: Signal,
    /// Snapshot taken when measuring began, or at power-on.
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
    /// Instant of the first refused write since there was room; `None` if none was refused.
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

    /// Byte address of line `at` of a cached page in the DRAM.
    #[inline]
    pub(crate) fn address(&self, slot: Slot, at: u32) -> u64 {
        self.cache.frame(slot) * PAGE as u64 + u64::from(at) * 64
    }

    /// Byte address of the log in the DRAM: it lies behind the cache.
    #[inline]
    pub(crate) fn log_address(&self) -> u64 {
        u64::from(self.cache.fill().1) * PAGE as u64
    }

    /// Contents of a page below cache and registers: the drive's, overlaid with the log's lines.
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

    /// Bit mask of the lines that the drive has lost and the log does not hold.
    pub(crate) fn lost_behind(&self, drive: &Drive, page: u32) -> u64 {
        if !self.keep_contents {
            return 0;
        }
        let logged = self.log.as_ref().map_or(0, |log| log.mask(page));
        drive.page(page).lost() & !logged
    }

    /// Queues [`FarEvent::Room`] if a write was refused and may now succeed. A log that is
    /// full has no room until a half of it is compacted, whatever else completes.
    pub(crate) fn tell_room(&mut self, now: Ns) {
        if self.log.as_ref().is_some_and(|log| !log.has_room()) {
            return;
        }
        if let Some(since) = self.refused.take() {
            self.counters.stall_time += now.since(since);
            self.events.push_back(FarEvent::Room);
        }
    }

    /// Counts a write that finds no room, and starts the stall time if none is running.
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

/// Outcome of a request for a cache slot.
pub(crate) enum Place {
    /// A free slot; its former page has been evicted.
    At(Slot),
    /// The victim must be written back, and the drive's write buffer has no room.
    NoRoom,
    /// Every way of the set is reserved for a page in flight.
    Taken,
}

/// Payload for the drive: no contents are written as zeros.
pub(crate) fn payload(contents: Contents) -> Payload {
    contents.map_or(Payload::Zero, Payload::Bytes)
}

impl Shared {
    /// Frees a slot for `page`, evicting its victim to the drive's write buffer if need be.
    /// `taken` says that the caller has reserved room there; a write-back clears it.
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

    /// Inserts the contents of a page below the cache, unless a slot would need waiting or a
    /// line of the page is lost.
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
