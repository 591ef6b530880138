//! Tests of injected failures: effects, counters, and repetition with the same seed.

use super::bench::{Bench, SHAPE, block, both, on_bus, tlc};
use nand::{BlockState, Counters, Faults, Media, NandError, Payload, Row};
use sim::{Discipline, Seed};
use units::Ns;

const ALWAYS: u32 = 1_000_000;

fn with(faults: Faults) -> Bench {
    Bench::with(SHAPE, faults, Discipline::FIFO)
}

fn page(number: u32) -> Row {
    Row::single(block(0, 0, 0), number)
}

/// Results of programs, reads and erases over the whole flash, counters and end time.
fn history(faults: Faults) -> (Vec<Result<(), NandError>>, Counters, Ns) {
    let bench = with(faults);
    let mut outcomes = Vec::new();
    for die in 0..SHAPE.dies() {
        for number in 0..SHAPE.pages_per_block {
            let row = both(die, 1, number);
            outcomes.push(bench.programmed(row, number));
            outcomes.push(bench.read_now(row));
        }
        outcomes.push(bench.erased(both(die, 1, 0)));
    }
    let ended = bench.kernel.sim().now();
    (outcomes, bench.nand.counters(), ended)
}

#[test]
fn failures_repeat_with_the_seed_and_are_all_counted() {
    let faults = Faults {
        program_failures: 200_000,
        erase_failures: 400_000,
        read_retries: 500_000,
        read_passes: 2,
        ..Faults::default()
    };
    let (outcomes, counters, ended) = history(faults);
    let same = (outcomes.clone(), counters, ended);
    assert_eq!(history(faults), same);
    let count = |error| outcomes.iter().filter(|o| **o == Err(error)).count() as u64;
    let failed = count(NandError::ProgramFailed);
    assert!((1..24).contains(&failed), "{failed} of 24 programs");
    assert_eq!(counters.program_failures, failed);
    assert_eq!(counters.uncorrectable, count(NandError::Uncorrectable));
    assert!(counters.read_retries > 0 && counters.uncorrectable > 0);
    assert!(counters.erase_failures >= count(NandError::EraseFailed));
    assert!(counters.erase_failures > 0);
    let (clean, counters, sooner) = history(Faults::default());
    assert!(clean.iter().all(Result::is_ok));
    assert_eq!(counters.read_retries + counters.uncorrectable, 0);
    assert!(sooner < ended, "retries take time");
}

#[test]
fn a_failed_program_leaves_its_pages_unreadable_until_the_erase() {
    let bench = with(Faults {
        program_failures: ALWAYS,
        ..Faults::default()
    });
    let row = both(0, 0, 0);
    assert_eq!(bench.programmed(row, 1), Err(NandError::ProgramFailed));
    assert_eq!(bench.kernel.sim().now(), {
        let t = tlc();
        on_bus(&t, 2 * 16_384) + t.program
    });
    assert!(bench.nand.media().page(block(0, 1, 0), 0).is_none());
    assert_eq!(bench.read_now(page(0)), Err(NandError::Unreadable));
    for again in [page(0), row] {
        let error = bench.submit(again, 2).unwrap_err();
        assert!(matches!(error, NandError::OutOfOrder { next: 1, .. }));
    }
    bench.erased(row).unwrap();
    let healed = Bench::on(bench.cut(), Faults::default(), Discipline::FIFO, 100);
    healed.programmed(row, 1).unwrap();
    assert_eq!(healed.read_now(row), Ok(()));
}

#[test]
fn a_failed_erase_takes_the_block_out_of_service() {
    let bench = with(Faults {
        erase_failures: ALWAYS,
        ..Faults::default()
    });
    bench.programmed(page(0), 1).unwrap();
    let before = bench.kernel.sim().now();
    assert_eq!(bench.erased(page(0)), Err(NandError::EraseFailed));
    let t = tlc();
    assert_eq!(bench.kernel.sim().now() - before, t.command + t.erase);
    let counters = bench.nand.counters();
    assert_eq!((counters.erase_blocks, counters.erase_failures), (1, 1));
    let media = bench.nand.media();
    assert_eq!(media.state(block(0, 0, 0)), BlockState::Bad);
    assert_eq!(media.erases(block(0, 0, 0)), 0, "it was not erased");
    assert_eq!(media.payload(block(0, 0, 0), 0, 0), Payload::Fill(100));
    assert!(media.is_readable(block(0, 0, 0), 0));
}

