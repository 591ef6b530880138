//! Benchmarks of `RocksDB`'s `db_bench`, run one after the other.
//!
//! Invariant: a benchmark begins when the last operation of the one before has begun.

use super::clients::Request;
use sim::Rng;

/// Upper bound on the benchmarks in a row.
const MOST: usize = 8;
/// Records read by one operation of `readseq`.
const SCAN: u32 = 100;

/// Kind of a benchmark. Random keys are drawn uniformly.
//= rocksdb 2
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Benchmark {
    /// Inserts records in the order of their keys, into an empty store.
    FillSeq,
    /// Writes records in random order, into an empty store.
    FillRandom,
    /// Overwrites random records.
    Overwrite,
    /// Reads random records and writes them back.
    UpdateRandom,
    ReadRandom,
    /// Reads a hundred records at a time, in the order of their keys.
    ReadSeq,
}

impl Benchmark {
    const ALL: [Self; 6] = [
        Self::FillSeq,
        Self::FillRandom,
        Self::Overwrite,
        Self::UpdateRandom,
        Self::ReadRandom,
        Self::ReadSeq,
    ];

    /// Name of the benchmark in `db_bench`.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::FillSeq => "fillseq",
            Self::FillRandom => "fillrandom",
            Self::Overwrite => "overwrite",
            Self::UpdateRandom => "updaterandom",
            Self::ReadRandom => "readrandom",
            Self::ReadSeq => "readseq",
        }
    }

    const fn fills(self) -> bool {
        matches!(self, Self::FillSeq | Self::FillRandom)
    }
}

/// Benchmarks in a row, each with its number of operations; `None` for one operation a record
/// (`readseq`: for one pass).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Benchmarks([Option<(Benchmark, Option<u64>)>; MOST]);

impl Benchmarks {
    /// Parses names with or without a number of operations: `fillseq:overwrite/1000`. A benchmark
    /// that fills may only come first.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut row = [None; MOST];
        for (at, part) in text.split(':').enumerate() {
            let (name, ops) = match part.split_once('/') {
                Some((name, ops)) => (name, Some(ops.parse().ok().filter(|ops| *ops > 0)?)),
                None => (part, None),
            };
            let found = Benchmark::ALL.into_iter().find(|one| one.name() == name)?;
            *row.get_mut(at)? = Some((found, ops));
        }
        let after = row.iter().flatten().skip(1);
        let first_alone = after.into_iter().all(|(one, _)| !one.fills());
        first_alone.then_some(Self(row))
    }

    /// Whether the first benchmark fills the store, which is empty at the start then.
    pub(super) fn fills(&self) -> bool {
        self.0[0].is_some_and(|(one, _)| one.fills())
    }
}

/// Progress of a run through its benchmarks.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    row: Vec<(Benchmark, u64)>,
    at: usize,
    /// Next record in the order of keys.
    next: u32,
    records: u32,
}

impl Progress {
    pub(super) fn new(benchmarks: &Benchmarks, records: u32) -> Self {
        let once = |one: Benchmark| match one {
            Benchmark::ReadSeq => u64::from(records.div_ceil(SCAN)),
            _ => u64::from(records),
        };
        let ops = |(one, count): &(Benchmark, Option<u64>)| {
            let ops = count.unwrap_or_else(|| once(*one));
            (*one, ops)
        };
        let row = benchmarks.0.iter().flatten();
        Self {
            row: row.map(ops).collect(),
            at: 0,
            next: 0,
            records,
        }
    }

    /// Next operation; `None` after the last benchmark.
    pub(super) fn request(&mut self, rng: &mut Rng) -> Option<(&'static str, Request)> {
        while self.row.get(self.at)?.1 == 0 {
            (self.at, self.next) = (self.at + 1, 0);
        }
        let (one, left) = &mut self.row[self.at];
        *left -= 1;
        let (one, record) = (*one, rng.below(u64::from(self.records)) as u32);
        let request = match one {
            Benchmark::FillSeq => Request::Insert(self.step(1)),
            Benchmark::FillRandom | Benchmark::Overwrite => Request::Update(record),
            Benchmark::UpdateRandom => Request::Modify(record),
            Benchmark::ReadRandom => Request::Read(record),
            Benchmark::ReadSeq => Request::Scan(self.step(SCAN), SCAN),
        };
        Some((one.name(), request))
    }

    /// Advances by `records` in the order of keys, and wraps around after the last record.
    const fn step(&mut self, records: u32) -> u32 {
        let at = self.next;
        self.next = (at + records) % self.records;
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Seed;

    #[test]
    fn benchmark_rows_are_parsed() {
        assert!(Benchmarks::parse("fillseq:overwrite/10:readrandom").is_some_and(|b| b.fills()));
        assert!(Benchmarks::parse("readrandom").is_some_and(|b| !b.fills()));
        for wrong in ["", "fill", "overwrite/0", "overwrite/x", "readseq:fillseq"] {
            assert_eq!(Benchmarks::parse(wrong), None, "{wrong}");
        }
        assert_eq!(Benchmarks::parse(&["readseq"; 9].join(":")), None);
    }

    #[test]
    fn benchmarks_run_one_after_the_other() {
        let row = Benchmarks::parse("fillseq:updaterandom/2:readseq/3").unwrap();
        let (mut progress, mut rng) = (Progress::new(&row, 250), Seed(1).stream("test"));
        let all: Vec<_> = std::iter::from_fn(|| progress.request(&mut rng)).collect();
        assert_eq!(all.len(), 255);
        let inserted = all[..250].iter().map(|one| one.1);
        assert!(inserted.eq((0..250).map(Request::Insert)));
        let updates = &all[250..252];
        assert!(
            updates
                .iter()
                .all(|one| matches!(one.1, Request::Modify(0..250)))
        );
        let scans: Vec<_> = all[252..].iter().map(|one| one.1).collect();
        let from = |record| Request::Scan(record, 100);
        assert_eq!(scans, [from(0), from(100), from(200)]);
        assert_eq!(all[254].0, "readseq");
    }

    #[test]
    fn readseq_without_a_number_makes_one_pass() {
        let row = Benchmarks::parse("readseq").unwrap();
        let (mut progress, mut rng) = (Progress::new(&row, 250), Seed(1).stream("test"));
        let all = std::iter::from_fn(|| progress.request(&mut rng));
        let from = |record| Request::Scan(record, 100);
        assert!(all.map(|one| one.1).eq([from(0), from(100), from(200)]));
    }
}
