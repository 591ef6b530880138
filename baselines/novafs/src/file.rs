//! Contents of files.
//!
//! Invariants: visible contents are never overwritten in place; a write goes to new pages and
//! becomes visible as a whole with the new tail, which also frees the replaced pages. The last page
//! may hold anything behind the end of the file; it is zeroed before the end moves on.
//= nova 4.3

use crate::alloc::Class;
use crate::commit::Step;
use crate::entry::{Entry, Target};
use crate::format::{LINE_BYTES, PAGE, PAGE_BYTES};
use crate::fs::{Node, NovaFs};
use crate::pieces::Run;
use nand::Payload;
use std::ops::Range;
use std::sync::Arc;
use vfs::direct::{touched, within};
use vfs::{DirtyPage, FallocateMode, Result, SeekWhat, Timestamp};

/// Entries that map `first` and the following pages to `runs`.
fn entries(node: &Node, mut first: u64, runs: &[Run], written: bool, size: u64) -> Vec<Entry> {
    let attr = node.attr.get();
    let entry = |run: &Run| {
        let to = if written {
            Target::Data(run.start)
        } else {
            Target::Unwritten(run.start)
        };
        let entry = Entry::Write {
            first,
            pages: run.len,
            to,
            size,
            mtime: attr.mtime,
            ctime: attr.ctime,
        };
        first += run.len;
        entry
    };
    runs.iter().map(entry).collect()
}

impl NovaFs {
    /// Reads bytes from `offset` on; holes and bytes past the end are zeros.
    pub(crate) async fn read_at(&self, node: &Node, offset: u64, out: &mut [u8]) -> Result<()> {
        let range = offset..offset + out.len() as u64;
        let parts = node.private.state.borrow().pieces.parts(touched(&range));
        for (pages, to) in parts {
            let from = range.start.max(pages.start * PAGE_BYTES);
            let end = range.end.min(pages.end.saturating_mul(PAGE_BYTES));
            let part = &mut out[(from - offset) as usize..(end - offset) as usize];
            let Target::Data(page) = to else {
                part.fill(0);
                continue;
            };
            let at = page * PAGE_BYTES + (from - pages.start * PAGE_BYTES);
            self.load_bytes(at, part, Self::owner(node)).await?;
        }
        Ok(())
    }

    /// Reads whole pages; holes are zeros.
    pub(crate) async fn read_whole(
        &self,
        node: &Node,
        first: u64,
        pages: &mut [Payload],
    ) -> Result<()> {
        for (index, page) in (first..).zip(pages) {
            let (to, _) = node.private.state.borrow().pieces.find(index);
            *page = Payload::Zero;
            if let Target::Data(_) = to {
                let mut bytes = [0; PAGE];
                self.read_at(node, index * PAGE_BYTES, &mut bytes).await?;
                *page = Payload::Bytes(Arc::new(bytes));
            }
        }
        Ok(())
    }

    /// Writes to new pages, and commits them with the size and times of `node`.
    pub(crate) async fn write_at(&self, node: &Node, offset: u64, bytes: &[u8]) -> Result<()> {
        let range = offset..offset + bytes.len() as u64;
        if range.is_empty() {
            return Ok(());
        }
        let _turn = self.turns(&[node]).await;
        let pages = touched(&range);
        let runs = self.take(pages.end - pages.start, Class::Growth)?;
        let done = self.write_to(node, &range, bytes, &runs).await;
        if done.is_err() && !self.failed.get() {
            self.give(runs);
        }
        done?;
        node.update(|attr| attr.size = attr.size.max(range.end));
        Ok(())
    }

    async fn write_to(
        &self,
        node: &Node,
        range: &Range<u64>,
        bytes: &[u8],
        runs: &[Run],
    ) -> Result<()> {
        let (first, size) = (range.start / PAGE_BYTES, node.attr.get().size);
        let mut index = first;
        for run in runs {
            let pages = index..index + run.len;
            let filled = self.filled(node, pages.clone(), range, bytes).await?;
            let who = Self::owner(node);
            self.store(run.start * PAGE_BYTES, &filled, who).await?;
            index = pages.end;
        }
        let entries = entries(node, first, runs, true, size.max(range.end));
        self.commit(vec![Step::new(node, entries)], Class::Growth)
            .await
    }

