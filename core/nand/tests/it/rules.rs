//! Tests of the rules of physics: illegal operations fail and change nothing.

use super::bench::{Bench, SHAPE, block, both};
use nand::{BlockState, Faults, Geometry, NandError, Row};
use sim::Discipline;

/// Submits an illegal program; returns its error after a check that nothing changed.
fn refused(bench: &Bench, row: Row) -> NandError {
    let before = bench.all();
    let error = bench.submit(row, 50).expect_err("it breaks a rule");
    assert!(bench.all() == before, "{error} changed something");
    error
}

#[test]
fn pages_are_programmed_in_order_and_once() {
    let bench = Bench::new();
    let id = block(1, 1, 2);
    let expected = |page, next| NandError::OutOfOrder {
        block: id,
        page,
        next,
    };
    assert_eq!(refused(&bench, Row::single(id, 1)), expected(1, 0));
    for page in 0..SHAPE.pages_per_block {
        bench.programmed(Row::single(id, page), page).unwrap();
        assert_eq!(
            refused(&bench, Row::single(id, page)),
            expected(page, page + 1)
        );
    }
    assert_eq!(refused(&bench, Row::single(id, 0)), expected(0, 6));
    let past_end = refused(&bench, Row::single(id, 6));
    assert!(matches!(past_end, NandError::NoSuchRow { page: 6, .. }));
    // The neighbouring blocks have an order of their own.
    bench
        .programmed(Row::single(block(1, 0, 2), 0), 60)
        .unwrap();
    bench
        .programmed(Row::single(block(1, 1, 1), 0), 61)
        .unwrap();
}

#[test]
fn an_erase_makes_every_page_programmable_and_unreadable() {
    let bench = Bench::new();
    let row = Row::single(block(0, 0, 0), 0);
    assert_eq!(bench.read_now(row), Err(NandError::Unreadable));
    bench.programmed(row, 1).unwrap();
    bench.programmed(Row { page: 1, ..row }, 2).unwrap();
    assert_eq!(bench.read_now(Row { page: 1, ..row }), Ok(()));
    bench.erased(row).unwrap();
    for page in 0..2 {
        assert_eq!(
            bench.read_now(Row { page, ..row }),
            Err(NandError::Unreadable)
        );
    }
    {
        let media = bench.nand.media();
        let id = block(0, 0, 0);
        let now = (media.state(id), media.written(id), media.erases(id));
        assert_eq!(now, (BlockState::Erased, 0, 1));
    }
    bench.programmed(row, 3).unwrap();
    assert_eq!(bench.read_now(row), Ok(()));
    // Contents from before the erase do not come back.
    assert_eq!(
        bench.read_now(Row { page: 1, ..row }),
        Err(NandError::Unreadable)
    );
}

#[test]
fn an_older_stamp_is_refused() {
    let bench = Bench::new();
    let row = Row::single(block(0, 0, 0), 0);
    bench.programmed(row, 51).unwrap();
    assert_eq!(refused(&bench, Row { page: 1, ..row }), NandError::Stamp);
    bench.programmed(Row { page: 1, ..row }, 51).unwrap();
}

#[test]
fn one_program_writes_all_pages_that_share_cells() {
    let shape = Geometry {
        pages_per_program: 3,
        ..SHAPE
    };
    let bench = Bench::with(shape, Faults::default(), Discipline::FIFO);
    let row = Row::single(block(3, 0, 1), 0);
    let error = refused(&bench, Row { page: 1, ..row });
    let not_one = NandError::NotOneProgram {
        page: 1,
        pages: 3,
        step: 3,
    };
    assert_eq!(error, not_one);
    // A program of two of the three pages.
    let before = bench.all();
    let words = [0; 8];
    let two = nand::Program {
        row,
        stamp: 1,
        label: 1,
        words: &words,
        payload: &[],
    };
    let error = bench.nand.submit_program(two).unwrap_err();
    assert!(matches!(error, NandError::NotOneProgram { pages: 2, .. }));
    assert!(bench.all() == before);
    bench.programmed(row, 1).unwrap();
    for page in 0..3 {
        assert_eq!(bench.read_now(Row { page, ..row }), Ok(()));
    }
    assert_eq!(
        bench.read_now(Row { page: 3, ..row }),
        Err(NandError::Unreadable)
    );
    bench.programmed(Row { page: 3, ..row }, 2).unwrap();
    assert_eq!(bench.nand.counters().program_pages, 6);
}

#[test]
fn a_row_is_refused_as_a_whole() {
    let bench = Bench::new();
    // Plane 1 is ahead by a page, so no page is next in both planes.
    bench.programmed(Row::single(block(0, 1, 0), 0), 1).unwrap();
    let next = |plane, page, next| NandError::OutOfOrder {
        block: block(0, plane, 0),
        page,
        next,
    };
    assert_eq!(refused(&bench, both(0, 0, 0)), next(1, 0, 1));
    assert_eq!(refused(&bench, both(0, 0, 1)), next(0, 1, 0));
    bench.programmed(Row::single(block(0, 0, 0), 0), 2).unwrap();
    bench.programmed(both(0, 0, 1), 3).unwrap();
    // Planes may take part with different blocks.
    let mut across = both(0, 1, 0);
    across.blocks[1] = 2;
    bench.programmed(across, 4).unwrap();
    assert_eq!(bench.nand.media().written(block(0, 1, 2)), 1);
    assert_eq!(bench.nand.media().written(block(0, 1, 1)), 0);
}

#[test]
fn a_row_that_the_flash_does_not_have_is_refused() {
    let bench = Bench::new();
    let good = Row::single(block(0, 0, 0), 0);
    let mut block_3 = good;
    block_3.blocks[0] = 3;
    let rows = [
        Row { planes: 0, ..good },
        Row {
            planes: 0b100,
            ..good
        },
        Row {
            planes: 0b101,
            ..good
        },
        Row { die: 4, ..good },
        Row { page: 6, ..good },
        block_3,
    ];
    for row in rows {
        let missing = NandError::NoSuchRow {
            die: row.die,
            page: row.page,
            planes: row.planes,
        };
        let before = bench.all();
        let words = vec![0; 4 * row.planes.count_ones() as usize];
        let program = nand::Program {
            row,
            stamp: 1,
            label: 1,
            words: &words,
            payload: &[],
        };
        assert_eq!(bench.nand.submit_program(program).unwrap_err(), missing);
        assert_eq!(bench.read_now(row), Err(missing));
        assert_eq!(bench.erased(row), Err(missing));
        assert!(bench.all() == before);
    }
    assert_eq!(
        bench.kernel.sim().now().0,
        0,
        "refused before it takes time"
    );
    // The block number of a plane that takes no part is ignored.
    let mut unused = good;
    unused.blocks[1] = 99;
    assert_eq!(bench.programmed(unused, 1), Ok(()));
}

#[test]
fn bad_block_rejects_programs_and_erases_but_stays_readable() {
    let bench = Bench::new();
    let row = Row::single(block(2, 0, 0), 0);
    bench.programmed(row, 1).unwrap();
    bench.nand.media_mut().retire(block(2, 0, 0));
    let bad = NandError::NotUsable {
        block: block(2, 0, 0),
        state: BlockState::Bad,
    };
    assert_eq!(refused(&bench, Row { page: 1, ..row }), bad);
    assert_eq!(refused(&bench, both(2, 0, 1)), bad);
    assert_eq!(bench.read_now(row), Ok(()));
    assert_eq!(bench.erased(row), Err(NandError::EraseFailed));
    assert_eq!(bench.nand.media().state(block(2, 0, 0)), BlockState::Bad);
}
