//! Read-ahead: pages that reads in order will ask for next, fetched into a part of the drive's DRAM.
//!
//! A small table tells several streams of reads apart, and replaces the least recently used one. A
//! read continues a stream if it begins where the stream ends; if the stream is read ahead, anywhere
//! in its window, since commands in flight may pass each other. The drive then fetches whole rows of
//! pages, up to as many pages ahead as have been read in order, and up to the window. Drives are
//! known to do this (`memblaze` 1, and in zones `zone-read-ahead` 1); when they begin and how far
//! they go is assumed. A fetch takes its time at die and channel, in the class of reads; DRAM itself
//! is not a limit.
//!
//! # Invariants
//!
//! - A slot has a page of a stream at the place that the map gave when its fetch began. The page is
//!   stale if the map gives another place now, and a superblock or zone that is erased empties the
//!   slots of its places. Contents come from the flash, as for any read.
//! - Slots hold clean data only, and are no part of the media.
//! - At most one window of slots a stream exists; a fetch begins only in slots that no other fetch
//!   is about to fill.

use sim::{JoinHandle, Promise, Sim};
use std::ops::Range;

/// Page of an empty slot.
const EMPTY: u64 = u64::MAX;
/// Place of an empty slot.
const NOWHERE: u32 = u32::MAX;
/// Fetch of a slot that has its page.
const ARRIVED: u32 = u32::MAX;

/// A page of a window.
#[derive(Clone, Copy)]
struct Slot {
    page: u64,
    place: u32,
    fetch: u32,
}

/// Reads in order; pages are mapped pages of the drive, or sectors of 4 KiB in zones.
#[derive(Clone, Copy, Default)]
struct Stream {
    /// First page after all its reads.
    next: u64,
    /// Pages that have been read in order.
    run: u64,
    /// First page after those that were fetched or are being fetched.
    ahead: u64,
    /// Number of the last read of the stream.
    used: u64,
}

/// One row on its way to the DRAM.
#[derive(Default)]
struct Fetch {
    stream: usize,
    first: u64,
    end: u64,
    waiting: Vec<Promise<bool>>,
}

/// Whether a page is in the DRAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Held {
    Absent,
    Arrived,
    /// There at the end of the fetch of this number.
    Coming(u32),
}

/// Pages of a read that a fetch under way brings.
pub(crate) struct Coming {
    fetch: u32,
    /// Whether the flash could be read.
    pub(crate) end: JoinHandle<bool>,
    pub(crate) pages: Range<u64>,
}

/// Streams of reads, and the pages fetched for them.
pub(crate) struct ReadAhead {
    /// Pages of a stream's window, a power of two.
    window: u64,
    /// Pages of a row of all planes.
    row: u64,
    streams: Vec<Stream>,
    /// Slots of all streams, one window after the other.
    slots: Vec<Slot>,
    fetches: Vec<Fetch>,
    free: Vec<u32>,
    reads: u64,
}

impl ReadAhead {
    /// Read-ahead of `streams` streams, with a window of pages each, for rows of pages; `None`
    /// without streams.
    pub(crate) fn of((streams, (window, row)): (u32, (u64, u64))) -> Option<Self> {
        let slot = Slot {
            page: EMPTY,
            place: NOWHERE,
            fetch: ARRIVED,
        };
        (streams > 0).then(|| Self {
            window,
            row,
            streams: vec![Stream::default(); streams as usize],
            slots: vec![slot; streams as usize * window as usize],
            fetches: Vec::new(),
            free: Vec::new(),
            reads: 0,
        })
    }

    /// Pages of a row of all planes.
    pub(crate) const fn row(&self) -> u64 {
        self.row
    }

