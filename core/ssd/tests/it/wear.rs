//! Wear levelling, static and dynamic.

use crate::steady::{Bench, Seen, bare};
use ssd::{Cause, LineState, Precondition};

/// Writes a tenth of the pages for `rounds` rounds; the others are never written again. Returns the
/// lowest and the highest erase count of a line.
fn wear(threshold: u32, rounds: u64) -> (u32, u32, Seen) {
    let mut config = bare(150, (145.0 * 63.0 / 1.15) as u32);
    config.wear.static_threshold = threshold;
    let mut bench = Bench::new(&config, Precondition::Full, 1);
    let pages = bench.pages();
    let seen = bench.write(rounds * pages, move |rng| (rng.below(pages / 10), 0));
    let erases = bench.drive.lines().into_iter().map(|line| line.erases);
    let (least, most) = (erases.clone().min(), erases.max());
    (least.expect("lines"), most.expect("lines"), seen)
}

#[test]
fn static_wear_levelling_bounds_the_spread_of_erases() {
    const THRESHOLD: u32 = 8;
    for rounds in [20, 40] {
        let (least, most, seen) = wear(THRESHOLD, rounds);
        let moved = seen.by_cause(Cause::WearLevelling);
        eprintln!("levelled, {rounds} rounds: {least} to {most}, {moved} pages moved for it");
        assert!(moved > 0 && most > 15);
        assert!(most - least <= THRESHOLD + 4, "{least} to {most}");
    }
    let mut spreads = Vec::new();
    for rounds in [20, 40] {
        let (least, most, seen) = wear(0, rounds);
        eprintln!("not levelled, {rounds} rounds: {least} to {most}");
        assert_eq!((least, seen.by_cause(Cause::WearLevelling)), (0, 0));
        spreads.push(most);
    }
    assert!(
        spreads[0] > 50 && spreads[1] * 10 > spreads[0] * 18,
        "{spreads:?}"
    );
}

#[test]
fn dynamic_wear_levelling_opens_the_least_worn_free_line() {
    for dynamic in [true, false] {
        let mut config = bare(100, 70 * 63);
        config.wear.dynamic = dynamic;
        let mut bench = Bench::new(&config, Precondition::Full, 1);
        let pages = bench.pages();
        // Creates lines with uneven wear.
        bench.write(20 * pages, move |rng| (rng.below(pages / 10), 0));
        let drive = bench.drive.clone();
        bench.kernel.sim().spawn_detached(async move {
            let extent = units::Extent::new(0, (pages * 8) as u32);
            let (content, placement) = (ssd::Content::Nothing, units::Placement(0));
            let done = drive.write(extent, content, placement, units::Origin(0), false);
            done.await.expect("the drive has room");
        });
        let (mut before, mut least, mut opened) = (bench.drive.lines(), 0, 0);
        while bench.kernel.step() {
            let after = bench.drive.lines();
            let free = before.iter().filter(|line| line.state == LineState::Free);
            let fewest = free.map(|line| line.erases).min();
            for (was, is) in before.iter().zip(&after) {
                if was.state == LineState::Free && is.state == LineState::Open {
                    opened += 1;
                    least += u32::from(Some(is.erases) == fewest);
                }
            }
            before = after;
        }
        assert!(opened > 50, "{opened}");
        if dynamic {
            assert_eq!(least, opened);
        } else {
            assert!(least < opened, "the one that was free the longest is taken");
        }
    }
}
