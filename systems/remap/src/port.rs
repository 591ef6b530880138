//! The layer itself: what its tasks share, and the few ways in which it moves units.
//!
//! Invariants: state is borrowed between two awaits and never across one; of the three
//! orders (transactions, tables, cleaning) cleaning is taken before transactions, and
//! transactions before tables.

use crate::batch::Batch;
use crate::config::Options;
use crate::format::{Sums, Super};
use crate::layout::SECTORS;
use crate::metrics::Metrics;
use crate::salvage::Lost;
use crate::space::Space;
use crate::tables::{Look, Tables};
use host::{BlockPort, BytePort, Computing, DrivePort, Purpose, SwapPort, Who};
use nand::Payload;
use sim::{Semaphore, Signal, Sim};
use ssd::{ByteError, Content, IoError, Sink};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use units::{Bytes, Extent, NoSpace, Ns, Placement, Refusals};

/// Most units of a command: 1 MiB, as Linux sends at most to a drive that names no limit.
const COMMAND: usize = 256;

/// What changes.
pub(crate) struct State {
    /// The transaction that requests write to.
    pub(crate) open: Batch,
    /// The one that is being committed.
    pub(crate) closing: Batch,
    pub(crate) tables: Tables,
    pub(crate) space: Space,
    pub(crate) log: Log,
    pub(crate) metrics: Metrics,
    pub(crate) refusals: Refusals,
    /// When somebody asked for something last.
    pub(crate) asked: Ns,
    /// Since when the open transaction has pairs.
    pub(crate) since: Ns,
    /// Number of the open transaction, in this mount.
    pub(crate) number: u64,
    /// What cannot be read, of a layer that was salvaged.
    pub(crate) lost: Lost,
}

/// Where the log goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Log {
    /// Block of the log area.
    pub(crate) head: u32,
    /// Blocks since the last checkpoint.
    pub(crate) used: u32,
    pub(crate) next_tx: u32,
    /// Number of the last checkpoint.
    pub(crate) sequence: u64,
}

/// What all tasks share.
pub(crate) struct Shared<P> {
    pub(crate) sim: Sim,
    pub(crate) port: P,
    pub(crate) options: Options,
    pub(crate) layout: Super,
    pub(crate) sums: Sums,
    pub(crate) state: RefCell<State>,
    /// One transaction after the other.
    pub(crate) commits: Semaphore,
    /// One table after the other.
    pub(crate) paging: Semaphore,
    /// One pass of cleaning after the other.
    pub(crate) cleaning: Semaphore,
    /// One write of a part of a unit after the other.
    pub(crate) partial: Semaphore,
    /// Units became free, or a transaction has room.
    pub(crate) room: Signal,
    /// Whether a task waits to commit what is old.
    pub(crate) timer: Cell<bool>,
    /// Whether a task cleans in the background.
    pub(crate) cleaner: Cell<bool>,
    /// Why nothing is written any more.
    pub(crate) failed: Cell<Option<IoError>>,
    /// The last error of work that nobody waits for.
    pub(crate) background: Cell<Option<IoError>>,
    pub(crate) closed: Cell<bool>,
}

/// A port whose addresses are remapped to those of a port below.
pub struct Remap<P> {
    pub(crate) shared: Rc<Shared<P>>,
}

impl<P> Clone for Remap<P> {
    fn clone(&self) -> Self {
        Self {
            shared: Rc::clone(&self.shared),
        }
    }
}

impl State {
    /// Where `orig` leads to, committed or not.
    #[inline]
    pub(crate) fn newest(&mut self, orig: u32) -> Look {
        let pending = self.open.get(orig).or_else(|| self.closing.get(orig));
        match pending {
            Some(crate::format::NONE) => Look::At(None),
            Some(trans) => Look::At(Some(trans)),
            None if self.lost.has(orig) => Look::Lost,
            None => self.tables.look(orig),
        }
    }

    /// The first address behind the partition of `orig`, if nothing in that is mapped.
    pub(crate) fn blank_until(&self, orig: u32) -> Option<u64> {
        let is_blank = self.open.is_empty()
            && self.closing.is_empty()
            && self.tables.is_blank(self.tables.partition_of(orig));
        is_blank.then(|| self.tables.end_of(orig))
    }

