//! A test bench for flash: starts operations and records their end times and results.

use nand::{
    BlockId, BlockImage, Faults, Geometry, Media, Nand, NandError, Part, Payload, Priority,
    Program, Row, Timing,
};
use sim::{Discipline, Kernel, Seed};
use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use units::Ns;

/// Two channels of two dies; dies 0 and 2 share channel 0.
pub(crate) const SHAPE: Geometry = Geometry {
    channels: 2,
    chips_per_channel: 2,
    dies_per_chip: 1,
    planes: 2,
    blocks_per_plane: 3,
    pages_per_block: 6,
    page_bytes: 16_384,
    spare_bytes: 64,
    pages_per_program: 1,
    spare_words: 1,
};

/// Reads go first and may suspend a program or an erase twice.
pub(crate) const READS_FIRST: Discipline = Discipline {
    bypass_limit: 16,
    suspend_limit: 2,
    suspend_cost: Ns::ZERO,
};

pub(crate) struct Bench {
    pub(crate) kernel: Kernel,
    pub(crate) nand: Rc<Nand>,
}

/// End time and result of an operation.
type End = (Ns, Result<(), NandError>);

/// The end of an operation, once it has ended.
pub(crate) struct Ended(Rc<Cell<Option<End>>>);

impl Ended {
    /// End time and result; panics if the operation has not ended.
    pub(crate) fn get(&self) -> End {
        self.0.get().expect("it has ended")
    }

    /// End time; panics unless the operation has succeeded.
    pub(crate) fn at(&self) -> Ns {
        let (at, result) = self.get();
        assert_eq!(result, Ok(()));
        at
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.get().is_some()
    }
}

/// Times of the part that most tests use.
pub(crate) fn tlc() -> Timing {
    Part::named("tlc").expect("it is in the table").timing
}

/// Bus time of one operation's command and `bytes` of data.
pub(crate) fn on_bus(timing: &Timing, bytes: u64) -> Ns {
    let data = (bytes * 1_000_000_000).div_ceil(timing.bus_bytes_per_s);
    timing.command + Ns(data)
}

pub(crate) fn block(die: u32, plane: u32, block: u32) -> BlockId {
    BlockId { die, plane, block }
}

/// The same block number in both planes of a die.
pub(crate) fn both(die: u32, block: u32, page: u32) -> Row {
    Row {
        die,
        page,
        blocks: [block, block, 0, 0, 0, 0, 0, 0],
        planes: 0b11,
    }
}

/// Images of all blocks of `media`, by index.
pub(crate) fn all(media: &Media) -> Vec<Option<BlockImage>> {
    let shape = media.geometry();
    let ids = (0..shape.blocks() as usize).map(|index| shape.block_at(index));
    ids.map(|id| media.export(id)).collect()
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(SHAPE, Faults::default(), Discipline::FIFO)
    }

    pub(crate) fn with(shape: Geometry, faults: Faults, discipline: Discipline) -> Self {
        Self::on(Media::new(shape), faults, discipline, 100)
    }

    pub(crate) fn on(media: Media, faults: Faults, discipline: Discipline, endurance: u32) -> Self {
        let kernel = Kernel::new();
        let sim = kernel.sim();
        let nand = Nand::new(&sim, media, tlc(), endurance, faults, discipline, Seed(7));
        Self { kernel, nand }
    }

    /// Starts `what` as a task of its own.
    pub(crate) fn start<F>(&self, what: impl FnOnce(Rc<Nand>) -> F) -> Ended
    where
        F: Future<Output = Result<(), NandError>> + 'static,
    {
        let ended = Rc::new(Cell::new(None));
        let (note, sim) = (Rc::clone(&ended), self.kernel.sim());
        let what = what(Rc::clone(&self.nand));
        self.kernel.sim().spawn_detached(async move {
            let result = what.await;
            note.set(Some((sim.now(), result)));
        });
        Ended(ended)
    }

    pub(crate) fn read(&self, row: Row, bytes: u32) -> Ended {
        self.read_at(Ns::ZERO, row, bytes)
    }

    /// Starts a foreground read at time `at`.
    pub(crate) fn read_at(&self, at: Ns, row: Row, bytes: u32) -> Ended {
        let sim = self.kernel.sim();
        self.start(|nand| async move {
            sim.sleep_until(at).await;
            nand.read(row, bytes, Priority::Read).await
        })
    }

    /// Submits a program with words and contents derived from `tag`.
    pub(crate) fn submit(&self, row: Row, tag: u32) -> Result<nand::Ticket, NandError> {
        let sectors = self.nand.geometry().sectors_per_page()
            * self.nand.geometry().pages_per_program
            * row.planes.count_ones();
        let words: Vec<u32> = (0..sectors).map(|sector| tag * 100 + sector).collect();
        let payload: Vec<Payload> = words.iter().map(|&w| Payload::Fill(w.into())).collect();
        self.nand.submit_program(Program {
            row,
            stamp: u64::from(tag),
            label: u64::from(tag) + 1_000,
            words: &words,
            payload: &payload,
        })
    }

    pub(crate) fn program(&self, row: Row, tag: u32) -> Ended {
        let ticket = self.submit(row, tag).expect("a legal program");
        self.start(|nand| async move { nand.finish_program(ticket).await })
    }

    /// Programs and waits for the end.
    pub(crate) fn programmed(&self, row: Row, tag: u32) -> Result<(), NandError> {
        let ticket = self.submit(row, tag)?;
        self.finished(|nand| async move { nand.finish_program(ticket).await })
    }

    pub(crate) fn erase(&self, row: Row) -> Ended {
        self.start(|nand| async move { nand.erase(row).await })
    }

    pub(crate) fn erased(&self, row: Row) -> Result<(), NandError> {
        self.finished(|nand| async move { nand.erase(row).await })
    }

    pub(crate) fn read_now(&self, row: Row) -> Result<(), NandError> {
        self.finished(|nand| async move { nand.read(row, 4096, Priority::Normal).await })
    }

    /// Runs `what` to its end.
    pub(crate) fn finished<F>(&self, what: impl FnOnce(Rc<Nand>) -> F) -> Result<(), NandError>
    where
        F: Future<Output = Result<(), NandError>> + 'static,
    {
        let what = what(Rc::clone(&self.nand));
        self.kernel.block_on(what)
    }

    /// The media after a power cut at this instant.
    pub(crate) fn cut(&self) -> Media {
        self.nand.at_power_cut()
    }

    /// Images of all blocks of the flash, by index.
    pub(crate) fn all(&self) -> Vec<Option<BlockImage>> {
        all(&self.nand.media())
    }
}
