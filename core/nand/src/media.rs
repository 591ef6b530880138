//! The cells of the flash, which survive a power cut.
//!
//! Blocks that a run has not changed are as the past left them, and take no memory of
//! their own ([`Past`]). The changed ones are stored. Clones share stored blocks
//! copy-on-write: a clone costs one reference per block, and a write to either copy
//! duplicates only the block that it changes.

mod delta;
mod image;

pub use delta::BlockDelta;
pub(crate) use delta::Known;
pub use image::{BlockImage, BlockImageError};

use crate::block::{Block, BlockState, Header, Page, Slot, Words};
use crate::geometry::{BlockId, Geometry, Row};
use crate::past::{Past, PastBlock};
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
#[derive(Clone, Debug)]
pub struct Media {
    geometry: Geometry,
    /// The blocks that are not stored; without it they are erased.
    past: Option<Arc<dyn Past>>,
    /// By block: its place in `stored`, counted from 1; 0 for a block as the past left it.
    places: Vec<u32>,
    stored: Vec<Arc<Block>>,
    /// By block: length of a prefix of certainly readable pages. Kept apart from the
    /// blocks because every read uses it, and the small array stays in the processor's
    /// cache.
    readable: Vec<u32>,
}

impl Media {
    /// Creates erased flash; the caller has checked `geometry`.
    #[must_use]
    pub fn new(geometry: Geometry) -> Self {
        Self {
            readable: vec![0; geometry.blocks() as usize],
            places: vec![0; geometry.blocks() as usize],
            stored: Vec::new(),
            past: None,
            geometry,
        }
    }

    /// Creates flash as `past` left it; the caller has checked `geometry`.
    #[must_use]
    pub fn with_past(geometry: Geometry, past: Arc<dyn Past>) -> Self {
        let mut media = Self::new(geometry);
        let planes = media
            .readable
            .chunks_mut(geometry.blocks_per_plane as usize);
        for (plane, blocks) in (0..).zip(planes) {
            let (die, plane) = (plane / geometry.planes, plane % geometry.planes);
            for (block, readable) in (0..).zip(blocks) {
                *readable = past.block(BlockId { die, plane, block }).written;
            }
        }
        media.past = Some(past);
        media
    }

    /// The past, if every block is still as it left them.
    #[must_use]
    pub fn unchanged(&self) -> Option<&Arc<dyn Past>> {
        let past = self.past.as_ref()?;
        self.stored.is_empty().then_some(past)
    }

    /// The past of the blocks that are not stored.
    #[must_use]
    pub fn past(&self) -> Option<&Arc<dyn Past>> {
        self.past.as_ref()
    }

    /// A block as the past left it; `None` if an operation or a fault has changed it since.
    #[must_use]
    pub fn untouched(&self, id: BlockId) -> Option<PastBlock> {
        if self.place(id).is_some() {
            return None;
        }
        let erased = PastBlock {
            state: BlockState::Erased,
            written: 0,
            label: 0,
        };
        Some(self.past.as_ref().map_or(erased, |past| past.block(id)))
    }

    /// Marks about `per_million` of a million blocks as bad from the factory.
    pub fn age_factory(&mut self, per_million: u32, rng: &mut Rng) {
        for index in 0..self.places.len() {
            if rng.chance(u64::from(per_million), 1_000_000) {
                let id = self.geometry.block_at(index);
                self.block_mut(id).header.state = BlockState::Bad;
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
        self.header(block).state
    }

    /// Number of pages of a block programmed since its last erase, torn ones included.
    #[must_use]
    pub fn written(&self, block: BlockId) -> u32 {
        self.header(block).written
    }

    /// Number of erases of a block so far.
    #[must_use]
    pub fn erases(&self, block: BlockId) -> u32 {
        self.header(block).erases
    }

    /// Sets the number of erases of a block, for drives that start with wear.
    pub fn set_erases(&mut self, block: BlockId, erases: u32) {
        self.block_mut(block).header.erases = erases;
    }

    /// The spare area of a page; None if the page cannot be read.
    #[inline]
    #[must_use]
    pub fn page(&self, block: BlockId, page: u32) -> Option<Page<'_>> {
        let Some(stored) = self.stored(block) else {
            return self.past_page(block, page);
        };
        stored.page(self.slot(page))
    }

    /// One spare word of a page; None if the page cannot be read.
    #[inline]
    #[must_use]
    pub fn word(&self, block: BlockId, page: u32, index: usize) -> Option<u32> {
        match (&self.past, self.stored(block)) {
            (Some(past), None) => (page < self.readable[self.geometry.index(block)])
                .then(|| past.word(block, page, index as u32)),
            _ => Some(self.page(block, page)?.word(index)),
        }
    }

    fn past_page(&self, block: BlockId, page: u32) -> Option<Page<'_>> {
        let past = self.past.as_deref()?;
        let held = past.block(block);
        (page < held.written).then(|| Page {
            stamp: past.stamp(block, page / self.geometry.pages_per_program),
            label: held.label,
            words: Words::Past {
                past,
                block,
                page,
                count: self.geometry.words_per_page(),
            },
        })
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
        let stored = self.stored(block);
        stored.map_or(Payload::Zero, |stored| {
            stored.payload(self.slot(page), sector)
        })
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
            let readable = &mut self.readable[self.geometry.index(id)];
            if *readable == row.page {
                *readable += pages;
            }
            let slot = self.slot(row.page);
            let block = self.block_mut(id);
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
        let block = self.header(id);
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
        self.emptied(id).erase();
        self.keep_readable(id, 0);
        Ok(())
    }

