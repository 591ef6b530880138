//! Past runs: attribution, list and difference.

use super::Answer;
use super::experiment::command;
use super::failure::Failure;
use super::file;
use super::output::{Shown, note};
use super::told;
use clap::Args;
use machine::{MEMORY_SCHEMA, Outcome};
use report::record::Run;
use report::store::{Entry, Filter, Kept, RunMeta, Store, Stored};
use report::table::{Side, listing};
use report::{Style, human, table};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The default path of the database.
const HERE: &str = "flashloom.db";

/// Options that name the database of past runs.
#[derive(Args, Clone)]
pub(crate) struct Database {
    /// Database of past runs [default: $FLASHLOOM_DB, or flashloom.db in the working directory]
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
}

impl Database {
    /// Path of the database, named or by default.
    pub(crate) fn path(&self) -> PathBuf {
        self.named().unwrap_or_else(|| PathBuf::from(HERE))
    }

    fn named(&self) -> Option<PathBuf> {
        let told = || std::env::var_os("FLASHLOOM_DB").filter(|path| !path.is_empty());
        self.db.clone().or_else(|| told().map(PathBuf::from))
    }

    /// Whether the user named the database, by option or environment.
    pub(crate) fn is_named(&self) -> bool {
        self.named().is_some()
    }

    /// Opens the database for reading, which never creates it.
    fn existing(&self) -> Result<Store, Failure> {
        let path = self.path();
        if !path.exists() {
            let remedy = "the history is empty; run flashloom compare first, or name another \
                database with --db";
            return Err(Failure::at(&path, remedy));
        }
        Ok(Store::existing(&path)?)
    }

    /// The run of a stack that `which` names: a number or `latest`.
    fn run(&self, which: &str) -> Result<Stored<Run>, Failure> {
        let store = self.existing()?;
        let entry = self.entry(which)?;
        if !is_of_memory(&entry) {
            return Ok(store.get(entry.id)?);
        }
        let of_memory = format!("run {} is a run of a memory design", entry.id);
        if which != "latest" {
            let reason = format!("{of_memory}; flashloom why needs a run of a storage stack");
            return Err(Failure::new(reason));
        }
        let Some(run) = store.latest::<Run>()? else {
            let reason = format!(
                "expected a run of a storage stack, found none: the latest \
                {of_memory}"
            );
            return Err(Failure::at(&self.path(), reason));
        };
        let shown = format!("showing run {}, the latest of a storage stack", run.id);
        note(&format!("flashloom: the latest {of_memory}; {shown}"));
        Ok(run)
    }

    /// The list entry of the run that `which` names, of either kind.
    fn entry(&self, which: &str) -> Result<Entry, Failure> {
        let store = self.existing()?;
        match which {
            "latest" => {
                let newest = store.list(&Filter::default(), 1)?;
                newest.into_iter().next().ok_or_else(|| self.holds_none())
            }
            _ => Ok(store.entry(number(which)?)?),
        }
    }

    fn holds_none(&self) -> Failure {
        Failure::at(&self.path(), "expected a past run, found none")
    }
}

fn number(which: &str) -> Result<i64, Failure> {
    which.parse().map_err(|_| {
        Failure::new(format!(
            "expected the number of a run or latest, found {which:?}; flashloom history lists them"
        ))
    })
}

/// Options for storing runs in the database.
#[derive(Args, Clone)]
pub(crate) struct Keeping {
    /// Label of these runs in the history
    #[arg(long, default_value = "", hide_default_value = true)]
    label: String,
    #[command(flatten)]
    database: Database,
}

impl Keeping {
    /// Path of the database, existing or not.
    pub(crate) fn place(&self) -> PathBuf {
        self.database.path()
    }

    /// Path of the database. It is checked before any run, and not created before there is a run to
    /// store. `None` if the user did not name it and it cannot be written: that must not cost the
    /// result.
    pub(crate) fn database(&self) -> Result<Option<PathBuf>, Failure> {
        let path = self.database.path();
        let fit = match path.exists() {
            true => Store::open(&path).map(drop).map_err(Failure::from),
            false => file::check_place(&path),
        };
        match fit {
            Ok(()) => Ok(Some(path)),
            Err(failure) if self.database.is_named() => Err(failure),
            Err(failure) => {
                note(&not_kept(&failure));
                Ok(None)
            }
        }
    }

