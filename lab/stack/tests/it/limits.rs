//! At full load the narrowest resource is the only limit.

use crate::{done, plan, refused};
use report::record::Run;
use ssd::Precondition;
use stack::{Plan, Sampling, StackError};
use std::io::Write;
use units::{Bytes, Ns};

fn read_rate(run: &Run) -> f64 {
    run.host.read_bytes as f64 / run.sim_time_ns as f64 * 1e9
}

/// Asserts that `measured` is within 2 % below `limit`, and not above it.
fn meets(measured: f64, limit: f64) {
    let share = measured / limit;
    assert!((0.98..=1.0).contains(&share), "{share} of the limit");
}

#[test]
fn random_reads_are_bound_by_dies() {
    // One die: page after page, with command and transfer overlapping the next tR.
    let mut plan = plan(
        "raw@block",
        64,
        Precondition::Full,
        "randread:ops=40000,depth=256",
    );
    plan.drive.geometry.channels = 1;
    plan.drive.geometry.chips_per_channel = 1;
    plan.drive.geometry.blocks_per_plane *= 16;
    let run = done(&plan);
    let each = plan.drive.timing().expect("it has a part").read;
    meets(run.ops_per_s, 1e9 / each.0 as f64);
    assert!(run.utilisation["die"] > 0.98, "{:?}", run.utilisation);
}

#[test]
fn sequential_reads_are_bound_by_the_bus() {
    let mut plan = plan(
        "raw@block",
        64,
        Precondition::Full,
        "seqread:ops=4000,bs=256k,depth=32",
    );
    plan.drive.geometry.channels = 1;
    plan.drive.geometry.chips_per_channel = 16;
    let run = done(&plan);
    let timing = plan.drive.timing().expect("it has a part");
    // Both planes of a row come in one transfer after its command.
    let row = 2 * u64::from(plan.drive.geometry.page_bytes);
    let time = timing.command + Ns::transfer(row, timing.bus_bytes_per_s);
    meets(read_rate(&run), row as f64 / time.0 as f64 * 1e9);
    assert!(run.utilisation["channel"] > 0.98, "{:?}", run.utilisation);
}

#[test]
fn sequential_writes_are_bound_by_programs() {
    // One die on a fast bus: data of the next program comes in during the present one.
    let mut plan = plan(
        "raw@block",
        256,
        Precondition::Fresh,
        "seqwrite:ops=1500,bs=128k,depth=32",
    );
    plan.drive.geometry.channels = 1;
    plan.drive.geometry.chips_per_channel = 1;
    plan.drive.geometry.blocks_per_plane *= 16;
    let run = done(&plan);
    let geometry = &plan.drive.geometry;
    let unit = u64::from(geometry.planes * geometry.pages_per_program * geometry.page_bytes);
    let each = plan.drive.timing().expect("it has a part").program;
    // The buffer accepts the first writes at once, and holds the last ones.
    let buffered = plan.drive.controller.write_buffer.0;
    let drained = (run.host.write_bytes - buffered) as f64 / run.sim_time_ns as f64 * 1e9;
    // Summaries of lines and open units are programmed too.
    let data = run.nand.by_cause["host"] as f64 / run.nand.by_cause.values().sum::<u64>() as f64;
    meets(drained / data, unit as f64 / each.0 as f64 * 1e9);
}

#[test]
fn wide_reads_are_bound_by_the_link() {
    let mut plan = plan(
        "raw@block",
        64,
        Precondition::Full,
        "seqread:ops=4000,bs=128k,depth=64",
    );
    plan.host.link.generation = 3;
    plan.host.link.lanes = 1;
    let run = done(&plan);
    let share = 256.0 / (256.0 + 24.0);
    meets(read_rate(&run), 984_615_384.0 * share);
    assert!(run.utilisation["link"] > 0.98, "{:?}", run.utilisation);
}

#[test]
fn a_request_past_the_end_stops_the_run_unless_it_is_folded() {
    let mut file = tempfile::Builder::new()
        .suffix(".csv")
        .tempfile()
        .expect("a temporary file");
    writeln!(file, "0,W,0,8,a\n1000,R,131072,8,a\n2000,R,0,8,a").expect("it can be written");
    let path = file.path().to_str().expect("it is text").to_owned();
    let fit = |fit| {
        let text = format!("{path}:format=csv,fit={fit}");
        plan("raw@block", 64, Precondition::Fresh, &text)
    };
    assert_eq!(done(&fit("wrap")).ops, 3);
    let error = refused(&fit("as-is"));
    assert!(
        matches!(error, StackError::PastEnd { number: 2, .. }),
        "{error}"
    );
    let said = error.to_string();
    assert!(said.contains("131072") && said.contains("64 MiB"), "{said}");
}

#[test]
fn invalid_plan_is_rejected_in_a_sentence() {
    let good = || plan("raw@block", 64, Precondition::Aged, "randwrite:ops=10");
    let says = |change: &dyn Fn(&mut Plan)| {
        let mut plan = good();
        change(&mut plan);
        refused(&plan).to_string()
    };
    assert!(says(&|p| p.sample = Some(Sampling::each(Ns::ZERO))).contains("timeline"));
    assert!(says(&|p| p.stack = "raw@fdp".parse().unwrap()).contains("interface \"block\""));
    assert!(says(&|p| p.drive.geometry.channels = 0).contains("channels is 0"));
    assert!(says(&|p| p.drive.flash.part = "paper".to_owned()).contains("no part is called"));
    assert!(says(&|p| p.drive.collection.background_lines = 100_000).contains("begin aged"));
    assert!(says(&|p| p.host.queues.depth = 0).contains("host.queues.depth"));
    assert!(says(&|p| p.workload = "randwrite:bs=1".to_owned()).contains("multiples of 512"));
    assert!(says(&|p| p.workload = "no-such-file".to_owned()).contains("no-such-file"));
}

#[test]
fn a_drive_that_fails_for_good_ends_the_run_with_counted_errors() {
    let mut plan = plan(
        "raw@block",
        64,
        Precondition::Full,
        "randwrite:ops=200000,depth=8",
    );
    plan.drive.faults.erase_failures = 200_000;
    plan.sample = Some(Sampling::each(Ns::ms(10)));
    let run = done(&plan);
    assert!(
        run.errors.get("drive read-only").is_some_and(|&n| n > 0),
        "{:?}",
        run.errors
    );
    assert_eq!(run.ops + run.errors.values().sum::<u64>(), 200_000);
    assert!(run.wear.bad_blocks > 0);
}

#[test]
fn paced_collection_closes_the_gaps_in_writes() {
    let run = |paced: bool| {
        let workload = "randwrite:ops=200000,depth=512";
        let mut plan = plan("raw@block", 64, Precondition::Aged, workload);
        let drive = stack::drive::resolve("7450-pro", Some(Bytes(4 << 30)));
        plan.drive = drive.expect("it is a preset");
        plan.drive.collection.paced = paced;
        done(&plan)
    };
    let (free, paced) = (run(false), run(true));
    let tails = [&free, &paced].map(|run| run.latency_ns.all.p99_9);
    assert!(tails[1] * 3 < tails[0], "{tails:?}");
    let share = paced.ops_per_s / free.ops_per_s;
    assert!((0.95..1.05).contains(&share), "{share}");
    assert!((paced.waf.device / free.waf.device - 1.0).abs() < 0.05);
}
