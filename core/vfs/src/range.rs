//! Ranges of a file: allocating, punching and zeroing them, looking for data and
//! holes, copying.

use crate::access::ensure;
use crate::body::Body;
use crate::errno::{Errno, Result};
use crate::file::{Handle, OpenFile};
use crate::flags::{OpenFlags, Source};
use crate::observe::Act;
use crate::types::{FallocateMode, FileKind, Ino, MAX_TRANSFER, PAGE, SeekWhat};
use crate::vfs::{Core, Vfs};
use std::ops::Range;

/// Bytes copied at a time by `copy_range`.
const COPY: u64 = 256 << 10;

impl<B: Body> Vfs<B> {
    /// Allocates, punches or zeros a range of a file.
    ///
    /// # Errors
    /// `EBADF` if the file was not opened for writing, `EINVAL` for an empty range, `ENODEV` for a
    /// file that is not regular, `EFBIG`, `ENOSPC`, `EOPNOTSUPP`, `EROFS`, `EIO`.
    pub async fn fallocate(
        &self,
        handle: &Handle,
        mode: FallocateMode,
        offset: u64,
        len: u64,
    ) -> Result<()> {
        let core = &self.core;
        core.pay(core.config.costs.call).await;
        let file = core.file(handle)?;
        ensure(len > 0, Errno::EINVAL)?;
        ensure(file.has(OpenFlags::WRITE), Errno::EBADF)?;
        let node = &file.node;
        core.ensure_writable(node)?;
        ensure(node.attr().kind == FileKind::Regular, Errno::ENODEV)?;
        let end = offset.checked_add(len).ok_or(Errno::EFBIG)?;
        ensure(end <= core.body.max_size(), Errno::EFBIG)?;
        let guard = node.lock.write().await;
        let told = core.begins(|| act(node.ino(), mode, offset..end, node.size()));
        let change = async {
            core.expel(node, offset, len).await;
            if grows(mode) && end > node.size() {
                core.seal_end(node).await?;
            }
            node.failures.tell(&file.failures)?;
            let (inode, now) = (&node.inode, core.now());
            let changed = core
                .body
                .fallocate(&file.who, inode, mode, offset..end, now);
            changed.await?;
            core.stamp(&file.who, node, now).await
        };
        let done = change.await;
        core.ends(told, done.ok().map(|()| len));
        done?;
        core.settle_unlocked(node, guard).await
    }

    /// The first offset at or after `offset` where data or a hole begins.
    ///
    /// # Errors
    /// `ENXIO` at or past the end, or if there is no more data; `EINVAL` for a file that is not
    /// regular; `EIO`.
    pub async fn seek(&self, handle: &Handle, offset: u64, what: SeekWhat) -> Result<u64> {
        let core = &self.core;
        core.pay(core.config.costs.call).await;
        let file = core.file(handle)?;
        let node = &file.node;
        ensure(node.attr().kind == FileKind::Regular, Errno::EINVAL)?;
        let _guard = node.lock.write().await;
        let size = node.size();
        ensure(offset < size, Errno::ENXIO)?;
        core.write_back(node, 0..u64::MAX, true).await;
        match core.body.seek(&node.inode, offset, what).await? {
            Some(found) => Ok(found.min(size)),
            None if what == SeekWhat::Hole => Ok(size),
            None => Err(Errno::ENXIO),
        }
    }

    /// Copies up to `len` bytes between files, or within one file between disjoint ranges; returns
    /// the number of bytes copied.
    ///
    /// # Errors
    /// `EBADF` if a file was not opened for reading or writing as needed, or for appending;
    /// `EINVAL` for an overlap; errors of reading and writing.
    pub async fn copy_range(
        &self,
        from: &Handle,
        from_offset: u64,
        to: &Handle,
        to_offset: u64,
        len: u64,
    ) -> Result<u64> {
        let (from, to) = (self.core.file(from)?, self.core.file(to)?);
        ensure(!to.has(OpenFlags::APPEND), Errno::EBADF)?;
        let len = len.min(MAX_TRANSFER);
        let apart = from_offset.abs_diff(to_offset) >= len;
        ensure(from.node.ino() != to.node.ino() || apart, Errno::EINVAL)?;
        if len == 0 {
            return Ok(0);
        }
        if self
            .core
            .share(&from, from_offset, &to, to_offset, len)
            .await?
        {
            return Ok(len);
        }
        let mut done = 0;
        while done < len {
            let most = COPY.min(len - done);
            let (at, place) = (from_offset + done, to_offset + done);
            let copied = self.core.copy_part(&from, at, &to, place, most).await?;
            done += copied;
            if copied < most {
                break;
            }
        }
        Ok(done)
    }
}

