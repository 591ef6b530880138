//! Garbage collection: the choice of victims, its start, and the place of relocated data.

use crate::steady::{Bench, bare};
use sim::Rng;
use ssd::{Cause, Content, LineReport, LineState, Precondition, VictimPolicy};
use units::{Extent, Ns, Origin, Placement};

/// A drive of 150 lines with about 15 % of spare space.
fn drive(victim: VictimPolicy) -> ssd::DriveConfig {
    let mut config = bare(150, (145.0 * 63.0 / 1.15) as u32);
    config.collection.victim = victim;
    config
}

/// Random writes, observed at every event: `at` receives the lines before and after it.
fn watch(config: &ssd::DriveConfig, mut at: impl FnMut(&[LineReport], &[LineReport])) {
    let mut bench = Bench::new(config, Precondition::Fresh, 1);
    bench.fill(|_| 0);
    bench.overwrite(1);
    let pages = bench.pages();
    for worker in 0..8_u64 {
        let drive = bench.drive.clone();
        let mut rng = sim::Seed(worker).stream("watched");
        bench.kernel.sim().spawn_detached(async move {
            for _ in 0..pages / 16 {
                let extent = Extent::new(rng.below(pages) * 8, 8);
                let content = Content::Nothing;
                let done = drive.write(extent, content, Placement(0), Origin(0), false);
                done.await.expect("the drive has room");
            }
        });
    }
    let mut before = bench.drive.lines();
    while bench.kernel.step() {
        let after = bench.drive.lines();
        at(&before, &after);
        before = after;
    }
}

/// Lines whose state changed from `from` to `to`.
fn changed(
    before: &[LineReport],
    after: &[LineReport],
    from: LineState,
    to: LineState,
) -> Vec<usize> {
    let both = before.iter().zip(after).enumerate();
    both.filter(|(_, (b, a))| b.state == from && a.state == to)
        .map(|(line, _)| line)
        .collect()
}

#[test]
fn greedy_takes_the_emptiest_line() {
    let mut taken = 0;
    watch(&drive(VictimPolicy::Greedy), |before, after| {
        for line in changed(before, after, LineState::Closed, LineState::Collecting) {
            taken += 1;
            let closed = after.iter().filter(|l| l.state == LineState::Closed);
            let least = closed.map(|l| l.valid).min().expect("many are closed");
            assert!(
                after[line].valid <= least,
                "{} of {least}",
                after[line].valid
            );
        }
    });
    assert!(taken > 100, "{taken}");
}

#[test]
fn fifo_takes_the_line_closed_first() {
    let mut closed: Vec<usize> = Vec::new();
    let (mut taken, mut known) = (0, 0);
    watch(&drive(VictimPolicy::Fifo), |before, after| {
        for line in changed(before, after, LineState::Closed, LineState::Collecting) {
            taken += 1;
            if let Some(at) = closed.iter().position(|&other| other == line) {
                known += 1;
                let older = &closed[..at];
                assert!(
                    older.iter().all(|&line| after[line].valid == 63),
                    "{older:?}"
                );
                closed.remove(at);
            }
        }
        closed.extend(changed(before, after, LineState::Open, LineState::Closed));
    });
    assert!(taken > 100 && known > 50, "{taken}, {known}");
}

#[test]
fn host_data_never_take_the_reserve() {
    for reserve in [2, 3] {
        let mut config = drive(VictimPolicy::Greedy);
        config.collection.reserve_lines = reserve;
        config.collection.background_lines = 0;
        let (mut host, mut moved, mut lowest) = (0, 0, u32::MAX);
        watch(&config, |before, after| {
            let free = |lines: &[LineReport]| {
                lines.iter().filter(|l| l.state == LineState::Free).count() as u32
            };
            for line in changed(before, after, LineState::Free, LineState::Open) {
                if after[line].moved {
                    moved += 1;
                    lowest = lowest.min(free(after));
                } else {
                    host += 1;
                    assert!(free(after) >= reserve, "{} of {reserve}", free(after));
                }
            }
        });
        assert!(host > 50 && moved > 50, "{host}, {moved}");
        assert!(lowest < reserve, "moved data do");
    }
}

