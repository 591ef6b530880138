//! Placement handles for requests that came without any.
//!
//! [`Placing::Auto`] classifies by access pattern, after SFR of `AutoStream` (Yang, Pandurangan,
//! Choi and Balakrishnan, SYSTOR 2017): a write that continues another gets its handle
//! (sequentiality); for any other write the handle is the binary logarithm of its chunk's heat.
//! Writes heat their chunk (frequency), and heat halves each [`DECAY`] (recency). Three things
//! differ from the paper. Heat counts bytes, not requests, so that one overwrite of a chunk weighs
//! the same in large and in small writes; sequential writes heat their chunk too, since the
//! lifetime of a log's data shows in the log's next pass; and time is the amount written, in drive
//! capacities, so that the result depends neither on the speed of a drive nor on its size.
//!
//! [`Placing::Origin`] gives each origin a handle of its own; origins past the last handle share
//! it.
//!
//! Invariants: only writes are given handles; a handle is below the number of
//! handles; memory is bounded by [`CHUNKS_MAX`].

use crate::request::{Op, Request};
use sim::fixed::{LOG_ONE, exp2_negative};
use std::collections::{BTreeMap, VecDeque};
use units::{Bytes, Extent, MIB, Origin, Placement, SECTOR};

/// Bytes of a chunk, the unit of heat: the paper's default.
pub const CHUNK: u64 = MIB;

/// Drive capacities written in which heat halves. A chunk that is overwritten
/// once per T capacities settles at a heat of 8 / (T ln 2): 11 for data as old
/// as the drive, 1 for data that outlives 11 drives and 128, where the eighth
/// handle begins, for data that is gone after a tenth of one.
pub const DECAY: u64 = 8;

/// Chunks whose heat is kept, a terabyte's; further ones count as cold.
pub const CHUNKS_MAX: usize = 1 << 20;

/// Writes whose ends are kept, for later writes to continue. The bound keeps a write from being
/// taken for the continuation of one that ended at its start long ago.
const RECENT: usize = 64;

/// Heat of one overwrite of a whole chunk: 20 bits after the point, so that one
/// sector still counts.
const ONE: u64 = 1 << 20;

/// Rule that sets the placement handles of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placing {
    /// Handles as the workload gives them.
    #[default]
    Own,
    /// All requests have the default handle.
    None,
    /// Writes get handles by their access pattern.
    Auto {
        /// Handles to use, from 0; not 0.
        handles: u16,
    },
    /// Each origin gets a handle in order of its first write; origins past the last handle share
    /// it.
    Origin {
        /// Handles to use, from 0; not 0.
        handles: u16,
    },
}

impl Placing {
    /// Name as a value of the parameter `placement`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::None => "none",
            Self::Auto { .. } => "auto",
            Self::Origin { .. } => "origin",
        }
    }
}

/// Sets the placement handle of each request; requests other than writes get handle 0 unless the
/// rule is [`Placing::Own`].
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
    /// A placer that has seen nothing yet, for a drive of `capacity`.
    #[must_use]
    pub fn new(placing: Placing, capacity: Bytes) -> Self {
        Self(match placing {
            Placing::Own => Rule::Own,
            Placing::None => Rule::None,
            Placing::Auto { handles } => Rule::Auto(AutoStream::new(handles, capacity)),
            Placing::Origin { handles } => Rule::Origin {
                handles,
                seen: Vec::new(),
            },
        })
    }

    /// Returns `request` with its handle.
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

/// `requests` with handles below `handles` by access pattern; heat decays with the `capacity` of the
/// drive.
pub fn classify(
    requests: impl IntoIterator<Item = Request>,
    handles: u16,
    capacity: Bytes,
) -> impl Iterator<Item = Request> {
    let mut placer = Placer::new(Placing::Auto { handles }, capacity);
    requests.into_iter().map(move |r| placer.place(r))
}

/// `requests` with a handle below `handles` for each origin of writes.
pub fn by_origins(
    requests: impl IntoIterator<Item = Request>,
    handles: u16,
) -> impl Iterator<Item = Request> {
    let mut placer = Placer::new(Placing::Origin { handles }, Bytes(0));
    requests.into_iter().map(move |r| placer.place(r))
}

fn by_origin(handles: u16, seen: &mut Vec<Origin>, origin: Origin) -> Placement {
    let known = seen.iter().position(|&o| o == origin);
    let room = seen.len() < usize::from(handles);
    let index = known.unwrap_or(seen.len());
    // Origins past the last handle share it, so they need not be remembered.
    if known.is_none() && room {
        seen.push(origin);
    }
    let index = u16::try_from(index).unwrap_or(u16::MAX);
    Placement(index.min(handles.saturating_sub(1)))
}

