//! Fronts: memory that makes a drive byte-addressable.
//!
//! The host sees the same bytes as cache lines of 64 bytes and as blocks. Between the lines and the
//! flash pages lies device DRAM, in one or both of two forms:
//!
//! - a **page cache** ([`CacheConfig`]): the memory of a plain memory-semantic SSD, and of the
//!   baseline file systems in `bytefs` 5.1;
//! - a **write log** ([`LogConfig`]): the firmware of `bytefs` 4.3, with transactions or without.
//!
//! With a log, the log holds everything that flash lacks, and a cache beside it holds clean pages
//! only. Without a log, the cache holds all written data, lines and blocks alike, until it writes
//! them back.
//!
//! A battery keeps all of this memory, the log alone, or nothing ([`Battery`]). A flush writes out
//! everything that the battery does not keep.
//!
//! # Invariants
//!
//! - At every instant the contents of a page are those of its dirty copy in the cache, or else
//!   those of the drive behind the front (buffer or flash) overlaid by the newest lines of the log.
//!   Each step between these places is one instant: the page enters the write buffer as it leaves
//!   log or cache. So reads see lines and blocks alike.
//! - A power cut at any event preserves every store that had returned to memory with a battery. If
//!   the battery keeps everything, it protects the write buffer as well. If it keeps the log alone,
//!   lines that a page in the write buffer supersedes are hidden in the log, and become invalid when
//!   the page is on flash (`wlog/shadows.rs`); cleaning frees its slots after that.
//! - Time passes before such an instant, or after it until the response, and never within it. So
//!   pages need no locks: cleaning waits for a slot of the write buffer, and then takes the lines
//!   that the log has of the page at that instant.
//! - Stores that wait for room are served in order of arrival.
//!
//! # Choices that the sources leave open
//!
//! - Log entries (`wlog`): 64 bytes of data leave no room for the fields that recovery needs, so
//!   descriptors of 16 bytes lie beside them, and both count as the log.
//! - A write of a block invalidates all lines in it, committed or not. The block is in the
//!   protected buffer at that instant, so at any time one of the two counts. In a volatile buffer it
//!   hides them. A partly written block (512 bytes) affects only its own lines.
//! - Without a battery the firmware has no transactions: cleaning writes pages one by one, so a
//!   power cut could leave a part of a transaction.
//! - A flush of a volatile cache leaves the pages in it, clean.
//! - The version before an uncommitted one is found through the entries of the page. At most one
//!   version of a line is uncommitted: a store by another transaction is rejected.
//! - Cleaning also starts when the commit entries reach the log's fill level; COMMIT waits when
//!   they are full.
//! - A transaction's number is free again once the log has no line of it; until then a store or
//!   commit under a committed number is rejected. Numbers do not run out: a log has fewer lines
//!   than there are numbers.
//! - Uncommitted lines move in the order in which cleaning finds them; none depends on another.
//!   Reads see them like any other lines.
//! - A store without a transaction counts as committed at its place in the log.
//! - Whether a page is covered in part depends on its committed lines only.
//! - One ring serves as both regions of the double buffer. A transaction may not be larger than
//!   cleaning can move with one page to spare: a little less than half of the log.
//! - Cost of an access: one look-up for each page, in log and cache concurrently, and the latency
//!   of the DRAM, once. Its lines occupy the DRAM for their bytes, as do all transfers in front of
//!   the flash (`dram.rs`). COMMIT costs as much as a command. The path from the processor to the
//!   drive (4.8 and 0.6 µs in `bytefs` Table 4) belongs to the host.
//! - Look-ups and the latency of the DRAM overlap with those of other accesses: a store counts once
//!   its lines are in the DRAM, one after the other, and its response comes later.
//! - A cache starts to fetch the page of a store as the packet crosses the link, for as many stores
//!   at a time as the processor posts, though stores count in their order. If each store waited for
//!   the fetch of the one before, a miss would stop all.
//! - Speed of the DRAM: `bytefs` names a latency (Table 1) and no rate of its boards' DRAM. The
//!   default is the drive of `skybyte` Table 2.
//! - A block passes the DRAM once, page by page; this fits within the time that any drive takes for
//!   it ([`Controller::dram_per_unit`]), unless the DRAM is busy. Additional transfers are lines
//!   that are merged into it, and pages from flash for a cache, a load or a partial page of
//!   cleaning. Pages that move from cache to write buffer stay in place, and transfers between
//!   buffer and flash are free, as in a drive of blocks.
//! - Cleaning costs a look-up for each page and the transfer of its lines through the DRAM,
//!   concurrently for as many pages as it works on. It reads the rest of the page first, then
//!   copies committed lines to the write buffer and open ones to the end of the log. If a commit or
//!   a block changes the pages to be read while cleaning waits for the buffer, it reads again.
//! - RECOVER costs a look-up and the transfer of the descriptor for each entry of the log, then the
//!   costs of cleaning. After it, everything is on flash.
//! - Lines that were in transit as the power went and arrived are in the log, behind its other
//!   entries; lines that found no room have not arrived. A cache takes them in like stores.
//! - When cleaning cannot read the old contents of a page, it writes the lines that the log lacks
//!   as lost, so that reads of them fail.
//!
//! [`Controller::dram_per_unit`]: crate::Controller::dram_per_unit

