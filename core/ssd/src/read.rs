//! The read path.
//!
//! Pages in the buffer come from the controller's DRAM. Pages on flash that lie in the same page
//! row of the same line are read in one operation. A line with reads under way is not erased.

use crate::ahead::{Coming, Held, ReadAhead};
use crate::drive::{Core, IoError, Sink};
use crate::jobs::Work;
use crate::layout::Layout;
use crate::ledger::ReadCause;
use crate::map::Where;
use crate::state::State;
use nand::{BlockId, NandError, Payload, Priority, Row, UNIT};
use std::cell::RefCell;
use units::{Extent, SECTOR};

/// Position of a mapped page on flash: block, page in the block, first sector in that page.
pub(crate) struct FlashPage {
    pub(crate) line: u32,
    pub(crate) block: BlockId,
    pub(crate) page: u32,
    pub(crate) sector: u32,
}

/// One flash read: pages of one page row.
pub(crate) struct RowRead {
    pub(crate) line: u32,
    pub(crate) row: Row,
    pub(crate) bytes: u32,
    /// First mapped page, for errors.
    pub(crate) page: u32,
}

impl State {
    /// Position of the mapped page at `place`.
    #[inline]
    pub(crate) fn flash_page(&self, layout: &Layout, place: u32) -> FlashPage {
        let (line, offset) = layout.line_of(place);
        let at = layout.place(offset);
        let block = BlockId {
            die: layout.dies(layout.group(line)).start + at.die,
            plane: at.plane,
            block: self.line_blocks(layout, line, at.die)[at.plane as usize],
        };
        FlashPage {
            line,
            block,
            page: at.row,
            sector: at.sector,
        }
    }
}

impl Core {
    /// The flash read of `bytes` of the mapped page at `place`.
    #[inline]
    pub(crate) fn row_read(&self, page: u32, place: u32, bytes: u32) -> RowRead {
        let at = self.state.borrow().flash_page(&self.layout, place);
        RowRead {
            line: at.line,
            row: Row::single(at.block, at.page),
            bytes,
            page,
        }
    }

    /// The row reads that `pages` need; pages that are not on flash need none.
    pub(crate) fn rows(&self, pages: impl IntoIterator<Item = u32>) -> Vec<RowRead> {
        let mut rows = Vec::new();
        self.gather_rows(pages, &mut rows);
        rows
    }

    /// Adds the row reads that `pages` need to `rows`.
    pub(crate) fn gather_rows(
        &self,
        pages: impl IntoIterator<Item = u32>,
        rows: &mut Vec<RowRead>,
    ) {
        for page in pages {
            let Where::Flash(place) = self.state.borrow().map.get(page) else {
                continue;
            };
            let next = self.row_read(page, place, self.layout.page_bytes() as u32);
            match rows.last_mut() {
                Some(read) if read.same_row(&next) => read.add(&next),
                _ => rows.push(next),
            }
        }
    }

    /// Reads rows in parallel. All their lines are marked as being read before the first await.
    pub(crate) async fn read_rows(
        &self,
        rows: Vec<RowRead>,
        cause: ReadCause,
    ) -> Result<(), IoError> {
        for read in &rows {
            self.begin_reading(read.line, cause, read.row);
        }
        let mut rows = rows.into_iter();
        let Some(first) = rows.next() else {
            return Ok(());
        };
        let others: Vec<_> = rows
            .map(|read| {
                let (promise, end) = self.sim.promise();
                self.start_job(Work::Row(read, promise));
                end
            })
            .collect();
        let mut result = self.finish_row(first).await;
        for other in others {
            let read = other.await;
            result = result.and(read);
        }
        result
    }

    /// Reads the mapped page at `place` for its time; contents are fetched separately.
    pub(crate) async fn read_page_of(
        &self,
        page: u32,
        place: u32,
        cause: ReadCause,
    ) -> Result<(), IoError> {
        let read = self.row_read(page, place, self.layout.page_bytes() as u32);
        self.read_row(read, cause).await
    }

    async fn read_row(&self, read: RowRead, cause: ReadCause) -> Result<(), IoError> {
        self.begin_reading(read.line, cause, read.row);
        self.finish_row(read).await
    }

