//! The raw port: what a mapping asks for that the host holds.
//!
//! The drive tells its shape and the state of its chunks, and takes lists of addresses.
//! Whatever it acknowledges is durable: there is nothing to flush.
//!
//! Invariant: of two writes to a chunk that a host sends one after the other the first
//! comes to the drive first only if it waits for its answer.

use crate::cores::Computing;
use crate::ledger::Who;
use crate::{BlockDevice, QueuePair};
use nand::{Payload, UNIT};
use ssd::{
    Cause, ChunkInfo, ChunkNotice, Chunks, META, Mark, Meta, Ppa, RawBlock, RawError, RawGeometry,
    ReadCause,
};
use units::Ns;

/// For whom and why a block is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawMark {
    /// Why.
    pub cause: Cause,
    /// For whom.
    pub who: Who,
}

/// An open-channel drive.
#[allow(async_fn_in_trait, reason = "a simulation is one thread")]
pub trait RawPort: Clone + 'static {
    /// Its shape.
    fn geometry(&self) -> RawGeometry;

    /// Descriptors of `count` chunks from number `first` on.
    ///
    /// # Errors
    /// The status of the drive.
    async fn report(&self, first: u32, count: u32) -> Result<Vec<ChunkInfo>, RawError>;

    /// Reads up to 64 blocks for `cause`; of the host's own reads, for `who`.
    ///
    /// # Errors
    /// The status of the drive.
    async fn read(&self, at: &[Ppa], cause: ReadCause, who: Who)
    -> Result<Vec<RawBlock>, RawError>;

    /// Writes up to 64 blocks with their metadata; see [`Chunks::write`].
    ///
    /// # Errors
    /// The status of the drive.
    async fn write(
        &self,
        at: &[Ppa],
        payload: &[Payload],
        meta: &[Meta],
        marks: &[RawMark],
    ) -> Result<(), RawError>;

    /// Copies blocks inside the drive; see [`Chunks::copy`].
    ///
    /// # Errors
    /// The status of the drive.
    async fn copy(&self, from: &[Ppa], to: &[Ppa], marks: &[RawMark]) -> Result<(), RawError>;

    /// Resets the chunks of these blocks.
    ///
    /// # Errors
    /// The status of the drive.
    async fn reset(&self, at: &[Ppa]) -> Result<(), RawError>;

    /// Notifications of chunks since the last call. They come with events that the drive
    /// sends of its own accord: nobody waits for them.
    fn notices(&self) -> Vec<ChunkNotice>;

    /// What a block holds, at once and without cost; none if it cannot be read. For oracles.
    fn peek(&self, at: Ppa) -> Option<RawBlock>;

    /// Keeps the core of the current task busy for `span`.
    fn compute(&self, span: Ns) -> Computing;
}

/// An open-channel drive behind queues, link and cores.
#[derive(Clone)]
pub struct RawDevice {
    device: BlockDevice,
    chunks: Chunks,
}

/// Bytes of an address in a list, which the drive fetches like data.
//= ocssd-2.0 3.1
const ADDRESS: u64 = 8;
/// Bytes of the descriptor of a chunk.
//= ocssd-2.0 2.2
const DESCRIPTOR: u64 = 32;
/// Bytes of a block with its metadata.
const BLOCK: u64 = (UNIT + META) as u64;

impl RawDevice {
    /// The chunks of the drive behind `device`; none if it maps addresses itself.
    #[must_use]
    pub fn new(device: &BlockDevice) -> Option<Self> {
        let chunks = device.drive().chunks()?.clone();
        Some(Self {
            device: device.clone(),
            chunks,
        })
    }

    /// The drive with its queues.
    #[must_use]
    pub fn device(&self) -> &BlockDevice {
        &self.device
    }

    fn here(&self) -> QueuePair {
        self.device.here()
    }

    fn wrote(&self, marks: &[RawMark]) {
        let mut ledger = self.device.shared.ledger.borrow_mut();
        for mark in marks.iter().filter(|mark| mark.cause == Cause::Host) {
            ledger.book(mark.who, |traffic| traffic.write.block += UNIT as u64);
        }
    }
}

/// Bytes of a list of addresses; a single one is in the command.
const fn list(at: &[Ppa]) -> u64 {
    match at.len() {
        0 | 1 => 0,
        count => count as u64 * ADDRESS,
    }
}

fn of_drive(marks: &[RawMark]) -> Vec<Mark> {
    let marks = marks.iter().map(|mark| Mark {
        cause: mark.cause,
        origin: mark.who.origin,
    });
    marks.collect()
}

impl RawPort for RawDevice {
    fn geometry(&self) -> RawGeometry {
        self.chunks.geometry()
    }

    async fn report(&self, first: u32, count: u32) -> Result<Vec<ChunkInfo>, RawError> {
        let queue = self.here();
        queue.submit(0).await;
        let report = self.chunks.report(first, count).await;
        let told = report.as_ref().map_or(0, Vec::len) as u64;
        queue.complete(told * DESCRIPTOR).await;
        report
    }

    async fn read(
        &self,
        at: &[Ppa],
        cause: ReadCause,
        who: Who,
    ) -> Result<Vec<RawBlock>, RawError> {
        let queue = self.here();
        queue.submit(list(at)).await;
        let read = self.chunks.read(at, cause).await;
        let count = read.as_ref().map_or(0, Vec::len) as u64;
        queue.complete(count * BLOCK).await;
        if cause == ReadCause::Host {
            let mut ledger = self.device.shared.ledger.borrow_mut();
            ledger.book(who, |traffic| traffic.read.block += count * UNIT as u64);
        }
        read
    }

    async fn write(
        &self,
        at: &[Ppa],
        payload: &[Payload],
        meta: &[Meta],
        marks: &[RawMark],
    ) -> Result<(), RawError> {
        let queue = self.here();
        queue.submit(list(at) + at.len() as u64 * BLOCK).await;
        let written = self.chunks.write(at, payload, meta, &of_drive(marks)).await;
        queue.complete(0).await;
        if written.is_ok() {
            self.wrote(marks);
        }
        written
    }

    async fn copy(&self, from: &[Ppa], to: &[Ppa], marks: &[RawMark]) -> Result<(), RawError> {
        let queue = self.here();
        queue.submit(list(from) + list(to)).await;
        let copied = self.chunks.copy(from, to, &of_drive(marks)).await;
        queue.complete(0).await;
        copied
    }

    async fn reset(&self, at: &[Ppa]) -> Result<(), RawError> {
        let queue = self.here();
        queue.submit(list(at)).await;
        let reset = self.chunks.reset(at).await;
        queue.complete(0).await;
        reset
    }

    fn notices(&self) -> Vec<ChunkNotice> {
        self.chunks.take_notices()
    }

    fn peek(&self, at: Ppa) -> Option<RawBlock> {
        self.chunks.peek(at)
    }

    fn compute(&self, span: Ns) -> Computing {
        self.device.occupy(self.device.current(), span)
    }
}
