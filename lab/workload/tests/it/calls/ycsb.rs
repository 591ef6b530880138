//! YCSB on both engines.

//= ycsb 4
//= rocksdb 2
use super::model::{Made, Model, run, run_watched};
use workload::files::{Call, Hint};

const SMALL: &str = "records=20000,value=100,threads=4,memtable=64k,table=64k,base=256k,theta=0.5";

#[test]
fn lsm_reaches_a_steady_state_in_bounded_space() {
    let live = 20_000 * 136;
    let mut most = 0;
    let mut calls = 0;
    let text = format!("ycsb-a:{SMALL},ops=300000");
    let run = run_watched(&text, 1, |_: &Made, model: &Model| {
        calls += 1;
        if calls % 256 == 0 {
            most = most.max(model.bytes());
        }
    });
    // A ninth in the levels above the last, level 0, a compaction in progress, logs.
    assert!(most < live * 2, "{most} of {live}");
    let levels = run.made.iter().filter_map(|m| match m.call {
        Call::Hint { life, .. } => Some(life),
        _ => None,
    });
    let levels: Vec<Hint> = levels.collect();
    for life in [Hint::Short, Hint::Medium, Hint::Long] {
        assert!(levels.contains(&life), "{life:?}");
    }
    // 150,000 updates of 136 bytes each reach each of two levels and the log.
    let written = run.model.written as f64 / (150_000.0 * 136.0);
    assert!((3.0..20.0).contains(&written), "{written}");
    // In the second half as much is written as in the first.
    let half = run.made.len() / 2;
    let bytes = |made: &[Made]| -> u64 {
        let sum = made.iter().map(|m| match m.call {
            Call::Write { len, .. } => len,
            _ => 0,
        });
        sum.sum()
    };
    let ratio = bytes(&run.made[half..]) as f64 / bytes(&run.made[..half]) as f64;
    assert!((0.8..1.25).contains(&ratio), "{ratio}");
}

#[test]
fn reads_fetch_few_blocks_and_no_deleted_table() {
    // The model fails reads of closed files, and a table is closed before it is deleted.
    let run = run(&format!("ycsb-c:{SMALL},ops=20000"), 1);
    let tables = run.count("open") - 2;
    let reads = run.count("pread") - 2 * tables;
    assert!((20_000..20_400).contains(&reads), "{reads}");
    assert_eq!(run.model.written, 0);
    let mixed = run_watched(&format!("ycsb-b:{SMALL},ops=60000"), 2, |_, _| {});
    assert!(mixed.count("unlink") > 0);
}

#[test]
fn every_mix_runs_on_both_engines() {
    for engine in ["lsm", "btree"] {
        for mix in ["a", "b", "c", "d", "e", "f"] {
            for sync in ["no", "yes"] {
                let text = format!(
                    "ycsb-{mix}:engine={engine},sync={sync},{SMALL},cache=256k,checkpoint=128k,ops=8000"
                );
                let run = run(&text, 3);
                let syncs = run.count("fdatasync");
                let group = mix != "c" && sync == "yes" && syncs < 100;
                assert!(!group, "{text}: {syncs}");
                assert_eq!(run.text(), super::model::run(&text, 3).text());
            }
        }
    }
}

#[test]
fn btree_pages_are_written_behind_their_log() {
    let text = format!("ycsb-a:engine=btree,{SMALL},cache=512k,checkpoint=256k,ops=100000");
    let run = run(&text, 1);
    // 30 records a page: 667 pages, of which 128 have a frame.
    let leaves = run.made.iter().filter(|m| match m.call {
        Call::Pread { len, .. } => len == 4_096,
        _ => false,
    });
    let misses = leaves.count() as f64 / 100_000.0;
    assert!((0.3..0.95).contains(&misses), "{misses}");
    assert!(run.count("truncate") >= 10, "{}", run.count("truncate"));
    assert_eq!(
        run.model.bytes() / 4_096,
        run.model.bytes().div_ceil(4_096) - 1
    );
    assert!(run.model.bytes() < 667 * 4_096 + 2 * 512 * 1_024);
    assert!(run.count("fdatasync") > 3 * run.count("truncate"));
}

#[test]
fn inserts_extend_the_store_and_scans_cross_pages() {
    for engine in ["lsm", "btree"] {
        let text = format!("ycsb-e:engine={engine},{SMALL},cache=256k,checkpoint=64k,ops=20000");
        let run = run(&text, 1);
        let reads = run.count("pread") as f64 / 19_000.0;
        assert!((1.0..12.0).contains(&reads), "{engine} {reads}");
        assert!(run.model.bytes() > 20_000 * 136);
    }
}

#[test]
fn shares_of_operations_are_those_of_the_mixes() {
    // Every write of one client is one record of the log.
    for (mix, writes) in [
        ("a", 0.5),
        ("b", 0.05),
        ("c", 0.0),
        ("d", 0.05),
        ("e", 0.05),
        ("f", 0.5),
    ] {
        let text =
            format!("ycsb-{mix}:records=2000,value=100,threads=1,ops=20000,memtable=1g,base=1g");
        let run = run(&text, 1);
        let logged = run.made.iter().filter(|m| match m.call {
            Call::Write { len, .. } => len == 136 + 19,
            _ => false,
        });
        let share = logged.count() as f64 / 20_000.0;
        // Five standard errors of a share of a half.
        assert!((share - writes).abs() < 0.018, "{mix}: {share}");
    }
}

/// Number of tables with each lifetime hint, by the map `map`.
fn lifetimes(map: &str) -> [usize; 4] {
    let text = format!("ycsb-a:{SMALL},base=64k,multiplier=2,ops=100000,lifetimes={map}");
    let run = run(&text, 1);
    let said = |wanted: Hint| {
        let hints = run.made.iter().filter(|m| match m.call {
            Call::Hint { life, .. } => life == wanted,
            _ => false,
        });
        hints.count()
    };
    [
        said(Hint::Short),
        said(Hint::Medium),
        said(Hint::Long),
        said(Hint::Extreme),
    ]
}

//= rocksdb-hints 1
//= rocksdb-hints 2
#[test]
fn tuned_map_calls_more_levels_medium_with_as_many_hints() {
    let (native, tuned) = (lifetimes("native"), lifetimes("tuned"));
    assert_eq!(native[0], tuned[0], "logs are short to both");
    assert!(tuned[1] > native[1], "{native:?} {tuned:?}");
    assert!(tuned[2] > 0 && tuned[3] > 0, "the tree has six levels");
    assert_eq!(native.iter().sum::<usize>(), tuned.iter().sum::<usize>());
    assert_eq!(lifetimes("none"), [0; 4]);
}

#[test]
fn fifo_bounds_the_bytes_kept_and_merges_nothing() {
    let most = std::cell::Cell::new(0);
    let text = "db-bench:benchmarks=fillrandom:overwrite,records=40000,value=100,threads=2,\
                memtable=64k,table=64k,compaction=fifo,keep=1m";
    let run = run_watched(text, 1, |_: &Made, model: &Model| {
        most.set(most.get().max(model.bytes()));
    });
    // Besides the tables there are two logs, and dropped tables with a reader.
    assert!(most.get() < (1 << 20) + 6 * (64 << 10), "{}", most.get());
    // Each record once to a log and once to a table.
    let written = run.model.written as f64 / (80_000.0 * 136.0);
    assert!((1.9..2.5).contains(&written), "{written}");
    assert!(run.count("unlink") > 100, "{}", run.count("unlink"));
}