    /// New contents of `pages`: `bytes` in `range`, and the old contents around it.
    async fn filled(
        &self,
        node: &Node,
        pages: Range<u64>,
        range: &Range<u64>,
        bytes: &[u8],
    ) -> Result<Vec<u8>> {
        let base = pages.start * PAGE_BYTES;
        let mut filled = vec![0; ((pages.end - pages.start) * PAGE_BYTES) as usize];
        let edges = [pages.start, pages.end - 1];
        for &index in &edges[..if edges[0] == edges[1] { 1 } else { 2 }] {
            if within(range, index).len() < PAGE {
                let at = (index * PAGE_BYTES - base) as usize;
                self.read_visible(node, index, &mut filled[at..at + PAGE])
                    .await?;
            }
        }
        let (from, to) = (range.start.max(base), range.end.min(pages.end * PAGE_BYTES));
        let part = &bytes[(from - range.start) as usize..(to - range.start) as usize];
        filled[(from - base) as usize..(to - base) as usize].copy_from_slice(part);
        Ok(filled)
    }

    /// Reads the visible part of a page: up to the end of the file.
    async fn read_visible(&self, node: &Node, index: u64, out: &mut [u8]) -> Result<()> {
        let base = index * PAGE_BYTES;
        let seen = node.attr.get().size.saturating_sub(base).min(PAGE_BYTES) as usize;
        if seen == 0 {
            return Ok(());
        }
        self.read_at(node, base, &mut out[..seen]).await
    }

    /// Writes back pages of a cache, as far as they are within the file.
    pub(crate) async fn write_whole(&self, node: &Node, pages: &[DirtyPage]) -> Result<()> {
        for page in pages {
            let base = page.index * PAGE_BYTES;
            let len = node.attr.get().size.saturating_sub(base).min(PAGE_BYTES);
            let bytes = page.now.to_bytes();
            self.write_at(node, base, &bytes[..len as usize]).await?;
        }
        Ok(())
    }

    /// Zeros the bytes behind the end of the file in its last page, unless they are zero.
    pub(crate) async fn zero_behind_end(&self, node: &Node) -> Result<()> {
        let _turn = self.turns(&[node]).await;
        let size = node.attr.get().size;
        let found = node.private.state.borrow().pieces.find(size / PAGE_BYTES);
        let (Target::Data(page), true) = (found.0, !size.is_multiple_of(PAGE_BYTES)) else {
            return Ok(());
        };
        let first = size % PAGE_BYTES / LINE_BYTES * LINE_BYTES;
        let mut tail = vec![0; (PAGE_BYTES - first) as usize];
        let (at, who) = (page * PAGE_BYTES + first, Self::owner(node));
        self.load_bytes(at, &mut tail, who).await?;
        let hidden = &mut tail[(size % PAGE_BYTES - first) as usize..];
        if hidden.iter().all(|&byte| byte == 0) {
            return Ok(());
        }
        hidden.fill(0);
        if vfs::mutant::is("nova-truncated-bytes-return") {
            return Ok(());
        }
        // These bytes are not visible, so they may be overwritten in place; the zeros are durable
        // before the size can grow.
        self.store(at, &tail, who).await?;
        self.verify().await
    }

    /// Commits the size of `node`, and frees the pages past it.
    pub(crate) async fn resize(&self, node: &Node, old: u64) -> Result<()> {
        let _turn = self.turns(&[node]).await;
        let attr = node.attr.get();
        let cut = attr.size < old;
        let entry = Entry::Attr { attr, cut };
        self.commit(vec![Step::new(node, vec![entry])], Class::Upkeep)
            .await
    }

    /// Commits the attributes of `node`, if they have changed.
    pub(crate) async fn store_attr(&self, node: &Node) -> Result<()> {
        let _turn = self.turns(&[node]).await;
        let attr = node.attr.get();
        if attr == node.private.state.borrow().attr {
            return Ok(());
        }
        let entry = Entry::Attr { attr, cut: false };
        self.commit(vec![Step::new(node, vec![entry])], Class::Upkeep)
            .await
    }

