//! Shared parts of `run` and `compare`: the user's choices for a run, and the destination of its
//! record.

use super::cache::Shelf;
use super::designs;
use super::failure::Failure;
use super::file;
use super::learn;
use super::output::note;
use super::past::{Keeping, Lasting};
use super::progress::{self, Meter};
use super::trace::columns_help;
use super::tracing::Tracing;
use super::watch::Page;
use clap::Args;
use parakeet::rules::RuleSet;
use report::record::Run;
use ssd::{DriveConfig, DriveMedia};
use stack::{Past, Plan, Progress, Rest, Sampling, Sight, StackError, StackName, Until, knobs};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use units::{Bytes, Ns};
use workload::Workload;
use workload::files::FileWorkload;
use workload::files::beside::parts;
use workload::shipped::{Asked, with};
use workload::trace::{Columns, Format};

/// Longest time to count the requests of a workload ahead, for the progress bar.
const COUNTING: Duration = Duration::from_millis(500);

/// Options that `run` and `compare` share.
#[derive(Args)]
pub(crate) struct Choices {
    /// Drive model: a preset (see `flashloom drives`) or a TOML file. The stack sets the interface,
    /// such as blocks or zones [default: the preset that the stack names]
    #[arg(long, value_name = "DRIVE")]
    drive: Option<String>,
    /// Usable capacity, such as 1GiB; the number of flash blocks scales with it [default: that of
    /// the drive; 1408 MiB for the shipped recording of RocksDB, and 8832 MiB with the precondition
    /// used]
    #[arg(long)]
    size: Option<Bytes>,
    /// Change a setting of the drive (see `flashloom drives block`), the host or its page cache
    /// (see `flashloom stacks`); may be repeated
    #[arg(long, value_name = "SETTING=VALUE")]
    set: Vec<String>,
    /// Placement rules: a file, or a shipped set such as rocksdb. For shimmer and zenfs, which place
    /// files by them, and for stacks with +hints, such as ext4+hints@fdp; not for stacks that name
    /// a set, such as shimmer+wiredtiger@zns [default: rocksdb]
    #[arg(long, value_name = "RULES")]
    rules: Option<String>,
    // Its help is made of the list of formats.
    #[arg(long, help = format!("Format of the trace, if its contents do not tell: {}", Format::list()))]
    format: Option<Format>,
    // Its help is made of the list of columns.
    #[arg(long, value_name = "LIST", conflicts_with = "format", help = columns_help())]
    columns: Option<Columns>,
    /// End of the run: `end`, with the workload; or `steady` (raw stacks only), which
    /// repeats the workload until the write amplification of two consecutive windows differs by at
    /// most 2 %, for at most 32 windows. In each window the host writes as many bytes as the drive
    /// holds [default: end]
    #[arg(long, value_name = "STATE")]
    until: Option<Until>,
    /// Seed of all random choices [default: 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Sample metrics over virtual time, every 100 ms or every TIME
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "100ms", value_parser = interval)]
    timeline: Option<Ns>,
    #[command(flatten)]
    pub(crate) keeping: Keeping,
}

/// Parses a time with its unit: a bare number would count as nanoseconds, which users never mean.
fn interval(text: &str) -> Result<Ns, String> {
    let wrong = || "expected a time with its unit, such as 10ms".to_owned();
    match text.parse::<u64>() {
        Ok(_) => Err(wrong()),
        Err(_) => text.parse().map_err(|_| wrong()),
    }
}

/// Parses the drive workload `told`.
///
/// # Errors
/// If it is something else, or a shipped workload cannot be written to a file.
pub(super) fn asked(told: &str) -> Result<Asked, Failure> {
    let name = told.split(':').next().unwrap_or_default();
    let elsewhere = match Path::new(name) {
        _ if designs::are_meant_by(told) => Some(
            "is a memory workload: run it with flashloom \
            memory",
        ),
        path if is_plan(name) && path.is_file() => Some("is a plan: run it with flashloom compare"),
        _ => None,
    };
    match elsewhere {
        Some(where_to) => Err(Failure::new(format!("{name} {where_to}"))),
        None => Ok(Asked::new(told)?),
    }
}

