//! Zones as one address space without gaps, for users without knowledge of zones, or users
//! that follow the zones' rules by themselves.
//!
//! [`Packing`] maps addresses to zones. A write must continue at the write pointer of its
//! zone, or start at the zone's first sector, which resets the zone. The drive rejects every
//! other write, so a workload that is not sequential shows as errors, and not as a
//! translation at the expense of the host.
//!
//! Invariants: each sequential zone has at most one write in progress, as in the block
//! layer of Linux. Waiting writes proceed in the order of their requests, each as a whole,
//! also where a request continues from one zone into the next. A zone whose last used sector
//! was written is full, even below its capacity, so it is not among the active zones.

use crate::cores::Computing;
use crate::ledger::Who;
use crate::packing::{Packing, Piece};
use crate::port::BlockPort;
use crate::zoned::ZonedPort;
use nand::Payload;
use sim::{Semaphore, Sim};
use ssd::{Content, IoError, Sink, ZoneAction, ZoneState, ZoneStatus};
use std::rc::Rc;
use units::{Bytes, Extent, Ns, Placement, SECTOR};

/// The zones of a port as one address space; a [`BlockPort`].
#[derive(Clone)]
pub struct Linear<P> {
    port: P,
    packing: Packing,
    /// The writer's turn, by zone.
    turns: Rc<Vec<Semaphore>>,
}

/// Maximum number of sectors of one command: 1 MiB, as Linux sends at most to a drive that
/// names no limit of its own.
const COMMAND_SECTORS: u64 = (1 << 20) / SECTOR;

/// The `len` bytes of `content` from sector `before` on.
fn part(content: Content<'_>, before: u64, len: usize) -> Content<'_> {
    let from = (before * SECTOR) as usize;
    match content {
        Content::Nothing | Content::Fill(_) => content,
        Content::Bytes(bytes) => Content::Bytes(&bytes[from..from + len]),
        Content::Sectors(payloads) => {
            let (unit, end) = (nand::UNIT, from + len);
            Content::Sectors(&payloads[from / unit..end.div_ceil(unit)])
        }
    }
}

/// A sink for one piece: shifts offsets by the bytes of the request before the piece.
struct PartSink<'a, S> {
    sink: &'a mut S,
    before: usize,
}

impl<S: Sink> Sink for PartSink<'_, S> {
    fn is_wanted(&self) -> bool {
        self.sink.is_wanted()
    }

    fn take(&mut self, offset: usize, len: usize, payload: &Payload, from: usize) {
        self.sink.take(self.before + offset, len, payload, from);
    }
}

impl<P: ZonedPort> Linear<P> {
    /// The zones of `port` as one address space, each used to its capacity.
    #[must_use]
    pub fn new(sim: &Sim, port: P) -> Self {
        Self::in_grains(sim, port, Bytes(SECTOR))
    }

    /// The zones of `port` as one address space; of each sequential zone, the largest
    /// multiple of `grain` is used.
    #[must_use]
    pub fn in_grains(sim: &Sim, port: P, grain: Bytes) -> Self {
        let packing = Packing::new(port.limits(), grain.0 / SECTOR);
        let turns = (0..port.limits().zones).map(|_| Semaphore::new(sim, 1));
        Self {
            turns: Rc::new(turns.collect()),
            packing,
            port,
        }
    }

    /// The map from addresses to zones.
    #[must_use]
    pub const fn packing(&self) -> &Packing {
        &self.packing
    }

    /// The underlying zoned port.
    #[must_use]
    pub const fn port(&self) -> &P {
        &self.port
    }

    /// Writes a piece in its turn; resets the zone first if the piece starts it anew.
    async fn write_piece(
        &self,
        piece: Piece,
        content: Content<'_>,
        who: Who,
        fua: bool,
    ) -> Result<(), ZoneStatus> {
        if !piece.is_sequential {
            return self.write_now(&piece, content, who, fua).await;
        }
        let turn = &self.turns[piece.zone as usize];
        turn.take(1).await;
        let result = self.write_now(&piece, content, who, fua).await;
        turn.put(1);
        result
    }

