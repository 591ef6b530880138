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
use units::{Bytes, Ns};

/// The requests of a workload, one by one.
pub struct Stream {
    running: Running,
    placer: Placer,
}

enum Running {
    Trace(Box<Trace>),
    Phases(Phases),
}

impl Workload {
    /// The requests of this workload on a drive of `capacity`.
    ///
    /// # Errors
    /// If the drive is too small or the trace can not be read. A trace that
    /// reaches past the drive is not refused here, since nobody has read it.
    pub fn open(&self, capacity: Bytes, seed: Seed) -> Result<Stream, WorkloadError> {
        let running = match &self.source {
            Source::Trace {
                path,
                format,
                options,
            } => Running::Trace(Box::new(Trace::open(path, *format, *options)?)),
            Source::Phases(phases) => {
                let open = self.pacing == Pacing::Open;
                Running::Phases(Phases::new(phases, open, capacity, seed)?)
            }
        };
        Ok(Stream {
            running,
            placer: Placer::new(self.placing),
        })
    }
}

impl Stream {
    /// Who asks. Of a trace, those that have been met so far.
    #[must_use]
    pub fn labels(&self) -> &Labels {
        match &self.running {
            Running::Trace(trace) => trace.labels(),
            Running::Phases(phases) => &phases.labels,
        }
    }

    /// What of a trace was not taken over as it stands, so far.
    #[must_use]
    pub fn notes(&self) -> Notes {
        match &self.running {
            Running::Trace(trace) => *trace.notes(),
            Running::Phases(_) => Notes::default(),
        }
    }
}

impl Iterator for Stream {
    type Item = Result<Request, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = match &mut self.running {
            Running::Trace(trace) => trace.next()?,
            Running::Phases(phases) => Ok(phases.next()?),
        };
        Some(next.map(|request| self.placer.place(request)))
    }
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
