//! `validate`: published measurements of real drives, or those of a user, beside the model.

use super::Answer;
use super::failure::Failure;
use super::kept::{Kept, Outcome, Wanted};
use super::output::{self, Shown};
use clap::Args;
use report::Style;
use report::claim::document;
use report::table::{Side, listing};
use serde::Serialize;
use stack::validate::{
    Document, Experiment, Group, Measured, Row, Spread, Summary, Task, documents, read_fio, rows,
    small,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Bytes of fio's output that are read.
const MOST_BYTES: u64 = 64 << 20;

/// Set published measurements of real drives beside the model
///
/// Each value of a drive with a preset is measured by the jobs of its source, cut to seconds: 40,000
/// requests or 2 GiB, 1 s of jobs that run side by side, 2 to 4 capacities of writes where
/// amplification is measured. Block drives are scaled to 4 GiB or more with all their dies. The
/// table has the errors by drive and kind: the median and the 90th percentile of their absolute
/// values. Values that the model cannot measure are counted, with the reason under --verbose.
#[derive(Args)]
pub(crate) struct Validate {
    /// Drives, as in --list [default: all]
    drives: Vec<String>,
    /// Kind of experiments, such as random-read [default: all]
    #[arg(long)]
    kind: Option<String>,
    /// List drives, kinds and numbers of values, and run nothing
    #[arg(long, conflicts_with_all = ["against", "verbose", "out"])]
    list: bool,
    /// Print each value too
    #[arg(long)]
    verbose: bool,
    /// Run the jobs of fio's JSON output, and print its values beside the model's; the drive is one
    /// preset or TOML file
    #[arg(long, value_name = "FIO.JSON", num_args = 1.., conflicts_with = "kind")]
    against: Vec<PathBuf>,
    /// Run every N-th experiment of each drive and kind only
    #[arg(long, value_name = "N", default_value = "1", value_parser = super::some)]
    every: NonZeroUsize,
    /// Directory of finished runs, which a later command reuses
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Parallel runs [default: one per core]
    #[arg(long, value_name = "N", value_parser = super::some)]
    jobs: Option<NonZeroUsize>,
    #[command(flatten)]
    shown: Shown,
}

/// JSON document of `validate`.
#[derive(Serialize)]
struct Validated {
    rows: Vec<Row>,
    summary: Summary,
}

/// JSON document of `validate --list`.
#[derive(Serialize)]
struct List {
    kinds: Vec<Entry>,
}

/// Kind of experiments on a drive.
#[derive(Serialize)]
struct Entry {
    drive: String,
    title: String,
    kind: String,
    values: usize,
    /// Values that the model cannot measure.
    left: usize,
}

/// An experiment, and the index of its task or the reason why it has none.
struct Asked<'a> {
    document: &'a Document,
    experiment: &'a Experiment,
    task: Result<usize, String>,
}