    /// Why there is no run of so many free units.
    pub(crate) fn no_run(&self, asked: u32) -> NoSpace {
        let (space, free) = (&self.space, u64::from(self.space.free.count()));
        let longest = space.free.longest().len() as u64;
        NoSpace::new(RUN, u64::from(asked), free, u64::from(space.free.units()))
            .keeping(free - longest)
            .held("data", u64::from(space.valid()))
            .held("what is not committed", u64::from(space.held()))
    }
}

/// The limit that writes meet which wait for cleaning: what is free and not in the longest
/// run counts as kept from them.
pub(crate) const RUN: &str = "units in a run";

impl<P: BlockPort> Shared<P> {
    /// Who moves units, for this purpose.
    pub(crate) const fn who(&self, purpose: Purpose) -> Who {
        Who {
            origin: self.options.origin,
            purpose,
        }
    }

    /// Whether writes are still taken.
    pub(crate) fn writable(&self) -> Result<(), IoError> {
        self.failed.get().map_or(Ok(()), Err)
    }

    /// Gives back units that nothing ever led to.
    pub(crate) fn give_back(&self, units: impl IntoIterator<Item = u32>) {
        for unit in units {
            self.state.borrow_mut().space.give_back(unit);
        }
        self.room.notify(&self.sim);
    }

    /// Takes note of a failure after which the medium is no longer what memory says.
    pub(crate) fn fail(&self, error: IoError) -> IoError {
        let first = self.failed.get().unwrap_or(error);
        self.failed.set(Some(first));
        self.room.notify(&self.sim);
        first
    }

    /// Takes note of an error of work that nobody waits for.
    pub(crate) fn note_background(&self, error: IoError) {
        self.background.set(Some(error));
        self.state.borrow_mut().metrics.background_errors += 1;
    }

    /// Takes `count` times a span of a processor.
    pub(crate) async fn think(&self, each: Ns, count: u64) {
        let computing = self.port.compute(Ns(each.0 * count));
        computing.over(&self.sim).await;
    }

    /// The sectors of units of the data area.
    pub(crate) const fn data(&self, unit: u32, units: u32) -> Extent {
        extent(self.layout.data + unit, units)
    }

    /// Reads units of the medium, which ascend.
    pub(crate) async fn read_units(
        &self,
        units: &[u32],
        purpose: Purpose,
    ) -> Result<Vec<Payload>, IoError> {
        let mut payloads = vec![Payload::Zero; units.len()];
        let (mut reads, mut left) = (Vec::new(), &mut payloads[..]);
        for run in runs(units) {
            let (own, rest) = left.split_at_mut(run.len());
            left = rest;
            let (at, who) = (extent(run[0], run.len() as u32), self.who(purpose));
            reads.push(async move {
                let mut own = own;
                self.port.read(at, &mut own, who).await
            });
        }
        sim::join_all(reads)
            .await
            .into_iter()
            .collect::<Result<(), _>>()?;
        Ok(payloads)
    }

    /// Writes units of the medium, which ascend.
    pub(crate) async fn write_units(
        &self,
        units: &[u32],
        payloads: &[Payload],
        purpose: Purpose,
        fua: bool,
    ) -> Result<(), IoError> {
        let (mut writes, mut left) = (Vec::new(), payloads);
        for run in runs(units) {
            let (own, rest) = left.split_at(run.len());
            left = rest;
            let (at, who) = (extent(run[0], run.len() as u32), self.who(purpose));
            let content = Content::Sectors(own);
            writes.push(self.port.write(at, content, Placement(0), who, fua));
        }
        sim::join_all(writes).await.into_iter().collect()
    }
}

/// The sectors of units of the medium.
pub(crate) const fn extent(unit: u32, units: u32) -> Extent {
    Extent::new(unit as u64 * SECTORS, units * SECTORS as u32)
}

/// Units that follow each other, as many at a time as a command takes.
fn runs(units: &[u32]) -> impl Iterator<Item = &[u32]> {
    let together = units.chunk_by(|a, b| a + 1 == *b);
    together.flat_map(|run| run.chunks(COMMAND))
}

