//! YCSB's workloads over two small storage engines, and `db_bench`'s over one of them.
//!
//! The engines are models of what their like ask of a file system, and no more:
//! records are numbers, and what a page or a block holds is known without being
//! stored. [`lsm`] keeps tables in levels as `RocksDB` does, [`btree`] pages in
//! place behind a log.
//!
//! Invariants: an operation ends before its client begins the next one; a write
//! is in the log before it is anywhere else; what is read exists.

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
    /// Records at first.
    pub(super) records: u64,
    /// Bytes of a record's value.
    pub(super) value: u64,
    pub(super) threads: u32,
    /// Operations on records.
    pub(super) ops: u64,
    pub(super) until: Option<Ns>,
    pub(super) theta: Theta,
    /// Whether a write waits until its log is durable.
    pub(super) sync: bool,
}

/// How records are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    Lsm {
        memtable: u64,
        table: u64,
        base: u64,
        /// How much larger a level is than the one above
        /// (`max_bytes_for_level_multiplier`).
        multiplier: u64,
        lifetimes: Lifetimes,
        /// Most bytes of tables, where none are merged and the oldest ones are dropped
        /// (`CompactionOptionsFIFO::max_table_files_size`).
        keep: Option<u64>,
    },
    BTree {
        cache: u64,
        checkpoint: u64,
    },
}

/// How long files are said to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lifetimes {
    /// As `RocksDB` says it.
    Native,
    /// As its users have measured it for trees of six levels.
    Tuned,
    /// Nothing is said.
    Unsaid,
}

/// Which operations, in which shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mix {
    A,
    B,
    C,
    D,
    E,
    F,
    /// Those of `db_bench`.
    Bench(bench::Benchmarks),
}

impl Mix {
    /// The mix of the workload `name`.
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
