//! `crash`: power cuts at the events of a run, each followed by a recovery and its check.

use super::cache::Shelf;
use super::experiment::{asked, of_options};
use super::failure::Failure;
use super::output::{self, Shown, note};
use super::progress::Meter;
use clap::Args;
use crash::{Cut, Exploration, Fault, Points, Progress};
use host::HostConfig;
use report::Style;
use report::table::facts;
use serde::Serialize;
use stack::crash::{Cuts, explore_while};
use stack::hosts::Behaviour;
use stack::knobs;
use stack::{Ending, Past, Plan, StackName};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::process::ExitCode;
use units::{Bytes, MIB};
use vfs::CacheConfig;
use workload::shipped::Asked;

/// Test crash consistency: cut the power at events of a run, recover, check the data
///
/// The workload runs once per seed. At each chosen event of the simulation, a copy of the drive
/// loses power, is powered on, recovered and read. Data that a completed fsync or flush made
/// durable must be present, all else must be a state that the issued calls can produce, and the
/// checkers of the on-disk format must pass. On raw stacks each unit of 4 KiB must hold its
/// last flushed or FUA-written contents, or newer ones. The power is cut again during one recovery
/// in four. The exit status is 1 if a check fails.
#[derive(Args)]
pub(crate) struct Crash {
    /// Stack, such as ext4@block (see `flashloom stacks`)
    #[arg(value_name = "STACK")]
    stack: StackName,
    /// File workload, or on raw stacks a block workload, whose requests are rounded outwards to
    /// whole units of 4 KiB. A corpus such as ace:seq=2 is a list of short call sequences; each of
    /// them is a run of its own
    #[arg(long, default_value = "varmail:files=50,threads=2,ops=500")]
    workload: String,
    /// Number of events of a run at which the power is cut, or all. In a run with fewer events, the
    /// power is cut at each event and after the last, and the output says so
    #[arg(long, default_value = "1000", value_parser = points)]
    points: Points,
    /// First seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of consecutive seeds to run
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Repeat one power cut from the report of a failure: EVENT or EVENT:EVENT-OF-RECOVERY
    #[arg(long, value_name = "CUT", conflicts_with_all = ["points", "seeds"])]
    at: Option<Cut>,
    /// At every N-th cut, run the external checker of the format, such as e2fsck, and write to the
    /// recovered file system; 0 for never
    #[arg(long, value_name = "N", default_value_t = 50)]
    outside: u64,
    /// Usable capacity [default: 128MiB; 512MiB on zoned drives]
    #[arg(long)]
    size: Option<Bytes>,
    /// Size of the page cache; a small one evicts recent writes
    #[arg(long, default_value = "1GiB")]
    page_cache: Bytes,
    /// Make the drive acknowledge flushes without performing them, to show that the checks detect
    /// lost data
    #[arg(long)]
    lie: bool,
    /// Give the drive a volatile cache that it empties in any order (block interface only), to show
    /// that the file system flushes where it must
    #[arg(long)]
    reorder: bool,
    /// Omit persistent-memory fences (hyfim only), to show that the checks detect lost data
    #[arg(long)]
    skip_fences: bool,
    /// Take a snapshot before the workload and check that it stays unchanged (btrfs, btrfs-nocow
    /// and hyfim only)
    #[arg(long)]
    snapshot: bool,
    /// Change a setting of the drive; may be repeated. The drive has no power-loss protection
    /// unless it has a battery or controller.power_loss_protection=true is set. battery=all, log or
    /// none is the part of a byte-addressable drive's DRAM that survives
    #[arg(long, value_name = "SETTING=VALUE")]
    set: Vec<String>,
    /// Precondition of the drive: fresh, full or aged; or of file system and drive together: used,
    /// or used:fill=70
    #[arg(long, default_value = "fresh", value_parser = stack::past)]
    precondition: Past,
    #[command(flatten)]
    shown: Shown,
}