#[derive(Clone, Debug)]
struct AutoStream {
    handles: u16,
    /// Sectors written until heat has halved.
    half_life: u64,
    /// Sectors written so far, which serve as the clock.
    now: u64,
    chunks: BTreeMap<u64, Chunk>,
    /// End sector and handle of the last [`RECENT`] writes, the newest at the back.
    tails: VecDeque<(u64, Placement)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Chunk {
    heat: u64,
    at: u64,
}

impl AutoStream {
    fn new(handles: u16, capacity: Bytes) -> Self {
        Self {
            handles,
            half_life: (capacity.0 / SECTOR).saturating_mul(DECAY).max(1),
            now: 0,
            chunks: BTreeMap::new(),
            tails: VecDeque::new(),
        }
    }

    fn place(&mut self, extent: Extent) -> Placement {
        self.now += u64::from(extent.sectors);
        let by_heat = self.heat(extent);
        let placement = self.continued(extent.start.0).unwrap_or(by_heat);
        if self.tails.len() == RECENT {
            self.tails.pop_front();
        }
        self.tails.push_back((extent.end(), placement));
        placement
    }

    /// Handle of the newest recent write that ended at sector `start`.
    fn continued(&self, start: u64) -> Option<Placement> {
        let tail = self.tails.iter().rev().find(|tail| tail.0 == start)?;
        Some(tail.1)
    }

    /// Heats the chunks of `extent` and returns the handle of the first.
    fn heat(&mut self, extent: Extent) -> Placement {
        let mut start = extent.start.0;
        let mut first = None;
        while start < extent.end() {
            let chunk = start / CHUNK_SECTORS;
            let end = extent.end().min((chunk + 1) * CHUNK_SECTORS);
            let heat = self.heat_chunk(chunk, end - start);
            first = first.or(Some(heat));
            start = end;
        }
        let overwrites = (first.unwrap_or(0) / ONE).max(1);
        let level = overwrites.ilog2() as u16;
        Placement(level.min(self.handles.saturating_sub(1)))
    }

    /// Adds a write of `sectors` to the heat of `chunk`; returns 0 for a new chunk past
    /// [`CHUNKS_MAX`].
    fn heat_chunk(&mut self, chunk: u64, sectors: u64) -> u64 {
        if self.chunks.len() == CHUNKS_MAX && !self.chunks.contains_key(&chunk) {
            return 0;
        }
        let (now, half_life) = (self.now, self.half_life);
        let chunk = self.chunks.entry(chunk).or_default();
        chunk.heat = decayed(chunk.heat, now - chunk.at, half_life) + sectors * ONE / CHUNK_SECTORS;
        chunk.at = now;
        chunk.heat
    }
}

const CHUNK_SECTORS: u64 = CHUNK / SECTOR;

/// `heat` after `sectors` more sectors were written.
fn decayed(heat: u64, sectors: u64, half_life: u64) -> u64 {
    let halvings = u128::from(sectors) * u128::from(LOG_ONE) / u128::from(half_life);
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
    fn heat_halves_per_half_life_of_writes() {
        assert_eq!(decayed(ONE, 0, 100), ONE);
        assert_eq!(decayed(ONE, 100, 100), ONE / 2);
        assert_eq!(decayed(ONE, 6_400, 100), 0);
        assert_eq!(decayed(u64::MAX, u64::MAX, 1), 0);
    }

    const DRIVE: Bytes = Bytes(64 * MIB);

    #[test]
    fn hot_and_cold_chunks_get_different_handles() {
        // Every second chunk's worth goes to chunk 0, the others go round.
        let cold = (0..1_000).map(|i| write((1 + i % 63) * CHUNK_SECTORS + 8, 2_000, 0));
        let requests = cold.flat_map(|cold| [write(0, 2_000, 0), cold]);
        let placed: Vec<Request> = classify(requests, 16, DRIVE).collect();
        let handle = |r: &Request| r.placement.0;
        let (hot, cold) = (handle(&placed[1_998]), handle(&placed[1_999]));
        // Chunk 0 lives for 1/32 of a drive: log2(8 / (ln 2 / 32)) is 8.5. The
        // others live for two: log2(8 / (2 ln 2)) is 2.5.
        assert_eq!((hot, cold), (8, 2));
    }

    #[test]
    fn a_sequence_keeps_its_handle_while_others_run() {
        let mut requests = vec![write(0, 2_040, 0); 4];
        requests.push(write(2_040, 8, 0));
        requests.push(write(1 << 16, 8, 0));
        requests.push(write(2_048, 8, 0));
        let placed = classify(requests, 4, DRIVE).map(|r| r.placement.0);
        assert_eq!(placed.collect::<Vec<_>>(), [0, 0, 1, 1, 1, 0, 1]);
    }

    #[test]
    fn origins_get_handles_in_order_and_share_the_last() {
        let requests = [5, 3, 5, 9, 1, 9].map(|o| write(0, 8, o));
        let placed: Vec<u16> = by_origins(requests, 3).map(|r| r.placement.0).collect();
        assert_eq!(placed, [0, 1, 0, 2, 2, 2]);
    }

    #[test]
    fn none_clears_and_own_keeps() {
        let place = |placing| Placer::new(placing, DRIVE).place(write(0, 8, 0)).placement;
        assert_eq!(place(Placing::None), Placement(0));
        assert_eq!(place(Placing::Own), Placement(9));
    }
}
