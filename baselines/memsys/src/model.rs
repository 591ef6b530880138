//! Reference models for tests of machines: programs as lists of operations, memory as an
//! array, and a computer so small that it evicts all the time.
//!
//! Invariant: no model here depends on how a machine works.

use crate::config::{CacheConfig, Config, NodeConfig};
use crate::machine::Values;
use crate::op::{Op, Program};
use units::{Bytes, MIB};

/// A program with a fixed list of operations for each thread.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Operations of each thread.
    pub threads: Vec<Vec<Op>>,
    /// One past the highest byte that the operations use.
    pub footprint: u64,
    /// Operations returned by one call of [`Program::next`].
    pub batch: usize,
    given: Vec<usize>,
}

impl Listed {
    /// A program of `threads` that uses `footprint` bytes.
    #[must_use]
    pub fn new(threads: Vec<Vec<Op>>, footprint: u64) -> Self {
        let given = vec![0; threads.len()];
        Self {
            threads,
            footprint,
            batch: 100,
            given,
        }
    }
}

impl Program for Listed {
    fn threads(&self) -> u32 {
        self.threads.len() as u32
    }

    fn footprint(&self) -> Bytes {
        Bytes(self.footprint)
    }

    fn next(&mut self, thread: u32, ops: &mut Vec<Op>) -> bool {
        let all = &self.threads[thread as usize];
        let given = &mut self.given[thread as usize];
        let end = all.len().min(*given + self.batch);
        ops.extend_from_slice(&all[*given..end]);
        let more = end > *given;
        *given = end;
        more
    }
}

/// A flat array shared by all threads; every load is compared with it.
#[derive(Clone, Debug)]
pub struct Flat {
    bytes: Vec<u8>,
    /// Loads that returned the bytes of the array.
    pub loads: u64,
}

impl Flat {
    /// An array of `bytes` zeros.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        Self {
            bytes: vec![0; bytes as usize],
            loads: 0,
        }
    }
}

impl Values for Flat {
    const KEPT: bool = true;

    fn stored(&mut self, _: u32, at: u64, bytes: &[u8]) {
        self.bytes[at as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    fn loaded(&mut self, thread: u32, at: u64, bytes: &[u8]) {
        self.loads += 1;
        let expected = &self.bytes[at as usize..][..bytes.len()];
        assert_eq!(bytes, expected, "thread {thread} at {at:#x}");
    }
}

/// A computer of three cores with tiny caches, so that evictions are frequent.
#[must_use]
pub fn tiny() -> Config {
    let cache = |lines: u64, ways, cycles, misses| CacheConfig {
        size: Bytes(lines * 64),
        ways,
        cycles,
        misses,
    };
    Config {
        cores: 3,
        window: 32,
        store_buffer: 6,
        l1: cache(8, 2, 3, 4),
        l2: cache(16, 4, 8, 6),
        llc: cache(64, 4, 30, 12),
        nodes: vec![NodeConfig {
            memory: Bytes(4 * MIB),
        }],
        far: Bytes(16 * MIB),
        posted: 5,
        ..Config::default()
    }
}