impl Validate {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        if !self.against.is_empty() {
            return Ok(output::emit(&self.against()?));
        }
        let all = documents().map_err(|errors| {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            Failure::new(errors.join("; "))
        })?;
        let answer = match self.list {
            true => self.list(&all),
            false => self.measure(&all),
        };
        Ok(output::emit(&answer?))
    }

    /// The experiments that are asked for.
    fn chosen<'a>(
        &self,
        all: &'a [Document],
    ) -> Result<Vec<(&'a Document, &'a Experiment)>, Failure> {
        for name in &self.drives {
            if !all.iter().any(|document| document.drive == *name) {
                let known: Vec<&str> = all.iter().map(|d| d.drive.as_str()).collect();
                let known = known.join(", ");
                let problem = format!("expected a drive with measurements ({known}), found {name}");
                return Err(Failure::new(problem));
            }
        }
        let is_asked = |d: &&Document| self.drives.is_empty() || self.drives.contains(&d.drive);
        let mut chosen = Vec::new();
        let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for document in all.iter().filter(is_asked) {
            for experiment in &document.experiment {
                let kind = experiment.kind.as_str();
                let count = counts.entry((&document.drive, kind)).or_default();
                *count += 1;
                let joined = |text: &str| text.replace(' ', "-");
                let is_asked = |asked: &String| joined(asked) == joined(kind);
                let is_kind = self.kind.as_ref().is_none_or(is_asked);
                if is_kind && (*count - 1).is_multiple_of(self.every.get()) {
                    chosen.push((document, experiment));
                }
            }
        }
        if chosen.is_empty() {
            let kinds: BTreeSet<&str> = counts.keys().map(|(_, kind)| *kind).collect();
            let kinds = kinds.into_iter().collect::<Vec<_>>().join(", ");
            let found = self.kind.as_deref().unwrap_or_default();
            let problem = format!("--kind: expected one of {kinds}, found {found:?}");
            return Err(Failure::new(problem));
        }
        Ok(chosen)
    }

    fn list(&self, all: &[Document]) -> Answer {
        let mut list = List { kinds: Vec::new() };
        for (document, experiment) in self.chosen(all)? {
            let values = experiment.values.len();
            let left = Task::new(document, experiment).map_or(values, |_| 0);
            let is_same =
                |e: &&mut Entry| (&e.drive, &e.kind) == (&document.drive, &experiment.kind);
            match list.kinds.iter_mut().find(is_same) {
                Some(entry) => {
                    (entry.values, entry.left) = (entry.values + values, entry.left + left);
                }
                None => list.kinds.push(Entry {
                    drive: document.drive.clone(),
                    title: document.title.clone(),
                    kind: experiment.kind.clone(),
                    values,
                    left,
                }),
            }
        }
        self.shown
            .answer("flashloom.validate-list/1", &list, |style| {
                let row = |e: &Entry| {
                    let (values, left) = (e.values.to_string(), e.left.to_string());
                    vec![
                        e.drive.clone(),
                        e.kind.clone(),
                        values,
                        left,
                        e.title.clone(),
                    ]
                };
                let columns = [
                    ("drive", Side::Left),
                    ("kind", Side::Left),
                    ("values", Side::Right),
                    ("not run", Side::Right),
                    ("title", Side::Left),
                ];
                let rows: Vec<_> = list.kinds.iter().map(row).collect();
                listing(&columns, &rows, style)
            })
    }

    fn measure(&self, all: &[Document]) -> Answer {
        let mut tasks: Vec<Task> = Vec::new();
        let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
        let mut asked = Vec::new();
        for (document, experiment) in self.chosen(all)? {
            let task = Task::new(document, experiment).map(|task| {
                *numbers.entry(task.told()).or_insert_with(|| {
                    tasks.push(task);
                    tasks.len() - 1
                })
            });
            asked.push(Asked {
                document,
                experiment,
                task,
            });
        }
        let outcomes = self.outcomes(&tasks)?;
        let rows: Vec<Row> = asked
            .iter()
            .flat_map(|asked| {
                let outcome = asked.task.clone().and_then(|task| outcomes[task].clone());
                rows(asked.document, asked.experiment, &outcome)
            })
            .collect();
        let summary = Summary::of(&rows);
        let validated = Validated { rows, summary };
        self.shown
            .answer("flashloom.validate/1", &validated, |style| {
                let each = match self.verbose {
                    true => each(&validated.rows, style) + "\n",
                    false => String::new(),
                };
                each + &table(&validated.summary, style)
            })
    }

    /// The outcome of each task.
    fn outcomes(&self, tasks: &[Task]) -> Result<Vec<Result<Measured, String>>, Failure> {
        let wanted = tasks.iter().map(|task| Wanted {
            name: task.name().to_owned(),
            told: task.told(),
        });
        let wanted: Vec<Wanted> = wanted.collect();
        if let Some(folder) = &self.out {
            std::fs::create_dir_all(folder)?;
        }
        let kept = Kept::new(self.out.as_deref(), false)?;
        let found = kept.found(&wanted);
        let missing = found.missing();
        let make = |turn: usize| {
            let outcome: Outcome = tasks[missing[turn]].run().map(|m| document(&m));
            (turn, outcome)
        };
        let outcomes = kept.complete(&wanted, found, super::jobs(self.jobs), &make);
        let read = |outcome: Outcome| {
            let measured = outcome?;
            serde_json::from_value(measured).map_err(|e| e.to_string())
        };
        Ok(outcomes.into_iter().map(read).collect())
    }

    /// Values of fio's output beside the model's.
    fn against(&self) -> Answer {
        let [name] = self.drives.as_slice() else {
            let found = self.drives.len();
            let problem = format!("--against: expected one drive before it, found {found}");
            return Err(Failure::new(problem));
        };
        let drive = stack::drive::resolve(name, None)?;
        let drive = small(&drive);
        let mut all = Vec::new();
        for path in &self.against {
            let file = path.display().to_string();
            let given = read_fio(&file, &text(path)?).map_err(|e| Failure::new(e.to_string()))?;
            let task = Task::of_jobs(name, drive.clone(), given.text.clone());
            let outcome = task.map_err(|e| Failure::at(path, e))?.run();
            for (index, (job, values)) in given.jobs.iter().zip(&given.values).enumerate() {
                let found = outcome.as_ref().map_err(Clone::clone);
                let found = found.map(|measured| measured.jobs.get(index));
                for (what, real) in values {
                    let measured = match &found {
                        Ok(found) => found.and_then(|found| found.get(what)).copied(),
                        Err(_) => None,
                    };
                    all.push(Row {
                        drive: name.clone(),
                        kind: "yours".to_owned(),
                        unit: unit(what).to_owned(),
                        what: what.clone(),
                        real: *real,
                        measured,
                        error: measured.map(|measured| (measured / real - 1.0) * 100.0),
                        source: file.clone(),
                        fitted: false,
                        job: job.clone(),
                        reason: match (&found, measured) {
                            (Err(why), _) => why.clone(),
                            (_, None) => "the run had no such request".to_owned(),
                            _ => String::new(),
                        },
                    });
                }
            }
        }
        let summary = Summary::of(&all);
        let validated = Validated { rows: all, summary };
        self.shown
            .answer("flashloom.validate/1", &validated, |style| {
                each(&validated.rows, style) + "\n" + &table(&validated.summary, style)
            })
    }
}

