//! The device as the CXL link sees it: reads, writes and drops of lines and pages.

use crate::cache::{LINES, PAGE, Slot, Victim, line_of};
use crate::config::{ConfigError, DeviceConfig};
use crate::log::Log;
use crate::media::{DeviceMedia, FrontMedia};
use crate::metrics::Metrics;
use crate::mshr::{Mshr, Stage};
use crate::state::{Shared, State};
use memsys::{Far, FarEvent, Line, LineData, PageData, ReadReply, Tag};
use sim::{Seed, Signal, Sim};
use ssd::Drive;
use std::cell::RefCell;
use std::rc::Rc;
use units::{Bytes, Ns};

/// A CXL-SSD under power. Clones are handles to the same device.
#[derive(Clone)]
pub struct CxlSsd {
    shared: Rc<Shared>,
}

impl CxlSsd {
    /// Powers on; takes the power-on time of the drive.
    ///
    /// # Errors
    /// If `config` cannot be built, or `media` are of another one.
    pub async fn power_on(
        sim: &Sim,
        config: &DeviceConfig,
        media: DeviceMedia,
        seed: Seed,
    ) -> Result<Self, ConfigError> {
        let config = config.clone().checked()?;
        let drive = Drive::power_on(sim, &config.drive, media.drive, seed).await?;
        Self::over(sim, config, drive, media.front)
    }

    /// Powers on without taking time, for runs that begin with a ready device.
    ///
    /// # Errors
    /// If `config` cannot be built, or `media` are of another one.
    pub fn ready(
        sim: &Sim,
        config: &DeviceConfig,
        media: DeviceMedia,
        seed: Seed,
    ) -> Result<Self, ConfigError> {
        let config = config.clone().checked()?;
        let drive = Drive::ready(sim, &config.drive, media.drive, seed)?;
        Self::over(sim, config, drive, media.front)
    }

    fn over(
        sim: &Sim,
        config: DeviceConfig,
        drive: Drive,
        front: FrontMedia,
    ) -> Result<Self, ConfigError> {
        let (pages, lines) = (front.pages.clone(), front.lines.clone());
        let state = State::new(&config, front)?;
        let shared = Rc::new(Shared {
            sim: sim.clone(),
            timing: config.drive.timing()?,
            pages: drive.layout().host_pages,
            config,
            drive,
            state: RefCell::new(state),
            compact: Signal::default(),
            placed: Signal::default(),
            before: RefCell::default(),
        });
        let mut device = Self { shared };
        for (page, contents) in pages {
            let mut state = device.shared.state.borrow_mut();
            let Victim::None(slot) = state.cache.victim(page) else {
                let what = "more pages of a set than the cache";
                return Err(ConfigError::Media { what });
            };
            state.cache.insert(slot, page, contents, false);
            state.cache.set_dirty(slot);
        }
        for (page, at, data) in lines {
            if !device.take_in(page, at, data) {
                let what = "more pages on their way than registers";
                return Err(ConfigError::Media { what });
            }
        }
        let compactor = Rc::clone(&device.shared);
        sim.spawn_detached(compactor.compact_for_ever());
        device.begin(sim.now());
        Ok(device)
    }

    /// Writes a line through the cache. Returns whether there was room.
    fn take_in(&self, page: u32, at: u32, data: LineData) -> bool {
        let start = self.shared.sim.now();
        let mut state = self.shared.state.borrow_mut();
        let place = (page, at);
        self.shared.cached_write(&mut state, start, place, data)
    }

    /// The checked configuration that the device was powered on with.
    #[must_use]
    pub fn config(&self) -> &DeviceConfig {
        &self.shared.config
    }

    /// The page-mapped drive behind the front.
    #[must_use]
    pub fn drive(&self) -> &Drive {
        &self.shared.drive
    }

    /// Capacity offered to the host, in whole pages of 4 KiB.
    #[must_use]
    pub fn capacity(&self) -> Bytes {
        Bytes(u64::from(self.shared.pages) * PAGE as u64)
    }

