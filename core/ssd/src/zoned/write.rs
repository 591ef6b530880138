//! Writes and appends: from the command to the buffer of the zone, and on to flash.
//!
//! Writes to a zone take effect in order of arrival, whatever their lengths. The write pointer
//! moves when a command is accepted; its data enter the buffer after those of the commands before
//! it.

use super::rules::{OpenRoom, Room, ZoneEvent, ZoneStatus, transition};
use super::table::{Ring, Table};
use super::{Zoned, Zones};
use crate::drive::Content;
use crate::layout::NONE;
use crate::ledger::Cause;
use nand::{NandError, Payload, Program, Row, Ticket, UNIT};
use std::rc::Rc;
use std::sync::Arc;
use units::{Extent, Lba, Ns, Origin, Placement, SECTOR};

/// Words of the spare area in zones. One word for each sector: its place in the zone, or a mark.
pub(super) mod word {
    /// Word of a padding sector.
    pub(in crate::zoned) const PADDING: u32 = u32::MAX;
    /// Word of a padding sector at the end of a finished zone.
    pub(in crate::zoned) const FINISH: u32 = u32::MAX - 1;
    /// Word of a padding sector in a backup: its zone is reset.
    pub(in crate::zoned) const RESET: u32 = u32::MAX - 2;

    /// Whether `word` is the place of a sector.
    pub(in crate::zoned) fn is_place(word: u32) -> bool {
        word < RESET
    }

    const BACKUP: u64 = 1 << 31;

    /// The label of the blocks of a piece of `zone`.
    pub(in crate::zoned) fn label(zone: u32, piece: u32) -> u64 {
        u64::from(zone) << 32 | u64::from(piece)
    }

    /// The label of the blocks of a backup of `zone`.
    pub(in crate::zoned) fn backup_label(zone: u32) -> u64 {
        u64::from(zone) << 32 | BACKUP
    }

    /// Zone and piece of a label; no piece for a backup.
    pub(in crate::zoned) fn parse_label(label: u64) -> (u32, Option<u32>) {
        let piece = label & 0xffff_ffff;
        (
            (label >> 32) as u32,
            (piece != BACKUP).then_some(piece as u32),
        )
    }
}

/// A room in which no limit is reached.
const ROOMY: Room = Room {
    active: true,
    open: OpenRoom::Free,
};

/// Cause and origin of a write, for the ledger.
#[derive(Clone, Copy)]
pub(super) struct For {
    pub(super) cause: Cause,
    pub(super) tag: u16,
}

/// A unit on its way to flash: `data` sectors of its zone, and the word `rest` for the others.
#[derive(Clone, Copy)]
struct Issued {
    zone: u32,
    unit: u32,
    data: u32,
    rest: u32,
    row: Row,
}

impl Zones {
    /// Writes `content` to `extent`, which starts at the write pointer of a zone or lies in the
    /// conventional zones. Durability is that of [`crate::Drive::write`].
    ///
    /// # Errors
    /// The status for a write that does not start at the write pointer, cover whole logical blocks,
    /// or stay within the capacity; for a state or a limit that forbids it; for flash that fails.
    //= zns 3.3.7
    pub async fn write(
        &self,
        extent: Extent,
        content: Content<'_>,
        origin: Origin,
        fua: bool,
    ) -> Result<(), ZoneStatus> {
        let inner = &self.inner;
        let (zone, at, len) = inner.locate(extent)?;
        let Ok(index) = inner.sequential(zone) else {
            return inner.write_conventional(extent, content, origin, fua).await;
        };
        let who = inner.host(origin);
        inner.put(index, Some(at), len, content, who).await?;
        inner.written(extent.sectors, fua, index).await
    }

    /// Appends `sectors` of 512 bytes to `zone`, and returns their address.
    ///
    /// # Errors
    /// As [`Zones::write`]; also if the append is longer than the limit, or the zone has a random
    /// write area.
    //= zns 3.4.1
    pub async fn append(
        &self,
        zone: u32,
        sectors: u32,
        content: Content<'_>,
        origin: Origin,
        fua: bool,
    ) -> Result<Lba, ZoneStatus> {
        let inner = &self.inner;
        let index = inner.sequential(zone)?;
        let (_, len) = super::config::whole(0, sectors).ok_or(ZoneStatus::InvalidField)?;
        let limit = inner.rules.append_limit.0;
        if limit > 0 && u64::from(sectors) * SECTOR > limit {
            return Err(ZoneStatus::InvalidField);
        }
        let who = inner.host(origin);
        let at = inner.put(index, None, len, content, who).await?;
        inner.written(sectors, fua, index).await?;
        Ok(inner.lba(zone, at))
    }
}

