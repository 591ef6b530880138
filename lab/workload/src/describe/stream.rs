//! Requests of a workload on one drive.
//!
//! Invariants: times never go back; in a closed loop the members of a phase take turns in
//! proportion to their depth, in an open loop in the order of their times; a phase begins when the
//! phase before it is exhausted.

use super::recorded::Passes;
use super::{Pacing, Part, Source, Workload, WorkloadError};
use crate::classify::Placer;
use crate::generate::{LogsIter, NoRoom, SyntheticIter};
use crate::request::{Labels, Request};
use crate::trace::{Notes, TraceError};
use sim::Seed;
use std::collections::VecDeque;
use units::{Bytes, Extent, Ns};

/// Requests of a workload, in the order of issue.
pub struct Stream {
    running: Running,
    placer: Placer,
}

enum Running {
    Trace(Box<Passes>),
    Phases(Phases),
}

impl Workload {
    /// The requests of this workload on a drive of `capacity`, with `seed` for its random choices.
    ///
    /// # Errors
    /// If the drive is too small or the trace cannot be opened.
    pub fn open(&self, capacity: Bytes, seed: Seed) -> Result<Stream, WorkloadError> {
        let running = match &self.source {
            Source::Trace(recorded) => Running::Trace(Box::new(recorded.open(capacity)?)),
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
    /// Names of the origins that requests carry. A trace adds an origin when it first meets it.
    #[must_use]
    pub fn labels(&self) -> &Labels {
        match &self.running {
            Running::Trace(passes) => passes.labels(),
            Running::Phases(phases) => &phases.labels,
        }
    }

    /// Deviations from a trace so far (requests folded, widened, skipped); none for other
    /// workloads.
    #[must_use]
    pub fn notes(&self) -> Notes {
        match &self.running {
            Running::Trace(passes) => passes.notes(),
            Running::Phases(_) => Notes::default(),
        }
    }
}

impl Iterator for Stream {
    type Item = Result<Request, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = match &mut self.running {
            Running::Trace(passes) => passes.next()?,
            Running::Phases(phases) => Ok(phases.next()?),
        };
        Some(next.map(|request| self.placer.place(request)))
    }
}

/// Folds `extent` onto a drive of `room` sectors: its start modulo the room, moved back so that it
/// ends within the drive, and cut to the length of the drive.
pub(super) fn fold(extent: Extent, room: u64) -> Extent {
    if extent.end() <= room {
        return extent;
    }
    let sectors = u64::from(extent.sectors).min(room) as u32;
    let last = room - u64::from(sectors);
    let start = extent.start.0.checked_rem(room).unwrap_or(0);
    Extent::new(start.min(last), sectors)
}

/// Groups of generators, which run one group after the other.
struct Phases {
    phases: VecDeque<Vec<Member>>,
    labels: Labels,
    /// Whether members take turns in the order of their request times, not by weight.
    open: bool,
    /// Time at which the running phase began.
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

/// The member that `part` describes, or none if it yields no request.
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

/// The member whose turn is next, by smooth weighted round robin.
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

/// Takes the next request of member `turn`; removes a member that has no more.
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
    fn extent_past_the_end_is_folded_back() {
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
