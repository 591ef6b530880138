//! Runs of the cache, checked by the calls that it makes and the results of its gets.

use super::CacheBench;
use super::engine::Engine;
use super::small::BUCKET;
use crate::files::{Call, Fd, Source, ThreadId, Turn};
use crate::generate::Theta;
use sim::{Rng, Seed};
use std::collections::{BTreeMap, BTreeSet};
use units::Ns;

const REGION: u64 = 16_384;

fn bench() -> CacheBench {
    CacheBench {
        keys: 400,
        theta: Theta(900_000),
        key_sizes: vec![8, 16],
        key_weights: vec![1],
        value_sizes: vec![100, 1_000, 4_000],
        value_weights: vec![1, 1],
        gets: 50,
        sets: 45,
        lookaside: false,
        memory: 65_536,
        flash: 524_288,
        small: 25,
        small_max: 2_048,
        region: REGION,
        clean: 1,
        lru: true,
        admit: 100,
        parcels: 1 << 20,
        allocate: true,
        threads: 6,
        writers: 4,
        ops: 20_000,
        until: None,
    }
}

/// Action of a thread when the test driver selects it.
enum Then {
    Asks,
    Ends(u64),
    Nothing,
}

struct Run {
    engine: Engine,
    calls: Vec<Call>,
    kinds: BTreeMap<&'static str, u64>,
}

/// Runs `bench` with calls that take random times.
fn run(bench: &CacheBench, seed: u64) -> Run {
    let mut run = Run {
        engine: bench.engine(Seed(seed)).unwrap(),
        calls: Vec::new(),
        kinds: BTreeMap::new(),
    };
    let mut rng: Rng = Seed(seed).stream("test");
    let mut then: Vec<Then> = (0..run.engine.threads()).map(|_| Then::Asks).collect();
    let mut now = Ns::ZERO;
    loop {
        while let Some(thread) = run.engine.wake() {
            then[thread.0 as usize] = Then::Asks;
        }
        let ready = then.iter().enumerate();
        let ready = ready.filter(|(_, one)| !matches!(one, Then::Nothing));
        let ready: Vec<usize> = ready.map(|one| one.0).collect();
        if ready.is_empty() {
            return run;
        }
        let thread = ready[rng.below(ready.len() as u64) as usize];
        now = Ns(now.0 + 1);
        if let Then::Ends(bytes) = then[thread] {
            run.engine.ended(ThreadId(thread as u32), Ok(bytes));
        }
        let turn = run.engine.next(ThreadId(thread as u32), now);
        while let Some((kind, _)) = run.engine.finished() {
            *run.kinds.entry(kind).or_insert(0) += 1;
        }
        then[thread] = match turn {
            Turn::Call { call, .. } => {
                run.calls.push(call);
                Then::Ends(0)
            }
            Turn::Pause(_) => Then::Asks,
            Turn::Park | Turn::Done => Then::Nothing,
        };
    }
}

#[test]
fn get_finds_the_last_set_version_or_nothing() {
    for seed in 0..4 {
        let mut bench = bench();
        bench.admit = 100 - 20 * seed;
        bench.lookaside = seed == 1;
        bench.lru = seed != 2;
        let run = run(&bench, seed);
        assert!(run.engine.found.len() > 8_000);
        for one in &run.engine.found {
            let ok = one
                .found
                .is_none_or(|found| (one.before..=one.after).contains(&found));
            assert!(ok, "{one:?}");
        }
    }
}

#[test]
fn counts_of_operations_and_get_results_add_up() {
    let run = run(&bench(), 1);
    let of = |kind: &str| run.kinds.get(kind).copied().unwrap_or(0);
    let gets = of("get-memory") + of("get-flash") + of("get-miss");
    assert_eq!(gets + of("set") + of("delete"), 20_000);
    assert_eq!(gets, run.engine.found.len() as u64);
    let close = |count: u64, share: u64| count.abs_diff(200 * share) < 400;
    assert!(close(gets, 50) && close(of("set"), 45) && close(of("delete"), 5));
    for kind in ["get-memory", "get-flash", "get-miss"] {
        assert!(of(kind) > 500, "{kind}: {}", of(kind));
    }
}

