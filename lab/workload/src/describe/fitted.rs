//! Addresses of a trace on a drive: a range of the trace's addresses, then folded onto the drive or
//! compacted.
//!
//! Invariant: compaction gives each used piece of [`PIECE`] sectors one place, in the order of
//! first use, so that different addresses never share a place. A trim takes no place. The memory of
//! compaction is at most a thousandth of the capacity of the drive.

use super::stream::fold;
use crate::request::{Op, Request};
use crate::trace::Notes;
use std::collections::BTreeMap;
use std::ops::Range;
use units::{Bytes, Extent, KIB, SECTOR};

/// Sectors of a piece of compaction: 64 KiB. Smaller pieces divide more requests, larger ones take
/// more of the drive for scattered addresses.
const PIECE: u64 = 64 * KIB / SECTOR;

/// Pieces in one entry of the table: 512 KiB. An entry takes some 50 bytes, even if one of its pieces
/// is used alone.
const CHUNK: u64 = 8;

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
    chunks: BTreeMap<u64, [u32; CHUNK as usize]>,
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
        let Request { extent, op, .. } = request;
        let has_place = !matches!(op, Op::Flush | Op::ZoneResetAll);
        let Some(range) = self.fit.range.clone().filter(|_| has_place) else {
            return Some(request);
        };
        let (start, end) = match op.manages_zones() {
            // The zone that holds the first sector, however long the command is.
            true => (extent.start.0, extent.end().max(extent.start.0 + 1)),
            false => (extent.start.0.max(range.start), extent.end()),
        };
        let end = end.min(range.end);
        if start >= end || start < range.start {
            self.notes.outside += 1;
            return None;
        }
        let sectors = u32::try_from(end - start).expect("it is a part of the request");
        let sectors = sectors.min(extent.sectors);
        self.notes.cut += u64::from(sectors != extent.sectors);
        let extent = Extent::new(start - range.start, sectors);
        Some(Request { extent, ..request })
    }

    /// The remainder of a request that was divided.
    pub(super) fn rest(&mut self) -> Option<Request> {
        self.rest.take()
    }

    /// `request` as the drive gets it; its [`Self::rest`] may follow. `None` for a trim of addresses
    /// that have no place.
    pub(super) fn place(&mut self, request: Request) -> Result<Option<Request>, Full> {
        let given = request.extent;
        let extent = match self.fit.onto {
            Onto::Keep => given,
            Onto::Fold => fold(given, self.room),
            Onto::Compact => return self.compacted(request),
        };
        self.notes.wrapped += u64::from(extent != given);
        Ok(Some(Request { extent, ..request }))
    }

    fn compacted(&mut self, request: Request) -> Result<Option<Request>, Full> {
        let Request { extent, op, .. } = request;
        let (start, end) = (extent.start.0, extent.end());
        match op {
            Op::Flush | Op::ZoneResetAll => Ok(Some(request)),
            Op::Trim | Op::Zeroes => {
                let Some(used) = self.used_from(start, end) else {
                    self.notes.skipped += 1;
                    return Ok(None);
                };
                let part = self.part(request, used, |places, at| Ok(places.found(at)))?;
                let rest = self.rest.take().map(|rest| rest.extent.start.0);
                let rest = rest.and_then(|from| self.used_from(from, end));
                self.rest = rest.map(|from| cut(request, from, end, from));
                self.notes.divided += u64::from(rest.is_some());
                Ok(Some(part))
            }
            _ if op.manages_zones() => {
                let place = u64::from(self.piece(start / PIECE)?) * PIECE;
                let end = end.min((start / PIECE + 1) * PIECE);
                Ok(Some(cut(request, start, end, place + start % PIECE)))
            }
            _ => {
                let part = self.part(request, start, |places, at| places.piece(at).map(Some))?;
                self.notes.divided += u64::from(self.rest.is_some());
                Ok(Some(part))
            }
        }
    }

    /// The part of `request` from `start`, in a piece that has a `place`, up to the first piece that
    /// does not follow its predecessor; sets the remainder.
    fn part(
        &mut self,
        request: Request,
        start: u64,
        place: impl Fn(&mut Self, u64) -> Result<Option<u32>, Full>,
    ) -> Result<Request, Full> {
        let end = request.extent.end();
        let first = place(self, start / PIECE)?.expect("it has a place");
        let mut stop = (start / PIECE + 1) * PIECE;
        let mut next = first + 1;
        while stop < end && place(self, stop / PIECE)? == Some(next) {
            (next, stop) = (next + 1, stop + PIECE);
        }
        let stop = stop.min(end);
        self.rest = (stop < end).then(|| cut(request, stop, end, stop));
        let at = u64::from(first) * PIECE + start % PIECE;
        Ok(cut(request, start, stop, at))
    }

    /// Place of the piece `number`, as a number of pieces; a new piece goes behind the others.
    fn piece(&mut self, number: u64) -> Result<u32, Full> {
        let empty = [NOWHERE; CHUNK as usize];
        let chunk = self.chunks.entry(number / CHUNK).or_insert(empty);
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

    /// Place of the piece `number`, if it has one.
    fn found(&self, number: u64) -> Option<u32> {
        let chunk = self.chunks.get(&(number / CHUNK))?;
        Some(chunk[(number % CHUNK) as usize]).filter(|place| *place != NOWHERE)
    }

    /// First sector from `start` and before `end` in a piece that has a place.
    fn used_from(&self, start: u64, end: u64) -> Option<u64> {
        if start >= end {
            return None;
        }
        let (first, last) = (start / PIECE, (end - 1) / PIECE);
        let chunks = self.chunks.range(first / CHUNK..=last / CHUNK);
        let mut used = chunks.flat_map(|(chunk, places)| {
            let is_used = |(_, place): &(u64, &u32)| **place != NOWHERE;
            let used = (chunk * CHUNK..).zip(places).filter(is_used);
            used.map(|(piece, _)| piece)
        });
        let piece = used.find(|piece| (first..=last).contains(piece))?;
        Some(start.max(piece * PIECE))
    }
}

