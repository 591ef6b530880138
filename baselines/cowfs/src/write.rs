//! Writing files: where contents go, and what leads to them afterwards.
//!
//! Contents are written first, outside any operation; then, within some that have room for
//! a few pieces each, the file gets them: so what leads to contents is never durable before
//! they are. Contents that take the place of others and have sums go there within the
//! operation that changes these.
//!
//! Invariant: space for a page is promised before the page is dirty, unless it has a place
//! and there is no other; the promise is kept when it is written.

use crate::format::extent::{INLINE_MOST, Part, inline_item};
use crate::format::inode::NODATASUM;
use crate::format::{SECTOR, SECTOR_BYTES};
use crate::fs::{COMMITS, Core, File};
use crate::inodes::is_dir;
use crate::persist::{Overwrite, Persist, Replacement, write_run};
use crate::pieces::{Found, piece_key};
use crate::space::{Ranges, Use};
use crate::take_in::{PIECE_ITEMS, Replaced, Written};
use host::{Purpose, Who};
use nand::Payload;
use std::ops::Range;
use vfs::direct::page_of;
use vfs::{DirtyPage, Errno, Result};

/// Bytes of an extent, at most.
//= btrfs-format 3
pub(crate) const EXTENT_MOST: u64 = 128 << 20;

/// Pages that follow each other.
fn runs<'a>(pages: &'a [&'a DirtyPage]) -> impl Iterator<Item = &'a [&'a DirtyPage]> {
    pages.chunk_by(|one, next| one.index + 1 == next.index)
}

fn payloads(pages: &[&DirtyPage]) -> Vec<Payload> {
    pages.iter().map(|page| page.now.clone()).collect()
}

fn bytes_of(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// Whether contents may be written to where a part is: if nothing was yet, or the file
/// `replaces` contents.
const fn may_stay(part: Part, replaces: bool) -> bool {
    !part.is_hole() && (replaces || !part.written)
}

impl<S: Persist> Core<S> {
    /// Whom the contents of `file` are booked under.
    pub(crate) fn owner_of(file: &File) -> Who {
        Who {
            origin: file.origin.get(),
            purpose: Purpose::Data,
        }
    }

    pub(crate) fn has_sums(file: &File) -> bool {
        file.private.flags.get() & NODATASUM == 0
    }

    /// Promises space for pages that are about to be dirty. Those that will be written in
    /// their place need none; that is looked at if there is too little for all.
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
        // Nodes have to have room too, when the pages are written.
        let room = self.operate(PIECE_ITEMS).await.map(drop);
        if room.is_err() {
            missing.into_iter().for_each(|gap| self.release(file, gap));
        }
        room
    }

    /// What of these ranges has no place that it will be written to, whoever waits for it.
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

    /// Changes what is promised to a file.
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

    /// Promises bytes of contents, with a chunk or a commit that frees some if need be. No
    /// chunk is made in vain.
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

    /// The promise for a range is kept, or not needed any more.
    pub(crate) fn release(&self, file: &File, span: Range<u64>) {
        let len = span.end.saturating_sub(span.start);
        let bytes = self.change_promises(file, |promised| promised.remove(span.start, len));
        self.forest.space.borrow_mut().release(bytes);
    }

    /// Nothing is promised to a file any more.
    pub(crate) fn release_all(&self, file: &File) {
        self.release(file, 0..u64::MAX);
    }

    /// Writes dirty pages back.
    pub(crate) async fn write_pages(&self, file: &File, pages: &[DirtyPage]) -> Result<()> {
        self.ensure_sound()?;
        let size = file.attr.get().size;
        let inside = |page: &&DirtyPage| page.index * SECTOR_BYTES < size;
        let kept: Vec<&DirtyPage> = pages.iter().filter(inside).collect();
        let written = self.write_kept(file, &kept, size).await;
        // The caller keeps none of them, also if they could not be written.
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

    /// Whether all of a file lies in an item, or can.
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

    /// The file on the medium ends at `end` at least.
    pub(crate) async fn grew(&self, file: &File, end: u64) -> Result<()> {
        self.reaches(file, end);
        self.store_inode(file).await
    }

    /// The same, of an inode that is to be stored yet. What lies between the ends is a hole
    /// where nothing was written; the last commit may have contents there, of a file that was
    /// cut and forced since, so a force of data alone brings it along, and the size.
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

    /// Writes pages that follow each other, in their places or to new ones.
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

    /// How many of the first pages of a run are written in one way: in the place of which
    /// the file has this part, or to new places.
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

    /// Whether written pages of a file are written in their place, if somebody waits for
    /// that or nobody.
    fn replaces(&self, file: &File, forced: bool) -> bool {
        let flagged = file.private.flags.get() & crate::format::inode::NODATACOW != 0;
        let asked = self.persist.overwrite(forced) == Overwrite::Replace;
        flagged || asked && (self.forest.in_place || !Self::has_sums(file))
    }

    pub(crate) async fn is_own(&self, file: &File, at: u64, part: Part) -> Result<bool> {
        let (tree, number) = (&file.private.tree, file.private.number);
        let shared = self.with(|| self.forest.is_shared(tree, number, at, part));
        Ok(!shared.await?)
    }

    fn sums_of(&self, file: &File, contents: &[Payload]) -> Result<Vec<u32>> {
        if !Self::has_sums(file) {
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
        let who = Self::owner_of(file);
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

    /// Writes pages to new extents.
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
            // The promise is kept: what has a place is not free any more.
            self.release(file, at..at + len);
            let (some, rest) = left.split_at((len / SECTOR_BYTES) as usize);
            left = rest;
            let contents = payloads(some);
            let place = self.places(bytenr, len)?[0];
            let placement = self.persist.placement(file.hint.get());
            let who = Self::owner_of(file);
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

    /// Promises what was not: pages may have lost the place that they were to be written to.
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

    /// Gives out an extent for contents, as long as there is room for in one piece.
    pub(crate) fn take_extent(&self, wanted: u64) -> Result<(u64, u64)> {
        let taken = self.forest.space.borrow_mut().take_data(wanted);
        taken.ok_or_else(|| self.refuse_data(wanted))
    }

    /// Moves contents out of an item into an extent, as other contents come behind them.
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
        // What is promised for a page that is about to be written is not for this one.
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
