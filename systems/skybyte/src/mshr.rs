//! Pages on their way from flash, and who waits for them.
//!
//! Invariants: a page has at most one register; as many are reading or have arrived as
//! there are registers, and only then others queue; what a register that is not queued
//! has taken in of writes is kept by the battery.

use crate::cache::{Contents, Slot, set_line};
use memsys::{LineData, Tag};
use std::collections::{BTreeMap, VecDeque};
use units::Ns;

/// How far a page has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Waits for a register.
    Queued,
    /// It waits for a place in the cache, or flash is being read.
    Reading,
    /// The page is there, and cannot go to the cache yet.
    Arrived,
}

/// A page on its way.
pub(crate) struct Mshr {
    pub(crate) stage: Stage,
    /// When its fetch began, or was asked for.
    pub(crate) since: Ns,
    /// When it is expected.
    pub(crate) expected: Ns,
    /// Reads that wait: tag and line in the page.
    pub(crate) waiters: Vec<(Tag, u32)>,
    /// Lines that were written meanwhile; moved to the contents as the page arrives.
    pub(crate) writes: BTreeMap<u32, LineData>,
    /// Lines that were read from it or given to who waited, and that were written to it, a
    /// bit each.
    pub(crate) read: u64,
    pub(crate) written: u64,
    /// Nobody has asked for it yet.
    pub(crate) ahead: bool,
    /// Whether it goes to the cache; not if the host has taken it.
    pub(crate) keep: bool,
    /// Where in the cache, once a place is kept for it.
    pub(crate) slot: Option<Slot>,
    /// What it holds, once it has arrived.
    pub(crate) contents: Contents,
    /// Lines of that which cannot be read and which nobody has written since, a bit each.
    pub(crate) lost: u64,
    /// Whether that is more than what flash and log hold.
    pub(crate) dirty: bool,
}

impl Mshr {
    pub(crate) fn new(since: Ns, expected: Ns, ahead: bool) -> Self {
        Self {
            stage: Stage::Queued,
            since,
            expected,
            waiters: Vec::new(),
            writes: BTreeMap::new(),
            read: 0,
            written: 0,
            ahead,
            keep: true,
            slot: None,
            contents: None,
            lost: 0,
            dirty: false,
        }
    }

    /// Lines written to it that are not yet part of its contents, a bit each.
    pub(crate) fn waiting(&self) -> u64 {
        self.writes.keys().fold(0, |mask, at| mask | 1 << at)
    }

    /// The lines of it that nothing else has, a bit each.
    pub(crate) fn alone(&self) -> u64 {
        if self.dirty {
            !self.lost
        } else {
            self.waiting()
        }
    }

    /// Writes a line of a page that has arrived.
    pub(crate) fn set_line(&mut self, at: u32, data: LineData) {
        self.lost &= !(1 << at);
        if let Some(data) = data {
            set_line(&mut self.contents, at, &data);
        }
    }
}

/// All of them.
pub(crate) struct Mshrs {
    registers: usize,
    busy: usize,
    pages: BTreeMap<u32, Mshr>,
    queue: VecDeque<u32>,
}

impl Mshrs {
    pub(crate) fn new(registers: u32) -> Self {
        Self {
            registers: registers as usize,
            busy: 0,
            pages: BTreeMap::new(),
            queue: VecDeque::new(),
        }
    }

    pub(crate) fn get(&self, page: u32) -> Option<&Mshr> {
        self.pages.get(&page)
    }

    pub(crate) fn get_mut(&mut self, page: u32) -> Option<&mut Mshr> {
        self.pages.get_mut(&page)
    }

    pub(crate) fn has_free(&self) -> bool {
        self.busy < self.registers
    }

    /// Adds a page that is not there; whether its fetch may begin at once.
    pub(crate) fn add(&mut self, page: u32, mut mshr: Mshr) -> bool {
        let begins = self.has_free();
        if begins {
            self.busy += 1;
            mshr.stage = Stage::Reading;
        } else {
            self.queue.push_back(page);
        }
        let before = self.pages.insert(page, mshr);
        assert!(before.is_none(), "page {page} is fetched once");
        begins
    }

    /// Frees the register of a page; the page whose fetch begins in its place.
    pub(crate) fn end(&mut self, page: u32) -> (Option<Mshr>, Option<u32>) {
        let ended = self.pages.remove(&page);
        self.busy -= 1;
        let next = self.queue.pop_front();
        if let Some(mshr) = next.and_then(|page| self.pages.get_mut(&page)) {
            self.busy += 1;
            mshr.stage = Stage::Reading;
        }
        (ended, next)
    }

    /// Those that hold a register.
    pub(crate) fn busy(&self) -> impl Iterator<Item = (u32, &Mshr)> {
        let busy = self.pages.iter();
        let busy = busy.filter(|(_, mshr)| mshr.stage != Stage::Queued);
        busy.map(|(&page, mshr)| (page, mshr))
    }

    /// Panics if an invariant does not hold.
    pub(crate) fn check(&self) {
        assert_eq!(self.busy().count(), self.busy);
        assert!(self.busy <= self.registers);
        assert_eq!(self.pages.len(), self.busy + self.queue.len());
        assert!(self.queue.is_empty() || !self.has_free());
    }
}
