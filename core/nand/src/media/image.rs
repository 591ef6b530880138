//! Blocks as values, for export from one media and import into another.
//!
//! Invariants: an imported block has the state, wear and readable pages of the
//! exported one, and accepts the same stamps next. Unreadable contents are not
//! exported. Import uses the same operations as flash in use, so it cannot create a
//! block that no history leads to; an impossible image is rejected and changes
//! nothing.

use super::Media;
use crate::block::BlockState;
use crate::geometry::BlockId;
use crate::payload::Payload;
use crate::watch::Spot;

/// Everything about one erase block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockImage {
    /// State of the block.
    pub state: BlockState,
    /// Number of pages programmed since the last erase.
    pub written: u32,
    /// Number of erases so far.
    pub erases: u32,
    /// Label of the block, from its first program.
    pub label: u64,
    /// Stamp of the first program, even if that program is unreadable.
    pub base: u64,
    /// Stamp by program; None if unreadable. This list and the next two are empty for a
    /// half-erased block.
    pub stamps: Vec<Option<u64>>,
    /// Spare words of each sector of the written pages; zeros for unreadable pages.
    pub words: Vec<u32>,
    /// Contents of each sector of the written pages; zeros for unreadable pages.
    pub payload: Vec<Payload>,
}

/// The error for an image that fits no block of this flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockImageError {
    /// The number of written pages is impossible.
    #[error("{written} pages written; a multiple of {step} up to {most} expected")]
    Written {
        /// Number of written pages in the image.
        written: u32,
        /// Number of pages per program.
        step: u32,
        /// Number of pages per block.
        most: u32,
    },
    /// The state contradicts the number of written pages.
    #[error("the block is {state:?} with {written} pages written")]
    State {
        /// State in the image.
        state: BlockState,
        /// Number of written pages in the image.
        written: u32,
    },
    /// The length of a list does not match the number of written pages.
    #[error("{have} {what}; {need} expected")]
    Length {
        /// Name of the list.
        what: &'static str,
        /// Length of the list.
        have: usize,
        /// Expected length of the list.
        need: usize,
    },
    /// A stamp is older than the block's first one, or not within 32 bits of it.
    #[error("stamp {stamp} in a block whose first one is {base}")]
    Stamp {
        /// The first stamp out of range.
        stamp: u64,
        /// Stamp of the block's first program.
        base: u64,
    },
    /// The block to import into was used before.
    #[error("the block to fill has been used")]
    Used,
    /// The delta does not follow the current state of the block.
    #[error(
        "pages from {from} on, for a block that is not the one they were taken from and has {written} written"
    )]
    Follows {
        /// First page of the delta.
        from: u32,
        /// Number of written pages of the block.
        written: u32,
    },
}

impl BlockImage {
    /// Whether an image of a block in `state` lists pages.
    #[must_use]
    pub fn holds_pages(state: BlockState) -> bool {
        matches!(state, BlockState::Written | BlockState::Bad)
    }
}

impl Media {
    /// Whether a block was never used and is not bad.
    #[must_use]
    pub fn is_virgin(&self, id: BlockId) -> bool {
        let header = self.header(id);
        header.state == BlockState::Erased && header.erases == 0
    }

    /// The image of a block; None if the block was never used and is not bad.
    #[must_use]
    pub fn export(&self, id: BlockId) -> Option<BlockImage> {
        if self.is_virgin(id) {
            return None;
        }
        let header = self.header(id);
        let mut image = BlockImage {
            state: header.state,
            written: header.written,
            erases: header.erases,
            label: 0,
            base: 0,
            stamps: Vec::new(),
            words: Vec::new(),
            payload: Vec::new(),
        };
        if header.written > 0 && BlockImage::holds_pages(header.state) {
            (image.label, image.base) = (header.label, header.base);
            self.export_pages(id, 0, &mut image, &|_| false);
        }
        Some(image)
    }

    /// Adds the pages from `from` to `image.written` to the lists of `image`, with zeros as
    /// contents of the sectors for which `left_out` is true.
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
                image.words.extend(page.words());
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

    /// Turns an unused block into the block of `image`.
    ///
    /// # Errors
    /// If the block was used, or `image` is impossible on this flash; nothing has changed
    /// then.
    ///
    /// # Panics
    /// If block `id` does not exist.
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
                self.block_mut(id).header.written = image.written;
                self.half_erase(id);
            }
        }
        Ok(())
    }

    /// Checks that `image`, with the pages from `from` on, is possible on this flash.
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
