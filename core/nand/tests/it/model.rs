//! Random sequences of operations, legal or not, with power cuts at any event, against a
//! model of the contents of blocks.

use super::bench::{Bench, Ended, SHAPE, block};
use bolero::TypeGenerator;
use nand::{BlockState, Faults, Geometry, Media, NandError, Payload, Program, Row, UNIT};
use sim::Discipline;
use std::sync::Arc;

/// One die of two planes, so that operations conflict often.
const TINY: Geometry = Geometry {
    channels: 1,
    chips_per_channel: 1,
    dies_per_chip: 1,
    blocks_per_plane: 2,
    pages_per_block: 4,
    pages_per_program: 2,
    page_bytes: 4096,
    spare_bytes: 16,
    ..SHAPE
};

#[derive(Clone, Copy, Debug, TypeGenerator)]
enum Step {
    /// Block of each plane, planes, first page, and fill value.
    Program(bool, bool, u8, u8, u8),
    Erase(bool, bool, u8),
    /// Runs this many events.
    Wait(u8),
    /// Cuts the power and powers on again.
    Cut,
}

/// Expected contents of a block: the fill value of each programmed page, None for torn
/// pages; None instead of the list after a cut erase.
#[derive(Clone, Debug, PartialEq)]
struct Model(Option<Vec<Option<u8>>>);

impl Model {
    fn takes(&self, page: u32) -> bool {
        let full = TINY.pages_per_block as usize;
        let next = self.0.as_ref().map(Vec::len);
        page.is_multiple_of(2) && next == Some(page as usize) && page < full as u32
    }
}

#[derive(Clone, Copy)]
enum Doing {
    Program(u32),
    Erase,
}

struct World {
    bench: Bench,
    blocks: [Model; 4],
    /// Operations in progress, oldest first.
    under_way: Vec<(Row, Doing, Ended)>,
}

fn index(row: Row) -> impl Iterator<Item = usize> {
    row.blocks().map(|id| TINY.index(id))
}

fn contents(fill: u8) -> [Payload; 2] {
    match fill % 3 {
        0 => [Payload::Zero, Payload::Zero],
        1 => [Payload::Fill(fill.into()), Payload::Zero],
        _ => [Payload::Zero, Payload::Bytes(Arc::new([fill; UNIT]))],
    }
}

impl World {
    fn new(media: Media) -> Self {
        Self {
            bench: Bench::on(media, Faults::default(), Discipline::FIFO, 100),
            blocks: std::array::from_fn(|_| Model(Some(Vec::new()))),
            under_way: Vec::new(),
        }
    }

