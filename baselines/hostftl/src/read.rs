//! Reads: newer versions from the buffer, the rest from flash.

use crate::state::Inner;
use host::{RawPort, Who};
use nand::{Payload, UNIT};
use sim::join_all;
use ssd::{IoError, MOST_ADDRESSES, Ppa, RawBlock, ReadCause};
use units::SECTOR;

/// Sectors of 512 bytes in a mapped sector of 4 KiB.
pub(crate) const PER_SECTOR: u64 = UNIT as u64 / SECTOR;

/// A read of one sector from flash.
struct Read {
    /// Index within the request.
    index: usize,
    place: u32,
}

/// Reads in flight: their lines are not reset until this is dropped.
struct Reads<'a, P: RawPort> {
    inner: &'a Inner<P>,
    all: Vec<Read>,
}

impl<P: RawPort> Reads<'_, P> {
    /// Half-open range of request indexes from the first to the last of the reads.
    fn span(&self) -> Option<(u32, u32)> {
        let (first, last) = (self.all.first()?, self.all.last()?);
        Some((first.index as u32, last.index as u32 + 1))
    }
}

impl<P: RawPort> Drop for Reads<'_, P> {
    fn drop(&mut self) {
        let state = &mut *self.inner.state.borrow_mut();
        for read in &self.all {
            let line = state.lines.of(read.place);
            state.lines.lines[line].readers -= 1;
        }
        self.inner.progress.notify(&self.inner.sim);
    }
}

impl<P: RawPort> Inner<P> {
    /// Contents of `count` sectors from `first` on.
    pub(crate) async fn read_sectors(
        &self,
        first: u32,
        count: u32,
        who: Who,
    ) -> Result<Vec<Payload>, IoError> {
        let (mut contents, reads, waiting) = self.look_up(first, count);
        let kept = self.state.borrow().slots.as_ref().map(|s| s.kept.clone());
        if let Some(kept) = kept {
            kept.pass(waiting).await;
        }
        // Charge the loads of the entries after the lookup: the registered readers keep all blocks
        // in place.
        if let Some((from, to)) = reads.span() {
            let table = self.state.borrow().table.lasting();
            if let Some(table) = table {
                table.pass(first + from, to - from).await;
            }
        }
        let parts = reads.all.chunks(MOST_ADDRESSES);
        let read = parts.map(|part| self.read_blocks(first, part, who));
        let read = join_all(read.collect()).await;
        for (part, blocks) in reads.all.chunks(MOST_ADDRESSES).zip(read) {
            for (read, block) in part.iter().zip(blocks?) {
                contents[read.index] = block.payload;
            }
        }
        Ok(contents)
    }

    /// Looks up sectors: contents of those in the buffer, and the flash reads of the rest,
    /// registered as readers of their lines. Also returns the number of sectors with contents in
    /// the buffer.
    fn look_up(&self, first: u32, count: u32) -> (Vec<Payload>, Reads<'_, P>, u32) {
        let state = &mut *self.state.borrow_mut();
        let mut contents = vec![Payload::Zero; count as usize];
        let (mut all, mut waiting) = (Vec::new(), 0);
        for (index, sector) in (first..first + count).enumerate() {
            if let Some(newest) = state.buffer.newest(sector) {
                waiting += u32::from(newest.is_some());
                contents[index] = newest.cloned().unwrap_or_default();
            } else if let Some(place) = state.table.get(sector) {
                let line = state.lines.of(place);
                state.lines.lines[line].readers += 1;
                all.push(Read { index, place });
            }
        }
        (contents, Reads { inner: self, all }, waiting)
    }

    async fn read_blocks(
        &self,
        first: u32,
        reads: &[Read],
        who: Who,
    ) -> Result<Vec<RawBlock>, IoError> {
        let at: Vec<Ppa> = reads.iter().map(|read| self.ppa(read.place)).collect();
        let read = self.port.read(&at, ReadCause::Host, who).await;
        read.map_err(|error| {
            let bad = reads.get(error.failed.trailing_zeros() as usize);
            let index = bad.map_or(0, |bad| bad.index as u64);
            IoError::Media((u64::from(first) + index) * PER_SECTOR)
        })
    }
}
