//! The journal of deallocations.
//!
//! A deallocation leaves no trace in any spare area, so that older versions would come back at
//! power-on. The journal therefore holds one record for each deallocation, with a sequence number
//! among those of the programs. On a protected drive a record counts as durable at once. On any
//! other drive the deallocation takes effect at the instant at which its journal page is issued,
//! and is acknowledged when that page is written.
//!
//! A *checkpoint* lists, at one sequence number, every range of pages without a valid version on
//! flash: unmapped pages, and pages whose first version since is still on its way. Once a
//! checkpoint is complete, older journal lines are obsolete and are erased. The journal writes a
//! checkpoint whenever it moves on to another line.
//!
//! However fragmented the ranges are, a checkpoint takes no more than one bit for each page of the
//! host. So it seldom fills a line. If it does, the lines that it filled do not cause another
//! checkpoint, so that checkpoints cannot chase one another.
//!
//! # Format of a journal page (little endian, 4096 bytes)
//!
//! | bytes | |
//! | --- | --- |
//! | 0–3 | magic `FLJ1` |
//! | 4–7 | kind: 0 records, 1 checkpoint, 2 checkpoint as bits |
//! | 8–15 | sequence number: of the page, or of the checkpoint it belongs to |
//! | 16–19 | position of the page in its checkpoint |
//! | 20–23 | pages of the checkpoint; 1 for records |
//! | 24–27 | entries in this page, or bits |
//! | 28–31 | CRC-32C of the rest of the page |
//! | 32–4095 | entries of 16 bytes: sequence number (8), first page (4), pages (4) |
//! | 32–4095 | or sequence number (8), first page (4), a bit for each page from there |

use crate::drive::{Core, IoError};
use crate::ledger::Cause;
use crate::line::LineState;
use crate::recover::word;
use nand::{Payload, Ticket, UNIT};
use std::rc::Rc;
use std::sync::Arc;
use units::Extent;

const MAGIC: u32 = u32::from_le_bytes(*b"FLJ1");
const HEADER: usize = 32;
const ENTRY: usize = 16;
/// Entries that a journal page holds.
pub(crate) const ENTRIES: usize = (UNIT - HEADER) / ENTRY;
const _: () = assert!(ENTRIES == 254);
const FIRST_BIT: usize = HEADER + 12;
/// Host pages that a journal page of bits covers.
pub(crate) const BITS: u32 = ((UNIT - FIRST_BIT) * 8) as u32;

/// A range of mapped pages that was deallocated at one sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trimmed {
    pub(crate) sequence: u64,
    pub(crate) first: u32,
    pub(crate) pages: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageKind {
    Records,
    Checkpoint { index: u32, of: u32 },
}

/// One journal page, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JournalPage {
    pub(crate) kind: PageKind,
    pub(crate) sequence: u64,
    pub(crate) entries: Vec<Trimmed>,
}

impl JournalPage {
    pub(crate) fn encode(&self) -> [u8; UNIT] {
        let (kind, index, of) = match self.kind {
            PageKind::Records => (0, 0, 1),
            PageKind::Checkpoint { index, of } => {
                (1 + u32::from(self.entries.len() > ENTRIES), index, of)
            }
        };
        let mut bytes = [0; UNIT];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &MAGIC.to_le_bytes());
        put(4, &u32::to_le_bytes(kind));
        put(8, &self.sequence.to_le_bytes());
        put(16, &u32::to_le_bytes(index));
        put(20, &u32::to_le_bytes(of));
        if kind == 2 {
            self.encode_bits(&mut bytes);
        } else {
            put(24, &(self.entries.len() as u32).to_le_bytes());
            for (number, entry) in self.entries.iter().enumerate() {
                let at = HEADER + number * ENTRY;
                put(at, &entry.sequence.to_le_bytes());
                put(at + 8, &entry.first.to_le_bytes());
                put(at + 12, &entry.pages.to_le_bytes());
            }
        }
        let crc = checksum(&bytes);
        bytes[28..32].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Encodes the entries as bits. They must be ascending and of one sequence number.
    fn encode_bits(&self, bytes: &mut [u8; UNIT]) {
        let (first, last) = (self.entries[0], self.entries[self.entries.len() - 1]);
        let count = last.first + last.pages - first.first;
        bytes[24..28].copy_from_slice(&count.to_le_bytes());
        bytes[HEADER..HEADER + 8].copy_from_slice(&first.sequence.to_le_bytes());
        bytes[HEADER + 8..FIRST_BIT].copy_from_slice(&first.first.to_le_bytes());
        for entry in &self.entries {
            for page in entry.first..entry.first + entry.pages {
                let bit = (page - first.first) as usize;
                bytes[FIRST_BIT + bit / 8] |= 1 << (bit % 8);
            }
        }
    }

