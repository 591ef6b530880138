//! The write buffer: pages on their way to flash.
//!
//! A slot is `Pending` (in the queue of a frontier), then `Issued` (its program is under way, and
//! its contents are those of the flash), then free. A page that is rewritten while pending is
//! replaced in place; while issued, the page gets a new slot, and the issued slot records the new
//! one as its successor. Slots of garbage collection lie in the same buffer and record the flash
//! page that they copy.

use crate::layout::NONE;
use crate::map::MAX_SLOTS;
use nand::Payload;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotState {
    Free,
    Pending,
    Issued,
    /// Deallocated while pending: the frontier skips and frees it.
    Dropped,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) state: SlotState,
    /// Whether the slot is a copy made by collection.
    pub(crate) moved: bool,
    /// Cause by number ([`crate::Cause`]), for the ledger.
    pub(crate) cause: u8,
    /// Origin of the data.
    pub(crate) tag: u16,
    /// Mapped page that the slot holds a version of.
    pub(crate) page: u32,
    /// Flash position of the version that this one supersedes once issued, or `NONE`.
    pub(crate) old: u32,
    /// Flash position to which the slot was issued, or `NONE`.
    pub(crate) place: u32,
    /// Slot that superseded this one after it was issued, and the serial number of that slot.
    pub(crate) successor: u32,
    pub(crate) successor_serial: u64,
    /// Serial number of the first slot that took the page since it became unmapped, as long as
    /// flash holds no valid version of the page; otherwise 0. Maintained in the newest slot of the
    /// page only.
    pub(crate) bare_since: u64,
    /// Number that no other use of the slot has; 0 while the slot is free.
    pub(crate) serial: u64,
}

const FREE: Slot = Slot {
    state: SlotState::Free,
    moved: false,
    cause: 0,
    tag: 0,
    page: NONE,
    old: NONE,
    place: NONE,
    successor: NONE,
    successor_serial: 0,
    bare_since: 0,
    serial: 0,
};

#[derive(Default)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Contents of all slots, `per_page` sectors each; empty if they are not kept.
    payload: Vec<Payload>,
    per_page: usize,
    /// Slots added since power-on; the last serial number.
    added: u64,
}

impl Slots {
    /// An empty buffer with slots of `sectors_per_page` sectors; it keeps contents if `contents`.
    pub(crate) fn new(sectors_per_page: u32, contents: bool) -> Self {
        Self {
            per_page: if contents {
                sectors_per_page as usize
            } else {
                0
            },
            ..Self::default()
        }
    }

    #[inline]
    pub(crate) fn add(&mut self, mut slot: Slot) -> u32 {
        self.added += 1;
        slot.serial = self.added;
        if let Some(index) = self.free.pop() {
            self.slots[index as usize] = slot;
            return index;
        }
        assert!(self.slots.len() < MAX_SLOTS as usize, "the buffer grew");
        self.slots.push(slot);
        let sectors = self.slots.len() * self.per_page;
        self.payload.resize(sectors, Payload::Zero);
        (self.slots.len() - 1) as u32
    }

    /// Serial number of the next slot to be added.
    #[inline]
    pub(crate) fn next_serial(&self) -> u64 {
        self.added + 1
    }

    #[inline]
    pub(crate) fn release(&mut self, index: u32) {
        self.slots[index as usize] = FREE;
        self.free.push(index);
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> &Slot {
        &self.slots[index as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> &mut Slot {
        &mut self.slots[index as usize]
    }

    /// Records `successor` as the slot that supersedes `issued`.
    #[inline]
    pub(crate) fn link(&mut self, issued: u32, successor: u32) {
        let serial = self.get(successor).serial;
        let slot = self.get_mut(issued);
        (slot.successor, slot.successor_serial) = (successor, serial);
    }

    /// Whether slot `at` still holds the direct successor of `slot`, pending. The index may have
    /// been reused since, which the serial number reveals.
    pub(crate) fn is_followed_by(&self, slot: &Slot, at: u32) -> bool {
        let next = self.get(at);
        at == slot.successor
            && next.serial == slot.successor_serial
            && next.state == SlotState::Pending
    }

    /// Contents of a slot, one item a sector; empty if they are not kept.
    #[inline]
    pub(crate) fn payload(&self, index: u32) -> &[Payload] {
        let start = index as usize * self.per_page;
        &self.payload[start..start + self.per_page]
    }

    #[inline]
    pub(crate) fn payload_mut(&mut self, index: u32) -> &mut [Payload] {
        let start = index as usize * self.per_page;
        &mut self.payload[start..start + self.per_page]
    }

    /// Moves the contents out of slot `index`, one item a sector.
    pub(crate) fn take_payload(&mut self, index: u32) -> impl Iterator<Item = Payload> {
        self.payload_mut(index).iter_mut().map(std::mem::take)
    }

    /// Slots in use, with their indices.
    pub(crate) fn in_use(&self) -> impl Iterator<Item = (u32, &Slot)> {
        let numbered = self.slots.iter().enumerate();
        numbered
            .filter(|(_, slot)| slot.state != SlotState::Free)
            .map(|(index, slot)| (index as u32, slot))
    }
}