mod cache;
mod clean;
mod config;
mod dram;
mod lines;
mod pages;

pub use clean::RecoveryReport;
pub use config::{Battery, CacheConfig, DramConfig, FrontConfig, LogConfig};

pub(crate) use config::check;

use crate::config::DriveConfig;
use crate::drive::{Core, IoError};
use crate::layout::Layout;
use crate::map::{Touched, Where};
use crate::media::SavedSlot;
use crate::wlog::{Changes, Kept, LINE, LINES, Log, SkipIndex};
use cache::{Cache, Dirty};
use dram::Dram;
use nand::{Payload, UNIT};
use sim::{Semaphore, Signal, Sim};
use std::cell::{Cell, RefCell};
use units::SECTOR;

const _: () = assert!(LINE * LINES as usize == UNIT);

/// State of a front that its battery keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FrontMedia {
    /// The log; `None` if it is empty.
    pub(crate) log: Option<Kept>,
    /// Dirty pages of the cache, least recently used first.
    pub(crate) pages: Vec<SavedSlot>,
}

impl FrontMedia {
    pub(crate) fn is_empty(&self) -> bool {
        self.log.is_none() && self.pages.is_empty()
    }
}

/// State of a write log at an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogState {
    /// Lines in the log.
    pub lines: u32,
    /// Lines of transactions that have not committed.
    pub open_lines: u32,
    /// Commit entries in use.
    pub commits: u32,
    /// Whether a cleaning is under way.
    pub is_cleaned: bool,
    /// Whether the log holds entries from before a power cut.
    pub is_unrecovered: bool,
    /// Whether a store waits because the log is full.
    pub stores_wait: bool,
    /// Whether a commit waits because the commit entries are full.
    pub commits_wait: bool,
}

/// Front of a drive under power.
pub(crate) struct Front {
    config: FrontConfig,
    dram: Dram,
    log: Option<RefCell<Log<SkipIndex>>>,
    cache: Option<RefCell<Cache>>,
    /// Lets stores to the log pass one by one.
    gate: Semaphore,
    /// Lines of a transaction that the store in the gate has not appended yet.
    arriving: Cell<u32>,
    /// Lets one cleaning run at a time.
    cleaning: Semaphore,
    /// The log may have to be cleaned.
    work: Signal,
    /// Cleaning has freed space, or the drive turned read-only.
    freed: Signal,
    /// A fetch of pages has ended.
    fetched: Signal,
    /// Whether a store or commit has begun to wait for space since the last cleaning ended; this
    /// starts the next one.
    someone_waits: Cell<bool>,
    /// Number of stores, and of commits, that wait for room.
    waiting: [Cell<u32>; 2],
    /// Whether the log holds entries of before the power cut that are not recovered.
    unrecovered: Cell<bool>,
    /// Whether RECOVER was called since power-on.
    recovered: Cell<bool>,
}

impl Front {
    /// The front of `config`, from the state `media` that its battery kept; `None` without one.
    pub(crate) fn new(
        sim: &Sim,
        config: &DriveConfig,
        layout: &Layout,
        media: &FrontMedia,
    ) -> Option<Self> {
        let front = config.front?;
        let log = front.has_log().then(|| match &media.log {
            Some(kept) => Log::recovered(kept),
            None => Log::new(front.log_sizes(config.flash.keep_contents)),
        });
        let cache = front.has_cache().then(|| {
            let mut cache = Cache::new(front.cached_pages(), layout.host_pages);
            for saved in &media.pages {
                let dirty = Dirty {
                    payload: saved.payload.first().cloned(),
                    frontier: saved.frontier,
                    tag: saved.tag,
                };
                cache.put(saved.page, Some(dirty));
            }
            cache
        });
        Some(Self {
            config: front,
            dram: Dram::new(front.dram),
            unrecovered: Cell::new(media.log.is_some()),
            log: log.map(RefCell::new),
            cache: cache.map(RefCell::new),
            gate: Semaphore::new(sim, 1),
            arriving: Cell::new(0),
            cleaning: Semaphore::new(sim, 1),
            work: Signal::default(),
            freed: Signal::default(),
            fetched: Signal::default(),
            someone_waits: Cell::new(false),
            waiting: Default::default(),
            recovered: Cell::new(false),
        })
    }