/// The sectors of `request` between `from` and `to`, at the place `at`.
fn cut(request: Request, from: u64, to: u64, at: u64) -> Request {
    let sectors = u32::try_from(to - from).expect("it is a part of the request");
    Request {
        extent: Extent::new(at, sectors),
        ..request
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
            let placed = places.place(part).unwrap();
            parts.extend(placed.map(|placed| (placed.extent.start.0, placed.extent.sectors)));
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
        let command = |op, start| Request {
            op,
            ..write(start, 0)
        };
        assert_eq!(all(&mut places, command(Op::Flush, 0)), [(0, 0)]);
        assert_eq!(all(&mut places, command(Op::ZoneResetAll, 0)), [(0, 0)]);
        assert_eq!((places.notes.outside, places.notes.cut), (1, 2));
        // A command for a zone has no sectors, but a place.
        assert_eq!(all(&mut places, command(Op::ZoneReset, 150)), [(50, 0)]);
        assert_eq!(all(&mut places, command(Op::ZoneReset, 99)), []);
        assert_eq!((places.notes.outside, places.notes.cut), (2, 2));
    }

    #[test]
    fn trim_of_unused_pieces_takes_no_place() {
        let mut places = places(Onto::Compact, None, 2);
        let trim = |start: u64, sectors: u64| Request {
            op: Op::Trim,
            ..write(start, u32::try_from(sectors).unwrap())
        };
        assert_eq!(all(&mut places, trim(0, 1_000 * PIECE)), []);
        assert_eq!(places.notes.skipped, 1);
        all(&mut places, write(90 * PIECE, 8));
        all(&mut places, write(700 * PIECE, 8));
        let piece = PIECE as u32;
        let trimmed = all(&mut places, trim(0, 1_000 * PIECE));
        assert_eq!(trimmed, [(0, piece), (PIECE, piece)]);
        let within = all(&mut places, trim(90 * PIECE + 8, 4 * PIECE));
        assert_eq!(within, [(8, piece - 8)]);
        assert_eq!((places.notes.skipped, places.notes.divided), (1, 1));
    }

    #[test]
    fn scattered_addresses_take_little_memory() {
        let mut places = places(Onto::Compact, None, 1_000);
        for far in 0..1_000 {
            all(&mut places, write(far << 21, 8));
        }
        assert!(size_of_val(&[0_u32; CHUNK as usize]) * places.chunks.len() < 1_000 * 64);
    }
}
