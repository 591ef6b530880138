//! YCSB workloads A, B, C and F over a store of records in memory.
//!
//! Data structures: a hash index with chains, and records of 1 KiB with the pointer to the next
//! record of the chain, the key and ten fields of 100 bytes. A read copies all fields to a buffer
//! of the thread; an update copies one field from that buffer, as YCSB does by default. Keys are
//! drawn by Zipf's law with exponent 0.99, and the hot keys are scattered.
//!
//! Workloads D (reads of recent inserts) and E (scans) are missing: the store has no order, and
//! with inserts, the result of a thread's lookup would depend on when another thread ran.
//!
//! Operations are assigned to the threads in turns of 64, so the same operations run for any number
//! of threads. Before measurement, the first quarter of them is executed once as warm-up.
//!
//! Instructions besides loads and stores: those of the index, 10 for the draw and the dispatch of
//! each operation, and 1 for each 64-byte piece that is copied.

use super::table::{HEADER, Table};
use crate::mem::{Array, Mem, Space, Tag};
use crate::threads::Threads;
use sim::{Rng, Seed, Theta, Zipf};
use std::cell::Cell;
use std::rc::Rc;

const FIELDS: u64 = 10;
const FIELD: u64 = 100;
/// Bytes of the ten fields, and the padding that makes a record with its header 1 KiB.
const COLUMNS: u64 = 1024 - HEADER;
/// Operations in one turn.
const TURN: u64 = 64;

/// Mix of operations: a YCSB core workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Letter {
    /// Half reads, half updates.
    A,
    /// 95 % reads, 5 % updates.
    B,
    /// Reads only.
    C,
    /// Half reads, half reads followed by an update.
    F,
}

impl Letter {
    /// The workload with the given letter.
    #[must_use]
    pub fn of(letter: &str) -> Option<Self> {
        Some(match letter {
            "a" | "A" => Self::A,
            "b" | "B" => Self::B,
            "c" | "C" => Self::C,
            "f" | "F" => Self::F,
            _ => return None,
        })
    }

    /// Percentage of operations that write, and whether those read first.
    const fn writes(self) -> (u64, bool) {
        match self {
            Self::A => (50, false),
            Self::B => (5, false),
            Self::C => (0, false),
            Self::F => (50, true),
        }
    }
}

/// State of the YCSB store, shared by its threads.
pub struct Ycsb {
    table: Table,
    buffers: Array,
    end: u64,
    letter: Letter,
    zipf: Zipf,
    ops: u64,
    seed: Seed,
    /// Number of updates of each record.
    versions: Vec<Cell<u32>>,
    updates: Cell<u64>,
}

impl Ycsb {
    /// Number of records that fill `footprint` bytes.
    #[must_use]
    pub const fn records(footprint: u64) -> u64 {
        footprint / Table::bytes(COLUMNS)
    }

    /// A store of `records` records with a buffer for each of `threads` threads, and `ops`
    /// operations.
    #[must_use]
    pub fn new(letter: Letter, records: u64, ops: u64, threads: u32, seed: Seed) -> Rc<Self> {
        let mut space = Space::new();
        let theta = Theta(990_000);
        Rc::new(Self {
            table: Table::new(&mut space, records, COLUMNS),
            buffers: Array::new(&mut space, threads.into(), 1024),
            end: space.end(),
            letter,
            zipf: Zipf::new(records, theta, &mut seed.stream("keys")),
            ops,
            seed,
            versions: vec![Cell::new(0); records as usize],
            updates: Cell::new(0),
        })
    }

    /// The program that runs with `threads` threads, at most as many as given to [`Ycsb::new`].
    #[must_use]
    pub fn program(self: &Rc<Self>, threads: u32) -> Threads {
        Threads::new(threads, self.end, |thread, mem| {
            run(Rc::clone(self), thread, threads, mem)
        })
    }

    /// Number of updates of each record.
    #[must_use]
    pub fn versions(&self) -> Vec<u32> {
        self.versions.iter().map(Cell::get).collect()
    }

    /// Total number of updates so far.
    #[must_use]
    pub const fn updates(&self) -> u64 {
        self.updates.get()
    }
}

async fn run(ycsb: Rc<Ycsb>, thread: u32, threads: u32, mut mem: Mem) {
    turns(&ycsb, ycsb.ops / 4, thread, threads, &mut mem).await;
    mem.begin().await;
    turns(&ycsb, ycsb.ops, thread, threads, &mut mem).await;
    mem.end();
}

/// Executes this thread's turns of the first `ops` operations.
async fn turns(ycsb: &Ycsb, ops: u64, thread: u32, threads: u32, mem: &mut Mem) {
    let buffer = ycsb.buffers.at(thread.into());
    let mut turn = u64::from(thread);
    while turn * TURN < ops {
        let mut rng = ycsb.seed.child(turn).stream("operations");
        for _ in 0..TURN.min(ops - turn * TURN) {
            operation(ycsb, buffer, &mut rng, mem);
            mem.breathe().await;
        }
        turn += u64::from(threads);
    }
}

fn operation(ycsb: &Ycsb, buffer: u64, rng: &mut Rng, mem: &mut Mem) {
    let key = ycsb.zipf.draw(rng);
    let (percent, reads_first) = ycsb.letter.writes();
    let writes = rng.chance(percent, 100);
    let field = rng.below(FIELDS);
    mem.compute(10);
    let (record, found) = ycsb.table.find(mem, key);
    if !writes || reads_first {
        copy(mem, (record, Some(found)), (buffer, None), FIELDS * FIELD);
    }
    if writes {
        let to = record + field * FIELD;
        copy(
            mem,
            (buffer + field * FIELD, None),
            (to, Some(found)),
            FIELD,
        );
        let version = &ycsb.versions[key as usize];
        version.set(version.get() + 1);
        ycsb.updates.set(ycsb.updates.get() + 1);
    }
}

/// Copies `bytes` bytes with 64-byte vector instructions.
fn copy(mem: &mut Mem, from: (u64, Option<Tag>), to: (u64, Option<Tag>), bytes: u64) {
    for at in (0..bytes).step_by(64) {
        let piece = (bytes - at).min(64) as u8;
        match from.1 {
            Some(tag) => mem.load_after(from.0 + at, piece, tag),
            None => mem.load(from.0 + at, piece),
        };
        match to.1 {
            Some(tag) => mem.store_after(to.0 + at, piece, tag),
            None => mem.store(to.0 + at, piece),
        };
        mem.compute(1);
    }
}
