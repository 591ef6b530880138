//! Resizing files, allocating, punching and zeroing ranges, and direct writes.

use crate::format::extent::{Part, inline_item};
use crate::format::{SECTOR, SECTOR_BYTES};
use crate::fs::{Core, File};
use crate::persist::Persist;
use crate::pieces::{Found, piece_key};
use crate::read::SIZE_MAX;
use std::ops::Range;
use vfs::direct::{overlaid, page_of, sectors, touched, within};
use vfs::{Errno, FallocateMode, Result, Timestamp};

/// Pieces that one operation cuts at most.
const AT_ONCE: u64 = 16;
/// Items whose paths an operation may change; consecutive pieces share a path.
const ITEMS: u64 = 4;

impl<S: Persist> Core<S> {
    /// Brings the medium to the size that the attributes already hold; `old` is the size before.
    pub(crate) async fn resize(&self, file: &File, old: u64) -> Result<()> {
        self.ensure_sound()?;
        let size = file.attr.get().size;
        if size < old {
            self.shrink(file, size).await?;
        } else {
            self.outgrow_inline(file).await?;
        }
        let _operation = self.operate_to_free(ITEMS).await?;
        let known = file.private.disk_size.replace(size);
        let end = |at: u64| at.next_multiple_of(SECTOR_BYTES);
        let changed = end(size.min(old).min(known))..end(size.max(old));
        self.since.borrow_mut().wrote(file, changed);
        self.store_inode(file).await
    }

    /// Cuts all pieces beyond `size`, last first, [`AT_ONCE`] per operation. Each step stores
    /// the inode, so a commit between steps finds an intermediate size.
    async fn shrink(&self, file: &File, size: u64) -> Result<()> {
        let (tree, number) = (&file.private.tree, file.private.number);
        let end = size.next_multiple_of(SECTOR_BYTES);
        self.release(file, end..u64::MAX);
        self.cut_inline(file, size).await?;
        loop {
            let _operation = self.operate_to_free(ITEMS).await?;
            for _ in 0..AT_ONCE {
                let last = piece_key(number, u64::MAX);
                let last = self.with(|| {
                    self.forest.last_until(tree, last, |key, _| {
                        let own = (key.object, key.kind) == (number, piece_key(0, 0).kind);
                        own.then_some(key.offset)
                    })
                });
                let last = last.await?.flatten();
                let piece = match last {
                    Some(at) => {
                        self.with(|| self.forest.piece_from(tree, number, at))
                            .await?
                    }
                    None => None,
                };
                let Some(span) = piece
                    .map(|piece| piece.span())
                    .filter(|span| span.end > end)
                else {
                    // A commit may come before the caller's next operation.
                    return self.store_inode(file).await;
                };
                let from = span.start.max(end);
                let cut = self.cut(tree, number, from..span.end).await;
                let nbytes = file.private.nbytes.get();
                file.private
                    .nbytes
                    .set(nbytes.saturating_sub(self.noted(cut)?));
                let disk_size = file.private.disk_size.get();
                file.private.disk_size.set(disk_size.min(from.max(size)));
                self.since.borrow_mut().wrote(file, from..span.end);
            }
            self.store_inode(file).await?;
        }
    }

    /// Shortens inline contents to `size` bytes; removes their item if none are left.
    async fn cut_inline(&self, file: &File, size: u64) -> Result<()> {
        let (tree, number) = (&file.private.tree, file.private.number);
        let first = self
            .with(|| self.forest.piece_from(tree, number, 0))
            .await?;
        let Some(Found::Inline(bytes)) = first else {
            return Ok(());
        };
        let kept = (bytes.len() as u64).min(size) as usize;
        let _operation = self.operate_to_free(ITEMS).await?;
        let key = piece_key(number, 0);
        let changed = match kept {
            0 => self.with(|| self.forest.remove(tree, key)).await,
            _ => {
                let item = inline_item(self.forest.transid.get(), &bytes[..kept]);
                self.with(|| self.forest.set(tree, key, &item)).await
            }
        };
        self.noted(changed)?;
        file.private.nbytes.set(kept as u64);
        let disk_size = file.private.disk_size.get();
        file.private.disk_size.set(disk_size.min(size));
        self.since.borrow_mut().wrote(file, 0..SECTOR_BYTES);
        self.store_inode(file).await
    }

