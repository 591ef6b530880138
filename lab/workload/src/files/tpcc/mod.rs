//! TPC-C over a model of `InnoDB`'s I/O, as `tpcc-mysql` runs it.
//!
//! The model makes the calls that MySQL 5.7 makes to a file system, and no more: rows are numbers,
//! and the contents of a page are tracked without being stored. [`schema`] and [`tree`] map rows to
//! pages, [`store`] lists the pages that a statement touches, [`script`] the statements of a
//! transaction; [`pool`] holds pages in memory, [`redo`] the log; [`engine`] and [`client`] run the
//! connections, [`cleaner`] the threads behind them.
//!
//! Invariants:
//! - No page is written to its place before the log of its changes is durable, nor, with the
//!   doublewrite buffer, before a copy of it is.
//! - The log never holds more than its files do; all changes before the checkpoint are durable in
//!   their pages.
//! - A transaction ends once its log is as durable as the commit mode demands.
//! - A changed row is locked until its transaction ends or is rolled back.
//!
//! Simpler than in `InnoDB`: pages are not read ahead, secondary indexes are changed in place and
//! not by a change buffer, inner pages are not split, deleted rows are removed at once, and undo
//! pages are purged without being read. Indexes that only foreign keys need are left out. The pool
//! is empty at the start.

mod choose;
mod cleaner;
mod client;
mod engine;
mod lock;
mod pool;
mod population;
mod redo;
mod schema;
mod script;
mod store;
#[cfg(test)]
mod tests;
mod tree;
mod undo;

use super::Source;
use sim::Seed;
use units::Ns;

/// Upper bound on the warehouses: as many as two levels of inner pages can hold.
const WAREHOUSES_MAX: u32 = 256;
/// Lower bounds of the bytes of the pool and of a log file.
//= mysql 14.15
const CACHE_MIN: u64 = 5 << 20;
const LOG_MIN: u64 = 4 << 20;

/// Parameters of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tpcc {
    pub(super) warehouses: u32,
    /// Hundredths of the specification's cardinalities.
    pub(super) scale: u64,
    /// Number of connections.
    pub(super) threads: u32,
    /// Bytes of the buffer pool, and of each of the two log files.
    pub(super) cache: u64,
    pub(super) log: u64,
    pub(super) doublewrite: bool,
    /// Whether the files of pages are opened past the page cache.
    pub(super) direct: bool,
    pub(super) commit: Commit,
    pub(super) binlog: bool,
    /// Pages that the cleaner writes in a second when the pool is too dirty (`innodb_io_capacity`).
    pub(super) io: u64,
    /// Number of transactions.
    pub(super) ops: u64,
    pub(super) until: Option<Ns>,
}

/// Condition that a commit waits for (`innodb_flush_log_at_trx_commit`).
//= mysql 14.15
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Commit {
    /// Nothing: the log is written and synced once a second.
    Later,
    /// The transaction's log is durable.
    Durable,
    /// The transaction's log is written to its file.
    Written,
}

impl Tpcc {
    pub(super) fn open(&self, seed: Seed) -> Result<Box<dyn Source>, String> {
        self.check()?;
        Ok(Box::new(engine::InnoDb::new(self, seed)))
    }

    fn check(&self) -> Result<(), String> {
        let expected = |what: &str| Err(format!("expected {what}"));
        if self.warehouses > WAREHOUSES_MAX {
            return expected("at most 256 warehouses");
        }
        if !(1..=100).contains(&self.scale) {
            return expected("a scale of 1 to 100 hundredths");
        }
        if self.cache < CACHE_MIN {
            return expected("a cache of at least 5m");
        }
        if self.log < LOG_MIN {
            return expected("files of the log of at least 4m");
        }
        if !redo::Limits::new(self.log).allow(self.threads) {
            return expected("log files with room for the writes of all threads");
        }
        if !(1..=1_000_000).contains(&self.io) {
            return expected("1 to 1000000 pages a second");
        }
        Ok(())
    }
}