    fn is_busy(&self, row: Row, erasing: bool) -> bool {
        self.under_way.iter().any(|(other, doing, ended)| {
            let against = erasing || matches!(doing, Doing::Erase);
            !ended.is_over() && against && index(*other).any(|b| index(row).any(|c| b == c))
        })
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Program(a, b, planes, page, fill) => {
                let row = row(a, b, planes, u32::from(page % 6));
                // The firmware must not overlap programs and erases of one block.
                if !self.is_busy(row, false) {
                    self.program(row, fill);
                }
            }
            Step::Erase(a, b, planes) => {
                let row = row(a, b, planes, 0);
                if planes % 4 != 0 && !self.is_busy(row, true) {
                    let erase = self.bench.erase(row);
                    self.under_way.push((row, Doing::Erase, erase));
                }
            }
            Step::Wait(events) => {
                (0..events % 8).for_each(|_| _ = self.bench.kernel.step());
                self.settle();
            }
            Step::Cut => self.cut(),
        }
        self.check();
    }

    fn program(&mut self, row: Row, fill: u8) {
        let planes = row.planes.count_ones() as usize;
        let pages = contents(fill);
        let payload: Vec<Payload> = (0..2 * planes)
            .map(|n| pages[n / planes.max(1)].clone())
            .collect();
        let words = vec![u32::from(fill); payload.len()];
        // Contents that are all zeros are passed as an empty list.
        let said = if fill.is_multiple_of(3) {
            &[]
        } else {
            &payload[..]
        };
        let before = self.bench.all();
        let ticket = self.bench.nand.submit_program(Program {
            row,
            stamp: 5,
            label: 6,
            words: &words,
            payload: said,
        });
        let legal = planes > 0 && index(row).all(|block| self.blocks[block].takes(row.page));
        assert_eq!(ticket.is_ok(), legal, "{row:?}");
        let Ok(ticket) = ticket else {
            assert!(
                self.bench.all() == before,
                "a refused program changed something"
            );
            return;
        };
        for block in index(row) {
            let pages = self.blocks[block].0.as_mut().expect("it took the program");
            pages.extend([Some(fill); 2]);
        }
        let finish =
            |nand: std::rc::Rc<nand::Nand>| async move { nand.finish_program(ticket).await };
        let ended = self.bench.start(finish);
        self.under_way.push((row, Doing::Program(row.page), ended));
    }

    /// Applies completed erases to the model and drops all completed operations.
    fn settle(&mut self) {
        for (row, doing, ended) in &self.under_way {
            if ended.is_over() && matches!(doing, Doing::Erase) {
                index(*row).for_each(|block| self.blocks[block] = Model(Some(Vec::new())));
            }
        }
        self.under_way.retain(|(_, _, ended)| !ended.is_over());
    }

    /// Cuts the power. The die had begun at most one operation; the others waited.
    fn cut(&mut self) {
        self.settle();
        let media = self.bench.cut();
        let mut begun = 0;
        for (row, doing, _) in std::mem::take(&mut self.under_way) {
            // A second erase of a half-erased block leaves the same state as none.
            let changed = index(row).any(|block| self.blocks[block].0.is_some());
            let started = match doing {
                Doing::Program(page) => row.blocks().all(|id| media.written(id) > page),
                Doing::Erase => {
                    let half = |id| media.state(id) == BlockState::HalfErased;
                    changed && row.blocks().all(half)
                }
            };
            begun += u32::from(started);
            for block in index(row) {
                let pages = &mut self.blocks[block].0;
                match (doing, pages) {
                    (Doing::Erase, pages) if started => *pages = None,
                    (Doing::Program(page), Some(pages)) => {
                        pages.truncate(page as usize);
                        pages.extend([None; 2].iter().filter(|_| started));
                    }
                    _ => {}
                }
            }
        }
        assert!(begun <= 1, "a die does one thing at a time");
        let blocks = self.blocks.clone();
        *self = Self::new(media);
        self.blocks = blocks;
    }

    /// Asserts that every block is as the model expects.
    fn check(&self) {
        let media = self.bench.nand.media();
        for (number, model) in self.blocks.iter().enumerate() {
            let id = TINY.block_at(number);
            let state = match &model.0 {
                None => BlockState::HalfErased,
                Some(pages) if pages.is_empty() => BlockState::Erased,
                Some(_) => BlockState::Written,
            };
            if !self.is_busy(Row::single(id, 0), true) {
                assert_eq!(media.state(id), state, "{id:?}");
            }
            for page in 0..TINY.pages_per_block {
                let held = model.0.as_ref().and_then(|p| p.get(page as usize).copied());
                let held = held.flatten();
                assert_eq!(media.is_readable(id, page), held.is_some(), "{id:?} {page}");
                let words = media.page(id, page);
                let words = words.map(|p| (p.stamp, p.label, p.words().collect()));
                let Some(fill) = held else {
                    assert_eq!(words, None);
                    continue;
                };
                assert_eq!(words, Some((5, 6, vec![u32::from(fill)])));
                let expected = &contents(fill)[page as usize % 2];
                assert_eq!(media.payload(id, page, 0), *expected);
            }
        }
    }

    fn read_everything(&self) {
        for (number, model) in self.blocks.iter().enumerate() {
            for page in 0..TINY.pages_per_block {
                let held = model.0.as_ref().and_then(|p| p.get(page as usize).copied());
                let read = self
                    .bench
                    .read_now(Row::single(TINY.block_at(number), page));
                let expected = held.flatten().ok_or(NandError::Unreadable).map(|_| ());
                assert_eq!(read, expected);
            }
        }
    }
}

/// A row of the tiny die; `planes` may contain planes that do not exist.
fn row(a: bool, b: bool, planes: u8, page: u32) -> Row {
    let mut row = Row::single(block(0, 0, 0), page);
    row.blocks[..2].copy_from_slice(&[a.into(), b.into()]);
    row.planes = planes % 4;
    row
}

#[test]
fn any_sequence_with_any_cuts_follows_the_model() {
    bolero::check!()
        .with_type::<Vec<Step>>()
        .with_iterations(5_000)
        .for_each(|steps| {
            let mut world = World::new(Media::new(TINY));
            steps.iter().for_each(|&step| world.step(step));
            world.cut();
            world.check();
            world.read_everything();
        });
}