#[test]
fn each_retry_takes_tr_and_the_last_one_fails_the_read() {
    let faults = Faults {
        read_retries: ALWAYS,
        read_passes: 3,
        ..Faults::default()
    };
    let bench = with(faults);
    bench.programmed(page(0), 1).unwrap();
    let before = bench.kernel.sim().now();
    assert_eq!(bench.read_now(page(0)), Err(NandError::Uncorrectable));
    let t = tlc();
    let passes = Ns(4 * t.read.0);
    assert_eq!(bench.kernel.sim().now() - before, passes + on_bus(&t, 4096));
    let counters = bench.nand.counters();
    assert_eq!((counters.read_retries, counters.uncorrectable), (3, 1));
    // The fault hides the contents and does not change them.
    let healthy = Bench::on(bench.cut(), Faults::default(), Discipline::FIFO, 100);
    assert_eq!(healthy.read_now(page(0)), Ok(()));
    assert_eq!(
        healthy.nand.media().payload(block(0, 0, 0), 0, 1),
        Payload::Fill(101)
    );
}

#[test]
fn read_without_allowed_retries_fails_at_once() {
    let bench = with(Faults {
        read_retries: ALWAYS,
        ..Faults::default()
    });
    bench.programmed(page(0), 1).unwrap();
    let before = bench.kernel.sim().now();
    assert_eq!(bench.read_now(page(0)), Err(NandError::Uncorrectable));
    let t = tlc();
    assert_eq!(bench.kernel.sim().now() - before, t.read + on_bus(&t, 4096));
    assert_eq!(bench.nand.counters().read_retries, 0);
}

#[test]
fn a_copyback_fails_as_a_read_and_as_a_program() {
    let copy = |faults| {
        let bench = Bench::with(SHAPE, Faults::default(), Discipline::FIFO);
        bench.programmed(page(0), 1).unwrap();
        let bench = Bench::on(bench.cut(), faults, Discipline::FIFO, 100);
        let (from, to) = (block(0, 0, 0), block(0, 0, 1));
        let done =
            bench.finished(|nand| async move { nand.copyback((from, 0), (to, 0), 9, 8).await });
        let media = bench.nand.media();
        assert!(!media.is_readable(to, 0));
        assert!(media.is_readable(from, 0));
        (done, bench.nand.counters(), media.written(to))
    };
    let (done, counters, written) = copy(Faults {
        program_failures: ALWAYS,
        ..Faults::default()
    });
    assert_eq!((done, written), (Err(NandError::ProgramFailed), 1));
    assert_eq!((counters.program_failures, counters.program_pages), (1, 1));
    let (done, counters, written) = copy(Faults {
        read_retries: ALWAYS,
        read_passes: 1,
        ..Faults::default()
    });
    assert_eq!((done, written), (Err(NandError::Uncorrectable), 0));
    assert_eq!((counters.uncorrectable, counters.read_retries), (1, 1));
}

#[test]
fn a_block_wears_out_after_its_rated_cycles() {
    let faults = Faults {
        wear_out: true,
        ..Faults::default()
    };
    let bench = Bench::on(Media::new(SHAPE), faults, Discipline::FIFO, 3);
    for cycle in 0..3 {
        bench.programmed(page(0), cycle).unwrap();
        bench.erased(page(0)).unwrap();
    }
    bench.programmed(page(0), 9).unwrap();
    assert_eq!(bench.erased(page(0)), Err(NandError::EraseFailed));
    assert_eq!(bench.nand.media().state(block(0, 0, 0)), BlockState::Bad);
    assert_eq!(bench.nand.media().erases(block(0, 0, 0)), 3);
    // In a row, the worn block fails alone.
    assert_eq!(bench.erased(both(0, 0, 0)), Err(NandError::EraseFailed));
    assert_eq!(bench.nand.media().erases(block(0, 1, 0)), 1);
    let immortal = Bench::on(Media::new(SHAPE), Faults::default(), Discipline::FIFO, 3);
    assert!((0..5).all(|_| immortal.erased(page(0)).is_ok()));
}

#[test]
fn factory_bad_blocks_depend_on_the_seed() {
    let bad = |seed, per_million| {
        let mut media = Media::new(SHAPE);
        media.age_factory(per_million, &mut Seed(seed).stream("factory"));
        let ids = (0..SHAPE.blocks() as usize).map(|i| SHAPE.block_at(i));
        let states = ids.map(|id| media.state(id) == BlockState::Bad);
        states.collect::<Vec<_>>()
    };
    assert!(bad(1, 0).iter().all(|bad| !bad));
    assert!(bad(1, ALWAYS).iter().all(|&bad| bad));
    let half = bad(1, ALWAYS / 2);
    assert!(half.contains(&true) && half.contains(&false));
    assert_eq!(half, bad(1, ALWAYS / 2));
    assert_ne!(half, bad(2, ALWAYS / 2));
}
