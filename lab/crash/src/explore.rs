//! The explorer: runs a subject once, cuts its power at chosen events and judges each
//! recovery.

use crate::points::{Cut, Points};
use sim::{Kernel, Seed};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::ops::ControlFlow;

/// Most failures that are kept with their sentence; further ones are only counted. Losses of the
/// medium have a limit of their own, so that they do not displace broken promises.
const KEPT: usize = 100;
const KEPT_MEDIA: usize = 10;

/// Events between two measurements of the memory of a run. A measurement walks the whole history,
/// and one event adds little to it. A choice of ours.
const MEASURED: u64 = 4096;

/// Recoveries that are kept: of the last state of the run, and of some states that cuts of its
/// recovery left. They share the media with the run. A choice of ours.
const RECENT: usize = 4;

/// A system whose power is cut.
pub trait Subject {
    /// A running system with the history of its calls.
    type Live;
    /// State that survives without power. Recoveries from equal states are equal.
    type Left: Clone + PartialEq;
    /// A system that recovers.
    type Recovering: Recovering<Left = Self::Left>;

    /// Starts the system and its workload as tasks of `kernel`.
    fn start(&self, kernel: &Kernel) -> Self::Live;

    /// Whether the workload has come to its end.
    fn is_done(&self, live: &Self::Live) -> bool;

    /// Bounds of a run and of a recovery.
    fn bounds(&self) -> Bounds {
        Bounds::default()
    }

    /// Writes and forces of the run that have failed so far.
    fn failed(&self, _live: &Self::Live) -> u64 {
        0
    }

    /// Bytes of the history that the run has recorded so far, from which recoveries are judged.
    fn memory(&self, _live: &Self::Live) -> u64 {
        0
    }

    /// State that a power cut at this instant leaves.
    fn cut(&self, live: &Self::Live) -> Self::Left;

    /// Names of conditions that a power cut at this instant meets, for the counts of the report.
    fn meets(&self, _live: &Self::Live) -> Vec<&'static str> {
        Vec::new()
    }

    /// Number of instants so far at which the run began or ended to make something durable, for
    /// [`Points::Marks`].
    fn marks(&self, _live: &Self::Live) -> u64 {
        0
    }

    /// Powers the system on from `left`, as tasks of `kernel`.
    fn power_on(&self, kernel: &Kernel, left: Self::Left) -> Self::Recovering;

    /// Judges a recovery that has ended. `live` has the promises that were made until `cut`, whose
    /// recovery was cut too if it says so. One recovery is judged for every cut that left the state from which it began, and stays as it is.
    fn judge(&self, live: &Self::Live, recovered: &Self::Recovering, cut: Cut) -> Verdict;
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
    /// The medium explains the finding: it lost this page of a file, it lost metadata, or it had no
    /// place for what recovery had to write.
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

/// Bounds of a run, and of the events of a recovery. A failing medium could keep either busy for
/// ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Events of a run, and of a recovery.
    pub events: u64,
    /// Writes and forces of a run that failed.
    pub failed: u64,
    /// Bytes of the recorded history of a run.
    pub memory: u64,
}

impl Default for Bounds {
    /// Far more than a workload of thousands of calls needs. All three are choices of ours.
    fn default() -> Self {
        Self {
            events: 20_000_000,
            failed: 20_000,
            memory: 1 << 30,
        }
    }
}