impl Zoned {
    fn host(&self, origin: Origin) -> For {
        self.core.count_command(false);
        For {
            cause: Cause::Host,
            tag: self.core.tag(origin),
        }
    }

    async fn written(
        self: &Rc<Self>,
        sectors: u32,
        fua: bool,
        zone: u32,
    ) -> Result<(), ZoneStatus> {
        self.core.state.borrow_mut().ledger.host_write_sectors += u64::from(sectors);
        if fua {
            Box::pin(self.force(zone)).await?;
        }
        Ok(())
    }

    async fn write_conventional(
        &self,
        extent: Extent,
        content: Content<'_>,
        origin: Origin,
        fua: bool,
    ) -> Result<(), ZoneStatus> {
        if extent.bytes()
            > self
                .core
                .config
                .capacity
                .0
                .saturating_sub(extent.start.0 * SECTOR)
        {
            return Err(ZoneStatus::ZoneBoundary);
        }
        let written = self
            .core
            .write_block(extent, content, Placement(0), origin, fua);
        Box::pin(written).await.map_err(|_| ZoneStatus::WriteFault)
    }

    /// The zone of an extent, its first sector there, and its length in sectors of 4 KiB.
    pub(super) fn locate(&self, extent: Extent) -> Result<(u32, u32, u32), ZoneStatus> {
        let (start, len) =
            super::config::whole(extent.start.0, extent.sectors).ok_or(ZoneStatus::InvalidField)?;
        let size = u64::from(self.layout.size);
        let all = size * u64::from(self.layout.zones);
        if start >= all || all - start < u64::from(len) {
            return Err(ZoneStatus::LbaOutOfRange);
        }
        Ok(((start / size) as u32, (start % size) as u32, len))
    }

    /// The address of sector `at` of `zone`.
    pub(super) fn lba(&self, zone: u32, at: u32) -> Lba {
        let sector = u64::from(zone) * u64::from(self.layout.size) + u64::from(at);
        Lba(sector * (UNIT as u64 / SECTOR))
    }

    /// Writes `len` sectors to a zone at `at`, or at its write pointer if `None`. Returns their
    /// first sector.
    pub(super) async fn put(
        self: &Rc<Self>,
        zone: u32,
        at: Option<u32>,
        len: u32,
        content: Content<'_>,
        who: For,
    ) -> Result<u32, ZoneStatus> {
        self.idle(zone).await;
        if self.table.borrow().zones[zone as usize].window {
            let at = at.ok_or(ZoneStatus::InvalidZoneOperation)?;
            let put = Box::pin(self.put_in_window(zone, at, len, content, who)).await;
            self.noted(zone, len, put)?;
            return Ok(at);
        }
        let start = self.noted(zone, len, self.accept(zone, at, len))?;
        self.table.borrow_mut().zones[zone as usize].origin = who.tag;
        let mut passed = self.write_passed(len, at.is_none());
        if start == 0 {
            passed += self.rules.firmware.first_write;
        }
        self.core.sim.sleep_until(passed).await;
        self.fill(zone, start, len, content, who).await?;
        Ok(start)
    }

    /// Checks a write and moves the write pointer, in one instant.
    //= zns 2.1.1
    fn accept(&self, zone: u32, at: Option<u32>, len: u32) -> Result<u32, ZoneStatus> {
        let mut table = self.table.borrow_mut();
        let entry = &table.zones[zone as usize];
        transition(entry.state, ZoneEvent::Write, ROOMY)?;
        let start = entry.wp;
        if at.is_some_and(|at| at != start) {
            return Err(ZoneStatus::ZoneInvalidWrite);
        }
        if len > self.layout.capacity - start {
            return Err(ZoneStatus::ZoneBoundary);
        }
        self.open_for_write(&mut table, zone)?;
        table.zones[zone as usize].wp = start + len;
        table.attach_ring(&self.layout, zone);
        self.note_full(&mut table, zone);
        Ok(start)
    }

    /// Performs the step of a write, which may open the zone and close another one.
    pub(super) fn open_for_write(&self, table: &mut Table, zone: u32) -> Result<(), ZoneStatus> {
        let evicted = table.step(zone, ZoneEvent::Write)?;
        self.core.state.borrow_mut().ledger.zones.evictions += u64::from(evicted);
        Ok(())
    }

