//! Writing files, through the cache or around it.
//!
//! Invariants: writes of one file run one after the other; the size grows with the page that
//! reaches past it, so no reader sees a size without its contents.

use crate::access::ensure;
use crate::body::Body;
use crate::errno::{Errno, Result};
use crate::file::{Handle, OpenFile};
use crate::flags::{OpenFlags, Source};
use crate::observe::Act;
use crate::pages::Piece;
use crate::pool::state;
use crate::types::{AROUND, FileKind, MAX_TRANSFER, PAGE};
use crate::vfs::{Core, NodeOf, Vfs};
use crate::writeback::Forcing;
use std::ops::Range;
use std::rc::Rc;
use units::Ns;

/// Pages announced to the body at a time.
const CHUNK: u64 = 256;

impl<B: Body> Vfs<B> {
    /// Writes at `offset`, or at the end of a file opened with `APPEND`; returns the number of
    /// bytes written: at most [`MAX_TRANSFER`], and fewer if space ran out or the largest size was
    /// reached.
    ///
    /// [`MAX_TRANSFER`]: crate::MAX_TRANSFER
    ///
    /// # Errors
    /// `EBADF` if the file was not opened for writing, `EFBIG`, `ENOSPC`, `EINVAL` with `DIRECT` at
    /// an offset or length that the medium cannot write at, `EROFS`, `EIO`.
    pub async fn write(&self, handle: &Handle, offset: u64, source: Source<'_>) -> Result<u64> {
        let file = self.core.file(handle)?;
        self.core.write(&file, offset, source).await.map(|w| w.1)
    }

    /// Writes as a mapped file is written: without the cost of a call, and without bytes past the
    /// end of the file. Returns the number of bytes written.
    ///
    /// # Errors
    /// `EBADF` if the file was not opened for reading and writing; `ENXIO` if the range reaches
    /// past the last page, where a program would get `SIGBUS`; `ENOSPC`, `EROFS`, `EIO`.
    pub async fn map_write(&self, handle: &Handle, offset: u64, source: Source<'_>) -> Result<u64> {
        let core = &self.core;
        let file = core.file(handle)?;
        ensure(file.has(OpenFlags::BOTH), Errno::EBADF)?;
        let node = &file.node;
        core.ensure_writable(node)?;
        // A processor stores a word at a time. Interleaved stores of many pages would leave
        // contents that no order of the stores explains.
        let guard = node.lock.write().await;
        let size = node.size();
        let end = offset.saturating_add(source.len());
        ensure(end <= size.next_multiple_of(PAGE), Errno::ENXIO)?;
        let mut change = core.stamp_written(&file.who, node).await?;
        let source = source.cut(size.saturating_sub(offset));
        let around = core.goes_around(&file, offset, source).await?;
        let done = core.write_told(&file, around, offset, source).await?;
        if around {
            change = core.body.change(&node.inode);
        }
        drop(guard);
        core.body.settle(change).await?;
        core.balance().await;
        Ok(done)
    }
}

impl<B: Body> Core<B> {
    /// Performs one `write` call; returns the offset at which it began and the number of bytes.
    pub(crate) async fn write(
        &self,
        file: &OpenFile<B::Private>,
        offset: u64,
        source: Source<'_>,
    ) -> Result<(u64, u64)> {
        ensure(file.has(OpenFlags::WRITE), Errno::EBADF)?;
        let node = &file.node;
        ensure(node.attr().kind == FileKind::Regular, Errno::EINVAL)?;
        self.ensure_writable(node)?;
        let source = source.cut(MAX_TRANSFER);
        self.pay(self.config.costs.copying(source.len())).await;
        if source.is_empty() {
            return Ok((offset, 0));
        }
        let guard = node.lock.write().await;
        let append = file.has(OpenFlags::APPEND);
        let offset = if append { node.size() } else { offset };
        let room = self.body.max_size().saturating_sub(offset);
        ensure(room > 0, Errno::EFBIG)?;
        let source = source.cut(room);
        let mut change = self.stamp_written(&file.who, node).await?;
        if offset > node.size() {
            self.seal_end(node).await?;
        }
        let direct = file.has(OpenFlags::DIRECT);
        let around = self.goes_around(file, offset, source).await? || direct;
        let done = self.write_told(file, around, offset, source).await?;
        if around {
            change = self.body.change(&node.inode);
        }
        drop(guard);
        self.body.settle(change).await?;
        self.count(|stats| stats.written += done);
        self.balance().await;
        if file.has(OpenFlags::DATA_SYNC) {
            let data_only = !file.has(OpenFlags::SYNC);
            let range = offset..offset + done;
            Box::pin(self.force(node, range, data_only, &file.failures)).await?;
        }
        Ok((offset, done))
    }

    /// Whether a write bypasses the cache at the body's choice.
    async fn goes_around(
        &self,
        file: &OpenFile<B::Private>,
        offset: u64,
        source: Source<'_>,
    ) -> Result<bool> {
        let (body, inode) = (&self.body, &file.node.inode);
        let takes = body.takes_write(&file.who, inode, offset, source.len());
        Ok(body.is_dax() || takes.await?)
    }

