//! Addresses of a trace on a drive: a range of the trace's addresses, then folded onto the drive or
//! compacted.
//!
//! Invariant: compaction gives each used piece of [`PIECE`] sectors one place, in the order of
//! first use, so that different addresses never share a place. Its memory is bounded by the capacity
//! of the drive.

use super::stream::fold;
use crate::request::Request;
use crate::trace::Notes;
use std::collections::BTreeMap;
use std::ops::Range;
use units::{Bytes, Extent, KIB, SECTOR};

/// Sectors of a piece of compaction: 64 KiB. Smaller pieces divide more requests, larger ones take
/// more of the drive for scattered addresses.
const PIECE: u64 = 64 * KIB / SECTOR;

/// Pieces in one entry of the table: 1 GiB.
const CHUNK: u64 = 1 << 14;

/// Place of a piece that has none yet.
const NOWHERE: u32 = u32::MAX;

/// Treatment of the addresses of a trace.
#[derive(Clone, Debug)]
pub(super) struct Fit {
    /// Sectors of the trace that are kept, and moved to the start of the drive; `None` for all.
    pub(super) range: Option<Range<u64>>,
    pub(super) onto: Onto,
}

/// Treatment of addresses past the end of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Onto {
    /// Folded back onto the drive.
    Fold,
    /// Kept, so that the drive refuses them.
    Keep,
    /// All addresses get places in the order of first use.
    Compact,
}

/// Map of addresses on one drive.
pub(super) struct Places {
    fit: Fit,
    /// Capacity of the drive in sectors.
    room: u64,
    /// Place of each piece, by the number of its chunk.
    chunks: BTreeMap<u64, Box<[u32]>>,
    /// Pieces that have a place.
    used: u32,
    /// Remainder of a request that was divided, with its addresses in the trace.
    rest: Option<Request>,
    pub(super) notes: Notes,
}

/// Error: the drive has no place for another piece.
#[derive(Debug)]
pub(super) struct Full {
    /// Bytes that have a place.
    pub(super) used: Bytes,
}

impl Places {
    pub(super) fn new(fit: Fit, capacity: Bytes) -> Self {
        Self {
            fit,
            room: capacity.0 / SECTOR,
            chunks: BTreeMap::new(),
            used: 0,
            rest: None,
            notes: Notes::default(),
        }
    }

    /// Takes a request of the trace, unless it lies outside of the range.
    pub(super) fn begin(&mut self, request: Request) -> Option<Request> {
        let extent = request.extent;
        let Some(range) = self.fit.range.clone().filter(|_| extent.sectors > 0) else {
            return Some(request);
        };
        let (start, end) = (extent.start.0.max(range.start), extent.end().min(range.end));
        if start >= end {
            self.notes.outside += 1;
            return None;
        }
        let sectors = u32::try_from(end - start).expect("it is a part of the request");
        self.notes.cut += u64::from(sectors != extent.sectors);
        let extent = Extent::new(start - range.start, sectors);
        Some(Request { extent, ..request })
    }

    /// The remainder of a request that was divided.
    pub(super) fn rest(&mut self) -> Option<Request> {
        self.rest.take()
    }

    /// `request` as the drive gets it; its [`Self::rest`] may follow.
    pub(super) fn place(&mut self, request: Request) -> Result<Request, Full> {
        let given = request.extent;
        let extent = match self.fit.onto {
            Onto::Keep => given,
            Onto::Fold => fold(given, self.room),
            Onto::Compact if given.sectors == 0 => given,
            Onto::Compact => return self.compacted(request),
        };
        self.notes.wrapped += u64::from(extent != given);
        Ok(Request { extent, ..request })
    }

    /// The part of `request` up to the first piece that does not follow its predecessor.
    fn compacted(&mut self, request: Request) -> Result<Request, Full> {
        let (start, end) = (request.extent.start.0, request.extent.end());
        let first = self.piece(start / PIECE)?;
        let mut stop = (start / PIECE + 1) * PIECE;
        let mut last = first;
        while stop < end {
            let next = self.piece(stop / PIECE)?;
            if next != last + 1 {
                break;
            }
            (last, stop) = (next, stop + PIECE);
        }
        let stop = stop.min(end);
        let part = |from: u64, to: u64, at: u64| {
            let sectors = u32::try_from(to - from).expect("it is a part of the request");
            Request {
                extent: Extent::new(at, sectors),
                ..request
            }
        };
        if stop < end {
            self.rest = Some(part(stop, end, stop));
            self.notes.divided += 1;
        }
        Ok(part(start, stop, u64::from(first) * PIECE + start % PIECE))
    }

    /// Place of the piece `number`, as a number of pieces; a new piece goes behind the others.
    fn piece(&mut self, number: u64) -> Result<u32, Full> {
        let empty = || vec![NOWHERE; CHUNK as usize].into_boxed_slice();
        let chunk = self.chunks.entry(number / CHUNK).or_insert_with(empty);
        let place = &mut chunk[(number % CHUNK) as usize];
        if *place == NOWHERE {
            let end = (u64::from(self.used) + 1) * PIECE;
            if end > self.room || self.used == NOWHERE - 1 {
                let used = Bytes(u64::from(self.used) * PIECE * SECTOR);
                return Err(Full { used });
            }
            *place = self.used;
            self.used += 1;
        }
        Ok(*place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Op;
    use units::{Ns, Origin, Placement};

    fn places(onto: Onto, range: Option<Range<u64>>, pieces: u64) -> Places {
        Places::new(Fit { range, onto }, Bytes(pieces * PIECE * SECTOR))
    }

    fn write(start: u64, sectors: u32) -> Request {
        Request {
            at: Ns::ZERO,
            op: Op::Write,
            extent: Extent::new(start, sectors),
            placement: Placement(0),
            origin: Origin(0),
            fua: false,
        }
    }

    /// Places of all parts of a request.
    fn all(places: &mut Places, request: Request) -> Vec<(u64, u32)> {
        let mut next = places.begin(request);
        let mut parts = Vec::new();
        while let Some(part) = next {
            let placed = places.place(part).unwrap().extent;
            parts.push((placed.start.0, placed.sectors));
            next = places.rest();
        }
        parts
    }

    #[test]
    fn pieces_get_places_in_the_order_of_first_use() {
        let mut places = places(Onto::Compact, None, 4);
        let far = 900 * PIECE;
        assert_eq!(all(&mut places, write(far + 8, 8)), [(8, 8)]);
        assert_eq!(all(&mut places, write(5 * PIECE, 8)), [(PIECE, 8)]);
        assert_eq!(all(&mut places, write(far + 16, 8)), [(16, 8)]);
        // The piece before the first one is new, and behind the second.
        let divided = all(&mut places, write(far - 8, 16));
        assert_eq!(divided, [(3 * PIECE - 8, 8), (0, 8)]);
        assert_eq!(places.notes.divided, 1);
        assert!(places.place(write(0, 8)).is_ok());
        let full = places.place(write(70 * PIECE, 8)).unwrap_err();
        assert_eq!(full.used, Bytes(4 * PIECE * SECTOR));
    }

    #[test]
    fn range_moves_to_the_start_of_the_drive_and_cuts_requests() {
        let mut places = places(Onto::Fold, Some(100..200), 1);
        assert_eq!(all(&mut places, write(90, 20)), [(0, 10)]);
        assert_eq!(all(&mut places, write(199, 8)), [(99, 1)]);
        assert_eq!(all(&mut places, write(200, 8)), []);
        assert_eq!(all(&mut places, write(0, 0)), [(0, 0)]);
        assert_eq!((places.notes.outside, places.notes.cut), (1, 2));
    }
}
