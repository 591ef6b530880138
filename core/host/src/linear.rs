//! Zones as one address space without gaps, for workloads that know no zones.
//!
//! Address `a` of `c` bytes of capacity a zone is at `a mod c` of zone `a / c`, behind the
//! conventional zones. A write has to go on where its zone ends, or to begin a zone anew:
//! what was in it is reset then. Anything else is refused by the drive, so a workload that
//! is not sequential shows as errors, and not as a translation that the host pays for.
//!
//! Invariant: one write of a zone is under way at a time, as in the block layer of Linux;
//! those that wait come in the order of their requests.

use crate::ledger::Who;
use crate::zoned::ZonedPort;
use sim::{Semaphore, Sim};
use ssd::{Content, ZoneAction, ZoneStatus};
use std::rc::Rc;
use units::Extent;

/// The sectors of one zone that a request touches.
struct Piece {
    zone: u32,
    /// Where they are for the drive.
    extent: Extent,
    /// Whether they begin at the start of the zone, and whether they are all of it.
    begins: bool,
    whole: bool,
}

/// Zones as one address space.
#[derive(Clone)]
pub struct Linear<P> {
    port: P,
    /// By zone: who writes it.
    turns: Rc<Vec<Semaphore>>,
}

impl<P: ZonedPort> Linear<P> {
    /// The zones of `port`, one behind the other.
    #[must_use]
    pub fn new(sim: &Sim, port: P) -> Self {
        let turns = (0..port.limits().zones).map(|_| Semaphore::new(sim, 1));
        Self {
            turns: Rc::new(turns.collect()),
            port,
        }
    }

    /// Sectors of 512 bytes that can be written.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        let limits = self.port.limits();
        let sequential = limits.zones - limits.conventional;
        let conventional = u64::from(limits.conventional) * limits.size;
        conventional + u64::from(sequential) * limits.capacity
    }

    /// The pieces of `extent`, none longer than what is left of its zone.
    fn pieces(&self, extent: Extent) -> impl Iterator<Item = Piece> + use<P> {
        let limits = self.port.limits();
        let conventional = u64::from(limits.conventional) * limits.size;
        let (mut at, end) = (extent.start.0, extent.end());
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let mapped = at < conventional;
            let len = if mapped { limits.size } else { limits.capacity };
            let from = if mapped { at } else { at - conventional };
            let first = if mapped { 0 } else { limits.conventional };
            let zone = first + (from / len) as u32;
            let count = (end - at).min(len - from % len);
            let piece = Piece {
                zone,
                extent: Extent::new(u64::from(zone) * limits.size + from % len, count as u32),
                begins: !mapped && from.is_multiple_of(len),
                whole: !mapped && count == len,
            };
            at += count;
            Some(piece)
        })
    }

    /// Reads `extent` for the time that it takes.
    ///
    /// # Errors
    /// The status of the drive for the first piece that fails.
    pub async fn read(&self, extent: Extent, who: Who) -> Result<(), ZoneStatus> {
        for piece in self.pieces(extent) {
            self.port.read(piece.extent, &mut (), who).await?;
        }
        Ok(())
    }

    /// Writes `extent` without contents, and resets the zones that it begins anew.
    ///
    /// # Errors
    /// As [`Linear::read`]; what was written before stays.
    pub async fn write(&self, extent: Extent, who: Who, fua: bool) -> Result<(), ZoneStatus> {
        for piece in self.pieces(extent) {
            let turn = &self.turns[piece.zone as usize];
            turn.take(1).await;
            let result = self.write_piece(&piece, who, fua).await;
            turn.put(1);
            result?;
        }
        Ok(())
    }

    async fn write_piece(&self, piece: &Piece, who: Who, fua: bool) -> Result<(), ZoneStatus> {
        let zone = self.port.zone(piece.zone);
        if piece.begins && zone.is_some_and(|zone| zone.written() > 0) {
            self.port.manage(piece.zone, ZoneAction::Reset).await?;
        }
        self.port
            .write(piece.extent, Content::Nothing, who, fua)
            .await
    }

    /// Resets the zones that lie in `extent` as a whole.
    ///
    /// # Errors
    /// As [`Linear::read`].
    pub async fn trim(&self, extent: Extent) -> Result<(), ZoneStatus> {
        for piece in self.pieces(extent).filter(|piece| piece.whole) {
            let turn = &self.turns[piece.zone as usize];
            turn.take(1).await;
            let result = self.port.manage(piece.zone, ZoneAction::Reset).await;
            turn.put(1);
            result?;
        }
        Ok(())
    }

    /// Makes every completed write durable.
    ///
    /// # Errors
    /// The status of the drive.
    pub async fn flush(&self) -> Result<(), ZoneStatus> {
        self.port.flush().await
    }
}