    /// Writes around the cache or through it, with the lock held, and reports the act to the
    /// observer.
    async fn write_told(
        &self,
        file: &OpenFile<B::Private>,
        around: bool,
        offset: u64,
        source: Source<'_>,
    ) -> Result<u64> {
        let ino = file.node.ino();
        let told = self.begins(|| Act::Write {
            ino,
            offset,
            source,
        });
        let done = if around {
            // The caller waits for this write as for a force, so the body must treat it as one.
            let waited = file.has(OpenFlags::DATA_SYNC);
            let _forcing = waited.then(|| Forcing::new(&file.node.inode.forcing));
            Box::pin(self.write_around(file, offset, source)).await
        } else {
            self.write_pages_of(file, offset, source).await
        };
        self.ends(told, done.ok());
        done
    }

    /// Writes to the cache, with the lock held. Bytes written before space ran out count.
    async fn write_pages_of(
        &self,
        file: &OpenFile<B::Private>,
        offset: u64,
        source: Source<'_>,
    ) -> Result<u64> {
        let node = &file.node;
        let end = offset + source.len();
        let mut at = offset;
        while at < end {
            let first = at / PAGE;
            let most = end.div_ceil(PAGE).min(first + CHUNK);
            let outcome = match self.announce(file, first..most).await {
                Ok(last) => {
                    let to = end.min(last * PAGE);
                    self.write_span(node, offset, at..to, source).await
                }
                Err(errno) => Err(errno),
            };
            match outcome {
                Ok(to) => at = to,
                Err(errno) if at == offset => return Err(errno),
                Err(_) => break,
            }
            self.nudge_flusher();
        }
        Ok(at - offset)
    }

    /// Announces pages to the body, unless all are dirty already; returns the end of the pages that
    /// space was found for.
    async fn announce(&self, file: &OpenFile<B::Private>, pages: Range<u64>) -> Result<u64> {
        let (who, node) = (&file.who, &file.node);
        if pages.clone().all(|index| self.is_dirty(node, index)) {
            return Ok(pages.end);
        }
        match self.body.reserve(who, &node.inode, pages.clone()).await {
            Ok(()) => Ok(pages.end),
            Err(Errno::ENOSPC | Errno::EDQUOT) if pages.end - pages.start > 1 => {
                let one = pages.start..pages.start + 1;
                self.body.reserve(who, &node.inode, one).await?;
                Ok(pages.start + 1)
            }
            Err(errno) => Err(errno),
        }
    }

    pub(crate) fn is_dirty(&self, node: &NodeOf<B>, index: u64) -> bool {
        let frame = node.frame(index);
        frame.is_some_and(|frame| self.pool.borrow().frame(frame).is(state::DIRTY))
    }

    /// Writes the bytes `span` of the file to the cache; returns the end of the written bytes.
    async fn write_span(
        &self,
        node: &Rc<NodeOf<B>>,
        offset: u64,
        span: Range<u64>,
        source: Source<'_>,
    ) -> Result<u64> {
        let mut at = span.start;
        while at < span.end {
            let index = at / PAGE;
            let base = index * PAGE;
            let to = span.end.min(base + PAGE);
            let piece = Piece {
                from: (at - base) as usize,
                to: (to - base) as usize,
                source,
                skip: at - offset,
                base,
            };
            match self.write_piece(node, index, &piece).await {
                Ok(()) => at = to,
                Err(_) if at > span.start => break,
                Err(errno) => return Err(errno),
            }
            if to > node.size() {
                node.inode.update(|attr| attr.size = to);
            }
        }
        Ok(at)
    }

    /// Blocks a writer while too many pages are dirty.
    async fn balance(&self) {
        if !self.is_over_limit() {
            return;
        }
        let start = self.sim.now();
        while self.is_over_limit() {
            self.flusher.kick(&self.sim);
            self.progress.wait(&self.sim).await;
        }
        let waited = self.sim.now().since(start);
        self.count(|stats| {
            stats.throttled += 1;
            stats.throttled_time = Ns(stats.throttled_time.0 + waited.0);
        });
    }

    /// Writes around the cache, with the lock held; returns the number of bytes written.
    async fn write_around(
        &self,
        file: &OpenFile<B::Private>,
        offset: u64,
        source: Source<'_>,
    ) -> Result<u64> {
        let (who, node) = (&file.who, &file.node);
        self.expel(node, offset, source.len()).await;
        if let Source::Bytes(bytes) = source {
            let write = self.body.write_direct(who, &node.inode, offset, bytes);
            return write.await;
        }
        let (mut done, len) = (0, source.len());
        while done < len {
            // The odd part goes first: an offset or length that the medium rejects is then rejected
            // before any write.
            let odd = (len - done) % AROUND;
            let mut bytes = vec![0; if odd > 0 { odd } else { AROUND } as usize];
            let at = offset + done;
            source.copy_to(done, at, &mut bytes);
            match self.body.write_direct(who, &node.inode, at, &bytes).await {
                Ok(written) => {
                    done += written;
                    if written < bytes.len() as u64 {
                        break;
                    }
                }
                Err(errno) if done == 0 => return Err(errno),
                Err(_) => break,
            }
        }
        Ok(done)
    }

    /// Writes the cached pages of a range back and drops them; the caller holds the lock
    /// exclusively.
    pub(crate) async fn expel(&self, node: &NodeOf<B>, offset: u64, len: u64) {
        let end = offset.saturating_add(len).div_ceil(PAGE);
        let pages = offset / PAGE..end;
        self.write_back(node, pages.clone(), true).await;
        self.drop_pages(node, pages.start, pages.end).await;
    }
}
