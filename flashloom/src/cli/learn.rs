//! `learn`: placement rules from a recording.

use super::Answer;
use super::failure::Failure;
use super::file::{beside, check_other};
use super::output::Shown;
use clap::Args;
use parakeet::event::Event;
use parakeet::judge::{ALIKE, Amplification, Bench, Device, Errors, errors, peak};
use parakeet::learn::dbscan::{Clusters, Reading};
use parakeet::learn::{Learned, Online, OnlineLimits, Options, learn};
use parakeet::rules::{RuleSet, sets};
use parakeet::translate::{Fdp, HintMap, HintPlan, Loss, NvmeStreams, ZonePools};
use report::Style;
use report::human;
use report::table::facts;
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use workload::files::placed;
use workload::files::trace::{FileTrace, LoadedFiles};
use workload::shipped::Asked;

/// Learn placement rules from the file lifetimes of a recorded run
///
/// For comparison, the output also shows the clusters that the method of Parakeet's dissertation
/// finds: DBSCAN over the flags and modes of open calls.
#[derive(Args)]
pub(crate) struct Learn {
    /// Recording of file calls, or the name of a shipped one
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Output file of the rules
    #[arg(short, long, value_name = "RULES")]
    out: PathBuf,
    /// Maximum number of streams; one of eight placement handles serves files without a rule, which
    /// leaves 7
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..=255))]
    streams: u16,
    /// Test the rules on this other recording
    #[arg(long, value_name = "TRACE")]
    on: Option<PathBuf>,
    /// Compare with these rules: a file, or the name of a shipped set
    #[arg(long, value_name = "RULES")]
    against: Vec<String>,
    /// Rule by which DBSCAN turns flags and modes of open calls, in binary digits, into numbers:
    /// `decimal` reads the digits as a decimal number, `integer` as a binary one
    #[arg(long, value_name = "READING", default_value = "decimal", value_parser = reading)]
    reading: Reading,
    #[command(flatten)]
    shown: Shown,
}

fn reading(text: &str) -> Result<Reading, String> {
    match text {
        "decimal" => Ok(Reading::Decimal),
        "integer" => Ok(Reading::Integer),
        _ => Err("expected decimal or integer".to_owned()),
    }
}

/// JSON document of `learn`.
#[derive(Serialize)]
struct Found {
    trace: String,
    rules: String,
    files: usize,
    unnamed_files: usize,
    rule_count: usize,
    streams: Vec<Stream>,
    /// File kinds per DBSCAN cluster of flags and modes, as in the dissertation.
    clusters: Vec<Vec<String>>,
    tried_on: String,
    /// Write amplification on small models of drives.
    write_amplification: Vec<Tried>,
    lifetimes: Lifetimes,
    /// Parts of the rules that an interface cannot express, one sentence each.
    lost: Vec<Lost>,
}

/// Interface and the parts of the streams that it cannot express.
#[derive(Serialize)]
struct Lost {
    interface: &'static str,
    what: Vec<String>,
}

impl Lost {
    /// For each interface, with the resources of the generic presets.
    fn all(streams: &[parakeet::directive::Stream]) -> Vec<Self> {
        let lost = |interface, what: Vec<Loss>| Self {
            interface,
            what: what.iter().map(ToString::to_string).collect(),
        };
        vec![
            lost("hints", HintPlan::new(streams, HintMap::ByName).lost()),
            lost("8 streams", NvmeStreams::new(streams, HANDLES).lost()),
            lost("8 handles", Fdp::new(streams, HANDLES, 1).lost()),
            lost("14 zones", ZonePools::new(streams, OPEN_ZONES).lost()),
        ]
    }
}

/// Streams or handles of the generic drives; below, their open zones.
const HANDLES: u16 = 8;
const OPEN_ZONES: u32 = 14;

#[derive(Serialize)]
struct Stream {
    name: String,
    life: Option<&'static str>,
    expect_ns: Option<u64>,
    share_percent: u32,
}

#[derive(Serialize)]
struct Tried {
    by: String,
    ratio: f64,
}

impl Tried {
    /// The write amplification over all drives together.
    fn on(by: &str, drives: [Amplification; ALIKE]) -> Self {
        let all: Amplification = drives.into_iter().sum();
        Self {
            by: by.to_owned(),
            ratio: all.per_mille() as f64 / 1000.0,
        }
    }
}

/// Error of expected against observed lifetimes.
#[derive(Serialize)]
struct Lifetimes {
    files: u64,
    outlived: u64,
    unknown: u64,
    median_factor: f64,
}

impl From<Errors> for Lifetimes {
    fn from(errors: Errors) -> Self {
        Self {
            files: errors.files,
            outlived: errors.outlived,
            unknown: errors.unknown,
            median_factor: errors.median_per_mille as f64 / 1000.0,
        }
    }
}

impl Learn {
    pub(crate) fn run(&self) -> Answer {
        let against = self.against.iter().map(|name| rules(name));
        let against: Vec<RuleSet> = against.collect::<Result<_, _>>()?;
        let read = [Some(self.trace.as_path()), self.on.as_deref()];
        let read = read.into_iter().flatten();
        check_other(&self.out, read.chain(self.against.iter().map(Path::new)))?;
        let recording = load(&self.trace)?;
        let events = placed(&recording);
        let options = Options {
            name: stem(&self.out),
            streams: usize::from(self.streams),
            ..Options::default()
        };
        let learned = learn(&events.iter().copied(), &options)?;
        write(&self.out, &learned.print())?;
        let clusters = Clusters::of(events.iter().copied(), self.reading);
        let learned = (&learned, clusters);
        let found = match &self.on {
            None => self.found(learned, &self.trace, &events, &against)?,
            Some(path) => {
                let other = load(path)?;
                self.found(learned, path, &placed(&other), &against)?
            }
        };
        let text = |style| page(&found, style);
        self.shown.answer("flashloom.learn/1", &found, text)
    }

