//! Fronts: what makes a drive one that is read and written by bytes.
//!
//! The host sees the same bytes as lines of 64 and as blocks. Between the lines and
//! the pages of the flash there is device DRAM with a battery, in one or both of two
//! forms, each a part of its own:
//!
//! - a **page cache** ([`CacheConfig`]): what a plain memory-semantic SSD has, and
//!   what `bytefs` 5.1 gives the file systems that it is compared with;
//! - a **write log** ([`LogConfig`]): the firmware of `bytefs` 4.3, with
//!   transactions or without.
//!
//! With a log, the log has all that flash does not, and a cache beside it holds
//! clean pages only. Without one the cache holds what was written, lines and blocks
//! alike, until it is written back.
//!
//! # Invariants
//!
//! - At every instant a page is what the cache holds of it that is dirty, or else
//!   what the drive behind the front holds (buffer or flash) with the newest lines of
//!   the log laid over. Each step from one of those places to another is one
//!   instant: the page enters the write buffer, which the same battery protects, as
//!   it leaves log or cache. So readers see lines and blocks alike, and a power cut
//!   at any event finds every store that had returned.
//! - Time is spent before such an instant, or after it until an answer is given, and
//!   never between its parts. So nothing locks a page: cleaning waits for a slot of the
//!   write buffer, and then takes what the log has of the page at that instant.
//! - Stores that wait for room are served in the order in which they came.
//!
//! # What the sources leave open
//!
//! - Log entries (`wlog`): 64 bytes of data leave no room for what recovery must
//!   know, so descriptors of 16 bytes lie beside them, and both count as the log.
//! - A write of a block makes all lines in it invalid, committed or not. It is in the
//!   protected buffer at that instant, so there is no time at which neither counts.
//!   A block written in part (512 bytes) makes only its own lines invalid.
//! - The version before an uncommitted one is found over the entries of the page. At
//!   most one version of a line is uncommitted: a store by anyone else is refused.
//! - Cleaning also begins when the commit entries are as full as the log may be;
//!   COMMIT waits when they are full.
//! - Numbers of transactions are free again once nothing of them is in the log; until
//!   then a store or commit under a number that has committed is refused. They do not
//!   run out: a log has fewer lines than there are numbers.
//! - Uncommitted lines move in the order in which cleaning finds them; none of them
//!   depends on another. Readers see them like any others.
//! - A store without a transaction counts as committed at its place in the log.
//! - Whether a page is covered in part is decided by its committed lines only.
//! - One ring is both regions of the double buffer. A transaction may not be larger
//!   than what cleaning can move with one page to spare: a little less than half of
//!   the log.
//! - What an access costs: one look-up a page, in log and cache at the same time, and
//!   the latency of the DRAM, once. Its lines occupy the DRAM for their bytes, as does
//!   all that moves in front of the flash (`dram.rs`). COMMIT costs what a command does.
//!   The way from the processor to the drive (4.8 and 0.6 µs in `bytefs` Table 4) is
//!   the host's.
//! - Look-ups and the latency of the DRAM overlap with those of other accesses: a store
//!   counts once its lines are in the DRAM, one after the other, and is answered later.
//! - A cache begins to fetch the page of a store as its packet comes over the link, as
//!   many at a time as the processor posts, though stores count in their order. If each
//!   waited for the fetch of the one before, a miss would stop all.
//! - How fast the DRAM is: `bytefs` names a latency (Table 1) and no rate of its boards'
//!   DRAM. The default is the drive of `skybyte` Table 2.
//! - A block goes through the DRAM once, page by page; that is within the time that any
//!   drive takes for it ([`Controller::dram_per_unit`]), unless the DRAM is busy. Lines
//!   that are laid over it are read and written there besides, and so is what comes from
//!   flash for a cache, a load or a page that cleaning writes in part. What goes from
//!   cache to write buffer stays where it is, and what the drive behind moves between
//!   buffer and flash counts as little as in a drive of blocks.
//! - Cleaning costs a look-up a page and the way of its lines through the DRAM, side by
//!   side for as many pages as it has in work. It copies committed lines to the write
//!   buffer and open ones to the end of the log, and reads the rest of the page first;
//!   if a commit or a block changes what is to be read while it waits for the buffer, it
//!   reads then.
//! - RECOVER costs a look-up and the way of the descriptor through the DRAM for each
//!   entry of the log, then what cleaning costs. After it all is on flash.
//! - What was on its way as the power went and arrived is in the log, behind what was
//!   there; what found no room in it has not arrived. A cache takes it in as a store.
//! - When a page is cleaned whose old contents cannot be read any more, the lines that
//!   the log does not have are written as lost, so that reads of them fail.
//!
//! [`Controller::dram_per_unit`]: crate::Controller::dram_per_unit

