//! `memory`: a program on a memory system with a CXL-SSD.

use super::Answer;
use super::failure::Failure;
use super::output::{Shown, note};
use clap::Args;
use machine::{Change, Outcome, Setup, Sweep, compare};
use programs::{Workload, published};
use report::Style;
use report::table::{Side, facts, listing};
use serde::Serialize;
use skybyte::{DESIGNS, Profile};
use stack::pool;
use std::num::NonZeroUsize;
use std::time::Instant;

/// What runs are compared with, where it is among them.
const BASE: &str = "base-cssd";

/// Run a program on a memory system with a CXL-SSD
///
/// One design prints where its time went; several are set beside each other, and beside
/// base-cssd if it is among them. The designs are base-cssd, skybyte-c, -p, -w, -cp,
/// -wp, -full, -ct, -wct, astriflash-cxl and dram-only; all share the workload, the
/// flash and all sizes, which shrink with the workload's memory.
///
/// The workloads are bfs, bc, radix, srad, ycsb, tpcc and dlrm, each with scale (small,
/// medium, paper) or footprint, and threads, which are 24 where a design switches
/// between them and 8 elsewhere; durable, whose log and records stay on the drive;
/// synthetic, made to numbers (writes, mpki, lines); and traces of memory accesses by their
/// paths, joined by + for one a thread. `flashloom workloads bfs` has the parameters of one.
#[derive(Args)]
pub(crate) struct Memory {
    /// The design, or several: skybyte-full,base-cssd
    #[arg(
        value_name = "DESIGN",
        required_unless_present = "all",
        value_delimiter = ','
    )]
    designs: Vec<String>,
    /// All designs
    #[arg(long, conflicts_with = "designs")]
    all: bool,
    /// What runs: bfs:scale=small,threads=24 or a path to a trace of memory accesses
    #[arg(long, value_name = "W")]
    workload: String,
    /// The reading of the paper: default, paper or artifact
    #[arg(long, default_value = "default")]
    profile: String,
    /// Change a knob: machine.os.switch=1300ns, device.log.bytes=1MiB, past=aged
    #[arg(long = "set", value_name = "KEY=VALUE")]
    changes: Vec<String>,
    /// Seed of everything that is random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Runs at a time [default: one a core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    #[command(flatten)]
    shown: Shown,
}

/// The document of several designs.
#[derive(Serialize)]
struct Runs<'a> {
    schema: &'static str,
    runs: &'a [Outcome],
}

impl Memory {
    pub(crate) fn run(&self) -> Answer {
        let workload = Workload::parse(&self.workload)?;
        let found = Profile::ALL.into_iter().find(|p| p.name() == self.profile);
        let profile = found.ok_or_else(|| {
            let known = Profile::ALL.map(Profile::name).join(", ");
            let found = &self.profile;
            Failure::new(format!(
                "--profile: expected one of {known}, found {found:?}"
            ))
        })?;
        let all = DESIGNS.iter().map(|design| design.name.to_owned());
        let designs: Vec<String> = if self.all {
            all.collect()
        } else {
            self.designs.clone()
        };
        let mut setups = Vec::new();
        for design in &designs {
            let mut setup = Setup::new(design, profile, workload.clone(), self.seed)?;
            for change in &self.changes {
                setup = setup.with(&change.parse::<Change>()?)?;
            }
            setups.push(setup);
        }
        let mut runs = sweep(&setups, super::threads(self.threads))?;
        compare(&mut runs, BASE);
        self.answer(&runs)
    }

    fn answer(&self, runs: &[Outcome]) -> Answer {
        let style = Shown::style();
        match runs {
            [run] if self.shown.json => Ok(serde_json::to_string_pretty(run)? + "\n"),
            runs if self.shown.json => {
                let schema = "flashloom.memory-runs/1";
                Ok(serde_json::to_string_pretty(&Runs { schema, runs })? + "\n")
            }
            [run] => Ok(page(run, style)),
            runs => Ok(table(runs, style)),
        }
    }
}