    async fn finish_row(&self, read: RowRead) -> Result<(), IoError> {
        let result = self.read_marked(read.line, read.row, read.bytes).await;
        checked(&self.layout, read.page, result)
    }

    /// Reads a row of `line`, which is marked as being read until the end, or until the future is
    /// dropped: the erase of a block waits in its die for reads that arrived before.
    pub(crate) async fn read_marked(
        &self,
        line: u32,
        row: Row,
        bytes: u32,
    ) -> Result<(), NandError> {
        let _mark = Mark { core: self, line };
        self.nand.read(row, bytes, Priority::Read).await
    }

    /// Result of a read of a row in `line`, with the mapped page `page`, at its end.
    pub(crate) fn row_ended(
        &self,
        (line, page): (u32, u32),
        result: Result<(), NandError>,
    ) -> Result<(), IoError> {
        self.end_reading(line);
        checked(&self.layout, page, result)
    }

    pub(crate) fn begin_reading(&self, line: u32, cause: ReadCause, row: Row) {
        let mut state = self.state.borrow_mut();
        state.lines.lines[line as usize].readers += 1;
        state.ledger.reads[cause as usize] += u64::from(row.planes.count_ones());
    }

    pub(crate) fn end_reading(&self, line: u32) {
        let mut state = self.state.borrow_mut();
        let entry = &mut state.lines.lines[line as usize];
        entry.readers -= 1;
        let awaited = entry.readers == 0 && entry.state == crate::LineState::Collecting;
        drop(state);
        if awaited {
            self.progress.notify(&self.sim);
        }
    }

    /// Passes the current contents of `extent` to `sink`.
    pub(crate) fn hand_over<S: Sink>(&self, extent: Extent, sink: &mut S) -> Result<(), IoError> {
        if !sink.is_wanted() {
            return Ok(());
        }
        let (first, last) = self.pages_of(extent);
        let (start, end) = (extent.start.0 * SECTOR, extent.end() * SECTOR);
        for page in first..last {
            let sectors = self.newest(page);
            for index in 0..self.layout.sectors_per_page {
                let at =
                    u64::from(page) * self.layout.page_bytes() + u64::from(index) * UNIT as u64;
                let (from, to) = (start.max(at), end.min(at + UNIT as u64));
                if from >= to {
                    continue;
                }
                let payload = sectors.as_ref().and_then(|s| s.get(index as usize));
                let payload = payload.unwrap_or(&Payload::Zero);
                let lost = payload.first_lost((from - at) as usize, (to - at) as usize);
                if let Some(lost) = lost {
                    return Err(IoError::Media((at + lost as u64) / SECTOR));
                }
                let (offset, len) = ((from - start) as usize, (to - from) as usize);
                sink.take(offset, len, payload, (from - at) as usize);
            }
        }
        Ok(())
    }
}

/// Result of a read of the mapped page `page`.
fn checked(layout: &Layout, page: u32, result: Result<(), NandError>) -> Result<(), IoError> {
    result.map_err(|error| {
        assert_eq!(
            error,
            NandError::Uncorrectable,
            "the map points to written pages"
        );
        IoError::Media(u64::from(page) * (layout.page_bytes() / SECTOR))
    })
}

/// Read-ahead of a drive that has it.
#[derive(Clone, Copy)]
pub(crate) struct Prefetcher<'a> {
    core: &'a Core,
    table: &'a RefCell<ReadAhead>,
}

impl Core {
    /// The drive's read-ahead; `None` on a drive without.
    #[inline]
    pub(crate) fn prefetcher(&self) -> Option<Prefetcher<'_>> {
        let table = self.ahead.as_ref()?;
        Some(Prefetcher { core: self, table })
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
}

