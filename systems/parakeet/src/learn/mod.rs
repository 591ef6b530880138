//! Learning rules from a recorded run.
//!
//! Files are first taken by the shapes of their names ([`shape`]), which is what a person
//! would write a rule for. Each kind is taken apart by what is known before a file is
//! written (flags, hints, threads, programs, folders), as long as that tells lifetimes
//! apart. What is then left over is put together to streams by how long its data live and
//! by how they end ([`Manner`]). How far apart streams must be, how many there are and
//! whether they have groups is chosen by [`crate::judge`] on the recording itself.
//!
//! [`dbscan`] is what the dissertation does instead: flags and modes, and nothing else.
//!
//! Invariants: the outcome is a function of the events; each file of the recording is in
//! the stream that the rules say, and the rules can be read back as they are printed.

pub mod dbscan;
mod kinds;
mod lives;
mod merge;
mod online;
mod report;
pub mod shape;
mod survive;
mod tree;

pub use lives::{FileLife, Manner, Span, lives};
pub use online::{Online, OnlineLimits};
pub use survive::median;

use crate::directive::{Grouping, Stream, StreamId};
use crate::event::Event;
use crate::judge::{self, ALIKE, Amplification, Bench, Device, JudgeError};
use crate::rules::{Glob, Notes, Rule, RuleSet};
use crate::scale::STEPS;
use crate::translate::ranks;
use kinds::{Kind, kinds, weight};
use merge::{Point, merge};
use std::collections::BTreeMap;
use survive::taken;
use tree::{Case, Growth, Leaf, Test, grow};

/// What learning is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What the rules are called.
    pub name: String,
    /// Files of a kind that make it worth a rule, unless they wrote much: 4, as in the
    /// dissertation's clusters.
    pub min_files: usize,
    /// Streams, at most: 7, which eight placement handles have beside the one of unnamed
    /// files.
    pub streams: usize,
    /// The drive that placements are tried on, with those alike; one for the size of the
    /// recording without.
    pub device: Option<Device>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: "learned".to_owned(),
            min_files: 4,
            streams: 7,
            device: None,
        }
    }
}

/// What was learned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Learned {
    /// The rules.
    pub rules: RuleSet,
    /// What a reader of them wants to know.
    pub notes: Notes,
    /// Files of the recording that were written.
    pub files: usize,
    /// Those of them that no rule names.
    pub unnamed: usize,
    /// The drive that placements were tried on, beside those that are [`Device::alike`].
    pub device: Device,
    /// What they write when nothing is told apart.
    pub without: Amplification,
    /// What they write by these rules.
    pub with: Amplification,
}

impl Learned {
    /// The rule file, with its notes.
    #[must_use]
    pub fn print(&self) -> String {
        self.rules.print(&self.notes)
    }
}

/// A way to make streams of leaves.
#[derive(Clone, Copy)]
struct Choice {
    apart: u64,
    streams: usize,
}

/// Learns rules from `events`.
///
/// # Errors
/// If there is more in them than can be judged.
pub fn learn<'a>(
    events: &(impl Iterator<Item = Event<'a>> + Clone),
    options: &Options,
) -> Result<Learned, JudgeError> {
    let files = lives(events.clone());
    let device = match options.device {
        Some(device) => device,
        None => Device::for_peak(judge::peak(events.clone())?),
    };
    let bench = Bench::new(device.alike(), events.clone())?;
    let without = bench.try_none(events.clone())?;
    let kinds = kinds(&files, options.min_files);
    let parts = parts(&files, &kinds, options.min_files);
    let mut best: Option<(Tried, Plan)> = None;
    let mut tried: Vec<RuleSet> = Vec::new();
    for choice in choices(options.streams) {
        let plan = Plan::new(&files, &kinds, &parts, choice, &options.name);
        if tried.contains(&plan.rules) {
            continue;
        }
        tried.push(plan.rules.clone());
        let with = bench.try_rules(&plan.rules, events.clone())?;
        let better = best
            .as_ref()
            .is_none_or(|(known, old)| is_better(&with, &plan, known, old));
        if better {
            best = Some((with, plan));
        }
    }
    let (mut with, mut plan) = best.unwrap_or_default();
    refine(&bench, events, &mut with, &mut plan)?;
    let unnamed = files.len() - kinds.iter().map(|kind| kind.files.len()).sum::<usize>();
    let mut learned = Learned {
        rules: plan.rules.clone(),
        notes: Notes::default(),
        files: files.len(),
        unnamed,
        device,
        without: without.into_iter().sum(),
        with: with.into_iter().sum(),
    };
    learned.notes = report::notes(&learned, &files, &plan);
    Ok(learned)
}

/// What was written on each of the drives that placements are tried on.
type Tried = [Amplification; ALIKE];

