//! The raw port: the interface of an open-channel drive to a mapping held by the host.
//!
//! The drive reports its geometry and the state of its chunks, and its commands take lists
//! of addresses. Every acknowledged write is durable, so there is no flush.
//!
//! Invariant: two writes to a chunk arrive at the drive in order only if the host waits for
//! the completion of the first before it sends the second.

use crate::cores::Computing;
use crate::device::control;
use crate::ledger::Who;
use crate::{BlockDevice, QueuePair};
use nand::{Payload, UNIT};
use ssd::{
    Cause, ChunkInfo, ChunkNotice, Chunks, META, Mark, Meta, Ppa, RawBlock, RawError, RawGeometry,
    ReadCause,
};
use units::{Extent, Ns, SECTOR};

/// Cause and owner of the write of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawMark {
    /// Cause of the write: the host's data, or a task of the mapping.
    pub cause: Cause,
    /// Origin and purpose under which a host write is booked.
    pub who: Who,
}

/// An open-channel drive: chunks of physical blocks without a mapping.
#[allow(async_fn_in_trait, reason = "a simulation is one thread")]
pub trait RawPort: Clone + 'static {
    /// Geometry of the drive.
    fn geometry(&self) -> RawGeometry;

    /// Descriptors of `count` chunks from number `first` on.
    ///
    /// # Errors
    /// The status of the drive.
    async fn report(&self, first: u32, count: u32) -> Result<Vec<ChunkInfo>, RawError>;

    /// Reads up to 64 blocks for `cause`. The ledger counts only reads of cause
    /// [`ReadCause::Host`].
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

    /// Resets the chunks that contain the blocks `at`.
    ///
    /// # Errors
    /// The status of the drive.
    async fn reset(&self, at: &[Ppa]) -> Result<(), RawError>;

    /// Notifications about chunks since the last call. The drive sends them as asynchronous
    /// events, so the call does not wait.
    fn notices(&self) -> Vec<ChunkNotice>;

    /// Contents of a block, at once and without cost, for oracles; None if unreadable.
    fn peek(&self, at: Ppa) -> Option<RawBlock>;

    /// Requests `span` of processor time of the current task's core.
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
    /// The raw port of the drive behind `device`; None if the drive maps addresses itself.
    #[must_use]
    pub fn new(device: &BlockDevice) -> Option<Self> {
        let chunks = device.drive().chunks()?.clone();
        Some(Self {
            device: device.clone(),
            chunks,
        })
    }

    /// The block device with the queues and the drive.
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

/// Bytes of a list of addresses; a single address is part of the command.
const fn list(at: &[Ppa]) -> u64 {
    match at.len() {
        0 | 1 => 0,
        count => count as u64 * ADDRESS,
    }
}

/// Sectors of as many blocks as `at` has. Physical addresses have no place among the sectors.
fn pages(at: &[Ppa]) -> Extent {
    Extent::new(0, at.len() as u32 * (UNIT as u64 / SECTOR) as u32)
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
        let tracing = queue.arrive(control("chunk report"), 0).await;
        let report = self.chunks.report(first, count).await;
        let told = report.as_ref().map_or(0, Vec::len) as u64;
        queue
            .leave(tracing, told * DESCRIPTOR, report.is_ok())
            .await;
        report
    }

    async fn read(
        &self,
        at: &[Ppa],
        cause: ReadCause,
        who: Who,
    ) -> Result<Vec<RawBlock>, RawError> {
        let queue = self.here();
        let named = ("vector read", pages(at), who);
        let tracing = queue.arrive(named, list(at)).await;
        let read = self.chunks.read(at, cause).await;
        let count = read.as_ref().map_or(0, Vec::len) as u64;
        queue.leave(tracing, count * BLOCK, read.is_ok()).await;
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
        let who = marks.first().map_or_else(Who::default, |mark| mark.who);
        let named = ("vector write", pages(at), who);
        let bytes = list(at) + at.len() as u64 * BLOCK;
        let tracing = queue.arrive(named, bytes).await;
        let written = self.chunks.write(at, payload, meta, &of_drive(marks)).await;
        queue.leave(tracing, 0, written.is_ok()).await;
        if written.is_ok() {
            self.wrote(marks);
        }
        written
    }

    async fn copy(&self, from: &[Ppa], to: &[Ppa], marks: &[RawMark]) -> Result<(), RawError> {
        let queue = self.here();
        let named = ("vector copy", pages(to), Who::default());
        let tracing = queue.arrive(named, list(from) + list(to)).await;
        let copied = self.chunks.copy(from, to, &of_drive(marks)).await;
        queue.leave(tracing, 0, copied.is_ok()).await;
        copied
    }

    async fn reset(&self, at: &[Ppa]) -> Result<(), RawError> {
        let queue = self.here();
        let tracing = queue.arrive(control("chunk reset"), list(at)).await;
        let reset = self.chunks.reset(at).await;
        queue.leave(tracing, 0, reset.is_ok()).await;
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