    /// Zeroes the bytes of the last page beyond the end of the file, if they are not zero.
    pub(crate) async fn seal_end(&self, file: &File) -> Result<()> {
        self.ensure_sound()?;
        let size = file.attr.get().size;
        if size.is_multiple_of(SECTOR_BYTES) {
            return Ok(());
        }
        let index = size / SECTOR_BYTES;
        let seen = self.visible(file, index, size).await?;
        let held = self.visible(file, index, u64::MAX).await?;
        if seen == held {
            return Ok(());
        }
        self.write_page(file, index, seen).await
    }

    /// Reserves space for a page and writes it.
    async fn write_page(&self, file: &File, index: u64, bytes: [u8; SECTOR]) -> Result<()> {
        self.reserve(file, index..index + 1).await?;
        self.write_pages(file, &[page_of(index, bytes)]).await
    }

    /// Allocates, punches or zeroes a range of bytes.
    pub(crate) async fn allocate(
        &self,
        file: &File,
        mode: FallocateMode,
        range: Range<u64>,
        now: Timestamp,
    ) -> Result<()> {
        if range.end > SIZE_MAX {
            return Err(Errno::EFBIG);
        }
        self.ensure_changeable(&file.private.tree)?;
        self.ensure_sound()?;
        self.outgrow_inline(file).await?;
        if !matches!(mode, FallocateMode::Allocate { .. }) {
            self.zero(file, &range).await?;
        }
        if mode != FallocateMode::Punch {
            self.preallocate(file, &range).await?;
        }
        let _operation = self.operate(ITEMS).await?;
        file.update(|attr| (attr.mtime, attr.ctime) = (now, now));
        if let FallocateMode::Allocate { keep_size: false }
        | FallocateMode::Zero { keep_size: false } = mode
            && range.end > file.attr.get().size
        {
            file.update(|attr| attr.size = range.end);
            self.reaches(file, range.end);
        }
        self.store_inode(file).await
    }

    /// Makes a range of bytes zeros: whole pages become holes.
    async fn zero(&self, file: &File, range: &Range<u64>) -> Result<()> {
        let size = file.attr.get().size;
        let pages = touched(range);
        let whole =
            range.start.next_multiple_of(SECTOR_BYTES)..range.end / SECTOR_BYTES * SECTOR_BYTES;
        let edges = [pages.start, pages.end.saturating_sub(1)];
        for &index in &edges[..if edges[0] == edges[1] { 1 } else { 2 }] {
            let part = within(range, index);
            if part.len() == SECTOR || index * SECTOR_BYTES >= size {
                continue;
            }
            let mut page = self.visible(file, index, size).await?;
            if page[part.clone()].iter().all(|&byte| byte == 0) {
                continue;
            }
            page[part].fill(0);
            self.write_page(file, index, page).await?;
        }
        let mut at = whole.start;
        while at < whole.end {
            at = self.punch(file, at..whole.end).await?;
        }
        Ok(())
    }

