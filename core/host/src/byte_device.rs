//! A drive that is mapped into memory: loads, posted stores, and commands of vendors.
//!
//! A store leaves the processor and is on its way; nothing tells when it has arrived.
//! Whatever the drive has to answer, a load or a command, comes in behind the stores
//! before it and so pushes them on.
//!
//! # Invariants
//!
//! - Stores arrive in the order in which they were posted, and before anything that
//!   was asked of the drive later.
//! - A store that is still on its way is in the queue: a power cut keeps any of its
//!   lines, and loses the others.
//! - A store is refused at once for what is on its way, as for what has arrived: a line
//!   of another open transaction, or more lines than transactions may have.
//! - A store that the drive refuses when it arrives is told by every verification from
//!   then on, since nobody knows whose it was.
//! - What arrived as the power went is in memory that a battery keeps: no later cut
//!   loses it.
//!
//! The processor stands still while it loads or stores; that the flash may have to be
//! read for a load keeps the task waiting, and leaves the core to others.

use crate::bytes::BytePort;
use crate::config::HostConfig;
use crate::device::{BlockDevice, Shared};
use crate::ledger::Who;
use crate::link::Direction;
use sim::{Rng, Semaphore, Sim};
use ssd::front::RecoveryReport;
use ssd::wlog::{LINE, LINES, StoreError};
use ssd::{ByteError, Drive};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use units::{Ns, Origin};

/// Lines on their way to a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posted {
    at: u64,
    bytes: Box<[u8]>,
    tx: u32,
    origin: Origin,
}

impl Posted {
    const fn lines(&self) -> usize {
        self.bytes.len() / LINE
    }

    /// One past its last byte.
    const fn end(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }

    /// Each line for itself.
    fn each(&self) -> impl Iterator<Item = Self> {
        let lines = (0..).step_by(LINE).zip(self.bytes.chunks_exact(LINE));
        lines.map(|(offset, bytes)| Self {
            at: self.at + offset,
            bytes: bytes.into(),
            tx: self.tx,
            origin: self.origin,
        })
    }
}

/// What is on its way.
pub(crate) struct Posting {
    queue: RefCell<VecDeque<Posted>>,
    /// Lines in the queue.
    lines: Cell<usize>,
    /// Who lets it arrive.
    gate: Semaphore,
    /// What the drive said of the first store that it refused.
    failure: Cell<Option<ByteError>>,
    /// Entries at the head of the queue that arrived as the power went.
    arrived: Cell<usize>,
    /// They wait until the drive has recovered.
    held: Cell<bool>,
    /// The drive is taking in the head of the queue, and counts its lines.
    storing: Cell<bool>,
}

impl Posting {
    pub(crate) fn new(sim: &Sim, arrived: Vec<Posted>) -> Self {
        Self {
            lines: Cell::new(arrived.iter().map(Posted::lines).sum()),
            arrived: Cell::new(arrived.len()),
            held: Cell::new(false),
            storing: Cell::new(false),
            queue: RefCell::new(arrived.into()),
            gate: Semaphore::new(sim, 1),
            failure: Cell::new(None),
        }
    }

    /// Whether nothing is on its way that could arrive.
    #[inline]
    pub(crate) fn is_at_rest(&self) -> bool {
        self.lines.get() == 0 || self.held.get()
    }

    fn push(&self, posted: Posted) {
        self.lines.set(self.lines.get() + posted.lines());
        self.queue.borrow_mut().push_back(posted);
    }

    fn pop(&self) {
        if let Some(posted) = self.queue.borrow_mut().pop_front() {
            self.lines.set(self.lines.get() - posted.lines());
            self.arrived.set(self.arrived.get().saturating_sub(1));
        }
    }

    /// Whether nothing on its way has lines that transaction `tx` may not write.
    fn check(&self, at: u64, end: u64, tx: u32) -> Result<(), StoreError> {
        let queue = self.queue.borrow();
        let mut others = queue.iter().filter(|p| p.tx != tx && p.tx != 0);
        let found = others.find(|p| p.at < end && at < p.end());
        let Some(posted) = found else { return Ok(()) };
        let line = posted.at.max(at) / LINE as u64;
        Err(StoreError::Locked {
            page: (line / u64::from(LINES)) as u32,
            line: (line % u64::from(LINES)) as u8,
            by: posted.tx,
        })
    }

    /// Lines of transactions that the drive has not counted.
    fn open_lines(&self) -> u32 {
        let queue = self.queue.borrow();
        let later = queue.iter().skip(usize::from(self.storing.get()));
        let open = later.filter(|p| p.tx != 0).map(Posted::lines);
        open.sum::<usize>() as u32
    }

    /// Lets everything arrive that was posted so far.
    pub(crate) async fn arrive(&self, drive: &Drive) {
        let _gate = self.gate.acquire(1).await;
        loop {
            // It stays in the queue while the drive makes room: until it has been
            // taken in, a cut may lose it.
            let next = self.queue.borrow().front().cloned();
            let Some(Posted {
                at,
                bytes,
                tx,
                origin,
            }) = next
            else {
                return;
            };
            self.storing.set(true);
            if let Err(error) = drive.store(at, &bytes, tx, origin).await {
                self.failure.set(self.failure.get().or(Some(error)));
            }
            self.storing.set(false);
            self.pop();
        }
    }
}

