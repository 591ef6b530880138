//! The layer itself: the state that its tasks share, and the I/O primitives that move units.
//!
//! Invariants: state is never borrowed across an await; the semaphores are taken in the order
//! `cleaning`, `commits`, `paging`.

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

/// Most units of a command: 1 MiB, the most that Linux sends to a drive that reports no limit.
const COMMAND: usize = 256;

/// Mutable state of a mounted layer.
pub(crate) struct State {
    /// The open transaction, which collects the pairs of requests.
    pub(crate) open: Batch,
    /// The transaction that is being committed; empty between commits.
    pub(crate) closing: Batch,
    pub(crate) tables: Tables,
    pub(crate) space: Space,
    pub(crate) log: Log,
    pub(crate) metrics: Metrics,
    pub(crate) refusals: Refusals,
    /// Time of the last request, to find idle spans.
    pub(crate) asked: Ns,
    /// Time at which the open transaction got its first pair, or last became a remainder of a
    /// commit.
    pub(crate) since: Ns,
    /// Number of the open transaction within this mount; a commit that takes all of its pairs
    /// advances it.
    pub(crate) number: u64,
    /// Addresses that cannot be resolved, in a salvaged layer; none otherwise.
    pub(crate) lost: Lost,
}

/// Write position of the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Log {
    /// Block of the log area that the next transaction begins at.
    pub(crate) head: u32,
    /// Blocks written since the last checkpoint.
    pub(crate) used: u32,
    pub(crate) next_tx: u32,
    /// Sequence number of the last checkpoint.
    pub(crate) sequence: u64,
}

/// A mounted layer, shared by its requests and background tasks.
pub(crate) struct Shared<P> {
    pub(crate) sim: Sim,
    pub(crate) port: P,
    pub(crate) options: Options,
    pub(crate) layout: Super,
    pub(crate) sums: Sums,
    pub(crate) state: RefCell<State>,
    /// Serializes commits; held through a checkpoint too.
    pub(crate) commits: Semaphore,
    /// Serializes loads and writes of tables.
    pub(crate) paging: Semaphore,
    /// Serializes passes of cleaning.
    pub(crate) cleaning: Semaphore,
    /// Serializes writes of parts of a unit.
    pub(crate) partial: Semaphore,
    /// Notified when units become free, a transaction has room, or the layer fails.
    pub(crate) room: Signal,
    /// Whether a task runs that commits by age.
    pub(crate) timer: Cell<bool>,
    /// Whether a task of background cleaning runs.
    pub(crate) cleaner: Cell<bool>,
    /// First failed write of metadata; from then on the layer refuses writes.
    pub(crate) failed: Cell<Option<IoError>>,
    /// Last error of a background task.
    pub(crate) background: Cell<Option<IoError>>,
    pub(crate) closed: Cell<bool>,
}

/// A block port that remaps its addresses to those of the port below; clones share the layer.
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
    /// Newest mapping of `orig`: open transaction, closing transaction, then tables.
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

    /// First address behind the partition of `orig` if that partition maps nothing and no pair is
    /// pending.
    pub(crate) fn blank_until(&self, orig: u32) -> Option<u64> {
        let is_blank = self.open.is_empty()
            && self.closing.is_empty()
            && self.tables.is_blank(self.tables.partition_of(orig));
        is_blank.then(|| self.tables.end_of(orig))
    }

    /// Describes the shortage of a run of `asked` free units, for the refusals.
    pub(crate) fn no_run(&self, asked: u32) -> NoSpace {
        let (space, free) = (&self.space, u64::from(self.space.free.count()));
        let longest = space.free.longest().len() as u64;
        NoSpace::new(RUN, u64::from(asked), free, u64::from(space.free.units()))
            .keeping(free - longest)
            .held("data", u64::from(space.valid()))
            .held("what is not committed", u64::from(space.held()))
    }
}

/// Name of the limit that a write meets before it waits for cleaning. Free units outside the
/// longest run count as kept from the write.
pub(crate) const RUN: &str = "units in a run";

