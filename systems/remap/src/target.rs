//! The verbs of the layer: read, write, overwrite, discard.
//!
//! Invariants:
//! - A write is published once its data have reached the medium below, and returns after that. Of
//!   two writes that overlap in time, the one published last wins, as on a drive.
//! - A unit that a read has found is not reused until the read ends.
//! - Units are written as a whole. A write of a part of a unit reads the rest first, and retries if
//!   another write to the unit was published meanwhile.

use crate::format::NONE;
use crate::layout::SECTORS;
use crate::port::{RUN, Remap, Shared};
use crate::space::Reading;
use crate::tables::Look;
use host::{BlockPort, Who};
use nand::{Payload, UNIT};
use ssd::{Content, IoError, Sink};
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;
use units::{Bytes, Extent, Placement, SECTOR};

/// Token of a read in flight: units that the read may have found are not reused before it is
/// dropped.
struct Guard<'a, P: BlockPort> {
    shared: &'a Shared<P>,
    reading: Reading,
}

impl<P: BlockPort> Drop for Guard<'_, P> {
    fn drop(&mut self) {
        let freed = self.shared.state.borrow_mut().space.end(self.reading);
        if freed {
            self.shared.room.notify(&self.shared.sim);
        }
    }
}

/// A sink for a part of an extent: shifts offsets by `before` bytes.
struct Part<'a, 'b, S> {
    sink: &'a RefCell<&'b mut S>,
    before: usize,
}

impl<S: Sink> Sink for Part<'_, '_, S> {
    fn is_wanted(&self) -> bool {
        self.sink.borrow().is_wanted()
    }

    fn take(&mut self, offset: usize, len: usize, payload: &Payload, from: usize) {
        let mut sink = self.sink.borrow_mut();
        sink.take(self.before + offset, len, payload, from);
    }
}

/// A part of an extent that is one command: `sectors` sectors from `before` sectors into the
/// extent. `at` is the first sector on the medium, or `None` where nothing is mapped.
#[derive(Clone, Copy)]
struct Run {
    before: u64,
    sectors: u32,
    at: Option<u64>,
}

impl<P: BlockPort> Shared<P> {
    fn check_range(&self, extent: Extent) -> Result<(), IoError> {
        let sectors = u64::from(self.layout.logical) * SECTORS;
        if extent.end() <= sectors {
            return Ok(());
        }
        Err(IoError::OutOfRange {
            first: extent.start.0,
            last: extent.end() - 1,
            sectors,
        })
    }

