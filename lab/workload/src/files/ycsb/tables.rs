//! Sorted tables and their levels.
//!
//! Invariants: keys of a table ascend; tables of a level from 1 on ascend and do not overlap; a
//! table with readers is not deleted.

//= rocksdb 2
use super::clients::entry_bytes;
use crate::files::{Fd, Name};
use std::collections::BTreeMap;

/// Bytes of a block: the default of `RocksDB` (`block_size`).
const BLOCK: u64 = 4_096;
/// Bytes of an index entry: a key, an offset, a length.
const INDEX_ENTRY: u64 = 40;
/// Bits of the Bloom filter for each key.
const FILTER_BITS: u64 = 10;
/// Bytes of a table's properties.
const PROPERTIES: u64 = 1_024;
/// Bytes of the footer of a table.
pub(super) const FOOTER: u64 = 53;
/// Levels, the default of `RocksDB` (`num_levels`).
pub(super) const LEVELS: usize = 7;
/// Tables of level 0 that start a compaction (`level0_file_num_compaction_trigger`).
pub(super) const L0_MERGE: usize = 4;
/// Tables of level 0 at which writes stop (`level0_stop_writes_trigger`).
pub(super) const L0_STOP: usize = 36;

/// Layout of records in a table, and target sizes of levels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Records in a block.
    per_block: u64,
    /// Bytes of a block.
    pub(super) block: u64,
    /// Bytes of a table's blocks.
    table: u64,
    /// Bytes of the first level in use below 0, and the ratio of each further level to the one
    /// above.
    base: u64,
    multiplier: u64,
}

impl Shape {
    pub(super) fn new(value: u64, table: u64, (base, multiplier): (u64, u64)) -> Self {
        let entry = entry_bytes(value);
        Self {
            per_block: (BLOCK / entry).max(1),
            block: BLOCK.max(entry),
            table,
            base,
            multiplier,
        }
    }

    /// Bytes of the blocks of `keys` records.
    pub(super) fn data(&self, keys: usize) -> u64 {
        (keys as u64).div_ceil(self.per_block) * self.block
    }

    /// Bytes of index, filter, properties and footer of `keys` records.
    pub(super) fn meta(&self, keys: usize) -> u64 {
        let keys = keys as u64;
        let blocks = keys.div_ceil(self.per_block);
        blocks * INDEX_ENTRY + (keys * FILTER_BITS).div_ceil(8) + PROPERTIES + FOOTER
    }

    /// Records of a full table.
    pub(super) fn keys_per_table(&self) -> usize {
        ((self.table / self.block).max(1) * self.per_block) as usize
    }

    /// Block of the record at `index`.
    pub(super) const fn block_of(&self, index: usize) -> u64 {
        index as u64 / self.per_block
    }
}

/// Sorted table with its open descriptor.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) keys: Vec<u32>,
    pub(super) path: Name,
    pub(super) fd: Fd,
    pub(super) bytes: u64,
    /// Number of reads in progress.
    pub(super) readers: u32,
}

impl Table {
    fn first(&self) -> u32 {
        self.keys[0]
    }

    fn last(&self) -> u32 {
        self.keys[self.keys.len() - 1]
    }
}

/// Tables to merge or to drop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Compaction {
    /// Level of the inputs, and of the outputs.
    pub(super) from: usize,
    pub(super) to: usize,
    /// Inputs, then the tables of the output level that overlap them.
    pub(super) inputs: Vec<u32>,
    pub(super) below: Vec<u32>,
}

/// Tables, by number and by level.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    pub(super) shape: Shape,
    /// Tables, by number.
    pub(super) all: BTreeMap<u32, Table>,
    /// Table numbers of each level: the newest first in level 0, by key below.
    pub(super) levels: [Vec<u32>; LEVELS],
    /// Tables in no level, to be deleted once they have no readers.
    pub(super) obsolete: Vec<u32>,
    /// Upper bound on the bytes of tables with FIFO compaction: all stay in level 0 and the oldest
    /// are dropped.
    pub(super) keep: Option<u64>,
}

impl Tables {
    pub(super) fn new(shape: Shape, keep: Option<u64>) -> Self {
        Self {
            shape,
            keep,
            all: BTreeMap::new(),
            levels: std::array::from_fn(|_| Vec::new()),
            obsolete: Vec::new(),
        }
    }

    fn bytes(&self, level: usize) -> u64 {
        self.levels[level].iter().map(|t| self.all[t].bytes).sum()
    }

    /// Target bytes of each level from 1 on, and the first level in use. The target of the last
    /// level is its present size; each level above gets that of the level below over the
    /// multiplier, up to the level whose target is no larger than the base
    /// (`level_compaction_dynamic_level_bytes`).
    fn targets(&self) -> ([u64; LEVELS], usize) {
        let mut targets = [1; LEVELS];
        let mut level = LEVELS - 1;
        targets[level] = self.bytes(level).max(self.shape.base);
        while targets[level] > self.shape.base && level > 1 {
            targets[level - 1] = targets[level] / self.shape.multiplier;
            level -= 1;
        }
        (targets, level)
    }

    /// First level below 0 that is in use.
    pub(super) fn base_level(&self) -> usize {
        self.targets().1
    }

