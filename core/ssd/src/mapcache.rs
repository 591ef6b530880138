//! A map that keeps only its most recently used parts in DRAM.
//!
//! The map is cut into translation pages, which are mapped and written like host pages (their
//! numbers follow the host's). A look-up that misses reads its translation page from flash; a dirty
//! translation page is written when the cache evicts it. The entries themselves are always right,
//! because [`crate::map::Map`] holds all of them: this module only tracks which translation pages
//! DRAM would hold, and charges time and traffic for the others.
//! //= dftl 4

use crate::config::DriveConfig;
use crate::drive::Core;
use crate::frontier::Kind;
use crate::layout::{Layout, NONE};
use crate::ledger::{Cause, ReadCause};
use crate::map::Where;
use crate::state::Incoming;
use nand::Priority;
use sim::{Signal, Sim};
use std::cell::RefCell;

#[derive(Clone, Copy)]
struct Entry {
    newer: u32,
    older: u32,
    cached: bool,
    dirty: bool,
    loading: bool,
}

/// Translation pages in DRAM, as a list linked in the order of their last use.
struct Recency {
    entries: Vec<Entry>,
    newest: u32,
    oldest: u32,
    cached: u32,
}

/// Cache of translation pages, for a drive with a paged map.
pub(crate) struct MapCache {
    capacity: u32,
    recency: RefCell<Recency>,
    loaded: Signal,
}

impl MapCache {
    /// A cache for `config`; `None` if the whole map is in DRAM.
    pub(crate) fn new(_: &Sim, config: &DriveConfig, layout: &Layout) -> Option<Self> {
        if layout.map_pages == 0 {
            return None;
        }
        let capacity = (config.mapping.cache.0 / layout.page_bytes()).max(1);
        let entry = Entry {
            newer: NONE,
            older: NONE,
            cached: false,
            dirty: false,
            loading: false,
        };
        Some(Self {
            capacity: u32::try_from(capacity).unwrap_or(u32::MAX),
            recency: RefCell::new(Recency {
                entries: vec![entry; layout.map_pages as usize],
                newest: NONE,
                oldest: NONE,
                cached: 0,
            }),
            loaded: Signal::default(),
        })
    }
}

impl Recency {
    fn unlink(&mut self, index: u32) {
        let Entry { newer, older, .. } = self.entries[index as usize];
        match newer {
            NONE => self.newest = older,
            _ => self.entries[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            _ => self.entries[older as usize].newer = newer,
        }
    }

    fn link_newest(&mut self, index: u32) {
        let before = std::mem::replace(&mut self.newest, index);
        let entry = &mut self.entries[index as usize];
        (entry.newer, entry.older) = (NONE, before);
        match before {
            NONE => self.oldest = index,
            _ => self.entries[before as usize].newer = index,
        }
    }

    /// Moves translation page `index` to the newest end. Returns whether it was cached already, or
    /// being loaded.
    fn touch(&mut self, index: u32, dirty: bool) -> bool {
        let held = self.entries[index as usize].cached;
        if held {
            self.unlink(index);
        } else {
            self.entries[index as usize].cached = true;
            self.cached += 1;
        }
        self.entries[index as usize].dirty |= dirty;
        self.link_newest(index);
        held
    }

    /// Evicts the least recently used translation page. Returns its index if it was dirty.
    fn evict(&mut self) -> Option<u32> {
        let oldest = self.oldest;
        self.unlink(oldest);
        let entry = &mut self.entries[oldest as usize];
        entry.cached = false;
        self.cached -= 1;
        std::mem::take(&mut entry.dirty).then_some(oldest)
    }
}

impl Core {
    /// Marks the translation page of `page` as used. Returns its number and whether it was held, if
    /// [`Core::await_map_page`] has to wait for it.
    #[inline]
    pub(crate) fn touch_map(&self, page: u32, dirty: bool) -> Option<(u32, bool)> {
        let cache = self.map_cache.as_ref()?;
        if page >= self.layout.host_pages {
            return None;
        }
        let index = page / self.layout.entries_per_map_page;
        let held = cache.recency.borrow_mut().touch(index, dirty);
        {
            let ledger = &mut self.state.borrow_mut().ledger;
            ledger.map_hits += u64::from(held);
            ledger.map_misses += u64::from(!held);
        }
        let waits = !held || cache.recency.borrow().entries[index as usize].loading;
        waits.then_some((index, held))
    }

    /// Waits for a translation page that is `held` but still loading, or makes room and loads it.
    pub(crate) async fn await_map_page(&self, (index, held): (u32, bool)) {
        let Some(cache) = &self.map_cache else { return };
        if held {
            while cache.recency.borrow().entries[index as usize].loading {
                cache.loaded.wait(&self.sim).await;
            }
            return;
        }
        while cache.recency.borrow().cached > cache.capacity {
            let evicted = cache.recency.borrow_mut().evict();
            if let Some(dirty) = evicted {
                self.write_map_page(dirty);
            }
        }
        cache.recency.borrow_mut().entries[index as usize].loading = true;
        self.load_map_page(index).await;
        cache.recency.borrow_mut().entries[index as usize].loading = false;
        cache.loaded.notify(&self.sim);
    }

    fn write_map_page(&self, index: u32) {
        let mut state = self.state.borrow_mut();
        let frontiers = &state.frontiers;
        let frontier = frontiers
            .iter()
            .position(|f| f.kind == Kind::Map)
            .expect("a paged map has its frontier");
        state.insert(Incoming {
            page: self.layout.host_pages + index,
            frontier,
            cause: Cause::Map,
            tag: 0,
        });
        drop(state);
        self.work[frontier].notify(&self.sim);
    }

    async fn load_map_page(&self, index: u32) {
        let place = {
            let state = self.state.borrow();
            state.map.get(self.layout.host_pages + index)
        };
        let Where::Flash(place) = place else { return };
        let (line, offset) = self.layout.line_of(place);
        let at = self.layout.place(offset);
        let mut row = self.row(&self.state.borrow(), line, at.unit, at.row);
        row.planes = 1 << at.plane;
        self.begin_reading(line, ReadCause::Map, row);
        let bytes = self.layout.page_bytes() as u32;
        // A failed read costs its time only: the spare areas name every page, so that no entry is
        // ever lost.
        let _ = self.nand.read(row, bytes, Priority::Read).await;
        self.end_reading(line);
    }
}
