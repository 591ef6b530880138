//! A memory-mapped drive: loads, posted stores, and vendor-specific commands.
//!
//! A store leaves the processor as a posted write, and no signal reports its arrival.
//! A load or a command that the drive must answer arrives behind the earlier stores and
//! so forces their arrival.
//!
//! # Invariants
//!
//! - Stores arrive in the order in which they were posted, and before every later
//!   request to the drive. A load or a command waits for the stores before it, and for
//!   none that other tasks post meanwhile.
//! - The queue holds every store that has not arrived: a power cut keeps any of the
//!   store's lines, and loses the others.
//! - A store is checked at once against stores in flight as well as stores that have
//!   arrived. It is rejected for a line of another open transaction, or for more lines
//!   than transactions may have.
//! - Lines that arrived at a power cut are in memory with a battery: no later cut loses
//!   them, and later requests to the drive are newer. A drive whose battery does not keep
//!   lines loses all stores in flight, and a verification flushes it.
//! - A packet waits for its turn on the link. The idle cost of a load or store includes
//!   its own packets, so an idle link adds nothing.
//! - The core of a task is held while the task loads or verifies, from DRAM or from
//!   flash, and while it stores or waits for stores to arrive: to the processor a load
//!   is one instruction. A command waits for earlier stores without holding a core.
//!   `skybyte` 3.1 adds a switch to another task to this model.
//!
//! # Stores that the drive rejects on arrival
//!
//! No task waits for a posted store, so none can receive its error. A device sets a
//! sticky error bit instead, which does not identify the store or its task: from then on
//! every verification, by any task, fails with the first such error, until the drive has
//! recovered or was powered off.

use crate::bytes::BytePort;
use crate::config::HostConfig;
use crate::cores::Core;
use crate::device::{BlockDevice, Shared, control};
use crate::ledger::Who;
use sim::{Rng, Signal, Sim, Timeline};
use ssd::front::RecoveryReport;
use ssd::wlog::{LINE, LINES, StoreError};
use ssd::{ByteError, Drive};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use units::{Ns, Origin};

/// A posted store: adjacent cache lines in flight to a drive.
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

    /// Byte address one past the last line.
    const fn end(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }

    /// Splits the store into one store per line.
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

/// The posted stores in flight, in order, and the state of their arrival.
#[derive(Default)]
pub(crate) struct Posting {
    /// Stores in flight, each with the time at which it has crossed the link.
    queue: RefCell<VecDeque<(Ns, Posted)>>,
    /// Total number of lines in the queue.
    lines: Cell<usize>,
    /// Stores posted so far, and those of them that have left the queue.
    posted: Cell<u64>,
    taken: Cell<u64>,
    /// Whether a task is delivering the head of the queue to the drive.
    seen_to: Cell<bool>,
    /// Whether the drive is taking in the head of the queue; it then counts its lines itself.
    storing: Cell<bool>,
    /// Notified when the head has arrived, or its delivering task was dropped.
    progress: Signal,
    /// Time at which the drive has answered all stores that have arrived.
    answered: Cell<Ns>,
    /// Error of the first rejected store since the last recovery.
    failure: Cell<Option<ByteError>>,
    /// Number of stores that the drive has rejected on arrival.
    refused: Cell<u64>,
    /// Entries at the head of the queue that arrived at the last power cut.
    arrived: Cell<usize>,
}

/// Guard of the task that delivers the head of the queue. Its drop releases the head, also
/// if the task is dropped half way.
struct SeeingTo<'a> {
    posting: &'a Posting,
    sim: &'a Sim,
}

impl Drop for SeeingTo<'_> {
    fn drop(&mut self) {
        self.posting.storing.set(false);
        self.posting.seen_to.set(false);
        self.posting.progress.notify(self.sim);
    }
}

impl Posting {
    /// A queue of stores that arrived at a power cut and that the drive has not taken in.
    fn of_arrived(arrived: Vec<Posted>) -> Self {
        let posting = Self::default();
        posting.arrived.set(arrived.len());
        for posted in arrived {
            posting.push(Ns::ZERO, posted);
        }
        posting
    }

    /// Whether no store is in flight, and the drive has answered all earlier ones.
    #[inline]
    pub(crate) fn is_at_rest(&self, now: Ns) -> bool {
        self.lines.get() == 0 && self.answered.get() <= now
    }

    fn push(&self, crossed: Ns, posted: Posted) {
        self.lines.set(self.lines.get() + posted.lines());
        self.posted.set(self.posted.get() + 1);
        self.queue.borrow_mut().push_back((crossed, posted));
    }