    fn begin(&self) -> Guard<'_, P> {
        let mut state = self.state.borrow_mut();
        state.asked = self.sim.now();
        let reading = state.space.begin();
        Guard {
            shared: self,
            reading,
        }
    }

    /// Newest transformed address of `orig`; loads its table if necessary.
    async fn resolve(&self, orig: u32) -> Result<Option<u32>, IoError> {
        loop {
            let look = self.state.borrow_mut().newest(orig);
            match look {
                Look::At(trans) => return Ok(trans),
                Look::Missing(part) => self.load(part).await?,
                Look::Lost => return Err(IoError::Media(u64::from(orig) * SECTORS)),
            }
        }
    }

    /// Prefetches the table entry of a sector; other tasks run before the lookup.
    fn prefetch(&self, sector: u64) {
        self.state
            .borrow()
            .tables
            .prefetch((sector / SECTORS) as u32);
    }

    /// Longest run of `extent` from its sector `from` whose units lie together, or are all
    /// unmapped.
    async fn run_at(&self, extent: Extent, from: u64) -> Result<Run, IoError> {
        let start = extent.start.0 + from;
        let (first, last) = (start / SECTORS, (extent.end() - 1) / SECTORS);
        let target = self.resolve(first as u32).await?;
        let mut state = self.state.borrow_mut();
        let mut units = 1;
        while first + u64::from(units) <= last {
            let next = state.newest(first as u32 + units);
            if next != Look::At(target.map(|target| target + units)) {
                break;
            }
            units += 1;
        }
        let end = ((first + u64::from(units)) * SECTORS).min(extent.end());
        let within = start % SECTORS;
        let sector = |unit: u32| u64::from(self.layout.data + unit) * SECTORS + within;
        Ok(Run {
            before: from,
            sectors: (end - start) as u32,
            at: target.map(sector),
        })
    }

    //= remap 3.2.2
    pub(crate) async fn read(
        &self,
        extent: Extent,
        sink: &mut impl Sink,
        who: Who,
    ) -> Result<(), IoError> {
        self.check_range(extent)?;
        if extent.sectors == 0 {
            return Ok(());
        }
        let _guard = self.begin();
        self.prefetch(extent.start.0);
        let units = extent.end().div_ceil(SECTORS) - extent.start.0 / SECTORS;
        self.think(self.options.lookup, units).await;
        let first = self.run_at(extent, 0).await?;
        self.state.borrow_mut().metrics.reads += 1;
        if first.sectors == extent.sectors {
            return self.read_run(first, &RefCell::new(sink), who).await;
        }
        let mut runs = vec![first];
        let mut from = u64::from(first.sectors);
        while from < u64::from(extent.sectors) {
            let run = self.run_at(extent, from).await?;
            from += u64::from(run.sectors);
            runs.push(run);
        }
        let commands = runs.iter().filter(|run| run.at.is_some()).count() as u64;
        self.state.borrow_mut().metrics.read_splits += commands.saturating_sub(1);
        let sink = &RefCell::new(sink);
        let reads = runs.into_iter().map(|run| self.read_run(run, sink, who));
        let done = sim::join_all(reads.collect()).await;
        done.into_iter().collect()
    }

    /// Reads a run; unmapped units (never written, or discarded) are zeros.
    async fn read_run<S: Sink>(
        &self,
        run: Run,
        sink: &RefCell<&mut S>,
        who: Who,
    ) -> Result<(), IoError> {
        let before = (run.before * SECTOR) as usize;
        let len = (u64::from(run.sectors) * SECTOR) as usize;
        let mut part = Part { sink, before };
        let Some(at) = run.at else {
            for offset in (0..len).step_by(UNIT) {
                part.take(offset, UNIT.min(len - offset), &Payload::Zero, 0);
            }
            return Ok(());
        };
        let extent = Extent::new(at, run.sectors);
        self.port.read(extent, &mut part, who).await
    }
}

impl<P: BlockPort> Remap<P> {
    //= remap 3.2.1
    //= remap 3.2.3
    pub(crate) async fn write(
        &self,
        extent: Extent,
        content: Content<'_>,
        (placement, who): (Placement, Who),
        fua: bool,
    ) -> Result<(), IoError> {
        let shared = &*self.shared;
        shared.check_range(extent)?;
        shared.writable()?;
        for piece in pieces(extent).into_iter().filter(|piece| !piece.is_empty()) {
            let part = part_of(content, piece.start - extent.start.0, piece.clone());
            let to = (placement, who);
            if (piece.end - piece.start).is_multiple_of(SECTORS) {
                self.write_units(piece, part, to).await?;
            } else {
                Box::pin(self.write_part(piece, part, to)).await?;
            }
        }
        if fua {
            shared.commit().await?;
        }
        Ok(())
    }