    /// Decodes a journal page; `None` if `bytes` are damaged or no journal page.
    pub(crate) fn decode(bytes: &[u8; UNIT]) -> Option<Self> {
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
        let count = u32_at(24) as usize;
        let is_bits = u32_at(4) == 2;
        let most = if is_bits { BITS as usize } else { ENTRIES };
        if u32_at(0) != MAGIC || count > most || u32_at(28) != checksum(bytes) {
            return None;
        }
        let kind = match u32_at(4) {
            0 => PageKind::Records,
            1 | 2 => PageKind::Checkpoint {
                index: u32_at(16),
                of: u32_at(20),
            },
            _ => return None,
        };
        let entry = |number: usize| {
            let at = HEADER + number * ENTRY;
            Trimmed {
                sequence: u64_at(at),
                first: u32_at(at + 8),
                pages: u32_at(at + 12),
            }
        };
        let is_set = |bit: &u32| bytes[FIRST_BIT + *bit as usize / 8] >> (bit % 8) & 1 == 1;
        let entries = if is_bits {
            let first = u32_at(HEADER + 8);
            let pages = (0..count as u32).filter(is_set);
            let runs = pages.map(|bit| (first.saturating_add(bit), 1));
            ranges(runs, u64_at(HEADER))
        } else {
            (0..count).map(entry).collect()
        };
        Some(Self {
            kind,
            sequence: u64_at(8),
            entries,
        })
    }
}

fn checksum(bytes: &[u8; UNIT]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..28]), &bytes[HEADER..])
}

/// State of the journal in the firmware's DRAM.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// Deallocations that have not taken effect, as (first page, pages); unprotected drives only.
    waiting: Vec<(u32, u32)>,
    /// Deallocations queued, and how many of them are durable; unprotected drives only.
    asked: u64,
    durable: u64,
    /// Records that have taken effect and are not on flash yet.
    pub(crate) records: Vec<Trimmed>,
    /// Leading entries of `records` that a program under way carries.
    writing: usize,
    /// Full journal lines; they are erased when the next checkpoint is complete.
    pub(crate) full_lines: Vec<u32>,
    /// Full lines that do not justify another checkpoint: those that the last one filled.
    kept: usize,
    /// Whether records must be written although they do not fill a page.
    forced: bool,
}

impl Journal {
    /// The journal as found at power-on: `records` that are not on flash, and `full_lines` that a
    /// checkpoint will supersede once there are more than `kept`.
    pub(crate) fn found(records: Vec<Trimmed>, full_lines: Vec<u32>, kept: usize) -> Self {
        Self {
            records,
            full_lines,
            kept,
            ..Self::default()
        }
    }

    fn wants_checkpoint(&self) -> bool {
        self.full_lines.len() > self.kept
    }

    fn has_work(&self) -> bool {
        !self.waiting.is_empty()
            || self.records.len() >= ENTRIES
            || self.wants_checkpoint()
            || (self.forced && !self.records.is_empty())
    }
}