    /// Counters since power-on, and fill levels of the DRAM now.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let state = self.shared.state.borrow();
        let log = state.log.as_ref();
        Metrics {
            front: state.counters,
            drive: self.shared.drive.ledger(),
            index_bytes: log.map_or(0, Log::index_bytes),
            most_index_bytes: log.map_or(0, Log::most_index_bytes),
            log_entries: log.map_or(0, |log| log.fill().0),
            cached_pages: state.cache.fill().0,
            hot_threshold: state.promotion.threshold(),
            stays: state.cache.stays().clone(),
        }
    }

    /// [`CxlSsd::metrics`] as they were when measuring began, or at power-on.
    #[must_use]
    pub fn metrics_before(&self) -> Metrics {
        self.shared.before.borrow().clone()
    }

    /// Media that a power cut at this instant leaves: flash, and the battery-backed DRAM.
    #[must_use]
    pub fn at_power_cut(&self) -> DeviceMedia {
        let state = self.shared.state.borrow();
        let keeps = self.shared.config.drive.flash.keep_contents;
        let mut lines = Vec::new();
        for (page, mshr) in state.mshrs.busy() {
            let written = mshr.writes.iter();
            lines.extend(written.map(|(&at, &data)| (page, at, data)));
            if mshr.stage == Stage::Arrived && mshr.dirty {
                for at in (0..LINES).filter(|at| mshr.lost >> at & 1 == 0) {
                    let line = line_of(mshr.contents.as_ref(), at);
                    lines.push((page, at, keeps.then_some(line)));
                }
            }
        }
        DeviceMedia {
            drive: self.shared.drive.at_power_cut(),
            front: FrontMedia {
                pages: state.cache.dirty_pages(),
                lines,
                log: state.log.as_ref().map(Log::kept),
            },
        }
    }

    /// Drops a page from cache, log and registers, as the host now holds it. Returns the bit
    /// mask of the lines that flash does not have: only the host has them now, so it must
    /// write them back even if it changes none.
    //= skybyte 3.3
    pub fn drop_page(&mut self, page: u64) -> u64 {
        let Ok(page) = u32::try_from(page) else {
            return 0;
        };
        if page >= self.shared.pages {
            return 0;
        }
        let mut state = self.shared.state.borrow_mut();
        let mut lines = state.log.as_mut().map_or(0, |log| log.nullify(page));
        if let Some(slot) = state.cache.find(page) {
            if state.cache.is_dirty(slot) {
                lines = u64::MAX;
            }
            state.cache.remove(slot);
        }
        let behind = match state.mshrs.get(page).map(|mshr| mshr.stage) {
            Some(Stage::Arrived) => {
                let drive = &self.shared.drive;
                let lost = state.lost_behind(drive, page);
                (state.contents_behind(drive, page), lost)
            }
            _ => (None, 0),
        };
        if let Some(mshr) = state.mshrs.get_mut(page) {
            // Blocked reads must still find the lines written before them.
            lines |= mshr.alone();
            (mshr.keep, mshr.dirty) = (false, false);
            mshr.contents = behind.0;
            mshr.lost |= behind.1;
        }
        state.counters.dropped_pages += 1;
        state.counters.dropped_lines += u64::from(lines.count_ones());
        lines
    }

    /// Panics if an invariant of the front or of the drive does not hold.
    pub fn check(&self) {
        self.shared.state.borrow().check();
        self.shared.drive.check();
    }

    /// Whether a write to a page would need an MSHR while none is free.
    fn wants_register(&self, page: u32) -> bool {
        let state = self.shared.state.borrow();
        state.log.is_none()
            && !state.mshrs.has_free()
            && state.mshrs.get(page).is_none()
            && state.cache.find(page).is_none()
            && self.shared.drive.is_on_flash(page)
    }

    /// Splits a line number into page and line in the page; `None` beyond the capacity.
    #[inline]
    fn split(&self, line: Line) -> Option<(u32, u32)> {
        let page = line.0 / u64::from(LINES);
        let at = (line.0 % u64::from(LINES)) as u32;
        (page < u64::from(self.shared.pages)).then_some((page as u32, at))
    }
}

impl Shared {
    /// Time of the parallel look-ups in log and cache.
    #[inline]
    fn both_lookups(&self, state: &State) -> Ns {
        let lookup = &self.config.lookup;
        match &state.log {
            Some(_) => lookup.log.max(lookup.cache),
            None => lookup.cache,
        }
    }

    /// Reads a line of a cached page.
    #[inline]
    fn hit(
        self: &Rc<Self>,
        state: &mut State,
        now: Ns,
        slot: Slot,
        (page, at): (u32, u32),
    ) -> ReadReply {
        state.counters.cache_hits += 1;
        let looked = now + self.config.lookup.cache;
        let time = state.dram.access(looked, state.address(slot, at));
        state.cache.note_read(slot, 1 << at);
        self.used(state, looked, slot, page, time);
        ReadReply::Data(time, state.cache.line(slot, at))
    }

