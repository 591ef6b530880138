//! Blocks as values: taken out of one media, put into another.
//!
//! Invariants: a block comes back with the state, wear and readable pages that it
//! had, and takes the same stamps next. What could not be read is not carried
//! along. Putting in goes through the same operations as flash at work, so a
//! value cannot make a block that no history leads to; one that tries is refused
//! and changes nothing.

use super::Media;
use crate::block::BlockState;
use crate::geometry::BlockId;
use crate::payload::Payload;
use crate::watch::Spot;

/// Everything about one erase block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockImage {
    /// Its state.
    pub state: BlockState,
    /// Pages programmed since the last erase.
    pub written: u32,
    /// Erases so far.
    pub erases: u32,
    /// The label that came with the first page.
    pub label: u64,
    /// The stamp of the first program, also if that cannot be read.
    pub base: u64,
    /// By program: its stamp, none if it cannot be read. Empty for a block that
    /// is half erased, like the rest.
    pub stamps: Vec<Option<u64>>,
    /// The words of each sector of the written pages; zeros where none can be read.
    pub words: Vec<u32>,
    /// Contents of the same sectors.
    pub payload: Vec<Payload>,
}

/// A value that is no block of this flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockImageError {
    /// No such number of pages.
    #[error("{written} pages written; a multiple of {step} up to {most} expected")]
    Written {
        /// As given.
        written: u32,
        /// Pages of a program.
        step: u32,
        /// Pages of a block.
        most: u32,
    },
    /// The state does not go with the number of pages.
    #[error("the block is {state:?} with {written} pages written")]
    State {
        /// As given.
        state: BlockState,
        /// As given.
        written: u32,
    },
    /// A list is not as long as the pages written ask for.
    #[error("{have} {what}; {need} expected")]
    Length {
        /// What is listed.
        what: &'static str,
        /// As given.
        have: usize,
        /// What would do.
        need: usize,
    },
    /// Stamps of one block lie within 32 bits from its first one on.
    #[error("stamp {stamp} in a block whose first one is {base}")]
    Stamp {
        /// The stamp.
        stamp: u64,
        /// The first one.
        base: u64,
    },
    /// There is something already.
    #[error("the block to fill has been used")]
    Used,
    /// Pages that belong behind others than those there are.
    #[error(
        "pages from {from} on, for a block that is not the one they were taken from and has {written} written"
    )]
    Follows {
        /// The first one.
        from: u32,
        /// Pages of the block.
        written: u32,
    },
}

impl BlockImage {
    /// Whether its pages have contents.
    #[must_use]
    pub fn holds_pages(state: BlockState) -> bool {
        matches!(state, BlockState::Written | BlockState::Bad)
    }
}

impl Media {
    /// Whether a block is as it left the factory, and not bad.
    #[must_use]
    pub fn is_virgin(&self, id: BlockId) -> bool {
        self.state(id) == BlockState::Erased && self.erases(id) == 0
    }

    /// A block as a value; none for a block that is as it left the factory.
    #[must_use]
    pub fn export(&self, id: BlockId) -> Option<BlockImage> {
        if self.is_virgin(id) {
            return None;
        }
        let block = self.block(id);
        let mut image = BlockImage {
            state: block.state,
            written: block.written,
            erases: block.erases,
            label: 0,
            base: 0,
            stamps: Vec::new(),
            words: Vec::new(),
            payload: Vec::new(),
        };
        if block.written > 0 && BlockImage::holds_pages(block.state) {
            (image.label, image.base) = (block.label, block.base());
            self.export_pages(id, 0, &mut image, &|_| false);
        }
        Some(image)
    }

