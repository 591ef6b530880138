//! Page registers that serve reads: exact times, and what empties them.

use super::bench::{Bench, Ended, SHAPE, block, both, on_bus, tlc};
use nand::{Faults, Priority, Row};
use sim::Discipline;
use units::Ns;

/// A page of block 0 of plane 0 of die 0.
fn page(number: u32) -> Row {
    Row::single(block(0, 0, 0), number)
}

/// Flash whose registers serve reads, with pages 0 and 1 of block 0 in both planes.
fn bench(faults: Faults) -> Bench {
    let bench = Bench::with(SHAPE, faults, Discipline::FIFO);
    bench.nand.read_from_registers();
    for number in 0..2 {
        bench.programmed(both(0, 0, number), 1).unwrap();
    }
    bench
}

/// Time from now to the end of a read of 4 KiB.
fn time_of(bench: &Bench, row: Row) -> Ns {
    let begun = bench.kernel.sim().now();
    bench
        .finished(|nand| async move { nand.read(row, 4096, Priority::Read).await })
        .unwrap();
    bench.kernel.sim().now() - begun
}

#[test]
fn read_of_a_held_page_takes_its_transfer_alone() {
    let (bench, t) = (bench(Faults::default()), tlc());
    let (sensed, held) = (t.read + on_bus(&t, 4096), on_bus(&t, 4096));
    assert_eq!(time_of(&bench, page(0)), sensed);
    assert_eq!(time_of(&bench, page(0)), held);
    // Not the page of the other plane, nor another page.
    assert_eq!(time_of(&bench, Row::single(block(0, 1, 0), 0)), sensed);
    assert_eq!(time_of(&bench, page(1)), sensed);
    assert_eq!(time_of(&bench, page(0)), sensed);
    let counters = bench.nand.counters();
    assert_eq!((counters.read_pages, counters.held_pages), (5, 1));
    // Both planes sensed together serve each of them.
    let row = both(0, 0, 0);
    bench
        .finished(|nand| async move { nand.read(row, 8192, Priority::Read).await })
        .unwrap();
    assert_eq!(time_of(&bench, Row::single(block(0, 1, 0), 0)), held);
    assert_eq!(time_of(&bench, page(0)), held);
}

#[test]
fn any_other_use_of_the_die_empties_its_registers() {
    let (bench, t) = (bench(Faults::default()), tlc());
    let sensed = t.read + on_bus(&t, 4096);
    assert_eq!(time_of(&bench, page(0)), sensed);
    bench.erased(Row::single(block(0, 0, 1), 0)).unwrap();
    assert_eq!(time_of(&bench, page(0)), sensed);
    bench.programmed(Row::single(block(0, 0, 1), 0), 2).unwrap();
    assert_eq!(time_of(&bench, page(0)), sensed);
    // Another die keeps its own.
    bench.programmed(Row::single(block(1, 0, 1), 0), 3).unwrap();
    assert_eq!(time_of(&bench, page(0)), on_bus(&t, 4096));
}

#[test]
fn reads_of_a_page_being_sensed_follow_that_sensing() {
    let (bench, t) = (bench(Faults::default()), tlc());
    let begun = bench.kernel.sim().now();
    let reads: Vec<Ended> = (0..3)
        .map(|n| bench.read_at(begun + Ns(n * 1_000), page(0), 4096))
        .collect();
    let other = bench.read_at(begun + Ns(4_000), page(1), 4096);
    bench.kernel.run();
    let bus = on_bus(&t, 4096);
    for (number, read) in (1..).zip(&reads) {
        assert_eq!(read.at() - begun, t.read + Ns(bus.0 * number));
    }
    assert_eq!(other.at() - begun, t.read + t.read + bus);
    assert_eq!(bench.nand.counters().held_pages, 2);
    // The page that was sensed last is held.
    assert_eq!(time_of(&bench, page(1)), bus);
}

#[test]
fn failed_sensing_serves_no_follower() {
    let bench = bench(Faults {
        read_retries: 1_000_000,
        read_passes: 1,
        ..Faults::default()
    });
    let reads: Vec<Ended> = (0..3).map(|_| bench.read(page(0), 4096)).collect();
    bench.kernel.run();
    assert!(reads.iter().all(|read| read.get().1.is_err()));
    let counters = bench.nand.counters();
    assert_eq!((counters.uncorrectable, counters.read_retries), (3, 3));
    assert_eq!(counters.held_pages, 0);
    assert!(bench.nand.is_idle());
    assert_eq!(bench.nand.die_load(0), nand::Load::default());
}