    /// Makes a zone full if its write pointer has reached the capacity.
    pub(super) fn note_full(&self, table: &mut Table, zone: u32) {
        if table.zones[zone as usize].wp == self.layout.capacity {
            let filled = table.step(zone, ZoneEvent::Filled);
            filled.expect("a zone that was just written is open");
        }
    }

    /// Moves the data of an accepted write into the buffer, after those of earlier writes and as
    /// room permits.
    async fn fill(
        self: &Rc<Self>,
        zone: u32,
        start: u32,
        len: u32,
        content: Content<'_>,
        who: For,
    ) -> Result<(), ZoneStatus> {
        let mut taken = 0;
        while taken < len {
            let room = {
                let table = self.table.borrow();
                let entry = &table.zones[zone as usize];
                if entry.failed {
                    return Err(ZoneStatus::WriteFault);
                }
                let used = entry.filled - entry.on_flash(self.layout.unit);
                let turn = entry.filled == start + taken;
                if turn { self.layout.ring - used } else { 0 }
            };
            if room == 0 {
                self.signals[zone as usize].wait(&self.core.sim).await;
                continue;
            }
            let count = room.min(len - taken);
            let mut table = self.table.borrow_mut();
            let ring = table.attach_ring(&self.layout, zone);
            ring.store_all((start + taken, count), content, taken, who);
            taken += count;
            table.zones[zone as usize].filled += count;
            drop(table);
            self.issue_full(zone);
        }
        // Wakes writes that wait for their turn.
        self.wake(zone);
        Ok(())
    }

    /// Issues every complete unit of a zone.
    pub(super) fn issue_full(self: &Rc<Self>, zone: u32) {
        loop {
            let entry = self.table.borrow().zones[zone as usize].clone();
            let begin = entry.issued * self.layout.unit;
            let end = (begin + self.layout.unit).min(self.layout.capacity);
            if entry.failed || begin >= end || entry.filled < end {
                return;
            }
            self.issue(zone, end - begin, word::PADDING);
        }
    }

    /// Issues the next unit of a zone: `data` sectors of its buffer, and the word `rest` for the
    /// remaining ones. Its program begins now, or once those before it have left the buffers.
    pub(super) fn issue(self: &Rc<Self>, zone: u32, data: u32, rest: u32) {
        let mut table = self.table.borrow_mut();
        if !table.zones[zone as usize].bound {
            table.bind(&self.layout, &self.core.nand.media(), zone);
        }
        table.attach_ring(&self.layout, zone);
        let unit = table.zones[zone as usize].issued;
        let place = self.layout.place(unit);
        let row = table.row(&self.layout, zone, place.piece, place.page);
        let entry = &mut table.zones[zone as usize];
        entry.issued += 1;
        entry.in_flight += 1;
        let issued = Issued {
            zone,
            unit,
            data,
            rest,
            row,
        };
        let now = self.core.sim.now();
        let begin = self.core.turns.program(now);
        let at_once = begin == now;
        let ticket = at_once.then(|| self.submit_unit(&mut table, issued));
        drop(table);
        let zoned = Rc::clone(self);
        self.core.sim.spawn_detached(async move {
            match ticket {
                Some(ticket) => zoned.complete(issued, ticket).await,
                None => zoned.begin_later(issued, begin).await,
            }
        });
    }

    fn submit_unit(&self, table: &mut Table, issued: Issued) -> Ticket {
        let Issued { zone, unit, .. } = issued;
        let piece = self.layout.place(unit).piece;
        let label = word::label(zone + self.layout.conventional, piece);
        let sectors = (unit * self.layout.unit, issued.data);
        self.submit(table, (zone, issued.row, label), sectors, issued.rest)
    }

    /// Submits a unit at `begin`. A zone that has failed until then takes no more programs.
    async fn begin_later(self: Rc<Self>, issued: Issued, begin: Ns) {
        self.core.sim.sleep_until(begin).await;
        let ticket = {
            let mut table = self.table.borrow_mut();
            let entry = &mut table.zones[issued.zone as usize];
            if entry.failed {
                entry.in_flight -= 1;
                None
            } else {
                Some(self.submit_unit(&mut table, issued))
            }
        };
        match ticket {
            Some(ticket) => self.complete(issued, ticket).await,
            None => self.wake(issued.zone),
        }
    }