    /// Table of `level`, from 1 on, whose key range holds `key`.
    pub(super) fn holding(&self, level: usize, key: u32) -> Option<u32> {
        let tables = &self.levels[level];
        let at = tables.partition_point(|t| self.all[t].last() < key);
        let table = *tables.get(at)?;
        (self.all[&table].first() <= key).then_some(table)
    }

    /// Tables of `level`, from 1 on, that overlap the range of `tables`.
    fn overlapping(&self, level: usize, tables: &[u32]) -> Vec<u32> {
        let first = tables.iter().map(|t| self.all[t].first()).min();
        let last = tables.iter().map(|t| self.all[t].last()).max();
        let Some((first, last)) = first.zip(last) else {
            return Vec::new();
        };
        let below = self.levels[level].iter().copied();
        let overlap = |t: &u32| self.all[t].last() >= first && self.all[t].first() <= last;
        below.filter(overlap).collect()
    }

    /// Next compaction, if one is due: of level 0 if it has many tables, or of the level that
    /// exceeds its target most. Of that level the table is taken that overlaps the next level least
    /// in proportion to its size (`kMinOverlappingRatio`).
    pub(super) fn compaction(&self) -> Option<Compaction> {
        if let Some(keep) = self.keep {
            return self.oldest(keep);
        }
        let (targets, base) = self.targets();
        let level0 = self.levels[0].len() * 1_000 / L0_MERGE;
        let score =
            |level: usize| u128::from(self.bytes(level)) * 1_000 / u128::from(targets[level]);
        let scores = (1..LEVELS - 1).map(|level| (score(level), level));
        let (score, from) = scores.max_by_key(|&(score, level)| (score, LEVELS - level))?;
        if level0 >= 1_000 && level0 as u128 >= score {
            return Some(self.down(0, self.levels[0].clone(), base));
        }
        if score <= 1_000 {
            return None;
        }
        let to = (from + 1).max(base);
        let cost = |&table: &u32| {
            let below = self.overlapping(to, &[table]);
            let bytes: u64 = below.iter().map(|t| self.all[t].bytes).sum();
            (bytes * 1_000 / self.all[&table].bytes, table)
        };
        let table = *self.levels[from].iter().min_by_key(|t| cost(t))?;
        Some(self.down(from, vec![table], to))
    }

    /// Drop of the oldest tables, so that at most `keep` bytes are left; `None` if they are not
    /// exceeded (`CompactionOptionsFIFO`).
    //= rocksdb 2
    fn oldest(&self, keep: u64) -> Option<Compaction> {
        let mut bytes = self.bytes(0);
        let mut inputs = Vec::new();
        for table in self.levels[0].iter().rev() {
            if bytes <= keep {
                break;
            }
            bytes -= self.all[table].bytes;
            inputs.push(*table);
        }
        let drops = |inputs| Compaction {
            from: 0,
            to: 0,
            inputs,
            below: Vec::new(),
        };
        Some(inputs).filter(|inputs| !inputs.is_empty()).map(drops)
    }

    fn down(&self, from: usize, inputs: Vec<u32>, to: usize) -> Compaction {
        Compaction {
            from,
            to,
            below: self.overlapping(to, &inputs),
            inputs,
        }
    }

    /// Whether no two of the tables `numbers` overlap.
    pub(super) fn are_apart(&self, numbers: &[u32]) -> bool {
        let mut tables: Vec<&Table> = numbers.iter().map(|number| &self.all[number]).collect();
        tables.sort_unstable_by_key(|table| table.first());
        tables.windows(2).all(|two| two[0].last() < two[1].first())
    }

    /// Distinct keys of the tables `numbers`, sorted.
    pub(super) fn merged(&self, numbers: &[u32]) -> Vec<u32> {
        let mut keys: Vec<u32> = Vec::new();
        for table in numbers {
            keys.extend(&self.all[table].keys);
        }
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Replaces the inputs of `compaction` by `outputs`.
    pub(super) fn replace(&mut self, compaction: &Compaction, outputs: &[u32]) {
        self.levels[compaction.from].retain(|t| !compaction.inputs.contains(t));
        let to = compaction.to;
        self.levels[to].retain(|t| !compaction.below.contains(t));
        self.levels[to].extend(outputs);
        if to > 0 {
            let all = &self.all;
            self.levels[to].sort_unstable_by_key(|t| all[t].keys[0]);
        }
        let gone = compaction.inputs.iter().chain(&compaction.below);
        self.obsolete.extend(gone.filter(|t| !outputs.contains(t)));
    }

    /// Removes an obsolete table without readers.
    pub(super) fn take_obsolete(&mut self) -> Option<Table> {
        let idle = |t: &u32| self.all[t].readers == 0;
        let at = self.obsolete.iter().position(idle)?;
        let number = self.obsolete.swap_remove(at);
        self.all.remove(&number)
    }

    /// Sorted runs: each table of level 0, and each further level as a whole.
    pub(super) fn runs(&self) -> impl Iterator<Item = &[u32]> {
        let level0 = self.levels[0].chunks(1);
        let below = self.levels[1..].iter().map(Vec::as_slice);
        level0.chain(below.filter(|level| !level.is_empty()))
    }
}
