//! Tests of the cells after a power cut during operations.

use super::bench::{Bench, SHAPE, all, block, both, on_bus, tlc};
use nand::{BlockState, Faults, Geometry, Media, NandError, Row};
use sim::Discipline;
use units::Ns;

fn again(media: Media) -> Bench {
    Bench::on(media, Faults::default(), Discipline::FIFO, 100)
}

fn page(number: u32) -> Row {
    Row::single(block(0, 0, 0), number)
}

#[test]
fn cut_program_leaves_nothing_then_a_torn_page_then_the_whole_page() {
    let bench = Bench::new();
    let t = tlc();
    bench.programmed(page(0), 1).unwrap();
    let without = bench.all();
    let start = bench.kernel.sim().now();
    bench.program(page(1), 2);
    let begun = start + on_bus(&t, 16_384);
    bench.kernel.run_until(begun - Ns(1));
    assert!(all(&bench.cut()) == without, "still on the bus");
    for now in [begun, begun + t.program - Ns(1)] {
        bench.kernel.run_until(now);
        let media = bench.cut();
        assert_eq!(media.written(block(0, 0, 0)), 2);
        assert!(media.is_readable(block(0, 0, 0), 0));
        assert!(!media.is_readable(block(0, 0, 0), 1));
        assert!(media.page(block(0, 0, 0), 1).is_none());
    }
    bench.kernel.run_until(begun + t.program);
    assert!(all(&bench.cut()) == bench.all());
    assert!(bench.cut().is_readable(block(0, 0, 0), 1));
}

#[test]
fn torn_page_is_unreadable_until_the_erase() {
    let bench = Bench::new();
    bench.programmed(page(0), 1).unwrap();
    bench.program(page(1), 2);
    bench
        .kernel
        .run_until(bench.kernel.sim().now() + Ns::us(100));
    let bench = again(bench.cut());
    assert_eq!(bench.read_now(page(1)), Err(NandError::Unreadable));
    assert_eq!(bench.read_now(page(0)), Ok(()));
    let error = bench.submit(page(1), 3).unwrap_err();
    assert!(matches!(error, NandError::OutOfOrder { next: 2, .. }));
    // One torn plane makes the whole row unreadable.
    bench.programmed(Row::single(block(0, 1, 0), 0), 3).unwrap();
    bench.programmed(Row::single(block(0, 1, 0), 1), 3).unwrap();
    assert_eq!(bench.read_now(both(0, 0, 1)), Err(NandError::Unreadable));
    bench.erased(page(0)).unwrap();
    bench.programmed(page(0), 4).unwrap();
    bench.programmed(page(1), 4).unwrap();
    assert_eq!(bench.read_now(page(1)), Ok(()));
}

#[test]
fn all_pages_of_a_program_are_torn_in_all_planes() {
    let shape = Geometry {
        pages_per_program: 3,
        ..SHAPE
    };
    let bench = Bench::with(shape, Faults::default(), Discipline::FIFO);
    bench.programmed(both(0, 0, 0), 1).unwrap();
    bench.program(both(0, 0, 3), 2);
    let t = tlc();
    let begun = bench.kernel.sim().now() + on_bus(&t, 6 * 16_384);
    bench.kernel.run_until(begun + Ns(1));
    let media = bench.cut();
    for plane in 0..2 {
        let readable = (0..6).map(|page| media.is_readable(block(0, plane, 0), page));
        assert!(readable.eq([true, true, true, false, false, false]));
    }
}

#[test]
fn waiting_operations_leave_no_trace_after_a_cut() {
    let bench = Bench::new();
    let t = tlc();
    bench.programmed(Row::single(block(0, 1, 0), 0), 1).unwrap();
    let start = bench.kernel.sim().now();
    for number in 0..4 {
        bench.program(page(number), 2);
    }
    bench.erase(Row::single(block(0, 1, 0), 0));
    // The first program is in the array and the second in a register; two more programs
    // and the erase wait.
    bench
        .kernel
        .run_until(start + on_bus(&t, 16_384) + Ns::us(100));
    let media = bench.cut();
    assert_eq!(media.written(block(0, 0, 0)), 1, "the first one, torn");
    assert!(!media.is_readable(block(0, 0, 0), 0));
    assert_eq!(media.state(block(0, 1, 0)), BlockState::Written);
    assert!(media.is_readable(block(0, 1, 0), 0));
    again(media).programmed(page(1), 3).unwrap();
}