/// 90 % of the writes go to 10 % of the pages.
fn skewed(pages: u64) -> impl Fn(&mut Rng) -> (u64, u16) + Copy {
    move |rng| match rng.below(10) {
        0 => (pages / 10 + rng.below(pages - pages / 10), 0),
        _ => (rng.below(pages / 10), 0),
    }
}

fn skewed_amplification(config: &ssd::DriveConfig) -> f64 {
    let mut bench = Bench::new(config, Precondition::Aged, 1);
    let pages = bench.pages();
    bench.write(8 * pages, skewed(pages));
    bench.write(8 * pages, skewed(pages)).amplification()
}

#[test]
fn cost_benefit_and_separation_win_on_skewed_writes() {
    let [greedy, by_cost, fifo] = [
        VictimPolicy::Greedy,
        VictimPolicy::CostBenefit,
        VictimPolicy::Fifo,
    ]
    .map(|victim| skewed_amplification(&drive(victim)));
    let mut mixed = drive(VictimPolicy::CostBenefit);
    mixed.collection.separate = false;
    let mixed = skewed_amplification(&mixed);
    eprintln!(
        "skewed: greedy {greedy:.3}, cost-benefit {by_cost:.3}, fifo {fifo:.3}, mixed {mixed:.3}"
    );
    assert!(
        by_cost < 0.95 * greedy,
        "cost-benefit {by_cost}, greedy {greedy}"
    );
    assert!(greedy < fifo, "greedy {greedy}, fifo {fifo}");
    assert!(by_cost < 0.9 * mixed, "apart {by_cost}, mixed {mixed}");
}

#[test]
fn relocated_data_get_separate_lines_if_configured() {
    for separate in [true, false] {
        let mut config = drive(VictimPolicy::Greedy);
        config.collection.separate = separate;
        let mut bench = Bench::new(&config, Precondition::Aged, 1);
        let seen = bench.overwrite(1);
        assert!(seen.by_cause(Cause::Gc) > 0);
        let moved = bench.drive.lines().iter().filter(|line| line.moved).count();
        if separate {
            assert!(moved > 50, "{moved}");
        } else {
            assert_eq!(moved, 0);
        }
    }
}

/// One write at a time with time between them; then many at once without background collection.
#[test]
fn background_collection_avoids_waits() {
    let mut config = drive(VictimPolicy::Greedy);
    config.collection.background_lines = 4;
    let mut bench = Bench::new(&config, Precondition::Aged, 1);
    bench.overwrite(1);
    let (before, pages, drive) = (bench.drive.ledger(), bench.pages(), bench.drive.clone());
    let sim = bench.kernel.sim();
    bench.kernel.block_on(async move {
        let mut rng = sim::Seed(1).stream("calm");
        for _ in 0..pages {
            let extent = Extent::new(rng.below(pages) * 8, 8);
            let done = drive.write(extent, Content::Nothing, Placement(0), Origin(0), false);
            done.await.expect("the drive has room");
            sim.sleep(Ns::ms(1)).await;
        }
    });
    bench.kernel.run();
    let after = bench.drive.ledger();
    assert!(after.lines_collected - before.lines_collected > 100);
    assert_eq!(after.stall_ns, before.stall_ns, "no write waited");
    assert_eq!(
        after.lines_collected_foreground,
        before.lines_collected_foreground
    );
    assert!(
        bench.drive.free_lines() >= 4,
        "{}",
        bench.drive.free_lines()
    );
    // An idle drive collects no more, however much could be collected.
    bench
        .kernel
        .run_until(Ns(bench.kernel.sim().now().0 + 1_000_000_000));
    assert_eq!(bench.drive.ledger(), after);

    config.collection.background_lines = 0;
    let mut bench = Bench::new(&config, Precondition::Aged, 1);
    let seen = bench.overwrite(1);
    let collected = seen.after.lines_collected - seen.before.lines_collected;
    let waited = seen.after.lines_collected_foreground - seen.before.lines_collected_foreground;
    eprintln!("without background: {waited} of {collected} were waited for");
    assert!(waited * 10 > collected * 9, "{waited} of {collected}");
    assert!(seen.after.stall_ns > 0);
}