impl Core {
    /// Deallocates the mapped pages that lie wholly inside `extent`.
    pub(crate) async fn trim(&self, extent: Extent) -> Result<(), IoError> {
        self.sim.sleep(self.config.controller.command).await;
        self.state.borrow_mut().ledger.host_trim_sectors += u64::from(extent.sectors);
        let (first, pages) = self.whole_pages(extent);
        if pages == 0 {
            return Ok(());
        }
        if self.config.controller.power_loss_protection {
            let sequence = self.mark();
            let record = Trimmed {
                sequence,
                first,
                pages,
            };
            self.take_effect(record);
            self.journal.borrow_mut().records.push(record);
            self.work[self.journal_frontier()].notify(&self.sim);
            return Ok(());
        }
        let ticket = {
            let mut journal = self.journal.borrow_mut();
            journal.waiting.push((first, pages));
            journal.asked += 1;
            journal.asked
        };
        self.work[self.journal_frontier()].notify(&self.sim);
        while self.journal.borrow().durable < ticket {
            if self.read_only.get() {
                return Err(IoError::ReadOnly);
            }
            self.progress.wait(&self.sim).await;
        }
        Ok(())
    }

    fn whole_pages(&self, extent: Extent) -> (u32, u32) {
        let per_page = self.layout.page_bytes() / units::SECTOR;
        let first = extent.start.0.div_ceil(per_page);
        let last = (extent.end() / per_page).max(first);
        (first as u32, (last - first) as u32)
    }

    /// Takes a sequence number for an event that is not a program.
    fn mark(&self) -> u64 {
        let mut state = self.state.borrow_mut();
        let sequence = state.in_flight.begin();
        state.in_flight.end(sequence);
        sequence
    }

    /// Unmaps the pages of `record` from this instant on.
    fn take_effect(&self, record: Trimmed) {
        let mut state = self.state.borrow_mut();
        for page in record.first..record.first + record.pages {
            state.forget(&self.layout, page);
        }
        drop(state);
        // A line may have no valid page left, for which its reclaiming waits.
        self.progress.notify(&self.sim);
        if let Some(front) = &self.front {
            front.forget(record.first, record.first + record.pages);
        }
    }

    pub(crate) fn journal_frontier(&self) -> usize {
        self.layout.journal_frontier(&self.config)
    }

    /// Task that writes journal pages; ends when the drive turns read-only.
    pub(crate) async fn write_journal(self: Rc<Self>) {
        let frontier = self.journal_frontier();
        loop {
            while !self.journal.borrow().has_work() {
                self.work[frontier].wait(&self.sim).await;
            }
            if self.write_records(frontier).await.is_err() {
                return;
            }
            if self.journal.borrow().wants_checkpoint()
                && self.write_checkpoint(frontier).await.is_err()
            {
                return;
            }
        }
    }

    /// Writes one page of records, if there are any.
    async fn write_records(self: &Rc<Self>, frontier: usize) -> Result<(), IoError> {
        self.open_journal_line(frontier, false).await?;
        let asked = self.journal.borrow().asked;
        let waiting: Vec<_> = {
            let mut journal = self.journal.borrow_mut();
            let count = journal.waiting.len().min(ENTRIES);
            journal.waiting.drain(..count).collect()
        };
        let left = self.journal.borrow().waiting.len() as u64;
        for (first, pages) in waiting {
            let record = Trimmed {
                sequence: self.mark(),
                first,
                pages,
            };
            self.take_effect(record);
            self.journal.borrow_mut().records.push(record);
        }
        let entries: Vec<_> = {
            let mut journal = self.journal.borrow_mut();
            let count = journal.records.len().min(ENTRIES);
            journal.writing = count;
            journal.records[..count].to_vec()
        };
        if entries.is_empty() {
            return Ok(());
        }
        let page = JournalPage {
            kind: PageKind::Records,
            sequence: 0,
            entries,
        };
        self.write_page(frontier, page).await?;
        let mut journal = self.journal.borrow_mut();
        let written = std::mem::take(&mut journal.writing);
        journal.records.drain(..written);
        journal.forced &= !journal.records.is_empty();
        journal.durable = asked - left;
        drop(journal);
        if let Some(front) = self.front.as_ref().filter(|front| front.hides_lines()) {
            front.deallocated();
        }
        self.progress.notify(&self.sim);
        Ok(())
    }

