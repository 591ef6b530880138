//! Operations of dies and channels, which take time.
//!
//! Invariants: the pages of a program are written in the media when the program is
//! submitted, so the order of pages is the order of submission; the firmware must not
//! read them before the program completes. An erase takes effect when it completes.
//! [`Nand::at_power_cut`] undoes or tears programs that have not completed.

use crate::block::BlockState;
use crate::faults::Faults;
use crate::geometry::{BlockId, Geometry, Row};
use crate::load::Loads;
use crate::media::{Media, NandError};
use crate::operation::{Doing, End, Firmware, Operation, Queues, Reading, Report};
use crate::part::Timing;
use crate::payload::Payload;
use crate::trace::Tracer;
use crate::watch::Watches;
use sim::{Class, Discipline, Rng, Seed, Server, Sim};
use std::cell::{Cell, OnceCell, Ref, RefCell, RefMut};
use std::ops::Range;
use std::rc::{Rc, Weak};
use units::{Ns, Rate};

/// Priority of an operation at its die and channel, highest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Reads in the foreground, for which a request waits.
    Read,
    /// Background reads, and programs. They keep their order, as the programs of one
    /// block must.
    Normal,
    /// Erases of blocks, served last.
    Erase,
}

impl Priority {
    pub(crate) const fn class(self) -> Class {
        Class(self as u8)
    }
}

/// One program operation and its data.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// First page, in each participating plane.
    pub row: Row,
    /// Sequence number, which rises from program to program.
    pub stamp: u64,
    /// Use of the block in the firmware's terms; stored with the block's first page.
    pub label: u64,
    /// Spare words of each sector, page by page and within a page plane by plane.
    pub words: &'a [u32],
    /// Contents by sector in the same order, or empty for zeros.
    pub payload: &'a [Payload],
}

/// Numbers of completed operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Number of pages read, without retries.
    pub read_pages: u64,
    /// Number of passes of reads beyond their first ones.
    pub read_retries: u64,
    /// Number of pages among `read_pages` that were read from page registers, without sensing.
    pub held_pages: u64,
    /// Number of pages programmed, including failed programs.
    pub program_pages: u64,
    /// Number of blocks erased, including failed erases.
    pub erase_blocks: u64,
    /// Number of reads that stayed uncorrectable after all retries.
    pub uncorrectable: u64,
    /// Number of failed programs; a multi-plane program counts once.
    pub program_failures: u64,
    /// Number of blocks whose erase failed.
    pub erase_failures: u64,
}

/// The flash of one drive: cells, dies and channels.
pub struct Nand {
    sim: Sim,
    geometry: Geometry,
    timing: Timing,
    pub(crate) bus: Rate,
    endurance: u32,
    pub(crate) faults: Faults,
    media: RefCell<Media>,
    pub(crate) queues: RefCell<Queues>,
    /// Whether page registers serve reads.
    pub(crate) registers: Cell<bool>,
    loads: Loads,
    counters: Cell<Counters>,
    chance: RefCell<Rng>,
    watches: Watches,
    tracer: Tracer,
    pub(crate) firmware: OnceCell<Weak<dyn Firmware>>,
}

impl Nand {
    /// Creates flash with the cells of `media`. Dies serve their queues by
    /// `discipline`, with the suspension cost of `timing`. Failures are drawn from the
    /// stream `nand` of `seed`.
    #[must_use]
    pub fn new(
        sim: &Sim,
        media: Media,
        timing: Timing,
        endurance: u32,
        faults: Faults,
        discipline: Discipline,
        seed: Seed,
    ) -> Rc<Self> {
        let geometry = *media.geometry();
        let array = Discipline {
            suspend_cost: timing.suspend,
            ..discipline
        };
        // Data bursts have the size of a page, so a read waits at most for the rest of one
        // page of a longer transfer. The model is a suspension of the transfer at no cost.
        let bus = Discipline {
            suspend_limit: u32::MAX * u32::from(discipline.bypass_limit > 0),
            suspend_cost: Ns::ZERO,
            ..discipline
        };
        Rc::new_cyclic(|nand: &Weak<Self>| {
            let actor = sim.enroll(nand.clone());
            let timer = |number| sim.timer(actor, number);
            let queues = Queues::new(geometry.dies(), geometry.channels, (array, bus), timer);
            Self {
                sim: sim.clone(),
                loads: Loads::new(geometry.dies()),
                queues: RefCell::new(queues),
                registers: Cell::new(false),
                bus: Rate::new(timing.bus_bytes_per_s),
                geometry,
                timing,
                endurance,
                faults,
                media: RefCell::new(media),
                counters: Cell::default(),
                chance: RefCell::new(seed.stream("nand")),
                watches: Watches::default(),
                tracer: Tracer::default(),
                firmware: OnceCell::new(),
            }
        })
    }