    /// Updates recency, heat and prefetcher after an access to a cached page; `time` is when
    /// its data is ready. Reports the page to the host if it is hot now.
    #[inline]
    fn used(self: &Rc<Self>, state: &mut State, looked: Ns, slot: Slot, page: u32, time: Ns) {
        let was_ahead = state.cache.touch(slot);
        if state.promotion.is_on() && state.promotion.access(state.cache.heat(slot)) {
            state.counters.hot += 1;
            state.events.push_back(FarEvent::Hot(u64::from(page), time));
        }
        if was_ahead {
            state.counters.prefetches_used += 1;
            self.fetch_ahead(state, looked, page);
        }
    }

    /// Appends a line to the log, and updates the page in the cache or in its register.
    /// Returns when the write is done, or `None` if the log has no room.
    //= skybyte 3.2
    fn logged_write(
        self: &Rc<Self>,
        state: &mut State,
        now: Ns,
        (page, at): (u32, u32),
        data: LineData,
    ) -> Option<Ns> {
        let start = self.before_write(state, now);
        let base = state.log_address();
        let log = state.log.as_mut().filter(|log| log.has_room());
        let Some(log) = log else {
            state.refuse(now);
            return None;
        };
        let address = base + log.tail_address();
        if log.append(page, at, data) {
            self.compact.notify(&self.sim);
        }
        let mut time = state.dram.access(start, address);
        if let Some(slot) = state.cache.find(page) {
            state.counters.write_hits += 1;
            state.cache.set_line(slot, at, data);
            state.cache.note_written(slot, 1 << at);
            let updated = state.dram.access(start, state.address(slot, at));
            time = time.max(updated);
            self.used(state, start, slot, page, time);
        } else if let Some(mshr) = state.mshrs.get_mut(page)
            && mshr.stage == Stage::Arrived
        {
            mshr.set_line(at, data);
        }
        Some(time)
    }

    #[inline]
    fn before_write(&self, state: &State, now: Ns) -> Ns {
        match self.config.lookup.before_writes {
            true => now + self.both_lookups(state),
            false => now,
        }
    }

    /// Writes a line through the cache; a missing page is fetched from `start` on. Returns
    /// whether there was room. Without a free MSHR the page queues for one in request order,
    /// as pages of reads do, so that the retried write is not behind all reads since.
    fn cached_write(
        self: &Rc<Self>,
        state: &mut State,
        start: Ns,
        (page, at): (u32, u32),
        data: LineData,
    ) -> bool {
        if let Some(mshr) = state.mshrs.get_mut(page) {
            if mshr.stage == Stage::Queued {
                return false;
            }
            state.counters.write_misses += 1;
            (mshr.keep, mshr.ahead) = (true, false);
            mshr.written |= 1 << at;
            if mshr.stage == Stage::Arrived {
                mshr.dirty = true;
                mshr.set_line(at, data);
            } else {
                mshr.writes.insert(at, data);
            }
            return true;
        }
        let mut slot = state.cache.find(page);
        state.counters.write_hits += u64::from(slot.is_some());
        if slot.is_none() && !self.drive.is_on_flash(page) {
            slot = self.try_install(state, page);
        }
        if let Some(slot) = slot {
            state.cache.set_line(slot, at, data);
            state.cache.note_written(slot, 1 << at);
            state.cache.set_dirty(slot);
            return true;
        }
        let has_room = state.mshrs.has_free();
        state.counters.write_misses += u64::from(has_room);
        let mut mshr = Mshr::new(start, start + self.expect(page).time, false);
        if has_room {
            mshr.writes.insert(at, data);
            mshr.written = 1 << at;
        }
        self.open(state, page, mshr);
        has_room
    }
}