    /// Writes a checkpoint of all unmapped ranges, then reclaims the journal lines before it.
    async fn write_checkpoint(self: &Rc<Self>, frontier: usize) -> Result<(), IoError> {
        let old = std::mem::take(&mut self.journal.borrow_mut().full_lines);
        // The records to be superseded are older than every program under way now. Once those
        // programs have completed, the newest version on flash of each page is known, and programs
        // issued later count as later than the checkpoint.
        let until = self.state.borrow().in_flight.next();
        self.settle(until).await;
        let ranges = {
            let state = self.state.borrow();
            let sequence = state.in_flight.settled.saturating_sub(1);
            ranges(state.without_version(self.layout.host_pages), sequence)
        };
        let sequence = self.mark();
        let pages = by_page(ranges, self.layout.host_pages);
        let of = pages.len() as u32;
        for (index, entries) in (0..).zip(pages) {
            self.open_journal_line(frontier, false).await?;
            let page = JournalPage {
                kind: PageKind::Checkpoint { index, of },
                sequence,
                entries,
            };
            self.write_page(frontier, page).await?;
        }
        for line in old {
            let mut state = self.state.borrow_mut();
            state.lines.transition(line, LineState::Collecting);
            drop(state);
            let core = Rc::clone(self);
            self.sim
                .spawn_detached(async move { core.reclaim(line).await });
        }
        Ok(())
    }

    /// As [`Core::open_line`]; the line that was full before joins `full_lines`.
    async fn open_journal_line(
        self: &Rc<Self>,
        frontier: usize,
        urgent: bool,
    ) -> Result<(), IoError> {
        let before = self.state.borrow().frontiers[frontier].open;
        self.open_line(frontier, urgent).await?;
        let after = self.state.borrow().frontiers[frontier].open;
        if before != after && before != crate::layout::NONE {
            self.journal.borrow_mut().full_lines.push(before);
        }
        Ok(())
    }

    /// Writes one journal page as a unit of its own, and retries elsewhere if the program fails.
    async fn write_page(
        self: &Rc<Self>,
        frontier: usize,
        mut page: JournalPage,
    ) -> Result<(), IoError> {
        // Stays under way until the page is written, so that no line which it makes obsolete is
        // erased earlier.
        let mut under_way = Vec::new();
        loop {
            let (line, unit, sequence, ticket) = self.submit_page(frontier, &mut page);
            under_way.push(sequence);
            let written = self.nand.finish_program(ticket).await.is_ok();
            self.end_page(line, unit, written, &under_way);
            if written {
                return Ok(());
            }
            self.state.borrow_mut().retries[0] += under_way.len();
            let opened = self.open_journal_line(frontier, true).await;
            self.state.borrow_mut().retries[0] -= under_way.len();
            opened?;
        }
    }

    fn end_page(&self, line: u32, unit: u32, written: bool, under_way: &[u64]) {
        let mut state = self.state.borrow_mut();
        state.lines.end_program(line);
        if !written {
            let entry = &mut state.lines.lines[line as usize];
            entry.dead_dies.push(self.layout.die_in_group(unit));
            return;
        }
        for &sequence in under_way {
            state.in_flight.end(sequence);
        }
        drop(state);
        self.finished();
    }

    fn submit_page(&self, frontier: usize, page: &mut JournalPage) -> (u32, u32, u64, Ticket) {
        let mut state = self.state.borrow_mut();
        let line = state.frontiers[frontier].open;
        let unit = state.next_unit(&self.layout, line).expect("opened");
        let sequence = state.in_flight.begin();
        if page.kind == PageKind::Records {
            page.sequence = sequence;
        }
        let pages = self.layout.unit;
        state.ledger.program(Cause::Journal as u8, 0, 1);
        state
            .ledger
            .program(Cause::Padding as u8, 0, u64::from(pages - 1));
        let sectors = (pages * self.layout.sectors_per_page) as usize;
        let mut words = vec![word::PADDING; sectors];
        words[0] = word::JOURNAL;
        let mut payload = vec![Payload::Zero; sectors];
        payload[0] = Payload::Bytes(Arc::new(page.encode()));
        let ticket = self.program(&state, line, unit, sequence, &words, &mut payload);
        state.lines.begin_program(line);
        (line, unit, sequence, ticket)
    }

