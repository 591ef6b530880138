//! File contents: small changes go through the byte interface, others through the block interface.
//!
//! Invariants: lines of contents are stored only by copied transactions, so an older line never
//! overtakes a later block write. A block write waits for lines of its blocks that are in flight.
//! Lines whose former contents are unknown are always written, up to the end of the file.

use super::compare::{changed, lines_of, low};
use super::core::{COMMAND_BLOCKS, Core};
use super::durable::Durable;
use super::journal::DataJournal;
use super::medium::{SECTORS, extent, failed};
use super::snapshot::Image;
use crate::buffer::BLOCK;
use crate::persist::{DataWrite, Run};
use host::{BlockPort, BytePort, Who};
use nand::Payload;
use ssd::Content;
use ssd::wlog::LINE;
use std::rc::Rc;
use std::sync::Arc;
use units::{Extent, Ns, Placement, SECTOR};
use vfs::{DirtyPage, Errno, Result};

/// Plan of a write: pages that go by bytes, and pages that go by blocks.
#[derive(Default)]
struct Plan<'a> {
    images: Vec<Image>,
    /// Runs of pages for the block interface.
    runs: Vec<PageRun<'a>>,
}

/// First block of a run of pages, the pages, and placement and origin of their writes.
pub(super) type PageRun<'a> = (u64, &'a [DirtyPage], Placement, Who);

/// The interface for one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// No write: the page has not changed.
    None,
    /// By bytes: the lines in this mask.
    Bytes(u64),
    /// By blocks: the whole page.
    Block,
}

/// Chooses the interface for a page, from the `mask` of lines that differ from its duplicate. The
/// first `held` bytes of the block are as in the duplicate, and `used` bytes belong to the file.
/// Zeros behind the end of a shortened file are written too, because a later extension of the
/// file does not wait for this page.
//= bytefs 4.6
pub(super) fn choose(mask: u64, held: u64, used: u64, byte_lines: u32) -> Way {
    let line = LINE as u64;
    let unknown = !low(held / line);
    let lines = mask | (unknown & low(used.div_ceil(line)));
    match lines.count_ones() {
        0 => Way::None,
        count if count < byte_lines => Way::Bytes(lines),
        _ => Way::Block,
    }
}

impl<D: Durable> Core<D> {
    pub(super) fn wants_duplicates(&self) -> bool {
        self.options.compares && self.options.byte_lines > 0
    }

    fn way(&self, write: &DataWrite<'_>, (block, page): (u64, &DirtyPage)) -> Way {
        let run = Run {
            start: block,
            len: 1,
        };
        if self.journal().is_some_and(|journal| journal.has(run)) {
            return Way::Block;
        }
        let before = page.before.as_ref();
        let before = before.filter(|_| self.wants_duplicates() && write.held > 0);
        let Some(mask) = before.and_then(|before| {
            self.medium.count(|m| m.comparisons += 1);
            changed(before, &page.now)
        }) else {
            return Way::Block;
        };
        let within = |end: u64| end.saturating_sub(page.index * BLOCK as u64);
        let (held, used) = (within(write.held), within(write.end));
        choose(mask, held, used, self.options.byte_lines)
    }