/// Rejects a page that cannot be written, or that would overwrite an input: a file that `workload`
/// names, the database, or one of `others`.
pub(super) fn check_page(
    page: Option<&Path>,
    workload: &str,
    keeping: &Keeping,
    others: &[&str],
) -> Result<(), Failure> {
    let Some(page) = page else { return Ok(()) };
    file::check_place(page)?;
    // Several workloads are joined by & and have names, several traces of memory by +, and a colon
    // may be part of a path: every possible path is checked.
    let parts = workload.split(['&', '+']).chain([workload]).map(str::trim);
    let unnamed = parts.flat_map(|part| [Some(part), part.split_once('=').map(|(_, text)| text)]);
    let paths = unnamed.flatten().flat_map(|part| {
        let before = [part.split_once(':'), part.rsplit_once(':')];
        let before = before.map(|at| at.map_or(part, |(path, _)| path));
        [part, before[0], before[1]]
    });
    let read = paths.chain(others.iter().copied()).map(Path::new);
    file::check_other(page, read.chain([keeping.place().as_path()]))
}

/// Whether `workload` is a file of plans.
pub(super) fn is_plan(workload: &str) -> bool {
    let path = Path::new(workload);
    path.extension().is_some_and(|e| e == "toml")
}

/// Workload as named on the command line and as `stack` parses it.
pub(crate) struct Source(Asked);

impl Source {
    /// The workload `told`, with the format that the choices set.
    pub(crate) fn new(told: &str, choices: &Choices) -> Result<Self, Failure> {
        let list = |columns: Columns| columns.to_string().replace(',', "/");
        let text = match (choices.format, choices.columns) {
            (Some(format), _) => with(told, &format!("format={}", format.name())),
            (None, Some(columns)) => with(told, &format!("columns={}", list(columns))),
            (None, None) => told.to_owned(),
        };
        Ok(Self(asked(&text)?))
    }

    /// The default stacks of a comparison.
    pub(crate) fn usual_stacks(&self) -> Vec<StackName> {
        stack::usual_stacks(&self.0)
    }

    /// Whether it is a file workload, which needs a file system.
    pub(crate) fn asks_for_files(&self) -> bool {
        workload::files::asks_for_files(&self.0.text)
    }

    /// Whether its parameters say if threads pause.
    pub(crate) fn sets_think(&self) -> bool {
        let mut params = self.0.told.split([':', ',']).skip(1);
        params.any(|param| param.starts_with("think=") || param.starts_with("speed="))
    }

    /// Whether all of it is in files, so that the seed affects next to nothing.
    pub(crate) fn is_in_a_file(&self) -> bool {
        let is_file = |text: &str| Path::new(text.split(':').next().unwrap_or_default()).is_file();
        let whole = &self.0.text;
        parts(whole).map_or_else(
            || is_file(whole),
            |parts| parts.iter().all(|part| is_file(part.text)),
        )
    }
}

/// Watchers of a run, if the user asked for them.
#[derive(Default)]
pub(crate) struct Watchers {
    /// The live page of the run.
    pub(crate) page: Option<Page>,
    /// The files of its trace.
    pub(crate) tracing: Option<Tracing>,
}

/// Plans and the workloads that they name.
pub(crate) struct Experiment {
    pub(crate) plans: Vec<Plan>,
    pub(crate) sources: Vec<Source>,
}

impl Choices {
    /// Options that do not go with a plan file, and whether each is given.
    pub(crate) fn given(&self) -> impl Iterator<Item = (&'static str, bool)> {
        let given = [
            ("--drive", self.drive.is_some()),
            ("--size", self.size.is_some()),
            ("--set", !self.set.is_empty()),
            ("--rules", self.rules.is_some()),
            ("--format", self.format.is_some()),
            ("--columns", self.columns.is_some()),
            ("--seed", self.seed.is_some()),
            ("--until", self.until.is_some()),
            ("--timeline", self.timeline.is_some()),
        ];
        given.into_iter()
    }

    /// The assignments of `--set`.
    pub(crate) fn changes(&self) -> &[String] {
        &self.set
    }

    /// The seed of `--seed`, or 1.
    pub(crate) fn seed(&self) -> u64 {
        self.seed.unwrap_or(1)
    }

    /// The argument of `--drive`; empty without it.
    pub(crate) fn drive_name(&self) -> &str {
        self.drive.as_deref().unwrap_or_default()
    }