    fn pop(&self) {
        if let Some((_, posted)) = self.queue.borrow_mut().pop_front() {
            self.lines.set(self.lines.get() - posted.lines());
            self.taken.set(self.taken.get() + 1);
            self.arrived.set(self.arrived.get().saturating_sub(1));
        }
    }

    /// Checks a store by `tx` to bytes `at..end` against the stores in flight.
    ///
    /// # Errors
    /// [`StoreError::Locked`] if another transaction has a line there in flight.
    fn check(&self, at: u64, end: u64, tx: u32) -> Result<(), StoreError> {
        let queue = self.queue.borrow();
        let queue = queue.iter().map(|(_, posted)| posted);
        let mut others = queue.filter(|p| p.tx != tx && p.tx != 0);
        let found = others.find(|p| p.at < end && at < p.end());
        let Some(posted) = found else { return Ok(()) };
        let line = posted.at.max(at) / LINE as u64;
        Err(StoreError::Locked {
            page: (line / u64::from(LINES)) as u32,
            line: (line % u64::from(LINES)) as u8,
            by: posted.tx,
        })
    }

    /// Lines of transactions in flight that the drive does not count yet.
    fn open_lines(&self) -> u32 {
        let queue = self.queue.borrow();
        let later = queue.iter().skip(usize::from(self.storing.get()));
        let open = later.filter(|(_, posted)| posted.tx != 0);
        open.map(|(_, posted)| posted.lines()).sum::<usize>() as u32
    }

    /// Waits until all stores posted so far have arrived and are answered; later ones stay
    /// in flight.
    pub(crate) async fn arrive(&self, sim: &Sim, drive: &Drive) {
        let last = self.posted.get();
        while self.taken.get() < last {
            if self.seen_to.get() {
                self.progress.wait(sim).await;
            } else {
                self.take_next(sim, drive).await;
            }
        }
        sim.sleep_until(self.answered.get()).await;
    }

    /// Delivers the head of the queue to the drive. The head stays in the queue while the
    /// drive makes room: until the drive has taken it in, a cut may lose it.
    async fn take_next(&self, sim: &Sim, drive: &Drive) {
        let Some((crossed, next)) = self.queue.borrow().front().cloned() else {
            return;
        };
        self.seen_to.set(true);
        let posting = self;
        let _seeing = SeeingTo { posting, sim };
        sim.sleep_until(crossed).await;
        self.storing.set(true);
        let Posted { at, tx, origin, .. } = next;
        match drive.take_in(at, &next.bytes, tx, origin).await {
            Ok(answered) => self.answered.set(self.answered.get().max(answered)),
            Err(error) => {
                self.failure.set(self.failure.get().or(Some(error)));
                self.refused.set(self.refused.get() + 1);
            }
        }
        self.pop();
    }
}

impl Shared {
    /// Waits for the arrival of all posted stores; cheap if there are none.
    #[inline]
    pub(crate) async fn push_posted(&self) {
        if !self.posting.is_at_rest(self.sim.now()) {
            Box::pin(self.posting.arrive(&self.sim, &self.drive)).await;
        }
    }
}

impl BlockDevice {
    /// Attaches `drive` to a host after a power cut. `arrived` are the stores in flight that
    /// arrived at the cut ([`Self::arriving`]). A drive with a log has them among the log's
    /// entries; a drive with a cache takes them in before any other request.
    ///
    /// # Errors
    /// If a number of `config` is out of range.
    ///
    /// # Panics
    /// If the drive has recovered already.
    pub fn after_cut(
        sim: &Sim,
        config: HostConfig,
        drive: Drive,
        arrived: Vec<Posted>,
    ) -> Result<Self, crate::HostError> {
        if drive.log_state().is_none() {
            return Self::with_posting(sim, config, drive, Posting::of_arrived(arrived));
        }
        for posted in arrived {
            // A store that found no room counts as one that did not arrive.
            let _ = drive.take_arrived(posted.at, &posted.bytes, posted.origin);
        }
        Self::with_posting(sim, config, drive, Posting::default())
    }

    /// The stores in flight that arrive at a power cut now: lines chosen by `rng`, and all
    /// stores that arrived at an earlier cut. Lines of transactions are left out. A commit
    /// forces the arrival of earlier stores, so transactions in flight have not committed
    /// and recovery would drop their lines. None if the drive's battery does not keep lines.
    #[must_use]
    pub fn arriving(&self, rng: &mut Rng) -> Vec<Posted> {
        if !self.shared.drive.keeps_lines() {
            return Vec::new();
        }
        let posting = &self.shared.posting;
        let (queue, arrived) = (posting.queue.borrow(), posting.arrived.get());
        let queue = queue.iter().map(|(_, posted)| posted);
        let counting = queue.clone().skip(arrived).filter(|posted| posted.tx == 0);
        let lines = counting.flat_map(Posted::each);
        let lines = lines.filter(|_| rng.chance(1, 2));
        queue.take(arrived).cloned().chain(lines).collect()
    }

