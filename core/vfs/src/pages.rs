//! Pages of files in the cache: loading, changing and dropping them.
//!
//! Invariants: bytes past the end of the file are zero in every page; a page being loaded is waited
//! for, never loaded twice; no await lies between finding a page and using it, so it cannot be
//! evicted in between.

use crate::body::Body;
use crate::errno::{Errno, Result};
use crate::flags::Source;
use crate::pool::{Pool, state};
use crate::readahead::Window;
use crate::types::{Access, Ino, PAGE};
use crate::vfs::{Core, NodeOf};
use nand::Payload;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use units::Ns;

/// State of a page in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The page is in this frame; `marked` if reading it triggers read-ahead.
    Here { frame: u32, marked: bool },
    /// The page is being loaded.
    Coming,
    /// The page is not in the cache.
    Absent,
}

/// A part of one page that a write changes.
#[derive(Clone, Copy)]
pub(crate) struct Piece<'a> {
    /// First byte in the page, and one past the last.
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Source of the write, and the offset in it of the first byte.
    pub(crate) source: Source<'a>,
    pub(crate) skip: u64,
    /// Offset of the page in the file.
    pub(crate) base: u64,
}

impl Piece<'_> {
    pub(crate) const fn is_whole(&self) -> bool {
        self.to - self.from == PAGE as usize
    }

    /// Overwrites the piece in the contents of a page.
    fn lay_over(&self, data: &mut Payload) {
        if let Source::Fill { pattern, .. } = self.source
            && (self.is_whole() || *data == Payload::Fill(pattern))
        {
            *data = Payload::Fill(pattern);
            return;
        }
        let bytes = own_bytes(data, self.is_whole());
        let out = &mut bytes[self.from..self.to];
        let offset = self.base + self.from as u64;
        self.source.copy_to(self.skip, offset, out);
    }
}

/// The bytes of a page as its own copy, not shared with other owners. With `whole` the contents may
/// be stale, since the caller overwrites all of them.
fn own_bytes(data: &mut Payload, whole: bool) -> &mut [u8; PAGE as usize] {
    let shared = match data {
        Payload::Bytes(bytes) => whole && Arc::get_mut(bytes).is_none(),
        _ => true,
    };
    if shared {
        let bytes = if whole {
            [0; PAGE as usize]
        } else {
            data.to_bytes()
        };
        *data = Payload::Bytes(Arc::new(bytes));
    }
    match data {
        Payload::Bytes(bytes) => Arc::make_mut(bytes),
        _ => unreachable!("it was made bytes above"),
    }
}

/// Zeros the bytes from `from` on; returns false if they were zero already.
fn zero_tail(data: &mut Payload, from: usize) -> bool {
    let clear = match data {
        Payload::Zero | Payload::Fill(0) | Payload::Lost | Payload::Partly(_) => true,
        Payload::Fill(_) => false,
        Payload::Bytes(bytes) => bytes[from..].iter().all(|&b| b == 0),
    };
    if !clear {
        own_bytes(data, false)[from..].fill(0);
    }
    !clear
}

impl<B: Body> Core<B> {
    #[inline]
    pub(crate) fn find(&self, node: &NodeOf<B>, index: u64) -> Found {
        let Some(frame) = node.frame(index) else {
            return Found::Absent;
        };
        match self.pool.borrow().frame(frame) {
            f if f.is(state::LOADING) => Found::Coming,
            f => Found::Here {
                frame,
                marked: f.is(state::MARK),
            },
        }
    }

    /// Whether a page of `node` is being loaded or written back.
    pub(crate) fn is_busy(&self, node: &NodeOf<B>) -> bool {
        !node.batches.borrow().is_empty() || self.next_busy(node, 0, u64::MAX)
    }

    /// Whether a page of the range is being loaded or written back.
    pub(crate) fn next_busy(&self, node: &NodeOf<B>, first: u64, end: u64) -> bool {
        if node.loading.get() == 0 && node.batches.borrow().is_empty() {
            return false;
        }
        let pool = self.pool.borrow();
        let pages = node.pages.borrow();
        let mut at = first;
        while let Some((index, &frame)) = pages.next(at)
            && index < end
        {
            if pool.frame(frame).is(state::LOADING | state::WRITING) {
                return true;
            }
            at = index + 1;
        }
        false
    }

