//! Reads: settled data come from flash, later data from the buffer of the zone.
//!
//! A zone is not erased while its flash is being read: a reset waits for its readers.

use super::rules::{ZoneState, ZoneStatus};
use super::{Unwritten, Zoned, Zones};
use crate::drive::Sink;
use crate::ledger::ReadCause;
use nand::{NandError, Payload, Priority, Row, UNIT};
use sim::JoinHandle;
use std::rc::Rc;
use units::{Extent, SECTOR};

/// Sectors of one zone.
#[derive(Clone, Copy)]
pub(super) struct Part {
    /// Index among the sequential zones.
    pub(super) zone: u32,
    pub(super) at: u32,
    pub(super) len: u32,
}

/// One flash read: sectors of one page row.
pub(super) struct RowRead {
    zone: u32,
    row: Row,
    bytes: u32,
}

impl Zones {
    /// Reads `extent` into `sink`.
    ///
    /// # Errors
    /// The status for a read that does not cover whole logical blocks; that crosses into another
    /// zone where the drive forbids it, or from a conventional zone into a sequential one; of an
    /// offline zone; of unwritten sectors, if the drive rejects such reads; and for flash that
    /// cannot be read.
    //= zns 3.3.5
    pub async fn read(&self, extent: Extent, sink: &mut impl Sink) -> Result<(), ZoneStatus> {
        let inner = &self.inner;
        let (zone, at, len) = inner.locate(extent)?;
        if inner.sequential(zone).is_err() {
            let space = inner.core.config.capacity.0;
            if extent.bytes() > space.saturating_sub(extent.start.0 * SECTOR) {
                return Err(ZoneStatus::ZoneBoundary);
            }
            let read = inner.core.read_block(extent, sink);
            return Box::pin(read)
                .await
                .map_err(|_| ZoneStatus::UnrecoveredRead);
        }
        inner.core.count_command(true);
        let result = inner.read((zone, at, len), sink, ReadCause::Host).await;
        if result == Err(ZoneStatus::UnrecoveredRead) {
            let mut smart = inner.core.smart.get();
            smart.media_errors += 1;
            inner.core.smart.set(smart);
        }
        result?;
        let sectors = u64::from(extent.sectors);
        inner.core.state.borrow_mut().ledger.host_read_sectors += sectors;
        Ok(())
    }
}

impl Zoned {
    /// Reads `len` sectors from sector `at` of a sequential zone on.
    pub(super) async fn read(
        self: &Rc<Self>,
        (zone, at, len): (u32, u32, u32),
        sink: &mut impl Sink,
        cause: ReadCause,
    ) -> Result<(), ZoneStatus> {
        let crosses = u64::from(at) + u64::from(len) > u64::from(self.layout.size);
        if crosses && !self.rules.read_across {
            self.readable(zone - self.layout.conventional)?;
            return Err(ZoneStatus::ZoneBoundary);
        }
        let passed = self.passed(self.config.controller.limits.read, len);
        self.core.sim.sleep_until(passed).await;
        let index = zone - self.layout.conventional;
        if !crosses {
            let part = Part {
                zone: index,
                at,
                len,
            };
            return self.read_part(part, 0, sink, cause).await;
        }
        let (mut zone, mut at, mut offset) = (index, at, 0);
        while offset < len {
            let count = (self.layout.size - at).min(len - offset);
            let part = Part {
                zone,
                at,
                len: count,
            };
            Box::pin(self.read_part(part, offset, sink, cause)).await?;
            (zone, at, offset) = (zone + 1, 0, offset + count);
        }
        Ok(())
    }

    fn readable(&self, zone: u32) -> Result<(), ZoneStatus> {
        match self.table.borrow().zones[zone as usize].state {
            ZoneState::Offline => Err(ZoneStatus::ZoneIsOffline),
            _ => Ok(()),
        }
    }

    /// Reads sectors of one zone to sector `offset` of the sink.
    async fn read_part<S: Sink>(
        self: &Rc<Self>,
        part: Part,
        offset: u32,
        sink: &mut S,
        cause: ReadCause,
    ) -> Result<(), ZoneStatus> {
        self.idle(part.zone).await;
        self.readable(part.zone)?;
        let (on_flash, filled) = {
            let table = self.table.borrow();
            let entry = &table.zones[part.zone as usize];
            let filled = if entry.window {
                self.committed_end(&table, part.zone)
            } else {
                entry.filled
            };
            (entry.on_flash(self.layout.unit), filled)
        };
        let end = part.at + part.len;
        if end > filled && self.rules.read_unwritten == Unwritten::Error {
            return Err(ZoneStatus::Unwritten);
        }
        if part.at < on_flash {
            let settled = Part {
                len: end.min(on_flash) - part.at,
                ..part
            };
            let first = self.row_read(part.zone, part.at, end.min(on_flash));
            if let Some(stream) = self.follow(settled, cause) {
                Box::pin(self.read_in_order(settled, stream)).await?;
            } else if first.1 == end.min(on_flash) {
                self.begin_row(&first.0, cause);
                self.finish_row(first.0).await?;
            } else {
                Box::pin(self.read_rows(settled, cause)).await?;
            }
        }
        if sink.is_wanted() {
            self.hand_over(part, offset, sink)?;
        }
        Ok(())
    }

