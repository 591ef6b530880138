//! The drive as a host uses it: power-on, commands, counters, power cut and shutdown.

use crate::ahead::ReadAhead;
use crate::collect;
use crate::config::{ConfigError, DriveConfig};
use crate::credits::Credits;
use crate::fdp::EventLogs;
use crate::front::{Front, FrontMedia};
use crate::frontier::Kind;
use crate::jobs::Jobs;
use crate::journal::Journal;
use crate::layout::{Layout, NONE};
use crate::ledger::{Ledger, Smart};
use crate::line::{Line, LineReport, LineState};
use crate::map::Where;
use crate::mapcache::MapCache;
use crate::media::{DriveMedia, Dump};
use crate::observed::Observed;
use crate::policy::Policies;
use crate::raw::Chunks;
use crate::recover;
use crate::state::State;
use crate::turns::Turns;
use crate::wlog::LINE;
use crate::zoned::{self, ZoneStatus, Zones};
use nand::{Counters, Nand, Payload, UNIT};
use sim::{Seed, Semaphore, Signal, Sim};
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use units::{Bytes, Extent, Ns, Origin, Placement, SECTOR};

/// Content of a write.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// Content that is not kept; it reads as zeros.
    Nothing,
    /// A 64-bit pattern, repeated over the extent.
    Fill(u64),
    /// The bytes of the extent; as many as the extent has.
    Bytes(&'a [u8]),
    /// One payload for each 4,096 bytes of the extent, in payload-aligned steps. A drive of blocks
    /// accepts an extent that starts or ends within a payload, and uses that payload in part.
    Sectors(&'a [Payload]),
}

/// Receiver of the contents of a read.
pub trait Sink {
    /// Whether the sink uses contents; if not, the drive only spends the time of the read.
    fn is_wanted(&self) -> bool {
        true
    }

    /// Receives `len` bytes at `offset` of the extent: those of `payload` from its byte `from` on.
    fn take(&mut self, offset: usize, len: usize, payload: &Payload, from: usize);
}

/// Discards the contents; only the time of the read matters.
impl Sink for () {
    fn is_wanted(&self) -> bool {
        false
    }

    fn take(&mut self, _: usize, _: usize, _: &Payload, _: usize) {}
}

impl Sink for &mut [u8] {
    fn take(&mut self, offset: usize, len: usize, payload: &Payload, from: usize) {
        let _ = payload.copy_to(from, &mut self[offset..offset + len]);
    }
}

/// Receives contents as they are stored: one payload for each 4,096 bytes of an extent that is
/// aligned to payloads.
impl Sink for &mut [Payload] {
    fn take(&mut self, offset: usize, len: usize, payload: &Payload, from: usize) {
        assert!(from == 0 && len == UNIT, "the extent covers whole payloads");
        self[offset / UNIT] = payload.clone();
    }
}

/// A sink of any kind, for ports that are called through a table.
impl Sink for &mut dyn Sink {
    fn is_wanted(&self) -> bool {
        (**self).is_wanted()
    }

    fn take(&mut self, offset: usize, len: usize, payload: &Payload, from: usize) {
        (**self).take(offset, len, payload, from);
    }
}

/// Error of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum IoError {
    /// The extent reaches past the end of the drive.
    #[error("sectors {first} to {last} reach past the end of the drive, which has {sectors}")]
    OutOfRange {
        /// First sector of the command.
        first: u64,
        /// Last sector of the command.
        last: u64,
        /// Sectors that the drive has.
        sectors: u64,
    },
    /// The flash returned more bit errors than can be corrected.
    #[error("unrecovered read error at sector {0}")]
    Media(u64),
    /// The placement handle does not exist.
    #[error("placement {0} does not exist; the drive has {1}")]
    Placement(u16, u32),
    /// Too many blocks went bad, so that no line can become free.
    #[error("the drive is out of spare blocks and has become read-only")]
    ReadOnly,
    /// A zone rejected the command, or its flash failed.
    #[error(transparent)]
    Zone(#[from] ZoneStatus),
}

/// State shared by all tasks and jobs of the firmware.
pub(crate) struct Core {
    pub(crate) me: Weak<Self>,
    pub(crate) sim: Sim,
    pub(crate) config: DriveConfig,
    pub(crate) layout: Layout,
    pub(crate) nand: Rc<Nand>,
    pub(crate) jobs: Jobs,
    pub(crate) state: RefCell<State>,
    pub(crate) journal: RefCell<Journal>,
    pub(crate) map_cache: Option<MapCache>,
    /// Read-ahead; `None` on a drive without.
    pub(crate) ahead: Option<RefCell<ReadAhead>>,
    pub(crate) turns: Turns,
    /// Credits of collection; `None` if it does not pace the host.
    pub(crate) credits: Option<Credits>,
    /// Free pages of the write buffer.
    pub(crate) buffer: Semaphore,
    /// For each group: copies that collection may still put into the buffer.
    pub(crate) window: Vec<Semaphore>,
    /// For each frontier: it may have slots to write.
    pub(crate) work: Vec<Signal>,
    /// For each group: collection may have to run.
    pub(crate) collect: Vec<Signal>,
    /// For each group: collection has begun and continues for its batch.
    pub(crate) in_batch: Vec<Cell<bool>>,
    /// A line became free, or the drive read-only.
    pub(crate) space: Signal,
    /// A program or the last read of a line has completed.
    pub(crate) progress: Signal,
    pub(crate) read_only: Cell<bool>,
    pub(crate) smart: Cell<Smart>,
    /// Event logs of an FDP drive; `None` for any other.
    pub(crate) fdp: Option<RefCell<EventLogs>>,
    /// Dump that recovery replays; kept so that it survives a cut during recovery.
    pub(crate) dump: RefCell<Option<Dump>>,
    /// Front of a byte-addressable drive; `None` for any other.
    pub(crate) front: Option<Front>,
    /// Policies of the caller that replace the firmware's own.
    pub(crate) policies: RefCell<Policies>,
    pub(crate) observed: Observed,
}

impl Core {
    /// Firmware with the state that the flash and the saved memory hold.
    fn new(
        sim: &Sim,
        layout: Layout,
        config: &DriveConfig,
        nand: Rc<Nand>,
        (dump, front, smart): (Option<Dump>, &FrontMedia, Smart),
    ) -> Rc<Self> {
        let (state, journal) = recover::rebuild(&layout, config, &nand, dump.as_ref());
        let frontiers = state.frontiers.len();
        let window = collect::window(&layout, config, frontiers as u32) as usize;
        let program = u64::from(layout.unit) * layout.page_bytes();
        let rate = config.controller.limits.program_bytes_per_s;
        let core = Rc::new_cyclic(|me: &Weak<Self>| Self {
            me: me.clone(),
            sim: sim.clone(),
            config: config.clone(),
            turns: Turns::new(rate, program),
            credits: config.collection.paced.then(|| Credits::new(layout.groups)),
            buffer: Semaphore::new(sim, layout.buffer_pages as usize),
            window: (0..layout.groups)
                .map(|_| Semaphore::new(sim, window))
                .collect(),
            work: (0..frontiers).map(|_| Signal::default()).collect(),
            collect: (0..layout.groups).map(|_| Signal::default()).collect(),
            in_batch: (0..layout.groups).map(|_| Cell::default()).collect(),
            space: Signal::default(),
            progress: Signal::default(),
            read_only: Cell::new(false),
            smart: Cell::new(smart),
            fdp: EventLogs::new(config.interface),
            map_cache: MapCache::new(config, &layout),
            ahead: ReadAhead::of(config.read_streams()).map(RefCell::new),
            jobs: Jobs::new(sim.enroll(me.clone())),
            state: RefCell::new(state),
            journal: RefCell::new(journal),
            front: Front::new(sim, config, &layout, front),
            dump: RefCell::new(dump),
            policies: RefCell::default(),
            observed: Observed::default(),
            nand,
            layout,
        });
        core.nand.serve(core.me.clone());
        core
    }
}

/// A drive under power.
#[derive(Clone)]
pub struct Drive {
    pub(crate) core: Rc<Core>,
    /// Zones of a zoned drive; `core` then has its conventional zones.
    pub(crate) zones: Option<Zones>,
    /// Chunks of an open-channel drive; `core` then maps nothing.
    pub(crate) raw: Option<Chunks>,
}

impl Drive {
    /// Powers on, and takes the time of reading spare areas and journal.
    ///
    /// # Errors
    /// If `config` cannot be built.
    pub async fn power_on(
        sim: &Sim,
        config: &DriveConfig,
        media: DriveMedia,
        seed: Seed,
    ) -> Result<Self, ConfigError> {
        let drive = Self::prepare(sim, config, media, seed)?;
        crate::poweron::read_spares(&drive.core).await;
        if let Some(zones) = &drive.zones {
            zones.inner.repair().await;
        }
        if let Some(chunks) = &drive.raw {
            chunks.inner.read_spares().await;
        }
        drive.start();
        Ok(drive)
    }

    /// Powers on without taking time, for runs that start with a ready drive.
    ///
    /// # Errors
    /// If `config` cannot be built.
    pub fn ready(
        sim: &Sim,
        config: &DriveConfig,
        media: DriveMedia,
        seed: Seed,
    ) -> Result<Self, ConfigError> {
        let drive = Self::prepare(sim, config, media, seed)?;
        if let Some(zones) = &drive.zones {
            zones.inner.repair_at_once();
        }
        drive.start();
        Ok(drive)
    }

    /// Installs `policies`; they apply to every choice from now on.
    pub fn follow(&self, policies: Policies) {
        self.core.policies.replace(policies);
    }

    /// A drive with rebuilt state, before its dump is restored and its firmware tasks start.
    pub(crate) fn prepare(
        sim: &Sim,
        config: &DriveConfig,
        media: DriveMedia,
        seed: Seed,
    ) -> Result<Self, ConfigError> {
        let layout = Layout::new(config)?;
        let (whole, kept) = (config, media.zones);
        let config = &zoned::conventional(whole)?;
        let (timing, endurance) = (config.timing()?, config.endurance()?);
        let mut smart = media.smart;
        smart.power_cycles += 1;
        let nand = Nand::new(
            sim,
            media.cells,
            timing,
            endurance,
            config.faults,
            config.flash.discipline(),
            seed,
        );
        if config.flash.page_registers {
            nand.read_from_registers();
        }
        let saved = (media.dump, &media.front, smart);
        let core = Core::new(sim, layout, config, nand, saved);
        let zones = Zones::new(&core, whole, kept)?;
        let raw = Chunks::new(&core, whole)?;
        Ok(Self { core, zones, raw })
    }

    /// Starts the firmware's tasks and restores the saved buffer.
    fn start(&self) {
        let core = &self.core;
        if let Some(zones) = &self.zones {
            zones.inner.start();
        }
        if core.layout.lines() == 0 {
            return;
        }
        for frontier in (0..core.work.len()).filter(|at| *at != core.journal_frontier()) {
            let core = Rc::clone(core);
            let writer = async move { core.write_frontier(frontier).await };
            self.core.sim.spawn_detached(writer);
        }
        for group in 0..core.layout.groups {
            let core = Rc::clone(core);
            let collector = async move { core.collect_group(group).await };
            self.core.sim.spawn_detached(collector);
        }
        let journal = Rc::clone(core);
        self.core
            .sim
            .spawn_detached(async move { journal.write_journal().await });
        let watched = Rc::downgrade(core);
        let gives_up = move || watched.upgrade().is_some_and(|core| core.give_up_at_rest());
        self.core.sim.add_watchdog(gives_up);
        if self.has_bytes() {
            let cleaner = Rc::clone(core);
            self.core
                .sim
                .spawn_detached(async move { cleaner.clean_in_background().await });
        }
        core.restore_dump();
    }

    /// Bytes that the drive's addresses cover: those that the host may use, and on a zoned drive
    /// also those between the capacity and the size of each zone.
    #[must_use]
    pub fn capacity(&self) -> Bytes {
        self.config().address_space()
    }

    /// Configuration of the whole drive, zones and chunks included.
    #[must_use]
    pub fn config(&self) -> &DriveConfig {
        match (&self.zones, &self.raw) {
            (Some(zones), _) => &zones.inner.config,
            (None, Some(chunks)) => &chunks.inner.config,
            (None, None) => &self.core.config,
        }
    }

    /// Resolved sizes of the page-mapped part.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.core.layout
    }

    /// Traffic and work counted since power-on.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        self.core.state.borrow().ledger.clone()
    }

    /// Counters over the drive's life, up to now.
    #[must_use]
    pub fn smart(&self) -> Smart {
        let ledger = &self.core.state.borrow().ledger;
        let mut smart = self.core.smart.get();
        let lines = |lines: u64| lines * LINE as u64 / SECTOR;
        let loaded = lines(ledger.bytes.load_hits + ledger.bytes.load_misses);
        smart.host_read_sectors += ledger.host_read_sectors + loaded;
        let stored = lines(ledger.bytes.stored_lines);
        smart.host_write_sectors += ledger.host_write_sectors + stored;
        smart.programmed_pages += ledger.programmed_pages();
        smart.user_pages += ledger.user_pages();
        smart.erased_blocks += self.core.nand.counters().erase_blocks;
        smart
    }

    /// Operations of the flash since power-on.
    #[must_use]
    pub fn flash_counters(&self) -> Counters {
        self.core.nand.counters()
    }

    /// Busy time of all dies, and of all channels, summed.
    #[must_use]
    pub fn flash_busy(&self) -> (Ns, Ns) {
        self.core.nand.busy()
    }

    /// Free lines over all groups; on an open-channel drive, free chunks.
    #[must_use]
    pub fn free_lines(&self) -> u32 {
        if let Some(chunks) = &self.raw {
            return chunks.free();
        }
        let state = self.core.state.borrow();
        let groups = 0..self.core.layout.groups;
        groups.map(|group| state.lines.free_count(group)).sum()
    }

    /// The current state of each line, by line number.
    #[must_use]
    pub fn lines(&self) -> Vec<LineReport> {
        let state = self.core.state.borrow();
        let lines = state.lines.lines.iter();
        let (now, pages) = (state.in_flight.next(), self.core.layout.line_data);
        let report = |line: &Line| {
            let kind = state.frontiers[usize::from(line.frontier)].kind;
            let written = !matches!(line.state, LineState::Free | LineState::Retired);
            LineReport {
                state: line.state,
                valid: line.valid,
                pages,
                age: match line.state {
                    LineState::Closed | LineState::Collecting => now - line.closed,
                    _ => 0,
                },
                erases: line.erases,
                handle: if written {
                    self.core.owner(&state, line.frontier)
                } else {
                    None
                },
                moved: written && matches!(kind, Kind::Moved(_) | Kind::MovedMap),
            }
        };
        lines.map(report).collect()
    }

    /// The line that holds the newest version of a mapped page; `None` if it is only in the buffer
    /// or unmapped. For test oracles.
    #[must_use]
    pub fn line_of(&self, page: u32) -> Option<u32> {
        let state = self.core.state.borrow();
        let place = match state.map.get(page) {
            Where::Flash(place) => place,
            Where::Buffer(slot) => state.slots.get(slot).place,
            Where::Nowhere => NONE,
        };
        (place != NONE).then(|| self.core.layout.line_of(place).0)
    }

    /// Contents of the newest durable or buffered version of a mapped page; `None` if it is
    /// unmapped. In sequential zones a page is a sector of 4 KiB. On an open-channel drive the
    /// contents are those that the host's mapping shows ([`Chunks::show`]). For test oracles.
    #[must_use]
    pub fn peek(&self, page: u32) -> Option<Vec<Payload>> {
        if let Some(chunks) = &self.raw {
            return chunks.view(page).map(|sector| vec![sector]);
        }
        let sector = self.zones().and_then(|zones| zones.peek(page));
        match sector {
            Some(sector) => Some(vec![sector]),
            None => self.core.newest(page),
        }
    }

    /// Bytes of host memory: those of the map and the tables of lines, and those of the flash
    /// media.
    #[must_use]
    pub fn memory(&self) -> (usize, usize) {
        let map = self.core.state.borrow().memory();
        (map, self.core.nand.media().memory())
    }

    /// Panics if an invariant of the firmware's memory does not hold.
    pub fn check(&self) {
        self.core.state.borrow().check(&self.core.layout);
        if let Some(cache) = &self.core.map_cache {
            cache.check();
        }
        if let Some(front) = &self.core.front {
            front.check();
        }
        if let Some(zones) = &self.zones {
            zones.inner.check();
        }
        if let Some(chunks) = &self.raw {
            chunks.inner.check();
        }
    }

    /// Whether the drive holds a version of a mapped page; if not, the page reads as zeros.
    #[must_use]
    pub fn is_mapped(&self, page: u32) -> bool {
        if let Some(zones) = &self.zones
            && let Some(written) = zones.is_written(page)
        {
            return written;
        }
        if self.raw.is_some() {
            return false;
        }
        let front = self.core.front.as_ref();
        front.is_some_and(|front| front.holds(page))
            || self.core.state.borrow().map.get(page) != Where::Nowhere
    }

    /// Reads `extent` into `sink`.
    ///
    /// # Errors
    /// If `extent` reaches past the end, or the flash cannot be read.
    pub async fn read(&self, extent: Extent, sink: &mut impl Sink) -> Result<(), IoError> {
        match &self.zones {
            Some(zones) => Ok(zones.read(extent, sink).await?),
            None => self.core.read_block(extent, sink).await,
        }
    }

    /// Writes `content` to `extent`. The return acknowledges the write. The data are durable then
    /// on a protected drive or with `fua`, and otherwise after the next [`Drive::flush`].
    ///
    /// # Errors
    /// If `extent` reaches past the end, the stream does not exist, or the drive is out of spare
    /// blocks. An FDP drive redirects a write with an unknown placement to its default one, and
    /// logs an event ([`Drive::fdp`]).
    pub async fn write(
        &self,
        extent: Extent,
        content: Content<'_>,
        placement: Placement,
        origin: Origin,
        fua: bool,
    ) -> Result<(), IoError> {
        if let Some(zones) = &self.zones {
            return Ok(zones.write(extent, content, origin, fua).await?);
        }
        let core = &self.core;
        core.write_block(extent, content, placement, origin, fua)
            .await
    }

    /// Deallocates the mapped pages that lie wholly in `extent`; they read as zeros from then on.
    /// Sequential zones are not changed: only a reset empties them.
    ///
    /// # Errors
    /// If `extent` reaches past the end, or the drive is out of spare blocks.
    pub async fn trim(&self, extent: Extent) -> Result<(), IoError> {
        if self.zones.is_some() {
            return self.trim_zones(extent).await;
        }
        self.core.check_range(extent)?;
        self.core.trim(extent).await
    }

    /// Makes every acknowledged write durable.
    ///
    /// # Errors
    /// If the drive is out of spare blocks.
    pub async fn flush(&self) -> Result<(), IoError> {
        if let Some(zones) = &self.zones {
            return Ok(zones.flush().await?);
        }
        if self.raw.is_some() {
            return Ok(());
        }
        self.core.state.borrow_mut().ledger.flushes += 1;
        let command = self.core.config.controller.command;
        self.core.sim.sleep(command).await;
        self.core.flush().await
    }
}
