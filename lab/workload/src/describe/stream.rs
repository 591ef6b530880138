//! The requests of a workload on one drive.
//!
//! Invariants: times never go back; in a closed loop the members of a phase
//! take turns in proportion to their depth, in an open one by their times; a
//! phase begins when the one before is done.

use super::{Pacing, Part, Source, Workload, WorkloadError};
use crate::classify::Placer;
use crate::generate::{LogsIter, NoRoom, SyntheticIter};
use crate::request::{Labels, Request};
use crate::trace::{Notes, Trace, TraceError};
use sim::Seed;
use std::collections::VecDeque;
use units::{Bytes, Extent, Ns, SECTOR};

/// The requests of a workload, one by one.
pub struct Stream {
    running: Running,
    placer: Placer,
}

enum Running {
    Trace {
        trace: Box<Trace>,
        /// Sectors onto which requests are folded.
        room: u64,
        /// How many have been.
        wrapped: u64,
    },
    Phases(Phases),
}

impl Workload {
    /// The requests of this workload on a drive of `capacity`.
    ///
    /// # Errors
    /// If the drive is too small or the trace cannot be opened.
    pub fn open(&self, capacity: Bytes, seed: Seed) -> Result<Stream, WorkloadError> {
        let running = match &self.source {
            Source::Trace {
                path,
                format,
                options,
                wrap,
            } => Running::Trace {
                trace: Box::new(Trace::open(path, *format, *options)?),
                room: if *wrap { capacity.0 / SECTOR } else { u64::MAX },
                wrapped: 0,
            },
            Source::Phases(phases) => {
                let open = self.pacing == Pacing::Open;
                Running::Phases(Phases::new(phases, open, capacity, seed)?)
            }
        };
        Ok(Stream {
            running,
            placer: Placer::new(self.placing, capacity),
        })
    }
}

impl Stream {
    /// Who asks. Of a trace, those that have been met so far.
    #[must_use]
    pub fn labels(&self) -> &Labels {
        match &self.running {
            Running::Trace { trace, .. } => trace.labels(),
            Running::Phases(phases) => &phases.labels,
        }
    }

    /// What of a trace was not taken over as it stands, so far.
    #[must_use]
    pub fn notes(&self) -> Notes {
        match &self.running {
            Running::Trace { trace, wrapped, .. } => Notes {
                wrapped: *wrapped,
                ..*trace.notes()
            },
            Running::Phases(_) => Notes::default(),
        }
    }
}

impl Iterator for Stream {
    type Item = Result<Request, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = match &mut self.running {
            Running::Trace {
                trace,
                room,
                wrapped,
            } => trace.next()?.map(|request| {
                let extent = fold(request.extent, *room);
                *wrapped += u64::from(extent != request.extent);
                Request { extent, ..request }
            }),
            Running::Phases(phases) => Ok(phases.next()?),
        };
        Some(next.map(|request| self.placer.place(request)))
    }
}

/// `extent` on a drive of `room` sectors: its start modulo the room, moved so
/// that it ends with the drive at the latest, and no longer than the drive.
fn fold(extent: Extent, room: u64) -> Extent {
    if extent.end() <= room {
        return extent;
    }
    let sectors = u64::from(extent.sectors).min(room) as u32;
    let last = room - u64::from(sectors);
    let start = extent.start.0.checked_rem(room).unwrap_or(0);
    Extent::new(start.min(last), sectors)
}

/// Groups of generators, one group after the other.
struct Phases {
    phases: VecDeque<Vec<Member>>,
    labels: Labels,
    /// Whether members are ordered by the times of their requests.
    open: bool,
    /// When the running phase began.
    start: Ns,
    last: Ns,
}

struct Member {
    requests: Box<dyn Iterator<Item = Request>>,
    next: Request,
    weight: i64,
    credit: i64,
}

impl Phases {
    fn new(phases: &[Vec<Part>], open: bool, capacity: Bytes, seed: Seed) -> Result<Self, NoRoom> {
        let mut labels = Labels::default();
        let mut members = VecDeque::new();
        for phase in phases {
            let made = phase
                .iter()
                .map(|part| member(part, &mut labels, capacity, seed));
            let made: Vec<Option<Member>> = made.collect::<Result<_, _>>()?;
            members.push_back(made.into_iter().flatten().collect());
        }
        Ok(Self {
            phases: members,
            labels,
            open,
            start: Ns::ZERO,
            last: Ns::ZERO,
        })
    }

    fn next(&mut self) -> Option<Request> {
        while self.phases.front()?.is_empty() {
            self.phases.pop_front();
            self.start = self.last;
        }
        let phase = self.phases.front_mut()?;
        let turn = if self.open {
            earliest(phase)
        } else {
            next_turn(phase)
        };
        let request = take(phase, turn);
        self.last = self.start + request.at;
        Some(Request {
            at: self.last,
            ..request
        })
    }
}

/// The member that `part` makes, or none if it asks for nothing.
fn member(
    part: &Part,
    labels: &mut Labels,
    capacity: Bytes,
    seed: Seed,
) -> Result<Option<Member>, NoRoom> {
    let (mut requests, depth): (Box<dyn Iterator<Item = Request>>, u32) = match part {
        Part::Logs(logs) => (Box::new(LogsIter::new(logs, capacity, labels, seed)?), 1),
        Part::Synthetic {
            synthetic,
            depth,
            salt,
        } => {
            let origin = labels.intern(&synthetic.label);
            let seed = seed.child(*salt);
            let iter = SyntheticIter::new(synthetic, capacity, origin, seed)?;
            (Box::new(iter), *depth)
        }
    };
    Ok(requests.next().map(|next| Member {
        requests,
        next,
        weight: i64::from(depth),
        credit: 0,
    }))
}

fn earliest(phase: &[Member]) -> usize {
    let by_time = |&i: &usize| (phase[i].next.at, i);
    (0..phase.len())
        .min_by_key(by_time)
        .expect("the phase is not empty")
}

/// Whose turn it is: the member that has waited longest for its weight
/// (smooth weighted round robin).
fn next_turn(phase: &mut [Member]) -> usize {
    let total: i64 = phase.iter().map(|m| m.weight).sum();
    phase.iter_mut().for_each(|m| m.credit += m.weight);
    let by_credit = |&i: &usize| (phase[i].credit, std::cmp::Reverse(i));
    let turn = (0..phase.len())
        .max_by_key(by_credit)
        .expect("the phase is not empty");
    phase[turn].credit -= total;
    turn
}

/// The next request of member `turn`, which leaves when it has no more.
fn take(phase: &mut Vec<Member>, turn: usize) -> Request {
    let member = &mut phase[turn];
    let request = member.next;
    match member.requests.next() {
        Some(next) => member.next = next,
        None => {
            phase.remove(turn);
        }
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_past_the_end_is_folded_back() {
        let fold = |start, sectors| {
            let folded = fold(Extent::new(start, sectors), 100);
            (folded.start.0, folded.sectors)
        };
        assert_eq!(fold(92, 8), (92, 8));
        assert_eq!(fold(93, 8), (92, 8));
        assert_eq!(fold(250, 8), (50, 8));
        assert_eq!(fold(250, 800), (0, 100));
    }
}
