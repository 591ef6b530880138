//! The cells: what survives a power cut.
//!
//! Blocks are shared copy-on-write, so a clone costs a reference a block and the
//! two copies part only where they are written.

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

/// A rule of physics that was broken, or a failure of the flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NandError {
    /// Pages must be programmed in order, once.
    #[error("program of page {page} of {block:?}, whose next page is {next}")]
    OutOfOrder {
        /// Where.
        block: BlockId,
        /// The page asked for.
        page: u32,
        /// The page that may be programmed.
        next: u32,
    },
    /// The block is half erased or bad.
    #[error("{block:?} is {state:?} and cannot be programmed")]
    NotUsable {
        /// Where.
        block: BlockId,
        /// Its state.
        state: BlockState,
    },
    /// A program writes all the pages that share its cells, no more and no less.
    #[error("program of {pages} pages from page {page}; {step} at a time are programmed")]
    NotOneProgram {
        /// First page.
        page: u32,
        /// Pages asked for.
        pages: u32,
        /// Pages of a program.
        step: u32,
    },
    /// A row of a die, a plane, a block or a page that the flash does not have, or
    /// of no plane at all.
    #[error("page {page} of die {die} in planes {planes:#b} is not on this flash")]
    NoSuchRow {
        /// Die asked for.
        die: u32,
        /// Page asked for.
        page: u32,
        /// Planes asked for, one bit each.
        planes: u8,
    },
    /// The stamp is older than the block's first one, or too far from it.
    #[error("a stamp does not follow the first one of its block")]
    Stamp,
    /// Erased, torn, or its program failed.
    #[error("the page holds nothing that can be read")]
    Unreadable,
    /// More errors than the code corrects, after all retries.
    #[error("the page has more errors than can be corrected")]
    Uncorrectable,
    /// The program failed; the page is unreadable.
    #[error("the program failed")]
    ProgramFailed,
    /// The erase failed; the block is bad.
    #[error("the erase failed")]
    EraseFailed,
}

/// All cells of a drive.
#[derive(Clone, Debug)]
pub struct Media {
    geometry: Geometry,
    blocks: Vec<Arc<Block>>,
    /// By block: pages that are certainly readable, a prefix. Kept apart from the
    /// blocks because every read asks, and this stays in the processor's cache.
    readable: Vec<u32>,
}

impl Media {
    /// Erased flash. The geometry has been checked.
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

    /// Its shape.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// State of a block.
    #[must_use]
    pub fn state(&self, block: BlockId) -> BlockState {
        self.block(block).state
    }

    /// Pages of a block that were programmed since its last erase.
    #[must_use]
    pub fn written(&self, block: BlockId) -> u32 {
        self.block(block).written
    }

    /// Erases of a block so far.
    #[must_use]
    pub fn erases(&self, block: BlockId) -> u32 {
        self.block(block).erases
    }

    /// Sets how often a block was erased, for drives that start with a past.
    pub fn set_erases(&mut self, block: BlockId, erases: u32) {
        self.block_mut(block).erases = erases;
    }

    /// The spare area of a page, if it can be read.
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

    /// Programs the pages from `row.page` on of all planes of `row`, at once.
    /// `words` has the words of each sector, page by page and in each page plane by
    /// plane; `payload` is one a sector in the same order, or empty for zeros.
    ///
    /// # Errors
    /// A broken rule; nothing has changed then.
    ///
    /// # Panics
    /// If the words are not whole pages in each plane, or if there are contents
    /// for only some of them.
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

    /// Erases a block.
    ///
    /// # Errors
    /// If it is bad.
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

    /// At most the pages before `page` are certainly readable.
    fn keep_readable(&mut self, id: BlockId, page: u32) {
        let readable = &mut self.readable[self.geometry.index(id)];
        *readable = (*readable).min(page);
    }

    /// Takes back pages from `page` on, whose program had not begun.
    pub(crate) fn unwrite(&mut self, id: BlockId, page: u32) {
        self.keep_readable(id, page);
        let block = self.block_mut(id);
        block.written = block.written.min(page);
        if block.written == 0 && block.state == BlockState::Written {
            block.state = BlockState::Erased;
        }
    }

    /// Leaves a block half erased: its erase was cut.
    pub(crate) fn half_erase(&mut self, id: BlockId) {
        self.keep_readable(id, 0);
        self.block_mut(id).state = BlockState::HalfErased;
    }

    /// Bytes of host memory that spare areas and block states take, payloads not
    /// counted.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.blocks.iter().map(|b| b.memory() + 20).sum()
    }

    /// Gives back the memory of sectors of a page, unless another copy of the cells
    /// shares the block.
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