impl<P: BlockPort> Shared<P> {
    /// Tag of the layer's own I/O, for `purpose`.
    pub(crate) const fn who(&self, purpose: Purpose) -> Who {
        Who {
            origin: self.options.origin,
            purpose,
        }
    }

    /// Fails with the error that stopped the layer, if any.
    pub(crate) fn writable(&self) -> Result<(), IoError> {
        self.failed.get().map_or(Ok(()), Err)
    }

    /// Frees reserved units that no pair ever mapped.
    pub(crate) fn give_back(&self, units: impl IntoIterator<Item = u32>) {
        for unit in units {
            self.state.borrow_mut().space.give_back(unit);
        }
        self.room.notify(&self.sim);
    }

    /// Records that metadata could not be written: memory may be ahead of the medium, so the layer
    /// refuses writes from now on. Returns the first such error.
    pub(crate) fn fail(&self, error: IoError) -> IoError {
        let first = self.failed.get().unwrap_or(error);
        self.failed.set(Some(first));
        self.room.notify(&self.sim);
        first
    }

    /// Records the error of a background task.
    pub(crate) fn note_background(&self, error: IoError) {
        self.background.set(Some(error));
        self.state.borrow_mut().metrics.background_errors += 1;
    }

    /// Occupies a processor for `count` times `each`.
    pub(crate) async fn think(&self, each: Ns, count: u64) {
        let computing = self.port.compute(Ns(each.0 * count));
        computing.over(&self.sim).await;
    }

    /// Extent of `units` units from `unit` of the data area.
    pub(crate) const fn data(&self, unit: u32, units: u32) -> Extent {
        extent(self.layout.data + unit, units)
    }

    /// Reads `units` of the medium, which ascend, with one command for each run.
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

    /// Writes `units` of the medium, which ascend, with one command for each run.
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

/// Extent of `units` units from `unit` of the medium.
pub(crate) const fn extent(unit: u32, units: u32) -> Extent {
    Extent::new(unit as u64 * SECTORS, units * SECTORS as u32)
}

/// Splits `units` into runs of consecutive ones, each at most [`COMMAND`] long.
fn runs(units: &[u32]) -> impl Iterator<Item = &[u32]> {
    let together = units.chunk_by(|a, b| a + 1 == *b);
    together.flat_map(|run| run.chunks(COMMAND))
}

impl<P: BlockPort> Remap<P> {
    /// Counters since the mount, and gauges as of now.
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

    /// Limits that made writes wait for cleaning, with the holders of the units.
    #[must_use]
    pub fn refusals(&self) -> Refusals {
        self.shared.state.borrow().refusals.clone()
    }

    /// Clears the record of [`Self::refusals`].
    pub fn forget_refusals(&self) {
        self.shared.state.borrow_mut().refusals = Refusals::default();
    }

    /// Last error of background work: a unit that cleaning could not read, or a write that failed.
    /// Durable data are unaffected.
    #[must_use]
    pub fn background_error(&self) -> Option<IoError> {
        self.shared.background.get()
    }

    /// Bytes of memory that the loaded tables take, or would take as `variant`.
    #[must_use]
    pub fn table_bytes_as(&self, variant: crate::Variant) -> u64 {
        let state = self.shared.state.borrow();
        match self.shared.options.variant == variant {
            true => state.tables.memory(),
            false => state.tables.memory_as(variant),
        }
    }

    /// The port of the medium below.
    #[must_use]
    pub fn below(&self) -> &P {
        &self.shared.port
    }

    /// Checks the invariants: every unit is free, held or mapped by one address, as far as tables
    /// are loaded. Passes without a check while a commit is in progress.
    ///
    /// # Errors
    /// The first violation, in a sentence.
    pub fn check(&self) -> Result<(), String> {
        let state = self.shared.state.borrow();
        // A commit updates tables and units one after the other.
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

/// The layer offers no byte access: loads and stores below would bypass the mapping.
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

/// The layer does not swap pages.
impl<P: DrivePort> SwapPort for Remap<P> {}

/// The layer hides the zones of the drive.
impl<P: DrivePort> DrivePort for Remap<P> {
    type Zones = P::Zones;

    fn zones(&self) -> Option<P::Zones> {
        None
    }
}
