//! Drive life and steady state, over short runs.

use crate::{done, plan};
use report::record::Run;
use sim::Seed;
use ssd::Precondition;
use stack::{Plan, StackError, Until};

fn until_steady(plan: Plan) -> Run {
    done(&Plan {
        until: Until::Steady,
        ..plan
    })
}

/// Bytes that all cells can be programmed with.
fn endurance(run: &Run) -> f64 {
    run.drive.raw_bytes as f64 * run.drive.endurance_cycles as f64
}

#[test]
fn rated_writes_of_random_runs_stay_within_the_cells_over_amplification() {
    let mut rng = Seed(11).stream("life");
    let mut among = |n: u64| rng.below(n);
    let mut rated = 0;
    for seed in 0..1_000 {
        let stack = ["raw@block", "raw@streams", "raw@fdp", "raw@zns"][among(4) as usize];
        let past = match (stack, among(3)) {
            ("raw@zns", _) | (_, 0) => Precondition::Fresh,
            (_, 1) => Precondition::Full,
            _ => Precondition::Aged,
        };
        let kind = match stack {
            "raw@zns" => "seqwrite",
            _ => ["seqwrite", "randwrite", "hotcold"][among(3) as usize],
        };
        let workload = format!("{kind}:ops={}", 1 + among(400));
        let mut plan = plan(stack, 32, past, &workload);
        plan.seed = seed;
        let run = match stack::run(&plan, &mut |_| ()) {
            Ok(run) => run,
            // So small a drive can get stuck without space to collect garbage.
            Err(StackError::Stuck { .. }) => continue,
            Err(error) => panic!("{stack} {workload}: {error}"),
        };
        let Some(life) = run.wear.life_host_bytes else {
            continue;
        };
        let most = endurance(&run) / run.waf.device;
        assert!(life as f64 <= most, "{stack} {workload}: {life} of {most}");
        rated += 1;
    }
    assert!(rated > 900, "{rated}");
}

#[test]
fn life_of_writes_in_order_is_that_of_the_cells() {
    let run = done(&plan(
        "raw@block",
        256,
        Precondition::Full,
        "seqwrite:ops=15000,bs=4k",
    ));
    let life = run.wear.life_host_bytes.expect("pages were programmed") as f64;
    let cells = endurance(&run) / run.waf.device;
    assert!(
        (0.9 * cells..=cells).contains(&life),
        "{life} of {cells} bytes"
    );
    let years = life / run.host.write_bytes as f64 * run.sim_time_ns as f64 / 31_557_600e9;
    let told = run.wear.life_years.expect("as its bytes");
    assert!(
        (told / years - 1.0).abs() < 0.01,
        "{told} for {years} years"
    );
}

#[test]
fn short_run_is_not_steady_and_gets_advice() {
    let run = done(&plan(
        "raw@block",
        64,
        Precondition::Aged,
        "randwrite:ops=500",
    ));
    assert_eq!(run.steady, Some(false));
    assert!(
        run.cautions.iter().any(|c| c.contains("--until steady")),
        "{:?}",
        run.cautions
    );
}

#[test]
fn run_without_writes_has_no_steady_state() {
    let run = done(&plan(
        "raw@block",
        64,
        Precondition::Full,
        "randread:ops=500",
    ));
    assert_eq!((run.steady, run.cautions), (None, vec![]));
    let zones = done(&plan(
        "raw@zns",
        64,
        Precondition::Fresh,
        "seqwrite:ops=500",
    ));
    assert_eq!(zones.steady, None);
}

#[test]
fn workload_is_repeated_until_steady() {
    let short = plan("raw@block", 64, Precondition::Aged, "randwrite:ops=2000");
    let once = done(&short);
    let run = until_steady(short);
    assert_eq!((once.steady, run.steady), (Some(false), Some(true)));
    assert!(run.ops > once.ops && run.ops.is_multiple_of(2_000));
    assert!(run.windows >= 2, "{}", run.windows);
    assert_eq!(run.cautions, Vec::<String>::new());
}

#[test]
fn workload_that_writes_nothing_is_not_repeated() {
    let run = until_steady(plan(
        "raw@block",
        64,
        Precondition::Full,
        "randread:ops=300",
    ));
    assert_eq!((run.ops, run.steady), (300, None));
}

#[test]
fn drive_on_which_nothing_is_collected_is_named_with_a_past_that_collects() {
    let at = |past| done(&plan("raw@block", 256, past, "randwrite:ops=3000"));
    let full = at(Precondition::Full);
    assert_eq!(full.gc.lines, 0);
    let told = full.cautions.iter().find(|c| c.contains("never ran"));
    let told = told.expect("a caution");
    assert!(told.contains("--precondition aged"), "{told}");
    let aged = at(Precondition::Aged);
    assert!(aged.gc.lines > 0);
    assert!(!aged.cautions.iter().any(|c| c.contains("never ran")));
}
