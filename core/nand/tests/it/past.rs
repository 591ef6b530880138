//! Tests of blocks that a past wrote: they are as if programs had written them.

use super::bench::{Bench, SHAPE, all, block};
use nand::{BlockId, BlockState, Faults, Geometry, Media, Past, PastBlock, Row};
use sim::Discipline;
use std::sync::Arc;

const PROGRAMS: Geometry = Geometry {
    pages_per_program: 2,
    ..SHAPE
};

/// A past in which block 0 of every plane is full, block 1 has one program, and block 2 is bad on
/// die 3 and erased elsewhere.
#[derive(Debug)]
struct Numbers;

fn number(id: BlockId) -> u32 {
    PROGRAMS.index(id) as u32
}

impl Past for Numbers {
    fn block(&self, id: BlockId) -> PastBlock {
        let written = [6, 2, 0][id.block as usize];
        let state = match (written, id.die) {
            (0, 3) => BlockState::Bad,
            (0, _) => BlockState::Erased,
            _ => BlockState::Written,
        };
        PastBlock {
            state,
            written,
            label: if written > 0 {
                7 + u64::from(number(id))
            } else {
                0
            },
        }
    }

    fn stamp(&self, id: BlockId, program: u32) -> u64 {
        u64::from(100 * number(id) + 3 * program)
    }

    fn word(&self, id: BlockId, page: u32, word: u32) -> u32 {
        1_000 * number(id) + 10 * page + word
    }
}

fn ids() -> impl Iterator<Item = BlockId> {
    (0..PROGRAMS.blocks() as usize).map(|index| PROGRAMS.block_at(index))
}

fn remembered() -> Media {
    Media::with_past(PROGRAMS, Arc::new(Numbers))
}

/// The blocks of [`Numbers`], programmed.
fn programmed() -> Media {
    let mut media = Media::new(PROGRAMS);
    for id in ids() {
        let held = Numbers.block(id);
        for program in 0..held.written / 2 {
            let pages = [2 * program, 2 * program + 1];
            let words = pages.map(|page| [0, 1, 2, 3].map(|word| Numbers.word(id, page, word)));
            let (row, stamp) = (Row::single(id, pages[0]), Numbers.stamp(id, program));
            let program = media.program(row, stamp, held.label, words.as_flattened(), &[]);
            program.expect("the block is erased");
        }
        if held.state == BlockState::Bad {
            media.retire(id);
        }
    }
    media
}

/// Programs page 2 of a block that has two pages.
fn program_on(media: &mut Media, id: BlockId) {
    let row = Row::single(id, 2);
    media
        .program(row, 10_000, 0, &[9; 8], &[])
        .expect("it is the next page");
}

#[test]
fn past_blocks_are_equal_to_programmed_ones() {
    let (past, flash) = (remembered(), programmed());
    assert!(past == flash);
    assert!(past == remembered() && past == past.clone());
    assert_eq!(all(&past), all(&flash));
    for id in ids() {
        let pages = |media: &Media| (0..7).filter(|&page| media.is_readable(id, page)).count();
        assert_eq!(pages(&past), pages(&flash));
        assert_eq!(past.page(id, 5).is_some(), id.block == 0);
    }
    assert!(past.unchanged().is_some() && flash.unchanged().is_none());
    assert!(past.memory() < 10 * ids().count(), "{}", past.memory());
}

#[test]
fn changed_past_block_is_equal_to_the_changed_programmed_one() {
    let changes: [fn(&mut Media); 5] = [
        |media| program_on(media, block(1, 1, 1)),
        |media| media.erase(block(0, 0, 0)).expect("it is good"),
        |media| media.retire(block(2, 0, 0)),
        |media| media.set_erases(block(2, 0, 1), 5),
        |media| {
            media.erase(block(0, 1, 1)).expect("it is good");
            let row = Row::single(block(0, 1, 1), 0);
            media
                .program(row, 5, 6, &[1; 8], &[])
                .expect("it is erased");
        },
    ];
    let untouched = remembered();
    for (number, change) in changes.into_iter().enumerate() {
        let (mut past, mut flash) = (untouched.clone(), programmed());
        change(&mut past);
        change(&mut flash);
        assert_eq!(all(&past), all(&flash), "{number}");
        assert!(past.unchanged().is_none() && past != untouched, "{number}");
        for id in ids() {
            assert_eq!(past.state(id), flash.state(id), "{number} {id:?}");
            assert_eq!(past.written(id), flash.written(id), "{number} {id:?}");
            assert_eq!(past.erases(id), flash.erases(id), "{number} {id:?}");
        }
    }
}

#[test]
fn cut_of_operations_on_past_blocks_leaves_what_it_leaves_on_programmed_ones() {
    let cut = |media: Media, us: u64| {
        let bench = Bench::on(media, Faults::default(), Discipline::FIFO, 100);
        bench.program(Row::single(block(0, 0, 1), 2), 300);
        bench.erase(Row::single(block(1, 1, 0), 0));
        bench.kernel.run_until(units::Ns::us(us));
        (all(&bench.cut()), bench.cut())
    };
    for us in [0, 60, 300, 10_000] {
        let (past, flash) = (cut(remembered(), us), cut(programmed(), us));
        assert_eq!(past.0, flash.0, "{us}");
        assert!(past.1.page(block(0, 0, 1), 1).is_some(), "{us}");
    }
}

#[test]
fn watch_of_past_blocks_tells_only_changed_ones() {
    let told = remembered();
    let bench = Bench::on(told.clone(), Faults::default(), Discipline::FIFO, 100);
    let watch = bench.nand.watch(&told);
    bench
        .programmed(Row::single(block(0, 0, 1), 2), 300)
        .unwrap();
    bench.erased(Row::single(block(1, 1, 0), 0)).unwrap();
    let deltas = watch.take(&bench.nand, |_| false);
    let blocks: Vec<BlockId> = deltas.iter().map(|&(id, _)| id).collect();
    assert_eq!(blocks, [block(0, 0, 1), block(1, 1, 0)]);
    let mut copy = told;
    for (id, delta) in deltas {
        copy.amend(id, &delta).expect("it follows");
    }
    assert_eq!(all(&copy), bench.all());
}
