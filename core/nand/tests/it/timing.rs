//! Tests of the duration of operations: the sum of their parts, to the nanosecond.

use super::bench::{Bench, Ended, SHAPE, block, both, on_bus, tlc};
use nand::{Faults, Geometry, Load, NandError, Row};
use sim::Discipline;
use units::Ns;

const PAGE: u64 = SHAPE.page_bytes as u64;

/// A page of plane 0 of a die.
fn page(die: u32, number: u32) -> Row {
    Row::single(block(die, 0, 0), number)
}

/// Asserts that the operation of `ended` takes exactly `span` and that the flash is then
/// idle.
fn ends_exactly(bench: &Bench, ended: &Ended, span: Ns) {
    let due = bench.kernel.sim().now() + span;
    bench.kernel.run_until(due - Ns(1));
    assert!(!ended.is_over(), "a nanosecond early");
    bench.kernel.run_until(due);
    assert_eq!(ended.at(), due);
    assert!(bench.nand.is_idle());
}

#[test]
fn every_operation_takes_the_sum_of_its_parts() {
    let (bench, t) = (Bench::new(), tlc());
    let program = bench.program(page(0, 0), 1);
    ends_exactly(&bench, &program, on_bus(&t, PAGE) + t.program);
    let read = bench.read(page(0, 0), 16_384);
    ends_exactly(&bench, &read, t.read + on_bus(&t, PAGE));
    let erase = bench.erase(page(0, 0));
    ends_exactly(&bench, &erase, on_bus(&t, 0) + t.erase);
    let busy = (
        t.program + t.read + t.erase,
        on_bus(&t, PAGE) + on_bus(&t, PAGE) + on_bus(&t, 0),
    );
    assert_eq!(bench.nand.busy(), busy);
}

#[test]
fn read_of_a_part_of_a_page_transfers_only_that_part() {
    let (bench, t) = (Bench::new(), tlc());
    bench.programmed(page(0, 0), 1).unwrap();
    for sectors in 1..=4 {
        let read = bench.read(page(0, 0), sectors * 4096);
        let bytes = u64::from(sectors) * 4096;
        ends_exactly(&bench, &read, t.read + on_bus(&t, bytes));
    }
}

#[test]
fn planes_and_pages_of_one_program_share_its_time() {
    let t = tlc();
    let shape = Geometry {
        pages_per_program: 3,
        ..SHAPE
    };
    let bench = Bench::with(shape, Faults::default(), Discipline::FIFO);
    let program = bench.program(both(0, 0, 0), 1);
    ends_exactly(&bench, &program, on_bus(&t, 6 * PAGE) + t.program);
    let read = bench.read(both(0, 0, 2), 2 * 16_384);
    ends_exactly(&bench, &read, t.read + on_bus(&t, 2 * PAGE));
    let erase = bench.erase(both(0, 0, 0));
    ends_exactly(&bench, &erase, on_bus(&t, 0) + t.erase);
    let counters = bench.nand.counters();
    assert_eq!(
        (
            counters.program_pages,
            counters.read_pages,
            counters.erase_blocks
        ),
        (6, 2, 2)
    );
}

#[test]
fn dies_of_one_channel_program_together_and_transfer_in_turn() {
    let (bench, t) = (Bench::new(), tlc());
    let (first, second) = (bench.program(page(0, 0), 1), bench.program(page(2, 0), 1));
    let other_channel = bench.program(page(1, 0), 1);
    bench.kernel.run();
    let transfer = on_bus(&t, PAGE);
    assert_eq!(first.at(), transfer + t.program);
    assert_eq!(second.at(), transfer + transfer + t.program);
    assert_eq!(other_channel.at(), transfer + t.program);
    let busy = Ns(3 * t.program.0);
    assert_eq!(bench.nand.busy(), (busy, Ns(3 * transfer.0)));
}

#[test]
fn die_runs_one_program_while_it_receives_the_next() {
    let (bench, t) = (Bench::new(), tlc());
    let programs: Vec<Ended> = (0..3).map(|n| bench.program(page(0, n), 1)).collect();
    bench.kernel.run();
    let transfer = on_bus(&t, PAGE);
    for (number, program) in (1..).zip(&programs) {
        // The next transfer is hidden behind the program before it.
        assert_eq!(program.at(), transfer + Ns(t.program.0 * number));
    }
}