/// Whether a plan moves less: by half a percent at least, and with more streams on each of
/// the drives, since another recording of the same program is no more like this one than
/// those drives are like each other; or hardly more, with fewer streams.
fn is_better(with: &Tried, plan: &Plan, known: &Tried, old: &Plan) -> bool {
    let moved = |tried: &Tried| tried.iter().map(|one| u128::from(one.moved)).sum::<u128>();
    let (new, before) = (moved(with) * 200, moved(known) * 200);
    let margin = moved(known);
    let streams = |plan: &Plan| plan.rules.streams.len();
    let sure = with.iter().zip(known).all(|(a, b)| a.moved <= b.moved);
    let less = new + margin < before && (sure || streams(plan) <= streams(old));
    less || (streams(plan) < streams(old) && new <= before + margin)
}

/// The ways that are tried, the plainest first: any number of streams, then those that are so
/// far apart, however many that makes. None has groups yet.
fn choices(streams: usize) -> impl Iterator<Item = Choice> {
    let any = (1..=streams.max(1)).map(|streams| (1, streams));
    let far = [2 * STEPS, STEPS, STEPS / 2].map(move |apart| (apart, streams));
    any.chain(far)
        .map(|(apart, streams)| Choice { apart, streams })
}

/// Tries each stream by itself with groups instead of none, and keeps what is better.
fn refine<'a>(
    bench: &Bench<ALIKE>,
    events: &(impl Iterator<Item = Event<'a>> + Clone),
    with: &mut Tried,
    plan: &mut Plan,
) -> Result<(), JudgeError> {
    for stream in 0..plan.rules.streams.len() {
        if plan.in_place[stream] {
            continue;
        }
        let mut other = plan.clone();
        other.rules.streams[stream].grouping = Grouping::default();
        let found = bench.try_rules(&other.rules, events.clone())?;
        if is_better(&found, &other, with, plan) {
            (*with, *plan) = (found, other);
        }
    }
    Ok(())
}

/// A leaf, and the kind it is of.
struct Part {
    kind: usize,
    leaf: Leaf,
    point: Point,
}

fn parts(files: &[FileLife], kinds: &[Kind], min_files: usize) -> Vec<Part> {
    let case = |file| Case {
        file,
        life: taken(file.span()),
        weight: weight(file),
    };
    let cases: Vec<Case<'_>> = files.iter().map(case).collect();
    let growth = Growth {
        min_files: min_files.max(1),
        apart: STEPS,
        depth: 3,
    };
    let mut parts = Vec::new();
    for (at, kind) in kinds.iter().enumerate() {
        for leaf in grow(&cases, kind.files.clone(), growth) {
            let point = point(&cases, &leaf);
            parts.push(Part {
                kind: at,
                leaf,
                point,
            });
        }
    }
    parts
}

