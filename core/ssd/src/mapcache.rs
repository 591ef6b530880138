//! A map that keeps only its most recently used parts in DRAM.
//!
//! The map is cut into translation pages, which are mapped and written like host pages (their
//! numbers follow the host's). The cache holds whole translation pages or single entries, as
//! [`CacheHolds`] says. A look-up that misses reads its translation page from flash, unless that
//! page has never been written or is in the write buffer. The eviction of a dirty part writes its
//! translation page back:
//!
//! - A cached translation page is complete, so it is written as it is.
//! - A cached entry is merged into its translation page, which is read for that. All other dirty
//!   entries of that page are merged too, and stay cached as clean ones.
//!
//! The entries themselves are always right, because [`crate::map::Map`] holds all of them: this
//! module only tracks which parts DRAM would hold, and charges time and traffic for the others.
//! //= dftl 4

mod entries;
mod pages;
#[cfg(test)]
mod tests;

use crate::config::{CacheHolds, DriveConfig};
use crate::drive::Core;
use crate::frontier::Kind;
use crate::layout::Layout;
use crate::ledger::{Cause, ReadCause};
use crate::map::Where;
use crate::state::Incoming;
use entries::Entries;
pub(crate) use entries::{ENTRY, WriteBack};
use nand::Row;
use pages::Pages;
use sim::Signal;
use std::cell::RefCell;

enum Held {
    Pages(Pages),
    Entries(Entries),
}

/// Cache of parts of the map, for a drive with a paged map.
pub(crate) struct MapCache {
    /// Binary logarithm of the entries of a translation page.
    shift: u32,
    held: RefCell<Held>,
    /// The load of a translation page has ended.
    loaded: Signal,
}

/// Part of the map that a look-up has to wait for.
pub(crate) enum Missed {
    /// A translation page, and whether it was held: then it is being loaded.
    Page(u32, bool),
    /// An entry in `map_page`: its eviction of others causes `written`, and load number `load`
    /// brings it, if it is not there.
    Entry {
        map_page: u32,
        written: Option<WriteBack>,
        load: Option<u32>,
    },
}

impl MapCache {
    /// A cache for `config`; `None` if the whole map is in DRAM.
    pub(crate) fn new(config: &DriveConfig, layout: &Layout) -> Option<Self> {
        if layout.map_pages == 0 {
            return None;
        }
        let bytes = config.mapping.cache.0;
        let shift = layout.entries_per_map_page.trailing_zeros();
        let held = match config.mapping.cache_holds {
            CacheHolds::Pages => {
                let capacity = bytes / layout.page_bytes();
                Held::Pages(Pages::new(layout.map_pages, capacity))
            }
            CacheHolds::Entries => {
                Held::Entries(Entries::new(layout.host_pages, shift, bytes / ENTRY))
            }
        };
        Some(Self {
            shift,
            held: RefCell::new(held),
            loaded: Signal::default(),
        })
    }

    /// Panics if an invariant of the cache does not hold.
    pub(crate) fn check(&self) {
        if let Held::Entries(entries) = &*self.held.borrow() {
            entries.check();
        }
    }

    /// Runs `act` on a cache of translation pages.
    fn pages<T>(&self, act: impl FnOnce(&mut Pages) -> T) -> T {
        match &mut *self.held.borrow_mut() {
            Held::Pages(pages) => act(pages),
            Held::Entries(_) => unreachable!("a look-up misses in its own kind of cache"),
        }
    }

    /// Runs `act` on a cache of entries.
    fn entries<T>(&self, act: impl FnOnce(&mut Entries) -> T) -> T {
        match &mut *self.held.borrow_mut() {
            Held::Entries(entries) => act(entries),
            Held::Pages(_) => unreachable!("a look-up misses in its own kind of cache"),
        }
    }
}

impl Core {
    /// Marks the part of the map that has the entry of `page` as used. Returns it if
    /// [`Core::await_map`] has to wait for it.
    #[inline]
    pub(crate) fn touch_map(&self, page: u32, dirty: bool) -> Option<Missed> {
        let cache = self.map_cache.as_ref()?;
        if page >= self.layout.host_pages {
            return None;
        }
        let map_page = page >> cache.shift;
        let (held, missed) = match &mut *cache.held.borrow_mut() {
            Held::Pages(pages) => {
                let held = pages.touch(map_page, dirty);
                let waits = !held || pages.is_loading(map_page);
                (held, waits.then_some(Missed::Page(map_page, held)))
            }
            Held::Entries(entries) => {
                let (held, written) = entries.touch(page, dirty);
                if !held && self.map_page_on_flash(map_page).is_some() {
                    entries.expect(page);
                }
                let load = entries.arrival(page);
                let missed = Missed::Entry {
                    map_page,
                    written,
                    load,
                };
                let waits = written.is_some() || load.is_some();
                (held, waits.then_some(missed))
            }
        };
        let ledger = &mut self.state.borrow_mut().ledger;
        ledger.map_hits += u64::from(held);
        ledger.map_misses += u64::from(!held);
        missed
    }

