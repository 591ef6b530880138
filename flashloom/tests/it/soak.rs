//! Power cuts of random stacks.

use crate::{Bench, Guarded, PATIENCE};
use serde_json::Value;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Seed of the last hundred thousand power cuts of the long run.
const SEED: u64 = 4;
/// Case numbers of that part; each commit tries a few of them.
const CASES: std::ops::Range<u64> = 12_384..16_640;
/// Power cuts in each case.
const POINTS: u64 = 24;
/// Power cuts in each commit.
const CUTS: u64 = 320;

/// First case of this commit, from the environment as set by `cargo xtask check`.
fn sample() -> u64 {
    let given = std::env::var("FLASHLOOM_SOAK_SAMPLE").ok();
    let given = given.and_then(|text| text.parse().ok()).unwrap_or(0);
    CASES.start + given % (CASES.end - CASES.start)
}

#[test]
fn a_sample_of_the_long_run_holds() {
    let bench = Bench::new();
    let from = sample();
    let line = format!("soak --seed {SEED} --from {from} --cuts {CUTS} --points {POINTS}");
    let covered = bench.json(&line, "flashloom.soak/1");
    assert_eq!(
        (&covered["lost"], &covered["corrupt"]),
        (&0.into(), &0.into()),
        "{covered:#}"
    );
    assert!(covered["points"].as_u64() >= Some(CUTS), "{covered:#}");
    assert!(covered["recoveries_cut"].as_u64() > Some(0), "{covered:#}");
}

/// Another number of threads tries the same cuts.
#[test]
fn threads_change_nothing() {
    let bench = Bench::new();
    let covered = |threads: u32| {
        let line = format!("soak --cuts 1 --points 1 --jobs {threads}");
        bench.json(&line, "flashloom.soak/1")
    };
    assert_eq!(covered(1), covered(3));
}

#[test]
fn a_case_can_be_repeated_as_a_command() {
    let bench = Bench::new();
    let said = bench.done("soak --cuts 1 --points 1");
    for word in ["power cuts", "recoveries cut", "with ", "0 to 16"] {
        assert!(said.contains(word), "{word} is not in\n{said}");
    }
}

/// Waits until the process handles interrupts: the second bit in its masks of blocked and caught
/// signals.
pub(crate) fn await_handler(pid: &str) {
    let is_ready = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let masks = ["SigBlk:", "SigCgt:"].map(|name| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            u64::from_str_radix(line.unwrap_or("0").trim(), 16).unwrap_or(0)
        });
        (masks[0] | masks[1]) & 2 != 0
    };
    let start = Instant::now();
    while !is_ready() {
        assert!(start.elapsed() < PATIENCE, "it never heeds an interrupt");
        sleep(Duration::from_millis(5));
    }
}

/// The first case has thousands of cuts, and more cases would follow.
#[test]
fn an_interrupt_ends_it_within_a_case_and_keeps_what_was_covered() {
    let bench = Bench::new();
    let stream = |name: &str| std::fs::File::create(bench.path(name)).expect("made");
    let child = crate::heeding()
        .args(["soak", "--jobs", "1", "--points", "1000000", "--json"])
        .stdin(Stdio::null())
        .stdout(stream("out"))
        .stderr(stream("err"))
        .spawn()
        .expect("the program starts");
    let mut child = Guarded(child);
    await_handler(&child.0.id().to_string());
    child.signal("-INT");
    let status = child.ended();
    let told = bench.text("err");
    assert_eq!(status.code(), Some(0), "{told}");
    let covered: Value = serde_json::from_slice(&bench.read("out")).expect("a document");
    assert!(covered["cases"].as_u64() < Some(16), "{covered:#}");
    assert_eq!(covered["cases"], covered["next"], "{covered:#}");
    assert_eq!(
        told,
        "flashloom: stopping once the current power cuts are checked\n"
    );
}