/// Runs all `setups` on up to `threads` threads; outcomes in their order.
fn sweep(setups: &[Setup], threads: usize) -> Result<Vec<Outcome>, Failure> {
    let begin = Instant::now();
    let clock = || begin.elapsed().as_secs_f64();
    let sweep = Sweep::new(setups);
    let work = |turn| {
        let made = sweep.run(turn, &clock);
        let made = made.expect("there are as many turns as setups");
        if let Some(setup) = setups.get(made.0).filter(|_| setups.len() > 1) {
            let (design, workload) = (setup.design.name, setup.workload.name());
            note(&format!("flashloom: {design} has run {workload}"));
        }
        made
    };
    let mut made = pool::each(setups.len(), threads, &work);
    made.sort_by_key(|&(index, _)| index);
    let outcomes = made.into_iter().map(|(_, outcome)| outcome);
    outcomes
        .map(|outcome| outcome.map_err(Failure::from))
        .collect()
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn ratio(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.2}"))
}

fn table(runs: &[Outcome], style: Style) -> String {
    let columns = [
        ("design", Side::Left),
        ("threads", Side::Right),
        ("time", Side::Right),
        ("speed-up", Side::Right),
        ("AMAT ns", Side::Right),
        ("memory-bound", Side::Right),
        ("flash reads", Side::Right),
        ("programs", Side::Right),
        ("switches", Side::Right),
        ("promoted", Side::Right),
        ("cost-eff.", Side::Right),
    ];
    let row = |run: &Outcome| {
        vec![
            run.design.clone(),
            run.threads.to_string(),
            units::Ns(run.time_ns).to_string(),
            ratio(run.speed_up),
            format!("{:.1}", run.amat.mean_ns),
            percent(run.memory_bound),
            run.flash.read_pages.to_string(),
            run.flash.program_pages.to_string(),
            run.switches.all.to_string(),
            run.moves.promotions.to_string(),
            ratio(run.cost.cost_effectiveness),
        ]
    };
    let rows: Vec<_> = runs.iter().map(row).collect();
    listing(&columns, &rows, style) + &told(&runs[0])
}

/// What holds for all runs of a workload, beside what the paper says of it.
fn told(run: &Outcome) -> String {
    let mut out = format!(
        "\n{} in {}, sizes divided by {}, {} profile; stores {} of accesses",
        run.workload,
        units::Bytes(run.footprint_bytes),
        run.factor,
        run.profile,
        percent(run.write_share),
    );
    if let Some(paper) = published(&run.workload) {
        out += &format!(
            "; {:.1} misses in 1000 instructions (the paper's Table I: {}, {}, {:.1})",
            run.mpki,
            paper.footprint,
            percent(paper.writes_per_mille as f64 / 1e3),
            paper.misses_per_10k as f64 / 10.0,
        );
    }
    out + "\n"
}

fn page(run: &Outcome, style: Style) -> String {
    let time = &run.core_time;
    let part = |part: &machine::Part| format!("{} of {:.1} ns", part.count, part.mean_ns);
    let rows = vec![
        ("design", format!("{}, {} threads", run.design, run.threads)),
        ("time", units::Ns(run.time_ns).to_string()),
        (
            "instructions",
            format!("{}, {:.3} a cycle", run.instructions, run.ipc),
        ),
        ("memory-bound", percent(run.memory_bound)),
        ("waiting for flash", percent(time.flash)),
        ("for the drive's DRAM", percent(time.ssd_dram)),
        ("for the host's DRAM", percent(time.host_dram)),
        ("switching threads", percent(time.switches)),
        ("without a thread", percent(time.idle)),
        ("AMAT", format!("{:.1} ns", run.amat.mean_ns)),
        ("host's DRAM", part(&run.amat.host_dram)),
        ("drive's DRAM", part(&run.amat.ssd_dram)),
        ("flash", part(&run.amat.flash)),
        (
            "asked in vain",
            format!(
                "{}, AMAT with these {:.1} ns",
                part(&run.amat.in_vain),
                run.amat.with_vain_ns
            ),
        ),
        (
            "flash pages",
            format!(
                "{} read, {} programmed",
                run.flash.read_pages, run.flash.program_pages
            ),
        ),
        (
            "switches",
            format!(
                "{}, {} by hints",
                run.switches.all, run.switches.long_delays
            ),
        ),
        (
            "pages moved",
            format!(
                "{} to the host, {} back",
                run.moves.promotions, run.moves.demotions
            ),
        ),
        (
            "pages with < 40 % of lines",
            percent(run.lines.share_below_40_percent),
        ),
        (
            "cost",
            format!("{:.1} times less than DRAM", run.cost.cheaper),
        ),
    ];
    facts(rows, style) + &told(run)
}