impl Prefetcher<'_> {
    /// For a read of pages that continues a stream: the stream, and the pages that are on their way
    /// to the DRAM. The row reads of the others are added to `rows`, those in the DRAM excepted.
    pub(crate) fn continue_stream(
        &self,
        first: u32,
        end: u32,
        rows: &mut Vec<RowRead>,
    ) -> Option<(usize, Vec<Coming>)> {
        let mut ahead = self.table.borrow_mut();
        let stream = ahead.follow(&(u64::from(first)..u64::from(end)))?;
        let (mut coming, mut served) = (Vec::new(), 0);
        let absent = (first..end).filter(|&page| {
            let Where::Flash(place) = self.core.state.borrow().map.get(page) else {
                return false;
            };
            let held = ahead.find(stream, u64::from(page), place);
            if let Held::Coming(fetch) = held {
                ahead.wait(&self.core.sim, fetch, u64::from(page), &mut coming);
            }
            served += u64::from(held != Held::Absent);
            held == Held::Absent
        });
        self.core.gather_rows(absent, rows);
        self.core.state.borrow_mut().ledger.ahead_pages += served;
        Some((stream, coming))
    }

    /// Starts the fetches that a stream lacks.
    pub(crate) fn read_ahead(&self, stream: usize) {
        loop {
            let wanted = self.table.borrow_mut().wanted(stream);
            let Some(first) = wanted.filter(|&page| page < u64::from(self.core.layout.host_pages))
            else {
                return;
            };
            self.fetch_row(&mut self.table.borrow_mut(), stream, first as u32);
        }
    }

    /// Fetches `first` and the pages after it in the same row.
    fn fetch_row(&self, ahead: &mut ReadAhead, stream: usize, first: u32) {
        let Some(mut read) = self.page_read(first) else {
            ahead.resume(stream, u64::from(first) + 1);
            return;
        };
        let mut end = first + 1;
        let most = self.core.layout.host_pages.min(first + ahead.row() as u32);
        while end < most
            && let Some(next) = self.page_read(end)
            && read.same_row(&next)
        {
            read.add(&next);
            end += 1;
        }
        let places = (first..end).map_while(|page| match self.core.state.borrow().map.get(page) {
            Where::Flash(place) => Some(place),
            _ => None,
        });
        let fetch = ahead.begin(stream, u64::from(first), places);
        self.core
            .begin_reading(read.line, ReadCause::ReadAhead, read.row);
        let core = self.core.this();
        self.core.sim.spawn_detached(async move {
            let end = core.read_marked(read.line, read.row, read.bytes).await;
            if let Some(ahead) = core.prefetcher() {
                ahead.end(fetch, end.is_ok());
            }
        });
    }

    /// The flash read of a whole mapped page; `None` if it is not on flash.
    fn page_read(&self, page: u32) -> Option<RowRead> {
        let Where::Flash(place) = self.core.state.borrow().map.get(page) else {
            return None;
        };
        Some(
            self.core
                .row_read(page, place, self.core.layout.page_bytes() as u32),
        )
    }

    /// Ends a fetch, and passes on whether the flash could be read.
    pub(crate) fn end(&self, fetch: u32, good: bool) {
        self.table.borrow_mut().end(fetch, good);
    }

    /// Makes pages stale that lie in `line`, which is about to be erased.
    pub(crate) fn forget(&self, line: u32) {
        let first = line * self.core.layout.line_pages;
        let places = first..first + self.core.layout.line_pages;
        let mut table = self.table.borrow_mut();
        table.forget(|_, place| places.contains(&place));
    }
}

/// Mark of a line that is being read.
struct Mark<'a> {
    core: &'a Core,
    line: u32,
}

impl Drop for Mark<'_> {
    fn drop(&mut self) {
        self.core.end_reading(self.line);
    }
}

impl RowRead {
    /// Sectors of 4 KiB that are read.
    pub(crate) fn units(&self) -> u32 {
        self.bytes / UNIT as u32
    }

    /// Adds a page of the same row.
    pub(crate) fn add(&mut self, next: &Self) {
        let plane = next.row.planes.trailing_zeros() as usize;
        self.row.planes |= next.row.planes;
        self.row.blocks[plane] = next.row.blocks[plane];
        self.bytes += next.bytes;
    }

    pub(crate) fn same_row(&self, other: &Self) -> bool {
        self.line == other.line && self.row.die == other.row.die && self.row.page == other.row.page
    }
}
