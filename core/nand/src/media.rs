//! The cells of the flash, which survive a power cut.
//!
//! Clones share blocks copy-on-write: a clone costs one reference per block, and a
//! write to either copy duplicates only the block that it changes.

mod delta;
mod image;

pub use delta::BlockDelta;
pub(crate) use delta::Known;
pub use image::{BlockImage, BlockImageError};

use crate::block::{Block, BlockState, Page, Slot};
use crate::geometry::{BlockId, Geometry, Row};
use crate::payload::Payload;
use sim::Rng;
use std::ops::Range;
use std::sync::Arc;

/// A broken rule of physics, or a failure of the flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NandError {
    /// The program is not of the next page of its block.
    #[error("program of page {page} of {block:?}, whose next page is {next}")]
    OutOfOrder {
        /// Address of the block.
        block: BlockId,
        /// First page of the program.
        page: u32,
        /// The only page that may be programmed next.
        next: u32,
    },
    /// The block is half erased or bad.
    #[error("{block:?} is {state:?} and cannot be programmed")]
    NotUsable {
        /// Address of the block.
        block: BlockId,
        /// State of the block, [`BlockState::HalfErased`] or [`BlockState::Bad`].
        state: BlockState,
    },
    /// The program does not write exactly the pages that share cells.
    #[error("program of {pages} pages from page {page}; {step} at a time are programmed")]
    NotOneProgram {
        /// First page of the program.
        page: u32,
        /// Number of pages of the program.
        pages: u32,
        /// Required number of pages, which also divides the first page's number.
        step: u32,
    },
    /// The row names a die, plane, block or page outside the flash, or no plane at all.
    #[error("page {page} of die {die} in planes {planes:#b} is not on this flash")]
    NoSuchRow {
        /// Number of the requested die.
        die: u32,
        /// Number of the requested page.
        page: u32,
        /// Requested planes, one bit each.
        planes: u8,
    },
    /// The stamp is older than the block's first one, or too far from it.
    #[error("a stamp does not follow the first one of its block")]
    Stamp,
    /// The page is erased or torn, or its program failed.
    #[error("the page holds nothing that can be read")]
    Unreadable,
    /// The page has more bit errors than the code corrects, after all retries.
    #[error("the page has more errors than can be corrected")]
    Uncorrectable,
    /// The program failed; the page is unreadable.
    #[error("the program failed")]
    ProgramFailed,
    /// The erase failed; the block is bad.
    #[error("the erase failed")]
    EraseFailed,
}

/// All cells of a drive: states, wear, spare areas and contents of its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    geometry: Geometry,
    blocks: Vec<Arc<Block>>,
    /// By block: length of a prefix of certainly readable pages. Kept apart from the
    /// blocks because every read uses it, and the small array stays in the processor's
    /// cache.
    readable: Vec<u32>,
}

impl Media {
    /// Creates erased flash; the caller has checked `geometry`.
    #[must_use]
    pub fn new(geometry: Geometry) -> Self {
        let blocks = (0..geometry.blocks()).map(|_| Arc::default()).collect();
        Self {
            readable: vec![0; geometry.blocks() as usize],
            geometry,
            blocks,
        }
    }

    /// Marks about `per_million` of a million blocks as bad from the factory.
    pub fn age_factory(&mut self, per_million: u32, rng: &mut Rng) {
        for block in &mut self.blocks {
            if rng.chance(u64::from(per_million), 1_000_000) {
                Arc::make_mut(block).state = BlockState::Bad;
            }
        }
    }

    /// Geometry of the flash.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// State of an erase block.
    #[must_use]
    pub fn state(&self, block: BlockId) -> BlockState {
        self.block(block).state
    }

    /// Number of pages of a block programmed since its last erase, torn ones included.
    #[must_use]
    pub fn written(&self, block: BlockId) -> u32 {
        self.block(block).written
    }

    /// Number of erases of a block so far.
    #[must_use]
    pub fn erases(&self, block: BlockId) -> u32 {
        self.block(block).erases
    }

    /// Sets the number of erases of a block, for drives that start with wear.
    pub fn set_erases(&mut self, block: BlockId, erases: u32) {
        self.block_mut(block).erases = erases;
    }

