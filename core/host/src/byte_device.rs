//! A drive that is mapped into memory: loads, posted stores, and commands of vendors.
//!
//! A store leaves the processor and is on its way; nothing tells when it has arrived.
//! Whatever the drive has to answer, a load or a command, comes in behind the stores
//! before it and so pushes them on.
//!
//! # Invariants
//!
//! - Stores arrive in the order in which they were posted, and before anything that
//!   was asked of the drive later. Whoever pushes them on waits for those before it, and
//!   for none that others post meanwhile.
//! - A store that is still on its way is in the queue: a power cut keeps any of its
//!   lines, and loses the others.
//! - A store is refused at once for what is on its way, as for what has arrived: a line
//!   of another open transaction, or more lines than transactions may have.
//! - What arrived as the power went is in memory that a battery keeps: no later cut
//!   loses it, and what the drive is asked for later is newer.
//! - A packet waits for its turn on the link. What loads and stores cost at rest has
//!   their own packets in it, so on an idle link nothing is added.
//! - The core of a task stands still while it loads or verifies, be it from memory or
//!   from flash, and while it stores or waits for stores to arrive: to the processor a
//!   load is one instruction. A command waits for them without a core. `skybyte` 3.1 adds a switch
//!   to another task to that.
//!
//! # What is refused when it arrives
//!
//! Nobody waits for a posted store, so nobody can be told that it was refused. A device
//! sets a bit for that, which stands until it is reset, and does not say which store it
//! was or whose: from then on every verification, by anybody, fails with the first of
//! such errors, until the drive has recovered or the power was off.

use crate::bytes::BytePort;
use crate::config::HostConfig;
use crate::cores::Core;
use crate::device::{BlockDevice, Shared};
use crate::ledger::Who;
use sim::{Rng, Signal, Sim, Timeline};
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
#[derive(Default)]
pub(crate) struct Posting {
    /// With the time at which each has crossed the link.
    queue: RefCell<VecDeque<(Ns, Posted)>>,
    /// Lines in the queue.
    lines: Cell<usize>,
    /// Stores that were ever posted, and those of them that have arrived.
    posted: Cell<u64>,
    taken: Cell<u64>,
    /// Somebody sees to the head of the queue.
    seen_to: Cell<bool>,
    /// The drive is taking it in, and counts its lines.
    storing: Cell<bool>,
    /// The head of the queue has arrived, or nobody sees to it any more.
    progress: Signal,
    /// When the drive has answered all that have arrived.
    answered: Cell<Ns>,
    /// What the drive said of the first store that it refused.
    failure: Cell<Option<ByteError>>,
    /// Stores that it refused.
    refused: Cell<u64>,
    /// Entries at the head of the queue that arrived as the power went.
    arrived: Cell<usize>,
}

/// Who sees to the head of the queue; they may be dropped half way.
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
    /// What arrived as the power went, and the drive has not taken in.
    fn of_arrived(arrived: Vec<Posted>) -> Self {
        let posting = Self::default();
        posting.arrived.set(arrived.len());
        for posted in arrived {
            posting.push(Ns::ZERO, posted);
        }
        posting
    }

    /// Whether nothing is on its way, and all has been answered.
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

    /// Whether nothing on its way has lines that transaction `tx` may not write.
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

    /// Lines of transactions that the drive has not counted.
    fn open_lines(&self) -> u32 {
        let queue = self.queue.borrow();
        let later = queue.iter().skip(usize::from(self.storing.get()));
        let open = later.filter(|(_, posted)| posted.tx != 0);
        open.map(|(_, posted)| posted.lines()).sum::<usize>() as u32
    }

    /// Lets everything arrive that was posted so far, and no more than that.
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

    /// Has the drive take in the head of the queue. It stays there while the drive makes
    /// room: until it has been taken in, a cut may lose it.
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
    /// Lets what was posted arrive, if anything was.
    #[inline]
    pub(crate) async fn push_posted(&self) {
        if !self.posting.is_at_rest(self.sim.now()) {
            Box::pin(self.posting.arrive(&self.sim, &self.drive)).await;
        }
    }
}

impl BlockDevice {
    /// Attaches `drive`, whose power was cut, to a host: of the stores that were on
    /// their way then, `arrived` did arrive. A log has them among what the cut left; a
    /// cache takes them in before anything else that is asked of the drive.
    ///
    /// # Errors
    /// If the host cannot be.
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
            // What found no room has not arrived.
            let _ = drive.take_arrived(posted.at, &posted.bytes, posted.origin);
        }
        Self::with_posting(sim, config, drive, Posting::default())
    }

    /// Of the stores that are on their way, those that arrive as the power is cut now:
    /// any line may, and `rng` says which; what arrived at an earlier cut has. Lines of
    /// transactions are left out, as a commit pushes on what is on its way: theirs have
    /// not committed, and recovery drops them.
    #[must_use]
    pub fn arriving(&self, rng: &mut Rng) -> Vec<Posted> {
        let posting = &self.shared.posting;
        let (queue, arrived) = (posting.queue.borrow(), posting.arrived.get());
        let queue = queue.iter().map(|(_, posted)| posted);
        let counting = queue.clone().skip(arrived).filter(|posted| posted.tx == 0);
        let lines = counting.flat_map(Posted::each);
        let lines = lines.filter(|_| rng.chance(1, 2));
        queue.take(arrived).cloned().chain(lines).collect()
    }

    /// Whether stores are on their way to the drive.
    #[must_use]
    pub fn has_posted(&self) -> bool {
        self.shared.posting.lines.get() > 0
    }

    /// The core that the current task runs on.
    fn core(&self) -> &Core {
        let cores = &self.shared.cores;
        let queue = self.current() % self.shared.config.queues.pairs as usize;
        &cores[queue % cores.len()]
    }

    /// Loads `lines` lines over the link, one after the other. What a load costs at rest
    /// has its packets in it; beyond that they wait for their turns.
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

    /// Has the drive recover, as [`BytePort::recover`] does, and gives what it did.
    ///
    /// # Errors
    /// As there.
    pub async fn recover_bytes(&self) -> Result<RecoveryReport, ByteError> {
        let queue = self.here();
        queue.submit(0).await;
        let posting = &self.shared.posting;
        let refused = posting.refused.get();
        let recovered = self.shared.drive.recover().await;
        // What was refused while it ran is news.
        if recovered.is_ok() && posting.refused.get() == refused {
            posting.failure.set(None);
        }
        queue.complete(0).await;
        recovered
    }
}

/// When a packet that comes `now` has its turn on `link`, which it occupies for `span`.
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
        // Others may have stored while the core was busy.
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
        let _held = self.core().hold().await;
        self.shared.push_posted().await;
        self.cross(1).await;
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
