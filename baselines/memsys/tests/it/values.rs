//! Loads return the last store, for any behaviour of the device and any migration of pages.

use crate::fake::{Fake, Odds};
use crate::programs::without_races;
use memsys::model::{Flat, tiny};
use memsys::{
    Config, Demote, Machine, Metrics, Moves, PageCache, PageSize, Place, Policy, Prefetch,
    Sampling, TakeAll, Tiering,
};
use proptest::prelude::*;
use sim::Kernel;
use units::{Bytes, KIB, Ns};

fn small_moves(pages: u64, bytes: u64, demote: Demote) -> Moves {
    Moves {
        limit: Bytes(pages * bytes),
        entries: 2,
        queue: 4,
        handler: Ns(300),
        shootdown: Ns(400),
        interrupted: Ns(100),
        command: Ns(300),
        demote,
        batch: 2,
    }
}

fn run(
    config: &Config,
    seed: u64,
    footprint: u64,
    threads: u32,
    odds: Odds,
    length: u64,
) -> (Metrics, u64) {
    let kernel = Kernel::new();
    let far = Fake::new(&kernel.sim(), seed, odds);
    let program = without_races(seed, threads, footprint, 4, length);
    let flat = Flat::new(footprint);
    let mut machine = Machine::new(config, &kernel, far, program, flat, TakeAll).unwrap();
    let metrics = machine.run().unwrap();
    (metrics, machine.values().loads)
}

fn tierings() -> impl Strategy<Value = Tiering> {
    let demote = prop_oneof![Just(Demote::DirtyLines), Just(Demote::WholePage)];
    let sampling = Sampling {
        period: Ns(3_000),
        pages: 8,
        fault: Ns(500),
    };
    let cached = PageCache {
        size: Bytes(8 * 4 * KIB),
        ways: 2,
        misses: 2,
    };
    prop_oneof![
        1 => Just(Tiering::None),
        4 => demote.clone().prop_map(|d| Tiering::Hinted(small_moves(5, 4 * KIB, d))),
        2 => demote.prop_map(move |d| Tiering::Sampled(small_moves(5, 4 * KIB, d), sampling)),
        2 => Just(Tiering::Cached(cached)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn loads_return_what_was_stored_last(
        seed in any::<u64>(),
        threads in 1_u32..7,
        tiering in tierings(),
        policy in prop_oneof![Just(Policy::Cfs), Just(Policy::Random), Just(Policy::RoundRobin)],
        prefetch in prop_oneof![
            Just(Prefetch::None), Just(Prefetch::NextLine), Just(Prefetch::Stride),
        ],
        free_on_squash in any::<bool>(),
        slice in prop_oneof![Just(Ns(700)), Just(Ns::us(100))],
        pinned in prop_oneof![Just(Vec::new()), Just(vec![(0, 3 * 4 * KIB)])],
    ) {
        let mut config = Config { tiering, prefetch, pinned, ..tiny() };
        config.os.policy = policy;
        config.os.free_on_squash = free_on_squash;
        config.os.slice = slice;
        let (metrics, loads) = run(&config, seed, 24 * 4 * KIB, threads, Odds::WILD, 300);
        prop_assert!(loads > 0 && metrics.instructions > 0);
        // A run is a function of its inputs.
        let (again, _) = run(&config, seed, 24 * 4 * KIB, threads, Odds::WILD, 300);
        prop_assert_eq!(metrics, again);
    }

    #[test]
    fn local_memory_returns_what_was_stored_last(seed in any::<u64>(), threads in 1_u32..7) {
        let config = Config { place: Place::Local, ..tiny() };
        let (metrics, _) = run(&config, seed, 24 * 4 * KIB, threads, Odds::WILD, 300);
        prop_assert_eq!(metrics.counts.far_reads, 0);
    }
}

/// Name of an event that the runs must produce, and its counter.
type Happened = (&'static str, fn(&Metrics) -> u64);

#[test]
fn everything_happens_in_the_random_runs() {
    let hinted = Tiering::Hinted(small_moves(5, 4 * KIB, Demote::DirtyLines));
    let config = Config {
        tiering: hinted,
        prefetch: Prefetch::NextLine,
        ..tiny()
    };
    let runs = (11..15).map(|seed| run(&config, seed, 24 * 4 * KIB, 6, Odds::WILD, 300).0);
    let runs: Vec<Metrics> = runs.collect();
    let happened: [Happened; 11] = [
        ("forwarded", |run| run.counts.forwarded),
        ("flushes", |run| run.counts.flushes),
        ("hints", |run| run.counts.hints),
        ("long delays", |run| run.counts.long_delays),
        ("refused", |run| run.counts.refused_writes),
        ("promotions", |run| run.counts.promotions),
        ("demotions", |run| run.counts.demotions),
        ("redirected", |run| run.counts.redirected_writes),
        ("stale", |run| run.counts.stale_answers),
        ("fetched ahead", |run| run.caches.fetched_ahead),
        ("squashed", |run| run.counts.squashed),
    ];
    for (what, count) in happened {
        assert!(runs.iter().map(count).sum::<u64>() > 0, "no {what}");
    }
}

#[test]
fn huge_pages_move_by_chunks() {
    let moves = small_moves(1, PageSize::Huge.bytes(), Demote::DirtyLines);
    let config = Config {
        page: PageSize::Huge,
        tiering: Tiering::Hinted(moves),
        ..tiny()
    };
    let odds = Odds {
        waits: 1,
        delays: 1,
        ..Odds::WILD
    };
    let (metrics, _) = run(&config, 5, 3 * PageSize::Huge.bytes(), 3, odds, 3_000);
    assert!(metrics.counts.promotions > 0 && metrics.counts.demotions > 0);
}