#[test]
fn cut_leaves_untouched_blocks_unchanged() {
    let bench = Bench::new();
    for die in 0..4 {
        bench.programmed(both(die, 1, 0), die).unwrap();
    }
    let before = bench.all();
    bench.program(Row::single(block(2, 1, 1), 1), 7);
    bench.erase(Row::single(block(3, 0, 1), 0));
    bench
        .kernel
        .run_until(bench.kernel.sim().now() + Ns::us(200));
    let (media, touched) = (bench.cut(), [block(2, 1, 1), block(3, 0, 1)]);
    for (index, old) in before.iter().enumerate() {
        let id = SHAPE.block_at(index);
        let same = media.export(id) == *old;
        assert_eq!(same, !touched.contains(&id), "{id:?}");
    }
}

#[test]
fn block_of_a_cut_erase_must_be_erased_again() {
    let bench = Bench::new();
    let t = tlc();
    bench.programmed(both(0, 0, 0), 1).unwrap();
    let start = bench.kernel.sim().now();
    bench.erase(both(0, 0, 0));
    bench.kernel.run_until(start + t.command - Ns(1));
    assert_eq!(bench.cut().state(block(0, 0, 0)), BlockState::Written);
    bench.kernel.run_until(start + t.command + t.erase - Ns(1));
    let bench = again(bench.cut());
    for plane in 0..2 {
        let row = Row::single(block(0, plane, 0), 0);
        let state = BlockState::HalfErased;
        assert_eq!(bench.nand.media().state(block(0, plane, 0)), state);
        assert_eq!(bench.read_now(row), Err(NandError::Unreadable));
        for number in 0..2 {
            let refused = bench
                .submit(
                    Row {
                        page: number,
                        ..row
                    },
                    2,
                )
                .unwrap_err();
            assert!(matches!(refused, NandError::NotUsable { .. }));
        }
    }
    bench.erased(both(0, 0, 0)).unwrap();
    bench.programmed(both(0, 0, 0), 3).unwrap();
    assert_eq!(bench.read_now(both(0, 0, 0)), Ok(()));
}

#[test]
fn second_cut_erase_leaves_the_block_half_erased() {
    let bench = Bench::new();
    bench.programmed(page(0), 1).unwrap();
    bench.erase(page(0));
    bench.kernel.run_until(bench.kernel.sim().now() + Ns::ms(1));
    let bench = again(bench.cut());
    bench.erase(page(0));
    bench.kernel.run_until(bench.kernel.sim().now() + Ns::ms(1));
    assert_eq!(bench.cut().state(block(0, 0, 0)), BlockState::HalfErased);
    bench.kernel.run();
    assert_eq!(bench.cut().state(block(0, 0, 0)), BlockState::Erased);
    assert_eq!(bench.cut().erases(block(0, 0, 0)), 1);
}

#[test]
fn half_erased_block_that_is_retired_has_nothing_to_export() {
    let bench = Bench::new();
    bench.programmed(page(0), 1).unwrap();
    bench.erase(page(0));
    bench.kernel.run_until(bench.kernel.sim().now() + Ns::ms(1));
    let cut = bench.cut();
    let id = block(0, 0, 0);
    // From its image it comes without the arrays of its pages.
    let mut loaded = Media::new(SHAPE);
    loaded.import(id, &cut.export(id).unwrap()).unwrap();
    for mut media in [cut, loaded] {
        media.retire(id);
        let image = media.export(id).unwrap();
        assert_eq!((image.state, image.written), (BlockState::Bad, 0));
        assert!(image.stamps.is_empty());
    }
}

#[test]
fn a_cut_copyback_leaves_its_source() {
    let bench = Bench::new();
    bench.programmed(page(0), 1).unwrap();
    let start = bench.kernel.sim().now();
    let (from, to) = (block(0, 0, 0), block(0, 0, 1));
    bench.start(|nand| async move { nand.copyback((from, 0), (to, 0), 9, 8).await });
    let t = tlc();
    bench.kernel.run_until(start + t.command + t.read - Ns(1));
    assert_eq!(bench.cut().written(to), 0);
    bench.kernel.run_until(start + t.command + t.read + Ns(1));
    assert_eq!(bench.cut().written(to), 1);
    assert!(!bench.cut().is_readable(to, 0));
    assert!(bench.cut().is_readable(from, 0));
}

#[test]
fn a_cut_does_not_heal_a_bad_block() {
    let bench = Bench::new();
    // The die is busy, so the program of the block to retire waits.
    bench.program(Row::single(block(0, 1, 1), 0), 1);
    bench.program(page(0), 1);
    bench.kernel.run_until(Ns::us(1));
    bench.nand.media_mut().retire(block(0, 0, 0));
    let media = bench.cut();
    assert_eq!(media.state(block(0, 0, 0)), BlockState::Bad);
    assert_eq!(media.written(block(0, 0, 0)), 0);
}