    fn plan<'a>(&self, writes: &[DataWrite<'a>]) -> Plan<'a> {
        let mut plan = Plan::default();
        for write in writes {
            let mut first = 0;
            for (at, page) in write.pages.iter().enumerate() {
                let way = self.way(write, (write.start + at as u64, page));
                if way == Way::Block {
                    continue;
                }
                plan.add_run(write, first, at);
                first = at + 1;
                match way {
                    Way::Bytes(mask) => plan.images.push(Image {
                        block: write.start + at as u64,
                        mask,
                        bytes: Box::new(page.now.to_bytes()),
                        who: write.who,
                    }),
                    _ => self.medium.count(|m| m.same_pages += 1),
                }
            }
            plan.add_run(write, first, write.pages.len());
        }
        plan
    }

    /// Writes contents, and closes `handle` if there is one.
    pub(super) async fn write_data(
        self: &Rc<Self>,
        handle: Option<u64>,
        writes: &[DataWrite<'_>],
    ) -> Result<()> {
        let before = self.medium.metrics().comparisons;
        let mut plan = self.plan(writes);
        let compared = self.medium.metrics().comparisons - before;
        if compared > 0 {
            let span = Ns(self.options.compare.0 * compared);
            self.medium.port.compute(span).over(&self.sim).await;
        }
        if let Some(journal) = self.journal() {
            return self.log_plan(journal, (handle, plan), writes).await;
        }
        let Some(handle) = handle else {
            return self.write_plan(plan, writes).await;
        };
        if !self.table.borrow().is_last(handle) {
            let landing = self.table.borrow_mut().await_landing(handle);
            let ended = self.meet(|table| table.end(handle, Vec::new()));
            assert!(ended.is_none(), "other handles are open");
            let written = self.write_plan(plan, writes).await;
            landing.set(true);
            self.progress.notify(&self.sim);
            return written;
        }
        let lines = plan.images.iter().map(Image::lines).sum();
        if !self.table.borrow().takes_in(handle, lines) {
            plan = Plan::whole(writes);
        }
        self.write_last(handle, plan).await
    }

    /// Writes contents and closes the last handle of a transaction. The transaction includes the
    /// contents that go by bytes, and does not commit before those that go by blocks have landed.
    /// If it includes any, this waits for its commit, because reads do not see them before.
    async fn write_last(self: &Rc<Self>, handle: u64, mut plan: Plan<'_>) -> Result<()> {
        let images = std::mem::take(&mut plan.images);
        let by_bytes = !images.is_empty();
        self.medium.count(|m| m.byte_pages += images.len() as u64);
        let blockers = self.blockers(&plan);
        let landing = self.table.borrow_mut().await_landing(handle);
        let closing = self.meet(|table| table.end(handle, images));
        self.close(closing.expect("it was the last handle"));
        let written = self.write_runs(&plan, blockers).await;
        landing.set(true);
        self.progress.notify(&self.sim);
        if by_bytes {
            self.wait_durable(handle).await?;
        }
        written
    }

    /// Adds contents to the transaction of `handle`, or of a new handle, and closes that. Lines
    /// join the transaction if it is the last handle and they fit; other pages go to the journal.
    //= bytefs 4.6
    async fn log_plan(
        self: &Rc<Self>,
        journal: &DataJournal,
        (handle, mut plan): (Option<u64>, Plan<'_>),
        writes: &[DataWrite<'_>],
    ) -> Result<()> {
        let handle = match handle {
            Some(handle) => handle,
            None => self.begin(0).await.map_err(|_| Errno::EIO)?,
        };
        self.meet(|table| table.queue_up(handle));
        let lines = plan.images.iter().map(Image::lines).sum();
        let fits = self.table.borrow().takes_in(handle, lines);
        if !fits || !self.table.borrow().is_last(handle) {
            plan = Plan::whole(writes);
        }
        self.medium
            .count(|m| m.byte_pages += plan.images.len() as u64);
        for &(start, pages, to, who) in &plan.runs {
            for (block, page) in (start..).zip(pages) {
                let copy = journal.note(block, page.now.clone(), (to, who));
                self.table.borrow_mut().log(handle, block, copy);
            }
        }
        journal.brought(handle);
        let images = std::mem::take(&mut plan.images);
        let by_bytes = !images.is_empty();
        if let Some(closing) = self.meet(|table| table.end(handle, images)) {
            self.close(closing);
        }
        if by_bytes {
            self.wait_durable(handle).await?;
        }
        Ok(())
    }

    /// Numbers of copied transactions with lines of blocks that `plan` writes by blocks.
    fn blockers(&self, plan: &Plan<'_>) -> Vec<u64> {
        let table = self.table.borrow();
        let runs = plan.runs.iter().flat_map(|&(start, pages, ..)| {
            let len = pages.len() as u64;
            table.copied_on(Run { start, len })
        });
        runs.collect()
    }

    /// Writes contents without a transaction of metadata. If there is no room for lines, all pages
    /// go by blocks.
    async fn write_plan(
        self: &Rc<Self>,
        mut plan: Plan<'_>,
        writes: &[DataWrite<'_>],
    ) -> Result<()> {
        if self.aborted.get() {
            return Err(Errno::EIO);
        }
        let mut images = std::mem::take(&mut plan.images);
        let pages = images.len() as u64;
        if images.is_empty() {
            let blockers = self.blockers(&plan);
            return self.write_runs(&plan, blockers).await;
        }
        let closing = self.table.borrow_mut().contents(&mut images);
        let Some(closing) = closing else {
            let whole = Plan::whole(writes);
            let blockers = self.blockers(&whole);
            return self.write_runs(&whole, blockers).await;
        };
        self.medium.count(|m| m.byte_pages += pages);
        let blockers = self.blockers(&plan);
        let number = closing.number;
        self.post(closing);
        let written = self.write_runs(&plan, blockers).await;
        self.wait_durable(number).await?;
        written
    }

    async fn write_runs(&self, plan: &Plan<'_>, blockers: Vec<u64>) -> Result<()> {
        for number in blockers {
            self.wait_committed(number).await;
        }
        if self.options.in_place {
            return self.store_runs(&plan.runs).await;
        }
        let mut commands = Vec::new();
        for &(start, pages, to, who) in &plan.runs {
            self.medium.count(|m| m.block_pages += pages.len() as u64);
            let starts = (start..).step_by(COMMAND_BLOCKS);
            for (start, pages) in starts.zip(pages.chunks(COMMAND_BLOCKS)) {
                commands.push(self.write_pages(start, pages, (to, who)));
            }
        }
        let written = sim::join_all(commands).await;
        written.into_iter().collect()
    }

    async fn write_pages(
        &self,
        start: u64,
        pages: &[DirtyPage],
        (to, who): (Placement, Who),
    ) -> Result<()> {
        let payloads: Vec<Payload> = pages.iter().map(|page| page.now.clone()).collect();
        let content = Content::Sectors(&payloads);
        let extent = extent(start, payloads.len());
        let written = self
            .medium
            .port
            .write(extent, content, to, who, false)
            .await;
        self.written.set(self.written.get() + 1);
        written.map_err(failed)
    }

    /// Reads blocks of contents from `start` on; newer copies in the journal take precedence.
    pub(super) async fn read_data(
        &self,
        start: u64,
        pages: &mut [Payload],
        who: Who,
    ) -> Result<()> {
        if self.options.in_place {
            return self.load_pages(start, pages, who).await;
        }
        let len = pages.len() as u64;
        let newer = |journal: &DataJournal| journal.newer(Run { start, len });
        let newer = self.journal().map_or_else(Vec::new, newer);
        let starts = (start..).step_by(COMMAND_BLOCKS);
        let chunks = starts.zip(pages.chunks_mut(COMMAND_BLOCKS));
        let reads = chunks.map(|(start, mut pages)| async move {
            let extent = extent(start, pages.len());
            let read = self.medium.port.read(extent, &mut pages, who);
            read.await.map_err(failed)
        });
        let read = sim::join_all(reads.collect()).await;
        read.into_iter().collect::<Result<()>>()?;
        for (block, payload) in newer {
            pages[(block - start) as usize] = payload;
        }
        Ok(())
    }

    /// Whether a direct request goes by bytes.
    //= bytefs 4.6
    fn is_small(&self, len: usize) -> bool {
        self.options.in_place
            || self
                .options
                .direct_bytes
                .is_some_and(|most| len as u64 <= most)
    }

    /// Alignment in bytes that offsets and lengths of direct requests of `len` bytes must have.
    pub(super) fn direct_unit(&self, len: u64) -> u64 {
        let small = usize::try_from(len).is_ok_and(|len| self.is_small(len));
        if small { 1 } else { SECTOR }
    }

    /// Reads bytes at `at` directly, without the page cache.
    pub(super) async fn read_direct(&self, at: u64, out: &mut [u8], who: Who) -> Result<()> {
        let run = blocks(at, out.len());
        if self.journal().is_some_and(|journal| journal.has(run)) {
            let mut pages = vec![Payload::Zero; run.len as usize];
            self.read_data(run.start, &mut pages, who).await?;
            let bytes: Vec<u8> = pages.iter().flat_map(Payload::to_bytes).collect();
            out.copy_from_slice(&bytes[(at % BLOCK as u64) as usize..][..out.len()]);
            return Ok(());
        }
        if self.is_small(out.len()) {
            let (first, bytes) = self.load_around(at, out.len(), who).await?;
            out.copy_from_slice(&bytes[(at - first) as usize..][..out.len()]);
            return Ok(());
        }
        let most = COMMAND_BLOCKS * BLOCK;
        let firsts = (sectors(at, out.len())?.start.0..).step_by(most / SECTOR as usize);
        let parts = firsts.zip(out.chunks_mut(most));
        let reads = parts.map(|(first, mut out)| async move {
            let extent = Extent::new(first, (out.len() as u64 / SECTOR) as u32);
            let read = self.medium.port.read(extent, &mut out, who);
            read.await.map_err(failed)
        });
        let read = sim::join_all(reads.collect()).await;
        read.into_iter().collect()
    }

    /// Loads the lines that `len` bytes at `at` touch; returns the first offset and the bytes.
    pub(super) async fn load_around(
        &self,
        at: u64,
        len: usize,
        who: Who,
    ) -> Result<(u64, Vec<u8>)> {
        let line = LINE as u64;
        let first = at / line * line;
        let end = (at + len as u64).next_multiple_of(line);
        let mut bytes = vec![0; (end - first) as usize];
        if !bytes.is_empty() {
            self.medium.count(|m| m.byte_requests += 1);
            let loaded = self.medium.port.load(first, &mut bytes, who).await;
            loaded.map_err(|_| Errno::EIO)?;
        }
        Ok((first, bytes))
    }

    /// Writes directly. With a data journal, large requests and requests to blocks in the journal
    /// are logged; otherwise a small request is a transaction of its own.
    pub(super) async fn write_direct(
        self: &Rc<Self>,
        at: u64,
        bytes: &[u8],
        (to, who): (Placement, Who),
    ) -> Result<()> {
        if self.aborted.get() {
            return Err(Errno::EIO);
        }
        if self.options.in_place {
            return self.store_in_place(at, bytes, who).await;
        }
        let run = blocks(at, bytes.len());
        let small = self.is_small(bytes.len());
        if let Some(journal) = self.journal()
            && (!small || journal.has(run))
        {
            if !small {
                sectors(at, bytes.len())?;
            }
            return Box::pin(self.log_direct(at, bytes, (to, who))).await;
        }
        if small {
            return self.store_direct(at, bytes, who).await;
        }
        let whole = sectors(at, bytes.len())?;
        let start = whole.start.0 / SECTORS;
        let len = whole.end().div_ceil(SECTORS) - start;
        self.wait_for_lines(Run { start, len }).await;
        let most = COMMAND_BLOCKS * BLOCK;
        let firsts = (whole.start.0..).step_by(most / SECTOR as usize);
        let writes = firsts
            .zip(bytes.chunks(most))
            .map(|(first, bytes)| async move {
                let extent = Extent::new(first, (bytes.len() as u64 / SECTOR) as u32);
                let content = Content::Bytes(bytes);
                let written = self
                    .medium
                    .port
                    .write(extent, content, to, who, false)
                    .await;
                self.written.set(self.written.get() + 1);
                written.map_err(failed)
            });
        let written = sim::join_all(writes.collect()).await;
        written.into_iter().collect()
    }

    /// Logs a direct write in the journal, as whole pages that are read first.
    async fn log_direct(
        self: &Rc<Self>,
        at: u64,
        bytes: &[u8],
        (placement, who): (Placement, Who),
    ) -> Result<()> {
        let run = blocks(at, bytes.len());
        let mut pages = vec![Payload::Zero; run.len as usize];
        self.read_data(run.start, &mut pages, who).await?;
        let mut whole: Vec<[u8; BLOCK]> = pages.iter().map(Payload::to_bytes).collect();
        let within = (at % BLOCK as u64) as usize;
        whole.as_flattened_mut()[within..within + bytes.len()].copy_from_slice(bytes);
        let pages = (0..).zip(whole).map(|(index, bytes)| DirtyPage {
            index,
            now: Payload::Bytes(Arc::new(bytes)),
            before: None,
        });
        let write = DataWrite {
            start: run.start,
            pages: &pages.collect::<Vec<_>>(),
            held: 0,
            end: u64::MAX,
            placement,
            who,
        };
        self.write_data(None, &[write]).await
    }

    async fn store_direct(self: &Rc<Self>, at: u64, bytes: &[u8], who: Who) -> Result<()> {
        let size = BLOCK as u64;
        let (mut at, mut rest) = (at, bytes);
        let mut images = Vec::new();
        while !rest.is_empty() {
            let within = (at % size) as usize;
            let (part, after) = rest.split_at(rest.len().min(BLOCK - within));
            let end = within + part.len();
            let aligned = within.is_multiple_of(LINE) && end.is_multiple_of(LINE);
            let mut page = Box::new([0; BLOCK]);
            if !aligned {
                // A line that is written in part keeps its other bytes.
                let (first, lines) = self.load_around(at, part.len(), who).await?;
                page[(first % size) as usize..][..lines.len()].copy_from_slice(&lines);
            }
            page[within..end].copy_from_slice(part);
            images.push(Image {
                block: at / size,
                mask: lines_of(within, end),
                bytes: page,
                who,
            });
            at += part.len() as u64;
            rest = after;
        }
        self.medium.count(|m| m.byte_requests += 1);
        loop {
            let closing = self.table.borrow_mut().contents(&mut images);
            match closing {
                Some(closing) => {
                    let number = closing.number;
                    self.post(closing);
                    return self.wait_durable(number).await;
                }
                None if self.aborted.get() => return Err(Errno::EIO),
                None => self.progress.wait(&self.sim).await,
            }
        }
    }
}

impl<'a> Plan<'a> {
    fn add_run(&mut self, write: &DataWrite<'a>, first: usize, end: usize) {
        if first < end {
            let (start, pages) = (write.start + first as u64, &write.pages[first..end]);
            self.runs.push((start, pages, write.placement, write.who));
        }
    }

    /// Plan that writes all pages by blocks.
    fn whole(writes: &[DataWrite<'a>]) -> Self {
        let mut plan = Self::default();
        for write in writes {
            plan.add_run(write, 0, write.pages.len());
        }
        plan
    }
}

/// Blocks that a direct request touches.
fn blocks(at: u64, len: usize) -> Run {
    let start = at / BLOCK as u64;
    let end = (at + len as u64).div_ceil(BLOCK as u64);
    Run {
        start,
        len: end.saturating_sub(start),
    }
}

/// The sectors of a direct request; the block interface takes whole ones only.
fn sectors(at: u64, len: usize) -> Result<Extent> {
    let len = len as u64;
    if !at.is_multiple_of(SECTOR) || !len.is_multiple_of(SECTOR) {
        return Err(Errno::EINVAL);
    }
    Ok(Extent::new(at / SECTOR, (len / SECTOR) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_with_fewer_changed_lines_than_the_limit_goes_by_bytes() {
        let all = BLOCK as u64;
        for count in 0..=64 {
            let expected = match count {
                0 => Way::None,
                1..8 => Way::Bytes(low(count)),
                _ => Way::Block,
            };
            assert_eq!(choose(low(count), all, all, 8), expected);
        }
        assert_eq!(choose(1, all, all, 0), Way::Block);
        assert_eq!(choose(low(63), all, all, 64), Way::Bytes(low(63)));
    }

    #[test]
    fn unknown_part_of_a_block_is_written_up_to_the_end_of_the_file() {
        // 100 bytes are known; the file ends at 300.
        assert_eq!(choose(0, 100, 300, 8), Way::Bytes(0b1_1110));
        assert_eq!(choose(1, 100, 300, 8), Way::Bytes(0b1_1111));
        // Contents of a new block are unknown from its start.
        assert_eq!(choose(0, 0, 4_096, 8), Way::Block);
        assert_eq!(choose(0, 0, 10, 8), Way::Bytes(1));
        // Changed lines behind the end of a shortened file are written too.
        assert_eq!(choose(0b11, 4_096, 64, 8), Way::Bytes(0b11));
        assert_eq!(choose(low(64), 4_096, 64, 8), Way::Block);
    }
}
