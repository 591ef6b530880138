//! `play`: a workload of files as real system calls.

use super::Answer;
use super::experiment::asked;
use super::failure::Failure;
use super::output::{self, Shown, note};
use clap::Args;
use engine::Signals;
use play::{Kind, Options, Outcome, Place};
use report::table::{Side, facts, listing};
use report::{Style, human};
use serde::Serialize;
use sim::Seed;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use workload::files::{FileWorkload, Source};

/// Run a file workload on a real file system, as system calls in a directory
///
/// The directory may be on any file system, so that one workload runs on the kernel's file systems
/// and on simulated ones (see `flashloom run`). Nothing outside the directory is touched.
///
/// On SIGINT, SIGTERM or SIGHUP each thread finishes its call, the output covers the calls made so
/// far, and the exit status is 128 plus the signal number. A second signal ends the process at
/// once.
#[derive(Args)]
pub(crate) struct Play {
    /// File preset with parameters (see `flashloom workloads`), filebench script or recorded trace
    workload: String,
    /// Directory to run in; it must be empty
    #[arg(long, value_name = "DIR")]
    on: PathBuf,
    /// Seed of the workload's random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Keep the think times of the workload instead of skipping them
    #[arg(long)]
    think: bool,
    /// Create the initial files and exit
    #[arg(long, conflicts_with = "no_setup")]
    setup_only: bool,
    /// Use the files that --setup-only created with the same workload and seed
    #[arg(long)]
    no_setup: bool,
    /// Create files in DIR even if DIR is not empty
    #[arg(long, conflicts_with = "no_setup")]
    force: bool,
    #[command(flatten)]
    shown: Shown,
}

/// Signal state of a run of `play`.
#[derive(Clone, Default)]
struct End {
    stop: Arc<AtomicBool>,
    /// Exit status of the process; 0 before any signal.
    status: Arc<AtomicU8>,
}

impl End {
    /// The first signal stops the play, the second one ends the process.
    fn watch() -> Result<Self, Failure> {
        let end = Self::default();
        let heard = end.clone();
        Signals::hold()?.watch(move |signal| {
            let status = Signals::status(signal);
            heard.status.store(status, Ordering::Relaxed);
            if heard.stop.swap(true, Ordering::Relaxed) {
                std::process::exit(status.into());
            }
            note("flashloom: stopping once the current calls have finished");
            true
        })?;
        Ok(end)
    }
}

/// JSON document of `play`.
#[derive(Serialize)]
struct Played<'a> {
    workload: &'a str,
    seed: u64,
    #[serde(flatten)]
    outcome: &'a Outcome,
}

/// JSON document of `play --setup-only`.
#[derive(Serialize)]
struct Prepared<'a> {
    workload: &'a str,
    seed: u64,
    entries: usize,
}

impl Play {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let asked = asked(&self.workload)?;
        let workload = FileWorkload::parse(&asked.text);
        let workload = workload.map_err(|e| Failure::new(asked.named(&e.to_string())))?;
        let mut source = workload.open(Seed(self.seed))?;
        let place = Place::new(&self.on)?;
        if !self.no_setup {
            self.prepare(&place, &*source)?;
        }
        if self.setup_only {
            return self.prepared(&*source).map(|text| output::emit(&text));
        }
        let end = End::watch()?;
        let options = Options { think: self.think };
        let mut outcome = play::play(&place, &mut *source, options, &end.stop)?;
        let status = end.status.load(Ordering::Relaxed);
        if status != 0 {
            let early = "a signal ended the run before the end of the workload".to_owned();
            outcome.notes.push(early);
        }
        let printed = output::emit(&self.played(&outcome)?);
        Ok(match status {
            0 => printed,
            status => ExitCode::from(status),
        })
    }

    fn prepare(&self, place: &Place, source: &dyn Source) -> Result<(), Failure> {
        if !self.force && !place.is_empty()? {
            let reason = "expected an empty directory; pass --no-setup to use the files of an \
                earlier --setup-only, or --force to create files next to the existing ones";
            return Err(Failure::at(&self.on, reason));
        }
        Ok(play::prepare(place, source.setup(), source.names())?)
    }

    fn prepared(&self, source: &dyn Source) -> Answer {
        let prepared = Prepared {
            workload: &self.workload,
            seed: self.seed,
            entries: source.setup().entries.len(),
        };
        self.shown.answer("flashloom.play.setup/1", &prepared, |_| {
            format!("created {} files and directories\n", prepared.entries)
        })
    }

    fn played(&self, outcome: &Outcome) -> Answer {
        let played = Played {
            workload: &self.workload,
            seed: self.seed,
            outcome,
        };
        self.shown
            .answer("flashloom.play/1", &played, |style| text(outcome, style))
    }
}

fn text(outcome: &Outcome, style: Style) -> String {
    let rate = human::count(outcome.ops_per_s);
    let head = [
        ("calls", human::count(outcome.ops as f64)),
        ("calls per second", rate),
        ("threads", outcome.threads.to_string()),
        ("time", human::time(outcome.elapsed_ns as f64)),
        ("bytes read", human::bytes(outcome.read_bytes as f64)),
        ("bytes written", human::bytes(outcome.write_bytes as f64)),
        ("other results", human::count(outcome.mismatches as f64)),
    ];
    let mut text = facts(head, style) + "\n" + &kinds(&outcome.calls, style);
    for mismatch in &outcome.first_mismatches {
        text += &format!(
            "\nthread {}: {} {} returned {}, expected {}",
            mismatch.thread,
            mismatch.call,
            mismatch.paths.join(" "),
            mismatch.found,
            mismatch.expected
        );
    }
    for note in &outcome.notes {
        text += &format!("\nnote: {note}");
    }
    text.trim_end().to_owned() + "\n"
}

/// A table with a line for each kind of call.
fn kinds(calls: &[Kind], style: Style) -> String {
    let right = Side::Right;
    let columns = [
        ("call", Side::Left),
        ("count", right),
        ("mean", right),
        ("p50", right),
        ("p99", right),
        ("max", right),
        ("not played", right),
        ("errors", Side::Left),
    ];
    let rows: Vec<_> = calls.iter().map(row).collect();
    listing(&columns, &rows, style)
}

fn row(kind: &Kind) -> Vec<String> {
    let time = |ns: u64| human::time(ns as f64);
    let errors = kind.errors.iter();
    let errors: Vec<String> = errors.map(|(name, n)| format!("{name} {n}")).collect();
    vec![
        kind.name.to_owned(),
        human::count(kind.count as f64),
        human::time(kind.latency_ns.mean),
        time(kind.latency_ns.p50),
        time(kind.latency_ns.p99),
        time(kind.latency_ns.max),
        human::count(kind.not_played as f64),
        errors.join(", "),
    ]
}