    /// As [`Core::touch_map`] and [`Core::await_map`] for pages that are relocated together, each
    /// with its origin. Their entries in the same translation page arrive with one load. DFTL
    /// updates entries that are not cached in the translation page itself; here they are cached,
    /// and the write-back at their eviction updates them together.
    pub(crate) async fn move_map(&self, names: &[(u32, u16)]) {
        let mut entries = Vec::new();
        for &(page, _) in names {
            match self.touch_map(page, true) {
                Some(missed @ Missed::Page(..)) => Box::pin(self.await_map(missed)).await,
                missed => entries.extend(missed),
            }
        }
        for missed in entries {
            Box::pin(self.await_map(missed)).await;
        }
    }

    /// Waits until the part of the map that a look-up missed is in memory.
    pub(crate) async fn await_map(&self, missed: Missed) {
        let Some(cache) = &self.map_cache else { return };
        match missed {
            Missed::Page(map_page, held) => self.await_page(cache, (map_page, held)).await,
            Missed::Entry {
                map_page,
                written,
                load,
            } => {
                if let Some(written) = written {
                    let load = cache.entries(|e| e.next_load(written.map_page));
                    self.await_load(cache, (written.map_page, load)).await;
                    self.write_map_page(written);
                }
                if let Some(load) = load {
                    self.await_load(cache, (map_page, load)).await;
                }
            }
        }
    }

    /// Waits for a translation page that is `held` but still loading, or makes room and loads it.
    async fn await_page(&self, cache: &MapCache, (map_page, held): (u32, bool)) {
        if held {
            while cache.pages(|p| p.is_loading(map_page)) {
                cache.loaded.wait(&self.sim).await;
            }
            return;
        }
        while cache.pages(|p| p.is_over()) {
            if let Some(dirty) = cache.pages(Pages::evict) {
                self.write_map_page(WriteBack {
                    map_page: dirty,
                    entries: 0,
                });
            }
        }
        cache.pages(|p| p.set_loading(map_page, true));
        self.load_map_page(map_page).await;
        cache.pages(|p| p.set_loading(map_page, false));
        cache.loaded.notify(&self.sim);
    }

    /// Waits for the end of a load of a translation page, and begins one if none is under way.
    async fn await_load(&self, cache: &MapCache, (map_page, load): (u32, u32)) {
        while !cache.entries(|e| e.has_loaded(map_page, load)) {
            if cache.entries(|e| e.begin_load(map_page)) {
                self.load_map_page(map_page).await;
                cache.entries(|e| e.end_load(map_page));
                cache.loaded.notify(&self.sim);
            } else {
                cache.loaded.wait(&self.sim).await;
            }
        }
    }

    fn write_map_page(&self, written: WriteBack) {
        let mut state = self.state.borrow_mut();
        let frontiers = &state.frontiers;
        let frontier = frontiers
            .iter()
            .position(|f| f.kind == Kind::Map)
            .expect("a paged map has its frontier");
        state.insert(Incoming {
            page: self.layout.host_pages + written.map_page,
            frontier,
            cause: Cause::Map,
            tag: 0,
        });
        state.ledger.map_write_backs += 1;
        state.ledger.map_entries_written += u64::from(written.entries);
        drop(state);
        self.work[frontier].notify(&self.sim);
    }

    /// Place of a translation page whose newest version is on flash.
    fn map_page_on_flash(&self, map_page: u32) -> Option<u32> {
        let state = self.state.borrow();
        match state.map.get(self.layout.host_pages + map_page) {
            Where::Flash(place) => Some(place),
            Where::Nowhere | Where::Buffer(_) => None,
        }
    }

    async fn load_map_page(&self, map_page: u32) {
        let Some(place) = self.map_page_on_flash(map_page) else {
            return;
        };
        let at = self.state.borrow().flash_page(&self.layout, place);
        let (line, row) = (at.line, Row::single(at.block, at.page));
        self.begin_reading(line, ReadCause::Map, row);
        let bytes = self.layout.page_bytes() as u32;
        // A failed read costs its time only: the spare areas name every page, so that no entry is
        // ever lost.
        let _ = self.read_marked(line, row, bytes).await;
    }
}
