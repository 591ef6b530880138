//! The circular buffer of a log: lines, and a descriptor for each write.
//!
//! Invariants: a slot holds one line. Slots are numbered from the first write of all; number n lies
//! at n modulo the capacity, and the numbers in use are those from `head` to before `tail`. Each
//! used slot belongs to exactly one entry, and entries are in the order of their slots. An entry
//! refers to the previous entry of the same page, so that an older version can be found.
//!
//! # Layout in device DRAM
//!
//! A 64-byte slot has no room for the fields that a scan after a power cut needs beside 64 bytes of
//! data, so descriptors lie in a ring of their own, 16 bytes each: page 4, first line 1, lines 1,
//! origin 2, transaction 4, check 4. A log of a given size has as many slots as fit with their
//! descriptors (see [`Ring::slots_in`]), and one bit for each slot that marks it as invalid.

use super::{LINE, Lines};
use std::collections::VecDeque;

/// Bytes of a descriptor.
pub(crate) const DESCRIPTOR: u64 = 16;
/// Bytes of a slot with its share of descriptors.
pub(super) const SLOT: u64 = LINE as u64 + DESCRIPTOR;

/// A write to consecutive lines of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Number of the write's first slot; slots are numbered from the log's creation.
    pub(super) first: u64,
    pub(super) page: u32,
    pub(super) line: u8,
    pub(super) lines: u8,
    /// Transaction that the write belongs to; 0 if it commits at once.
    pub(super) tx: u32,
    /// Origin of the data.
    pub(super) tag: u16,
    /// Number, plus one, of the last slot of the previous entry of this page; 0 if there was none.
    pub(super) older: u64,
}

impl Entry {
    /// The slot of `line`; `None` if the entry does not cover it.
    pub(super) fn slot_of(&self, line: u8) -> Option<u64> {
        let covers = (self.line..self.line + self.lines).contains(&line);
        covers.then(|| self.first + u64::from(line - self.line))
    }
}

/// The log's memory, which the battery keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ring {
    slots: u32,
    head: u64,
    tail: u64,
    entries: VecDeque<Entry>,
    /// Slots whose line is invalid, one bit each.
    dead: Vec<u64>,
    /// Lines by place; `None` if contents are not kept.
    data: Option<Lines>,
}

impl Ring {
    /// Slots of a log of `bytes`.
    pub(super) fn slots_in(bytes: u64) -> u32 {
        let slots = bytes / SLOT;
        u32::try_from(slots).unwrap_or(u32::MAX)
    }

    pub(super) fn new(slots: u32, keep_contents: bool) -> Self {
        Self {
            slots,
            head: 0,
            tail: 0,
            entries: VecDeque::new(),
            dead: vec![0; (slots as usize).div_ceil(64)],
            data: keep_contents.then(|| Lines::new(slots as usize)),
        }
    }

    pub(super) fn keeps_contents(&self) -> bool {
        self.data.is_some()
    }

    pub(super) fn head(&self) -> u64 {
        self.head
    }

    pub(super) fn capacity(&self) -> u32 {
        self.slots
    }

    pub(super) fn used(&self) -> u32 {
        (self.tail - self.head) as u32
    }

    pub(super) fn tail(&self) -> u64 {
        self.tail
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Place of a slot in the ring.
    #[inline]
    pub(super) fn place(&self, slot: u64) -> u32 {
        (slot % u64::from(self.slots)) as u32
    }

    /// The number of the used slot at `place`.
    #[inline]
    pub(super) fn slot_at(&self, place: u32) -> u64 {
        let head = self.place(self.head);
        let ahead = if place >= head { 0 } else { self.slots };
        self.head + u64::from(place + ahead - head)
    }

    /// The entry of a used slot.
    pub(super) fn entry_of(&self, slot: u64) -> Entry {
        let after = self.entries.partition_point(|entry| entry.first <= slot);
        self.entries[after - 1]
    }

    /// The previous entry of the same page, if it is still in the ring.
    pub(super) fn older(&self, entry: &Entry) -> Option<Entry> {
        (entry.older > self.head).then(|| self.entry_of(entry.older - 1))
    }

    /// Appends an entry with its contents `lines`, empty if not kept. There must be room.
    pub(super) fn append(&mut self, entry: Entry, lines: &[u8]) {
        assert!(entry.first == self.tail, "entries are in order");
        let room = self.capacity() - self.used();
        assert!(u32::from(entry.lines) <= room, "the log has room");
        for index in 0..u64::from(entry.lines) {
            let place = self.place(entry.first + index) as usize;
            self.dead[place / 64] &= !(1 << (place % 64));
            let from = index as usize * LINE;
            if let (Some(data), Some(line)) = (&mut self.data, lines.get(from..from + LINE)) {
                data.set(place, line);
            }
        }
        self.tail += u64::from(entry.lines);
        self.entries.push_back(entry);
    }

    /// The line in a slot; zeros if contents are not kept.
    pub(super) fn line(&self, slot: u64) -> [u8; LINE] {
        let place = self.place(slot) as usize;
        let data = self.data.as_ref();
        data.map_or([0; LINE], |data| data.get(place))
    }

    pub(super) fn kill(&mut self, slot: u64) {
        let place = self.place(slot) as usize;
        self.dead[place / 64] |= 1 << (place % 64);
    }

    pub(super) fn is_dead(&self, slot: u64) -> bool {
        let place = self.place(slot) as usize;
        self.dead[place / 64] >> (place % 64) & 1 == 1
    }

    /// Frees the slots before `mark`; returns their entries.
    pub(super) fn free_until(&mut self, mark: u64) -> impl Iterator<Item = Entry> + use<> {
        let freed = self.entries.partition_point(|entry| entry.first < mark);
        self.head = mark;
        let rest = self.entries.split_off(freed);
        std::mem::replace(&mut self.entries, rest).into_iter()
    }
}