    async fn write_now(
        &self,
        piece: &Piece,
        content: Content<'_>,
        who: Who,
        fua: bool,
    ) -> Result<(), ZoneStatus> {
        if piece.begins {
            self.empty(piece.zone).await?;
        }
        let (mut before, end) = (piece.before, piece.before + u64::from(piece.extent.sectors));
        while before < end {
            let count = (end - before).min(COMMAND_SECTORS);
            let start = piece.extent.start.0 + (before - piece.before);
            let extent = Extent::new(start, count as u32);
            let content = part(content, before, extent.bytes() as usize);
            self.port.write(extent, content, who, fua).await?;
            before += count;
        }
        let limits = self.packing.limits();
        if piece.ends && self.packing.room() < limits.capacity {
            self.port.manage(piece.zone, ZoneAction::Finish).await?;
        }
        Ok(())
    }

    /// Resets `zone` unless it is empty.
    async fn empty(&self, zone: u32) -> Result<(), ZoneStatus> {
        let info = self.port.zone(zone);
        if info.is_some_and(|info| info.state != ZoneState::Empty) {
            self.port.manage(zone, ZoneAction::Reset).await?;
        }
        Ok(())
    }

    /// Empties all sequential zones, for a fresh start such as mkfs. Read-only zones are set
    /// offline, so that their old contents cannot be read.
    ///
    /// # Errors
    /// If a zone that has not failed could not be reset.
    pub async fn clear(&self) -> Result<(), IoError> {
        let limits = self.packing.limits();
        for zone in limits.conventional..limits.zones {
            let turn = &self.turns[zone as usize];
            turn.take(1).await;
            let result = self.empty(zone).await;
            turn.put(1);
            match self.port.zone(zone).map(|info| info.state) {
                Some(ZoneState::ReadOnly) => self.port.manage(zone, ZoneAction::Offline).await?,
                Some(ZoneState::Offline) => {}
                _ => result?,
            }
        }
        Ok(())
    }
}

impl<P: ZonedPort> BlockPort for Linear<P> {
    fn capacity(&self) -> Bytes {
        Bytes(self.packing.sectors() * SECTOR)
    }

    fn handles(&self) -> u16 {
        1
    }

    async fn read(&self, extent: Extent, sink: &mut impl Sink, who: Who) -> Result<(), IoError> {
        for piece in self.packing.pieces(extent) {
            let before = (piece.before * SECTOR) as usize;
            let mut sink = PartSink { sink, before };
            self.port.read(piece.extent, &mut sink, who).await?;
        }
        Ok(())
    }

    async fn write(
        &self,
        extent: Extent,
        content: Content<'_>,
        _: Placement,
        who: Who,
        fua: bool,
    ) -> Result<(), IoError> {
        let mut pieces = self.packing.pieces(extent);
        let Some(first) = pieces.next() else {
            return Ok(());
        };
        let first = self.write_piece(first, content, who, fua);
        let Some(second) = pieces.next() else {
            return Ok(first.await?);
        };
        // All pieces start at once, so each queues for its zone now.
        let rest = std::iter::once(second).chain(pieces);
        let rest = rest.map(|piece| self.write_piece(piece, content, who, fua));
        let all = std::iter::once(first).chain(rest).collect();
        let done: Result<(), ZoneStatus> = sim::join_all(all).await.into_iter().collect();
        Ok(done?)
    }

    /// Resets the sequential zones whose used sectors all lie in `extent`. Failed zones stay
    /// unchanged.
    async fn trim(&self, extent: Extent) -> Result<(), IoError> {
        let pieces = self.packing.pieces(extent);
        for piece in pieces.filter(|piece| piece.begins && piece.ends) {
            let turn = &self.turns[piece.zone as usize];
            turn.take(1).await;
            let result = self.empty(piece.zone).await;
            turn.put(1);
            let info = self.port.zone(piece.zone);
            if info.is_none_or(|info| !info.state.is_lost()) {
                result?;
            }
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), IoError> {
        Ok(self.port.flush().await?)
    }

    fn compute(&self, span: Ns) -> Computing {
        self.port.compute(span)
    }
}
