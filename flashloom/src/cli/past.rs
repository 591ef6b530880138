//! Past runs: why they wrote what they wrote, which there are, how two differ.

use super::Answer;
use super::failure::Failure;
use super::output::Shown;
use super::told;
use clap::Args;
use report::record::Run;
use report::store::{Entry, Filter, Store, Stored};
use report::{Style, table};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The database that is used where none is named.
const HERE: &str = "flashloom.db";

/// Where past runs are kept.
#[derive(Args, Clone)]
pub(crate) struct Database {
    /// Database of past runs [default: $FLASHLOOM_DB, or flashloom.db here]
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
}

impl Database {
    /// Its path.
    pub(crate) fn path(&self) -> PathBuf {
        let named = || std::env::var_os("FLASHLOOM_DB").filter(|path| !path.is_empty());
        let told = self.db.clone().or_else(|| named().map(PathBuf::from));
        told.unwrap_or_else(|| PathBuf::from(HERE))
    }

    /// Whether this command line names it.
    pub(crate) const fn is_asked_for(&self) -> bool {
        self.db.is_some()
    }

    /// Whether the user named it, here or in the environment.
    pub(crate) fn is_named(&self) -> bool {
        self.path() != Path::new(HERE)
    }

    /// Opens it for reading, which never creates it.
    fn existing(&self) -> Result<Store, Failure> {
        let path = self.path();
        if !path.exists() {
            let remedy = "there are no past runs here; flashloom compare makes some, \
                          and --db names another database";
            return Err(Failure::at(&path, remedy));
        }
        Ok(Store::open(&path)?)
    }

    /// The run that `which` names: a number or `latest`.
    fn run(&self, which: &str) -> Result<Stored, Failure> {
        let store = self.existing()?;
        if which == "latest" {
            let none = || Failure::at(&self.path(), "expected a past run, found none");
            return store.latest()?.ok_or_else(none);
        }
        let id = which.parse().map_err(|_| {
            Failure::new(format!(
                "expected the number of a run or latest, found {which:?}; flashloom history lists them"
            ))
        })?;
        Ok(store.get(id)?)
    }
}

/// Show who caused what a run programmed, and what garbage collection moved
///
/// Of a drive that is served right now this is what it did since it has power.
#[derive(Args)]
pub(crate) struct Why {
    /// Number of a past run as in `flashloom history`, or `latest`, or a drive file
    #[arg(default_value = "latest")]
    run: String,
    #[command(flatten)]
    database: Database,
    #[command(flatten)]
    shown: Shown,
}

/// The document of `why`.
#[derive(Serialize)]
struct Attribution<'a> {
    run: i64,
    stack: &'a str,
    workload: &'a str,
    precondition: &'a str,
    sentences: Vec<String>,
    by_cause: &'a BTreeMap<String, u64>,
    by_cause_and_origin: &'a BTreeMap<String, BTreeMap<String, u64>>,
    reads_by_cause: &'a BTreeMap<String, u64>,
    errors: &'a BTreeMap<String, u64>,
    gc: &'a report::record::Gc,
    handles: &'a [report::record::Handle],
}

impl Why {
    pub(crate) fn run(&self) -> Answer {
        if Path::new(&self.run).is_file() {
            return told::why(Path::new(&self.run), self.shown);
        }
        let Stored { id, run, .. } = self.database.run(&self.run)?;
        self.shown
            .answer("flashloom.why/1", &attribution(id, &run), |style| {
                format!("run {id}: {}", table::why(&run, style))
            })
    }
}

fn attribution(id: i64, run: &Run) -> Attribution<'_> {
    Attribution {
        run: id,
        stack: &run.stack,
        workload: &run.workload,
        precondition: &run.precondition,
        sentences: report::attribution::sentences(run),
        by_cause: &run.nand.by_cause,
        by_cause_and_origin: &run.nand.by_cause_and_origin,
        reads_by_cause: &run.nand.reads_by_cause,
        errors: &run.errors,
        gc: &run.gc,
        handles: &run.handles,
    }
}

/// List past runs, the newest first
#[derive(Args)]
pub(crate) struct History {
    /// Only runs of this stack
    #[arg(long)]
    stack: Option<String>,
    /// Only runs of this workload, as it was written
    #[arg(long)]
    workload: Option<String>,
    /// Only runs with this label
    #[arg(long)]
    label: Option<String>,
    /// At most this many
    #[arg(long, short = 'n', default_value_t = 30, value_name = "N")]
    limit: usize,
    #[command(flatten)]
    database: Database,
    #[command(flatten)]
    shown: Shown,
}

/// A past run in the document of `history`.
#[derive(Serialize)]
struct Line<'a> {
    run: i64,
    started_unix_s: Option<i64>,
    stack: &'a str,
    precondition: &'a str,
    workload: &'a str,
    seed: u64,
    ops_per_s: f64,
    p99_ns: f64,
    waf_device: f64,
    label: &'a str,
    command: &'a str,
    commit: &'a str,
    plan_hash: &'a str,
}

/// The document of `history`.
#[derive(Serialize)]
struct Lines<'a> {
    runs: Vec<Line<'a>>,
}

impl History {
    pub(crate) fn run(&self) -> Answer {
        let filter = Filter {
            stack: self.stack.clone(),
            workload: self.workload.clone(),
            label: self.label.clone(),
            plan_hash: None,
        };
        let entries = self.database.existing()?.list(&filter, self.limit)?;
        let runs = entries.iter().map(line).collect();
        let text = |style: Style| table::history(&entries, style);
        self.shown
            .answer("flashloom.history/1", &Lines { runs }, text)
    }
}

fn line(entry: &Entry) -> Line<'_> {
    Line {
        run: entry.id,
        started_unix_s: entry.meta.started_unix_s,
        stack: &entry.stack,
        precondition: &entry.precondition,
        workload: &entry.workload,
        seed: entry.meta.seed,
        ops_per_s: entry.ops_per_s,
        p99_ns: entry.p99_ns,
        waf_device: entry.waf_device,
        label: &entry.meta.label,
        command: &entry.meta.command,
        commit: &entry.meta.commit,
        plan_hash: &entry.meta.plan_hash,
    }
}

/// Set two past runs side by side
#[derive(Args)]
pub(crate) struct Diff {
    /// Number of the first run, or `latest`
    a: String,
    /// Number of the second run, or `latest`
    b: String,
    #[command(flatten)]
    database: Database,
    #[command(flatten)]
    shown: Shown,
}

/// The document of `diff`.
#[derive(Serialize)]
struct Difference {
    a: i64,
    b: i64,
    /// By JSON pointer into a run.
    metrics: BTreeMap<&'static str, Compared>,
}

/// A metric of two runs.
#[derive(Serialize)]
struct Compared {
    a: Option<f64>,
    b: Option<f64>,
    /// `b` over `a`.
    ratio: Option<f64>,
}

impl Diff {
    pub(crate) fn run(&self) -> Answer {
        let (a, b) = (self.database.run(&self.a)?, self.database.run(&self.b)?);
        let compared = |metric: &'static report::metric::Metric| {
            let (a, b) = ((metric.get)(&a.run), (metric.get)(&b.run));
            let (a, b, ratio) = (a.number(), b.number(), b.over(a));
            (metric.path, Compared { a, b, ratio })
        };
        let difference = Difference {
            a: a.id,
            b: b.id,
            metrics: report::metric::all().map(compared).collect(),
        };
        self.shown.answer("flashloom.diff/1", &difference, |style| {
            let head = format!("A is run {}, B is run {}\n\n", a.id, b.id);
            head + &table::diff(&a.run, &b.run, style)
        })
    }
}