    /// Adds the pages from `from` to the last one of `image`, with zeros for contents that
    /// are `left_out`.
    pub(super) fn export_pages(
        &self,
        id: BlockId,
        from: u32,
        image: &mut BlockImage,
        left_out: &impl Fn(Spot) -> bool,
    ) {
        let (block, erases) = (self.geometry.index(id) as u32, image.erases);
        let (sectors, step) = (
            self.geometry.sectors_per_page(),
            self.geometry.pages_per_program,
        );
        let words = self.geometry.words_per_page() as usize;
        for number in from..image.written {
            let page = self.page(id, number);
            if number.is_multiple_of(step) {
                image.stamps.push(page.map(|page| page.stamp));
            }
            if let Some(page) = page {
                image.words.extend_from_slice(page.words);
                let payload = (0..sectors).map(|sector| {
                    let spot = Spot {
                        block,
                        erases,
                        sector: number * sectors + sector,
                    };
                    match left_out(spot) {
                        true => Payload::Zero,
                        false => self.payload(id, number, sector),
                    }
                });
                image.payload.extend(payload);
            } else {
                image.words.resize(image.words.len() + words, 0);
                let len = image.payload.len() + sectors as usize;
                image.payload.resize(len, Payload::Zero);
            }
        }
    }

    /// Makes an unused block the one that `image` describes.
    ///
    /// # Errors
    /// If this flash has no such block; nothing has changed then.
    ///
    /// # Panics
    /// If there is no block `id`.
    pub fn import(&mut self, id: BlockId, image: &BlockImage) -> Result<(), BlockImageError> {
        if !self.is_virgin(id) {
            return Err(BlockImageError::Used);
        }
        self.check_image(image, 0)?;
        self.import_pages(id, 0, image);
        self.set_erases(id, image.erases);
        match image.state {
            BlockState::Erased | BlockState::Written => {}
            BlockState::Bad => self.retire(id),
            BlockState::HalfErased => {
                self.block_mut(id).written = image.written;
                self.half_erase(id);
            }
        }
        Ok(())
    }

    /// Whether a block of this flash can be like `image`, which tells the pages
    /// from `from` on.
    pub(super) fn check_image(&self, image: &BlockImage, from: u32) -> Result<(), BlockImageError> {
        self.check_written(image)?;
        self.check_pages(image, from)
    }

    fn check_written(&self, image: &BlockImage) -> Result<(), BlockImageError> {
        let &BlockImage { state, written, .. } = image;
        let (step, most) = (
            self.geometry.pages_per_program,
            self.geometry.pages_per_block,
        );
        if written > most || !written.is_multiple_of(step) {
            return Err(BlockImageError::Written {
                written,
                step,
                most,
            });
        }
        let fits = match state {
            BlockState::Erased => written == 0,
            BlockState::Written => written > 0,
            BlockState::HalfErased | BlockState::Bad => true,
        };
        if fits {
            Ok(())
        } else {
            Err(BlockImageError::State { state, written })
        }
    }

    fn check_pages(&self, image: &BlockImage, from: u32) -> Result<(), BlockImageError> {
        let held = if BlockImage::holds_pages(image.state) {
            image.written.saturating_sub(from)
        } else {
            0
        };
        let sectors = held as usize * self.geometry.sectors_per_page() as usize;
        let programs = (held / self.geometry.pages_per_program) as usize;
        for (what, have, need) in [
            ("stamps", image.stamps.len(), programs),
            (
                "words",
                image.words.len(),
                sectors * self.geometry.spare_words as usize,
            ),
            ("payloads", image.payload.len(), sectors),
        ] {
            if have != need {
                return Err(BlockImageError::Length { what, have, need });
            }
        }
        let base = image.base;
        let first = image.stamps.first().copied().flatten();
        let fits = |stamp: u64| stamp >= base && stamp - base < u64::from(u32::MAX);
        let wrong = image.stamps.iter().flatten().find(|&&stamp| !fits(stamp));
        let first = first.filter(|&stamp| from == 0 && stamp != base);
        match wrong.copied().or(first) {
            Some(stamp) => Err(BlockImageError::Stamp { stamp, base }),
            None => Ok(()),
        }
    }
}
