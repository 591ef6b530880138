//! Blocks that reads and scans need.

use super::{Lsm, Phase, Probe, Tables};
use crate::files::ycsb::tables::LEVELS;
use crate::files::{Call, ThreadId, Turn};

impl Lsm {
    /// Collects the blocks that a read of `key` needs.
    pub(super) fn find(&mut self, index: usize, key: u32) {
        let full = self
            .full
            .as_ref()
            .is_some_and(|(keys, _)| keys.contains(&key));
        if full || self.mem.contains(&key) {
            return;
        }
        for at in 0..self.tables.levels[0].len() {
            if self.try_table(index, self.tables.levels[0][at], key) {
                return;
            }
        }
        for level in 1..LEVELS {
            let table = self.tables.holding(level, key);
            if table.is_some_and(|table| self.try_table(index, table, key)) {
                return;
            }
        }
    }

    /// Adds the block of `table` that may hold `key`, if the Bloom filter passes it; returns
    /// whether the key is there.
    fn try_table(&mut self, index: usize, table: u32, key: u32) -> bool {
        let keys = &self.tables.all[&table].keys;
        let place = keys.binary_search(&key);
        let at = place.unwrap_or_else(|at| at.min(keys.len() - 1));
        if place.is_ok() || self.clients.is_fooled(index as u32) {
            let block = self.tables.shape.block_of(at);
            self.states[index].probes.push(Probe { table, block });
        }
        place.is_ok()
    }

    /// Collects the blocks that a scan of `length` records from `key` on needs.
    pub(super) fn scan(&mut self, index: usize, key: u32, length: u32) {
        let probes = &mut self.states[index].probes;
        let mut runs: Vec<Run<'_>> = self
            .tables
            .runs()
            .map(|t| Run::new(t, key, &self.tables))
            .collect();
        for _ in 0..length {
            let Some(next) = runs.iter().filter_map(|run| run.key(&self.tables)).min() else {
                break;
            };
            for run in &mut runs {
                if run.key(&self.tables) == Some(next) {
                    probes.extend(run.read(&self.tables));
                }
            }
        }
    }

    pub(super) fn probe(&mut self, index: usize, at: usize) -> Option<Turn> {
        let probe = self.states[index].probes.get(at)?;
        let block = self.tables.shape.block;
        let call = Call::Pread {
            fd: self.tables.all[&probe.table].fd,
            at: probe.block * block,
            len: block,
        };
        self.states[index].phase = Phase::Reads(at + 1);
        Some(Turn::now(call))
    }

    pub(super) fn read_done(&mut self, thread: ThreadId) {
        let index = thread.0 as usize;
        for at in 0..self.states[index].probes.len() {
            self.count_reader(index, at, false);
        }
        self.states[index].probes.clear();
        if !self.tables.obsolete.is_empty() {
            self.clients.parking.wake(self.helper(1));
        }
        self.states[index].phase = match self.states[index].writes.take() {
            Some(record) => {
                self.commit.join(thread, record);
                Phase::Commits
            }
            None => Phase::Idle,
        };
    }
}

/// Position of a scan in a sorted run.
struct Run<'a> {
    tables: &'a [u32],
    at: usize,
    last: Option<u64>,
}

impl<'a> Run<'a> {
    /// Positions a scan of `run` at `key`.
    fn new(run: &'a [u32], key: u32, tables: &Tables) -> Self {
        let before = |t: &u32| tables.all[t].keys.last().is_some_and(|last| *last < key);
        let skipped = run.partition_point(before);
        let run = &run[skipped..];
        let keys = run.first().map(|t| tables.all[t].keys.as_slice());
        Self {
            tables: run,
            at: keys.map_or(0, |keys| keys.partition_point(|k| *k < key)),
            last: None,
        }
    }

    fn key(&self, tables: &Tables) -> Option<u32> {
        let table = self.tables.first()?;
        Some(tables.all[table].keys[self.at])
    }

    /// Advances past the present record; returns its block unless that has been read.
    fn read(&mut self, tables: &Tables) -> Option<Probe> {
        let table = *self.tables.first()?;
        let block = tables.shape.block_of(self.at);
        let fresh = self.last.replace(block) != Some(block);
        self.at += 1;
        if self.at == tables.all[&table].keys.len() {
            (self.tables, self.at, self.last) = (&self.tables[1..], 0, None);
        }
        fresh.then_some(Probe { table, block })
    }
}
