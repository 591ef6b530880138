//! Comparisons of memory designs: their runs and tables.

use super::Answer;
use super::accesses;
use super::experiment::fingerprint;
use super::failure::Failure;
use super::output::Shown;
use super::past::{Keeping, Lasting};
use super::progress::Programs;
use machine::{Asked, AskedError, MemoryRuns, Outcome, Setup, Sweep, Witness, beside};
use programs::{PRESETS, published};
use report::Style;
use report::table::{Side, listing};
use skybyte::DESIGNS;
use stack::pool;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;
use workload::shipped;

/// Names of all designs.
pub(super) fn all() -> Vec<&'static str> {
    DESIGNS.iter().map(|design| design.name).collect()
}

/// Whether `told` names a program for memory, and no workload of drives.
pub(super) fn are_meant_by(told: &str) -> bool {
    let first = Path::new(name(told).split('+').next().unwrap_or_default());
    (is_program(told) && !is_for_drives(told)) || (first.is_file() && accesses::told(first))
}

/// Whether `told` names a workload of drives, and no program for memory.
pub(super) fn refuse(told: &str) -> bool {
    is_for_drives(told) && !is_program(told)
}

fn is_program(told: &str) -> bool {
    PRESETS.iter().any(|preset| preset.name == name(told))
}

fn is_for_drives(told: &str) -> bool {
    let mut presets = workload::presets().map(|preset| preset.name);
    let mut shipped = shipped::ALL.iter().map(|shipped| shipped.name);
    presets.any(|known| known == name(told)) || shipped.any(|known| known == name(told))
}

/// The text before the parameters.
fn name(told: &str) -> &str {
    told.split(':').next().unwrap_or_default()
}

/// Runs the programs that are `asked` for on all designs, `threads` at a time, compares the
/// designs, and stores the runs if possible.
pub(super) fn run(
    asked: Asked,
    threads: usize,
    keeping: &Keeping,
) -> Result<(Vec<Outcome>, Lasting), Failure> {
    let database = keeping.database()?;
    let setups = asked.setups().map_err(|error| match error {
        AskedError::Profile { .. } => Failure::new(format!("--profile: {error}")),
        other => other.into(),
    })?;
    let hashes: Vec<_> = setups.iter().map(digest).collect();
    let mut runs = sweep(setups, threads)?;
    beside(&mut runs);
    let hashed = runs.iter().zip(hashes);
    let kept = hashed.map(|(run, hash)| (run, run.seed, hash));
    let lasting = keeping.append(database.as_deref(), kept);
    Ok((runs, lasting))
}

/// A hash of everything that determines the result of `setup`, except the contents of traces.
fn digest(setup: &Setup) -> String {
    fingerprint([format!("{setup:?}").as_bytes()])
}

/// Runs all `setups` on up to `threads` threads; outcomes are in their order.
fn sweep(setups: Vec<Setup>, threads: usize) -> Result<Vec<Outcome>, Failure> {
    let begin = Instant::now();
    let clock = || begin.elapsed().as_secs_f64();
    let bar = Programs::new(setups.len());
    let sweep = Sweep::new(setups);
    let witness = Witness {
        clock: &clock,
        heard: &|more| {
            bar.executed(more);
            ControlFlow::Continue(())
        },
    };
    let work = |turn| {
        let made = sweep.run(turn, witness);
        let made = made.expect("there are as many turns as setups");
        let setup = &sweep.setups()[made.0];
        bar.done(setup.design.name, &setup.workload.name());
        made
    };
    let mut made = pool::each(sweep.setups().len(), threads, &work);
    bar.finish();
    made.sort_by_key(|&(index, _)| index);
    let outcomes = made.into_iter().map(|(_, outcome)| outcome);
    outcomes
        .map(|outcome| outcome.map_err(Failure::from))
        .collect()
}

/// The JSON document of `runs`.
pub(super) fn document(runs: &[Outcome]) -> serde_json::Result<String> {
    serde_json::to_string_pretty(&MemoryRuns::of(runs))
}

/// `runs` as a document or as tables.
pub(super) fn answer(runs: &[Outcome], shown: Shown) -> Answer {
    if shown.json {
        return Ok(document(runs)? + "\n");
    }
    let style = Shown::style();
    let mut out = whole(runs, style) + "\n" + &accesses_to_memory(runs, style);
    if let Some(run) = runs.first() {
        out += &told(run);
    }
    if let Some(base) = runs.iter().find_map(|run| run.versus.as_ref()) {
        out += &format!(
            "speed-up is relative to {base}; cheaper: price of DRAM of the same size \
            over the price of the design\n"
        );
    }
    Ok(out)
}

fn whole(runs: &[Outcome], style: Style) -> String {
    let columns = [
        ("design", Side::Left),
        ("threads", Side::Right),
        ("time", Side::Right),
        ("speed-up", Side::Right),
        ("memory-bound", Side::Right),
        ("flash reads", Side::Right),
        ("programs", Side::Right),
        ("switches", Side::Right),
        ("promoted", Side::Right),
        ("cheaper", Side::Right),
        ("cost-eff.", Side::Right),
    ];
    let row = |run: &Outcome| {
        vec![
            run.design.clone(),
            run.threads.to_string(),
            units::Ns(run.time_ns).to_string(),
            ratio(run.speed_up),
            percent(run.memory_bound),
            run.flash.read_pages.to_string(),
            run.flash.program_pages.to_string(),
            run.switches.all.to_string(),
            run.moves.promotions.to_string(),
            ratio(Some(run.cost.cheaper)),
            ratio(run.cost.cost_effectiveness),
        ]
    };
    let rows: Vec<_> = runs.iter().map(row).collect();
    listing(&columns, &rows, style)
}

/// The table of memory accesses: the level that served them, and its part of the mean access time.
fn accesses_to_memory(runs: &[Outcome], style: Style) -> String {
    let columns = [
        ("an access takes", Side::Left),
        ("AMAT ns", Side::Right),
        ("= host's DRAM", Side::Right),
        ("+ drive's DRAM", Side::Right),
        ("+ flash", Side::Right),
        ("without flash", Side::Right),
        ("on the link ns", Side::Right),
        ("AMAT with those in vain", Side::Right),
    ];
    let row = |run: &Outcome| {
        let amat = &run.amat;
        let ns = |ns: f64| format!("{ns:.1}");
        vec![
            run.design.clone(),
            ns(amat.mean_ns),
            ns(amat.host_dram.adds_ns),
            ns(amat.ssd_dram.adds_ns),
            ns(amat.flash.adds_ns),
            percent(amat.share_without_flash),
            ns(amat.link_ns),
            ns(amat.with_vain_ns),
        ]
    };
    let rows: Vec<_> = runs.iter().map(row).collect();
    listing(&columns, &rows, style)
}

/// Facts that all runs of a workload share, beside those of the paper.
pub(super) fn told(run: &Outcome) -> String {
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

pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn ratio(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.2}"))
}