/// The text of fio's output at `path`.
pub(super) fn text(path: &Path) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|e| Failure::at(path, e))?;
    let read = file.take(MOST_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|e| Failure::at(path, e))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(Failure::at(path, "expected at most 64 MiB"));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Unit of a value of fio's output.
pub(super) fn unit(what: &str) -> &'static str {
    match what.split(' ').next_back() {
        Some("iops") => "IOPS",
        Some("bandwidth") => "MB/s",
        _ => "ns",
    }
}

/// A value with three digits or more.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A part of `spread` in percent; a dash without one.
pub(super) fn percent(spread: Option<Spread>, of: fn(Spread) -> f64) -> String {
    spread.map_or_else(|| "–".to_owned(), |spread| format!("{:.0} %", of(spread)))
}

/// All rows, or those that were run, and the reasons of the others with their counts.
fn each(rows: &[Row], style: Style) -> String {
    let row = |row: &Row| {
        let ours = row.measured.map_or_else(|| "–".to_owned(), number);
        let error = row
            .error
            .map_or_else(|| row.reason.clone(), |e| format!("{e:+.0} %"));
        let what = format!("{} ({})", row.what, row.unit);
        let (real, fitted) = (number(row.real), if row.fitted { "fitted" } else { "" });
        let (drive, kind, job) = (row.drive.clone(), row.kind.clone(), row.job.clone());
        vec![drive, kind, job, what, real, ours, error, fitted.to_owned()]
    };
    let columns = [
        ("drive", Side::Left),
        ("kind", Side::Left),
        ("job", Side::Left),
        ("value", Side::Left),
        ("real", Side::Right),
        ("ours", Side::Right),
        ("error", Side::Right),
        ("", Side::Left),
    ];
    let rows: Vec<_> = rows.iter().map(row).collect();
    listing(&columns, &rows, style)
}

/// The errors by drive and kind, and the total.
fn table(summary: &Summary, style: Style) -> String {
    let row = |group: &Group| {
        let left: usize = group.left.values().sum();
        vec![
            group.drive.clone(),
            group.kind.clone(),
            group.values.to_string(),
            percent(group.errors, |s| s.median),
            percent(group.errors, |s| s.p90),
            group.fitted.to_string(),
            left.to_string(),
        ]
    };
    let columns = [
        ("drive", Side::Left),
        ("kind", Side::Left),
        ("values", Side::Right),
        ("median error", Side::Right),
        ("90th percentile", Side::Right),
        ("fitted", Side::Right),
        ("not run", Side::Right),
    ];
    let rows: Vec<_> = summary.groups.iter().map(row).collect();
    let mut left: BTreeMap<&str, usize> = BTreeMap::new();
    for (reason, count) in summary.groups.iter().flat_map(|group| &group.left) {
        *left.entry(reason).or_default() += count;
    }
    let mut text = listing(&columns, &rows, style);
    let total = format!(
        "\n{} values of {} drives. Mean error of a drive, over its kinds: median {}, 90th percentile \
         {}.\n",
        summary.values,
        summary.drives,
        percent(summary.total, |s| s.median),
        percent(summary.total, |s| s.p90),
    );
    text += &total;
    if summary.left > 0 {
        text += &format!("\n{} values were not run:\n", summary.left);
    }
    for (reason, count) in left {
        text += &format!("  {count:>5}  {reason}\n");
    }
    text
}
