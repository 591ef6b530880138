//! A leveled LSM tree as in RocksDB: a log for each memtable, overlapping tables in level 0, and
//! deeper levels without overlap, each six times as large as the one above.

use super::{MADE, Tape};
use parakeet::directive::Hint;
use parakeet::flags::Flags;
use sim::chance::{Rng, Seed};
use units::{KIB, MIB};

/// Parameters of the tree and its recording.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    /// Whether it gives write hints.
    pub(crate) hints: bool,
    /// Whether its threads have names.
    pub(crate) threads: bool,
    /// Number of memtables that are flushed.
    pub(crate) flushes: u32,
}

/// Maximum size in bytes of a table below level 0.
const TABLE: u64 = 128 * KIB;
/// Number of keys in the range.
const KEYS: u64 = 1 << 32;
/// Size in bytes of the data of all keys.
const DATA: u64 = 24 * MIB;
const FANOUT: u64 = 6;

#[derive(Clone, Copy)]
struct Table {
    file: u64,
    low: u64,
    high: u64,
    size: u64,
}

struct Tree {
    tape: Tape,
    shape: Shape,
    levels: Vec<Vec<Table>>,
    number: u32,
    manifest: u64,
    info: u64,
    chance: Rng,
}

pub(crate) fn lsm(seed: u64, shape: Shape) -> Tape {
    let mut tape = Tape::of("/usr/bin/db_bench");
    let info = tape.open("/srv/db/LOG".to_owned(), MADE, "db_bench");
    let manifest = tape.open("/srv/db/MANIFEST-000004".to_owned(), MADE, "db_bench");
    let mut tree = Tree {
        tape,
        shape,
        levels: vec![Vec::new(); 5],
        number: 5,
        manifest,
        info,
        chance: Seed(seed).stream("lsm"),
    };
    for _ in 0..shape.flushes {
        tree.flush();
        while tree.compact() {}
    }
    tree.tape
}

impl Tree {
    fn name(&mut self, end: &str) -> String {
        self.number += 1;
        format!("/srv/db/{:06}.{end}", self.number)
    }

    fn hint(&mut self, file: u64, hint: Hint) {
        if self.shape.hints {
            self.tape.hint(file, hint);
        }
    }

    fn flush(&mut self) {
        let name = self.name("log");
        let log = self.tape.open(name, MADE, "db_bench");
        self.hint(log, Hint::Short);
        let size = TABLE * 4;
        for _ in 0..64 {
            self.tape.append(log, size / 64);
            self.tape.sync(log);
            let pause = 500 + self.chance.below(1_000);
            self.tape.pass(pause);
        }
        let table = self.table(0, 0, KEYS, size, "rocksdb:high");
        self.levels[0].push(table);
        self.tape.close(log);
        self.tape.gone(log);
        self.edit();
    }

    fn edit(&mut self) {
        self.tape.append(self.manifest, 200);
        self.tape.sync(self.manifest);
        self.tape.append(self.info, 900);
    }

    fn table(
        &mut self,
        level: usize,
        low: u64,
        high: u64,
        size: u64,
        thread: &'static str,
    ) -> Table {
        let name = self.name("sst");
        let thread = if self.shape.threads { thread } else { "" };
        let file = self.tape.open(name, MADE.and(Flags::DIRECT), thread);
        //= rocksdb-hints 1
        let hint = match level {
            0 | 1 => Hint::Medium,
            2 => Hint::Long,
            _ => Hint::Extreme,
        };
        self.hint(file, hint);
        let mut left = size;
        while left > 0 {
            let part = left.min(64 * KIB);
            self.tape.append(file, part);
            self.tape.pass(100);
            left -= part;
        }
        self.tape.sync(file);
        self.tape.close(file);
        Table {
            file,
            low,
            high,
            size,
        }
    }

    fn limit(level: usize) -> u64 {
        4 * TABLE * FANOUT.pow(level as u32 - 1)
    }

    /// Runs the first compaction that is due; returns `false` if none is.
    fn compact(&mut self) -> bool {
        if self.levels[0].len() >= 4 {
            let from = std::mem::take(&mut self.levels[0]);
            self.merge(from, 1);
            return true;
        }
        let size = |tables: &[Table]| tables.iter().map(|table| table.size).sum::<u64>();
        let last = self.levels.len() - 1;
        let due = (1..last).find(|&level| size(&self.levels[level]) > Self::limit(level));
        let Some(level) = due else {
            return false;
        };
        let at = self.chance.below(self.levels[level].len() as u64) as usize;
        let from = vec![self.levels[level].swap_remove(at)];
        self.merge(from, level + 1);
        true
    }

    fn merge(&mut self, from: Vec<Table>, level: usize) {
        let low = from.iter().map(|table| table.low).min().unwrap_or(0);
        let high = from.iter().map(|table| table.high).max().unwrap_or(0);
        let overlaps = |table: &Table| table.low < high && low < table.high;
        let (under, rest) = std::mem::take(&mut self.levels[level])
            .into_iter()
            .partition(overlaps);
        let under: Vec<Table> = under;
        self.levels[level] = rest;
        let low = under.iter().map(|table| table.low).fold(low, u64::min);
        let high = under.iter().map(|table| table.high).fold(high, u64::max);
        let input: u64 = from.iter().chain(&under).map(|table| table.size).sum();
        // Overwritten keys are stored once, so the output is bounded by the number of keys.
        let all = u128::from(DATA) * u128::from(high - low) / u128::from(KEYS);
        let size = input.min((all as u64).max(TABLE / 4));
        let count = size.div_ceil(TABLE);
        for part in 0..count {
            let edge = |part: u64| {
                low + (u128::from(high - low) * u128::from(part) / u128::from(count)) as u64
            };
            let table = self.table(
                level,
                edge(part),
                edge(part + 1),
                size / count,
                "rocksdb:low",
            );
            self.levels[level].push(table);
        }
        self.edit();
        for table in from.into_iter().chain(under) {
            self.tape.gone(table.file);
        }
    }
}