#[test]
fn regions_are_written_whole_and_in_order() {
    let mut bench = bench();
    bench.lru = false;
    let run = run(&bench, 3);
    let regions = bench.large_bytes() / REGION;
    let writes = run.calls.iter().filter_map(|call| match *call {
        Call::Pwrite { fd: Fd(0), at, len } => Some((at, len)),
        _ => None,
    });
    let writes: Vec<(u64, u64)> = writes.collect();
    assert!(writes.len() as u64 > 2 * regions, "{}", writes.len());
    for (turn, write) in writes.iter().enumerate() {
        assert_eq!(*write, (turn as u64 % regions * REGION, REGION));
    }
}

#[test]
fn a_long_region_is_written_in_parts() {
    let mut bench = bench();
    bench.keys = 4_000;
    (bench.region, bench.flash) = (2 << 20, 16 << 20);
    let run = run(&bench, 3);
    let parts = run.calls.iter().filter_map(|call| match *call {
        Call::Pwrite { fd: Fd(0), at, len } => Some((at, len)),
        _ => None,
    });
    let parts: Vec<(u64, u64)> = parts.collect();
    assert!(
        parts.len() >= 4 && parts.len().is_multiple_of(2),
        "{parts:?}"
    );
    for (turn, two) in parts.chunks(2).enumerate() {
        let at = turn as u64 * bench.region;
        assert_eq!(two, [(at, 1 << 20), (at + (1 << 20), 1 << 20)]);
    }
}

#[test]
fn reads_and_writes_are_aligned_blocks_within_the_files() {
    let bench = bench();
    let run = run(&bench, 2);
    let mut fetched = BTreeSet::new();
    for call in &run.calls {
        let (Call::Pread { fd, at, len } | Call::Pwrite { fd, at, len }) = *call else {
            continue;
        };
        assert!(at.is_multiple_of(4_096) && len.is_multiple_of(4_096) && len > 0);
        let end = [bench.large_bytes(), bench.buckets() * BUCKET][fd.0 as usize];
        assert!(at + len <= end, "{call:?}");
        assert!(fd == Fd(0) || len == BUCKET);
        match call {
            Call::Pread { fd: Fd(1), .. } => {
                fetched.insert(at);
            }
            Call::Pwrite { fd: Fd(1), .. } => {
                assert!(fetched.remove(&at), "a bucket is read before it is written");
            }
            _ => {}
        }
    }
}

#[test]
fn items_that_are_not_admitted_never_reach_flash() {
    let mut bench = bench();
    bench.admit = 0;
    let run = run(&bench, 1);
    assert!(!run.kinds.contains_key("get-flash"));
    let moves = |call: &Call| matches!(call, Call::Pread { .. } | Call::Pwrite { .. });
    assert!(!run.calls.iter().any(moves));
}

#[test]
fn one_seed_makes_one_run() {
    let (a, b, c) = (run(&bench(), 7), run(&bench(), 7), run(&bench(), 8));
    assert!(a.calls == b.calls && a.kinds == b.kinds);
    assert_ne!(a.calls, c.calls);
}

#[test]
fn inconsistent_parameters_are_refused() {
    let refused = |change: &dyn Fn(&mut CacheBench), part: &str| {
        let mut bench = bench();
        change(&mut bench);
        let why = bench.engine(Seed(1)).err().expect("refused");
        assert!(why.starts_with("expected ") && why.contains(part), "{why}");
    };
    refused(&|b| b.sets = 51, "100 together");
    refused(&|b| b.memory = 1_000, "a memory that holds");
    refused(&|b| b.region = 5_000, "regions of a multiple of 4096");
    refused(
        &|b| (b.region, b.value_sizes[2]) = (4_096, 4_096),
        "that hold an item",
    );
    refused(&|b| b.small_max = 4_090, "small items of 4052");
    refused(&|b| b.clean = 20, "at least 61 regions");
    refused(&|b| b.flash = 1 << 40, "has 1048576 at most");
    refused(&|b| b.small = 0, "one bucket");
    refused(&|b| b.value_weights = vec![1], "a weight for each");
    refused(&|b| b.key_sizes = vec![16, 8], "ascend");
}