impl<P: BlockPort> Remap<P> {
    /// What was counted since the mount.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let state = self.shared.state.borrow();
        Metrics {
            entries: state.tables.entries(),
            variant: self.shared.options.variant,
            table_bytes: state.tables.memory(),
            physical_bytes: state.space.memory(),
            ..state.metrics
        }
    }

    /// Limits that writes have met, and who held them.
    #[must_use]
    pub fn refusals(&self) -> Refusals {
        self.shared.state.borrow().refusals.clone()
    }

    /// Forgets the limits that writes have met so far.
    pub fn forget_refusals(&self) {
        self.shared.state.borrow_mut().refusals = Refusals::default();
    }

    /// The last error of work that nobody waited for: cleaning that met a unit which cannot
    /// be read, or anything that could not be written. What was durable stays where it is.
    #[must_use]
    pub fn background_error(&self) -> Option<IoError> {
        self.shared.background.get()
    }

    /// Bytes of the tables in memory, were they kept as `variant`.
    #[must_use]
    pub fn table_bytes_as(&self, variant: crate::Variant) -> u64 {
        let state = self.shared.state.borrow();
        match self.shared.options.variant == variant {
            true => state.tables.memory(),
            false => state.tables.memory_as(variant),
        }
    }

    /// The port below.
    #[must_use]
    pub fn below(&self) -> &P {
        &self.shared.port
    }

    /// What of the invariants does not hold: every unit is free, held or mapped to by one
    /// address, as far as tables are in memory.
    ///
    /// # Errors
    /// What is wrong, in a sentence.
    pub fn check(&self) -> Result<(), String> {
        let state = self.shared.state.borrow();
        // While a commit is under way tables and units change one after the other.
        match self.shared.commits.free() {
            0 => Ok(()),
            _ => {
                let (all, whole) = state.tables.all();
                state.space.check(all, whole)
            }
        }
    }
}

impl<P: BlockPort> BlockPort for Remap<P> {
    fn capacity(&self) -> Bytes {
        Bytes(u64::from(self.shared.layout.logical) * nand::UNIT as u64)
    }

    fn handles(&self) -> u16 {
        self.shared.port.handles()
    }

    async fn read(&self, extent: Extent, sink: &mut impl Sink, who: Who) -> Result<(), IoError> {
        self.shared.read(extent, sink, who).await
    }

    async fn write(
        &self,
        extent: Extent,
        content: Content<'_>,
        placement: Placement,
        who: Who,
        fua: bool,
    ) -> Result<(), IoError> {
        self.write(extent, content, (placement, who), fua).await
    }

    async fn trim(&self, extent: Extent) -> Result<(), IoError> {
        self.discard(extent).await
    }

    async fn flush(&self) -> Result<(), IoError> {
        self.shared.commit().await
    }

    fn compute(&self, span: Ns) -> Computing {
        self.shared.port.compute(span)
    }
}

/// The layer has no bytes: what is by lines would go past it.
impl<P: DrivePort> BytePort for Remap<P> {
    fn has_transactions(&self) -> bool {
        false
    }

    fn transaction_lines(&self) -> u64 {
        0
    }

    async fn load(&self, _: u64, _: &mut [u8], _: Who) -> Result<(), ByteError> {
        Err(ByteError::NoBytes)
    }

    async fn store(&self, _: u64, _: &[u8], _: u32, _: Who) -> Result<(), ByteError> {
        Err(ByteError::NoBytes)
    }

    async fn verify(&self) -> Result<(), ByteError> {
        Err(ByteError::NoBytes)
    }

    async fn commit(&self, _: u32) -> Result<(), ByteError> {
        Err(ByteError::NoTransactions)
    }

    async fn recover(&self) -> Result<(), ByteError> {
        Err(ByteError::NoBytes)
    }
}

/// Nor does it swap pages.
impl<P: DrivePort> SwapPort for Remap<P> {}

/// Nor has it zones.
impl<P: DrivePort> DrivePort for Remap<P> {
    type Zones = P::Zones;

    fn zones(&self) -> Option<P::Zones> {
        None
    }
}