    /// Adds a read of pages to the stream that it continues. `None` if it begins one.
    pub(crate) fn follow(&mut self, pages: &Range<u64>) -> Option<usize> {
        self.reads += 1;
        let (first, window) = (pages.start, self.window);
        let continues = |stream: &Stream| {
            let passes = first < stream.ahead && stream.next <= first + window;
            stream.run > 0 && (first == stream.next || passes)
        };
        if let Some(found) = self.streams.iter().position(continues) {
            let stream = &mut self.streams[found];
            stream.run += pages.end.saturating_sub(stream.next);
            stream.next = stream.next.max(pages.end);
            stream.used = self.reads;
            return Some(found);
        }
        let oldest = self.streams.iter_mut().min_by_key(|stream| stream.used);
        let stream = oldest.expect("there is a stream");
        *stream = Stream {
            next: pages.end,
            run: pages.end - pages.start,
            ahead: 0,
            used: self.reads,
        };
        None
    }

    /// Whether `page`, which lies at `place` now, is in the window of a stream.
    pub(crate) fn find(&self, stream: usize, page: u64, place: u32) -> Held {
        match self.slots[self.slot(stream, page)] {
            slot if (slot.page, slot.place) != (page, place) => Held::Absent,
            Slot { fetch: ARRIVED, .. } => Held::Arrived,
            Slot { fetch, .. } => Held::Coming(fetch),
        }
    }

    /// Registers a read that waits for the page `page` of a fetch.
    pub(crate) fn wait(&mut self, sim: &Sim, fetch: u32, page: u64, list: &mut Vec<Coming>) {
        if let Some(last) = list.last_mut()
            && last.fetch == fetch
        {
            last.pages.end = page + 1;
            return;
        }
        let (promise, end) = sim.promise();
        self.fetches[fetch as usize].waiting.push(promise);
        let pages = page..page + 1;
        list.push(Coming { fetch, end, pages });
    }

    /// First page of the next row to fetch for a stream; `None` if it has enough.
    pub(crate) fn wanted(&mut self, stream: usize) -> Option<u64> {
        let entry = &mut self.streams[stream];
        let reach = entry.next + entry.run.min(self.window);
        let first = entry.ahead.max(entry.next);
        if first + self.row > reach {
            return None;
        }
        entry.ahead = first;
        let mut pages = first..first + self.row;
        let free = pages.all(|page| self.slots[self.slot(stream, page)].fetch == ARRIVED);
        free.then_some(first)
    }

    /// Continues the read-ahead of a stream at `page`.
    pub(crate) fn resume(&mut self, stream: usize, page: u64) {
        self.streams[stream].ahead = page;
    }

    /// Begins the fetch of pages from `first` on, which lie at `places`; returns its number.
    pub(crate) fn begin(
        &mut self,
        stream: usize,
        first: u64,
        places: impl Iterator<Item = u32>,
    ) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.fetches.push(Fetch::default());
            self.fetches.len() as u32 - 1
        });
        let mut end = first;
        for place in places {
            let slot = self.slot(stream, end);
            self.slots[slot] = Slot {
                page: end,
                place,
                fetch: number,
            };
            end += 1;
        }
        self.streams[stream].ahead = end;
        let fetch = &mut self.fetches[number as usize];
        (fetch.stream, fetch.first, fetch.end) = (stream, first, end);
        number
    }

    /// Ends a fetch, and passes on whether the flash could be read.
    pub(crate) fn end(&mut self, number: u32, good: bool) {
        let Fetch {
            stream, first, end, ..
        } = self.fetches[number as usize];
        for page in first..end {
            let slot = self.slot(stream, page);
            let slot = &mut self.slots[slot];
            debug_assert_eq!(slot.fetch, number, "a slot waits for its fetch");
            slot.fetch = ARRIVED;
            if !good {
                slot.page = EMPTY;
            }
        }
        for waiting in self.fetches[number as usize].waiting.drain(..) {
            waiting.keep(good);
        }
        self.free.push(number);
    }

    /// Makes all slots stale for which `is_stale` holds, by page and place.
    pub(crate) fn forget(&mut self, is_stale: impl Fn(u64, u32) -> bool) {
        for slot in &mut self.slots {
            if slot.page != EMPTY && is_stale(slot.page, slot.place) {
                slot.page = EMPTY;
            }
        }
    }

    /// Index of the slot of `page` in the window of `stream`.
    fn slot(&self, stream: usize, page: u64) -> usize {
        stream * self.window as usize + (page & (self.window - 1)) as usize
    }
}
