//! Delayed allocation: space is reserved when a page becomes dirty, and blocks are chosen at
//! write-back, when the length of the dirty range is known.
//!
//! Invariants: reserved space is at most the free space, less a reserve for extent trees and
//! directories, and less the superblock's reserve unless the caller may use it. A page has at
//! most one reservation, which ends when the page gets a block or is truncated. The size on the
//! medium grows only over written pages.

use crate::alloc::Want;
use crate::buffer::BLOCK;
use crate::extents::State;
use crate::format::extent::Entry;
use crate::fs::{ExtFs, Node};
use crate::inode::number;
use crate::persist::{DataWrite, Persist, TxId};
use crate::tree::{SECTORS, STEP_CREDITS};
use host::{Purpose, Who};
use nand::Payload;
use std::ops::Range;
use vfs::{Access, DirtyPage, Errno, FileKind, Result};

/// Blocks kept for metadata: a fiftieth of the file system, up to 4,096. The
/// same figures as the kernel's.
const SLACK_PART: u64 = 50;
const SLACK_MAX: u64 = 4096;

/// Most blocks preallocated behind a growing file: 2 MiB, our choice.
const KEEP_MAX: u64 = 512;

/// Blocks of metadata that one new extent changes at most: a bitmap and a
/// descriptor for it, and the nodes of the tree with theirs.
pub(crate) const EXTENT_CREDITS: usize = 2 + 3 * 6 + 1;

/// Ranges of pages with reserved space: sorted, disjoint and not adjacent.
#[derive(Default)]
pub(crate) struct Reserved(Vec<Range<u64>>);

impl Reserved {
    /// Adds a range; returns the number of its pages that were not reserved before.
    fn add(&mut self, range: Range<u64>) -> u64 {
        let first = self.0.partition_point(|r| r.end < range.start);
        let last = self.0.partition_point(|r| r.start <= range.end);
        let old: u64 = self.0[first..last].iter().map(|r| r.end - r.start).sum();
        let touched = &self.0[first..last];
        let start = touched
            .first()
            .map_or(range.start, |r| r.start.min(range.start));
        let end = touched.last().map_or(range.end, |r| r.end.max(range.end));
        self.0.splice(first..last, std::iter::once(start..end));
        end - start - old
    }

    /// Intersections of the reserved ranges with `range`.
    fn within(&self, range: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let first = self.0.partition_point(|r| r.end <= range.start);
        let (start, end) = (range.start, range.end);
        let here = self.0[first..].iter().take_while(move |r| r.start < end);
        here.map(move |r| r.start.max(start)..r.end.min(end))
    }

    /// Number of pages of `range` that are not reserved.
    fn missing(&self, range: &Range<u64>) -> u64 {
        let inside: u64 = self.within(range).map(|r| r.end - r.start).sum();
        range.end - range.start - inside
    }

    /// Parts of `range` that are not reserved.
    fn gaps(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut at = range.start;
        let mut gaps = Vec::new();
        for inside in self
            .within(range)
            .chain(std::iter::once(range.end..range.end))
        {
            if at < inside.start {
                gaps.push(at..inside.start);
            }
            at = inside.end;
        }
        gaps
    }

    /// Removes a range; returns the number of its pages that were reserved. A range that ends
    /// before it begins counts as empty: a hole of less than a block has such a range of blocks.
    fn take(&mut self, range: Range<u64>) -> u64 {
        if range.start >= range.end {
            return 0;
        }
        let first = self.0.partition_point(|r| r.end <= range.start);
        let last = self.0.partition_point(|r| r.start < range.end);
        if first >= last {
            return 0;
        }
        let (start, end) = (self.0[first].start, self.0[last - 1].end);
        let inside = |r: &Range<u64>| r.end.min(range.end) - r.start.max(range.start);
        let taken = self.0[first..last].iter().map(inside).sum();
        let head = (start < range.start).then_some(start..range.start);
        let tail = (end > range.end).then_some(range.end..end);
        self.0.splice(first..last, head.into_iter().chain(tail));
        taken
    }
}

/// Last transaction with a change of `node`; with `data_only`, of metadata that its data need.
pub(crate) fn last_change(node: &Node, data_only: bool) -> TxId {
    let private = &node.private;
    if data_only || vfs::mutant::is("ext4-fsync-skips-inode") {
        private.data_changed.get()
    } else {
        private.changed.get()
    }
}

impl<P: Persist> ExtFs<P> {
    /// Origin and purpose of requests for the contents of `node`.
    pub(crate) fn who(&self, node: &Node) -> Who {
        Who {
            origin: node.origin.get(),
            purpose: Purpose::Data,
        }
    }