fn point(cases: &[Case<'_>], leaf: &Leaf) -> Point {
    let (mut weight, mut sum) = (0_u128, 0_u128);
    let mut manners: BTreeMap<Manner, u128> = BTreeMap::new();
    for &at in &leaf.cases {
        let case = &cases[at];
        let own = u128::from(case.weight);
        weight += own;
        sum += own * u128::from(case.life);
        *manners.entry(case.file.manner()).or_default() += own;
    }
    let small = |value: u128| u64::try_from(value).unwrap_or(u64::MAX);
    let most = manners.into_iter().max_by_key(|&(_, weight)| weight);
    Point {
        life: small(sum / weight.max(1)),
        weight: small(weight),
        manner: most.map_or(Manner::Whole, |(manner, _)| manner),
    }
}

/// Whether most of what was written to a stream was so in place. Its files stay, and groups of
/// them would be put on targets by the chance of who was opened when.
fn in_place(points: impl Iterator<Item = Point>) -> bool {
    let (mut whole, mut other) = (0_u64, 0_u64);
    for point in points {
        let sum = match point.manner {
            Manner::Whole => &mut whole,
            Manner::InOrder | Manner::Scattered => &mut other,
        };
        *sum = sum.saturating_add(point.weight);
    }
    other > whole
}

/// Rules, and what led to them.
#[derive(Clone, Debug, Default)]
struct Plan {
    rules: RuleSet,
    /// The files of each stream.
    of_stream: Vec<Vec<usize>>,
    /// Whether each stream is written in place.
    in_place: Vec<bool>,
    /// The files of each rule.
    of_rule: Vec<Vec<usize>>,
}

impl Plan {
    fn new(files: &[FileLife], kinds: &[Kind], parts: &[Part], choice: Choice, name: &str) -> Self {
        let points: Vec<Point> = parts.iter().map(|part| part.point).collect();
        let streams = merge(&points, choice.apart, choice.streams);
        let count = streams.iter().max().map_or(0, |last| last + 1);
        let mut plan = Self {
            of_stream: vec![Vec::new(); count],
            ..Self::default()
        };
        plan.rules.name = name.to_owned();
        for (part, &stream) in parts.iter().zip(&streams) {
            plan.of_stream[stream].extend(&part.leaf.cases);
            plan.add(&kinds[part.kind], part, stream);
        }
        for stream in 0..count {
            let own = || parts.iter().zip(&streams).filter(|(_, of)| **of == stream);
            let heaviest = own().max_by_key(|(part, _)| part.point.weight);
            let kind = heaviest.map(|(part, _)| &kinds[part.kind]);
            let wanted = kind.map_or_else(String::new, |kind| word(&kind.pattern));
            let name = plan.free_name(&wanted);
            let in_place = in_place(own().map(|(part, _)| part.point));
            let stream = plan.stream(files, stream, name);
            plan.in_place.push(in_place);
            plan.rules.streams.push(stream);
        }
        let lives = ranks(&plan.rules.streams);
        for (stream, life) in plan.rules.streams.iter_mut().zip(lives) {
            stream.life = Some(life);
        }
        plan
    }

    /// Adds the rule of a part. The one before is not needed if it leads to the same
    /// stream and asks for the same and more.
    fn add(&mut self, kind: &Kind, part: &Part, stream: usize) {
        let mut rule = rule(kind, &part.leaf.tests);
        rule.stream = u16::try_from(stream).ok().map(StreamId);
        let mut files = part.leaf.cases.clone();
        if part.leaf.tests.is_empty() {
            while self
                .rules
                .rules
                .last()
                .is_some_and(|last| last.stream == rule.stream && covers(&rule, last))
            {
                self.rules.rules.pop();
                files.extend(self.of_rule.pop().unwrap_or_default());
            }
        }
        self.rules.rules.push(rule);
        self.of_rule.push(files);
    }

    fn stream(&self, files: &[FileLife], stream: usize, name: String) -> Stream {
        let own = &self.of_stream[stream];
        let all: u64 = self
            .of_stream
            .iter()
            .flatten()
            .map(|&at| weight(&files[at]))
            .sum();
        let wrote: u64 = own.iter().map(|&at| weight(&files[at])).sum();
        let share = u128::from(wrote) * 100 / u128::from(all.max(1));
        Stream {
            name,
            life: None,
            expect: Some(report::expect(files, own)),
            share: u32::try_from(share).unwrap_or(100).max(1),
            hint: None,
            grouping: Grouping::One,
        }
    }

    fn free_name(&self, wanted: &str) -> String {
        let wanted = if wanted.is_empty() || wanted == "none" {
            "files"
        } else {
            wanted
        };
        let mut name = wanted.to_owned();
        let mut number = 2;
        while self.rules.stream(&name).is_some() {
            name = format!("{wanted}-{number}");
            number += 1;
        }
        name
    }
}

/// Whether all that `rule` asks for is a pattern that `other` asks for too.
fn covers(rule: &Rule, other: &Rule) -> bool {
    let bare = Rule {
        paths: rule.paths.clone(),
        stream: rule.stream,
        ..Rule::default()
    };
    let inner = |path: &Glob| {
        let within = |of: &Glob| of == path || path.as_str().ends_with(&format!("/{of}"));
        rule.paths.iter().any(within)
    };
    *rule == bare && other.paths.iter().all(inner)
}

/// The first word of a pattern from its end: its extension, or what there is.
fn word(pattern: &str) -> String {
    let mut words = pattern.split(|c: char| !c.is_ascii_alphanumeric());
    let last = words.rfind(|word| word.chars().any(|c| c.is_ascii_alphabetic()));
    last.unwrap_or_default().to_ascii_lowercase()
}

fn rule(kind: &Kind, tests: &[Test]) -> Rule {
    let mut rule = Rule::default();
    let mut folder = kind.folder.clone();
    let glob = |text: &str| Glob::new(text).ok();
    for test in tests {
        match test {
            Test::Hint(hint) => rule.hints.push(*hint),
            Test::Flag(word) => {
                rule.require(word);
            }
            Test::Thread(name) => rule.threads.extend(glob(name)),
            Test::Program(name) => rule.programs.extend(glob(name)),
            Test::Folder(name) => folder = Some(name.clone()),
            Test::Mode(mode) => rule.modes.push(*mode),
        }
    }
    for name in std::iter::once(&kind.pattern).chain(&kind.later) {
        let whole = match &folder {
            Some(folder) if !name.contains('/') => format!("{folder}/{name}"),
            _ => name.clone(),
        };
        rule.paths.extend(glob(&whole).or_else(|| glob(name)));
    }
    rule
}
