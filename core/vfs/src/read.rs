//! Reading files, through the cache or around it.

use crate::access::ensure;
use crate::body::Body;
use crate::errno::{Errno, Result};
use crate::file::{Handle, OpenFile};
use crate::flags::OpenFlags;
use crate::pages::Found;
use crate::pool::state;
use crate::readahead::Window;
use crate::types::{AROUND, FileKind, MAX_TRANSFER, PAGE};
use crate::vfs::{Core, NodeOf, Vfs};
use nand::Payload;
use ssd::Sink;
use std::rc::Rc;

/// Pages loaded at a time for [`Advice::WillNeed`].
const ADVANCE: u64 = 256;

/// Expected access pattern, as of `posix_fadvise`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// No expectation: default read-ahead.
    Normal,
    /// Reads go from the start to the end: doubled read-ahead.
    Sequential,
    /// Reads jump: no read-ahead.
    Random,
    /// The range will be read: it is loaded.
    WillNeed,
    /// The range will not be read again: its pages are dropped.
    DontNeed,
}

impl<B: Body> Vfs<B> {
    /// Reads up to `len` bytes from `offset` on into `sink`; returns the number of bytes read: at
    /// most [`MAX_TRANSFER`], and fewer only at the end of the file. Offsets passed to the sink are
    /// relative to `offset`.
    ///
    /// [`MAX_TRANSFER`]: crate::MAX_TRANSFER
    ///
    /// # Errors
    /// `EBADF` if the file was not opened for reading, `EISDIR`, `EINVAL` with `DIRECT` at an
    /// offset or length that the medium cannot read at, `EIO`.
    pub async fn read(
        &self,
        handle: &Handle,
        offset: u64,
        len: u64,
        sink: &mut impl Sink,
    ) -> Result<u64> {
        let core = &self.core;
        let file = core.file(handle)?;
        let len = len.min(MAX_TRANSFER);
        let there = file.node.size().saturating_sub(offset).min(len);
        core.pay(core.config.costs.copying(there)).await;
        core.read(&file, offset, len, sink).await
    }

    /// Reads as a mapped file is read: without the cost of a call.
    ///
    /// # Errors
    /// `EBADF` if the file was not opened for reading, `EIO`.
    pub async fn map_read(
        &self,
        handle: &Handle,
        offset: u64,
        len: u64,
        sink: &mut impl Sink,
    ) -> Result<u64> {
        let file = self.core.file(handle)?;
        ensure(file.has(OpenFlags::READ), Errno::EBADF)?;
        if self.core.body.is_dax() {
            return self.core.read_around(&file, offset, len, sink).await;
        }
        let _guard = file.node.lock.read().await;
        self.core.read_cached(&file, offset, len, sink).await
    }

    /// Applies `advice` to reads from `offset` to `offset + len`; a `len` of 0 means to the end.
    ///
    /// # Errors
    /// `EBADF`, `EIO`.
    pub async fn advise(
        &self,
        handle: &Handle,
        offset: u64,
        len: u64,
        advice: Advice,
    ) -> Result<()> {
        self.core.pay(self.core.config.costs.call).await;
        let file = self.core.file(handle)?;
        let end = if len == 0 {
            u64::MAX
        } else {
            offset.saturating_add(len)
        };
        match advice {
            Advice::Normal => file.ahead.borrow_mut().expect_nothing(),
            Advice::Sequential => file.ahead.borrow_mut().expect_sequential(),
            Advice::Random => file.ahead.borrow_mut().expect_random(),
            Advice::WillNeed if self.core.body.is_dax() => {}
            Advice::WillNeed => self.core.load_range(&file.node, offset, end).await?,
            Advice::DontNeed => {
                let pages = offset.div_ceil(PAGE)..end / PAGE;
                self.core.write_back(&file.node, pages.clone(), false).await;
                self.core.drop_clean_range(&file.node, pages);
            }
        }
        Ok(())
    }
}

impl<B: Body> Core<B> {
    pub(crate) async fn read(
        &self,
        file: &OpenFile<B::Private>,
        offset: u64,
        len: u64,
        sink: &mut impl Sink,
    ) -> Result<u64> {
        ensure(file.has(OpenFlags::READ), Errno::EBADF)?;
        let kind = file.node.attr().kind;
        ensure(kind != FileKind::Directory, Errno::EISDIR)?;
        let done = if file.has(OpenFlags::DIRECT) || self.body.is_dax() {
            // Boxed: the rare path must not enlarge every future.
            Box::pin(self.read_around(file, offset, len, sink)).await?
        } else {
            let _guard = file.node.lock.read().await;
            self.read_cached(file, offset, len, sink).await?
        };
        self.count(|stats| stats.read += done);
        if len > 0 && !file.has(OpenFlags::NO_ATIME) {
            self.touch(&file.node).await?;
        }
        Ok(done)
    }

