//! `powercut`: power cuts under the user's own program, judged by the user's own checker.

mod found;
mod recorded;

use super::experiment::of_options;
use super::failure::Failure;
use super::file::beside;
use super::output::{self, Shown, note};
use super::progress::{Meter, during};
use ::crash::{Cut, Exploration, Points, Progress, Recording};
use clap::Args;
use found::{Case, Found, Kind, quoted};
use host::HostConfig;
use powercut::{Checker, Outcome, Reins};
use ssd::Precondition;
use stack::crash::{Cuts, Fresh, State};
use stack::hosts::Behaviour;
use stack::{Ending, Plan, StackName, knobs};
use std::cell::RefCell;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use units::{Bytes, GIB, MIB};
use vfs::CacheConfig;

/// Cut the power under your own program, and check what each cut leaves
///
/// COMMAND runs once, without a power cut, in an empty directory that is a mount of the chosen file
/// system. Its calls are recorded with their contents and repeated on a simulated drive. At each
/// chosen moment a copy of the drive loses power and is powered on again, the file system recovers,
/// and CMD runs in a directory with the recovered files. It passes with exit status 0. Equal states
/// are checked once.
///
/// FLASHLOOM_OUTPUT names a file with the lines that COMMAND had printed on standard output before
/// the cut: files that it reported as saved must be there. COMMAND must print without a buffer
/// (`print(..., flush=True)`). FLASHLOOM_DIR is the directory with the files, for both; FLASHLOOM_CUT
/// the name of the cut; FLASHLOOM_FROM the directory in which this command was started. If the first
/// word of COMMAND or CMD is a relative path with a slash, it begins there.
///
/// Calls follow one another without the pauses of the program, and write-back and commits run a
/// thousand times as often as in Linux: a commit each 5 ms, and data that no call forces become
/// durable after 30 ms. Calls of several threads are repeated in the order in which they ended.
/// Times of files are not repeated.
///
/// The exit status is 1 if a state does not pass, and 2 if CMD fails on the files that COMMAND left
/// without a power cut.
#[derive(Args)]
#[command(
    override_usage = "flashloom powercut [OPTIONS] --check <CMD> -- <COMMAND>...\n       \
                      flashloom powercut [OPTIONS] --check <CMD> --recording <FILE>"
)]
pub(crate) struct Powercut {
    /// Stack with a file system, such as ext4@block (see `flashloom stacks`)
    #[arg(long, value_name = "STACK", default_value = "ext4@block")]
    on: StackName,
    /// Command that judges recovered files, run by `sh -c` in their directory
    #[arg(long, value_name = "CMD")]
    check: String,
    /// Cut at each begin and end of a flush of the drive and at each end of an fsync (flush), or at
    /// each N-th event of the simulation
    #[arg(long, value_name = "flush|N", default_value = "flush")]
    every: Every,
    /// Cut at N events chosen by the seed, and in one recovery of four once more
    #[arg(long, value_name = "N", conflicts_with = "every")]
    points: Option<NonZeroU64>,
    /// Repeat one power cut from a report: EVENT or EVENT:EVENT-OF-RECOVERY
    #[arg(long, value_name = "CUT", conflicts_with_all = ["every", "points"])]
    at: Option<Cut>,
    /// Seconds that CMD may take before it is killed and counted as hung
    #[arg(long, value_name = "SECONDS", default_value = "30")]
    timeout: NonZeroU64,
    /// Write the recorded calls to this file, for --recording
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Repeat the calls in this file instead of running COMMAND
    #[arg(long, value_name = "FILE", conflicts_with = "save")]
    recording: Option<PathBuf>,
    /// Give the drive a volatile cache that it empties in any order (block interface only)
    #[arg(long)]
    reorder: bool,
    /// Usable capacity [default: 128MiB; 512MiB on zoned drives]
    #[arg(long)]
    size: Option<Bytes>,
    /// Change a setting of the drive; may be repeated. The drive has no power-loss protection
    /// unless it has a battery or controller.power_loss_protection=true is set
    #[arg(long, value_name = "SETTING=VALUE")]
    set: Vec<String>,
    /// Seed of the choices of --points and --reorder
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the result of each state to this file in the format of JUnit
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    #[command(flatten)]
    shown: Shown,
    /// Program and its arguments
    #[arg(
        last = true,
        required_unless_present = "recording",
        conflicts_with = "recording"
    )]
    command: Vec<OsString>,
}

/// Choice of the cuts by their distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Every {
    /// Wherever the drive or the file system makes something durable.
    Flush,
    /// Every so many events.
    Events(NonZeroU64),
}

impl FromStr for Every {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "flush" {
            return Ok(Self::Flush);
        }
        let wrong =
            |_| format!("expected flush, or a number of events of at least 1, found {text:?}");
        text.parse().map(Self::Events).map_err(wrong)
    }
}