    /// The first given option that would change the shape of a drive; `None` without any.
    pub(crate) fn shape_given(&self) -> Option<&'static str> {
        let set = self
            .set
            .iter()
            .any(|assignment| knobs::are_of_drive(assignment));
        let shapes = [("--size", self.size.is_some()), ("--set", set)];
        shapes
            .into_iter()
            .find(|(_, given)| *given)
            .map(|(name, _)| name)
    }

    /// Rejects a page that cannot be written, or that would overwrite an input.
    pub(crate) fn check_page(&self, page: Option<&Path>, workload: &str) -> Result<(), Failure> {
        let others = [self.drive_name(), self.rules.as_deref().unwrap_or_default()];
        check_page(page, workload, &self.keeping, &others)
    }

    /// Rejects rules if none of `stacks` places files by rules.
    pub(crate) fn check_rules<'a>(
        &self,
        stacks: impl IntoIterator<Item = &'a StackName>,
    ) -> Result<(), Failure> {
        let mut stacks = stacks.into_iter().peekable();
        let first = stacks.peek().map_or_else(String::new, ToString::to_string);
        if self.rules.is_none() || stacks.any(StackName::takes_rules) {
            return Ok(());
        }
        Err(Failure::new(format!(
            "--rules: expected a stack that uses placement rules, such as shimmer@zns or \
             ext4+hints@fdp, found {first}"
        )))
    }

    /// The drive file that `--drive` names; `None` if it names no such file.
    pub(crate) fn drive_file(&self) -> Option<&Path> {
        let path = Path::new(self.drive.as_deref()?);
        file::is_drive(path).then_some(path)
    }

    /// A plan of `source` on `stack`, with a drive of the precondition `past`, or the default one.
    pub(crate) fn plan(
        &self,
        stack: &StackName,
        past: Option<Past>,
        source: &Source,
    ) -> Result<Plan, Failure> {
        if let Some(path) = self.drive_file() {
            let reason = "expected a drive preset or a TOML file; only flashloom run takes a drive \
                file";
            return Err(Failure::at(path, reason));
        }
        let plan = self.chosen().plan(stack, past, &source.0);
        self.ruled(plan.map_err(of_options)?)
    }

    /// A plan of `source` on `stack` with `drive`, unchanged.
    pub(crate) fn plan_on(
        &self,
        stack: &StackName,
        drive: DriveConfig,
        source: &Source,
    ) -> Result<Plan, Failure> {
        let plan = self.chosen().plan_on(stack, drive, &source.0);
        self.ruled(plan.map_err(of_options)?)
    }

    /// The choices in the library's form.
    fn chosen(&self) -> stack::Choices {
        stack::Choices {
            drive: self.drive.clone(),
            size: self.size,
            set: self.set.clone(),
            seed: self.seed,
            sample: self.timeline.map(Sampling::each),
            until: self.until.unwrap_or_default(),
        }
    }

    /// `plan` with the rules of `--rules`.
    fn ruled(&self, mut plan: Plan) -> Result<Plan, Failure> {
        plan.behaviour.rules = self.rules()?;
        Ok(plan)
    }

    fn rules(&self) -> Result<Option<Arc<RuleSet>>, Failure> {
        let named = self.rules.as_deref().map(learn::rules);
        Ok(named.transpose()?.map(Arc::new))
    }

    /// Appends `runs`, each with its plan, to the database.
    pub(crate) fn keep<'a>(
        &self,
        database: Option<&Path>,
        runs: impl IntoIterator<Item = (&'a Run, &'a Plan)>,
    ) -> Lasting {
        let runs = runs.into_iter();
        let runs = runs.map(|(run, plan)| (run, run.seed, digest(plan, &run.workload)));
        self.keeping.append(database, runs)
    }
}

impl Experiment {
    /// The experiment of `plans` from a plan file, whose workloads may have any form of the command
    /// line.
    pub(crate) fn of(mut plans: Vec<Plan>) -> Result<Self, Failure> {
        let mut sources: Vec<Source> = Vec::new();
        for plan in &mut plans {
            let known = sources.iter().position(|s| s.0.told == plan.workload);
            let index = match known {
                Some(index) => index,
                None => {
                    sources.push(Source(asked(&plan.workload)?));
                    sources.len() - 1
                }
            };
            plan.workload.clone_from(&sources[index].0.text);
        }
        Ok(Self { plans, sources })
    }