    /// Appends all runs, each with its seed and a hash of what determines it, to the database, or
    /// none of them: the results are worth more than their storage.
    pub(crate) fn append<'a, R: Kept + 'a>(
        &self,
        database: Option<&Path>,
        runs: impl Iterator<Item = (&'a R, u64, String)>,
    ) -> Lasting {
        let started_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).ok();
        let with_meta = |(run, seed, plan_hash)| {
            let meta = RunMeta {
                commit: format!("v{}", env!("CARGO_PKG_VERSION")),
                plan_hash,
                seed,
                label: self.label.clone(),
                command: command(),
                started_unix_s: started_unix_s.map(|d| d.as_secs().cast_signed()),
            };
            (run, meta)
        };
        let append = |path: &Path| Store::open(path)?.append_all(runs.map(with_meta));
        let failure = database.and_then(|path| append(path).err());
        Lasting {
            failure: failure.map(Failure::from),
            is_asked_for: self.database.is_named(),
        }
    }
}

/// Outcome of storing runs in the database.
#[must_use = "a user has to be told of runs that are not kept"]
pub(crate) struct Lasting {
    failure: Option<Failure>,
    is_asked_for: bool,
}

impl Lasting {
    /// Notes why the runs are not stored, if they are not; returns whether the user got the storage
    /// that was requested.
    pub(crate) fn tell(&self) -> bool {
        let Some(failure) = &self.failure else {
            return true;
        };
        note(&not_kept(failure));
        !self.is_asked_for
    }
}

fn not_kept(failure: &Failure) -> String {
    format!("flashloom: these runs were not added to the history: {failure}")
}

/// Break down a run's page programs by cause and by the file that the data belong to
///
/// For a drive file that is being served, the output covers its activity since power-on.
#[derive(Args)]
pub(crate) struct Why {
    /// Number of a past run (see `flashloom history`), `latest`, or a drive file
    #[arg(default_value = "latest")]
    run: String,
    #[command(flatten)]
    database: Database,
    #[command(flatten)]
    shown: Shown,
}

/// JSON document of `why`.
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

/// List past runs, newest first
#[derive(Args)]
pub(crate) struct History {
    /// Filter by stack or memory design
    #[arg(long)]
    stack: Option<String>,
    /// Filter by workload, exactly as written
    #[arg(long)]
    workload: Option<String>,
    /// Filter by label
    #[arg(long)]
    label: Option<String>,
    /// Maximum number of runs to list
    #[arg(long, short = 'n', default_value = "30", value_name = "N", value_parser = super::some)]
    limit: NonZeroUsize,
    #[command(flatten)]
    database: Database,
    #[command(flatten)]
    shown: Shown,
}

/// Past run in the JSON document of `history`.
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

/// JSON document of `history`.
#[derive(Serialize)]
struct Lines<'a> {
    /// Runs of storage stacks.
    runs: Vec<Line<'a>>,
    /// Runs of memory designs: `stack` is the design, `ops_per_s` counts instructions.
    memory_runs: Vec<Line<'a>>,
}

fn is_of_memory(entry: &Entry) -> bool {
    entry.schema == MEMORY_SCHEMA
}

impl History {
    pub(crate) fn run(&self) -> Answer {
        let filter = Filter {
            stack: self.stack.clone(),
            workload: self.workload.clone(),
            label: self.label.clone(),
            plan_hash: None,
        };
        let entries = self.database.existing()?.list(&filter, self.limit.get())?;
        let (memory, drives): (Vec<_>, Vec<_>) = entries.into_iter().partition(is_of_memory);
        let lines = Lines {
            runs: drives.iter().map(line).collect(),
            memory_runs: memory.iter().map(line).collect(),
        };
        let text = |style: Style| match (drives.is_empty(), memory.is_empty()) {
            (true, true) => self.none(),
            (false, true) => table::history(&drives, style),
            (true, false) => table::memory_history(&memory, style),
            (false, false) => {
                table::history(&drives, style) + "\n" + &table::memory_history(&memory, style)
            }
        };
        self.shown.answer("flashloom.history/1", &lines, text)
    }