    /// Sets the firmware that handles operations which report to it.
    ///
    /// # Panics
    /// If there is one already.
    pub fn serve(&self, firmware: Weak<dyn Firmware>) {
        let set = self.firmware.set(firmware);
        assert!(set.is_ok(), "flash has one firmware");
    }

    /// Geometry of the flash.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Times and bus rate of the flash.
    #[must_use]
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// Rated program/erase cycles of a block.
    #[must_use]
    pub fn endurance(&self) -> u32 {
        self.endurance
    }

    /// Read access to the cells, without the clock.
    #[must_use]
    pub fn media(&self) -> Ref<'_, Media> {
        self.media.borrow()
    }

    /// Write access to the cells without the clock, to prepare a drive. Watches do not see
    /// these changes.
    #[must_use]
    pub fn media_mut(&self) -> RefMut<'_, Media> {
        self.media.borrow_mut()
    }

    /// Takes a block out of service. Its programmed pages can still be read.
    pub fn retire(&self, block: BlockId) {
        self.media.borrow_mut().retire(block);
        self.watches.mark(self, Row::single(block, 0));
    }

    /// Takes a block out of service and makes all of its pages unreadable.
    pub fn discard(&self, block: BlockId) {
        let mut media = self.media.borrow_mut();
        let pages = media.written(block);
        media.tear(block, 0..pages);
        media.retire(block);
        drop(media);
        self.watches.mark(self, Row::single(block, 0));
    }

    /// Frees the memory of sectors that are never read again; they may read as zeros from
    /// now on. Does nothing while a watch is live, since deltas must have all contents.
    #[inline]
    pub fn forget(&self, block: BlockId, page: u32, sectors: Range<u32>) {
        if self.watches.is_empty() {
            self.media.borrow_mut().forget(block, page, sectors);
        }
    }

    /// Prefetches the memory that [`Nand::forget`] will access.
    #[inline]
    pub fn forget_soon(&self, block: BlockId, page: u32, sectors: Range<u32>) {
        self.media.borrow().forget_soon(block, page, sectors);
    }

    /// Tracer of the operations.
    #[must_use]
    #[inline]
    pub fn tracer(&self) -> &Tracer {
        &self.tracer
    }

    pub(crate) fn now(&self) -> Ns {
        self.sim.now()
    }

    pub(crate) fn loads(&self) -> &Loads {
        &self.loads
    }

    pub(crate) fn watches(&self) -> &Watches {
        &self.watches
    }

    /// Rows of the programs in progress.
    pub(crate) fn programs_under_way(&self) -> Vec<Row> {
        let queues = self.queues.borrow();
        let programs = queues.operations.iter();
        let programs = programs.filter(|op| matches!(op.doing, Doing::Program { .. }));
        programs.map(|op| op.row).collect()
    }

    /// Numbers of operations completed so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters.get()
    }

    /// Total busy time of all dies, and of all channels.
    #[must_use]
    pub fn busy(&self) -> (Ns, Ns) {
        let sum = |busy: &mut dyn Iterator<Item = Ns>| Ns(busy.map(|ns| ns.0).sum());
        let queues = self.queues.borrow();
        (
            sum(&mut queues.dies.iter().map(|d| d.array.meter().busy())),
            sum(&mut queues.channels.iter().map(|c| c.meter().busy())),
        )
    }

    /// Whether all dies and channels are idle.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let queues = self.queues.borrow();
        queues.dies.iter().all(|d| d.array.is_idle()) && queues.channels.iter().all(Server::is_idle)
    }

    /// Reads one page in each plane of `row` and transfers `bytes` bytes in total.
    ///
    /// # Errors
    /// [`NandError::NoSuchRow`] at once, [`NandError::Unreadable`] if a page is erased or
    /// torn, [`NandError::Uncorrectable`] if all passes fail.
    pub async fn read(&self, row: Row, bytes: u32, priority: Priority) -> Result<(), NandError> {
        let Reading(number) = self.read_at_once(row, bytes, priority)?;
        self.end_of(number).await
    }

    /// Starts a read as [`Nand::read`] does, for the current task or record, which is called at
    /// its end and then calls [`Nand::take_end`].
    ///
    /// # Errors
    /// [`NandError::NoSuchRow`]; the end has the others.
    #[inline]
    pub fn read_at_once(
        &self,
        row: Row,
        bytes: u32,
        priority: Priority,
    ) -> Result<Reading, NandError> {
        self.geometry.check(&row)?;
        let number = self.begin_read(row, Some(bytes), priority, self.to_current());
        Ok(Reading(number))
    }

    /// Result of a read after its transfer.
    pub(crate) fn end_read(&self, row: Row, correct: bool) -> Result<(), NandError> {
        self.count(|c| c.read_pages += u64::from(row.planes.count_ones()));
        if !correct {
            return Err(NandError::Uncorrectable);
        }
        let media = self.media.borrow();
        let readable = |block| media.is_readable(block, row.page);
        if row.blocks().all(readable) {
            Ok(())
        } else {
            Err(NandError::Unreadable)
        }
    }

    /// Draws whether a pass of a read fails.
    pub(crate) fn needs_retry(&self) -> bool {
        self.draws(self.faults.read_retries)
    }

    fn to_current(&self) -> Report {
        Report::Task(self.sim.current())
    }

    fn end_of(&self, number: u32) -> End<'_> {
        End {
            nand: self,
            operation: Reading(number),
            taken: false,
        }
    }

    /// Submits a program: its pages are written in the media at once, and its time
    /// passes in [`Nand::finish_program`]. The split lets the firmware fix the order of
    /// programs at one instant and keep its buffers.
    ///
    /// # Errors
    /// The broken rule; nothing has changed then.
    pub fn submit_program(&self, program: Program<'_>) -> Result<Ticket, NandError> {
        let row = program.row;
        self.media.borrow_mut().program(
            row,
            program.stamp,
            program.label,
            program.words,
            program.payload,
        )?;
        let words = program.words.len() as u32;
        let pages = words / (self.geometry.words_per_page() * row.planes.count_ones());
        let doing = Doing::Program {
            pages,
            from_channel: true,
        };
        let mut queues = self.queues.borrow_mut();
        Ok(Ticket(queues.add(row, doing, Report::Dropped)))
    }

    /// Starts a submitted program as [`Nand::finish_program`] does, and reports its end.
    #[inline]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a program is started only once"
    )]
    pub fn start_program(&self, ticket: Ticket, report: Report) {
        let Ticket(number) = ticket;
        self.begin_program(number, report);
    }

    /// Executes a submitted program: the transfer, then tPROG. The return is the durable
    /// point of a write.
    ///
    /// # Errors
    /// [`NandError::ProgramFailed`]; the pages are unreadable then.
    pub async fn finish_program(&self, ticket: Ticket) -> Result<(), NandError> {
        let Ticket(number) = ticket;
        self.begin_program(number, self.to_current());
        self.end_of(number).await
    }

    /// Completes a program of `pages` pages a plane after its time, and draws whether it fails.
    pub(crate) fn end_program(&self, row: Row, pages: u32) -> Result<(), NandError> {
        self.watches.mark(self, row);
        self.count(|c| c.program_pages += u64::from(pages * row.planes.count_ones()));
        if self.draws(self.faults.program_failures) {
            self.count(|c| c.program_failures += 1);
            let mut media = self.media.borrow_mut();
            for block in row.blocks() {
                media.tear(block, row.page..row.page + pages);
            }
            return Err(NandError::ProgramFailed);
        }
        Ok(())
    }

    /// Erases one block in each plane of `row`, together.
    ///
    /// # Errors
    /// [`NandError::NoSuchRow`] at once; [`NandError::EraseFailed`] if any block failed.
    /// The failed blocks are then [`BlockState::Bad`] in the media, the others are erased.
    pub async fn erase(&self, row: Row) -> Result<(), NandError> {
        self.geometry.check(&row)?;
        let number = self.begin_erase(row, self.to_current());
        self.end_of(number).await
    }

    /// Completes an erase after its time.
    pub(crate) fn end_erase(&self, row: Row) -> Result<(), NandError> {
        self.watches.mark(self, row);
        let mut result = Ok(());
        for block in row.blocks() {
            self.count(|c| c.erase_blocks += 1);
            if let Err(error) = self.erase_block(block) {
                self.count(|c| c.erase_failures += 1);
                result = Err(error);
            }
        }
        result
    }

    fn erase_block(&self, block: BlockId) -> Result<(), NandError> {
        let mut media = self.media.borrow_mut();
        let worn = self.faults.wear_out && media.erases(block) >= self.endurance;
        if worn || self.draws(self.faults.erase_failures) {
            media.retire(block);
        }
        media.erase(block)
    }

    /// Copies the pages of one program to another block of the same die and plane without
    /// the channel: reads into the page registers, then a program from them. The copy
    /// keeps the spare words and has a new `stamp` and `label`.
    ///
    /// # Errors
    /// The errors of [`Nand::read`], [`Nand::submit_program`] and [`Nand::finish_program`].
    ///
    /// # Panics
    /// If `from` and `to` are not in the same plane.
    pub async fn copyback(
        &self,
        from: (BlockId, u32),
        to: (BlockId, u32),
        stamp: u64,
        label: u64,
    ) -> Result<(), NandError> {
        assert_eq!(
            (from.0.die, from.0.plane),
            (to.0.die, to.0.plane),
            "a copyback stays in its plane"
        );
        let row = Row::single(from.0, from.1);
        let sense = self.begin_read(row, None, Priority::Normal, self.to_current());
        self.end_of(sense).await?;
        let Ticket(number) = self.submit_copy(from, to, stamp, label)?;
        self.queues.borrow_mut().operations[number as usize].keep_in_die();
        self.begin_program(number, self.to_current());
        self.end_of(number).await
    }

    fn submit_copy(
        &self,
        from: (BlockId, u32),
        to: (BlockId, u32),
        stamp: u64,
        label: u64,
    ) -> Result<Ticket, NandError> {
        let (mut words, mut payload) = (Vec::new(), Vec::new());
        for number in from.1..from.1 + self.geometry.pages_per_program {
            let media = self.media.borrow();
            let page = media.page(from.0, number).ok_or(NandError::Unreadable)?;
            words.extend(page.words());
            let sectors = 0..self.geometry.sectors_per_page();
            payload.extend(sectors.map(|s| media.payload(from.0, number, s)));
        }
        self.submit_program(Program {
            row: Row::single(to.0, to.1),
            stamp,
            label,
            words: &words,
            payload: &payload,
        })
    }

    /// The cells after a power cut at this instant.
    #[must_use]
    pub fn at_power_cut(&self) -> Media {
        let mut media = self.media.borrow().clone();
        let queues = self.queues.borrow();
        // The order does not matter: among unstarted programs of one block, the oldest one
        // determines how far the write pointer goes back.
        for (number, &Operation { row, doing, .. }) in (0..).zip(&queues.operations) {
            let begun = || queues.dies[row.die as usize].array.has_begun(number);
            match doing {
                Doing::Program { pages, .. } => cut_program(&mut media, row, pages, begun()),
                Doing::Erase if begun() => {
                    for block in row.blocks() {
                        if media.state(block) != BlockState::Bad {
                            media.half_erase(block);
                        }
                    }
                }
                _ => {}
            }
        }
        media
    }

    pub(crate) fn count(&self, add: impl FnOnce(&mut Counters)) {
        let mut counters = self.counters.get();
        add(&mut counters);
        self.counters.set(counters);
    }

    /// Draws a failure with a chance of `per_million`. A chance of zero draws no random number.
    fn draws(&self, per_million: u32) -> bool {
        per_million > 0
            && self
                .chance
                .borrow_mut()
                .chance(u64::from(per_million), 1_000_000)
    }
}

/// Applies a power cut to a program: a program that its die had begun leaves torn pages, any
/// other one leaves no trace.
fn cut_program(media: &mut Media, row: Row, pages: u32, begun: bool) {
    for block in row.blocks() {
        if begun {
            media.tear(block, row.page..row.page + pages);
        } else {
            media.unwrite(block, row.page);
        }
    }
}

/// A submitted program, to pass to [`Nand::finish_program`] or [`Nand::start_program`].
#[must_use = "a submitted program must take its time"]
#[derive(Debug)]
pub struct Ticket(u32);
