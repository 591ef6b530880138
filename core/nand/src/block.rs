//! One erase block: its state and the contents of its pages.
//!
//! Invariants: the state of a block moves from `Erased` to `Written` and back; a
//! power cut during an erase makes it `HalfErased` until the next erase; `Bad` is
//! final. Pages below `written` are programmed or torn, pages from it on are erased.

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page<'a> {
    /// Sequence number of the program that wrote the page.
    pub stamp: u64,
    /// Label of the block, written with its first page.
    pub label: u64,
    /// Spare words of the page, sector by sector.
    pub words: &'a [u32],
}

/// Stamp of a page that cannot be read.
const UNREADABLE: u32 = u32::MAX;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) state: BlockState,
    /// Number of pages programmed, or being programmed, since the last erase.
    pub(crate) written: u32,
    pub(crate) erases: u32,
    pub(crate) label: u64,
    /// Stamp of the first program.
    base: u64,
    /// Stamp of each program as the difference to `base`.
    stamps: Box<[u32]>,
    words: Box<[u32]>,
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

    fn words(self) -> Range<usize> {
        let (range, words) = (self.range(), self.spare_words as usize);
        range.start * words..range.end * words
    }

    fn sectors_per_block(self) -> usize {
        self.pages_per_block as usize * self.sectors_per_page as usize
    }
}

impl Block {
    /// Whether `stamp` fits the block's encoding: at or after the first stamp, and within 32
    /// bits of it.
    pub(crate) fn takes_stamp(&self, stamp: u64) -> bool {
        self.written == 0 || (stamp >= self.base && stamp - self.base < u64::from(UNREADABLE))
    }

    /// Stores the next page. The caller has checked order and state.
    pub(crate) fn store(
        &mut self,
        slot: Slot,
        stamp: u64,
        label: u64,
        words: &[u32],
        payload: &[Payload],
    ) {
        if self.words.is_empty() {
            let words = slot.sectors_per_block() * slot.spare_words as usize;
            self.words = vec![0; words].into_boxed_slice();
            let programs = slot.pages_per_block / slot.pages_per_program;
            self.stamps = vec![0; programs as usize].into_boxed_slice();
        }
        if slot.page == 0 {
            (self.base, self.label) = (stamp, label);
        }
        self.stamps[slot.program()] = (stamp - self.base) as u32;
        self.words[slot.words()].copy_from_slice(words);
        self.store_payload(slot, payload);
        self.written = slot.page + 1;
        self.state = BlockState::Written;
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
        self.stamps[slot.program()] = UNREADABLE;
    }

    pub(crate) fn erase(&mut self) {
        self.state = BlockState::Erased;
        self.written = 0;
        self.erases += 1;
        self.payload = None;
    }

    /// The spare area of a page, if it was programmed and can be read.
    pub(crate) fn page(&self, slot: Slot) -> Option<Page<'_>> {
        if self.state != BlockState::Written && self.state != BlockState::Bad {
            return None;
        }
        if slot.page >= self.written {
            return None;
        }
        let delta = self.stamps[slot.program()];
        (delta != UNREADABLE).then(|| Page {
            stamp: self.base + u64::from(delta),
            label: self.label,
            words: &self.words[slot.words()],
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

    /// Stamp of the block's first program.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// Bytes of host memory for the block's state, stamps and spare words.
    pub(crate) fn memory(&self) -> usize {
        size_of::<Self>() + 4 * (self.stamps.len() + self.words.len())
    }
}