#[test]
fn a_third_program_waits_for_a_register() {
    // A die holds the data of two programs, so the bus is free for another die although
    // the first die has a third program waiting.
    let (bench, t) = (Bench::new(), tlc());
    for number in 0..3 {
        bench.program(page(0, number), 1);
    }
    let other = bench.program(page(2, 0), 1);
    bench.kernel.run();
    let transfer = on_bus(&t, PAGE);
    assert_eq!(other.at(), Ns(3 * transfer.0) + t.program);
}

#[test]
fn reads_of_one_channel_overlap_in_the_array_and_queue_for_the_bus() {
    let (bench, t) = (Bench::new(), tlc());
    for die in 0..3 {
        bench.programmed(page(die, 0), 1).unwrap();
    }
    let start = bench.kernel.sim().now();
    let reads: Vec<Ended> = (0..3).map(|die| bench.read(page(die, 0), 16_384)).collect();
    bench.kernel.run();
    let spans: Vec<Ns> = reads.iter().map(|read| read.at() - start).collect();
    let transfer = on_bus(&t, PAGE);
    let one = t.read + transfer;
    // Dies 0 and 2 share a channel.
    assert_eq!(spans, [one, one, one + transfer]);
}

#[test]
fn copyback_does_not_use_the_channel() {
    let (bench, t) = (Bench::new(), tlc());
    bench.programmed(page(0, 0), 1).unwrap();
    let before = bench.nand.busy().1;
    let (from, to) = (block(0, 0, 0), block(0, 0, 1));
    let copy = bench.start(|nand| async move { nand.copyback((from, 0), (to, 0), 9, 8).await });
    let span = t.command + t.read + t.command + t.program;
    ends_exactly(&bench, &copy, span);
    assert_eq!(bench.nand.busy().1, before);
    let media = bench.nand.media();
    let (old, new) = (media.page(from, 0).unwrap(), media.page(to, 0).unwrap());
    assert_eq!((new.stamp, new.label), (9, 8));
    assert!(new.words().eq(old.words()));
    for sector in 0..4 {
        let [old, new] = [from, to].map(|id| media.payload(id, 0, sector));
        assert_eq!(old, new);
    }
}

#[test]
fn a_copyback_that_breaks_a_rule_changes_nothing() {
    let bench = Bench::new();
    bench.programmed(page(0, 0), 1).unwrap();
    let copy = |from, to| {
        let before = bench.all();
        let ids = (block(0, 0, 0), block(0, 0, 1));
        let done = bench
            .finished(|nand| async move { nand.copyback((ids.0, from), (ids.1, to), 9, 8).await });
        assert_eq!(done.is_err(), bench.all() == before);
        done
    };
    assert_eq!(copy(1, 0), Err(NandError::Unreadable));
    assert!(matches!(copy(0, 1), Err(NandError::OutOfOrder { .. })));
    assert_eq!(copy(0, 0), Ok(()));
}

#[test]
fn die_load_counts_operations_until_they_end() {
    let (bench, t) = (Bench::new(), tlc());
    let load = |reads, programs, erases| Load {
        reads,
        programs,
        erases,
    };
    bench.programmed(page(0, 0), 1).unwrap();
    let begun = bench.kernel.sim().now();
    // Dies 0 and 2 share a channel.
    let first = bench.read(page(0, 0), 4096);
    let _second = bench.read(page(0, 0), 4096);
    let _program = bench.program(page(2, 0), 1);
    let _erase = bench.erase(page(1, 0));
    bench.kernel.run_until(begun + Ns(1));
    assert_eq!(bench.nand.die_load(0), load(2, 0, 0));
    assert_eq!(bench.nand.die_load(2), load(0, 1, 0));
    assert_eq!(bench.nand.channel_load(0), load(2, 1, 0));
    assert_eq!(bench.nand.channel_load(1), load(0, 0, 1));
    bench.kernel.run_until(begun + t.read + t.read);
    assert!(first.is_over());
    assert_eq!(bench.nand.die_load(0), load(1, 0, 0));
    bench.kernel.run();
    let loads = (0..4).map(|die| bench.nand.die_load(die));
    assert!(loads.into_iter().all(|l| l == Load::default()));
}
