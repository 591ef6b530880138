//! YCSB's workloads over two small storage engines, and `db_bench`'s over one of them.
//!
//! The engines are models that make the calls of such engines to a file system, and no more:
//! records are numbers, and the contents of a page or a block are tracked without being stored.
//! [`lsm`] keeps tables in levels as `RocksDB` does, [`btree`] pages in place behind a log.
//!
//! Invariants: an operation ends before its client begins the next one; a write is in the log
//! before it is anywhere else; reads only go to data that exists.

pub(crate) mod bench;
mod btree;
mod clients;
mod commit;
pub(super) mod job;
mod lsm;
mod tables;

use super::Source;
use crate::generate::Theta;
use sim::Seed;
use units::Ns;

/// A YCSB workload on an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ycsb {
    pub(super) mix: Mix,
    pub(super) engine: Engine,
    /// Number of records at the start.
    pub(super) records: u64,
    /// Bytes of a record's value.
    pub(super) value: u64,
    pub(super) threads: u32,
    /// Total of operations on records.
    pub(super) ops: u64,
    pub(super) until: Option<Ns>,
    pub(super) theta: Theta,
    /// Whether a write waits until its log is durable.
    pub(super) sync: bool,
}

/// Storage engine, with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    Lsm {
        memtable: u64,
        table: u64,
        base: u64,
        /// Ratio of the size of a level to that of the level above
        /// (`max_bytes_for_level_multiplier`).
        multiplier: u64,
        lifetimes: Lifetimes,
        /// Upper bound on the bytes of tables with FIFO compaction, which drops the oldest tables
        /// and merges none (`CompactionOptionsFIFO::max_table_files_size`); `None` for levels.
        keep: Option<u64>,
    },
    BTree {
        cache: u64,
        checkpoint: u64,
    },
}

/// Lifetime hints of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lifetimes {
    /// `RocksDB`'s own hints.
    Native,
    /// Hints that its users have derived from trees of six levels.
    Tuned,
    /// No hints.
    Unsaid,
}

/// Mix of operations and their shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mix {
    A,
    B,
    C,
    D,
    E,
    F,
    /// The benchmarks of `db_bench`.
    Bench(bench::Benchmarks),
}

impl Mix {
    /// Mix of the preset `name`, such as `ycsb-a`.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name.strip_prefix("ycsb-")? {
            "a" => Self::A,
            "b" => Self::B,
            "c" => Self::C,
            "d" => Self::D,
            "e" => Self::E,
            "f" => Self::F,
            _ => return None,
        })
    }
}

impl Ycsb {
    pub(super) fn open(&self, seed: Seed) -> Result<Box<dyn Source>, String> {
        let expected = |what: &str| Err(format!("expected {what}"));
        let entry = clients::entry_bytes(self.value);
        match self.engine {
            Engine::Lsm {
                memtable, table, ..
            } if memtable.min(table) < entry => {
                expected("a memtable and tables that hold a record")
            }
            Engine::Lsm { base, table, .. } if base < table => {
                expected("a first level that holds a table")
            }
            Engine::Lsm { .. } => Ok(Box::new(lsm::Lsm::new(self, seed))),
            Engine::BTree { cache, .. } if cache < 32 * btree::leaf_bytes(self.value) => {
                expected("a cache of at least 32 pages")
            }
            Engine::BTree { .. } => Ok(Box::new(btree::BTree::new(self, seed))),
        }
    }
}