mod cache;
mod clean;
mod config;
mod dram;
mod lines;
mod pages;

pub use clean::RecoveryReport;
pub use config::{CacheConfig, DramConfig, FrontConfig, LogConfig};

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

/// What of a front the battery keeps.
#[derive(Clone, Debug, Default)]
pub(crate) struct FrontMedia {
    /// The log, unless it is empty.
    pub(crate) log: Option<Kept>,
    /// Dirty pages of the cache, least recently used first.
    pub(crate) pages: Vec<SavedSlot>,
}

impl FrontMedia {
    pub(crate) fn is_empty(&self) -> bool {
        self.log.is_none() && self.pages.is_empty()
    }
}

/// What a log is doing at an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogState {
    /// Lines in it.
    pub lines: u32,
    /// Of those, lines of transactions that have not committed.
    pub open_lines: u32,
    /// Commits that are kept.
    pub commits: u32,
    /// A cleaning is under way.
    pub is_cleaned: bool,
    /// It holds what a power cut left.
    pub is_unrecovered: bool,
    /// A store waits since the log is full.
    pub stores_wait: bool,
    /// A commit waits since the log of commits is full.
    pub commits_wait: bool,
}

/// Front of a drive under power.
pub(crate) struct Front {
    config: FrontConfig,
    dram: Dram,
    log: Option<RefCell<Log<SkipIndex>>>,
    cache: Option<RefCell<Cache>>,
    /// Stores pass one by one.
    gate: Semaphore,
    /// Lines of a transaction that the store in the gate will still append.
    arriving: Cell<u32>,
    /// One cleaning at a time.
    cleaning: Semaphore,
    /// The log may have to be cleaned.
    work: Signal,
    /// Cleaning has freed space, or cannot any more.
    freed: Signal,
    /// A page has come from flash.
    fetched: Signal,
    /// Stores or commits wait for space that was not freed since.
    someone_waits: Cell<bool>,
    /// Stores and commits that wait for room.
    waiting: [Cell<u32>; 2],
    /// What the power cut left of the log has not been recovered.
    unrecovered: Cell<bool>,
    /// RECOVER was called since power-on.
    recovered: Cell<bool>,
}

impl Front {
    /// The front of a drive whose battery kept `media`.
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

    /// Whether what is written stays in the cache until it is evicted.
    pub(crate) fn writes_back(&self) -> bool {
        self.log.is_none()
    }

    /// What the battery keeps at this instant.
    pub(crate) fn saved(&self) -> FrontMedia {
        let log = self.log.as_ref().map(|log| log.borrow().kept().clone());
        let cache = self.cache.as_ref().map(|cache| cache.borrow().saved());
        FrontMedia {
            log: log.filter(|kept| !kept.is_empty()),
            pages: cache.unwrap_or_default(),
        }
    }

    /// What the battery keeps of one page of the cache.
    pub(crate) fn saved_page(&self, page: u32) -> Option<SavedSlot> {
        self.cache.as_ref()?.borrow().saved_page(page)
    }

    /// What the log is doing; none without one.
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

