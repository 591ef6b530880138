//! `db_bench`, files that are written in order, and finished operations.

//= rocksdb 2
use super::model::{run, run_watched};
use sim::Seed;
use std::collections::BTreeMap;
use units::Ns;
use workload::files::{Call, FileWorkload, OpenFlags, Source, ThreadId, Turn};

const SMALL: &str = "records=20000,value=100,threads=4,memtable=64k,table=64k,base=256k";
/// Bytes of a record in the log.
const LOGGED: u64 = 136 + 19;

/// Bytes of writes to logs: each write is a group of records.
fn logged(made: &[super::model::Made]) -> u64 {
    let lengths = made.iter().filter_map(|m| match m.call {
        Call::Write { len, .. } if len.is_multiple_of(LOGGED) => Some(len),
        _ => None,
    });
    lengths.sum()
}

#[test]
fn fillseq_starts_empty_and_logs_each_record() {
    let run = run(&format!("db-bench:benchmarks=fillseq,{SMALL}"), 1);
    assert!(
        run.source.setup().entries.len() <= 2,
        "a directory and a manifest"
    );
    let bytes = logged(&run.made);
    assert_eq!(bytes / LOGGED, 20_000);
    // Records filled in order overlap nothing: each is written to the log and to one table.
    let data = run.model.written as f64 / (20_000.0 * 136.0);
    assert!((2.0..2.4).contains(&data), "{data}");
    assert!(run.model.bytes() > 15_000 * 136);
}

#[test]
fn keys_in_any_order_are_merged_more_often_than_keys_in_order() {
    let written = |what: &str| {
        run(&format!("db-bench:benchmarks={what},{SMALL}"), 1)
            .model
            .written
    };
    let (ordered, random) = (written("fillseq"), written("fillrandom"));
    assert!(random * 2 > ordered * 3, "{random} {ordered}");
}

#[test]
fn benchmarks_run_one_after_the_other() {
    let text = format!("db-bench:benchmarks=fillseq:overwrite/5000:readrandom/3000,{SMALL}");
    let mut last = 0;
    let run = run_watched(&text, 2, |_, _| last += 1);
    assert_eq!(logged(&run.made) / LOGGED, 25_000);
    let reads = run.made.iter().rev().take(500);
    let reads = reads.filter(|m| m.call.name() == "pread").count();
    assert!(reads > 300, "reads are last: {reads} of 500");
    assert_eq!(run.text(), super::model::run(&text, 2).text());
}

#[test]
fn store_for_reads_exists_at_the_start() {
    let run = run(&format!("db-bench:benchmarks=readseq/200,{SMALL}"), 1);
    assert!(run.source.setup().entries.len() > 10);
    assert_eq!(run.model.written, 0);
    // 30 records of 136 bytes a block, read once for each scan that has some of them.
    let tables = run.count("open") - 2;
    let reads = run.count("pread") - 2 * tables;
    assert!((800..1_100).contains(&reads), "{reads}");
}

/// Runs the only client of `text` with calls that each take `each`; returns number and total time
/// of the finished operations, by kind.
fn told(text: &str, each: Ns) -> BTreeMap<&'static str, (u64, Ns)> {
    let mut source = FileWorkload::parse(text).unwrap().open(Seed(1)).unwrap();
    let (mut now, mut all) = (Ns::ZERO, BTreeMap::new());
    let mut ready: Vec<ThreadId> = (0..source.threads()).map(ThreadId).collect();
    while let Some(thread) = ready.pop() {
        loop {
            let turn = source.next(thread, now);
            while let Some((kind, latency)) = source.finished() {
                let sum: &mut (u64, Ns) = all.entry(kind).or_default();
                *sum = (sum.0 + 1, sum.1 + latency);
            }
            match turn {
                Turn::Call { think, call, .. } => {
                    now += think + each;
                    let count = match call {
                        Call::Write { len, .. } | Call::Pread { len, .. } => len,
                        _ => 0,
                    };
                    source.ended(thread, Ok(count));
                }
                Turn::Pause(span) => now += span,
                Turn::Park | Turn::Done => break,
            }
        }
        while let Some(woken) = source.wake() {
            ready.push(woken);
        }
    }
    all
}

#[test]
fn operation_latency_is_calls_plus_processor_time() {
    let store = "records=2000,value=100,threads=1,memtable=1g,base=1g";
    let all = told(&format!("ycsb-f:{store},ops=4000"), Ns::us(10));
    let (reads, spent) = all["read"];
    let (changes, changing) = all["modify"];
    assert_eq!(reads + changes, 4_000);
    assert!((1_800..2_200).contains(&reads), "{reads}");
    // 2 µs of processor time; a read of one block, unless the record was just written.
    assert!(
        spent > Ns(reads * 2_000) && spent <= Ns(reads * 12_000),
        "{spent:?}"
    );
    assert!(changing.0 - changes * 12_000 > spent.0 - reads * 2_000 - 1_000_000);
    let named = told(
        &format!("db-bench:benchmarks=updaterandom:readrandom/10,{store}"),
        Ns(1),
    );
    let counts: Vec<_> = named
        .iter()
        .map(|(kind, (count, _))| (*kind, *count))
        .collect();
    assert_eq!(counts, [("readrandom", 10), ("updaterandom", 2_000)]);
}

#[test]
fn streams_write_each_file_in_order_to_its_size() {
    let run = run("streams:files=3,size=1000000,bs=64k", 1);
    let names = ["seq/0", "seq/1", "seq/2"];
    assert!(
        names
            .iter()
            .all(|n| run.source.names().find(n.as_bytes()).is_some())
    );
    assert_eq!((run.model.files(), run.model.dirs()), (3, 1));
    assert_eq!(run.model.bytes(), 3_000_000);
    assert_eq!(run.count("write"), 3 * 16);
    let direct = run.made.iter().filter(|m| match m.call {
        Call::Open { flags, .. } => flags.has(OpenFlags::DIRECT),
        _ => false,
    });
    assert_eq!(direct.count(), 3);
    assert_eq!(run.count("hint"), 3);
}

#[test]
fn stream_continues_behind_a_short_write() {
    let streams = FileWorkload::parse("streams:files=1,size=100,bs=60").unwrap();
    let mut source = streams.open(Seed(1)).unwrap();
    let (mut asked, mut answers) = (Vec::new(), [50, 50].into_iter());
    while let Turn::Call { call, .. } = source.next(ThreadId(0), Ns::ZERO) {
        let count = match call {
            Call::Write { len, .. } => {
                asked.push(len);
                answers.next().unwrap()
            }
            _ => 0,
        };
        source.ended(ThreadId(0), Ok(count));
    }
    assert_eq!(asked, [60, 50]);
    assert_eq!(source.failure(), None);
}
