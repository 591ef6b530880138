//! Placement handles for requests that came without any.
//!
//! By access pattern, after SFR of `AutoStream` (Yang, Pandurangan, Choi and
//! Balakrishnan, SYSTOR 2017): a write that continues another gets its handle
//! (sequentiality); any other one heats its chunk by one (frequency) after the
//! chunk's heat has decayed by half for each [`DECAY`] (recency), and the
//! binary logarithm of the heat is its handle. Time is what has been written,
//! not the clock, so that the result does not depend on how fast a drive is.
//! Or by origin: each gets a handle of its own while there are any.
//!
//! Invariants: only writes are given handles; a handle is below the number of
//! handles; memory is bounded by [`CHUNKS_MAX`].

use crate::fixed::{LOG_ONE, exp2_negative};
use crate::request::{Op, Request};
use std::collections::{BTreeMap, VecDeque};
use units::{Extent, GIB, MIB, Origin, Placement, SECTOR};

/// The unit of heat: the paper's default.
pub const CHUNK: u64 = MIB;

/// Bytes written to the whole drive in which heat halves.
pub const DECAY: u64 = GIB;

/// Chunks whose heat is kept, a terabyte's; further ones count as cold.
pub const CHUNKS_MAX: usize = 1 << 20;

/// Sequences of writes that are followed at once.
const SEQUENCES: usize = 16;

/// Heat of one write: 16 bits after the point.
const ONE: u64 = 1 << 16;

/// Where placement handles come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placing {
    /// As the workload gives them.
    #[default]
    Own,
    /// All requests have the default handle.
    None,
    /// By access pattern.
    Auto {
        /// Handles to use, from 0; not 0.
        handles: u16,
    },
    /// One for each origin, in order of its first write; the last is shared.
    Origin {
        /// Handles to use, from 0; not 0.
        handles: u16,
    },
}

/// Gives requests their handles, one by one.
#[derive(Clone, Debug)]
pub struct Placer(Rule);

#[derive(Clone, Debug)]
enum Rule {
    Own,
    None,
    Auto(AutoStream),
    Origin { handles: u16, seen: Vec<Origin> },
}

impl Placer {
    /// A placer that has seen nothing yet.
    #[must_use]
    pub fn new(placing: Placing) -> Self {
        Self(match placing {
            Placing::Own => Rule::Own,
            Placing::None => Rule::None,
            Placing::Auto { handles } => Rule::Auto(AutoStream::new(handles)),
            Placing::Origin { handles } => Rule::Origin {
                handles,
                seen: Vec::new(),
            },
        })
    }

    /// `request` with its handle.
    pub fn place(&mut self, request: Request) -> Request {
        let placement = match (&mut self.0, request.op) {
            (Rule::Own, _) => request.placement,
            (Rule::Auto(auto), Op::Write) => auto.place(request.extent),
            (Rule::Origin { handles, seen }, Op::Write) => {
                by_origin(*handles, seen, request.origin)
            }
            _ => Placement(0),
        };
        Request {
            placement,
            ..request
        }
    }
}

/// Gives `requests` handles by their access pattern.
pub fn classify(
    requests: impl IntoIterator<Item = Request>,
    handles: u16,
) -> impl Iterator<Item = Request> {
    let mut placer = Placer::new(Placing::Auto { handles });
    requests.into_iter().map(move |r| placer.place(r))
}

/// Gives `requests` a handle for each origin.
pub fn by_origins(
    requests: impl IntoIterator<Item = Request>,
    handles: u16,
) -> impl Iterator<Item = Request> {
    let mut placer = Placer::new(Placing::Origin { handles });
    requests.into_iter().map(move |r| placer.place(r))
}

fn by_origin(handles: u16, seen: &mut Vec<Origin>, origin: Origin) -> Placement {
    let known = seen.iter().position(|&o| o == origin);
    let room = seen.len() < usize::from(handles);
    let index = known.unwrap_or(seen.len());
    // Origins past the last handle share it and need not be told apart.
    if known.is_none() && room {
        seen.push(origin);
    }
    let index = u16::try_from(index).unwrap_or(u16::MAX);
    Placement(index.min(handles.saturating_sub(1)))
}

#[derive(Clone, Debug)]
struct AutoStream {
    handles: u16,
    /// Sectors written so far: the time.
    now: u64,
    chunks: BTreeMap<u64, Chunk>,
    /// Where recent writes ended and what handle they got, the latest last.
    tails: VecDeque<(u64, Placement)>,
}

