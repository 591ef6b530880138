//! HyFiM as a port: a block device that can swap pages.
//!
//! Invariant: a read resolves the place of each sector at the instant at which its I/O begins.

use crate::overlay::Place;
use crate::{HyFim, HyfimError};
use host::{BlockPort, Computing, PageChange, RawPort, SwapPort, Who};
use nand::{Payload, UNIT};
use ssd::{Content, IoError, Sink};
use units::{Bytes, Extent, Ns, Placement, SECTOR};

/// Sectors of 512 bytes in a mapped sector of 4 KiB.
const PER_SECTOR: u64 = UNIT as u64 / SECTOR;

impl<P: RawPort> HyFim<P> {
    /// Half-open range of the mapped sectors that `extent` touches.
    ///
    /// # Errors
    /// If the extent reaches past the end.
    fn touched(&self, extent: Extent) -> Result<(u32, u32), IoError> {
        let (first, end) = (extent.start.0, extent.end().div_ceil(PER_SECTOR));
        if end > u64::from(self.exported()) {
            return Err(self.past(first, end));
        }
        Ok(((first / PER_SECTOR) as u32, end as u32))
    }

    /// Reads sectors of which some are redirected to memory or to spare sectors.
    async fn read_over(&self, first: u32, end: u32, who: Who) -> Result<Vec<Payload>, IoError> {
        let mut contents = Vec::with_capacity((end - first) as usize);
        let mut at = first;
        while at < end {
            let place = self.overlay_mut().place(at);
            let (from, count) = match place {
                Place::Here(payload) => {
                    contents.push(payload);
                    at += 1;
                    continue;
                }
                Place::Spare(spare) => (spare, 1),
                Place::Own => {
                    let overlay = self.overlay_mut();
                    let plain = (at + 1..end).take_while(|&s| overlay.is_plain(s, s + 1));
                    (at, 1 + plain.count() as u32)
                }
            };
            contents.extend(self.ftl().read_sectors(from, count, who).await?);
            at += count;
        }
        Ok(contents)
    }

    /// The error for a range of sectors `first` to `end` (of 512 bytes and 4 KiB) past the end.
    fn past(&self, first: u64, end: u64) -> IoError {
        IoError::OutOfRange {
            first,
            last: end.saturating_mul(PER_SECTOR).saturating_sub(1),
            sectors: u64::from(self.exported()) * PER_SECTOR,
        }
    }
}

/// Passes the part of `contents`, mapped sectors from `first` on, that lies in `extent` to `sink`.
fn hand_over<S: Sink>(extent: Extent, first: u32, contents: &[Payload], sink: &mut S) {
    if !sink.is_wanted() {
        return;
    }
    let (start, end) = (extent.start.0 * SECTOR, extent.end() * SECTOR);
    for (sector, payload) in (u64::from(first)..).zip(contents) {
        let (from, to) = (sector * UNIT as u64, (sector + 1) * UNIT as u64);
        let (at, until) = (from.max(start), to.min(end));
        let offset = (at - start) as usize;
        sink.take(offset, (until - at) as usize, payload, (at - from) as usize);
    }
}

impl<P: RawPort> BlockPort for HyFim<P> {
    fn capacity(&self) -> Bytes {
        self.ftl().capacity()
    }

    fn handles(&self) -> u16 {
        1
    }

    async fn read(&self, extent: Extent, sink: &mut impl Sink, who: Who) -> Result<(), IoError> {
        let (first, end) = self.touched(extent)?;
        if self.overlay_mut().is_plain(first, end) {
            return self.ftl().read(extent, sink, who).await;
        }
        let contents = self.read_over(first, end, who).await?;
        hand_over(extent, first, &contents, sink);
        Ok(())
    }

    async fn write(
        &self,
        extent: Extent,
        content: Content<'_>,
        placement: Placement,
        who: Who,
        fua: bool,
    ) -> Result<(), IoError> {
        let (first, end) = self.touched(extent)?;
        self.leave_nodes(first, end).await?;
        let write = self.ftl().write(extent, content, placement, who, fua);
        write.await
    }

    async fn trim(&self, extent: Extent) -> Result<(), IoError> {
        let (first, end) = self.touched(extent)?;
        self.leave_nodes(first, end).await?;
        self.ftl().trim(extent).await
    }

    /// Writes back nodes too, not only the buffer of the mapping.
    async fn flush(&self) -> Result<(), IoError> {
        self.write_back().await
    }

    fn compute(&self, span: Ns) -> Computing {
        self.ftl().compute(span)
    }
}

impl<P: RawPort> SwapPort for HyFim<P> {
    async fn has_swaps(&self) -> bool {
        true
    }

    fn most_changes(&self) -> usize {
        self.most_nodes()
    }

    async fn stage(&self, first: u64, all: &[Payload], who: Who) -> Result<Option<u64>, IoError> {
        let end = first.saturating_add(all.len() as u64);
        if end > u64::from(self.exported()) {
            return Err(self.past(first.saturating_mul(PER_SECTOR), end));
        }
        self.stage_sectors(first as u32, all, who).await
    }

    fn unstage(&self, number: u64) {
        self.overlay_mut().unstage(number);
    }

    async fn publish(&self, staged: &[u64], changes: &[PageChange]) -> Result<(), IoError> {
        let published = self.publish_all(staged, changes).await;
        published.map_err(|error| match error {
            HyfimError::Io(error) => error,
            // Changes that do not fit their nodes, or more changes than [`SwapPort::most_changes`].
            _ => IoError::ReadOnly,
        })
    }
}