    pub(crate) fn has_cache(&self) -> bool {
        self.cache.is_some()
    }

    /// Whether written data stay in the cache until evicted (write-back).
    pub(crate) fn writes_back(&self) -> bool {
        self.log.is_none()
    }

    /// Whether a line is durable once it is in the DRAM.
    pub(crate) fn keeps_lines(&self) -> bool {
        self.config.keeps_lines()
    }

    /// Whether a line must stay in the log until the page that supersedes it is on flash.
    pub(crate) fn hides_lines(&self) -> bool {
        self.config.keeps_log() && !self.config.keeps_pages()
    }

    /// The log, if the battery keeps it.
    fn kept_log(&self) -> Option<&RefCell<Log<SkipIndex>>> {
        self.log.as_ref().filter(|_| self.config.keeps_log())
    }

    /// The cache, if the battery keeps it.
    fn kept_cache(&self) -> Option<&RefCell<Cache>> {
        self.cache.as_ref().filter(|_| self.config.keeps_pages())
    }

    /// State that the battery keeps at this instant.
    pub(crate) fn saved(&self) -> FrontMedia {
        let log = self.kept_log().map(|log| log.borrow().kept().clone());
        let cache = self.kept_cache().map(|cache| cache.borrow().saved());
        FrontMedia {
            log: log.filter(|kept| !kept.is_empty()),
            pages: cache.unwrap_or_default(),
        }
    }

    /// The battery's entry for a page of the cache; `None` if it is not dirty.
    pub(crate) fn saved_page(&self, page: u32) -> Option<SavedSlot> {
        self.kept_cache()?.borrow().saved_page(page)
    }

    /// State of the log; `None` without one.
    pub(crate) fn log_state(&self) -> Option<LogState> {
        let log = self.log.as_ref()?.borrow();
        let [stores, commits] = &self.waiting;
        Some(LogState {
            lines: log.fill().0,
            open_lines: log.open_lines(),
            commits: log.commits().0,
            is_cleaned: log.is_frozen() && !self.unrecovered.get(),
            is_unrecovered: self.unrecovered.get(),
            stores_wait: stores.get() > 0,
            commits_wait: commits.get() > 0,
        })
    }

    /// Registers watches that receive changes of log and cache from here on, as far as the battery
    /// keeps them.
    pub(crate) fn watch(&self) -> (Option<Changes>, Option<Touched>) {
        let log = self.kept_log().map(|log| log.borrow_mut().watch());
        let cache = self.kept_cache().map(|c| c.borrow_mut().watch());
        (log, cache)
    }

    /// Removes the watches from log and cache.
    pub(crate) fn unwatch(&self, (log, cache): &(Option<Changes>, Option<Touched>)) {
        if let (Some(of), Some(watch)) = (&self.log, log) {
            of.borrow_mut().unwatch(watch);
        }
        if let (Some(of), Some(watch)) = (&self.cache, cache) {
            of.borrow_mut().unwatch(watch);
        }
    }

    /// Wakes all waiting tasks because the drive turned read-only.
    pub(crate) fn read_only(&self, sim: &Sim) {
        self.work.notify(sim);
        self.freed.notify(sim);
    }

    /// Marks a page of the cache as used. Returns whether it is cached.
    fn touch(&self, page: u32) -> bool {
        let cache = self.cache.as_ref();
        cache.is_some_and(|cache| cache.borrow_mut().touch(page))
    }

    /// Puts a dirty page into the cache.
    fn put(&self, page: u32, dirty: Dirty) {
        if let Some(cache) = &self.cache {
            cache.borrow_mut().put(page, Some(dirty));
        }
    }

    /// Takes the contents of a dirty page out; the caller puts new ones back at the same instant.
    fn take_contents(&self, page: u32) -> Option<Payload> {
        let cache = self.cache.as_ref()?;
        cache.borrow_mut().take_contents(page)
    }

    /// The frontier that a cached page will be written to.
    fn frontier_of(&self, page: u32) -> u16 {
        let cache = self.cache.as_ref();
        let frontier = cache.and_then(|c| c.borrow().dirty(page).map(|dirty| dirty.frontier));
        frontier.unwrap_or(0)
    }