    /// Writes whole units, with one command for each part of an append run.
    async fn write_units(
        &self,
        sectors: Range<u64>,
        content: Content<'_>,
        (placement, who): (Placement, Who),
    ) -> Result<(), IoError> {
        let shared = &*self.shared;
        let units = ((sectors.end - sectors.start) / SECTORS) as u32;
        shared.think(shared.options.insert, u64::from(units)).await;
        let first = (sectors.start / SECTORS) as u32;
        let mut done = 0;
        while done < units {
            let to = self.reserve(units - done).await?;
            let count = to.len() as u32;
            let before = u64::from(done) * SECTORS;
            let len = before..before + u64::from(count) * SECTORS;
            let content = part_of(content, before, len);
            let at = shared.data(to.start, count);
            let written = shared.port.write(at, content, placement, who, false).await;
            if let Err(error) = written {
                shared.give_back(to);
                return Err(error);
            }
            for (orig, trans) in (first + done..).zip(to) {
                self.publish(orig, trans).await?;
            }
            done += count;
            let mut state = shared.state.borrow_mut();
            state.metrics.written_units += u64::from(count);
            state.metrics.write_splits += u64::from(done < units);
        }
        Ok(())
    }

    /// Reserves up to `most` units at the append pointer. At the end of the run the pointer moves
    /// to another run; if there is none, foreground cleaning makes one first.
    async fn reserve(&self, most: u32) -> Result<Range<u32>, IoError> {
        let shared = &*self.shared;
        let least = shared.shortest_run();
        loop {
            shared.writable()?;
            let reserved = {
                let mut state = shared.state.borrow_mut();
                state.asked = shared.sim.now();
                match state.space.reserve(most) {
                    None if state.space.go_on(least) => {
                        state.metrics.jumps += 1;
                        state.space.reserve(most)
                    }
                    reserved => reserved,
                }
            };
            if let Some(reserved) = reserved {
                self.wake_cleaner();
                return Ok(reserved);
            }
            {
                let mut state = shared.state.borrow_mut();
                let why = state.no_run(least);
                state.refusals.note(shared.sim.now(), RUN, || why);
            }
            Box::pin(shared.clean_now()).await?;
        }
    }

    /// Maps `orig` to `trans` in the open transaction; commits first if that is full.
    async fn publish(&self, orig: u32, trans: u32) -> Result<(), IoError> {
        while self.shared.state.borrow().open.is_full() {
            Box::pin(self.shared.commit()).await?;
        }
        self.shared.publish_now(orig, trans);
        self.note_pending();
        Ok(())
    }

    /// Writes `sectors`, all within one unit, to a new unit.
    async fn write_part(
        &self,
        sectors: Range<u64>,
        content: Content<'_>,
        who: (Placement, Who),
    ) -> Result<(), IoError> {
        let shared = &*self.shared;
        let _turn = shared.partial.acquire(1).await;
        shared.state.borrow_mut().metrics.partial_writes += 1;
        let to = self.reserve(1).await?.start;
        let merged = self.merge(&sectors, content, who, to).await;
        if merged.is_err() {
            shared.give_back([to]);
        }
        merged
    }

    /// Writes the unit of `sectors` to `to`, with `content` laid over the old contents. The guard
    /// keeps the old place from being reused, so an unchanged mapping proves that no other write to
    /// the unit was published; otherwise the merge is repeated.
    async fn merge(
        &self,
        sectors: &Range<u64>,
        content: Content<'_>,
        (placement, who): (Placement, Who),
        to: u32,
    ) -> Result<(), IoError> {
        let shared = &*self.shared;
        let orig = (sectors.start / SECTORS) as u32;
        loop {
            let _guard = shared.begin();
            let old = shared.resolve(orig).await?;
            let mut bytes = [0; UNIT];
            if let Some(unit) = old {
                let at = shared.data(unit, 1);
                shared.port.read(at, &mut bytes.as_mut_slice(), who).await?;
            }
            lay_over(&mut bytes, sectors, content);
            shared.think(shared.options.insert, 1).await;
            let whole = [Payload::Bytes(Arc::new(bytes))];
            let (at, content) = (shared.data(to, 1), Content::Sectors(&whole));
            shared
                .port
                .write(at, content, placement, who, false)
                .await?;
            if shared.state.borrow().open.is_full() {
                shared.commit().await?;
            }
            let now = shared.resolve(orig).await?;
            if now == old && !shared.state.borrow().open.is_full() {
                shared.publish_now(orig, to);
                self.note_pending();
                shared.state.borrow_mut().metrics.written_units += 1;
                return Ok(());
            }
        }
    }

