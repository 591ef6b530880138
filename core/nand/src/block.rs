//! One erase block: its state and the contents of its pages.
//!
//! Invariants: the state of a block moves from `Erased` to `Written` and back; a
//! power cut during an erase makes it `HalfErased` until the next erase; `Bad` is
//! final. Pages below `written` are programmed or torn, pages from it on are erased.

use crate::geometry::BlockId;
use crate::past::Past;
use crate::payload::Payload;
use std::ops::Range;

/// State of an erase block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockState {
    /// No page is programmed.
    #[default]
    Erased,
    /// The first pages are programmed, or all.
    Written,
    /// A power cut interrupted an erase: no page can be read or programmed.
    HalfErased,
    /// Out of service for programs and erases; programmed pages can still be read.
    Bad,
}

/// The spare area of a readable page.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// Sequence number of the program that wrote the page.
    pub stamp: u64,
    /// Label of the block, written with its first page.
    pub label: u64,
    pub(crate) words: Words<'a>,
}

/// Source of the spare words of a page.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Words<'a> {
    Stored(&'a [u32]),
    Past {
        past: &'a dyn Past,
        block: BlockId,
        page: u32,
        count: u32,
    },
}

impl Page<'_> {
    /// One spare word; the words are in the order of the sectors.
    ///
    /// # Panics
    /// If the page has no such word.
    #[must_use]
    pub fn word(&self, index: usize) -> u32 {
        match self.words {
            Words::Stored(words) => words[index],
            Words::Past {
                past, block, page, ..
            } => past.word(block, page, index as u32),
        }
    }

    /// All spare words, sector by sector.
    pub fn words(&self) -> impl Iterator<Item = u32> {
        let count = match self.words {
            Words::Stored(words) => words.len(),
            Words::Past { count, .. } => count as usize,
        };
        (0..count).map(|index| self.word(index))
    }
}

/// Stamp of a page that cannot be read.
const UNREADABLE: u32 = u32::MAX;

/// State and counters of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) state: BlockState,
    /// Number of pages programmed, or being programmed, since the last erase.
    pub(crate) written: u32,
    pub(crate) erases: u32,
    pub(crate) label: u64,
    /// Stamp of the first program.
    pub(crate) base: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) header: Header,
    /// Stamp of each program as the difference to the first one, then the spare words. Empty
    /// until a program is stored.
    spare: Box<[u32]>,
    /// Contents by sector; None while all of them are zeros.
    payload: Option<Box<[Payload]>>,
}

/// The position of a page in the arrays of its block.
#[derive(Clone, Copy)]
pub(crate) struct Slot {
    pub(crate) page: u32,
    pub(crate) sectors_per_page: u32,
    pub(crate) pages_per_block: u32,
    pub(crate) pages_per_program: u32,
    pub(crate) spare_words: u32,
}

impl Slot {
    /// Index of the program that wrote the page.
    fn program(self) -> usize {
        (self.page / self.pages_per_program) as usize
    }

    fn range(self) -> Range<usize> {
        let start = self.page as usize * self.sectors_per_page as usize;
        start..start + self.sectors_per_page as usize
    }

    fn programs_per_block(self) -> usize {
        (self.pages_per_block / self.pages_per_program) as usize
    }

    /// Range of the page's words in the spare area of its block.
    fn words(self) -> Range<usize> {
        let (range, words) = (self.range(), self.spare_words as usize);
        let first = self.programs_per_block();
        first + range.start * words..first + range.end * words
    }

    fn sectors_per_block(self) -> usize {
        self.pages_per_block as usize * self.sectors_per_page as usize
    }
}

impl Header {
    /// Whether `stamp` fits the block's encoding: at or after the first stamp, and within 32
    /// bits of it.
    pub(crate) fn takes_stamp(&self, stamp: u64) -> bool {
        self.written == 0 || (stamp >= self.base && stamp - self.base < u64::from(UNREADABLE))
    }
}

impl Block {
    /// Stores the next page. The caller has checked order and state.
    pub(crate) fn store(
        &mut self,
        slot: Slot,
        stamp: u64,
        label: u64,
        words: &[u32],
        payload: &[Payload],
    ) {
        if self.spare.is_empty() {
            let words = slot.sectors_per_block() * slot.spare_words as usize;
            self.spare = vec![0; slot.programs_per_block() + words].into_boxed_slice();
        }
        if slot.page == 0 {
            (self.header.base, self.header.label) = (stamp, label);
        }
        self.spare[slot.program()] = (stamp - self.header.base) as u32;
        self.spare[slot.words()].copy_from_slice(words);
        self.store_payload(slot, payload);
        self.header.written = slot.page + 1;
        self.header.state = BlockState::Written;
    }

    fn store_payload(&mut self, slot: Slot, payload: &[Payload]) {
        if self.payload.is_none() {
            if payload.iter().all(|p| *p == Payload::Zero) {
                return;
            }
            let sectors = slot.sectors_per_block();
            self.payload = Some(vec![Payload::Zero; sectors].into_boxed_slice());
        }
        if let Some(stored) = &mut self.payload {
            let target = &mut stored[slot.range()];
            if payload.is_empty() {
                target.fill(Payload::Zero);
            } else {
                target.clone_from_slice(payload);
            }
        }
    }

    /// Makes the program that wrote a page unreadable.
    pub(crate) fn make_unreadable(&mut self, slot: Slot) {
        self.spare[slot.program()] = UNREADABLE;
    }

    pub(crate) fn erase(&mut self) {
        self.header.state = BlockState::Erased;
        self.header.written = 0;
        self.header.erases += 1;
        self.payload = None;
    }

    /// The spare area of a page, if it was programmed and can be read.
    pub(crate) fn page(&self, slot: Slot) -> Option<Page<'_>> {
        if self.header.state != BlockState::Written && self.header.state != BlockState::Bad {
            return None;
        }
        if slot.page >= self.header.written {
            return None;
        }
        let delta = self.spare[slot.program()];
        (delta != UNREADABLE).then(|| Page {
            stamp: self.header.base + u64::from(delta),
            label: self.header.label,
            words: Words::Stored(&self.spare[slot.words()]),
        })
    }

    /// Contents of one sector of a readable page.
    pub(crate) fn payload(&self, slot: Slot, sector: u32) -> Payload {
        let index = slot.range().start + sector as usize;
        self.payload
            .as_ref()
            .map_or(Payload::Zero, |stored| stored[index].clone())
    }

    /// Replaces contents that are never read again by zeros.
    pub(crate) fn forget(&mut self, slot: Slot, sectors: Range<u32>) {
        if let Some(stored) = &mut self.payload {
            let page = &mut stored[slot.range()];
            page[sectors.start as usize..sectors.end as usize].fill(Payload::Zero);
        }
    }

    /// Prefetches the payloads that [`Self::forget`] will drop, with their reference counts.
    pub(crate) fn forget_soon(&self, slot: Slot, sectors: Range<u32>) {
        let Some(stored) = &self.payload else { return };
        let page = &stored[slot.range()];
        for payload in &page[sectors.start as usize..sectors.end as usize] {
            if let Payload::Bytes(bytes) = payload {
                sim::prefetch(&bytes[..], 0);
            }
        }
    }

    /// The block with `header` and without pages: it was erased, at least in part.
    pub(crate) fn without_pages(header: Header) -> Self {
        Self {
            header,
            ..Self::default()
        }
    }

    /// Bytes of host memory for the block's state and spare area.
    pub(crate) fn memory(&self) -> usize {
        size_of::<Self>() + 4 * self.spare.len()
    }
}
