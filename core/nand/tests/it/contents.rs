//! Tests of the contents of pages and their spare areas.

use super::bench::{Bench, SHAPE, block, both};
use nand::{Faults, Geometry, NandError, Payload, Program, Row, UNIT};
use sim::Discipline;
use std::sync::Arc;

#[test]
fn words_and_stamps_stay_with_their_pages() {
    let bench = Bench::new();
    bench.programmed(both(1, 2, 0), 5).unwrap();
    bench.programmed(both(1, 2, 1), 9).unwrap();
    let media = bench.nand.media();
    for plane in 0..2 {
        for (page, tag) in [(0, 5), (1, 9)] {
            let held = media.page(block(1, plane, 2), page).unwrap();
            assert_eq!(held.stamp, u64::from(tag));
            assert_eq!(held.label, 1_005, "the label comes with the first page");
            let first = tag * 100 + plane * 4;
            assert!(held.words().eq(first..first + 4));
            let sectors = (0..4).map(|s| media.payload(block(1, plane, 2), page, s));
            let expected = held.words().map(|w| Payload::Fill(w.into()));
            assert!(sectors.eq(expected));
        }
        assert!(media.page(block(1, plane, 2), 2).is_none());
    }
    assert!(media.page(block(1, 0, 1), 0).is_none());
}

#[test]
fn program_of_several_pages_is_laid_out_by_page_then_plane() {
    let shape = Geometry {
        pages_per_program: 3,
        ..SHAPE
    };
    let bench = Bench::with(shape, Faults::default(), Discipline::FIFO);
    bench.programmed(both(0, 0, 0), 1).unwrap();
    bench.programmed(both(0, 0, 3), 2).unwrap();
    let media = bench.nand.media();
    for (tag, first) in [(1, 0), (2, 3)] {
        for page in 0..3 {
            for plane in 0..2 {
                let held = media.page(block(0, plane, 0), first + page).unwrap();
                let start = tag * 100 + (page * 2 + plane) * 4;
                assert!(held.words().eq(start..start + 4));
                assert_eq!(held.stamp, u64::from(tag), "one stamp a program");
            }
        }
    }
}

#[test]
fn erased_block_accepts_a_new_base_stamp_and_label() {
    let bench = Bench::new();
    let row = Row::single(block(0, 0, 0), 0);
    bench.programmed(row, 40).unwrap();
    bench.erased(row).unwrap();
    bench.programmed(row, 3).unwrap();
    let media = bench.nand.media();
    let held = media.page(block(0, 0, 0), 0).unwrap();
    assert_eq!((held.stamp, held.label), (3, 1_003));
}

#[test]
fn real_bytes_patterns_and_nothing_lie_side_by_side() {
    let bench = Bench::new();
    let id = block(3, 1, 1);
    let bytes: [u8; UNIT] = std::array::from_fn(|i| (i * 7 % 251) as u8);
    let payload = [
        Payload::Bytes(Arc::new(bytes)),
        Payload::Fill(u64::from_le_bytes(*b"flashloo")),
        Payload::Zero,
        Payload::Lost,
    ];
    let write = |page, payload: &[Payload]| {
        let program = Program {
            row: Row::single(id, page),
            stamp: 1,
            label: 0,
            words: &[1, 2, 3, 4],
            payload,
        };
        let ticket = bench.nand.submit_program(program).unwrap();
        bench.finished(|nand| async move { nand.finish_program(ticket).await })
    };
    write(0, &[]).unwrap();
    write(1, &payload).unwrap();
    write(2, &[]).unwrap();
    let media = bench.nand.media();
    for sector in 0..4 {
        let expected = &payload[sector as usize];
        assert_eq!(media.payload(id, 1, sector), *expected);
        assert_eq!(media.payload(id, 0, sector), Payload::Zero);
        assert_eq!(media.payload(id, 2, sector), Payload::Zero);
    }
    assert_eq!(media.payload(id, 1, 0).to_bytes(), bytes);
    assert_eq!(&media.payload(id, 1, 1).to_bytes()[4088..], b"flashloo");
}

#[test]
fn contents_do_not_outlive_an_erase() {
    let bench = Bench::new();
    let row = Row::single(block(0, 0, 0), 0);
    bench.programmed(row, 1).unwrap();
    bench.erased(row).unwrap();
    let words = [0; 4];
    let program = Program {
        row,
        stamp: 1,
        label: 0,
        words: &words,
        payload: &[],
    };
    let ticket = bench.nand.submit_program(program).unwrap();
    bench
        .finished(|nand| async move { nand.finish_program(ticket).await })
        .unwrap();
    let media = bench.nand.media();
    assert_eq!(media.payload(block(0, 0, 0), 0, 0), Payload::Zero);
}

#[test]
fn write_after_a_clone_leaves_the_clone_unchanged() {
    let bench = Bench::new();
    let row = Row::single(block(0, 0, 0), 0);
    bench.programmed(row, 1).unwrap();
    let copy = bench.nand.media().clone();
    bench.programmed(Row { page: 1, ..row }, 2).unwrap();
    assert_eq!(copy.written(block(0, 0, 0)), 1);
    assert!(!copy.is_readable(block(0, 0, 0), 1));
    assert_eq!(bench.read_now(Row { page: 1, ..row }), Ok(()));
    let again = Bench::on(copy, Faults::default(), Discipline::FIFO, 100);
    let page_2 = again.submit(Row { page: 2, ..row }, 3);
    assert!(matches!(page_2, Err(NandError::OutOfOrder { next: 1, .. })));
}

#[test]
#[should_panic(expected = "contents of 3 sectors")]
fn payload_for_only_some_sectors_of_a_page_panics() {
    let bench = Bench::new();
    let program = Program {
        row: Row::single(block(0, 0, 0), 0),
        stamp: 1,
        label: 0,
        words: &[0; 4],
        payload: &[Payload::Zero, Payload::Zero, Payload::Zero],
    };
    let _ = bench.nand.submit_program(program);
}
