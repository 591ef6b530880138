//! Writing files: placement of dirty pages, in place or in new extents, and their write-back.
//!
//! Contents are written to the port first, outside any operation. The file takes them in
//! afterwards ([`crate::take_in`]), in operations of a few pieces each, so a reference to
//! contents is never durable before the contents. Replaced contents that have sums count only
//! once the operation that changes the sums has passed their ticket to the next batch.
//!
//! Invariant: space for a page is promised before the page becomes dirty, unless space is short
//! and the page will be written in place. The promise ends when the page is written.

use crate::format::extent::{INLINE_MOST, Part, inline_item};
use crate::format::{SECTOR, SECTOR_BYTES};
use crate::fs::{COMMITS, Core, File, owner_of};
use crate::inodes::is_dir;
use crate::persist::{Overwrite, Persist, Replacement, write_run};
use crate::pieces::{Found, piece_key};
use crate::space::{Ranges, Use};
use crate::take_in::{PIECE_ITEMS, Replaced, Written};
use nand::Payload;
use std::ops::Range;
use vfs::direct::page_of;
use vfs::{DirtyPage, Errno, Result};

/// Maximum length of an extent in bytes.
//= btrfs-format 3
pub(crate) const EXTENT_MOST: u64 = 128 << 20;

/// Splits `pages`, in ascending order, into runs of consecutive pages.
fn runs<'a>(pages: &'a [&'a DirtyPage]) -> impl Iterator<Item = &'a [&'a DirtyPage]> {
    pages.chunk_by(|one, next| one.index + 1 == next.index)
}

fn payloads(pages: &[&DirtyPage]) -> Vec<Payload> {
    pages.iter().map(|page| page.now.clone()).collect()
}

fn bytes_of(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// Whether contents may be written to the address of a part: it is unwritten, or the file
/// `replaces` contents.
const fn may_stay(part: Part, replaces: bool) -> bool {
    !part.is_hole() && (replaces || !part.written)
}

impl<S: Persist> Core<S> {
    /// Promises space for pages that are about to become dirty. If space for all of them is short,
    /// pages that will be written in place are left out.
    pub(crate) async fn reserve(&self, file: &File, pages: Range<u64>) -> Result<()> {
        self.ensure_sound()?;
        self.ensure_changeable(&file.private.tree)?;
        let span = pages.start * SECTOR_BYTES..pages.end * SECTOR_BYTES;
        let mut missing = file.private.promised.borrow().gaps(&span);
        if missing.is_empty() {
            return Ok(());
        }
        let at_once = self.forest.space.borrow_mut().promise(bytes_of(&missing));
        if !at_once {
            missing = self.without_place(file, missing).await?;
            self.promise(bytes_of(&missing)).await?;
        }
        self.change_promises(file, |promised| {
            for gap in &missing {
                promised.add(gap.start, gap.end - gap.start);
            }
        });
        // The write-back of the pages needs room for nodes, too.
        let room = self.operate(PIECE_ITEMS).await.map(drop);
        if room.is_err() {
            missing.into_iter().for_each(|gap| self.release(file, gap));
        }
        room
    }

    /// The parts of `ranges` that may need new space. Pages elsewhere are written in place, be the
    /// write-back forced or not.
    async fn without_place(&self, file: &File, ranges: Vec<Range<u64>>) -> Result<Vec<Range<u64>>> {
        let (tree, number) = (&file.private.tree, file.private.number);
        let replaces = self.replaces(file, true) && self.replaces(file, false);
        let mut without = Ranges::default();
        for range in ranges {
            without.add(range.start, range.end - range.start);
            for piece in self.pieces(tree, number, range).await? {
                let Found::Part(at, part) = piece else {
                    continue;
                };
                if may_stay(part, replaces) && self.is_own(file, at, part).await? {
                    without.remove(at, part.bytes);
                }
            }
        }
        Ok(without.iter().map(|(at, len)| at..at + len).collect())
    }

    /// Applies `change` to the promised ranges of a file, and updates the number of promised
    /// runs and of files with a promised first page.
    fn change_promises<T>(&self, file: &File, change: impl FnOnce(&mut Ranges) -> T) -> T {
        let mut promised = file.private.promised.borrow_mut();
        let counts = |promised: &Ranges| (promised.count(), u64::from(promised.has(0)));
        let before = counts(&promised);
        let done = change(&mut promised);
        let after = counts(&promised);
        let (runs, heads) = self.runs.get();
        self.runs
            .set((runs + after.0 - before.0, heads + after.1 - before.1));
        done
    }

    /// Promises `bytes` of contents. If too few are free, adds chunks, provided that unallocated
    /// space suffices, or commits to free pinned space; else `ENOSPC`.
    pub(crate) async fn promise(&self, bytes: u64) -> Result<()> {
        let free = || self.forest.space.borrow().free(Use::Data);
        let mut commits = 0;
        while !self.forest.space.borrow_mut().promise(bytes) {
            let helps = {
                let space = self.forest.space.borrow();
                free() + space.unallocated() >= space.promised() + bytes
            };
            if helps && (self.add_chunk(Use::Data).await? || self.add_chunk(Use::Nodes).await?) {
                continue;
            }
            let before = free();
            if commits == COMMITS || !self.commit_frees() {
                return Err(self.refuse_data(bytes));
            }
            commits += 1;
            self.commit().await?;
            if free() <= before && !helps {
                return Err(self.refuse_data(bytes));
            }
        }
        Ok(())
    }

    /// Ends the promise for `span` of a file, as far as there is one.
    pub(crate) fn release(&self, file: &File, span: Range<u64>) {
        let len = span.end.saturating_sub(span.start);
        let bytes = self.change_promises(file, |promised| promised.remove(span.start, len));
        self.forest.space.borrow_mut().release(bytes);
    }

    /// Ends all promises of a file.
    pub(crate) fn release_all(&self, file: &File) {
        self.release(file, 0..u64::MAX);
    }

    /// Writes back dirty pages, without those past the end of the file. Ends their promises, also
    /// on an error.
    pub(crate) async fn write_pages(&self, file: &File, pages: &[DirtyPage]) -> Result<()> {
        self.ensure_sound()?;
        let size = file.attr.get().size;
        let inside = |page: &&DirtyPage| page.index * SECTOR_BYTES < size;
        let kept: Vec<&DirtyPage> = pages.iter().filter(inside).collect();
        let written = self.write_kept(file, &kept, size).await;
        // The caller keeps no page dirty, even after an error.
        for page in pages {
            let at = page.index * SECTOR_BYTES;
            self.release(file, at..at + SECTOR_BYTES);
        }
        written
    }

    async fn write_kept(&self, file: &File, kept: &[&DirtyPage], size: u64) -> Result<()> {
        match kept {
            [] => Ok(()),
            [first] if first.index == 0 && self.fits_inline(file, size).await? => {
                self.write_inline(file, first, size).await
            }
            kept => self.write_parts(file, kept, size).await,
        }
    }

    /// Whether a file of `size` bytes may lie inline: it is small enough and has no extents.
    async fn fits_inline(&self, file: &File, size: u64) -> Result<bool> {
        if size > INLINE_MOST || is_dir(file) {
            return Ok(false);
        }
        let (tree, number) = (&file.private.tree, file.private.number);
        let first = self
            .with(|| self.forest.piece_from(tree, number, 0))
            .await?;
        Ok(!matches!(first, Some(Found::Part(..))))
    }

    async fn write_inline(&self, file: &File, page: &DirtyPage, size: u64) -> Result<()> {
        let mut bytes = vec![0; size as usize];
        if !page.now.copy_to(0, &mut bytes) {
            return Err(Errno::EIO);
        }
        let _operation = self.operate_to_free(PIECE_ITEMS).await?;
        let item = inline_item(self.forest.transid.get(), &bytes);
        let (tree, key) = (&file.private.tree, piece_key(file.private.number, 0));
        let put = self.with(|| self.forest.put(tree, key, &item)).await;
        self.noted(put)?;
        file.private.nbytes.set(size);
        self.since.borrow_mut().wrote(file, 0..SECTOR_BYTES);
        self.grew(file, size).await
    }

    /// Raises the size of the file on the medium to at least `end`, and stores the inode.
    pub(crate) async fn grew(&self, file: &File, end: u64) -> Result<()> {
        self.reaches(file, end);
        self.store_inode(file).await
    }

    /// Raises the size of the file on the medium to at least `end`; the caller stores the inode.
    /// The bytes between the old and the new end count as changed data: they are a hole where
    /// nothing was written, but the last commit may hold contents there if the file was truncated
    /// and forced since. So a data-only force logs this range as well, and the size.
    pub(crate) fn reaches(&self, file: &File, end: u64) {
        let known = file.private.disk_size.get();
        if end > known {
            file.private.disk_size.set(end);
            let up = |at: u64| at.next_multiple_of(SECTOR_BYTES);
            self.since.borrow_mut().wrote(file, up(known)..up(end));
        }
    }

    async fn write_parts(&self, file: &File, pages: &[&DirtyPage], size: u64) -> Result<()> {
        if pages[0].index > 0 {
            self.outgrow_inline(file).await?;
        }
        let mut written = Vec::new();
        let mut done = Ok(());
        for run in runs(pages) {
            done = self.write_run(file, run, &mut written).await;
            if done.is_err() {
                break;
            }
        }
        let end = match (&done, written.last()) {
            (Ok(()), _) => (pages[pages.len() - 1].index + 1) * SECTOR_BYTES,
            (Err(_), Some(last)) => last.at + last.part.bytes,
            (Err(_), None) => return done,
        };
        self.take_in(file, written, size.min(end)).await?;
        done
    }

    /// Writes consecutive pages, in place or to new extents, and appends them to `written`.
    async fn write_run(
        &self,
        file: &File,
        run: &[&DirtyPage],
        written: &mut Vec<Written>,
    ) -> Result<()> {
        let mut at = 0;
        while at < run.len() {
            let (stay, count) = self.stays(file, &run[at..]).await?;
            let some = &run[at..at + count];
            at += count;
            match stay {
                Some(part) => self.write_in_place(file, some, part, written).await?,
                None => self.write_anew(file, some, written).await?,
            }
        }
        Ok(())
    }

    /// Number of leading pages of a run that are written in one way: in place of the part
    /// returned, or, without a part, to new extents.
    async fn stays(&self, file: &File, run: &[&DirtyPage]) -> Result<(Option<Part>, usize)> {
        let start = run[0].index * SECTOR_BYTES;
        let end = start + run.len() as u64 * SECTOR_BYTES;
        let replaces = self.replaces(file, file.forcing.get() > 0);
        let found = self.pieces(&file.private.tree, file.private.number, start..end);
        let (pages, mut until) = (|to: u64| ((to - start) / SECTOR_BYTES) as usize, start);
        for piece in found.await? {
            let piece_end = piece.span().end.min(end);
            if let Found::Part(at, part) = piece {
                until = until.max(at.min(end));
                if may_stay(part, replaces) && self.is_own(file, at, part).await? {
                    if until > start {
                        return Ok((None, pages(until)));
                    }
                    let own = part.from(start - at).until(piece_end - start);
                    return Ok((Some(own), pages(piece_end)));
                }
            }
            until = piece_end;
        }
        Ok((None, run.len()))
    }

    /// Whether written pages of a file are replaced in place in a write-back that is `forced`, or
    /// not: always with the flag `NODATACOW`, else if the strategy says so and sums allow it.
    fn replaces(&self, file: &File, forced: bool) -> bool {
        let flagged = file.private.flags.get() & crate::format::inode::NODATACOW != 0;
        let asked = self.persist.overwrite(forced) == Overwrite::Replace;
        flagged || asked && (self.forest.in_place || !file.private.has_sums())
    }

    pub(crate) async fn is_own(&self, file: &File, at: u64, part: Part) -> Result<bool> {
        let (tree, number) = (&file.private.tree, file.private.number);
        let shared = self.with(|| self.forest.is_shared(tree, number, at, part));
        Ok(!shared.await?)
    }

    fn sums_of(&self, file: &File, contents: &[Payload]) -> Result<Vec<u32>> {
        if !file.private.has_sums() {
            return Ok(Vec::new());
        }
        let sums = contents.iter().map(|payload| self.sums.of(payload));
        sums.map(|sum| sum.ok_or(Errno::EIO)).collect()
    }

    async fn write_in_place(
        &self,
        file: &File,
        run: &[&DirtyPage],
        part: Part,
        written: &mut Vec<Written>,
    ) -> Result<()> {
        let contents = payloads(run);
        let sums = self.sums_of(file, &contents)?;
        let places = self.places(part.bytenr + part.offset, part.bytes)?;
        let at = *places.first().ok_or(Errno::EUCLEAN)?;
        let who = owner_of(file);
        let mut replaced = None;
        if part.written {
            let stage = self.staged.begin(part.bytenr + part.offset, part.bytes);
            let one = Replacement { at, contents };
            let Some(ticket) = self.persist.replace(&one, who).await? else {
                drop(stage);
                return self.write_anew(file, run, written).await;
            };
            let contents = one.contents;
            replaced = Some(Replaced {
                ticket,
                contents,
                _stage: stage,
            });
        } else {
            let placement = self.persist.placement(file.hint.get());
            write_run(self.persist.port(), at, &contents, placement, who).await?;
        }
        self.tally(|counts| counts.replaced_pages += run.len() as u64);
        written.push(Written {
            at: run[0].index * SECTOR_BYTES,
            new: false,
            stays: part.written,
            part: Part {
                written: true,
                ..part
            },
            sums,
            replaced,
        });
        Ok(())
    }

    /// Writes consecutive pages to new extents, and appends them to `written`.
    pub(crate) async fn write_anew(
        &self,
        file: &File,
        run: &[&DirtyPage],
        written: &mut Vec<Written>,
    ) -> Result<()> {
        self.promise_run(file, run).await?;
        let mut left = run;
        while let Some(first) = left.first() {
            let at = first.index * SECTOR_BYTES;
            let wanted = (left.len() as u64 * SECTOR_BYTES).min(EXTENT_MOST);
            let (bytenr, len) = self.take_extent(wanted)?;
            // The bytes are allocated now and no longer free: their promise ends.
            self.release(file, at..at + len);
            let (some, rest) = left.split_at((len / SECTOR_BYTES) as usize);
            left = rest;
            let contents = payloads(some);
            let place = self.places(bytenr, len)?[0];
            let placement = self.persist.placement(file.hint.get());
            let who = owner_of(file);
            let done = match self.sums_of(file, &contents) {
                Ok(sums) => write_run(self.persist.port(), place, &contents, placement, who)
                    .await
                    .map(|()| sums),
                Err(errno) => Err(errno),
            };
            let sums =
                done.inspect_err(|_| self.forest.space.borrow_mut().give_back(bytenr, len))?;
            self.tally(|counts| counts.copied_pages += some.len() as u64);
            written.push(Written {
                at,
                part: Part {
                    generation: 0,
                    bytenr,
                    len,
                    offset: 0,
                    bytes: len,
                    written: true,
                },
                sums,
                new: true,
                stays: false,
                replaced: None,
            });
        }
        Ok(())
    }

    /// Promises space for pages of a run that have none: they may have lost the place that they
    /// were to be written to.
    async fn promise_run(&self, file: &File, run: &[&DirtyPage]) -> Result<()> {
        let start = run[0].index * SECTOR_BYTES;
        let span = start..start + run.len() as u64 * SECTOR_BYTES;
        let missing = file.private.promised.borrow().gaps(&span);
        self.promise(bytes_of(&missing)).await?;
        self.change_promises(file, |promised| {
            promised.add(span.start, span.end - span.start);
        });
        Ok(())
    }

    /// Allocates an extent for contents of up to `wanted` bytes; shorter if no free range holds
    /// them. Returns start and length, or `ENOSPC`.
    pub(crate) fn take_extent(&self, wanted: u64) -> Result<(u64, u64)> {
        let taken = self.forest.space.borrow_mut().take_data(wanted);
        taken.ok_or_else(|| self.refuse_data(wanted))
    }

    /// Moves inline contents of a file into an extent, before contents follow behind them.
    pub(crate) async fn outgrow_inline(&self, file: &File) -> Result<()> {
        let (tree, number) = (&file.private.tree, file.private.number);
        let first = self
            .with(|| self.forest.piece_from(tree, number, 0))
            .await?;
        let Some(Found::Inline(bytes)) = first else {
            return Ok(());
        };
        let mut page = [0; SECTOR];
        page[..bytes.len()].copy_from_slice(&bytes);
        let page = page_of(0, page);
        // A promise for page 0, about to be written, is not spent on this copy of it.
        let held = self.change_promises(file, |promised| promised.remove(0, SECTOR_BYTES)) > 0;
        let mut written = Vec::new();
        let done = self.write_anew(file, &[&page], &mut written).await;
        self.release(file, 0..SECTOR_BYTES);
        if held {
            self.change_promises(file, |promised| promised.add(0, SECTOR_BYTES));
        }
        done?;
        self.take_in(file, written, file.private.disk_size.get())
            .await
    }
}