    /// A failure: no runs at all, or none that match the filter.
    fn none(&self) -> String {
        let asked = [
            ("stack", &self.stack),
            ("workload", &self.workload),
            ("label", &self.label),
        ];
        let asked = asked
            .iter()
            .filter_map(|(what, value)| Some(format!("the {what} {:?}", value.as_ref()?)));
        let asked: Vec<String> = asked.collect();
        match asked.is_empty() {
            true => "No runs recorded.\n".to_owned(),
            false => format!("No run has {}.\n", asked.join(" and ")),
        }
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

/// Compare two past runs, metric by metric
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

/// JSON document of `diff`.
#[derive(Serialize)]
struct Difference {
    a: i64,
    b: i64,
    /// Metrics by their JSON pointer into a run's record.
    metrics: BTreeMap<String, Compared>,
}

/// Values of one metric in both runs.
#[derive(Serialize)]
struct Compared {
    a: Option<f64>,
    b: Option<f64>,
    /// Value of `b` over that of `a`.
    ratio: Option<f64>,
}

impl Diff {
    pub(crate) fn run(&self) -> Answer {
        let both = [self.database.entry(&self.a)?, self.database.entry(&self.b)?];
        match both.each_ref().map(is_of_memory) {
            [true, true] => self.of_memory(both.map(|entry| entry.id)),
            [false, false] => self.of_drives(both.map(|entry| entry.id)),
            _ => {
                let [a, b] = both.map(|entry| format!("run {} is of {}", entry.id, entry.stack));
                Err(Failure::new(format!(
                    "{a} and {b}: expected two runs of storage stacks, or two of memory designs"
                )))
            }
        }
    }

    /// Compares the numbers of two memory runs; the table shows those that differ.
    fn of_memory(&self, ids: [i64; 2]) -> Answer {
        let store = self.database.existing()?;
        let run = |id| store.get::<Outcome>(id).map(|stored| stored.run);
        let runs = [run(ids[0])?, run(ids[1])?];
        let mut metrics = BTreeMap::new();
        for (at, run) in runs.iter().enumerate() {
            numbers("", &serde_json::to_value(run)?, &mut |path, value| {
                let both: &mut [Option<f64>; 2] = metrics.entry(path).or_default();
                both[at] = Some(value);
            });
        }
        let compared = |(path, [a, b]): (String, [Option<f64>; 2])| {
            let ratio = a.zip(b).filter(|(a, _)| *a != 0.0).map(|(a, b)| b / a);
            (path, Compared { a, b, ratio })
        };
        let [a, b] = ids;
        let metrics = metrics.into_iter().map(compared).collect();
        let difference = Difference { a, b, metrics };
        self.shown.answer("flashloom.diff/1", &difference, |style| {
            let inputs = runs.each_ref().map(premises);
            let head = format!(
                "A is run {a}, {}\nB is run {b}, {}\n\n",
                inputs[0], inputs[1]
            );
            head + &differing(&difference.metrics, style)
        })
    }

    fn of_drives(&self, ids: [i64; 2]) -> Answer {
        let store = self.database.existing()?;
        let (a, b) = (store.get::<Run>(ids[0])?, store.get::<Run>(ids[1])?);
        let compared = |metric: &'static report::metric::Metric| {
            let (a, b) = (metric.value(&a.run), metric.value(&b.run));
            let (a, b, ratio) = (a.number(), b.number(), b.over(a));
            (metric.path.to_owned(), Compared { a, b, ratio })
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

/// The inputs of a memory run, in one line.
fn premises(run: &Outcome) -> String {
    let changes: String = run.changes.iter().map(|set| format!(", {set}")).collect();
    let Outcome {
        design,
        workload,
        profile,
        threads,
        seed,
        ..
    } = run;
    format!("{design}: {workload}, {profile} profile, {threads} threads, seed {seed}{changes}")
}

/// Calls `found` with each number in `value` and its JSON pointer.
fn numbers(path: &str, value: &Value, found: &mut dyn FnMut(String, f64)) {
    match value {
        Value::Number(number) => {
            if let Some(number) = number.as_f64() {
                found(path.to_owned(), number);
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                numbers(&format!("{path}/{name}"), value, found);
            }
        }
        Value::Array(all) => {
            for (index, value) in all.iter().enumerate() {
                numbers(&format!("{path}/{index}"), value, found);
            }
        }
        _ => {}
    }
}

/// A table of the numbers that differ, except the wall time.
fn differing(metrics: &BTreeMap<String, Compared>, style: Style) -> String {
    let said = |value: Option<f64>| value.map_or(human::NOTHING.to_owned(), human::factor);
    let differ = |(path, both): &(&String, &Compared)| both.a != both.b && *path != "/wall_time_s";
    let row = |(path, both): (&String, &Compared)| {
        let ratio = both.ratio.map_or(human::NOTHING.to_owned(), human::times);
        vec![path.clone(), said(both.a), said(both.b), ratio]
    };
    let rows: Vec<_> = metrics.iter().filter(differ).map(row).collect();
    if rows.is_empty() {
        return "The runs are identical, except for their wall time.\n".to_owned();
    }
    let columns = [
        ("", Side::Left),
        ("A", Side::Right),
        ("B", Side::Right),
        ("B / A", Side::Right),
    ];
    listing(&columns, &rows, style)
}
