//! Deltas: changes of a block since an earlier state.
//!
//! Invariants: between two erases, pages are only added to a block, so a delta holds
//! the new suffix of pages; after any other change, the delta holds the whole block. A
//! delta applied to the earlier state of the block gives the later one; applied to any
//! other block it is rejected and changes nothing.

use super::{BlockImage, BlockImageError, Media};
use crate::block::{Block, BlockState};
use crate::geometry::{BlockId, Row};
use crate::watch::Spot;
use std::sync::Arc;

/// Pages added to a block, or a whole block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDelta {
    /// First page of the delta; 0 if the delta replaces the whole block.
    pub from: u32,
    /// Image of the later block; its lists hold only the pages from `from` on.
    pub image: BlockImage,
}

/// The progress of a block, from which its later deltas are derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    state: BlockState,
    written: u32,
    erases: u32,
}

impl Known {
    /// Whether `page` was programmed in this state, after exactly `erases` erases.
    pub(crate) fn has(&self, erases: u32, page: u32) -> bool {
        BlockImage::holds_pages(self.state) && self.erases == erases && page < self.written
    }
}

impl Media {
    /// Progress of a block without the pages from `limit` on, whose programs are not complete.
    pub(crate) fn known(&self, id: BlockId, limit: u32) -> Known {
        let header = self.header(id);
        let written = header.written.min(limit);
        let state = match header.state {
            BlockState::Written if written == 0 => BlockState::Erased,
            state => state,
        };
        let erases = header.erases;
        Known {
            state,
            written,
            erases,
        }
    }

    /// Whether both media share the cells of a block, so that the block is equal.
    pub(crate) fn shares(&self, other: &Self, id: BlockId) -> bool {
        match (self.place(id), other.place(id)) {
            (Some(own), Some(others)) => Arc::ptr_eq(&self.stored[own], &other.stored[others]),
            _ => self.share_past(other, id),
        }
    }

    /// The delta of a block from progress `before` to progress `now`, with zeros as contents
    /// of the sectors for which `left_out` is true.
    pub(crate) fn delta(
        &self,
        id: BlockId,
        before: Known,
        now: Known,
        left_out: &impl Fn(Spot) -> bool,
    ) -> BlockDelta {
        let open = |state| matches!(state, BlockState::Erased | BlockState::Written);
        let added = open(before.state)
            && now.state == BlockState::Written
            && before.erases == now.erases
            && before.written < now.written;
        let from = if added { before.written } else { 0 };
        let mut image = BlockImage {
            state: now.state,
            written: now.written,
            erases: now.erases,
            label: 0,
            base: 0,
            stamps: Vec::new(),
            words: Vec::new(),
            payload: Vec::new(),
        };
        if now.written > 0 && BlockImage::holds_pages(now.state) {
            let header = self.header(id);
            (image.label, image.base) = (header.label, header.base);
            self.export_pages(id, from, &mut image, left_out);
        }
        BlockDelta { from, image }
    }

    /// Applies `delta` to a block.
    ///
    /// # Errors
    /// If the block is not in the state from which `delta` starts, or the delta does not fit
    /// this flash; nothing has changed then.
    ///
    /// # Panics
    /// If block `id` does not exist.
    pub fn amend(&mut self, id: BlockId, delta: &BlockDelta) -> Result<(), BlockImageError> {
        let &BlockDelta { from, ref image } = delta;
        self.check_image(image, from)?;
        if from == 0 {
            self.keep_readable(id, 0);
            let place = self.place(id);
            let place = place.unwrap_or_else(|| self.store(id, Block::default()));
            self.stored[place] = Arc::default();
            return self.import(id, image);
        }
        self.check_follows(id, delta)?;
        self.import_pages(id, from, image);
        Ok(())
    }

    fn check_follows(&self, id: BlockId, delta: &BlockDelta) -> Result<(), BlockImageError> {
        let BlockDelta { from, image } = delta;
        let header = self.header(id);
        let fits = header.state == BlockState::Written
            && image.state == BlockState::Written
            && header.written == *from
            && image.written > *from
            && header.erases == image.erases
            && (header.label, header.base) == (image.label, image.base);
        if fits {
            return Ok(());
        }
        Err(BlockImageError::Follows {
            from: *from,
            written: header.written,
        })
    }

    /// Programs the pages of a checked image, from page `from` on.
    pub(super) fn import_pages(&mut self, id: BlockId, from: u32, image: &BlockImage) {
        let step = self.geometry.pages_per_program;
        let sectors = (step * self.geometry.sectors_per_page()) as usize;
        let per_sector = self.geometry.spare_words as usize;
        for (number, stamp) in image.stamps.iter().enumerate() {
            let page = from + number as u32 * step;
            let part = number * sectors..(number + 1) * sectors;
            let words = &image.words[part.start * per_sector..part.end * per_sector];
            let payload = &image.payload[part];
            let known = stamp.unwrap_or(image.base);
            self.program(Row::single(id, page), known, image.label, words, payload)
                .expect("checked before");
            if stamp.is_none() {
                self.tear(id, page..page + step);
            }
        }
    }
}