#[derive(Clone, Copy, Debug)]
struct Chunk {
    heat: u64,
    at: u64,
}

impl AutoStream {
    fn new(handles: u16) -> Self {
        Self {
            handles,
            now: 0,
            chunks: BTreeMap::new(),
            tails: VecDeque::new(),
        }
    }

    fn place(&mut self, extent: Extent) -> Placement {
        self.now += u64::from(extent.sectors);
        let placement = match self.continued(extent.start.0) {
            Some(placement) => placement,
            None => self.by_heat(extent.start.0 / (CHUNK / SECTOR)),
        };
        if self.tails.len() == SEQUENCES {
            self.tails.pop_front();
        }
        self.tails.push_back((extent.end(), placement));
        placement
    }

    /// The handle of the write that ended at `start`.
    fn continued(&mut self, start: u64) -> Option<Placement> {
        let index = self.tails.iter().rposition(|tail| tail.0 == start)?;
        self.tails.remove(index).map(|tail| tail.1)
    }

    fn by_heat(&mut self, chunk: u64) -> Placement {
        let now = self.now;
        let cold = Chunk { heat: 0, at: now };
        if self.chunks.len() == CHUNKS_MAX && !self.chunks.contains_key(&chunk) {
            return Placement(0);
        }
        let chunk = self.chunks.entry(chunk).or_insert(cold);
        chunk.heat = decayed(chunk.heat, now - chunk.at) + ONE;
        chunk.at = now;
        let level = (chunk.heat / ONE).ilog2() as u16;
        Placement(level.min(self.handles.saturating_sub(1)))
    }
}

/// `heat` after `sectors` were written.
fn decayed(heat: u64, sectors: u64) -> u64 {
    let halvings = u128::from(sectors) * u128::from(LOG_ONE) / u128::from(DECAY / SECTOR);
    let factor = exp2_negative(u64::try_from(halvings).unwrap_or(u64::MAX));
    ((u128::from(heat) * u128::from(factor)) >> 62) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Ns;

    fn write(start: u64, sectors: u32, origin: u16) -> Request {
        Request {
            at: Ns(0),
            op: Op::Write,
            extent: Extent::new(start, sectors),
            placement: Placement(9),
            origin: Origin(origin),
            fua: false,
        }
    }

    #[test]
    fn heat_halves_with_what_is_written() {
        let period = DECAY / SECTOR;
        assert_eq!(decayed(ONE, 0), ONE);
        assert_eq!(decayed(ONE, period), ONE / 2);
        assert_eq!(decayed(ONE, 64 * period), 0);
        assert_eq!(decayed(u64::MAX, u64::MAX), 0);
    }

    #[test]
    fn what_is_rewritten_often_is_told_from_what_is_not() {
        let cold = (0..1000_u64).map(|i| write((1 << 30) + i * 4096, 8, 0));
        let requests = cold.flat_map(|cold| [write(0, 8, 0), write(4096, 8, 0), cold]);
        let placed: Vec<Request> = classify(requests, 8).collect();
        let last = &placed[placed.len() - 3..];
        let handles: Vec<u16> = last.iter().map(|r| r.placement.0).collect();
        assert_eq!(handles, [7, 7, 0]);
    }

    #[test]
    fn a_sequence_keeps_its_handle_while_others_run() {
        let mut requests = vec![write(0, 8, 0); 5];
        requests.push(write(8, 8, 0));
        requests.push(write(1 << 30, 8, 0));
        requests.push(write(16, 8, 0));
        let placed: Vec<u16> = classify(requests, 4).map(|r| r.placement.0).collect();
        // The second write's heat is a little less than 2, since some of the
        // first's has decayed.
        assert_eq!(placed, [0, 0, 1, 1, 2, 2, 0, 2]);
    }

    #[test]
    fn origins_get_handles_in_order_and_share_the_last() {
        let requests = [5, 3, 5, 9, 1, 9].map(|o| write(0, 8, o));
        let placed: Vec<u16> = by_origins(requests, 3).map(|r| r.placement.0).collect();
        assert_eq!(placed, [0, 1, 0, 2, 2, 2]);
    }

    #[test]
    fn none_clears_and_own_keeps() {
        let place = |placing| Placer::new(placing).place(write(0, 8, 0)).placement;
        assert_eq!(place(Placing::None), Placement(0));
        assert_eq!(place(Placing::Own), Placement(9));
    }
}