    /// Waits until `frames` more frames can be taken.
    #[inline]
    pub(crate) async fn make_room(&self, frames: usize) {
        while !self.take_away(frames) {
            if self.dirty.get() + self.writing.get() == 0 {
                // All frames left are in use at this moment.
                return;
            }
            self.flusher.press(&self.sim);
            self.progress.wait(&self.sim).await;
        }
    }

    /// Evicts clean pages until `frames` frames are free. Returns false if too few pages are clean.
    fn take_away(&self, frames: usize) -> bool {
        loop {
            let mut pool = self.pool.borrow_mut();
            if pool.used + frames <= pool.limit {
                return true;
            }
            let Some(victim) = pool.victim() else {
                return false;
            };
            self.evict_frame(&mut pool, victim);
            drop(pool);
            self.count(|stats| stats.evicted += 1);
        }
    }

    fn evict_frame(&self, pool: &mut Pool, number: u32) {
        let (owner, index) = (pool.frame(number).owner, pool.frame(number).index);
        let node = self.ready(owner);
        debug_assert!(node.is_some(), "the owner of a page is in memory");
        if let Some(node) = node {
            node.pages.borrow_mut().remove(index);
        }
        pool.give_back(number);
    }

    pub(crate) fn drop_clean_pages(&self) {
        let mut pool = self.pool.borrow_mut();
        for number in pool.clean() {
            self.evict_frame(&mut pool, number);
        }
    }

    /// Adds a page to the cache; the caller has made room.
    fn put_page(&self, node: &NodeOf<B>, index: u64, states: u8) -> u32 {
        let mut pool = self.pool.borrow_mut();
        let frame = pool.take(node.ino(), index, Payload::Zero, states);
        node.pages.borrow_mut().insert(index, frame);
        frame
    }