    /// Allocates, punches or zeroes a range of bytes.
    pub(crate) async fn allocate(
        &self,
        node: &Node,
        mode: FallocateMode,
        range: Range<u64>,
        now: Timestamp,
    ) -> Result<()> {
        let _turn = self.turns(&[node]).await;
        let before = node.attr.get();
        let size = match mode {
            FallocateMode::Allocate { keep_size: false }
            | FallocateMode::Zero { keep_size: false } => before.size.max(range.end),
            _ => before.size,
        };
        let mut taken = Vec::new();
        node.update(|attr| (attr.mtime, attr.ctime) = (now, now));
        let done = self.allocate_in(node, mode, &range, size, &mut taken).await;
        if let Err(error) = done {
            node.attr.set(before);
            if !self.failed.get() {
                self.give(taken);
            }
            return Err(error);
        }
        node.update(|attr| attr.size = size);
        Ok(())
    }

    async fn allocate_in(
        &self,
        node: &Node,
        mode: FallocateMode,
        range: &Range<u64>,
        size: u64,
        taken: &mut Vec<Run>,
    ) -> Result<()> {
        let mut steps = Vec::new();
        let parts = node.private.state.borrow().pieces.parts(touched(range));
        for (pages, to) in parts {
            match (mode, to) {
                (FallocateMode::Allocate { .. } | FallocateMode::Zero { .. }, Target::Hole) => {
                    let runs = self.take(pages.end - pages.start, Class::Growth)?;
                    steps.extend(entries(node, pages.start, &runs, false, size));
                    taken.extend(runs);
                }
                (_, Target::Hole) | (FallocateMode::Allocate { .. }, _) => {}
                (FallocateMode::Zero { .. }, Target::Unwritten(_)) => {}
                _ => {
                    let cleared = self.clear(node, mode, pages, range, size, taken).await?;
                    steps.extend(cleared);
                }
            }
        }
        let attr = vfs::Attr {
            size,
            ..node.attr.get()
        };
        if steps.is_empty() {
            steps.push(Entry::Attr { attr, cut: false });
        }
        self.commit(vec![Step::new(node, steps)], Class::Growth)
            .await
    }

    /// Zeros the bytes of `range` in `pages`, which are mapped: whole pages by entries, parts of
    /// pages by writes.
    async fn clear(
        &self,
        node: &Node,
        mode: FallocateMode,
        pages: Range<u64>,
        range: &Range<u64>,
        size: u64,
        taken: &mut Vec<Run>,
    ) -> Result<Vec<Entry>> {
        let is_whole = |index: u64| within(range, index).len() == PAGE;
        let whole = pages.start + u64::from(!is_whole(pages.start));
        let end = pages.end - u64::from(!is_whole(pages.end - 1));
        let mut steps = Vec::new();
        for index in [pages.start, pages.end - 1] {
            let done = steps.len() == 1 && pages.start == index;
            if is_whole(index) || done {
                continue;
            }
            let runs = self.take(1, Class::Growth)?;
            let (at, who) = (runs[0].start * PAGE_BYTES, Self::owner(node));
            let mut bytes = [0; PAGE];
            taken.extend_from_slice(&runs);
            self.read_visible(node, index, &mut bytes).await?;
            bytes[within(range, index)].fill(0);
            self.store(at, &bytes, who).await?;
            steps.extend(entries(node, index, &runs, true, size));
        }
        if whole >= end {
            return Ok(steps);
        }
        if mode == FallocateMode::Punch {
            let attr = node.attr.get();
            steps.push(Entry::Write {
                first: whole,
                pages: end - whole,
                to: Target::Hole,
                size,
                mtime: attr.mtime,
                ctime: attr.ctime,
            });
        } else {
            let runs = self.take(end - whole, Class::Growth)?;
            steps.extend(entries(node, whole, &runs, false, size));
            taken.extend(runs);
        }
        Ok(steps)
    }

    /// The first offset at or after `offset` where data or a hole begins.
    pub(crate) fn seek_from(node: &Node, offset: u64, what: SeekWhat) -> Option<u64> {
        let size = node.attr.get().size;
        let pieces = &node.private.state.borrow().pieces;
        let parts = pieces.parts(offset / PAGE_BYTES..size.div_ceil(PAGE_BYTES));
        let data = |to: &Target| matches!(to, Target::Data(_));
        let mut wanted = parts.iter();
        let found = wanted.find(|(_, to)| data(to) == (what == SeekWhat::Data));
        let found = found.map(|(pages, _)| offset.max(pages.start * PAGE_BYTES));
        found.filter(|&at| at < size)
    }
}