    /// Runs all plans, `threads` at a time, with a progress bar. A plan that cannot be run does not
    /// affect the others.
    pub(crate) fn attempt(&self, threads: usize) -> Vec<Result<Run, String>> {
        self.again(&self.plans, threads)
    }

    /// Runs `plans`, which may differ from the experiment's in their loads, as
    /// [`Experiment::attempt`] does.
    pub(crate) fn again(&self, plans: &[Plan], threads: usize) -> Vec<Result<Run, String>> {
        let (meter, start) = (self.meter(), Instant::now());
        let clock = || start.elapsed().as_secs_f64();
        let windows = WindowNotes::new(plans);
        let heard = |index, progress: Progress| {
            meter.hear(index, &progress);
            windows.hear(index, progress);
        };
        let shelf = Shelf::open();
        let rest = |plan: &Plan, heard: &mut dyn FnMut(Progress)| shelf.rest(plan, heard);
        let outcomes = stack::sweep_from(plans, threads, &clock, &heard, &rest);
        meter.finish();
        let told = |outcome: Result<Run, StackError>| {
            let mut run = outcome.map_err(|e| self.named(&e.to_string()))?;
            self.complete(&mut run);
            Ok(run)
        };
        outcomes.into_iter().map(told).collect()
    }

    /// Runs the first plan on a drive with the contents `media`, or with the plan's precondition,
    /// and returns the contents afterwards. `watchers` see the run meanwhile.
    pub(crate) fn run_on(
        &self,
        media: Option<DriveMedia>,
        watchers: &mut Watchers,
    ) -> Result<(Run, DriveMedia), Failure> {
        let (meter, start) = (self.meter(), Instant::now());
        let plan = &self.plans[0];
        let windows = WindowNotes::new(&self.plans);
        let mut seen = Ok(());
        let mut see = |sight: &Sight<'_>| {
            meter.hear(0, &sight.progress());
            windows.hear(0, sight.progress());
            if let (Some(page), true) = (&mut watchers.page, seen.is_ok()) {
                seen = page.see(sight);
            }
            if let Some(tracing) = &mut watchers.tracing {
                tracing.see(sight);
            }
        };
        let rest = match media {
            Some(media) => Ok(Rest::new(media)),
            None => Shelf::open().rest(plan, &mut |progress| meter.hear(0, &progress)),
        };
        let outcome = rest.and_then(|rest| stack::run_from(plan, rest, &mut see));
        meter.finish();
        seen?;
        let (mut run, left) = outcome.map_err(|e| self.failure(&e))?;
        run.wall_time_s = start.elapsed().as_secs_f64();
        self.complete(&mut run);
        Ok((run, left))
    }

    /// Runs the plan number `index`; an error names the workload as the user wrote it.
    pub(crate) fn run(&self, index: usize) -> Result<Run, String> {
        let run = stack::run(&self.plans[index], &mut |_| ());
        let mut run = run.map_err(|error| self.named(&error.to_string()))?;
        self.rename(&mut run);
        Ok(run)
    }

    /// The name of the run of `plan`, for the progress display.
    pub(crate) fn name(&self, plan: &Plan) -> String {
        self.named(&format!("{} {}", plan.stack, plan.workload))
    }

    /// The stack of `plan` with its precondition and label.
    pub(crate) fn title(&self, plan: &Plan) -> String {
        let (stack, past) = (&plan.stack, plan.past());
        match self.named(&plan.label).as_str() {
            "" => format!("{stack} ({past})"),
            label => format!("{stack} ({past}, {label})"),
        }
    }

    /// Everything that determines the run of `plan`, as text.
    pub(crate) fn told(&self, plan: &Plan) -> String {
        self.named(&format!("{plan:?}"))
    }

    /// Adds the names that the user gave, and the process's peak memory.
    fn complete(&self, run: &mut Run) {
        self.rename(run);
        run.peak_rss_bytes = peak_rss_bytes();
    }

    /// Restores workload and label as the user wrote them.
    fn rename(&self, run: &mut Run) {
        run.workload = self.named(&run.workload);
        run.label = self.named(&run.label);
    }

    /// `text` with every workload as the user wrote it.
    fn named(&self, text: &str) -> String {
        let named = |text: String, source: &Source| source.0.named(&text);
        self.sources.iter().fold(text.to_owned(), named)
    }

    fn failure(&self, error: &StackError) -> Failure {
        Failure::new(self.named(&error.to_string()))
    }

    fn meter(&self) -> Meter {
        let requests = progress::is_seen().then(|| self.requests()).flatten();
        Meter::new(self.plans.len(), requests, "requests")
    }

    /// Number of requests of all plans. `None` if counting takes too long, or hits an error, which
    /// the run will report.
    fn requests(&self) -> Option<u64> {
        let start = Instant::now();
        let (mut total, mut last) = (0, None::<(&Plan, u64)>);
        if self.plans.iter().any(|plan| plan.until == Until::Steady) {
            return None;
        }
        for plan in &self.plans {
            let known = last.filter(|(p, _)| p.workload == plan.workload && p.seed == plan.seed);
            let count = match known {
                Some((_, count)) => count,
                None => count(plan, start)?,
            };
            last = Some((plan, count));
            total = u64::checked_add(total, count)?;
        }
        Some(total)
    }
}