    pub(crate) fn slack(&self) -> u64 {
        (self.geometry.blocks / SLACK_PART).min(SLACK_MAX)
    }

    /// Reserved blocks that the caller may not take: none for root and for the user and group that
    /// the superblock names, as in Linux; group 0 stands for no group.
    pub(crate) fn kept_from(&self, who: &Access) -> u64 {
        let (uid, gid) = self.geometry.reserved_for;
        let his = who.is_root() || who.uid == uid || gid != 0 && who.in_group(gid);
        let reserved = if his {
            0
        } else {
            self.geometry.reserved_blocks
        };
        self.slack() + reserved
    }

    /// Reserves space for those of `pages` that have neither a block nor a reservation, for all
    /// of them or none; `kept` blocks must stay free.
    pub(crate) async fn promise(&self, node: &Node, pages: Range<u64>, kept: u64) -> Result<()> {
        let (mut page, mut added) = (pages.start, Vec::new());
        while page < pages.end {
            let piece = self.lookup_block(node, page).await?;
            let end = pages.end.min(page + piece.len);
            if piece.state == State::Hole {
                if end < pages.end {
                    added.append(&mut node.private.reserved.borrow().gaps(&(page..end)));
                }
                if let Err(error) = self.promise_hole(node, page..end, kept) {
                    let before = added.into_iter().filter(|gap| gap.end <= page);
                    before.for_each(|gap| self.unpromise(node, gap));
                    return Err(error);
                }
            }
            page = end;
        }
        Ok(())
    }

    /// Reserves space for the pages of a hole that have no reservation.
    ///
    /// # Errors
    /// `ENOSPC` if fewer than `kept` blocks would stay free.
    pub(crate) fn promise_hole(&self, node: &Node, pages: Range<u64>, kept: u64) -> Result<()> {
        let mut reserved = node.private.reserved.borrow_mut();
        let missing = reserved.missing(&pages);
        let available = self.alloc.borrow().available();
        if missing > 0 && available < missing.saturating_add(kept) {
            return Err(self.refuse_promise(missing, kept));
        }
        self.alloc.borrow_mut().promised += reserved.add(pages);
        Ok(())
    }

    /// Releases the reservations of `pages`.
    pub(crate) fn unpromise(&self, node: &Node, pages: Range<u64>) {
        let taken = node.private.reserved.borrow_mut().take(pages);
        let mut alloc = self.alloc.borrow_mut();
        alloc.promised = alloc.promised.saturating_sub(taken);
    }

    /// Preferred location of block `index` of a file: behind the block before it, else in the
    /// group of the inode.
    pub(crate) async fn goal_of(&self, node: &Node, index: u64) -> Result<u64> {
        if let Some(before) = index.checked_sub(1) {
            let piece = self.lookup_in_turn(node, before).await?;
            if let State::Written(block) | State::Unwritten(block) = piece.state {
                return Ok(block + 1);
            }
        }
        let (group, _) = self.geometry.place_of(number(node));
        let regular = node.attr.get().kind == FileKind::Regular;
        Ok(self
            .geometry
            .group_start(self.geometry.goal_group(group, regular)))
    }

    /// Allocates a contiguous run of at most `len` blocks for a hole of a file, and inserts its
    /// extent.
    pub(crate) async fn fill_hole(
        &self,
        tx: &P::Tx,
        node: &Node,
        index: u64,
        len: u64,
        unwritten: bool,
    ) -> Result<Entry> {
        let grows = index > 0 && (index + len) * BLOCK as u64 >= node.attr.get().size;
        let want = Want {
            ino: number(node),
            goal: self.goal_of(node, index).await?,
            len: len.min(u64::from(Entry::longest(unwritten))) as u32,
            keep: if grows {
                index.next_power_of_two().min(KEEP_MAX) as u32
            } else {
                0
            },
        };
        let run = self.allocate(tx, want).await?;
        let entry = Entry {
            logical: index as u32,
            len: run.len as u32,
            unwritten,
            start: run.start,
        };
        if let Err(error) = self.insert_extent(tx, node, entry).await {
            self.release(tx, run, false).await?;
            return Err(error);
        }
        let added = run.len * SECTORS;
        self.count_sectors(tx, node, |sectors| sectors + added);
        self.unpromise(node, index..entry.end());
        Ok(entry)
    }

