//! The explorer: runs a subject once, cuts its power at chosen events and judges each
//! recovery.

use crate::points::{Cut, Points};
use sim::{Kernel, Seed};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::ControlFlow;

/// Most failures that are kept with their sentence; further ones are only counted.
const KEPT: usize = 100;

/// Events after which a run is ended: far more than a workload of thousands of calls has, and
/// few enough to end a run that a failing medium keeps busy for ever. A choice of ours.
const MOST_EVENTS: u64 = 20_000_000;
/// Calls that failed in a run after which it is ended. The judge keeps what each of them may
/// have left, so that without a bound memory grows for ever. A choice of ours.
const MOST_FAILED: u64 = 20_000;

/// A system whose power is cut.
pub trait Subject {
    /// A running system with the history of its calls.
    type Live;
    /// State that survives without power.
    type Left: Clone;
    /// A system that recovers.
    type Recovering: Recovering<Left = Self::Left>;

    /// Starts the system and its workload as tasks of `kernel`.
    fn start(&self, kernel: &Kernel) -> Self::Live;

    /// Whether the workload has come to its end.
    fn is_done(&self, live: &Self::Live) -> bool;

    /// Writes and forces of the run that have failed so far.
    fn failed(&self, _live: &Self::Live) -> u64 {
        0
    }

    /// State that a power cut at this instant leaves.
    fn cut(&self, live: &Self::Live) -> Self::Left;

    /// Names of conditions that a power cut at this instant meets, for the counts of the report.
    fn meets(&self, _live: &Self::Live) -> Vec<&'static str> {
        Vec::new()
    }

    /// Powers the system on from `left`, as tasks of `kernel`.
    fn power_on(&self, kernel: &Kernel, left: Self::Left) -> Self::Recovering;

    /// Judges a recovery that has ended. `live` has the promises that were made until `cut`.
    fn judge(&self, live: &Self::Live, recovered: Self::Recovering, cut: Cut) -> Verdict;
}

/// A system that recovers from a cut.
pub trait Recovering {
    /// State that survives without power.
    type Left;

    /// Whether recovery has ended, well or with an error.
    fn is_done(&self) -> bool;

    /// Names of conditions that another power cut at this instant meets.
    fn meets(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// State that another power cut at this instant leaves.
    fn cut(&self) -> Self::Left;
}

/// Kind of a broken promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A durable change is missing.
    Lost,
    /// The recovered state is one that no order of the calls explains, recovery failed, or a
    /// checker of the format found an error.
    Corrupt,
    /// A state is wrong after the medium failed to read a page in spite of all retries. The
    /// file system may be innocent of it.
    Media,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lost => "lost",
            Self::Corrupt => "corrupt",
            Self::Media => "media",
        })
    }
}

/// The bound at which a run was ended before its workload was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bound {
    /// The run had 20,000,000 events.
    Events,
    /// 20,000 writes and forces of the run had failed.
    Failed,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Events => write!(f, "{MOST_EVENTS} events"),
            Self::Failed => write!(f, "{MOST_FAILED} failed writes and forces"),
        }
    }
}

/// Findings about one cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Broken promises, one sentence each.
    pub faults: Vec<(Fault, String)>,
    /// Whether a checker that others wrote examined the state.
    pub outside: bool,
    /// Digest of the recovered state; none if it could not be read.
    pub state: Option<u64>,
}

/// A cut after which a promise was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Event of the run, and of the recovery, that was cut.
    pub cut: Cut,
    /// Kind of the broken promise.
    pub fault: Fault,
    /// Sentence that names the file and the difference.
    pub what: String,
    /// The workload of a corpus that ran; none if there was only one.
    pub workload: Option<String>,
}

/// Progress of an exploration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Points that were tried so far.
    pub points: u64,
    /// Points that are to be tried in all.
    pub of: u64,
    /// Judgements so far that found a broken promise.
    pub failures: u64,
}

/// Result of an exploration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exploration {
    /// Runs of a workload: one, or as many as a corpus and further seeds have.
    pub runs: u64,
    /// Events of the run; of several runs, their sum.
    pub events: u64,
    /// Points of the run that were tried.
    pub points: u64,
    /// Recoveries that were cut as well, each judged besides.
    pub recoveries: u64,
    /// Events of the last recovery that was not cut.
    pub recovery_events: u64,
    /// States that a checker that others wrote has examined.
    pub outside: u64,
    /// Judgements that found something lost.
    pub lost: u64,
    /// Judgements that found something corrupt.
    pub corrupt: u64,
    /// Judgements that found something wrong after the medium had lost a page.
    pub media: u64,
    /// Digests of the recovered states, of which each is counted once.
    pub states: BTreeSet<u64>,
    /// The bound that ended a run early; the points are those before it.
    pub bound: Option<Bound>,
    /// Cuts that met a condition of the subject, by the name of the condition.
    pub met: BTreeMap<&'static str, u64>,
    /// The first failures, at most 100.
    pub failures: Vec<Failure>,
}

impl Exploration {
    /// Whether no judgement found a broken promise. Losses of the medium break none.
    #[must_use]
    pub const fn holds(&self) -> bool {
        self.lost == 0 && self.corrupt == 0
    }