    /// Takes a block out of service. Its pages can still be read, but for those of a block whose
    /// erase was cut, of which nothing is left.
    pub fn retire(&mut self, id: BlockId) {
        let header = &mut self.block_mut(id).header;
        if header.state == BlockState::HalfErased {
            header.written = 0;
        }
        header.state = BlockState::Bad;
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
        let header = &mut self.block_mut(id).header;
        header.written = header.written.min(page);
        if header.written == 0 && header.state == BlockState::Written {
            header.state = BlockState::Erased;
        }
    }

    /// Makes a block half erased: a power cut interrupted its erase.
    pub(crate) fn half_erase(&mut self, id: BlockId) {
        self.keep_readable(id, 0);
        self.emptied(id).header.state = BlockState::HalfErased;
    }

    /// Bytes of host memory for spare areas and block states, without payloads.
    #[must_use]
    pub fn memory(&self) -> usize {
        // A stored block has two counts of its users beside it.
        let stored = self.stored.iter().map(|b| b.memory() + 16);
        4 * (self.places.len() + self.readable.len())
            + size_of::<Arc<Block>>() * self.stored.capacity()
            + stored.sum::<usize>()
    }

    /// Frees the memory of sectors of a page, unless another copy of the cells shares the
    /// block.
    pub(crate) fn forget(&mut self, id: BlockId, page: u32, sectors: Range<u32>) {
        let slot = self.slot(page);
        let stored = self.place(id).map(|place| &mut self.stored[place]);
        if let Some(block) = stored.and_then(Arc::get_mut) {
            block.forget(slot, sectors);
        }
    }

    pub(crate) fn forget_soon(&self, id: BlockId, page: u32, sectors: Range<u32>) {
        if let Some(block) = self.stored(id) {
            block.forget_soon(self.slot(page), sectors);
        }
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

    /// Place of a block in `stored`.
    #[inline]
    fn place(&self, id: BlockId) -> Option<usize> {
        (self.places[self.geometry.index(id)] as usize).checked_sub(1)
    }

    #[inline]
    fn stored(&self, id: BlockId) -> Option<&Block> {
        self.place(id).map(|place| &*self.stored[place])
    }

    #[inline]
    fn header(&self, id: BlockId) -> Header {
        match self.stored(id) {
            Some(block) => block.header,
            None => self.past_header(id),
        }
    }

    fn past_header(&self, id: BlockId) -> Header {
        let Some(past) = &self.past else {
            return Header::default();
        };
        let held = past.block(id);
        let is_written = held.written > 0;
        Header {
            state: held.state,
            written: held.written,
            erases: 0,
            label: if is_written { held.label } else { 0 },
            base: if is_written { past.stamp(id, 0) } else { 0 },
        }
    }

    /// A block with the pages that the past left in it.
    fn past_block(&self, id: BlockId) -> Block {
        let header = self.past_header(id);
        let mut block = Block::without_pages(header);
        for number in 0..header.written {
            let page = self.past_page(id, number).expect("the page is written");
            let words: Vec<u32> = page.words().collect();
            block.store(self.slot(number), page.stamp, page.label, &words, &[]);
        }
        block.header = header;
        block
    }

    /// A block to be changed. From now on it is stored.
    fn block_mut(&mut self, id: BlockId) -> &mut Block {
        let place = match self.place(id) {
            Some(place) => place,
            None => self.store(id, self.past_block(id)),
        };
        Arc::make_mut(&mut self.stored[place])
    }

    /// A block that is about to lose its pages. From now on it is stored.
    fn emptied(&mut self, id: BlockId) -> &mut Block {
        let place = match self.place(id) {
            Some(place) => place,
            None => self.store(id, Block::without_pages(self.past_header(id))),
        };
        Arc::make_mut(&mut self.stored[place])
    }

    /// Stores a block in place of the one in the past, and returns its place.
    fn store(&mut self, id: BlockId, block: Block) -> usize {
        let place = self.stored.len();
        self.stored.push(Arc::new(block));
        self.places[self.geometry.index(id)] = place as u32 + 1;
        place
    }

    /// Whether a block is as the past left it in both media, and these have one past.
    fn share_past(&self, other: &Self, id: BlockId) -> bool {
        let one = match (&self.past, &other.past) {
            (None, None) => true,
            (Some(past), Some(other)) => Arc::ptr_eq(past, other),
            _ => false,
        };
        one && self.place(id).is_none() && other.place(id).is_none()
    }

    /// Whether a block is equal in both media.
    fn has_equal(&self, other: &Self, id: BlockId) -> bool {
        let held = |media: &Self| match media.place(id) {
            Some(place) => Arc::clone(&media.stored[place]),
            None => Arc::new(media.past_block(id)),
        };
        self.share_past(other, id) || held(self) == held(other)
    }
}

impl PartialEq for Media {
    fn eq(&self, other: &Self) -> bool {
        let all = || (0..self.places.len()).map(|index| self.geometry.block_at(index));
        self.geometry == other.geometry
            && self.readable == other.readable
            && all().all(|id| self.has_equal(other, id))
    }
}

impl Eq for Media {}