    /// The lines of `page` that the log has, one bit each.
    fn logged(&self, page: u32) -> u64 {
        let log = self.log.as_ref();
        log.map_or(0, |log| log.borrow().lines_of(page))
    }

    fn is_cached(&self, page: u32) -> bool {
        let cache = self.cache.as_ref();
        cache.is_some_and(|cache| cache.borrow().has(page))
    }

    /// Whether the front has newer data of `page` than the drive behind it.
    pub(crate) fn holds(&self, page: u32) -> bool {
        let cache = self.cache.as_ref();
        let dirty = cache.is_some_and(|cache| cache.borrow().dirty(page).is_some());
        dirty || self.logged(page) != 0
    }

    /// Invalidates lines of `page` in the log: a block write put newer ones into the drive behind,
    /// as version `by` of the page.
    //= bytefs 4.4
    pub(crate) fn superseded(&self, page: u32, lines: u64, by: u64) {
        match &self.log {
            Some(log) if self.hides_lines() => log.borrow_mut().hide(page, lines, by),
            Some(log) => {
                log.borrow_mut().invalidate(page, lines);
            }
            None => {}
        }
    }

    /// Invalidates the lines that version `by` of `page` superseded: the version is on flash.
    pub(crate) fn written(&self, page: u32, by: u64) {
        if let Some(log) = &self.log {
            log.borrow_mut().written(page, by);
        }
    }

    /// Invalidates the lines of deallocated pages: all deallocations are on flash.
    pub(crate) fn deallocated(&self) {
        if let Some(log) = &self.log {
            log.borrow_mut().deallocated();
        }
    }

    /// Drops the deallocated pages `first` to before `last` from log and cache.
    pub(crate) fn forget(&self, first: u32, last: u32) {
        if let Some(log) = self.log.as_ref().filter(|_| self.hides_lines()) {
            log.borrow_mut().deallocate(first, last);
        } else if let Some(log) = &self.log {
            let mut log = log.borrow_mut();
            let mut from = first;
            while let Some(page) = log.next_page(from).filter(|&page| page < last) {
                log.invalidate(page, u64::MAX);
                from = page + 1;
            }
        }
        if let Some(cache) = &self.cache {
            let mut cache = cache.borrow_mut();
            for page in first..last {
                cache.remove(page);
            }
        }
    }

    /// Panics if an invariant does not hold.
    pub(crate) fn check(&self) {
        if let Some(log) = &self.log {
            log.borrow().check();
        }
        if let Some(cache) = &self.cache {
            cache.borrow().check();
            assert!(self.log.is_none() || cache.borrow().dirty_pages().is_empty());
        }
    }
}

/// The error of a page that cannot be read.
fn lost(page: u32) -> IoError {
    IoError::Media(u64::from(page) * (UNIT as u64 / SECTOR))
}

impl Core {
    /// State that the battery of the front keeps; empty without a front.
    pub(crate) fn saved_front(&self) -> FrontMedia {
        let front = self.front.as_ref();
        front.map_or_else(FrontMedia::default, Front::saved)
    }

    /// The newest contents of a page, in or behind the front. `None` if it is unmapped, empty if
    /// contents are not kept.
    pub(crate) fn newest(&self, page: u32) -> Option<Vec<Payload>> {
        let Some(front) = &self.front else {
            return self.contents(page);
        };
        if let Some(cache) = &front.cache
            && let Some(dirty) = cache.borrow().dirty(page)
        {
            return Some(dirty.payload.iter().cloned().collect());
        }
        let behind = self.contents(page);
        let logged = front.logged(page);
        if logged == 0 || !self.config.flash.keep_contents {
            return behind.or((logged != 0).then(Vec::new));
        }
        let behind = behind.and_then(|sectors| sectors.into_iter().next());
        let behind = behind.unwrap_or_default();
        let lost = behind.lost() & !logged;
        let mut bytes = behind.to_bytes();
        if let Some(log) = &front.log {
            log.borrow().merge(page, 0, &mut bytes);
        }
        Some(vec![Payload::with_lost(bytes, lost)])
    }

    /// As [`Core::newest`], but zeros if the page is unmapped.
    fn newest_payload(&self, page: u32) -> Payload {
        let newest = self.newest(page).unwrap_or_default();
        newest.into_iter().next().unwrap_or_default()
    }

    /// Whether the contents of `page` behind the front are on flash.
    fn is_on_flash(&self, page: u32) -> bool {
        matches!(self.state.borrow().map.get(page), Where::Flash(_))
    }
}