    fn found(
        &self,
        (learned, mut clusters): (&Learned, Clusters),
        tried_on: &Path,
        events: &[Event<'_>],
        against: &[RuleSet],
    ) -> Result<Found, Failure> {
        let all = || events.iter().copied();
        let bench = Bench::new(Device::for_peak(peak(all())?).alike(), all())?;
        let mut tried = vec![Tried::on("nothing", bench.try_none(all())?)];
        let named = against.iter().zip(&self.against);
        let named = named.map(|(rules, name)| (rules, name.as_str()));
        for (rules, name) in named.chain([(&learned.rules, "what was learned")]) {
            tried.push(Tried::on(name, bench.try_rules(rules, all())?));
        }
        let by_flags = bench.try_by(all(), |event| clusters.tell(event))?;
        tried.push(Tried::on("clusters", by_flags));
        // Online learning starts without any knowledge.
        let mut online = Online::new(OnlineLimits::default());
        let running = bench.try_by(all(), |event| {
            let told = online.tell(event);
            told.map_or(0, |directive| u32::from(directive.stream.0))
        })?;
        tried.push(Tried::on("learning meanwhile", running));
        let stream = |stream: &parakeet::directive::Stream| Stream {
            name: stream.name.clone(),
            life: stream.life.map(parakeet::directive::Life::word),
            expect_ns: stream.expect.map(|expect| expect.0),
            share_percent: stream.share,
        };
        Ok(Found {
            trace: self.trace.display().to_string(),
            rules: self.out.display().to_string(),
            files: learned.files,
            unnamed_files: learned.unnamed,
            rule_count: learned.rules.rules.len(),
            streams: learned.rules.streams.iter().map(stream).collect(),
            clusters: clusters
                .kinds()
                .map(|kinds| kinds.iter().cloned().collect())
                .collect(),
            tried_on: tried_on.display().to_string(),
            write_amplification: tried,
            lifetimes: errors(&learned.rules, all()).into(),
            lost: Lost::all(&learned.rules.streams),
        })
    }
}

/// Loads the recording at `path`.
fn load(path: &Path) -> Result<LoadedFiles, Failure> {
    let asked = Asked::new(&path.to_string_lossy())?;
    let trace = FileTrace::open(&asked.text).and_then(FileTrace::load);
    trace.map_err(|error| Failure::new(asked.named(&error.to_string())))
}

fn unready() -> String {
    let names: Vec<&str> = sets::ALL.iter().map(|(name, _)| *name).collect();
    format!(
        "expected a file, or the name of a shipped rule set: {}",
        names.join(", ")
    )
}

/// The rules of a shipped set, or of a file.
pub(crate) fn rules(name: &str) -> Result<RuleSet, Failure> {
    let path = Path::new(name);
    let ready = sets::text(name).filter(|_| !path.is_file());
    let text = match ready {
        Some(text) => text.to_owned(),
        None => std::fs::read_to_string(path).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => Failure::at(path, unready()),
            _ => Failure::at(path, e),
        })?,
    };
    Ok(RuleSet::read(name, &text)?)
}

fn stem(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let mut file = beside(path)?;
    file.write_all(text.as_bytes())?;
    file.finish()
}

fn page(found: &Found, style: Style) -> String {
    let stream = |stream: &Stream| {
        let life = stream
            .expect_ns
            .map_or_else(String::new, |ns| format!(" {}", human::time(ns as f64)));
        format!("{}{life}", stream.name)
    };
    let streams: Vec<String> = found.streams.iter().map(stream).collect();
    let mut rows = vec![
        ("rules", format!("{}: {}", found.rules, found.rule_count)),
        ("from", found.trace.clone()),
        (
            "files",
            format!("{}, {} without a rule", found.files, found.unnamed_files),
        ),
        ("streams", streams.join(", ")),
        ("clusters", clusters(&found.clusters)),
        ("tested on", found.tried_on.clone()),
    ];
    let tried = found.write_amplification.iter();
    let tried: Vec<String> = tried
        .map(|t| format!("{:.2} {}", t.ratio, placement(&t.by)))
        .collect();
    rows.push(("WAF", tried.join(", ")));
    if found.lifetimes.files > 0 {
        let factor = found.lifetimes.median_factor;
        rows.push((
            "lifetimes",
            format!("median error: a factor of {factor:.1}"),
        ));
    }
    for lost in &found.lost {
        rows.push((lost.interface, told(&lost.what)));
    }
    facts(rows, style)
}

/// The placement of files that `by` names in the JSON document, in words.
fn placement(by: &str) -> String {
    match by {
        "nothing" => "without rules".to_owned(),
        "what was learned" => "with the learned rules".to_owned(),
        "clusters" => "with the clusters".to_owned(),
        "learning meanwhile" => "with online learning".to_owned(),
        rules => format!("with {rules}"),
    }
}

/// The clusters of flags and modes, as the text of one cell.
fn clusters(kinds: &[Vec<String>]) -> String {
    let each: Vec<String> = kinds.iter().map(|kinds| kinds.join(" ")).collect();
    match each.as_slice() {
        [] => "none by flags and modes".to_owned(),
        each => format!("{} by flags and modes: {}", each.len(), each.join("; ")),
    }
}

/// The parts that cannot be expressed, as the text of one cell.
fn told(what: &[String]) -> String {
    match what {
        [] => "expresses all streams".to_owned(),
        some => some.join("; "),
    }
}
