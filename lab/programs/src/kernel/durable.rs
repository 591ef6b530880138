//! Records that transactions change and that must survive a power cut.
//!
//! Structures: for each thread a circular log of 16 entries, where an entry is a record's new lines
//! and a line for its mark; the records; and an index of 8 bytes a slot that is rebuilt after a
//! power cut, in the rest of the footprint. Log and records lie on pages pinned to the drive, whose
//! memory a battery keeps; the index may move.
//!
//! A transaction looks up some slots of the index, changes one of them, and changes a record of its
//! thread: it stores the new lines to the log and flushes each (`clwb`), fences, stores the mark,
//! flushes and fences, and then stores the lines to the record and flushes them. The fence of the
//! next transaction completes these flushes, so an entry can be reused once another has been
//! written: a torn record is whole and marked in the log.
//!
//! The first quarter of the transactions is made once more before measuring begins.
//!
//! Instructions besides loads, stores and flushes: 6 a slot (hash, mask, address, test, increment,
//! loop), 3 a line (address, increment, loop).

use crate::mem::{Array, Mem, PAGE, Space};
use crate::threads::Threads;
use sim::{Rng, Seed};
use std::rc::Rc;

/// Number of entries of each thread's log.
const ENTRIES: u64 = 16;
/// Bytes of a line.
const LINE: u64 = 64;
/// Divisor of the footprint that gives the records' share.
const SHARE: u64 = 8;

/// Parameters of the durable workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Approximate bytes of all structures.
    pub footprint: u64,
    /// Lines of a record, at least one.
    pub lines: u64,
    /// Index slots that a transaction looks up.
    pub looks: u64,
    /// Number of transactions of all threads.
    pub transactions: u64,
    /// Number of threads.
    pub threads: u32,
}

/// State of the durable workload, shared by its threads.
pub struct Durable {
    asked: Asked,
    log: Array,
    records: Array,
    count: u64,
    slots: Array,
    slot_count: u64,
    kept: (u64, u64),
    end: u64,
    seed: Seed,
}

impl Durable {
    /// Lays out the structures for `asked`.
    #[must_use]
    pub fn new(asked: Asked, seed: Seed) -> Rc<Self> {
        let mut space = Space::new();
        let threads = u64::from(asked.threads);
        let entries = threads * ENTRIES;
        let log = Array::new(&mut space, entries, (asked.lines + 1) * LINE);
        let each = asked.lines * LINE;
        // There is at least one record for each thread.
        let count = (asked.footprint / SHARE / each).max(threads) / threads * threads;
        let records = Array::new(&mut space, count, each);
        let kept = (Space::BASE, space.end());
        let left = asked.footprint.saturating_sub(kept.1 - kept.0);
        let slot_count = left.max(PAGE) / 8;
        let slots = Array::new(&mut space, slot_count, 8);
        Rc::new(Self {
            end: space.end(),
            asked,
            log,
            records,
            count,
            slots,
            slot_count,
            kept,
            seed,
        })
    }

    /// Program of the requested number of threads.
    #[must_use]
    pub fn program(self: &Rc<Self>) -> Threads {
        let threads = self.asked.threads;
        Threads::new(threads, self.end, |thread, mem| {
            run(Rc::clone(self), thread, mem)
        })
    }

    /// Range of addresses that must stay on the drive, first and one past the last: the logs, then
    /// the records.
    #[must_use]
    pub const fn kept(&self) -> (u64, u64) {
        self.kept
    }

    /// Address of line `line` of the log entry for transaction `number` of a thread: the lines of
    /// the record in order, then the mark.
    #[must_use]
    pub fn logged(&self, thread: u32, number: u64, line: u64) -> u64 {
        let entry = u64::from(thread) * ENTRIES + number % ENTRIES;
        self.log.at(entry) + line * LINE
    }

    /// Number of transactions that `thread` makes of `transactions`.
    fn share(&self, transactions: u64, thread: u32) -> u64 {
        let threads = u64::from(self.asked.threads);
        (transactions + threads - 1 - u64::from(thread)) / threads
    }

    fn look(&self, rng: &mut Rng, mem: &mut Mem) {
        for nth in 0..self.asked.looks.max(1) {
            let slot = self.slots.at(rng.below(self.slot_count));
            mem.compute(6);
            let seen = mem.load(slot, 8);
            if nth == 0 {
                mem.store_after(slot, 8, seen);
            }
        }
    }

    fn change(&self, thread: u32, number: u64, rng: &mut Rng, mem: &mut Mem) {
        let threads = u64::from(self.asked.threads);
        let record = rng.below(self.count / threads) * threads + u64::from(thread);
        for line in 0..self.asked.lines {
            mem.compute(3);
            durably(mem, self.logged(thread, number, line));
        }
        mem.fence();
        durably(mem, self.logged(thread, number, self.asked.lines));
        mem.fence();
        for line in 0..self.asked.lines {
            mem.compute(3);
            durably(mem, self.records.at(record) + line * LINE);
        }
    }
}

/// Stores a line and flushes it.
fn durably(mem: &mut Mem, at: u64) {
    mem.store(at, 64);
    mem.flush(at);
}

async fn run(durable: Rc<Durable>, thread: u32, mut mem: Mem) {
    let all = durable.asked.transactions;
    let mut number = 0;
    for (phase, transactions) in (0..).zip([all / 4, all]) {
        if phase == 1 {
            mem.begin().await;
        }
        let child = durable.seed.child(u64::from(thread)).child(phase);
        let mut rng = child.stream("transactions");
        for _ in 0..durable.share(transactions, thread) {
            durable.look(&mut rng, &mut mem);
            durable.change(thread, number, &mut rng, &mut mem);
            number += 1;
            mem.breathe().await;
        }
    }
    mem.fence();
    mem.end();
}