    /// Reads through the cache; the caller holds the inode lock.
    pub(crate) async fn read_cached(
        &self,
        file: &OpenFile<B::Private>,
        offset: u64,
        len: u64,
        sink: &mut impl Sink,
    ) -> Result<u64> {
        let node = &file.node;
        let end = offset.saturating_add(len).min(node.size());
        let (mut at, mut waited, mut hits) = (offset, false, 0);
        while at < end {
            let index = at / PAGE;
            let wanted = end.div_ceil(PAGE) - index;
            match self.find(node, index) {
                Found::Here { frame, marked } => {
                    if marked {
                        self.go_on(file, index, wanted, frame).await;
                        continue;
                    }
                    let page_end = ((index + 1) * PAGE).min(end);
                    self.copy_out(frame, at, page_end, offset, sink);
                    hits += u64::from(!waited);
                    waited = false;
                    at = page_end;
                }
                Found::Coming => {
                    waited = true;
                    node.changed.wait(&self.sim).await;
                }
                Found::Absent => {
                    waited = true;
                    Box::pin(self.load_missing(file, index, wanted)).await?;
                }
            }
        }
        self.count(|stats| stats.hits += hits);
        if end > offset {
            file.ahead.borrow_mut().passed((end - 1) / PAGE);
        }
        Ok(end.saturating_sub(offset))
    }

    #[inline]
    fn copy_out(&self, frame: u32, at: u64, end: u64, offset: u64, sink: &mut impl Sink) {
        let mut pool = self.pool.borrow_mut();
        let frame = pool.frame_mut(frame);
        frame.touch();
        let (to, len) = ((at - offset) as usize, (end - at) as usize);
        sink.take(to, len, &frame.data, (at % PAGE) as usize);
    }

    /// Loads a window around a missing page.
    async fn load_missing(
        &self,
        file: &OpenFile<B::Private>,
        index: u64,
        wanted: u64,
    ) -> Result<()> {
        let history = self.history(&file.node, index, ADVANCE);
        let window = file.ahead.borrow_mut().miss(index, wanted, history);
        let len = window.len.min(ADVANCE);
        self.make_room(len as usize).await;
        let runs = self.begin_load(&file.node, Window { len, ..window });
        let pages: u64 = runs.iter().map(|run| run.end - run.start).sum();
        let missed = pages.min(wanted);
        self.count(|stats| {
            stats.misses += missed;
            stats.read_ahead += pages - missed;
        });
        self.finish_load(&file.node, runs).await
    }

    /// Loads the next window in the background when a reader reaches the mark.
    async fn go_on(&self, file: &OpenFile<B::Private>, index: u64, wanted: u64, frame: u32) {
        self.pool.borrow_mut().frame_mut(frame).state &= !state::MARK;
        let hole = self.hole(&file.node, index + 1, ADVANCE);
        let window = file.ahead.borrow_mut().marked(index, wanted, hole);
        let Some(window) = window else { return };
        let len = window.len.min(ADVANCE);
        self.make_room(len as usize).await;
        let runs = self.begin_load(&file.node, Window { len, ..window });
        let pages: u64 = runs.iter().map(|run| run.end - run.start).sum();
        self.count(|stats| stats.read_ahead += pages);
        let node = Rc::clone(&file.node);
        if pages > 0
            && let Some(core) = self.me.upgrade()
        {
            self.sim.spawn_detached(async move {
                // A later read of the pages meets the failure again.
                let _ = core.finish_load(&node, runs).await;
            });
        }
    }

    /// Loads a range of a file into the cache.
    async fn load_range(&self, node: &Rc<NodeOf<B>>, offset: u64, end: u64) -> Result<()> {
        let _guard = node.lock.read().await;
        let last = end.min(node.size()).div_ceil(PAGE);
        let mut first = offset / PAGE;
        while first < last {
            let len = ADVANCE.min(last - first);
            self.make_room(len as usize).await;
            let window = Window {
                first,
                len,
                mark: None,
            };
            let runs = self.begin_load(node, window);
            let pages: u64 = runs.iter().map(|run| run.end - run.start).sum();
            self.count(|stats| stats.read_ahead += pages);
            self.finish_load(node, runs).await?;
            first += len;
        }
        Ok(())
    }

    /// Reads around the cache; holds the inode lock itself.
    async fn read_around(
        &self,
        file: &OpenFile<B::Private>,
        offset: u64,
        len: u64,
        sink: &mut impl Sink,
    ) -> Result<u64> {
        let node = &file.node;
        let _guard = node.lock.read().await;
        let there = node.size().saturating_sub(offset).min(len);
        if there == 0 {
            return Ok(0);
        }
        // The read is cut at the end of the file, but keeps the remainder of its length, which the
        // medium may reject.
        let len = if self.body.is_dax() {
            there
        } else {
            len.min(there.next_multiple_of(PAGE) + len % PAGE)
        };
        let mut bytes = vec![0; len.min(AROUND) as usize];
        let pages = offset / PAGE..offset.saturating_add(len).div_ceil(PAGE);
        self.write_back(node, pages, true).await;
        let mut done = 0;
        while done < there {
            let part = &mut bytes[..(len - done).min(AROUND) as usize];
            let at = offset + done;
            self.body.read_direct(&node.inode, at, part).await?;
            let kept = (there - done).min(part.len() as u64);
            hand_over(&part[..kept as usize], offset, done, sink);
            done += kept;
        }
        Ok(there)
    }
}

/// Passes `bytes`, which lie `skip` bytes behind `offset` in a file, to `sink` in pieces that do
/// not cross pages, as it expects.
fn hand_over(bytes: &[u8], offset: u64, skip: u64, sink: &mut impl Sink) {
    let mut at = 0;
    while at < bytes.len() {
        let from = ((offset + skip + at as u64) % PAGE) as usize;
        let part = (PAGE as usize - from).min(bytes.len() - at);
        let mut page = [0; PAGE as usize];
        page[from..from + part].copy_from_slice(&bytes[at..at + part]);
        let payload = Payload::Bytes(std::sync::Arc::new(page));
        sink.take(skip as usize + at, part, &payload, from);
        at += part;
    }
}