fn points(text: &str) -> Result<Points, String> {
    if text == "all" {
        return Ok(Points::All);
    }
    let number = text.parse().ok().filter(|&number| number > 0);
    let wrong = || format!("expected all, or a number of points of at least 1, found {text:?}");
    number.map(Points::Some).ok_or_else(wrong)
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

/// JSON document of `crash`.
#[derive(Serialize)]
struct Found {
    stack: String,
    workload: String,
    seed: u64,
    seeds: u64,
    runs: u64,
    events: u64,
    points: u64,
    states: usize,
    bound: Option<String>,
    /// Writes and forces that failed in the runs.
    failed_calls: u64,
    recoveries_cut: u64,
    /// Recoveries that were run without a cut; cuts that left equal states share one.
    recovered: u64,
    outside: u64,
    lost: u64,
    corrupt: u64,
    media: u64,
    met: BTreeMap<&'static str, u64>,
    failures: Vec<Failed>,
}

/// Broken promise, with the cut that shows it.
#[derive(Serialize)]
pub(crate) struct Failed {
    seed: u64,
    point: String,
    pub(crate) fault: String,
    pub(crate) what: String,
    pub(crate) repeat: String,
}

impl Failed {
    /// Whether the file system or the drive is at fault, and not the medium.
    pub(crate) fn breaks_promise(&self) -> bool {
        self.fault != Fault::Media.to_string()
    }
}

impl Crash {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let meter = Meter::new(self.seeds as usize, None, "power cuts");
        let explored = self.explore(&mut |index, p| {
            meter.advance(index, p.points);
            ControlFlow::Continue(())
        });
        meter.finish();
        let (all, failures) = explored?;
        if let Some(cut) = self.at {
            check_reach(cut, &all)?;
        }
        let found = self.found(&all, failures);
        let text = |style| found.told(style);
        let answer = self.shown.answer("flashloom.crash/1", &found, text)?;
        if let Points::Some(asked) = self.points
            && all.points < asked.saturating_mul(self.seeds)
            && self.at.is_none()
        {
            note(&format!(
                "flashloom: {} power cuts instead of {asked} for each run: all runs together have \
                 only {} events",
                all.points, all.events
            ));
        }
        let shown = output::emit(&answer);
        Ok(if all.holds() {
            shown
        } else {
            ExitCode::from(1)
        })
    }

    /// The results of all seeds; `tell` receives the index of a seed and its progress, and decides
    /// whether that seed continues.
    pub(crate) fn explore(
        &self,
        tell: &mut dyn FnMut(usize, Progress) -> ControlFlow<()>,
    ) -> Result<(Exploration, Vec<Failed>), Failure> {
        let asked = asked(&self.workload)?;
        let shelf = Shelf::open();
        let mut all = Exploration::default();
        let mut failures = Vec::new();
        for (index, seed) in (self.seed..self.seed.saturating_add(self.seeds)).enumerate() {
            let mut cuts = self.cuts(&asked, seed)?;
            if cuts.plan.used.is_some() {
                let rest = shelf.rest(&cuts.plan, &mut |_| ());
                cuts.rest = Some(rest.map_err(|e| Failure::new(asked.named(&e.to_string())))?);
            }
            let found = explore_while(&cuts, &mut |p| tell(index, p));
            let found = found.map_err(|e| Failure::new(asked.named(&e.to_string())))?;
            failures.extend(found.failures.iter().map(|failure| Failed {
                seed,
                point: failure.cut.to_string(),
                fault: failure.fault.to_string(),
                what: failure.what.clone(),
                repeat: self.repeat(seed, failure),
            }));
            all.add(&found);
        }
        Ok((all, failures))
    }

    /// Checks whether the first run can be made, without making it.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let asked = asked(&self.workload)?;
        let checked = stack::crash::check(&self.cuts(&asked, self.seed)?);
        checked.map_err(|e| Failure::new(asked.named(&e.to_string())))
    }

    fn size(&self) -> Result<Bytes, Failure> {
        if let Some(size) = self.size {
            return Ok(size);
        }
        let drive = stack::drive::resolve(&self.stack.drive, None)?;
        Ok(Bytes(if drive.zones.is_some() { 512 } else { 128 } * MIB))
    }

    fn cuts(&self, asked: &Asked, seed: u64) -> Result<Cuts, Failure> {
        let mut drive = stack::drive::resolve(&self.stack.drive, Some(self.size()?))?;
        // With power-loss protection no flush would matter: only byte drives, whose DRAM has a battery,
        // have it.
        drive.controller.power_loss_protection = drive.front.is_some();
        let outside = |set: &&String| !knobs::are_of_drive(set);
        if let Some(set) = self.set.iter().find(outside) {
            let reason = "expected a setting of the drive; settings of the host cannot be changed \
                for crash tests";
            return Err(Failure::new(format!("--set {set}: {reason}")));
        }
        let drive = knobs::drive(drive, &self.set).map_err(of_options)?;
        let (precondition, used) = self.precondition.parts(&drive);
        let plan = Plan {
            label: String::new(),
            stack: self.stack.clone(),
            drive,
            precondition,
            used,
            workload: asked.text.clone(),
            seed,
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
            points: self.at.map_or_else(|| self.points.clone(), Points::One),
            outside: self.outside,
            memory: self.page_cache,
            lies: self.lie,
            reorders: self.reorder,
            skips_fences: self.skip_fences,
            snapshot: self.snapshot,
            rest: None,
        })
    }

    /// The command that repeats a single cut.
    fn repeat(&self, seed: u64, failure: &crash::Failure) -> String {
        let (cut, workload) = (failure.cut, &failure.workload);
        let workload = workload.as_ref().unwrap_or(&self.workload);
        let Self {
            stack,
            size,
            page_cache,
            precondition,
            outside,
            ..
        } = self;
        let page_cache = page_cache.0;
        let size: String = size
            .iter()
            .map(|size| format!(" --size {}", size.0))
            .collect();
        let flags = [
            (self.lie, " --lie"),
            (self.reorder, " --reorder"),
            (self.skip_fences, " --skip-fences"),
            (self.snapshot, " --snapshot"),
        ];
        let flags = flags.into_iter().filter(|flag| flag.0);
        let flags: String = flags.map(|flag| flag.1).collect();
        let set: String = self.set.iter().map(|set| format!(" --set {set}")).collect();
        format!(
            "flashloom crash {stack} --workload '{workload}'{size} --page-cache {page_cache} \
             --precondition {precondition}{set}{flags} --outside {outside} --seed {seed} --at {cut}"
        )
    }

    fn found(&self, all: &Exploration, failures: Vec<Failed>) -> Found {
        Found {
            stack: self.stack.to_string(),
            workload: self.workload.clone(),
            seed: self.seed,
            seeds: self.seeds,
            runs: all.runs,
            events: all.events,
            points: all.points,
            states: all.states.len(),
            bound: all.bound.map(|bound| bound.to_string()),
            failed_calls: all.failed_calls,
            recoveries_cut: all.recoveries,
            recovered: all.recovered,
            outside: all.outside,
            lost: all.lost,
            corrupt: all.corrupt,
            media: all.media,
            met: all.met.clone(),
            failures,
        }
    }
}