    /// Tells of what changes in log and cache from here on.
    pub(crate) fn watch(&self) -> (Option<Changes>, Option<Touched>) {
        let log = self.log.as_ref().map(|log| log.borrow_mut().watch());
        let cache = self.cache.as_ref().map(|c| c.borrow_mut().watch());
        (log, cache)
    }

    /// Tells no more.
    pub(crate) fn unwatch(&self, (log, cache): &(Option<Changes>, Option<Touched>)) {
        if let (Some(of), Some(watch)) = (&self.log, log) {
            of.borrow_mut().unwatch(watch);
        }
        if let (Some(of), Some(watch)) = (&self.cache, cache) {
            of.borrow_mut().unwatch(watch);
        }
    }

    /// The drive takes no writes any more: whoever waits learns of it.
    pub(crate) fn read_only(&self, sim: &Sim) {
        self.work.notify(sim);
        self.freed.notify(sim);
    }

    /// Marks a page of the cache used; whether it is there.
    fn touch(&self, page: u32) -> bool {
        let cache = self.cache.as_ref();
        cache.is_some_and(|cache| cache.borrow_mut().touch(page))
    }

    /// Puts a page into the cache that holds what nothing else does.
    fn put(&self, page: u32, dirty: Dirty) {
        if let Some(cache) = &self.cache {
            cache.borrow_mut().put(page, Some(dirty));
        }
    }

    /// Takes the contents of a dirty page, to be put back at the same instant.
    fn take_contents(&self, page: u32) -> Option<Payload> {
        let cache = self.cache.as_ref()?;
        cache.borrow_mut().take_contents(page)
    }

    /// The frontier that a page in the cache is to be written to.
    fn frontier_of(&self, page: u32) -> u16 {
        let cache = self.cache.as_ref();
        let frontier = cache.and_then(|c| c.borrow().dirty(page).map(|dirty| dirty.frontier));
        frontier.unwrap_or(0)
    }

    /// The lines of `page` that the log has, a bit each.
    fn logged(&self, page: u32) -> u64 {
        let log = self.log.as_ref();
        log.map_or(0, |log| log.borrow().lines_of(page))
    }

    fn is_cached(&self, page: u32) -> bool {
        let cache = self.cache.as_ref();
        cache.is_some_and(|cache| cache.borrow().has(page))
    }

    /// Whether a page holds anything that the drive behind does not.
    pub(crate) fn holds(&self, page: u32) -> bool {
        let cache = self.cache.as_ref();
        let dirty = cache.is_some_and(|cache| cache.borrow().dirty(page).is_some());
        dirty || self.logged(page) != 0
    }

    /// Those lines of a page were written to the drive behind, as part of a block: the
    /// log has nothing to say of them any more.
    //= bytefs 4.4
    pub(crate) fn superseded(&self, page: u32, lines: u64) {
        if let Some(log) = &self.log {
            log.borrow_mut().invalidate(page, lines);
        }
    }

    /// The pages `first` to before `last` were deallocated.
    pub(crate) fn forget(&self, first: u32, last: u32) {
        if let Some(log) = &self.log {
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
    /// What the battery of the front keeps, if there is one.
    pub(crate) fn saved_front(&self) -> FrontMedia {
        let front = self.front.as_ref();
        front.map_or_else(FrontMedia::default, Front::saved)
    }

    /// What a page holds in front of and behind the front: the newest there is. None
    /// if nothing, empty if contents are not kept.
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

    /// As [`Core::newest`]; zeros if nothing.
    fn newest_payload(&self, page: u32) -> Payload {
        let newest = self.newest(page).unwrap_or_default();
        newest.into_iter().next().unwrap_or_default()
    }

    /// Whether a page has to be read from flash to know what is behind the front.
    fn is_on_flash(&self, page: u32) -> bool {
        matches!(self.state.borrow().map.get(page), Where::Flash(_))
    }
}