    /// The read of the page row that contains sector `at`, up to sector `end`; and the first sector
    /// after the read.
    pub(super) fn row_read(&self, zone: u32, at: u32, end: u32) -> (RowRead, u32) {
        let layout = &self.layout;
        let per_page = layout.geometry.sectors_per_page();
        let per_row = per_page * layout.geometry.planes;
        let place = layout.place(at / layout.unit);
        let within = at % layout.unit;
        let page = place.page + within / per_row;
        let first = within % per_row;
        let last = per_row.min(first + (end - at));
        let mut row = self.table.borrow().row(layout, zone, place.piece, page);
        let planes = first / per_page..last.div_ceil(per_page);
        row.planes = planes.fold(0, |planes, plane| planes | 1 << plane);
        let read = RowRead {
            zone,
            row,
            bytes: (last - first) * UNIT as u32,
        };
        (read, at + (last - first))
    }

    /// Reads the rows of `part` in parallel.
    pub(super) async fn read_rows(
        self: &Rc<Self>,
        part: Part,
        cause: ReadCause,
    ) -> Result<(), ZoneStatus> {
        let mut result = Ok(());
        for read in self.start_rows(part, cause) {
            result = result.and(read.await);
        }
        result
    }

    /// Starts the reads of the rows of `part`, whose zone has them as readers from now on.
    pub(super) fn start_rows(
        self: &Rc<Self>,
        part: Part,
        cause: ReadCause,
    ) -> Vec<JoinHandle<Result<(), ZoneStatus>>> {
        let (mut at, end) = (part.at, part.at + part.len);
        let mut reads = Vec::new();
        while at < end {
            let (read, next) = self.row_read(part.zone, at, end);
            self.begin_row(&read, cause);
            let zoned = Rc::clone(self);
            let finish = async move { zoned.finish_row(read).await };
            reads.push(self.core.sim.spawn(finish));
            at = next;
        }
        reads
    }

    pub(super) fn begin_row(&self, read: &RowRead, cause: ReadCause) {
        self.table.borrow_mut().zones[read.zone as usize].readers += 1;
        let pages = u64::from(read.row.planes.count_ones());
        self.core.state.borrow_mut().ledger.reads[cause as usize] += pages;
    }

    pub(super) async fn finish_row(&self, read: RowRead) -> Result<(), ZoneStatus> {
        let result = self
            .core
            .nand
            .read(read.row, read.bytes, Priority::Read)
            .await;
        let mut table = self.table.borrow_mut();
        let entry = &mut table.zones[read.zone as usize];
        entry.readers -= 1;
        let awaited = entry.busy && entry.readers == 0;
        drop(table);
        if awaited {
            self.wake(read.zone);
        }
        result.map_err(|error| {
            assert_eq!(
                error,
                NandError::Uncorrectable,
                "what is on flash was written"
            );
            ZoneStatus::UnrecoveredRead
        })
    }

    fn hand_over(&self, part: Part, offset: u32, sink: &mut impl Sink) -> Result<(), ZoneStatus> {
        for index in 0..part.len {
            let payload = self.sector(part.zone, part.at + index);
            if payload.lost() != 0 {
                return Err(ZoneStatus::UnrecoveredRead);
            }
            sink.take((offset + index) as usize * UNIT, UNIT, &payload, 0);
        }
        Ok(())
    }

    /// The newest contents of a sector; zeros beyond the written data.
    pub(super) fn sector(&self, zone: u32, at: u32) -> Payload {
        let table = self.table.borrow();
        let entry = &table.zones[zone as usize];
        if at >= entry.on_flash(self.layout.unit) {
            return self.contents(&table, zone, at);
        }
        let layout = &self.layout;
        let per_page = layout.geometry.sectors_per_page();
        let place = layout.place(at / layout.unit);
        let within = at % layout.unit;
        let row = table.row(layout, zone, place.piece, place.page);
        let plane = within / per_page % layout.geometry.planes;
        let block = nand::BlockId {
            die: row.die,
            plane,
            block: row.blocks[plane as usize],
        };
        let page = place.page + within / (per_page * layout.geometry.planes);
        self.core
            .nand
            .media()
            .payload(block, page, within % per_page)
    }
}
