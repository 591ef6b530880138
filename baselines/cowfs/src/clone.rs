//! Cloning: a range of one file becomes a range of another by sharing extents, not copying.
//!
//! Invariants: each file that contains a shared extent holds a reference to it; a write to a
//! shared extent is copied, whatever the strategy says. A clone that is interrupted looks like
//! a shorter clone: no piece of it lies beyond the end of the destination.
//= btrfs-format 4.5

use crate::format::SECTOR_BYTES;
use crate::format::extent::Part;
use crate::fs::{Core, File};
use crate::persist::Persist;
use crate::pieces::Found;
use std::ops::Range;
use vfs::{Errno, Result, Timestamp};

/// Items that sharing one piece may change in the destination file.
const ITEMS: u64 = 6;

impl<S: Persist> Core<S> {
    /// Makes `to` share the bytes `span` of `from` at offset `place`. Neither range may have
    /// dirty pages. Returns false, with nothing changed, if the range is empty or not of whole
    /// sectors (its end may be the end of both files), if the source is inline, or if only
    /// one of the files has sums.
    pub(crate) async fn clone_range(
        &self,
        from: &File,
        span: Range<u64>,
        to: &File,
        place: u64,
        now: Timestamp,
    ) -> Result<bool> {
        self.ensure_sound()?;
        let len = span.end - span.start;
        let aligned = span.start.is_multiple_of(SECTOR_BYTES) && place.is_multiple_of(SECTOR_BYTES);
        let ends = span.end == from.attr.get().size && place + len >= to.attr.get().size;
        let whole = len.is_multiple_of(SECTOR_BYTES) || ends;
        let alike = from.private.has_sums() == to.private.has_sums();
        if !aligned || !whole || !alike || len == 0 {
            return Ok(false);
        }
        self.ensure_changeable(&to.private.tree)?;
        let sectors = span.start..span.end.next_multiple_of(SECTOR_BYTES);
        let source = &from.private;
        let pieces = self
            .pieces(&source.tree, source.number, sectors.clone())
            .await?;
        if pieces.iter().any(|piece| matches!(piece, Found::Inline(_))) {
            return Ok(false);
        }
        self.outgrow_inline(to).await?;
        let end = (place + len, now);
        let mut at = sectors.start;
        for piece in pieces {
            let Found::Part(start, part) = piece else {
                continue;
            };
            let (first, last) = (
                start.max(sectors.start),
                (start + part.bytes).min(sectors.end),
            );
            if part.is_hole() {
                continue;
            }
            // The source has a hole before this piece.
            let gap = place + at - sectors.start..place + first - sectors.start;
            let part = part.from(first - start).until(last - first);
            self.share(to, gap, part, end).await?;
            at = last;
        }
        let gap = place + at - sectors.start..place + sectors.end - sectors.start;
        self.share_hole(to, gap, end).await?;
        Ok(true)
    }

    /// Records that `span` of `to` was cloned: times, size and inode. The size grows with each
    /// step, up to `end` of the whole clone.
    async fn shared(
        &self,
        to: &File,
        span: Range<u64>,
        (end, now): (u64, Timestamp),
    ) -> Result<()> {
        let reached = span.end.min(end);
        to.update(|attr| {
            (attr.mtime, attr.ctime) = (now, now);
            attr.size = attr.size.max(reached);
        });
        self.reaches(to, reached);
        self.since.borrow_mut().wrote(to, span);
        self.store_inode(to).await
    }

    /// Makes `to` share `part` directly after `gap`, which becomes a hole.
    async fn share(
        &self,
        to: &File,
        gap: Range<u64>,
        part: Part,
        end: (u64, Timestamp),
    ) -> Result<()> {
        let (tree, number) = (&to.private.tree, to.private.number);
        let _operation = self.operate(ITEMS).await?;
        let part = Part {
            generation: self.forest.transid.get(),
            ..part
        };
        let (at, span) = (gap.end, gap.start..gap.end + part.bytes);
        let by = part.owner(tree.id, number, at);
        // An extra reference keeps the extent while the cut may drop the old one.
        let refs = &self.forest.refs;
        refs.borrow_mut().add(part.bytenr, part.len, None, by, 1);
        let shared = async {
            let cut = self.cut(tree, number, span.clone()).await?;
            self.with(|| self.forest.put_part(tree, number, at, part))
                .await?;
            Ok::<_, Errno>(cut)
        };
        let cut = self.noted(shared.await)?;
        refs.borrow_mut().add(part.bytenr, part.len, None, by, -1);
        let nbytes = to.private.nbytes.get().saturating_add(part.bytes);
        to.private.nbytes.set(nbytes.saturating_sub(cut));
        self.shared(to, span, end).await
    }

    async fn share_hole(&self, to: &File, span: Range<u64>, end: (u64, Timestamp)) -> Result<()> {
        if span.start >= span.end {
            return Ok(());
        }
        let _operation = self.operate(ITEMS).await?;
        let cut = self
            .cut(&to.private.tree, to.private.number, span.clone())
            .await;
        let nbytes = to.private.nbytes.get();
        to.private
            .nbytes
            .set(nbytes.saturating_sub(self.noted(cut)?));
        self.shared(to, span, end).await
    }
}