    /// Submits one program of `data` sectors from `first` on in the buffer of a zone.
    pub(super) fn submit(
        &self,
        table: &mut Table,
        (zone, row, label): (u32, Row, u64),
        (first, data): (u32, u32),
        rest: u32,
    ) -> Ticket {
        let unit = self.layout.unit;
        let stamp = table.sequence;
        table.sequence += 1;
        let mut words = std::mem::take(&mut table.words);
        words.clear();
        words.extend(first..first + data);
        words.resize(unit as usize, rest);
        let entry = &table.zones[zone as usize];
        let mut payload: &[Payload] = &[];
        let ring = (entry.ring != NONE).then(|| &mut table.rings[entry.ring as usize]);
        if let Some(ring) = ring {
            let at = (first % self.layout.ring) as usize;
            let (data, end) = (at + data as usize, at + unit as usize);
            if !ring.payload.is_empty() {
                ring.payload[data..end].fill(Payload::Zero);
                payload = &ring.payload[at..end];
            }
            self.book(&ring.marks[at..data], label, unit);
        }
        let program = Program {
            row,
            stamp,
            label,
            words: &words,
            payload,
        };
        let ticket = self.core.nand.submit_program(program);
        let ticket = ticket.expect("the firmware keeps the rules of the flash");
        table.words = words;
        ticket
    }

    /// Counts the sectors of a program by cause and origin; those of a backup as [`Cause::Zone`].
    fn book(&self, marks: &[(u8, u16)], label: u64, unit: u32) {
        let ledger = &mut self.core.state.borrow_mut().ledger;
        let backup = word::parse_label(label).1.is_none();
        let rest = if backup { Cause::Zone } else { Cause::Padding };
        for run in marks.chunk_by(|a, b| a == b) {
            let (cause, tag) = run[0];
            let cause = if backup { Cause::Zone as u8 } else { cause };
            ledger.program(cause, tag, run.len() as u64);
        }
        let padding = u64::from(unit) - marks.len() as u64;
        if padding > 0 {
            ledger.program(rest as u8, 0, padding);
        }
    }

    /// Waits for a program; then its data count as on flash, or the zone fails.
    async fn complete(self: Rc<Self>, issued: Issued, ticket: Ticket) {
        let Issued {
            zone, unit, row, ..
        } = issued;
        let result = self.core.nand.finish_program(ticket).await;
        let mut table = self.table.borrow_mut();
        let entry = &mut table.zones[zone as usize];
        entry.in_flight -= 1;
        match result {
            Ok(()) => entry.settle(unit),
            Err(error) => {
                assert_eq!(error, NandError::ProgramFailed, "the rules are kept");
                self.fail(&mut table, zone, row);
            }
        }
        table.release_ring(&self.layout, zone);
        let rest = self.unneeded_backup(&mut table, zone);
        drop(table);
        if let Some(row) = rest {
            self.give_back(zone, row);
        }
        self.wake(zone);
    }

    /// Makes a zone read-only after a failed program, and retires the program's blocks.
    pub(super) fn fail(&self, table: &mut Table, zone: u32, row: Row) {
        let step = table.step(zone, ZoneEvent::ProgramFailed);
        step.expect("a zone of any state may fail");
        table.zones[zone as usize].failed = true;
        for block in row.blocks() {
            self.core.nand.retire(block);
        }
    }
}

impl Ring {
    /// Stores `count` sectors from `at` on in the ring: those of `content` from index `first` on.
    pub(super) fn store_all(
        &mut self,
        (at, count): (u32, u32),
        content: Content<'_>,
        first: u32,
        who: For,
    ) {
        let len = self.marks.len();
        let mut slot = at as usize % len;
        for index in first..first + count {
            self.marks[slot] = (who.cause as u8, who.tag);
            if let Some(kept) = self.payload.get_mut(slot) {
                *kept = sector_of(content, index);
            }
            slot = if slot + 1 == len { 0 } else { slot + 1 };
        }
    }
}

/// Sector `index` of the content that the host writes.
fn sector_of(content: Content<'_>, index: u32) -> Payload {
    let at = index as usize;
    match content {
        Content::Nothing => Payload::Zero,
        Content::Fill(pattern) => Payload::Fill(pattern),
        Content::Sectors(payload) => payload[at].clone(),
        Content::Bytes(bytes) => {
            let sector: &[u8; UNIT] = bytes[at * UNIT..][..UNIT]
                .try_into()
                .expect("the extent is of whole sectors");
            Payload::Bytes(Arc::new(*sector))
        }
    }
}