    /// Makes the extents of a range written or unwritten. On an error (no room in the tree), the
    /// failed extent and those after it keep their state. Returns false if one step did not cover
    /// the whole range.
    pub(crate) async fn convert(
        &self,
        tx: &P::Tx,
        node: &Node,
        range: Range<u64>,
        unwritten: bool,
    ) -> Result<bool> {
        let removed = self.remove_step(tx, node, range.start, range.end).await?;
        let mut entries = removed.entries.into_iter();
        while let Some(mut rest) = entries.next() {
            let Err(error) = self.insert_as(tx, node, &mut rest, unwritten).await else {
                continue;
            };
            for entry in std::iter::once(rest).chain(entries) {
                self.insert_extent(tx, node, entry).await?;
            }
            return Err(error);
        }
        Ok(removed.done)
    }

    /// Inserts an extent as written or unwritten; on an error, `rest` is the part not inserted.
    async fn insert_as(
        &self,
        tx: &P::Tx,
        node: &Node,
        rest: &mut Entry,
        unwritten: bool,
    ) -> Result<()> {
        // One block more fits a written extent than an unwritten one.
        while rest.len > 0 {
            let len = rest.len.min(Entry::longest(unwritten));
            let part = Entry {
                len,
                unwritten,
                ..*rest
            };
            self.insert_extent(tx, node, part).await?;
            rest.logical += len;
            rest.start += u64::from(len);
            rest.len -= len;
        }
        Ok(())
    }