    /// Unmaps the units that lie wholly in `extent`; they read as zeros. If enough units were
    /// mapped, commits and deallocates below.
    //= remap 3.1
    pub(crate) async fn discard(&self, extent: Extent) -> Result<(), IoError> {
        let shared = &*self.shared;
        shared.check_range(extent)?;
        shared.writable()?;
        let (mut at, end) = (extent.start.0.div_ceil(SECTORS), extent.end() / SECTORS);
        let mut discarded = 0;
        while at < end {
            let orig = at as u32;
            shared.state.borrow_mut().asked = shared.sim.now();
            if let Some(next) = shared.state.borrow().blank_until(orig) {
                at = next;
                continue;
            }
            if shared.resolve(orig).await?.is_some() {
                self.publish(orig, NONE).await?;
                shared.state.borrow_mut().metrics.discarded_units += 1;
                discarded += 1;
            }
            at += 1;
        }
        let is_long = |shortest: Bytes| discarded * UNIT as u64 >= shortest.0.max(1);
        if shared.options.trim.is_some_and(is_long) {
            shared.commit().await?;
            shared.deallocate().await?;
        }
        Ok(())
    }
}

impl<P: BlockPort> Shared<P> {
    /// Maps `orig` to `trans` in the open transaction, which has room.
    pub(crate) fn publish_now(&self, orig: u32, trans: u32) {
        let state = &mut *self.state.borrow_mut();
        if state.open.is_empty() {
            state.since = self.sim.now();
        }
        if state.space.free.count() == 0 {
            // A write that waits for units can commit this pair and free one.
            self.room.notify(&self.sim);
        }
        match state.open.put(orig, trans) {
            // No durable pair ever mapped `old`: the unit only waits for reads in flight.
            Some(old) if old != NONE => {
                state.space.drop_later(old);
                if state.space.release() {
                    self.room.notify(&self.sim);
                }
            }
            _ => {}
        }
    }
}

/// Cuts `extent` into a partial first unit, whole units, and a partial last unit; any of them may
/// be empty.
fn pieces(extent: Extent) -> [Range<u64>; 3] {
    let (start, end) = (extent.start.0, extent.end());
    let (first, last) = (start.next_multiple_of(SECTORS), end / SECTORS * SECTORS);
    if first > last {
        return [start..end, end..end, end..end];
    }
    [start..first, first..last, last..end]
}

/// The part of `content` from its sector `before` on, as long as `sectors`.
fn part_of(content: Content<'_>, before: u64, sectors: Range<u64>) -> Content<'_> {
    let from = (before * SECTOR) as usize;
    let len = ((sectors.end - sectors.start) * SECTOR) as usize;
    match content {
        Content::Nothing | Content::Fill(_) => content,
        Content::Bytes(bytes) => Content::Bytes(&bytes[from..from + len]),
        Content::Sectors(payloads) => {
            Content::Sectors(&payloads[from / UNIT..(from + len).div_ceil(UNIT)])
        }
    }
}

/// Copies `content`, the data of `sectors`, over the bytes of the unit that holds them.
fn lay_over(bytes: &mut [u8; UNIT], sectors: &Range<u64>, content: Content<'_>) {
    let from = (sectors.start % SECTORS * SECTOR) as usize;
    let len = ((sectors.end - sectors.start) * SECTOR) as usize;
    let to = &mut bytes[from..from + len];
    match content {
        Content::Nothing => to.fill(0),
        Content::Fill(pattern) => {
            let _ = Payload::Fill(pattern).copy_to(from, to);
        }
        Content::Bytes(new) => to.copy_from_slice(&new[..len]),
        Content::Sectors(new) => {
            let _ = new[0].copy_to(0, to);
        }
    }
}