    /// Marks the missing pages of the window as loading and returns them as runs; the caller has
    /// made room.
    pub(crate) fn begin_load(&self, node: &NodeOf<B>, window: Window) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        let end = (window.first + window.len).min(node.size().div_ceil(PAGE));
        for index in window.first..end {
            if node.frame(index).is_some() {
                continue;
            }
            let marked = window.mark == Some(index);
            let mark = if marked { state::MARK } else { 0 };
            self.put_page(node, index, state::LOADING | mark);
            node.loading.set(node.loading.get() + 1);
            match runs.last_mut() {
                Some(run) if run.end == index => run.end += 1,
                _ => runs.push(index..index + 1),
            }
        }
        runs
    }

    /// Loads the runs that `begin_load` has marked.
    pub(crate) async fn finish_load(&self, node: &NodeOf<B>, runs: Vec<Range<u64>>) -> Result<()> {
        let mut outcome = Ok(());
        for run in runs {
            let mut pages = vec![Payload::Zero; (run.end - run.start) as usize];
            let inode = &node.inode;
            let mut result = self.body.read_pages(inode, run.start, &mut pages).await;
            if pages.contains(&Payload::Lost) {
                result = result.and(Err(Errno::EIO));
            }
            for (index, data) in run.zip(pages) {
                self.loaded(node, index, data, result.is_ok());
            }
            outcome = outcome.and(result);
        }
        node.changed.notify(&self.sim);
        outcome
    }

    fn loaded(&self, node: &NodeOf<B>, index: u64, mut data: Payload, whole: bool) {
        let frame = node.frame(index);
        let frame = frame.expect("a page that is coming stays in the cache");
        node.loading.set(node.loading.get() - 1);
        let mut pool = self.pool.borrow_mut();
        if !whole {
            node.pages.borrow_mut().remove(index);
            pool.give_back(frame);
            return;
        }
        let (size, base) = (node.size(), index * PAGE);
        // The page differs from the medium if the medium has bytes behind the end of the file.
        let differs =
            size < base + PAGE && zero_tail(&mut data, size.saturating_sub(base) as usize);
        let frame = pool.frame_mut(frame);
        frame.data = data;
        frame.state &= !state::LOADING;
        frame.state |= if differs { state::UNKNOWN } else { 0 };
    }

    /// The frame of a page with its contents, loaded on a miss.
    pub(crate) async fn page(&self, node: &Rc<NodeOf<B>>, index: u64) -> Result<u32> {
        loop {
            match self.find(node, index) {
                Found::Here { frame, .. } => return Ok(frame),
                Found::Coming => node.changed.wait(&self.sim).await,
                Found::Absent => {
                    let window = Window {
                        first: index,
                        len: 1,
                        mark: None,
                    };
                    self.make_room(1).await;
                    if node.size() <= index * PAGE {
                        // The page begins past the end of the file: nothing to load.
                        return match node.frame(index) {
                            Some(_) => continue,
                            None => Ok(self.put_page(node, index, state::UNKNOWN)),
                        };
                    }
                    let runs = self.begin_load(node, window);
                    self.finish_load(node, runs).await?;
                }
            }
        }
    }

    /// Writes a piece of a page that has been announced to the body.
    pub(crate) async fn write_piece(
        &self,
        node: &Rc<NodeOf<B>>,
        index: u64,
        piece: &Piece<'_>,
    ) -> Result<()> {
        let frame = if piece.is_whole() {
            self.blank(node, index).await
        } else {
            self.page(node, index).await?
        };
        self.change(node, index, frame, |data| piece.lay_over(data));
        Ok(())
    }

    /// A frame for a page that is about to be overwritten as a whole.
    async fn blank(&self, node: &Rc<NodeOf<B>>, index: u64) -> u32 {
        loop {
            match self.find(node, index) {
                Found::Here { frame, .. } => return frame,
                Found::Coming => node.changed.wait(&self.sim).await,
                Found::Absent => {
                    self.make_room(1).await;
                    if node.frame(index).is_none() {
                        return self.put_page(node, index, state::UNKNOWN);
                    }
                }
            }
        }
    }

    /// Changes the contents of a page and marks it dirty.
    fn change(&self, node: &NodeOf<B>, index: u64, frame: u32, change: impl FnOnce(&mut Payload)) {
        let mut pool = self.pool.borrow_mut();
        let frame = pool.frame_mut(frame);
        let fresh = !frame.is(state::DIRTY);
        if fresh && !frame.is(state::UNKNOWN) && self.body.wants_duplicates() {
            frame.before = Some(frame.data.clone());
        }
        change(&mut frame.data);
        frame.state |= state::DIRTY;
        frame.touch();
        drop(pool);
        if fresh {
            node.pages.borrow_mut().tag(index, true);
            self.became_dirty(node);
        }
    }

    fn became_dirty(&self, node: &NodeOf<B>) {
        self.dirty.set(self.dirty.get() + 1);
        node.dirty.set(node.dirty.get() + 1);
        self.start_flusher();
        if node.dirty.get() == 1 {
            node.dirtied.set(self.sim.now());
            let key = (self.sim.now(), node.ino());
            self.dirty_nodes.borrow_mut().insert(key);
        }
    }

    /// Takes `pages` pages of `node` off the counts of dirty pages.
    pub(crate) fn became_clean(&self, node: &NodeOf<B>, pages: u32) {
        self.dirty.set(self.dirty.get() - u64::from(pages));
        node.dirty.set(node.dirty.get() - pages);
        if node.dirty.get() == 0 && pages > 0 {
            let key: (Ns, Ino) = (node.dirtied.get(), node.ino());
            self.dirty_nodes.borrow_mut().remove(&key);
        }
    }

    /// Zeros the bytes behind `size` in the page that the new end lies in.
    pub(crate) async fn cut_page(&self, node: &Rc<NodeOf<B>>, size: u64) -> Result<()> {
        let (index, from) = (size / PAGE, (size % PAGE) as usize);
        if from == 0 {
            return Ok(());
        }
        let frame = self.page(node, index).await?;
        let mut data = self.pool.borrow().frame(frame).data.clone();
        if !zero_tail(&mut data, from) {
            return Ok(());
        }
        // The page needs no space beyond what it has.
        let (who, inode) = (Access::root(), &node.inode);
        self.body.reserve(&who, inode, index..index + 1).await?;
        let frame = self.page(node, index).await?;
        self.change(node, index, frame, |old| *old = data);
        Ok(())
    }

    /// Prepares a file, whose lock is held, to grow past a gap: the body zeros the bytes that the
    /// medium may hold behind the end.
    pub(crate) async fn seal_end(&self, node: &NodeOf<B>) -> Result<()> {
        let size = node.size();
        let before = node.failures.count();
        self.expel(node, size, 1).await;
        node.failures.since(before)?;
        if size.is_multiple_of(PAGE) {
            return Ok(());
        }
        self.body.seal_end(&node.inode).await
    }

    /// Drops pages, dirty or not, after their loads and write-backs have ended.
    pub(crate) async fn drop_pages(&self, node: &NodeOf<B>, first: u64, end: u64) {
        while self.next_busy(node, first, end) {
            node.changed.wait(&self.sim).await;
        }
        self.forget_range(node, first, end);
    }

    /// Drops all pages from `first` on; none is being loaded or written back.
    pub(crate) fn forget_pages(&self, node: &NodeOf<B>, first: u64) {
        self.forget_range(node, first, u64::MAX);
    }

    fn forget_range(&self, node: &NodeOf<B>, first: u64, end: u64) {
        let mut pool = self.pool.borrow_mut();
        let mut pages = node.pages.borrow_mut();
        let mut dirty = 0;
        while let Some((index, &frame)) = pages.next(first)
            && index < end
        {
            dirty += u32::from(pool.frame(frame).is(state::DIRTY));
            pages.remove(index);
            pool.give_back(frame);
        }
        drop((pool, pages));
        if dirty > 0 {
            self.became_clean(node, dirty);
            self.progress.notify(&self.sim);
        }
    }

    /// Drops the clean pages of a range.
    pub(crate) fn drop_clean_range(&self, node: &NodeOf<B>, range: Range<u64>) {
        let mut pool = self.pool.borrow_mut();
        let mut pages = node.pages.borrow_mut();
        let mut at = range.start;
        while let Some((index, &frame)) = pages.next(at)
            && index < range.end
        {
            at = index + 1;
            if !pool.frame(frame).is(state::BUSY) {
                pages.remove(index);
                pool.give_back(frame);
            }
        }
    }

    /// Length of the unbroken run of cached pages before `index`, at most `most`.
    pub(crate) fn history(&self, node: &NodeOf<B>, index: u64, most: u64) -> u64 {
        let before = (0..index.min(most)).map(|n| index - 1 - n);
        before.take_while(|&i| node.frame(i).is_some()).count() as u64
    }

    /// The first page from `index` on that is not cached, among `most` pages.
    pub(crate) fn hole(&self, node: &NodeOf<B>, index: u64, most: u64) -> u64 {
        let mut after = index..index + most;
        let hole = after.find(|&i| node.frame(i).is_none());
        hole.unwrap_or(index + most)
    }

    /// Counts pages and dirty pages of `node`, and asserts that all counters agree.
    pub(crate) fn check_pages(&self, node: &NodeOf<B>) -> (usize, u64) {
        let pool = self.pool.borrow();
        let pages = node.pages.borrow();
        let (mut all, mut dirty, mut loading, mut at) = (0, 0, 0, 0);
        while let Some((index, &frame)) = pages.next(at) {
            let frame = pool.frame(frame);
            loading += u32::from(frame.is(state::LOADING));
            assert_eq!((frame.owner, frame.index), (node.ino(), index), "owner");
            all += 1;
            dirty += u64::from(frame.is(state::DIRTY));
            at = index + 1;
        }
        assert_eq!(loading, node.loading.get(), "pages on their way");
        let (mut tagged, mut at) = (0, 0);
        while let Some((index, &frame)) = pages.next_tagged(at) {
            assert!(pool.frame(frame).is(state::DIRTY), "tagged pages are dirty");
            tagged += 1;
            at = index + 1;
        }
        assert_eq!(tagged, u64::from(node.dirty.get()), "count of dirty pages");
        assert_eq!(tagged, dirty, "dirty pages are tagged");
        let key = (node.dirtied.get(), node.ino());
        let listed = self.dirty_nodes.borrow().contains(&key);
        assert_eq!(listed, dirty > 0, "dirty inodes are listed");
        (all, dirty)
    }
}