impl Shared {
    /// Lets what was posted arrive, if anything was.
    #[inline]
    pub(crate) async fn push_posted(&self) {
        if !self.posting.is_at_rest() {
            Box::pin(self.posting.arrive(&self.drive)).await;
        }
    }
}

impl BlockDevice {
    /// Attaches `drive`, whose power was cut, to a host: of the stores that were on
    /// their way then, `arrived` did arrive. They are seen once the drive has
    /// recovered what its log had.
    ///
    /// # Errors
    /// If the host cannot be.
    pub fn after_cut(
        sim: &Sim,
        config: HostConfig,
        drive: Drive,
        arrived: Vec<Posted>,
    ) -> Result<Self, crate::HostError> {
        let held = !arrived.is_empty() && drive.must_recover();
        let posting = Posting::new(sim, arrived);
        posting.held.set(held);
        Self::with_posting(sim, config, drive, posting)
    }

    /// Of the stores that are on their way, those that arrive as the power is cut now:
    /// any line may, and `rng` says which; what arrived at an earlier cut has. Lines of
    /// transactions are left out, as a commit pushes on what is on its way: theirs have
    /// not committed, and recovery drops them.
    #[must_use]
    pub fn arriving(&self, rng: &mut Rng) -> Vec<Posted> {
        let posting = &self.shared.posting;
        let (queue, arrived) = (posting.queue.borrow(), posting.arrived.get());
        let counting = queue.iter().skip(arrived).filter(|posted| posted.tx == 0);
        let lines = counting.flat_map(Posted::each);
        let lines = lines.filter(|_| rng.chance(1, 2));
        queue.iter().take(arrived).cloned().chain(lines).collect()
    }

    /// Whether stores are on their way to the drive.
    #[must_use]
    pub fn has_posted(&self) -> bool {
        self.shared.posting.lines.get() > 0
    }

    /// Keeps the core of the current task busy with `lines` accesses of `span` each,
    /// whose bytes go `way`.
    async fn access(&self, lines: u64, span: Ns, way: Direction) {
        let Shared {
            sim, config, cores, ..
        } = &*self.shared;
        let link = match way {
            Direction::ToDrive => &self.shared.to_drive,
            Direction::ToHost => &self.shared.to_host,
        };
        let packet = config.link.transfer(LINE as u64, way);
        let _ = link.reserve(sim.now(), Ns(packet.0 * lines));
        let core = self.current() % config.queues.pairs as usize % cores.len();
        cores[core].serve(sim, Ns(span.0 * lines)).await;
    }

    /// Has the drive recover, as [`BytePort::recover`] does, and gives what it did.
    ///
    /// # Errors
    /// As there.
    pub async fn recover_bytes(&self) -> Result<RecoveryReport, ByteError> {
        let queue = self.here();
        queue.submit(0).await;
        let recovered = self.shared.drive.recover().await;
        queue.complete(0).await;
        self.shared.posting.held.set(false);
        self.shared.push_posted().await;
        recovered
    }
}

impl BytePort for BlockDevice {
    fn has_transactions(&self) -> bool {
        self.shared.drive.has_transactions()
    }

    fn transaction_lines(&self) -> u64 {
        self.shared.drive.transaction_lines()
    }

    async fn load(&self, at: u64, out: &mut [u8], who: Who) -> Result<(), ByteError> {
        let len = out.len() as u64;
        self.shared.push_posted().await;
        let span = self.shared.config.bytes.load;
        self.access(len / LINE as u64, span, Direction::ToHost)
            .await;
        self.shared.drive.load(at, out).await?;
        let ledger = &self.shared.ledger;
        ledger.borrow_mut().book(who, |t| t.read.byte += len);
        Ok(())
    }

    async fn store(&self, at: u64, bytes: &[u8], tx: u32, who: Who) -> Result<(), ByteError> {
        let len = bytes.len() as u64;
        let shared = &self.shared;
        let (span, most) = (shared.config.bytes.store, shared.config.bytes.posted);
        let lines = len / LINE as u64;
        self.access(lines, span, Direction::ToDrive).await;
        // Others may have stored while the core was busy.
        let waiting = shared.posting.open_lines();
        shared.drive.check_store(at, len, tx, waiting)?;
        shared.posting.check(at, at + len, tx)?;
        shared.posting.push(Posted {
            at,
            bytes: bytes.into(),
            tx,
            origin: who.origin,
        });
        if shared.posting.lines.get() > most as usize {
            shared.push_posted().await;
        }
        let ledger = &shared.ledger;
        ledger.borrow_mut().book(who, |t| t.write.byte += len);
        Ok(())
    }

    async fn verify(&self) -> Result<(), ByteError> {
        self.shared.push_posted().await;
        let span = self.shared.config.bytes.load;
        self.access(1, span, Direction::ToHost).await;
        self.shared.posting.failure.get().map_or(Ok(()), Err)
    }

    async fn commit(&self, tx: u32) -> Result<(), ByteError> {
        let queue = self.here();
        queue.submit(0).await;
        let committed = self.shared.drive.commit(tx).await;
        queue.complete(0).await;
        committed
    }

    async fn recover(&self) -> Result<(), ByteError> {
        self.recover_bytes().await.map(drop)
    }
}