impl Found {
    fn told(&self, style: Style) -> String {
        let seeds = match self.seeds {
            1 => self.seed.to_string(),
            n => format!("{} to {}", self.seed, self.seed.saturating_add(n - 1)),
        };
        let count = |n: u64| report::human::count(n as f64);
        let lines = vec![
            ("stack", self.stack.clone()),
            ("workload", self.workload.clone()),
            ("seed", seeds),
            ("events", count(self.events)),
            ("power cuts", count(self.points)),
            ("recoveries cut", count(self.recoveries_cut)),
            ("fsck runs", count(self.outside)),
            ("lost", count(self.lost)),
            ("corrupt", count(self.corrupt)),
        ];
        let mut lines = lines;
        if self.runs > self.seeds {
            lines.insert(3, ("sequences", count(self.runs)));
            lines.push(("distinct states", count(self.states as u64)));
        }
        if self.media > 0 {
            lines.push(("lost by the medium", count(self.media)));
        }
        if self.failed_calls > 0 {
            lines.push(("failed calls", count(self.failed_calls)));
        }
        if let Some(bound) = &self.bound {
            lines.push(("ended early", format!("after {bound}")));
        }
        let mut out = facts(lines, style);
        for (what, cuts) in &self.met {
            out += &format!("{} cuts with {what}\n", count(*cuts));
        }
        for failure in &self.failures {
            let Failed {
                fault,
                what,
                repeat,
                ..
            } = failure;
            out += &format!("\n{fault}: {what}\n  {repeat}\n");
        }
        out
    }
}
