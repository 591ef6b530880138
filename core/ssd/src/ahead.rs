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

use crate::config::{ConfigError, DriveConfig};
use crate::drive::{Core, IoError};
use crate::layout::NONE;
use crate::ledger::ReadCause;
use crate::map::Where;
use crate::read::RowRead;
use sim::{JoinHandle, Promise, Sim};
use std::ops::Range;
use units::{Bytes, GIB};

/// Page of an empty slot.
const EMPTY: u64 = u64::MAX;
/// Fetch of a slot that has its page.
const ARRIVED: u32 = NONE;
/// Largest accepted number of streams: each read is compared with all of them.
const MOST_STREAMS: u32 = 256;

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

/// Pages of a stream's window, and pages of a row.
fn sizes(config: &DriveConfig) -> (u64, u64) {
    let (unit, controller) = (config.mapping.unit.0.max(1), &config.controller);
    let window = controller.read_ahead.0 / u64::from(controller.read_streams.max(1)) / unit;
    let geometry = &config.geometry;
    let row = u64::from(geometry.planes) * u64::from(geometry.page_bytes);
    (
        window.checked_ilog2().map_or(0, |bits| 1 << bits),
        row / unit,
    )
}

/// Rejects sizes of read-ahead that are out of range.
pub(crate) fn check(config: &DriveConfig) -> Result<(), ConfigError> {
    let controller = &config.controller;
    if controller.read_ahead.0 == 0 {
        return Ok(());
    }
    let range = |knob, value: &dyn std::fmt::Display, expected: String| {
        Err(ConfigError::range(knob, value, expected))
    };
    if !(1..=MOST_STREAMS).contains(&controller.read_streams) {
        let expected = format!("1 to {MOST_STREAMS} with controller.read_ahead");
        return range(
            "controller.read_streams",
            &controller.read_streams,
            expected,
        );
    }
    let (window, row) = sizes(config);
    if controller.read_ahead.0 > GIB || window < row {
        let least = row.next_power_of_two() * config.mapping.unit.0;
        let least = Bytes(least * u64::from(controller.read_streams));
        let expected = format!("0, or {least} (a row of pages for each stream) to 1 GiB");
        return range("controller.read_ahead", &controller.read_ahead, expected);
    }
    Ok(())
}

impl ReadAhead {
    pub(crate) fn new(config: &DriveConfig) -> Option<Self> {
        let (window, row) = sizes(config);
        let streams = config.controller.read_streams as usize;
        let slot = Slot {
            page: EMPTY,
            place: NONE,
            fetch: ARRIVED,
        };
        (config.controller.read_ahead.0 > 0).then(|| Self {
            window,
            row,
            streams: vec![Stream::default(); streams],
            slots: vec![slot; streams * window as usize],
            fetches: Vec::new(),
            free: Vec::new(),
            reads: 0,
        })
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
    pub(crate) fn skip(&mut self, stream: usize, page: u64) {
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

impl Core {
    /// For a read of pages that continues a stream: the stream, and the pages that are on their way
    /// to the DRAM. The row reads of the others are added to `rows`, those in the DRAM excepted.
    pub(crate) fn continue_stream(
        &self,
        first: u32,
        end: u32,
        rows: &mut Vec<RowRead>,
    ) -> Option<(usize, Vec<Coming>)> {
        let mut ahead = self.ahead.as_ref()?.borrow_mut();
        let stream = ahead.follow(&(u64::from(first)..u64::from(end)))?;
        let (mut coming, mut served) = (Vec::new(), 0);
        let absent = (first..end).filter(|&page| {
            let Where::Flash(place) = self.state.borrow().map.get(page) else {
                return false;
            };
            let held = ahead.find(stream, u64::from(page), place);
            if let Held::Coming(fetch) = held {
                ahead.wait(&self.sim, fetch, u64::from(page), &mut coming);
            }
            served += u64::from(held != Held::Absent);
            held == Held::Absent
        });
        self.gather_rows(absent, rows);
        self.state.borrow_mut().ledger.ahead_pages += served;
        Some((stream, coming))
    }

    /// Reads `rows`, and waits for pages on their way to the DRAM. Pages whose fetch failed are read
    /// again.
    pub(crate) async fn read_coming(
        &self,
        rows: Vec<RowRead>,
        coming: Vec<Coming>,
    ) -> Result<(), IoError> {
        let mut result = self.read_rows(rows, ReadCause::Host).await;
        for Coming { end, pages, .. } in coming {
            if !end.await {
                let rows = self.rows(pages.start as u32..pages.end as u32);
                result = result.and(self.read_rows(rows, ReadCause::Host).await);
            }
        }
        result
    }

    /// Starts the fetches that a stream lacks.
    pub(crate) fn read_ahead(&self, stream: usize) {
        let Some(ahead) = &self.ahead else { return };
        loop {
            let wanted = ahead.borrow_mut().wanted(stream);
            let Some(first) = wanted.filter(|&page| page < u64::from(self.layout.host_pages))
            else {
                return;
            };
            self.fetch_row(&mut ahead.borrow_mut(), stream, first as u32);
        }
    }

    /// Fetches `first` and the pages after it in the same row.
    fn fetch_row(&self, ahead: &mut ReadAhead, stream: usize, first: u32) {
        let Some(mut read) = self.page_read(first) else {
            return ahead.skip(stream, u64::from(first) + 1);
        };
        let mut end = first + 1;
        let most = self.layout.host_pages.min(first + ahead.row as u32);
        while end < most
            && let Some(next) = self.page_read(end)
            && read.same_row(&next)
        {
            read.add(&next);
            end += 1;
        }
        let places = (first..end).map_while(|page| match self.state.borrow().map.get(page) {
            Where::Flash(place) => Some(place),
            _ => None,
        });
        let fetch = ahead.begin(stream, u64::from(first), places);
        self.begin_reading(read.line, ReadCause::ReadAhead, read.row);
        let core = self.this();
        self.sim.spawn_detached(async move {
            let end = core.read_marked(read.line, read.row, read.bytes).await;
            core.end_fetch(fetch, end.is_ok());
        });
    }

    /// The flash read of a whole mapped page; `None` if it is not on flash.
    fn page_read(&self, page: u32) -> Option<RowRead> {
        let Where::Flash(place) = self.state.borrow().map.get(page) else {
            return None;
        };
        Some(self.row_read(page, place, self.layout.page_bytes() as u32))
    }

    /// Ends a fetch of read-ahead.
    pub(crate) fn end_fetch(&self, fetch: u32, good: bool) {
        if let Some(ahead) = &self.ahead {
            ahead.borrow_mut().end(fetch, good);
        }
    }

    /// Makes pages stale that lie in `line`, which is about to be erased.
    pub(crate) fn forget_ahead(&self, line: u32) {
        if let Some(ahead) = &self.ahead {
            let first = line * self.layout.line_pages;
            let places = first..first + self.layout.line_pages;
            ahead
                .borrow_mut()
                .forget(|_, place| places.contains(&place));
        }
    }
}
