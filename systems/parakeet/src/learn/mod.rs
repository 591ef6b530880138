//! Learning of rules from a recording.
//!
//! Files are first grouped by the shapes of their names ([`shape`]), for which a person would write
//! rules. Each kind is split by attributes known before a file is written (flags, hints, threads,
//! programs, folders), as long as that separates lifetimes. The resulting leaves are merged into
//! streams by the lifetimes of their data and the manner of their death ([`Manner`]). The minimum
//! distance of streams, their number, and whether they have groups are chosen by [`crate::judge`]
//! on the recording itself.
//!
//! [`dbscan`] is the dissertation's method: clusters of flags and modes only.
//!
//! Invariants: the result is a function of the events. Each file of the recording is in the stream
//! that the rules assign, and printed rules can be read back.

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

/// Options of [`learn`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Name of the rule set.
    pub name: String,
    /// Number of files that justify a rule for a kind, unless these wrote much: 4, as for the
    /// dissertation's clusters.
    pub min_files: usize,
    /// Maximum number of streams: 7, as eight placement handles leave beside that of unnamed files.
    pub streams: usize,
    /// Drive that placements are tried on, with its variants; `None` derives one from the
    /// recording's size.
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

/// Result of [`learn`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Learned {
    /// Learned rules and their streams.
    pub rules: RuleSet,
    /// Comments on the rules for a reader of the file.
    pub notes: Notes,
    /// Number of files that the recording wrote.
    pub files: usize,
    /// Number of those files that no rule names.
    pub unnamed: usize,
    /// Drive that placements were tried on, beside those that are [`Device::alike`].
    pub device: Device,
    /// Blocks written on all drives without placement.
    pub without: Amplification,
    /// Blocks written on all drives with these rules.
    pub with: Amplification,
}

impl Learned {
    /// Prints the rule file, with its comments.
    #[must_use]
    pub fn print(&self) -> String {
        self.rules.print(&self.notes)
    }
}

/// Parameters for merging leaves into streams.
#[derive(Clone, Copy)]
struct Choice {
    apart: u64,
    streams: usize,
}

/// Learns rules from `events`.
///
/// # Errors
/// If the recording exceeds the limits of the model drive.
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

/// Blocks written on each of the drives that placements are tried on.
type Tried = [Amplification; ALIKE];

/// Whether a plan is better than the best known one: it relocates at least half a percent less, and
/// with more streams no more on any of the drives, since another recording of the program resembles
/// this one no more than the drives resemble each other. Or it relocates hardly more, with fewer
/// streams.
fn is_better(with: &Tried, plan: &Plan, known: &Tried, old: &Plan) -> bool {
    let moved = |tried: &Tried| tried.iter().map(|one| u128::from(one.moved)).sum::<u128>();
    let (new, before) = (moved(with) * 200, moved(known) * 200);
    let margin = moved(known);
    let streams = |plan: &Plan| plan.rules.streams.len();
    let sure = with.iter().zip(known).all(|(a, b)| a.moved <= b.moved);
    let less = new + margin < before && (sure || streams(plan) <= streams(old));
    less || (streams(plan) < streams(old) && new <= before + margin)
}

/// Parameters to try, the simplest first: each number of streams, then each minimum distance, with
/// the maximum number of streams. None has groups yet.
fn choices(streams: usize) -> impl Iterator<Item = Choice> {
    let any = (1..=streams.max(1)).map(|streams| (1, streams));
    let far = [2 * STEPS, STEPS, STEPS / 2].map(move |apart| (apart, streams));
    any.chain(far)
        .map(|(apart, streams)| Choice { apart, streams })
}

/// Tries each stream with groups instead of none, and keeps the better plan.
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

/// A leaf, and the kind that it was split from.
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

/// Whether most of the data of a stream were written in place. Such files persist, and groups would
/// spread them over targets by the accident of opening order.
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

/// Rules, and the files that led to them.
#[derive(Clone, Debug, Default)]
struct Plan {
    rules: RuleSet,
    /// Indices of the files of each stream.
    of_stream: Vec<Vec<usize>>,
    /// Whether each stream is written in place.
    in_place: Vec<bool>,
    /// Indices of the files of each rule.
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

    /// Adds the rule of a part. Drops preceding rules that lead to the same stream and only test
    /// more.
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

/// Whether `rule` has no tests but patterns, which include those of `other`.
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

/// The last word of a pattern, mostly its extension; empty if it has none with letters.
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