/// The bound at which a run was ended before its workload was, with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bound {
    /// The run had so many events.
    Events(u64),
    /// So many writes and forces of the run had failed.
    Failed(u64),
    /// The recorded history of the run took so many bytes.
    Memory(u64),
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Events(events) => write!(f, "{events} events"),
            Self::Failed(failed) => write!(f, "{failed} failed writes and forces"),
            Self::Memory(bytes) => write!(f, "{bytes} bytes of recorded history"),
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
    /// Recoveries that were run without a cut. A cut that leaves the same state as one shortly
    /// before shares its recovery.
    pub recovered: u64,
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
    /// Writes and forces that failed in the runs.
    pub failed_calls: u64,
    /// Cuts that met a condition of the subject, by the name of the condition.
    pub met: BTreeMap<&'static str, u64>,
    /// The first failures, at most 100, and besides the first 10 losses of the medium.
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
        self.failed_calls += other.failed_calls;
        self.points += other.points;
        self.recoveries += other.recoveries;
        self.recovered += other.recovered;
        self.recovery_events = other.recovery_events;
        self.outside += other.outside;
        self.lost += other.lost;
        self.corrupt += other.corrupt;
        self.media += other.media;
        for (&what, cuts) in &other.met {
            *self.met.entry(what).or_default() += cuts;
        }
        for failure in &other.failures {
            self.keep(failure.clone());
        }
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
            self.keep(Failure {
                cut,
                fault,
                what,
                workload: None,
            });
        }
    }

    fn keep(&mut self, failure: Failure) {
        let is_media = |failure: &Failure| failure.fault == Fault::Media;
        let media = self
            .failures
            .iter()
            .filter(|failure| is_media(failure))
            .count();
        let has_room = match is_media(&failure) {
            true => media < KEPT_MEDIA,
            false => self.failures.len() - media < KEPT,
        };
        if has_room {
            self.failures.push(failure);
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
    let (events, marks, end) = measure(subject, points, &mut found);
    (found.runs, found.events) = (1, events);
    match end {
        End::Done => {}
        End::Bound(bound) => found.bound = Some(bound),
        End::Rest => {
            let cut = Cut {
                event: events,
                recovery: None,
            };
            found.note(cut, corrupt("the workload came to rest before its end"));
        }
    }
    let chosen = points.choose(events, marks, seed);
    let kernel = Kernel::new();
    let live = subject.start(&kernel);
    let mut explorer = Explorer {
        subject,
        points,
        seed,
        found,
        recent: VecDeque::new(),
    };
    for &event in &chosen {
        while kernel.sim().events() < event && kernel.step() {}
        explorer.cut(&live, event);
        let found = &mut explorer.found;
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
    explorer.found
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

/// Events of a run that is not cut, those with a mark if `points` needs them, and how the run ends.
fn measure<S: Subject>(
    subject: &S,
    points: &Points,
    found: &mut Exploration,
) -> (u64, Vec<u64>, End) {
    let kernel = Kernel::new();
    let live = subject.start(&kernel);
    let bounds = subject.bounds();
    let is_marked = *points == Points::Marks;
    let (mut marks, mut met) = (Vec::new(), 0);
    let end = loop {
        if is_marked && subject.marks(&live) > met {
            met = subject.marks(&live);
            marks.push(kernel.sim().events());
        }
        if subject.is_done(&live) {
            break End::Done;
        }
        let events = kernel.sim().events();
        if let Some(bound) = bounds.reached(subject, &live, events) {
            break End::Bound(bound);
        }
        if !kernel.step() {
            break End::Rest;
        }
    };
    found.failed_calls = subject.failed(&live);
    (kernel.sim().events(), marks, end)
}

impl Bounds {
    /// The bound that a run has reached after so many events; none if it may go on.
    fn reached<S: Subject>(&self, subject: &S, live: &S::Live, events: u64) -> Option<Bound> {
        if events >= self.events {
            return Some(Bound::Events(self.events));
        }
        if subject.failed(live) >= self.failed {
            return Some(Bound::Failed(self.failed));
        }
        let is_measured = events.is_multiple_of(MEASURED);
        (is_measured && subject.memory(live) >= self.memory).then_some(Bound::Memory(self.memory))
    }
}

/// Cuts of one run, with their findings.
struct Explorer<'a, S: Subject> {
    subject: &'a S,
    points: &'a Points,
    seed: Seed,
    found: Exploration,
    /// The recoveries that were needed last, most recent first.
    recent: VecDeque<Recovered<S>>,
}

/// A recovery that has ended, or that never will.
struct Recovered<S: Subject> {
    /// State from which it began.
    left: S::Left,
    recovering: S::Recovering,
    /// Keeps the tasks of the recovered system.
    _kernel: Kernel,
    events: u64,
    /// Sentence that says why it did not end.
    endless: Option<String>,
}

impl<S: Subject> Explorer<'_, S> {
    /// Cuts the run before `event`, and recovery from that at one event in some cases.
    fn cut(&mut self, live: &S::Live, event: u64) {
        let left = self.subject.cut(live);
        self.found.meet(self.subject.meets(live));
        let cut = Cut {
            event,
            recovery: None,
        };
        let (events, verdict) = self.recover(live, left.clone(), cut);
        self.found.recovery_events = events;
        let wanted = self.points.recovery(event, events, self.seed);
        if wanted.is_none() || !matches!(self.points, Points::One(_)) {
            self.found.note(cut, verdict);
        }
        let Some(recovery) = wanted else { return };
        let (left, met) = cut_recovery(self.subject, left, recovery);
        self.found.meet(met);
        let recovery = Some(recovery);
        let cut = Cut { event, recovery };
        let (_, verdict) = self.recover(live, left, cut);
        self.found.note(cut, verdict);
        self.found.recoveries += 1;
    }

    /// Recovers from `left`, unless a recent recovery began with an equal state, and judges the
    /// result; returns the events of the recovery as well.
    fn recover(&mut self, live: &S::Live, left: S::Left, cut: Cut) -> (u64, Verdict) {
        let known = self.recent.iter().position(|recent| recent.left == left);
        let recovered = match known.and_then(|known| self.recent.remove(known)) {
            Some(recovered) => recovered,
            None => {
                self.found.recovered += 1;
                Recovered::from(self.subject, left)
            }
        };
        let verdict = match &recovered.endless {
            Some(what) => corrupt(what),
            None => self.subject.judge(live, &recovered.recovering, cut),
        };
        let events = recovered.events;
        self.recent.push_front(recovered);
        self.recent.truncate(RECENT);
        (events, verdict)
    }
}

impl<S: Subject> Recovered<S> {
    /// Powers on from `left` and recovers.
    fn from(subject: &S, left: S::Left) -> Self {
        let kernel = Kernel::new();
        let recovering = subject.power_on(&kernel, left.clone());
        let most = subject.bounds().events;
        let endless = loop {
            if recovering.is_done() {
                break None;
            }
            if kernel.sim().events() >= most {
                break Some(format!("recovery did not end within {most} events"));
            }
            if !kernel.step() {
                break Some("recovery came to rest before its end".to_owned());
            }
        };
        Self {
            left,
            recovering,
            events: kernel.sim().events(),
            _kernel: kernel,
            endless,
        }
    }
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
