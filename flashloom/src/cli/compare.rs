//! `compare`: one workload on several stacks, or designs of memory.

use super::designs;
use super::designs_page;
use super::experiment::{Choices, Experiment, Source, command, is_plan};
use super::failure::Failure;
use super::outcomes::Outcomes;
use super::output::{self, Shown, note};
use super::rank::Ranked;
use clap::{Args, ValueEnum};
use machine::Asked;
use report::page;
use report::ranking::LeftOut;
use report::record::Comparison;
use report::table;
use skybyte::Design;
use ssd::Precondition;
use stack::{Past, Plan, Sampling, StackError, StackName, Used};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use workload::shipped;

/// Default path of the page.
const PAGE: &str = "report.html";

/// Run one workload on several stacks over the same flash and compare them
///
/// Without arguments, replay the shipped recording of RocksDB on ext4 over a conventional drive, a
/// drive with streams and a drive with FDP. Each drive is compared in two preconditions: full and
/// aged.
///
/// The default comparison takes seconds. --all runs every stack that supports the workload (about
/// thirty for files, seven for block requests), once for each seed: about two minutes on two cores
/// for varmail:files=200.
///
/// A memory workload, such as bfs, runs on designs of CXL-SSD memory instead: those of --stacks, by
/// default all. `flashloom memory --help` lists the designs.
#[derive(Args)]
pub(crate) struct Compare {
    /// Trace, recording, preset with parameters (see `flashloom workloads`), fio job, or plan
    /// (.toml), which names its own stacks
    #[arg(default_value = shipped::RECORDING.name)]
    workload: String,
    /// Same as the argument WORKLOAD; `run` has an option of this name
    #[arg(
        long = "workload",
        value_name = "WORKLOAD",
        conflicts_with = "workload"
    )]
    named: Option<String>,
    /// Stacks or memory designs, separated by commas; or `interfaces`, for ten file systems over all
    /// interfaces of one flash, with the precondition used [default: ext4@block,ext4@streams,ext4@fdp;
    /// raw@block,raw@streams,raw@fdp for block requests; all designs for memory]
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "STACK,…",
        conflicts_with = "all"
    )]
    stacks: Option<Vec<System>>,
    /// Parameters of memory designs where SkyByte's paper and artifact differ: default, paper or
    /// artifact
    #[arg(long)]
    profile: Option<String>,
    /// Preconditions, separated by commas. Of the drives: fresh (as manufactured), full (every page
    /// written once, in order) or aged (overwritten until garbage collection is steady). Of file
    /// system and drive together: used, or used:fill=70 (files fill this percentage of the capacity,
    /// and are written over until garbage collection is steady) [default: full,aged; aged for raw
    /// stacks; full if a stack has zones; used for the stacks `interfaces`]
    #[arg(long, value_delimiter = ',', value_name = "PRECONDITION,…", value_parser = stack::past)]
    preconditions: Option<Vec<Past>>,
    #[command(flatten)]
    ranked: Ranked,
    #[command(flatten)]
    choices: Choices,
    /// Loads to run: both (first without pauses between calls, for the speed of each stack; then at
    /// the recorded pauses, or at half the rate of the slowest stack, for latencies), or own (the
    /// workload as it is); a workload with think= or speed= always runs as it is
    #[arg(long, value_name = "LOAD", default_value = "both")]
    load: Load,
    /// Print every metric, one column for each stack
    #[arg(long, conflicts_with = "all")]
    verbose: bool,
    /// Parallel runs [default: one per core]
    #[arg(long, value_name = "N", value_parser = super::some)]
    jobs: Option<NonZeroUsize>,
    /// Write the HTML page to this file (not with --all) [default: report.html]
    #[arg(long, value_name = "FILE", conflicts_with = "all")]
    report: Option<PathBuf>,
    #[command(flatten)]
    shown: Shown,
}

/// Loads at which the stacks are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Load {
    /// The peak of each stack, and an even load.
    Both,
    /// The load of the workload itself.
    Own,
}

/// Stack or memory design that a workload runs on.
#[derive(Clone)]
enum System {
    /// Name of a memory design.
    Design(&'static str),
    Drive(StackName),
    /// File systems over all interfaces.
    Interfaces,
}

/// Name of [`System::Interfaces`].
const INTERFACES: &str = "interfaces";

impl System {
    const fn design(&self) -> Option<&'static str> {
        match self {
            Self::Design(name) => Some(name),
            Self::Drive(_) | Self::Interfaces => None,
        }
    }