/// Whether the mode extends a file that ends inside the range.
const fn grows(mode: FallocateMode) -> bool {
    match mode {
        FallocateMode::Punch => false,
        FallocateMode::Allocate { keep_size } | FallocateMode::Zero { keep_size } => !keep_size,
    }
}

/// The act that observers see for a `fallocate` of `range` on a file of `size` bytes.
fn act(ino: Ino, mode: FallocateMode, range: Range<u64>, size: u64) -> Act<'static> {
    match mode {
        FallocateMode::Zero { keep_size: false } => Act::Write {
            ino,
            offset: range.start,
            source: Source::Fill {
                pattern: 0,
                len: range.end - range.start,
            },
        },
        FallocateMode::Punch | FallocateMode::Zero { .. } => Act::Zero { ino, range },
        FallocateMode::Allocate { keep_size } => {
            let size = if keep_size { size } else { size.max(range.end) };
            Act::Resize { ino, size }
        }
    }
}

impl<B: Body> Core<B> {
    /// Shares a range between files without copying, if the body can; returns whether it did.
    async fn share(
        &self,
        from: &OpenFile<B::Private>,
        at: u64,
        to: &OpenFile<B::Private>,
        place: u64,
        len: u64,
    ) -> Result<bool> {
        let allowed = from.has(OpenFlags::READ) && to.has(OpenFlags::WRITE);
        if !self.body.clones() || !allowed {
            return Ok(false);
        }
        self.ensure_writable(&to.node)?;
        self.pay(self.config.costs.call).await;
        let span = at..at.saturating_add(len);
        if place.saturating_add(len) > self.body.max_size() {
            return Ok(false);
        }
        let shared = self.share_alone(from, span, to, place).await?;
        if shared && to.has(OpenFlags::DATA_SYNC) {
            let data_only = !to.has(OpenFlags::SYNC);
            let range = place..place + len;
            Box::pin(self.force(&to.node, range, data_only, &to.failures)).await?;
        }
        Ok(shared)
    }

    /// Locks both files, the smaller inode number first, and shares the range.
    async fn share_alone(
        &self,
        from: &OpenFile<B::Private>,
        span: Range<u64>,
        to: &OpenFile<B::Private>,
        place: u64,
    ) -> Result<bool> {
        let (source, target) = (&from.node, &to.node);
        let forwards = source.ino() <= target.ino();
        let first = if forwards { source } else { target };
        let second = if forwards { target } else { source };
        let _first = first.lock.write().await;
        let _second = match source.ino() == target.ino() {
            true => None,
            false => Some(second.lock.write().await),
        };
        if span.end > source.size() {
            return Ok(false);
        }
        let pages = span.start / PAGE..span.end.div_ceil(PAGE);
        let before = source.failures.count();
        self.write_back(source, pages, true).await;
        // The medium lacks data that the clone would share.
        source.failures.since(before)?;
        let stamped = self.stamp_written(&to.who, target).await?;
        if place > target.size() {
            self.seal_end(target).await?;
        }
        let len = span.end - span.start;
        let told = self.begins(|| Act::Share {
            from: source.ino(),
            span: span.clone(),
            to: target.ino(),
            place,
        });
        let (now, inode) = (self.now(), &target.inode);
        let shared = async {
            let before = target.failures.count();
            self.expel(target, place, len).await;
            target.failures.since(before)?;
            let shared = self
                .body
                .clone_range(&source.inode, span, inode, place, now);
            shared.await
        };
        let shared = shared.await;
        self.ends(told, shared.ok().map(|shared| if shared { len } else { 0 }));
        let shared = shared?;
        let change = if shared {
            self.body.change(inode)
        } else {
            stamped
        };
        self.body.settle(change).await?;
        Ok(shared)
    }

    async fn copy_part(
        &self,
        from: &OpenFile<B::Private>,
        at: u64,
        to: &OpenFile<B::Private>,
        place: u64,
        len: u64,
    ) -> Result<u64> {
        let mut bytes = vec![0; len.next_multiple_of(PAGE) as usize];
        let read = self.read(from, at, len, &mut bytes.as_mut_slice()).await?;
        let source = Source::Bytes(&bytes[..read as usize]);
        Ok(self.write(to, place, source).await?.1)
    }
}
