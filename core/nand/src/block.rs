//! One erase block: its state and what its pages hold.
//!
//! States move `Erased → Written → Erased`, `Written → HalfErased → Erased` at a
//! cut, and from any of them to `Bad`, where they stay. Pages below `written`
//! hold something, pages above are erased.

use crate::payload::Payload;
use std::ops::Range;

/// State of an erase block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockState {
    /// Every page may be programmed, in order.
    #[default]
    Erased,
    /// Some pages are programmed.
    Written,
    /// An erase was cut: nothing can be read or programmed.
    HalfErased,
    /// Out of service.
    Bad,
}

/// What the spare area of a readable page holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page<'a> {
    /// The number that the program carried.
    pub stamp: u64,
    /// The block's label, written with its first page.
    pub label: u64,
    /// The words of each sector, sector by sector.
    pub words: &'a [u32],
}

/// Stamp of a page that cannot be read.
const UNREADABLE: u32 = u32::MAX;

#[derive(Clone, Debug, Default)]
pub(crate) struct Block {
    pub(crate) state: BlockState,
    /// Pages programmed, or being programmed, since the last erase.
    pub(crate) written: u32,
    pub(crate) erases: u32,
    pub(crate) label: u64,
    /// Stamp of the first program; the others are kept as differences to it, one
    /// a program.
    base: u64,
    stamps: Box<[u32]>,
    words: Box<[u32]>,
    /// Contents, once something other than zeros was written.
    payload: Option<Box<[Payload]>>,
}

/// Where a page lies in its block's arrays.
#[derive(Clone, Copy)]
pub(crate) struct Slot {
    pub(crate) page: u32,
    pub(crate) sectors_per_page: u32,
    pub(crate) pages_per_block: u32,
    pub(crate) pages_per_program: u32,
    pub(crate) spare_words: u32,
}

impl Slot {
    /// The program that wrote the page.
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
    /// Whether `stamp` can be kept beside the ones that are there.
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

    /// Puts zeros in the place of contents that nobody will ask for.
    pub(crate) fn forget(&mut self, slot: Slot, sectors: Range<u32>) {
        if let Some(stored) = &mut self.payload {
            let page = &mut stored[slot.range()];
            page[sectors.start as usize..sectors.end as usize].fill(Payload::Zero);
        }
    }

    /// Asks the processor for the counts of what will be forgotten.
    pub(crate) fn forget_soon(&self, slot: Slot, sectors: Range<u32>) {
        let Some(stored) = &self.payload else { return };
        let page = &stored[slot.range()];
        for payload in &page[sectors.start as usize..sectors.end as usize] {
            if let Payload::Bytes(bytes) = payload {
                sim::prefetch(&bytes[..], 0);
            }
        }
    }

    /// The stamp from which the others are counted.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// Bytes of host memory that the block's bookkeeping takes.
    pub(crate) fn memory(&self) -> usize {
        size_of::<Self>() + 4 * (self.stamps.len() + self.words.len())
    }
}