impl CxlSsd {
    /// Reads a line. A long read gets a delay hint if `takes_hints`, and blocks otherwise.
    fn read_for(&mut self, now: Ns, line: Line, tag: Tag, takes_hints: bool) -> ReadReply {
        let place = self.split(line);
        let mut state = self.shared.state.borrow_mut();
        let state = &mut *state;
        let Some((page, at)) = place else {
            state.counters.out_of_range += 1;
            return ReadReply::Data(now + self.shared.config.lookup.cache, None);
        };
        state.counters.reads += 1;
        if let Some(slot) = state.cache.find(page) {
            return self.shared.hit(state, now, slot, (page, at));
        }
        let looked = now + self.shared.both_lookups(state);
        if let Some((address, data)) = state.log.as_ref().and_then(|log| log.load(page, at)) {
            state.counters.log_hits += 1;
            let time = state.dram.access(looked, state.log_address() + address);
            return ReadReply::Data(time, data);
        }
        let asker = (tag, takes_hints);
        self.shared.miss(state, looked, (page, at), asker)
    }

    /// Reads a line in cache or log for a page copy to the host. The copy leaves recency,
    /// heat and counters alone, as the page is about to leave.
    //= skybyte 3.3
    fn copy_at_hand(&self, now: Ns, line: Line) -> Option<ReadReply> {
        let (page, at) = self.split(line)?;
        let mut state = self.shared.state.borrow_mut();
        let state = &mut *state;
        if let Some(slot) = state.cache.find(page) {
            let looked = now + self.shared.config.lookup.cache;
            let time = state.dram.access(looked, state.address(slot, at));
            return Some(ReadReply::Data(time, state.cache.line(slot, at)));
        }
        let (address, data) = state.log.as_ref()?.load(page, at)?;
        let looked = now + self.shared.both_lookups(state);
        let time = state.dram.access(looked, state.log_address() + address);
        Some(ReadReply::Data(time, data))
    }
}

impl Far for CxlSsd {
    fn copy_read(&mut self, now: Ns, line: Line, tag: Tag) -> ReadReply {
        let copied = self.copy_at_hand(now, line);
        copied.unwrap_or_else(|| self.read_for(now, line, tag, false))
    }

    fn read(&mut self, now: Ns, line: Line, tag: Tag) -> ReadReply {
        self.read_for(now, line, tag, true)
    }

    fn read_to_wait(&mut self, now: Ns, line: Line, tag: Tag) -> ReadReply {
        self.read_for(now, line, tag, false)
    }

    fn write_page(&mut self, now: Ns, page: u64, data: Option<&PageData>) -> Option<Ns> {
        // A write of a whole page needs no flash read. Without a free MSHR it is refused before
        // its first line.
        let is_page = u32::try_from(page).is_ok_and(|page| page < self.shared.pages);
        if is_page && self.wants_register(page as u32) {
            self.shared.state.borrow_mut().refuse(now);
            return None;
        }
        let mut done = now;
        for at in 0..u64::from(LINES) {
            let line = data.map(|lines| lines[at as usize]);
            done = done.max(self.write(now, Line(page * u64::from(LINES) + at), line)?);
        }
        Some(done)
    }

    fn write(&mut self, now: Ns, line: Line, data: LineData) -> Option<Ns> {
        let place = self.split(line);
        let mut state = self.shared.state.borrow_mut();
        let state = &mut *state;
        let Some(place) = place else {
            state.counters.out_of_range += 1;
            return Some(now);
        };
        let written = match &state.log {
            Some(_) => self.shared.logged_write(state, now, place, data),
            None => self.shared.unlogged_write(state, now, place, data),
        };
        state.counters.writes += u64::from(written.is_some());
        written
    }

    fn event(&mut self) -> Option<FarEvent> {
        self.shared.state.borrow_mut().events.pop_front()
    }

    fn dropped(&mut self, _: Ns, page: u64) -> u64 {
        self.drop_page(page)
    }

    fn begin(&mut self, _: Ns) {
        self.shared.before.replace(self.metrics());
    }
}

impl Shared {
    /// [`Shared::cached_write`] with its completion time and the access updates of the page.
    fn unlogged_write(
        self: &Rc<Self>,
        state: &mut State,
        now: Ns,
        (page, at): (u32, u32),
        data: LineData,
    ) -> Option<Ns> {
        let start = self.before_write(state, now);
        if !self.cached_write(state, start, (page, at), data) {
            state.refuse(now);
            return None;
        }
        let slot = state.cache.find(page);
        let address = slot.map_or(u64::from(page) * PAGE as u64, |slot| {
            state.address(slot, at)
        });
        let time = state.dram.access(start, address);
        if let Some(slot) = slot {
            self.used(state, start, slot, page, time);
        }
        Some(time)
    }
}