    /// Whether any posted store is in flight to the drive.
    #[must_use]
    pub fn has_posted(&self) -> bool {
        self.shared.posting.lines.get() > 0
    }

    /// The core of the current task's queue pair.
    fn core(&self) -> &Core {
        let cores = &self.shared.cores;
        let queue = self.current() % self.shared.config.queues.pairs as usize;
        &cores[queue % cores.len()]
    }

    /// Loads `lines` lines over the link, one after the other. The idle cost of a load
    /// includes its packets; on a busy link the packets wait for their turns in addition.
    async fn cross(&self, lines: u64) {
        let shared = &self.shared;
        let sim = &shared.sim;
        let (request, completion) = shared.config.link.load(LINE as u64);
        for _ in 0..lines {
            let turn = turn(&shared.to_drive, sim.now(), request);
            sim.sleep_until(turn + shared.config.bytes.load).await;
            let turn = self::turn(&shared.to_host, sim.now(), completion);
            sim.sleep_until(turn).await;
        }
    }

    /// Waits until all stores posted so far have arrived.
    async fn arrive(&self) -> Result<(), ByteError> {
        let _held = self.core().hold().await;
        self.shared.push_posted().await;
        self.cross(1).await;
        self.shared.posting.failure.get().map_or(Ok(()), Err)
    }

    /// Recovers the drive like [`BytePort::recover`], and returns the drive's report.
    ///
    /// # Errors
    /// The errors of [`BytePort::recover`].
    pub async fn recover_bytes(&self) -> Result<RecoveryReport, ByteError> {
        let queue = self.here();
        queue.submit(0).await;
        let posting = &self.shared.posting;
        let refused = posting.refused.get();
        let recovered = self.shared.drive.recover().await;
        // A store rejected during the recovery keeps the error set.
        if recovered.is_ok() && posting.refused.get() == refused {
            posting.failure.set(None);
        }
        queue.complete(0).await;
        recovered
    }
}

/// Reserves `link` for a packet of `span` that arrives `now`; returns the start of its turn.
fn turn(link: &Timeline, now: Ns, span: Ns) -> Ns {
    Ns(link.reserve(now, span).0 - span.0)
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
        let held = self.core().hold().await;
        self.shared.push_posted().await;
        self.cross(len / LINE as u64).await;
        let loaded = self.shared.drive.load(at, out).await;
        drop(held);
        loaded?;
        let ledger = &self.shared.ledger;
        ledger.borrow_mut().book(who, |t| t.read.byte += len);
        Ok(())
    }

    async fn store(&self, at: u64, bytes: &[u8], tx: u32, who: Who) -> Result<(), ByteError> {
        let len = bytes.len() as u64;
        let shared = &self.shared;
        let (span, most) = (shared.config.bytes.store, shared.config.bytes.posted);
        let lines = len / LINE as u64;
        self.core().serve(Ns(span.0 * lines)).await;
        // Other tasks may have stored while the core was busy.
        let waiting = shared.posting.open_lines();
        shared.drive.check_store(at, len, tx, waiting)?;
        shared.posting.check(at, at + len, tx)?;
        let packets = Ns(shared.config.link.store(LINE as u64).0 * lines);
        let crossed = turn(&shared.to_drive, shared.sim.now(), packets);
        let posted = Posted {
            at,
            bytes: bytes.into(),
            tx,
            origin: who.origin,
        };
        shared.posting.push(crossed, posted);
        shared.drive.expect_lines(at, len, crossed);
        if shared.posting.lines.get() > most as usize {
            let _held = self.core().hold().await;
            shared.push_posted().await;
        }
        let ledger = &shared.ledger;
        ledger.borrow_mut().book(who, |t| t.write.byte += len);
        Ok(())
    }

    async fn verify(&self) -> Result<(), ByteError> {
        self.arrive().await?;
        if !self.shared.drive.keeps_lines() {
            self.here().flush().await?;
        }
        Ok(())
    }

    async fn commit(&self, tx: u32) -> Result<(), ByteError> {
        let queue = self.here();
        let tracing = queue.arrive(control("commit"), 0).await;
        let committed = self.shared.drive.commit(tx).await;
        queue.leave(tracing, 0, committed.is_ok()).await;
        committed
    }

    async fn recover(&self) -> Result<(), ByteError> {
        self.recover_bytes().await.map(drop)
    }
}
