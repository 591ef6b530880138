//! `memory`: a program on a memory system with a CXL-SSD.

use super::designs::{self, percent, told};
use super::designs_page;
use super::experiment::{check_page, command};
use super::failure::Failure;
use super::output::{self, Shown, note};
use super::past::Keeping;
use clap::Args;
use machine::{Asked, Outcome};
use report::Style;
use report::human::{self, NOTHING};
use report::table::facts;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

/// Run a program on a memory system with a CXL-SSD, such as SkyByte's
///
/// For one design, the output breaks its run time down by cause. Several designs are compared with
/// a reference: base-cssd, or the first design if base-cssd is not among them. Designs: base-cssd,
/// skybyte-{c,p,w,cp,wp,full,ct,wct}, astriflash-cxl and dram-only. All designs run the
/// same workload on the same flash; the sizes of caches and DRAM scale with the workload's memory.
///
/// Programs: bfs, bc, radix, srad, ycsb, tpcc and dlrm, each with the parameters scale (small,
/// medium, paper) or footprint, and threads (default 24 for designs that switch threads, 8 for
/// others).
///
/// Other workloads: durable, a program whose log and records stay on the drive; synthetic, a random
/// access stream with given shares (writes, mpki, lines); and traces of memory accesses, files or
/// directories joined by +, one per thread. For a trace, caches and DRAM are sized by the pages
/// that it touches, or by the parameter scale (t.flm:scale=paper for the paper's sizes). `flashloom
/// workloads bfs` prints the parameters of bfs, `flashloom workloads TRACE` those of traces.
#[derive(Args)]
pub(crate) struct Memory {
    /// Designs, separated by commas, such as skybyte-full,base-cssd
    #[arg(
        value_name = "DESIGN",
        required_unless_present = "all",
        value_delimiter = ','
    )]
    designs: Vec<String>,
    /// Run all designs
    #[arg(long, conflicts_with = "designs")]
    all: bool,
    /// Workload, such as bfs:scale=small,threads=24, or path of a trace of memory accesses
    #[arg(long, value_name = "WORKLOAD")]
    workload: String,
    /// Parameters where SkyByte's paper and artifact differ: default, paper or artifact
    #[arg(long, default_value = "default")]
    profile: String,
    /// Change a setting, such as machine.os.switch=1300ns, device.log.bytes=1MiB or
    /// precondition=aged; may be repeated
    #[arg(long = "set", value_name = "SETTING=VALUE")]
    changes: Vec<String>,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Parallel runs [default: one per core]
    #[arg(long, value_name = "N", value_parser = super::some)]
    jobs: Option<NonZeroUsize>,
    /// Write an HTML page about the runs to this file
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    keeping: Keeping,
    #[command(flatten)]
    shown: Shown,
}

impl Memory {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let named = self.designs.iter().map(String::as_str);
        let designs: Vec<&str> = match self.all {
            true => designs::all(),
            false => named.collect(),
        };
        let asked = Asked {
            designs: &designs,
            workload: &self.workload,
            profile: &self.profile,
            changes: &self.changes,
            seed: self.seed,
        };
        check_page(self.report.as_deref(), &self.workload, &self.keeping, &[])?;
        let (runs, lasting) = designs::run(asked, super::jobs(self.jobs), &self.keeping)?;
        let written = self.write_page(&runs);
        let printed = output::emit(&match runs.as_slice() {
            [run] if self.shown.json => serde_json::to_string_pretty(run)? + "\n",
            [run] => page(run, Shown::style()),
            runs => designs::answer(runs, self.shown)?,
        });
        let are_kept = lasting.tell();
        written?;
        Ok(output::status(printed, are_kept))
    }

    fn write_page(&self, runs: &[Outcome]) -> Result<(), Failure> {
        let Some(path) = &self.report else {
            return Ok(());
        };
        let page = designs_page::page(runs, &designs::document(runs)?, &command())?;
        report::file::write(path, &page)?;
        note(&format!(
            "flashloom: wrote the HTML page {}",
            path.display()
        ));
        Ok(())
    }
}

fn latency(run: &Outcome) -> String {
    let Some(latency) = &run.latency else {
        return NOTHING.to_owned();
    };
    let time = |ns: f64| units::Ns(ns.round() as u64);
    format!(
        "{} within 200 ns, 99.99th percentile {}, longest {}",
        percent(latency.within_200_ns),
        time(latency.p99_99_ns),
        time(latency.longest_ns)
    )
}

fn count(count: u64) -> String {
    human::count(count as f64)
}

fn page(run: &Outcome, style: Style) -> String {
    let rows = speed(run).into_iter().chain(work(run));
    facts(rows, style) + &told(run)
}

type Row = (&'static str, String);

/// Speed of the run, and the parts of its time.
fn speed(run: &Outcome) -> Vec<Row> {
    let time = &run.core_time;
    let part = |part: &machine::Part| format!("{} of {:.1} ns", count(part.count), part.mean_ns);
    let vain = part(&run.amat.in_vain);
    vec![
        ("design", format!("{}, {} threads", run.design, run.threads)),
        ("time", units::Ns(run.time_ns).to_string()),
        (
            "instructions",
            format!("{}, {:.3} a cycle", count(run.instructions), run.ipc),
        ),
        ("memory-bound", percent(run.memory_bound)),
        ("waiting for flash", percent(time.flash)),
        ("waiting for drive DRAM", percent(time.ssd_dram)),
        ("waiting for host DRAM", percent(time.host_dram)),
        (
            "waiting for write buffers",
            percent(time.stores + time.room),
        ),
        ("switching threads", percent(time.switches)),
        ("idle, no thread ready", percent(time.idle)),
        ("AMAT", format!("{:.1} ns", run.amat.mean_ns)),
        ("access latency", latency(run)),
        ("host's DRAM", part(&run.amat.host_dram)),
        ("drive's DRAM", part(&run.amat.ssd_dram)),
        ("flash", part(&run.amat.flash)),
        (
            "wasted accesses",
            format!(
                "{vain}, AMAT including them {:.1} ns",
                run.amat.with_vain_ns
            ),
        ),
    ]
}

/// Work of the drive and the host for the run, and its cost.
fn work(run: &Outcome) -> Vec<Row> {
    let (flash, switches, moves) = (&run.flash, &run.switches, &run.moves);
    let (read, programmed) = (count(flash.read_pages), count(flash.program_pages));
    let (all, hints) = (count(switches.all), count(switches.long_delays));
    let (up, back) = (count(moves.promotions), count(moves.demotions));
    vec![
        (
            "flash pages",
            format!("{read} read, {programmed} programmed"),
        ),
        ("switches", format!("{all}, {hints} by hints")),
        ("pages moved", format!("{up} to the host, {back} back")),
        (
            "pages with < 40 % of lines",
            percent(run.lines.share_below_40_percent),
        ),
        (
            "cost",
            format!("{:.1} times less than DRAM", run.cost.cheaper),
        ),
    ]
}