    /// The spare area of a page; None if the page cannot be read.
    #[inline]
    #[must_use]
    pub fn page(&self, block: BlockId, page: u32) -> Option<Page<'_>> {
        self.block(block).page(self.slot(page))
    }

    /// Whether a page can be read.
    #[inline]
    #[must_use]
    pub fn is_readable(&self, block: BlockId, page: u32) -> bool {
        page < self.readable[self.geometry.index(block)] || self.page(block, page).is_some()
    }

    /// Contents of a sector of a readable page.
    #[must_use]
    pub fn payload(&self, block: BlockId, page: u32, sector: u32) -> Payload {
        self.block(block).payload(self.slot(page), sector)
    }

    /// Programs the pages from `row.page` on in all planes of `row`, at once.
    /// `words` are the spare words of each sector, page by page and within a page
    /// plane by plane; `payload` has one entry per sector in the same order, or is
    /// empty for zeros.
    ///
    /// # Errors
    /// The broken rule; nothing has changed then.
    ///
    /// # Panics
    /// If `words` are not whole pages in each plane, or `payload` covers only some of
    /// the sectors.
    pub fn program(
        &mut self,
        row: Row,
        stamp: u64,
        label: u64,
        words: &[u32],
        payload: &[Payload],
    ) -> Result<(), NandError> {
        self.geometry.check(&row)?;
        let per_page = self.geometry.sectors_per_page() as usize;
        let per_sector = self.geometry.spare_words as usize;
        let planes = row.planes.count_ones() as usize;
        assert!(
            words.len().is_multiple_of(per_page * planes * per_sector)
                && (payload.is_empty() || payload.len() * per_sector == words.len()),
            "{} words and contents of {} sectors for pages of {per_page} in {planes} planes",
            words.len(),
            payload.len()
        );
        let pages = (words.len() / (per_page * planes * per_sector)) as u32;
        let step = self.geometry.pages_per_program;
        if pages != step || !row.page.is_multiple_of(step) {
            return Err(NandError::NotOneProgram {
                page: row.page,
                pages,
                step,
            });
        }
        for block in row.blocks() {
            self.may_program(block, row.page, stamp)?;
        }
        for (plane, id) in row.blocks().enumerate() {
            let index = self.geometry.index(id);
            let (slot, readable) = (self.slot(row.page), &mut self.readable[index]);
            let block = Arc::make_mut(&mut self.blocks[index]);
            if *readable == row.page {
                *readable += pages;
            }
            for page in 0..pages {
                let from = (page as usize * planes + plane) * per_page;
                let part = from..from + per_page;
                let slot = Slot {
                    page: row.page + page,
                    ..slot
                };
                let payload = payload.get(part.clone()).unwrap_or(&[]);
                let words = &words[part.start * per_sector..part.end * per_sector];
                block.store(slot, stamp, label, words, payload);
            }
        }
        Ok(())
    }

    fn may_program(&self, id: BlockId, page: u32, stamp: u64) -> Result<(), NandError> {
        let block = self.block(id);
        if matches!(block.state, BlockState::HalfErased | BlockState::Bad) {
            return Err(NandError::NotUsable {
                block: id,
                state: block.state,
            });
        }
        if block.written != page || page >= self.geometry.pages_per_block {
            return Err(NandError::OutOfOrder {
                block: id,
                page,
                next: block.written,
            });
        }
        if block.takes_stamp(stamp) {
            Ok(())
        } else {
            Err(NandError::Stamp)
        }
    }

    /// Erases a block at once.
    ///
    /// # Errors
    /// [`NandError::EraseFailed`] if the block is bad.
    pub fn erase(&mut self, id: BlockId) -> Result<(), NandError> {
        if self.state(id) == BlockState::Bad {
            return Err(NandError::EraseFailed);
        }
        self.block_mut(id).erase();
        self.keep_readable(id, 0);
        Ok(())
    }

    /// Takes a block out of service. Its pages can still be read, but for those of a block whose
    /// erase was cut, of which nothing is left.
    pub fn retire(&mut self, id: BlockId) {
        let block = self.block_mut(id);
        if block.state == BlockState::HalfErased {
            block.written = 0;
        }
        block.state = BlockState::Bad;
    }

    /// Makes programmed pages unreadable: their program was cut or failed.
    pub(crate) fn tear(&mut self, id: BlockId, pages: Range<u32>) {
        self.keep_readable(id, pages.start);
        for page in pages {
            let slot = self.slot(page);
            self.block_mut(id).make_unreadable(slot);
        }
    }

    /// Shortens the prefix of certainly readable pages to at most `page` pages.
    fn keep_readable(&mut self, id: BlockId, page: u32) {
        let readable = &mut self.readable[self.geometry.index(id)];
        *readable = (*readable).min(page);
    }

    /// Undoes the programs of the pages from `page` on, which the die had not begun.
    pub(crate) fn unwrite(&mut self, id: BlockId, page: u32) {
        self.keep_readable(id, page);
        let block = self.block_mut(id);
        block.written = block.written.min(page);
        if block.written == 0 && block.state == BlockState::Written {
            block.state = BlockState::Erased;
        }
    }

    /// Makes a block half erased: a power cut interrupted its erase.
    pub(crate) fn half_erase(&mut self, id: BlockId) {
        self.keep_readable(id, 0);
        self.block_mut(id).state = BlockState::HalfErased;
    }

    /// Bytes of host memory for spare areas and block states, without payloads.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.blocks.iter().map(|b| b.memory() + 20).sum()
    }

    /// Frees the memory of sectors of a page, unless another copy of the cells shares the
    /// block.
    pub(crate) fn forget(&mut self, id: BlockId, page: u32, sectors: Range<u32>) {
        let slot = self.slot(page);
        let index = self.geometry.index(id);
        if let Some(block) = Arc::get_mut(&mut self.blocks[index]) {
            block.forget(slot, sectors);
        }
    }

    pub(crate) fn forget_soon(&self, id: BlockId, page: u32, sectors: Range<u32>) {
        self.block(id).forget_soon(self.slot(page), sectors);
    }

    fn slot(&self, page: u32) -> Slot {
        Slot {
            page,
            sectors_per_page: self.geometry.sectors_per_page(),
            pages_per_block: self.geometry.pages_per_block,
            pages_per_program: self.geometry.pages_per_program,
            spare_words: self.geometry.spare_words,
        }
    }

    #[inline]
    fn block(&self, id: BlockId) -> &Block {
        &self.blocks[self.geometry.index(id)]
    }

    fn block_mut(&mut self, id: BlockId) -> &mut Block {
        let index = self.geometry.index(id);
        Arc::make_mut(&mut self.blocks[index])
    }
}
