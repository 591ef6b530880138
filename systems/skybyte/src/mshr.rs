//! Miss status holding registers (MSHRs): pages in flight from flash, and their waiters.
//!
//! Invariants: a page has at most one entry; an entry queues only while every register is
//! busy (reading, or arrived); the battery keeps the writes that a busy register has
//! accepted.

use crate::cache::{Contents, Slot, set_line};
use memsys::{LineData, Tag};
use std::collections::{BTreeMap, VecDeque};
use units::Ns;

/// Progress of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The entry waits for a free register.
    Queued,
    /// The entry holds a register and waits for a cache slot or for flash.
    Reading,
    /// The page has arrived in the register and is not in the cache yet.
    Arrived,
}

/// An entry for one page in flight.
pub(crate) struct Mshr {
    pub(crate) stage: Stage,
    /// Instant at which the fetch begins: the end of the look-up that missed.
    pub(crate) since: Ns,
    /// Instant at which the estimate expects the page.
    pub(crate) expected: Ns,
    /// Blocked reads: tag of the request, and line in the page.
    pub(crate) waiters: Vec<(Tag, u32)>,
    /// Lines written during the fetch; merged into the contents when the page arrives.
    pub(crate) writes: BTreeMap<u32, LineData>,
    /// Bit masks of the lines read from the entry (by its waiters too), and written to it.
    pub(crate) read: u64,
    pub(crate) written: u64,
    /// Prefetched, with no demand access so far.
    pub(crate) ahead: bool,
    /// Whether the page is to enter the cache; false once the host has taken it.
    pub(crate) keep: bool,
    /// Cache slot reserved for the page, if any yet.
    pub(crate) slot: Option<Slot>,
    /// Contents of the page once it has arrived.
    pub(crate) contents: Contents,
    /// Bit mask of the lines that flash has lost and no write has replaced.
    pub(crate) lost: u64,
    /// Whether the contents hold lines that neither flash nor the log has.
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

    /// Bit mask of the written lines that are not merged into the contents yet.
    pub(crate) fn waiting(&self) -> u64 {
        self.writes.keys().fold(0, |mask, at| mask | 1 << at)
    }

    /// Bit mask of the lines that only this register has: all readable ones if it is dirty.
    pub(crate) fn alone(&self) -> u64 {
        if self.dirty {
            !self.lost
        } else {
            self.waiting()
        }
    }

    /// Writes a line of a page that has arrived; the line is no longer lost.
    pub(crate) fn set_line(&mut self, at: u32, data: LineData) {
        self.lost &= !(1 << at);
        if let Some(data) = data {
            set_line(&mut self.contents, at, &data);
        }
    }
}

/// All entries: `registers` at most are busy, the others wait in `queue` in FIFO order.
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

    /// Adds an entry for `page`. Returns true if it got a register, so its fetch may begin.
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

    /// Frees the register of `page`. Returns its entry, and the queued page that takes the
    /// register over: its fetch may begin.
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

    /// Entries that hold a register, by page number.
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
