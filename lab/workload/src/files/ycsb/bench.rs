//! Benchmarks as `db_bench` of `RocksDB` has them, one after the other.
//!
//! Invariant: the next one begins when the last operation of one has begun.

use super::clients::Request;
use sim::Rng;

/// Most of them in a row.
const MOST: usize = 8;
/// Records that one operation of `readseq` reads.
const SCAN: u32 = 100;

/// A benchmark. Keys are as likely as each other where they are drawn.
//= rocksdb 2
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Benchmark {
    /// New records in the order of their keys, into an empty store.
    FillSeq,
    /// Records in any order, into an empty store.
    FillRandom,
    /// Records are written over.
    Overwrite,
    /// Records are read and written over.
    UpdateRandom,
    ReadRandom,
    /// A hundred records at a time, in the order of their keys.
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

    /// Its name, as `db_bench` has it.
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

/// Benchmarks in a row, with how many operations each has; none for as many as all records
/// take once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Benchmarks([Option<(Benchmark, Option<u64>)>; MOST]);

impl Benchmarks {
    /// Names with or without a number of operations: `fillseq:overwrite/1000`. Those that
    /// fill come first.
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

    /// Whether the store is empty at first.
    pub(super) fn fills(&self) -> bool {
        self.0[0].is_some_and(|(one, _)| one.fills())
    }
}

/// How far the benchmarks of a run are.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    row: Vec<(Benchmark, u64)>,
    at: usize,
    /// The next record in the order of keys.
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

    /// The next operation; none when all are done.
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

    /// Goes on by so many records, from the first one again after the last.
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
    fn rows_are_read() {
        assert!(Benchmarks::parse("fillseq:overwrite/10:readrandom").is_some_and(|b| b.fills()));
        assert!(Benchmarks::parse("readrandom").is_some_and(|b| !b.fills()));
        for wrong in ["", "fill", "overwrite/0", "overwrite/x", "readseq:fillseq"] {
            assert_eq!(Benchmarks::parse(wrong), None, "{wrong}");
        }
        assert_eq!(Benchmarks::parse(&["readseq"; 9].join(":")), None);
    }

    #[test]
    fn each_has_its_operations_and_then_the_next() {
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
    fn records_are_read_in_order_once_where_no_number_is_given() {
        let row = Benchmarks::parse("readseq").unwrap();
        let (mut progress, mut rng) = (Progress::new(&row, 250), Seed(1).stream("test"));
        let all = std::iter::from_fn(|| progress.request(&mut rng));
        let from = |record| Request::Scan(record, 100);
        assert!(all.map(|one| one.1).eq([from(0), from(100), from(200)]));
    }
}