    /// Writes back dirty pages of a file; pages behind its size are left out.
    pub(crate) async fn write_back(&self, node: &Node, pages: &[DirtyPage]) -> Result<()> {
        // A truncation meanwhile frees blocks only after this write-back; until then the size on
        // the medium has to cover them.
        let size = node.attr.get().size;
        let end = size.div_ceil(BLOCK as u64);
        let mut rest = &pages[..pages.partition_point(|page| page.index < end)];
        let mut forced = false;
        while !rest.is_empty() {
            let written = match self.write_mapped(node, size, rest).await? {
                0 => self.write_new(node, size, rest).await,
                written => Ok(written),
            };
            match written {
                Ok(written) => rest = &rest[written..],
                Err(Errno::ENOSPC) if !forced => {
                    // Recently freed blocks become available once their freeing is durable.
                    self.take_back_refusal();
                    self.persist.force_all().await?;
                    forced = true;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// First block and length of the run of leading pages that map to one written extent; `None`
    /// if the first page does not.
    async fn mapped_run(&self, node: &Node, pages: &[DirtyPage]) -> Result<Option<(u64, usize)>> {
        let Some(first) = pages.first() else {
            return Ok(None);
        };
        let piece = self.lookup_block(node, first.index).await?;
        let State::Written(start) = piece.state else {
            return Ok(None);
        };
        Ok(Some((start, together(pages).min(piece.len as usize))))
    }

    /// Writes the leading pages that need no change of metadata; returns their number.
    async fn write_mapped(&self, node: &Node, size: u64, pages: &[DirtyPage]) -> Result<usize> {
        let mut writes = Vec::new();
        let mut written = 0;
        while let Some((start, len)) = self.mapped_run(node, &pages[written..]).await? {
            let run = &pages[written..written + len];
            let skips = vfs::mutant::is("ext4-size-not-stored");
            if size_after(node, size, run) > node.private.disk_size.get() && !skips {
                break;
            }
            writes.push(self.data_write(node, start, run, (known(node), size)));
            written += len;
        }
        if written > 0 {
            self.persist.write_data(None, &writes).await?;
        }
        Ok(written)
    }

    /// Describes a write of `pages` to blocks from `start` on. The medium holds the file's
    /// contents up to byte `held`, and the file ends at `end`.
    fn data_write<'a>(
        &self,
        node: &Node,
        start: u64,
        pages: &'a [DirtyPage],
        (held, end): (u64, u64),
    ) -> DataWrite<'a> {
        DataWrite {
            start,
            pages,
            held,
            end,
            placement: self.options.placer.data_of(node),
            who: self.who(node),
        }
    }

    /// Allocates blocks for leading pages, as many as one handle allows, and writes the pages;
    /// returns their number.
    async fn write_new(&self, node: &Node, size: u64, pages: &[DirtyPage]) -> Result<usize> {
        let mut tx = self.persist.begin(EXTENT_CREDITS + STEP_CREDITS).await?;
        let mut writes = Vec::new();
        let turn = node.private.turn.acquire(1).await;
        let result = self
            .map_pages(&mut tx, node, (size, pages), &mut writes)
            .await;
        let written: usize = writes
            .iter()
            .map(|write: &DataWrite<'_>| write.pages.len())
            .sum();
        let size = size_after(node, size, &pages[..written]);
        if size > node.private.disk_size.get() {
            node.private.disk_size.set(size);
        }
        if vfs::mutant::is("ext4-fdatasync-skips-size") {
            self.store_inode(&tx, node);
        } else {
            self.store_data(&tx, node);
        }
        drop(turn);
        if written == 0 {
            self.finish(tx, result).await?;
            return Err(Errno::EIO);
        }
        if vfs::mutant::is("ext4-size-before-data") {
            self.persist.end(tx).await?;
            self.persist.force_all().await?;
            self.persist.write_data(None, &writes).await?;
            return Ok(written);
        }
        // An error after some pages recurs at the first of the remaining pages.
        self.persist.write_data(Some(tx), &writes).await?;
        Ok(written)
    }

    /// Finds or allocates blocks for the leading pages and adds their writes to `writes`. Stops
    /// early if the handle cannot be extended.
    async fn map_pages<'a>(
        &self,
        tx: &mut P::Tx,
        node: &Node,
        (size, pages): (u64, &'a [DirtyPage]),
        writes: &mut Vec<DataWrite<'a>>,
    ) -> Result<()> {
        let mut rest = pages;
        while let Some(first) = rest.first() {
            if !writes.is_empty() && !self.persist.extend(tx, EXTENT_CREDITS + STEP_CREDITS) {
                return Ok(());
            }
            let index = first.index;
            let piece = self.lookup_in_turn(node, index).await?;
            let len = (together(rest) as u64).min(piece.len);
            let (start, len, held) = match piece.state {
                State::Written(start) => (start, len, known(node)),
                State::Unwritten(start) => {
                    while !self.convert(tx, node, index..index + len, false).await? {}
                    (start, len, 0)
                }
                State::Hole => {
                    let entry = self.fill_hole(tx, node, index, len, false).await?;
                    (entry.start, u64::from(entry.len), 0)
                }
            };
            writes.push(self.data_write(node, start, &rest[..len as usize], (held, size)));
            rest = &rest[len as usize..];
        }
        Ok(())
    }

    /// Reads pages; holes are zeros.
    pub(crate) async fn read_back(
        &self,
        node: &Node,
        first: u64,
        pages: &mut [Payload],
    ) -> Result<()> {
        let mut at = 0;
        while at < pages.len() {
            let piece = self.lookup_block(node, first + at as u64).await?;
            let len = (pages.len() - at).min(usize::try_from(piece.len).unwrap_or(usize::MAX));
            let part = &mut pages[at..at + len];
            match piece.state {
                State::Written(start) => {
                    self.persist.read_data(start, part, self.who(node)).await?;
                }
                State::Hole | State::Unwritten(_) => part.fill(Payload::Zero),
            }
            at += len;
        }
        Ok(())
    }
}

/// Size of the file on the medium: up to it, blocks hold the former contents of dirty pages.
/// Behind it, a power cut may have left anything.
fn known(node: &Node) -> u64 {
    node.private.disk_size.get()
}

/// Size of a file on the medium once write-back of `pages` ends; `size` is its size when
/// write-back began. If the file was truncated meanwhile, the smaller size bounds pages that
/// begin within it; the truncation waits for the pages behind and cuts them off later.
fn size_after(node: &Node, size: u64, pages: &[DirtyPage]) -> u64 {
    let Some(last) = pages.last() else { return 0 };
    let (start, now) = (last.index * BLOCK as u64, node.attr.get().size);
    let size = if start < now { size.min(now) } else { size };
    size.min(start + BLOCK as u64)
}

/// Length of the run of consecutive pages at the start of `pages`.
fn together(pages: &[DirtyPage]) -> usize {
    let gap = pages
        .windows(2)
        .position(|pair| pair[1].index != pair[0].index + 1);
    gap.map_or(pages.len(), |gap| gap + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_ranges_agree_with_a_map_of_pages() {
        let mut rng = sim::Seed(6).stream("ranges");
        let (mut reserved, mut model) = (Reserved::default(), [false; 100]);
        for _ in 0..5_000 {
            let start = rng.below(90);
            let range = start..start + 1 + rng.below(10);
            let add = rng.below(2) == 0;
            let missing = (range.clone()).filter(|page| !model[*page as usize]);
            let gaps = reserved.gaps(&range).into_iter().flatten();
            assert!(gaps.eq(missing.clone()));
            assert_eq!(reserved.missing(&range), missing.count() as u64);
            let part = &mut model[range.start as usize..range.end as usize];
            let expected = part.iter().filter(|page| **page != add).count() as u64;
            part.fill(add);
            let counted = if add {
                reserved.add(range)
            } else {
                reserved.take(range)
            };
            assert_eq!(counted, expected);
        }
    }

    #[test]
    fn take_of_an_inverted_range_removes_nothing() {
        let mut reserved = Reserved::default();
        reserved.add(0..5);
        assert_eq!(reserved.take(Range { start: 3, end: 2 }), 0);
        assert_eq!(reserved.take(0..5), 5);
    }
}