    /// Writes out all records; returns early if the drive turns read-only.
    pub(crate) async fn flush_journal(&self) {
        let pending = |core: &Self| {
            let journal = core.journal.borrow();
            !journal.records.is_empty() || !journal.waiting.is_empty()
        };
        while pending(self) && !self.read_only.get() {
            self.journal.borrow_mut().forced = true;
            self.work[self.journal_frontier()].notify(&self.sim);
            self.progress.wait(&self.sim).await;
        }
    }
}

/// Distributes the entries of a checkpoint over pages: never more pages than one bit a host page
/// would need, and at least one.
fn by_page(ranges: Vec<Trimmed>, host_pages: u32) -> Vec<Vec<Trimmed>> {
    let as_entries = ranges.len().div_ceil(ENTRIES);
    if as_entries <= 1 {
        return vec![ranges];
    }
    if as_entries <= host_pages.div_ceil(BITS) as usize {
        return ranges.chunks(ENTRIES).map(<[_]>::to_vec).collect();
    }
    let mut pages = vec![Vec::new(); host_pages.div_ceil(BITS) as usize];
    for range in ranges {
        let (mut first, end) = (range.first, range.first + range.pages);
        while first < end {
            let page = first / BITS;
            let next = end.min((page + 1) * BITS);
            pages[page as usize].push(Trimmed {
                first,
                pages: next - first,
                ..range
            });
            first = next;
        }
    }
    pages
}

/// Joins ascending runs of pages, as first page and count, into ranges, each with `sequence`.
fn ranges(runs: impl IntoIterator<Item = (u32, u32)>, sequence: u64) -> Vec<Trimmed> {
    let mut ranges: Vec<Trimmed> = Vec::new();
    for (first, pages) in runs {
        match ranges.last_mut() {
            Some(range) if range.first.checked_add(range.pages) == Some(first) => {
                range.pages += pages;
            }
            _ => ranges.push(Trimmed {
                sequence,
                first,
                pages,
            }),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoint_takes_at_most_one_bit_a_page() {
        let host_pages = 3 * BITS - 5;
        for step in [2, 3, 300, 40_000] {
            let lost = (0..host_pages).filter(|page| page % step != 0);
            let all = ranges(lost.map(|page| (page, 1)), 7);
            let pages = by_page(all.clone(), host_pages);
            assert!((1..=3).contains(&pages.len()), "{}", pages.len());
            let decoded = pages.into_iter().flat_map(|entries| {
                let page = JournalPage {
                    kind: PageKind::Checkpoint { index: 0, of: 1 },
                    sequence: 9,
                    entries,
                };
                let back = JournalPage::decode(&page.encode());
                assert_eq!(back.as_ref(), Some(&page));
                back.expect("just compared").entries
            });
            let lost = |r: Trimmed| r.first..r.first + r.pages;
            assert!(decoded.flat_map(lost).eq(all.into_iter().flat_map(lost)));
        }
    }

    #[test]
    fn journal_page_round_trips_and_rejects_damage() {
        let page = JournalPage {
            kind: PageKind::Checkpoint { index: 2, of: 7 },
            sequence: 99,
            entries: (0..ENTRIES as u32)
                .map(|n| Trimmed {
                    sequence: 99,
                    first: n * 10,
                    pages: n + 1,
                })
                .collect(),
        };
        let mut bytes = page.encode();
        assert_eq!(JournalPage::decode(&bytes), Some(page));
        for at in [0, 5, 9, 25, 29, 32, UNIT - 1] {
            bytes[at] ^= 1;
            assert_eq!(JournalPage::decode(&bytes), None, "byte {at}");
            bytes[at] ^= 1;
        }
    }
}