/// Notes of runs repeated by `--until steady`, one line per window.
struct WindowNotes<'a> {
    plans: &'a [Plan],
    noted: Vec<AtomicU32>,
}

impl<'a> WindowNotes<'a> {
    fn new(plans: &'a [Plan]) -> Self {
        let noted = plans.iter().map(|_| AtomicU32::new(0)).collect();
        Self { plans, noted }
    }

    /// Writes a line if plan `index` has closed a window since the last call.
    fn hear(&self, index: usize, progress: Progress) {
        let (plan, windows) = (&self.plans[index], progress.windows);
        let is_new = self.noted[index].swap(windows, Ordering::Relaxed) < windows;
        if !is_new || plan.until != Until::Steady || progress.past.is_some() {
            return;
        }
        let amplification = match progress.amplification {
            Some(amplification) => format!("amplification {amplification:.3}"),
            None => "nothing erased yet".to_owned(),
        };
        note(&format!(
            "flashloom: {} ({}): window {windows} of at most {}, {amplification}",
            plan.stack,
            plan.past(),
            stack::MOST_WINDOWS
        ));
    }
}

fn count(plan: &Plan, start: Instant) -> Option<u64> {
    if plan.stack.host != "raw" {
        return FileWorkload::parse(&plan.workload).ok()?.calls();
    }
    let workload = Workload::parse(&plan.workload).ok()?;
    let stream = workload
        .open(plan.drive.capacity, sim::Seed(plan.seed))
        .ok()?;
    let mut count = 0;
    for request in stream {
        request.ok()?;
        count += 1;
        if count % 4096 == 0 && start.elapsed() > COUNTING {
            return None;
        }
    }
    Some(count)
}

/// An error of a plan, in terms of the options that it comes from.
pub(super) fn of_options(error: StackError) -> Failure {
    match error {
        StackError::Knob { .. } => Failure::new(format!("--set {error}")),
        other => other.into(),
    }
}

/// The command line, for records.
pub(crate) fn command() -> String {
    let words: Vec<String> = std::env::args().skip(1).collect();
    format!("flashloom {}", words.join(" "))
}

/// A fingerprint of everything that determines a run: FNV-1a over its plan.
fn digest(plan: &Plan, workload: &str) -> String {
    let plan = Plan {
        workload: workload.to_owned(),
        ..plan.clone()
    };
    fingerprint([format!("{plan:?}").as_bytes()])
}

/// FNV-1a hash over `parts`, in hexadecimal.
pub(crate) fn fingerprint<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let bytes = parts.into_iter().flatten();
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// Peak memory of this process in bytes, as the kernel reports it; 0 if it does not.
fn peak_rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * units::KIB
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_is_in_files_only_if_all_its_parts_are() {
        let is_in_a_file = |told: &str| Source(Asked::new(told).unwrap()).is_in_a_file();
        assert!(is_in_a_file("sqlite:think=no") && is_in_a_file("db=sqlite"));
        assert!(is_in_a_file("sqlite & db=rocksdb:think=no"));
        assert!(!is_in_a_file("append") && !is_in_a_file("sqlite & append"));
    }
}