    /// The storage stacks of this name.
    fn drives(&self) -> Vec<StackName> {
        match self {
            Self::Design(_) => Vec::new(),
            Self::Drive(stack) => vec![stack.clone()],
            Self::Interfaces => stack::interfaces(),
        }
    }
}

impl FromStr for System {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(design) = Design::named(text) {
            return Ok(Self::Design(design.name));
        }
        if text == INTERFACES {
            return Ok(Self::Interfaces);
        }
        if !text.contains('@') {
            let all = designs::all().join(", ");
            return Err(format!(
                "expected HOST@DRIVE such as raw@block, {INTERFACES}, or a memory design ({all})"
            ));
        }
        let stack = text.parse().map_err(|e: StackError| e.to_string())?;
        Ok(Self::Drive(stack))
    }
}

impl Compare {
    /// The workload to run.
    fn workload(&self) -> &str {
        self.named.as_deref().unwrap_or(&self.workload)
    }

    /// Whether `source` may run at two loads: it is no plan, and does not say if threads pause.
    fn has_loads(&self, source: &Source) -> bool {
        self.load == Load::Both && !is_plan(self.workload()) && !source.sets_think()
    }

    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        if let Some(designs) = self.designs()? {
            return self.run_designs(&designs);
        }
        if self.profile.is_some() {
            let reason = "expected memory designs in --stacks; storage stacks have no profile";
            return Err(Failure::new(format!("--profile: {reason}")));
        }
        if self.ranked.all {
            return self.rank();
        }
        let experiment = self.experiment()?;
        self.check_page()?;
        self.choices
            .check_rules(experiment.plans.iter().map(|plan| &plan.stack))?;
        let database = self.choices.keeping.database()?;
        let title = |plan: &Plan| experiment.title(plan);
        let threads = super::jobs(self.jobs);
        let mut outcomes = Outcomes::of(&experiment, threads, 1, title);
        outcomes.check()?;
        let mut sources = experiment.sources.iter();
        if sources.all(|source| self.has_loads(source)) {
            outcomes.add_even_load(&experiment, threads)?;
        }
        let lasting = self.choices.keep(database.as_deref(), outcomes.each());
        outcomes.leave_out_failed(title);
        outcomes.check()?;
        let Outcomes { runs, left_out, .. } = outcomes;
        let seed = experiment.plans.first().map_or(1, |plan| plan.seed);
        let comparison = Comparison::new(self.workload(), seed, runs);
        let page = self.write_page(&page::comparison(&comparison, &left_out, &command()));
        let printed = output::emit(&self.answer(&comparison, &left_out));
        let are_kept = lasting.tell();
        page?;
        Ok(output::status(printed, are_kept && left_out.is_empty()))
    }

    /// The document or the table. The document has no stacks that are left out.
    fn answer(&self, comparison: &Comparison, left_out: &[LeftOut]) -> String {
        if self.shown.json {
            for LeftOut { stack, reason } in left_out {
                note(&format!("flashloom: left out: {stack}: {reason}"));
            }
            return report::to_json(comparison) + "\n";
        }
        let style = Shown::style();
        let table = match self.verbose {
            true => table::comparison,
            false => table::summary,
        };
        let compared = table(comparison, style) + "\n";
        match left_out.is_empty() {
            true => compared,
            false => compared + &table::left_out(left_out, style) + "\n",
        }
    }

    fn check_page(&self) -> Result<(), Failure> {
        self.choices
            .check_page(self.report.as_deref(), self.workload())
    }

    /// The requested memory designs; `None` if the comparison is of drives.
    fn designs(&self) -> Result<Option<Vec<&str>>, Failure> {
        if is_plan(self.workload()) {
            return Ok(None);
        }
        let of_memory = || designs::are_meant_by(self.workload());
        let Some(stacks) = &self.stacks else {
            return Ok(of_memory().then(designs::all));
        };
        let names: Vec<&str> = stacks.iter().filter_map(System::design).collect();
        let drive = stacks.iter().flat_map(System::drives).next();
        match (names.first(), drive) {
            (Some(design), Some(stack)) => Err(Failure::new(format!(
                "--stacks: {design} is a memory design and {stack} is a storage stack; no workload \
                 runs on both"
            ))),
            (None, Some(stack)) if of_memory() => Err(Failure::new(format!(
                "{} is a memory workload, and {stack} is a storage stack: expected memory designs \
                 ({})",
                self.workload(),
                designs::all().join(", ")
            ))),
            (Some(design), None) if designs::refuse(self.workload()) => Err(Failure::new(format!(
                "{design} is a memory design, and {} is a storage workload: expected a memory \
                 workload (see flashloom memory --help)",
                self.workload()
            ))),
            (None, _) => Ok(None),
            (Some(_), None) => Ok(Some(names)),
        }
    }

    fn run_designs(&self, designs: &[&str]) -> Result<ExitCode, Failure> {
        let drives_alone = [
            ("--all", self.ranked.all),
            ("--preconditions", self.preconditions.is_some()),
        ];
        let mut given = drives_alone.into_iter().chain(self.choices.given());
        let known = ["--set", "--seed"];
        if let Some((name, _)) = given.find(|(name, given)| *given && !known.contains(name)) {
            return Err(Failure::new(format!(
                "{name} applies to storage stacks only; memory designs take --profile, --set, \
                 --seed, --report, \
                 --label and --db"
            )));
        }
        self.check_page()?;
        let asked = Asked {
            designs,
            workload: self.workload(),
            profile: self.profile.as_deref().unwrap_or("default"),
            changes: self.choices.changes(),
            seed: self.choices.seed(),
        };
        let jobs = super::jobs(self.jobs);
        let (runs, lasting) = designs::run(asked, jobs, &self.choices.keeping)?;
        let json = designs::document(&runs)?;
        let page = self.write_page(&designs_page::page(&runs, &json, &command())?);
        let printed = output::emit(&designs::answer(&runs, self.shown)?);
        let are_kept = lasting.tell();
        page?;
        Ok(output::status(printed, are_kept))
    }

    fn rank(&self) -> Result<ExitCode, Failure> {
        let told = self.workload();
        if is_plan(told) {
            let reason = "the plan lists its own stacks; omit --all";
            return Err(Failure::at(Path::new(told), reason));
        }
        let source = Source::new(told, &self.choices)?;
        let jobs = super::jobs(self.jobs);
        let pasts = self.preconditions.as_deref();
        self.ranked
            .run(told, source, &self.choices, pasts, jobs, &self.shown)
    }

    fn experiment(&self) -> Result<Experiment, Failure> {
        if is_plan(self.workload()) {
            self.refuse_beside_plan()?;
            return Experiment::of(stack::plan_file(self.workload())?);
        }
        let source = Source::new(self.workload(), &self.choices)?;
        let usual = || source.usual_stacks();
        let stacks: Vec<StackName> = match &self.stacks {
            Some(named) => named.iter().flat_map(System::drives).collect(),
            None => usual(),
        };
        let is_of_all = |named: &System| matches!(named, System::Interfaces);
        let usual = || match self.stacks.iter().flatten().any(is_of_all) {
            true => vec![Past::Used(Used::default())],
            false => stack::usual_pasts(&stacks),
        };
        let pasts = self.preconditions.clone().unwrap_or_else(usual);
        let mut plans: Vec<Plan> = Vec::new();
        for &past in &pasts {
            for stack in &stacks {
                let mut plan = self.choices.plan(stack, Some(past), &source)?;
                if self.has_loads(&source) {
                    plan = stack::load::peak(&plan)?;
                }
                // The page shows amplification over time.
                plan.sample = plan.sample.or(Some(Sampling::widening()));
                plans.push(plan);
            }
        }
        Ok(Experiment {
            plans,
            sources: vec![source],
        })
    }

    /// Rejects options beside a plan, which defines everything itself.
    fn refuse_beside_plan(&self) -> Result<(), Failure> {
        let here = [
            ("--stacks", self.stacks.is_some()),
            ("--preconditions", self.preconditions.is_some()),
        ];
        let given = here.into_iter().chain(self.choices.given());
        let Some((name, _)) = given.into_iter().find(|(_, given)| *given) else {
            return Ok(());
        };
        let plan = Path::new(self.workload());
        let reason = format!("the plan sets this itself; omit {name}");
        Err(Failure::at(plan, reason))
    }

    /// Writes the page. Failure to write a page that the user did not name costs no result.
    fn write_page(&self, page: &str) -> Result<(), Failure> {
        let path = self.report.as_deref().unwrap_or(Path::new(PAGE));
        match report::file::write(path, page) {
            Ok(()) => note(&format!(
                "flashloom: wrote the HTML page {}",
                path.display()
            )),
            Err(e) if self.report.is_some() => return Err(Failure::new(e)),
            Err(e) => note(&format!(
                "flashloom: the HTML page could not be written: {e}"
            )),
        }
        Ok(())
    }
}

/// The default precondition of a drive of this stack among others of its kind; only open-channel
/// drives, which hold just what their host wrote, are fresh.
pub(crate) fn usual_past(stack: &StackName) -> Past {
    let pasts = stack::usual_pasts(std::slice::from_ref(stack));
    pasts
        .first()
        .copied()
        .unwrap_or(Past::Drive(Precondition::Fresh))
}