    /// Cuts up to [`AT_ONCE`] pieces from the start of `span`. Returns the offset at which the
    /// next step continues.
    async fn punch(&self, file: &File, span: Range<u64>) -> Result<u64> {
        let (tree, number) = (&file.private.tree, file.private.number);
        let _operation = self.operate_to_free(ITEMS).await?;
        let (mut at, mut cut) = (span.start, 0);
        for _ in 0..AT_ONCE {
            let next = self
                .with(|| self.forest.piece_from(tree, number, at))
                .await?;
            let Some(next) = next.filter(|next| next.span().start < span.end) else {
                at = span.end;
                break;
            };
            let end = next.span().end.min(span.end);
            let more = self.noted(self.cut(tree, number, at..end).await)?;
            cut = more.saturating_add(cut);
            at = end;
        }
        let nbytes = file.private.nbytes.get();
        file.private.nbytes.set(nbytes.saturating_sub(cut));
        self.since.borrow_mut().wrote(file, span.start..at);
        self.store_inode(file).await?;
        Ok(at)
    }

    /// Allocates unwritten extents for the holes of `range`; they read as zeros.
    async fn preallocate(&self, file: &File, range: &Range<u64>) -> Result<()> {
        let (tree, number) = (&file.private.tree, file.private.number);
        let pages = touched(range);
        let span = pages.start * SECTOR_BYTES..pages.end * SECTOR_BYTES;
        let mut holes = Vec::new();
        let mut at = span.start;
        for piece in self.pieces(tree, number, span.clone()).await? {
            let own = piece.span();
            if own.start > at {
                holes.push(at..own.start.min(span.end));
            }
            at = at.max(own.end);
        }
        if at < span.end {
            holes.push(at..span.end);
        }
        let wanted = holes.iter().map(|hole| hole.end - hole.start).sum();
        self.promise(wanted).await?;
        let mut left = wanted;
        let mut done = Ok(());
        for hole in holes {
            let mut at = hole.start;
            while at < hole.end && done.is_ok() {
                let filled = self.fill_hole(file, at..hole.end, &mut left).await;
                done = filled.map(|to| at = to);
            }
        }
        self.forest.space.borrow_mut().release(left);
        done
    }

    /// Allocates one unwritten extent at the start of `hole`, and reduces `promised` by its
    /// length. Returns the offset at which the extent ends.
    async fn fill_hole(&self, file: &File, hole: Range<u64>, promised: &mut u64) -> Result<u64> {
        let (tree, number) = (&file.private.tree, file.private.number);
        let _operation = self.operate(ITEMS).await?;
        let wanted = (hole.end - hole.start).min(crate::write::EXTENT_MOST);
        let (bytenr, len) = self.take_extent(wanted)?;
        self.forest.space.borrow_mut().release(len);
        *promised -= len;
        let part = Part {
            generation: self.forest.transid.get(),
            bytenr,
            len,
            offset: 0,
            bytes: len,
            written: false,
        };
        self.forest.refs.borrow_mut().make(bytenr, len, None);
        let put = self.with(|| self.forest.put_part(tree, number, hole.start, part));
        let put = put.await;
        self.noted(put)?;
        let nbytes = file.private.nbytes.get();
        file.private.nbytes.set(nbytes + len);
        let end = hole.start + len;
        self.since.borrow_mut().wrote(file, hole.start..end);
        self.store_inode(file).await?;
        Ok(end)
    }

    /// Writes whole sectors, bypassing the page cache. Returns the number of bytes written; a
    /// failed write restores the old size.
    pub(crate) async fn write_direct(&self, file: &File, offset: u64, bytes: &[u8]) -> Result<u64> {
        let range = sectors(offset, bytes.len(), SIZE_MAX)?;
        let (pages, old) = (touched(&range), file.attr.get().size);
        self.reserve(file, pages.clone()).await?;
        let seen = async |index| self.visible(file, index, old).await;
        let dirty = overlaid(&range, bytes, seen).await.inspect_err(|_| {
            self.release(file, pages.start * SECTOR_BYTES..pages.end * SECTOR_BYTES);
        })?;
        file.update(|attr| attr.size = old.max(range.end));
        let written = self.write_pages(file, &dirty).await;
        if written.is_err() {
            file.update(|attr| attr.size = old);
        }
        written.map(|()| bytes.len() as u64)
    }
}