/// The checked states of an exploration, for the callbacks of the explorer.
#[derive(Default)]
struct Checks {
    cases: Vec<Case>,
    /// Error that ended the exploration.
    error: Option<io::Error>,
}

impl Powercut {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        // Before the start of any thread, on which a signal could end the process.
        let reins = Reins::hold()?;
        let home = std::env::current_dir()?;
        let fresh = Fresh::new(&self.cuts()?, powercut::user())?;
        let made = self.explored(&fresh, &reins, &home);
        // A signal ends what runs with an error of its own.
        if let Some(status) = reins.status() {
            return Ok(ExitCode::from(status));
        }
        let (recording, explored, cases) = made?;
        if let Some(cut) = self.at {
            check_reach(cut, &explored)?;
        }
        let found = self.found(&recording, &explored, &cases);
        if let Some(path) = &self.junit {
            write(path, found.junit(&cases).as_bytes())?;
        }
        let text = |style| found.told(style);
        let shown = output::emit(&self.shown.answer("flashloom.powercut/1", &found, text)?);
        Ok(output::status(shown, found.holds()))
    }

    /// The recording, its exploration, and the checked states in the order of the cuts.
    fn explored(
        &self,
        fresh: &Fresh,
        reins: &Arc<Reins>,
        home: &Path,
    ) -> Result<(Recording, Exploration, Vec<Case>), Failure> {
        let timeout = Duration::from_secs(self.timeout.get());
        let checker = Checker::new(Arc::clone(reins), &self.check, home, timeout)?;
        let recording = self.recording(fresh, reins, home)?;
        self.check_whole(fresh, &checker, &recording)?;
        let checks = RefCell::new(Checks::default());
        let mut meter = None;
        let mut check = |state: &State<'_>| {
            let case = self.case(&checker, state);
            let mut checks = checks.borrow_mut();
            match case {
                Ok(mut case) => {
                    let wrong = (case.kind != Kind::Passed).then(|| case.told());
                    case.after = recording.last_call(state.entries);
                    checks.cases.push(case);
                    wrong
                }
                Err(error) => {
                    checks.error = Some(error);
                    None
                }
            }
        };
        let mut progress = |heard: Progress| {
            let what = "power cuts";
            meter
                .get_or_insert_with(|| Meter::new(1, Some(heard.of), what))
                .advance(0, heard.points);
            match checks.borrow().error {
                Some(_) => ControlFlow::Break(()),
                None => ControlFlow::Continue(()),
            }
        };
        let points = self.points();
        let explored = fresh.explore(recording.clone(), &points, &mut check, &mut progress);
        if let Some(meter) = meter {
            meter.finish();
        }
        let Checks { cases, error } = checks.into_inner();
        error.map_or(Ok(()), |error| Err(self.unchecked(&error)))?;
        Ok((recording, explored, cases))
    }

    fn points(&self) -> Points {
        match (self.at, self.points, self.every) {
            (Some(cut), _, _) => Points::One(cut),
            (_, Some(points), _) => Points::Some(points.get()),
            (_, _, Every::Flush) => Points::Marks,
            (_, _, Every::Events(every)) => Points::Every(every),
        }
    }

    /// The recorded calls: those of a file, or of the program's run.
    fn recording(
        &self,
        fresh: &Fresh,
        reins: &Arc<Reins>,
        home: &Path,
    ) -> Result<Recording, Failure> {
        if let Some(path) = &self.recording {
            let bytes = fs::read(path).map_err(|e| Failure::at(path, e))?;
            return Recording::from_bytes(&bytes).map_err(|e| Failure::at(path, e));
        }
        let recording = recorded::record(fresh, reins, &self.command, home)?;
        if recording.is_empty() {
            let reason = "expected a program that changes files in its working directory, which is \
                the mount; it changed none";
            return Err(Failure::at(Path::new(&self.command[0]), reason));
        }
        if let Some(path) = &self.save {
            write(path, &recording.to_bytes())?;
            note(&format!(
                "flashloom: {}: {} recorded calls",
                path.display(),
                recording.len()
            ));
        }
        Ok(recording)
    }

    /// Checks the files that the program left without a power cut, which shows that the checker
    /// works.
    fn check_whole(
        &self,
        fresh: &Fresh,
        checker: &Checker,
        recording: &Recording,
    ) -> Result<(), Failure> {
        let shown = during("repeating the calls", || fresh.whole(recording))?;
        let output = recording.output(recording.calls.len());
        let checked = checker.check((&shown, fresh.root()), "none", &output);
        let checked = checked.map_err(|error| self.unchecked(&error))?;
        if checked.outcome == Outcome::Passed {
            return Ok(());
        }
        let case = Case::of("none".to_owned(), checked);
        Err(Failure::new(format!(
            "--check {}: expected exit status 0 on the files that the program left without a power \
             cut; it {}: {}",
            self.check,
            case.told(),
            case.stderr
        )))
    }

    fn unchecked(&self, error: &io::Error) -> Failure {
        Failure::new(format!("--check {}: it cannot be run: {error}", self.check))
    }

    fn case(&self, checker: &Checker, state: &State<'_>) -> io::Result<Case> {
        let cut = state.cut.to_string();
        match state.tree {
            Ok(shown) => {
                let checked = checker.check((shown, state.root), &cut, &state.output)?;
                Ok(Case::of(cut, checked))
            }
            Err(error) => Ok(Case::unrecovered(cut, error)),
        }
    }

    fn cuts(&self) -> Result<Cuts, Failure> {
        let size = match self.size {
            Some(size) => size,
            None => {
                let drive = stack::drive::resolve(&self.on.drive, None)?;
                Bytes(if drive.zones.is_some() { 512 } else { 128 } * MIB)
            }
        };
        let mut drive = stack::drive::resolve(&self.on.drive, Some(size))?;
        // With power-loss protection no flush would matter: only byte drives, whose DRAM has a
        // battery, have it.
        drive.controller.power_loss_protection = drive.front.is_some();
        if let Some(set) = self.set.iter().find(|set| !knobs::are_of_drive(set)) {
            let reason = "expected a setting of the drive";
            return Err(Failure::new(format!("--set {set}: {reason}")));
        }
        let drive = knobs::drive(drive, &self.set).map_err(of_options)?;
        let plan = Plan {
            label: String::new(),
            stack: self.on.clone(),
            drive,
            precondition: Precondition::default(),
            used: None,
            workload: String::new(),
            seed: self.seed,
            sample: None,
            host: HostConfig::default(),
            page_cache: CacheConfig::default(),
            behaviour: Behaviour::default(),
            ending: Ending::default(),
            until: stack::Until::default(),
            policies: ssd::Policies::default(),
        };
        Ok(Cuts {
            plan,
            points: self.points(),
            outside: 0,
            memory: Bytes(GIB),
            lies: false,
            reorders: self.reorder,
            skips_fences: false,
            snapshot: false,
            rest: None,
        })
    }

    /// The command that repeats a single cut.
    fn repeat(&self, cut: &str) -> String {
        let mut words = vec!["flashloom powercut --on".to_owned(), self.on.to_string()];
        words.extend(self.size.map(|size| format!("--size {}", size.0)));
        let set = self.set.iter();
        words.extend(set.map(|set| format!("--set {}", quoted(set))));
        if self.reorder {
            words.push(format!("--reorder --seed {}", self.seed));
        }
        if self.timeout.get() != 30 {
            words.push(format!("--timeout {}", self.timeout));
        }
        words.push(format!("--at {cut} --check {}", quoted(&self.check)));
        match self.recording.as_ref().or(self.save.as_ref()) {
            Some(path) => words.push(format!("--recording {}", quoted(&path.to_string_lossy()))),
            None => {
                words.push("--".to_owned());
                let command = self.command.iter();
                words.extend(command.map(|word| quoted(&word.to_string_lossy())));
            }
        }
        words.join(" ")
    }

    fn found(&self, recording: &Recording, explored: &Exploration, cases: &[Case]) -> Found {
        let every = match self.every {
            _ if self.at.is_some() || self.points.is_some() => None,
            Every::Flush => Some("flush".to_owned()),
            Every::Events(every) => Some(every.to_string()),
        };
        let mut found = Found {
            on: self.on.to_string(),
            every,
            points: self.points.map(NonZeroU64::get),
            at: self.at.map(|cut| cut.to_string()),
            seed: self.seed,
            check: self.check.clone(),
            calls: recording.len() as u64,
            events: explored.events,
            cuts: explored.points + explored.recoveries,
            recovered: explored.recovered,
            states: cases.len() as u64,
            failed_cuts: explored.corrupt,
            bound: explored.bound.map(|bound| bound.to_string()),
            ..Found::default()
        };
        for case in cases {
            found.add(case, || self.repeat(&case.cut));
        }
        found
    }
}

/// Rejects a cut after the last event of the run, or of the recovery from it.
fn check_reach(cut: Cut, found: &Exploration) -> Result<(), Failure> {
    let recovery = cut.recovery.unwrap_or(0);
    let (of, last) = match cut.event > found.events {
        true => ("the run", found.events),
        false if recovery > found.recovery_events => ("that recovery", found.recovery_events),
        false => return Ok(()),
    };
    Err(Failure::new(format!(
        "--at {cut}: expected an event up to {last}, the last of {of}"
    )))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let file = beside(path)?;
    let written = file.file().write_all(bytes);
    written.map_err(|e| Failure::at(path, e))?;
    file.finish()
}