    /// Adds the counts and failures of `other`.
    pub fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.events += other.events;
        self.states.extend(&other.states);
        self.bound = self.bound.or(other.bound);
        self.points += other.points;
        self.recoveries += other.recoveries;
        self.recovery_events = other.recovery_events;
        self.outside += other.outside;
        self.lost += other.lost;
        self.corrupt += other.corrupt;
        self.media += other.media;
        for (&what, cuts) in &other.met {
            *self.met.entry(what).or_default() += cuts;
        }
        let room = KEPT.saturating_sub(self.failures.len());
        let kept = other.failures.iter().take(room);
        self.failures.extend(kept.cloned());
    }

    fn meet(&mut self, met: Vec<&'static str>) {
        for what in met {
            *self.met.entry(what).or_default() += 1;
        }
    }

    fn note(&mut self, cut: Cut, verdict: Verdict) {
        self.outside += u64::from(verdict.outside);
        self.states.extend(verdict.state);
        let has = |fault| verdict.faults.iter().any(|f| f.0 == fault);
        self.lost += u64::from(has(Fault::Lost));
        self.corrupt += u64::from(has(Fault::Corrupt));
        self.media += u64::from(has(Fault::Media));
        for (fault, what) in verdict.faults {
            if self.failures.len() < KEPT {
                self.failures.push(Failure {
                    cut,
                    fault,
                    what,
                    workload: None,
                });
            }
        }
    }
}

/// Cuts the power of `subject` at `points`. A run that comes to rest before its
/// end is a failure at its last event.
pub fn explore<S: Subject>(
    subject: &S,
    points: &Points,
    seed: Seed,
    progress: &mut dyn FnMut(Progress),
) -> Exploration {
    explore_while(subject, points, seed, &mut |heard| {
        progress(heard);
        ControlFlow::Continue(())
    })
}

/// Cuts the power as [`explore()`] does until `progress` breaks off; the result covers the
/// points until then.
pub fn explore_while<S: Subject>(
    subject: &S,
    points: &Points,
    seed: Seed,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Exploration {
    let mut found = Exploration::default();
    let (events, end) = length(subject);
    (found.runs, found.events) = (1, events);
    if let End::Bound(bound) = end {
        found.bound = Some(bound);
    }
    if end == End::Rest {
        let cut = Cut {
            event: events,
            recovery: None,
        };
        found.note(cut, corrupt("the workload came to rest before its end"));
    }
    let chosen = points.choose(events, seed);
    let kernel = Kernel::new();
    let live = subject.start(&kernel);
    for &event in &chosen {
        while kernel.sim().events() < event && kernel.step() {}
        try_cut(subject, &live, event, points, seed, &mut found);
        found.points += 1;
        let heard = progress(Progress {
            points: found.points,
            of: chosen.len() as u64,
            failures: found.lost + found.corrupt,
        });
        if heard.is_break() {
            break;
        }
    }
    found
}

fn corrupt(what: &str) -> Verdict {
    Verdict {
        faults: vec![(Fault::Corrupt, what.to_owned())],
        ..Verdict::default()
    }
}

/// End of a run that is not cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Done,
    /// No event is left, and the workload waits.
    Rest,
    Bound(Bound),
}

/// Events of a run that is not cut, and how it ends.
fn length<S: Subject>(subject: &S) -> (u64, End) {
    let kernel = Kernel::new();
    let live = subject.start(&kernel);
    let end = loop {
        if subject.is_done(&live) {
            break End::Done;
        }
        if kernel.sim().events() >= MOST_EVENTS {
            break End::Bound(Bound::Events);
        }
        if subject.failed(&live) >= MOST_FAILED {
            break End::Bound(Bound::Failed);
        }
        if !kernel.step() {
            break End::Rest;
        }
    };
    (kernel.sim().events(), end)
}

fn try_cut<S: Subject>(
    subject: &S,
    live: &S::Live,
    event: u64,
    points: &Points,
    seed: Seed,
    found: &mut Exploration,
) {
    let left = subject.cut(live);
    found.meet(subject.meets(live));
    let (events, verdict) = recover(subject, live, left.clone(), event);
    found.recovery_events = events;
    let wanted = points.recovery(event, events, seed);
    if wanted.is_none() || !matches!(points, Points::One(_)) {
        let recovery = None;
        found.note(Cut { event, recovery }, verdict);
    }
    let Some(recovery) = wanted else { return };
    let (left, met) = cut_recovery(subject, left, recovery);
    found.meet(met);
    let (_, verdict) = recover(subject, live, left, event);
    let recovery = Some(recovery);
    found.note(Cut { event, recovery }, verdict);
    found.recoveries += 1;
}

/// Recovers from `left` and judges the result; returns the events of the recovery as well.
fn recover<S: Subject>(subject: &S, live: &S::Live, left: S::Left, event: u64) -> (u64, Verdict) {
    let kernel = Kernel::new();
    let recovering = subject.power_on(&kernel, left);
    while !recovering.is_done() {
        if !kernel.step() {
            let events = kernel.sim().events();
            return (events, corrupt("recovery came to rest before its end"));
        }
    }
    let events = kernel.sim().events();
    let recovery = None;
    (
        events,
        subject.judge(live, recovering, Cut { event, recovery }),
    )
}

/// State that is left if recovery is cut before its event `recovery`, and the conditions
/// that this cut meets.
fn cut_recovery<S: Subject>(
    subject: &S,
    left: S::Left,
    recovery: u64,
) -> (S::Left, Vec<&'static str>) {
    let kernel = Kernel::new();
    let recovering = subject.power_on(&kernel, left);
    while kernel.sim().events() < recovery && kernel.step() {}
    (recovering.cut(), recovering.meets())
}
