//! The page cache: fetches from flash, write-backs, and blocks through the cache.

use super::Front;
use super::cache::Dirty;
use crate::drive::{Content, Core, IoError, Sink};
use crate::ledger::{Cause, ReadCause};
use crate::state::Incoming;
use crate::write::lay_over_page;
use nand::Payload;
use sim::Sim;
use std::rc::Rc;
use units::Extent;

/// Guard of pages being fetched: on drop it ends the fetch and wakes all tasks that wait for them.
struct Fetching<'a> {
    front: &'a Front,
    sim: &'a Sim,
    pages: &'a [u32],
}

impl Drop for Fetching<'_> {
    fn drop(&mut self) {
        if let Some(cache) = &self.front.cache {
            let mut cache = cache.borrow_mut();
            for page in self.pages {
                cache.fetching.remove(page);
            }
        }
        self.front.fetched.notify(self.sim);
    }
}

impl Front {
    pub(super) fn is_fetching(&self, page: u32) -> bool {
        let cache = self.cache.as_ref();
        cache.is_some_and(|cache| cache.borrow().fetching.contains(&page))
    }
}

impl Core {
    /// Brings pages into the cache. For a page that another task fetches it waits, and fetches the
    /// page itself if it did not arrive: so every caller receives the error of an unreadable page.
    pub(super) async fn fetch(
        self: &Rc<Self>,
        front: &Front,
        mut pages: Vec<u32>,
    ) -> Result<(), IoError> {
        loop {
            pages.retain(|&page| !front.is_cached(page));
            let mine = pages.extract_if(.., |page| !front.is_fetching(*page));
            let mine: Vec<u32> = mine.collect();
            self.fetch_pages(front, &mine).await?;
            if pages.is_empty() {
                return Ok(());
            }
            while pages.iter().any(|&page| front.is_fetching(page)) {
                front.fetched.wait(&self.sim).await;
            }
        }
    }

    /// Fetches pages that no other task is fetching.
    async fn fetch_pages(self: &Rc<Self>, front: &Front, pages: &[u32]) -> Result<(), IoError> {
        let Some(cache) = front.cache.as_ref().filter(|_| !pages.is_empty()) else {
            return Ok(());
        };
        cache.borrow_mut().fetching.extend(pages);
        let _fetching = Fetching {
            front,
            sim: &self.sim,
            pages,
        };
        let rows = self.rows(pages.iter().copied());
        self.read_rows(rows, ReadCause::CacheFetch).await?;
        self.move_pages(front, pages.len() as u32).await;
        self.copy_logged(front, pages.iter().copied()).await;
        for &page in pages {
            // On a read-only drive with a full cache of dirty pages, the page is not cached.
            if self.make_room(front, page).await.is_ok() {
                cache.borrow_mut().put(page, None);
                self.state.borrow_mut().ledger.bytes.fetched_pages += 1;
            }
        }
        Ok(())
    }

    /// Merges the lines that the log has into pages that came from flash; takes the time of the
    /// copy.
    //= bytefs 4.4
    pub(crate) async fn copy_logged(&self, front: &Front, pages: impl Iterator<Item = u32>) {
        let lines = pages.map(|page| front.logged(page).count_ones());
        let lines: u64 = lines.map(u64::from).sum();
        if lines > 0 {
            self.copy_lines(front, 0, lines).await;
        }
    }

    /// Makes room in the cache for `page`, unless it is cached.
    pub(super) async fn make_room(
        self: &Rc<Self>,
        front: &Front,
        page: u32,
    ) -> Result<(), IoError> {
        let Some(cache) = &front.cache else {
            return Ok(());
        };
        while !cache.borrow_mut().make_room(page) {
            self.buffer.take(1).await;
            if self.read_only.get() {
                self.buffer.put(1);
                return Err(IoError::ReadOnly);
            }
            let victim = cache.borrow().victim();
            match victim {
                Some(victim) => self.write_back(front, victim, false),
                None => self.buffer.put(1),
            }
        }
        Ok(())
    }

    /// Moves a dirty page from the cache to the write buffer, into a slot taken before. With `stays`
    /// the page stays in the cache, clean.
    pub(super) fn write_back(&self, front: &Front, page: u32, stays: bool) {
        let dirty = front.cache.as_ref();
        let dirty = dirty.and_then(|cache| match stays {
            true => cache.borrow_mut().take_dirty(page),
            false => cache.borrow_mut().remove(page),
        });
        let Some(dirty) = dirty else {
            self.buffer.put(1);
            return;
        };
        let incoming = Incoming {
            page,
            frontier: self.with_room(usize::from(dirty.frontier)),
            cause: Cause::Eviction,
            tag: dirty.tag,
        };
        self.put_page(incoming, dirty.payload);
        self.state.borrow_mut().ledger.bytes.evicted_pages += 1;
    }

    /// Puts a page into the write buffer, into a slot taken before. Returns the number of the page's
    /// version there.
    pub(crate) fn put_page(&self, incoming: Incoming, payload: Option<Payload>) -> u64 {
        let mut state = self.state.borrow_mut();
        let (slot, new) = state.insert(incoming);
        if let Some(payload) = payload {
            state.set_payload(slot, 0, payload);
        }
        let full = state.frontiers[incoming.frontier].waiting() >= self.layout.unit as usize;
        let version = state.slots.get(slot).serial;
        drop(state);
        if !new {
            self.buffer.put(1);
        }
        if full {
            self.work[incoming.frontier].notify(&self.sim);
        }
        version
    }

    /// Reads a block through the cache.
    pub(crate) async fn read_through(
        self: &Rc<Self>,
        front: &Front,
        extent: Extent,
        sink: &mut impl Sink,
    ) -> Result<(), IoError> {
        let (first, last) = self.pages_of(extent);
        let service = self.config.controller.limits.read;
        self.enter_block(front, service, last - first).await;
        let wanted = (first..last).filter(|&page| !front.touch(page));
        self.fetch(front, wanted.collect()).await?;
        self.state.borrow_mut().ledger.host_read_sectors += u64::from(extent.sectors);
        self.hand_over(extent, sink)
    }

    /// Writes a block to the cache.
    pub(crate) async fn write_through(
        self: &Rc<Self>,
        front: &Front,
        extent: Extent,
        content: Content<'_>,
        frontier: usize,
        tag: u16,
    ) -> Result<(), IoError> {
        let (first, last) = self.pages_of(extent);
        let service = self.config.controller.limits.write;
        self.enter_block(front, service, last - first).await;
        for page in first..last {
            let part = self.part(extent, page);
            let whole = part.to - part.from == self.layout.page_bytes() as usize;
            if !whole && !front.touch(page) {
                self.fetch(front, vec![page]).await?;
            }
            self.make_room(front, page).await?;
            if self.read_only.get() {
                return Err(IoError::ReadOnly);
            }
            let payload = if self.config.flash.keep_contents {
                let old = (!whole).then(|| self.newest_payload(page));
                let mut laid = [Payload::Zero];
                lay_over_page(&mut laid, old.map(|old| vec![old]), part, content);
                let [laid] = laid;
                Some(laid)
            } else {
                None
            };
            let dirty = Dirty {
                payload,
                frontier: frontier as u16,
                tag,
            };
            front.put(page, dirty);
        }
        let mut state = self.state.borrow_mut();
        state.ledger.host_write_sectors += u64::from(extent.sectors);
        state.ledger.handles[frontier].host_sectors += u64::from(extent.sectors);
        Ok(())
    }
}
