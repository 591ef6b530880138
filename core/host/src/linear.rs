//! Zones as one address space without gaps, for who knows no zones, or keeps their rules
//! without asking for them.
//!
//! [`Packing`] says what is where. A write has to go on where its zone ends, or to begin a
//! zone anew: what was in it is reset then. Anything else is refused by the drive, so a
//! workload that is not sequential shows as errors, and not as a translation that the host
//! pays for.
//!
//! Invariants: one write of a zone is under way at a time, as in the block layer of Linux;
//! those that wait come in the order of their requests. A zone whose last used sector was
//! written is full, whatever its capacity, so it is not among the active ones.

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

/// Zones as one address space.
#[derive(Clone)]
pub struct Linear<P> {
    port: P,
    packing: Packing,
    /// By zone: who writes it.
    turns: Rc<Vec<Semaphore>>,
}

/// The part of a content that is written to a piece.
fn part<'a>(content: Content<'a>, piece: &Piece) -> Content<'a> {
    let from = (piece.before * SECTOR) as usize;
    let len = piece.extent.bytes() as usize;
    match content {
        Content::Nothing | Content::Fill(_) => content,
        Content::Bytes(bytes) => Content::Bytes(&bytes[from..from + len]),
        Content::Sectors(payloads) => {
            let (unit, end) = (nand::UNIT, from + len);
            Content::Sectors(&payloads[from / unit..end.div_ceil(unit)])
        }
    }
}

/// Takes what is read of a piece.
struct PartSink<'a, S> {
    sink: &'a mut S,
    before: usize,
}

impl<S: Sink> Sink for PartSink<'_, S> {
    const WANTED: bool = S::WANTED;

    fn take(&mut self, offset: usize, len: usize, payload: &Payload, from: usize) {
        self.sink.take(self.before + offset, len, payload, from);
    }
}

impl<P: ZonedPort> Linear<P> {
    /// The zones of `port`, one behind the other.
    #[must_use]
    pub fn new(sim: &Sim, port: P) -> Self {
        Self::in_grains(sim, port, Bytes(SECTOR))
    }

    /// The zones of `port`, of each of which a multiple of `grain` is used.
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

    /// What is where.
    #[must_use]
    pub const fn packing(&self) -> &Packing {
        &self.packing
    }

    /// The zones.
    #[must_use]
    pub const fn port(&self) -> &P {
        &self.port
    }

    /// Writes `extent`, and resets the zones that it begins anew.
    ///
    /// # Errors
    /// The status of the drive for the first piece that fails; what was written before
    /// stays.
    async fn write_all(
        &self,
        extent: Extent,
        content: Content<'_>,
        who: Who,
        fua: bool,
    ) -> Result<(), ZoneStatus> {
        for piece in self.packing.pieces(extent) {
            let turn = &self.turns[piece.zone as usize];
            turn.take(1).await;
            let result = self
                .write_piece(&piece, part(content, &piece), who, fua)
                .await;
            turn.put(1);
            result?;
        }
        Ok(())
    }

    async fn write_piece(
        &self,
        piece: &Piece,
        content: Content<'_>,
        who: Who,
        fua: bool,
    ) -> Result<(), ZoneStatus> {
        if piece.begins {
            self.empty(piece.zone).await?;
        }
        self.port.write(piece.extent, content, who, fua).await?;
        let limits = self.packing.limits();
        if piece.ends && self.packing.room() < limits.capacity {
            self.port.manage(piece.zone, ZoneAction::Finish).await?;
        }
        Ok(())
    }

    /// Resets a zone that something was written to.
    async fn empty(&self, zone: u32) -> Result<(), ZoneStatus> {
        let info = self.port.zone(zone);
        if info.is_some_and(|info| info.state != ZoneState::Empty) {
            self.port.manage(zone, ZoneAction::Reset).await?;
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
        Ok(self.write_all(extent, content, who, fua).await?)
    }

    /// Resets the zones that lie in `extent` with all that is used of them.
    async fn trim(&self, extent: Extent) -> Result<(), IoError> {
        let pieces = self.packing.pieces(extent);
        for piece in pieces.filter(|piece| piece.begins && piece.ends) {
            let turn = &self.turns[piece.zone as usize];
            turn.take(1).await;
            let result = self.empty(piece.zone).await;
            turn.put(1);
            result?;
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
