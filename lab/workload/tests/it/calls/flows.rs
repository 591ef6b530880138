//! filebench's personalities, compared with their definitions.

//= filebench 1.5
use super::model::{run, run_watched};
use std::collections::{BTreeMap, BTreeSet};
use workload::Workload;
use workload::files::{Call, FILE_PRESETS, FileWorkload, OpenFlags, Source, ThreadId};

/// Number of calls of each kind in a run of many loops.
fn mix(text: &str) -> BTreeMap<&'static str, f64> {
    let run = run(text, 1);
    let mut counts: BTreeMap<&str, f64> = BTreeMap::new();
    for made in &run.made {
        *counts.entry(made.call.name()).or_default() += 1.0;
    }
    counts
}

/// Asserts that there are `per` calls `name` for each call `of`, within 3 %.
fn expect(counts: &BTreeMap<&str, f64>, name: &str, per: f64, of: &str) {
    let found = counts[name] / counts[of];
    assert!(
        (found / per - 1.0).abs() < 0.03,
        "{name} per {of}: {found}, {per} expected"
    );
}

#[test]
fn varmail_makes_appends_syncs_reads_and_deletes() {
    let counts = mix("varmail:files=2000,threads=8,ops=60000");
    // Three opens a loop, one of which makes a file; two appends, each synced.
    expect(&counts, "close", 1.0, "open");
    expect(&counts, "fsync", 2.0 / 3.0, "open");
    expect(&counts, "pwrite", 2.0 / 3.0, "open");
    expect(&counts, "unlink", 1.0 / 3.0, "open");
    // A read, and another that finds the end, unless the file is empty.
    let reads = counts["pread"] / counts["open"];
    assert!((1.25..1.34).contains(&reads), "{reads}");
    assert_eq!(counts.len(), 6);
}

#[test]
fn varmail_appends_have_the_mean_of_their_distribution() {
    let run = run("varmail:files=4000,threads=8,ops=60000,append=32k", 3);
    let appends = run.count("pwrite") as f64;
    let mean = run.model.written as f64 / appends;
    // Uniform below 32 KiB; five standard errors.
    let error = 5.0 * 32_768.0 / 12f64.sqrt() / appends.sqrt();
    assert!((mean - 16_384.0).abs() < error, "{mean}");
    let largest = run.made.iter().filter_map(|m| match m.call {
        Call::Pwrite { len, .. } => Some(len),
        _ => None,
    });
    assert!(largest.max().unwrap() < 32_768);
    assert!((2_000..4_000).contains(&run.model.files()));
}

#[test]
fn eighty_per_cent_of_the_files_exist_at_the_start() {
    let workload = FileWorkload::parse("varmail:files=20000").unwrap();
    let source = workload.open(sim::Seed(1)).unwrap();
    let sizes = source.setup().entries.iter().filter_map(|e| match e.kind {
        workload::files::EntryKind::File { size } => Some(size),
        _ => None,
    });
    let sizes: Vec<u64> = sizes.collect();
    assert!((15_700..16_300).contains(&sizes.len()), "{}", sizes.len());
    let mean = sizes.iter().sum::<u64>() as f64 / sizes.len() as f64;
    assert!((mean / 16_384.0 - 1.0).abs() < 0.04, "{mean}");
}

#[test]
fn fileserver_writes_whole_files() {
    let counts = mix("fileserver:files=1000,threads=8,ops=60000");
    expect(&counts, "close", 1.0, "open");
    expect(&counts, "stat", 1.0 / 3.0, "open");
    expect(&counts, "unlink", 1.0 / 3.0, "open");
    assert!(!counts.contains_key("fsync"));
    let run = run("fileserver:files=3000,threads=8,ops=60000", 1);
    let loops = run.count("stat") as f64;
    // A whole file of 128 KiB and an append below 16 KiB a loop.
    let written = run.model.written as f64 / loops;
    assert!(
        (written / (131_072.0 + 8_192.0) - 1.0).abs() < 0.05,
        "{written}"
    );
}

#[test]
fn web_workloads_mostly_read() {
    let counts = mix("webproxy:files=2000,threads=8,ops=60000");
    expect(&counts, "unlink", 1.0 / 6.0, "open");
    expect(&counts, "pwrite", 1.0 / 6.0, "open");
    expect(&counts, "pread", 10.0 / 6.0, "open");
    let counts = mix("webserver:files=1000,threads=8,ops=60000");
    expect(&counts, "pwrite", 0.1, "open");
    expect(&counts, "pread", 2.0, "open");
    assert!(!counts.contains_key("unlink"));
    // Each thread opens the log once and keeps it open.
    let run = run("webserver:files=100,threads=4,ops=10000", 1);
    let writes = run.made.iter().filter(|m| match m.call {
        Call::Open { flags, .. } => flags.has(OpenFlags::WRITE),
        _ => false,
    });
    assert_eq!(writes.count(), 4);
}

#[test]
fn oltp_writers_make_batches_from_the_readers_tokens() {
    let run = run("oltp:files=4,threads=20,size=1m,ops=60000", 1);
    let (reads, writes) = (run.count("pread") as f64, run.count("pwrite") as f64);
    // Each read gives a token to each of ten writers; a thousand tokens allow 100 writes. The log
    // takes 3,200 for one. High-water marks bound the posts that are ahead.
    let paid = reads * 10.0 / 1_000.0 * 100.0;
    let ahead = 10.0 * 400.0;
    assert!((writes - paid).abs() < ahead, "{reads} {writes}");
    let synchronous = |m: &&super::model::Made| match m.call {
        Call::Open { flags, .. } => flags.has(OpenFlags::SYNC),
        _ => false,
    };
    assert!(run.made.iter().filter(synchronous).count() >= 10);
    assert_eq!(run.model.files(), 5);
}

#[test]
fn oltp_has_the_requested_number_of_writers() {
    let processes = |text: &str| {
        let workload = FileWorkload::parse(text).unwrap();
        let source = workload.open(sim::Seed(1)).unwrap();
        let all = (0..source.threads()).map(|thread| source.process(ThreadId(thread)));
        all.collect::<BTreeSet<u32>>().len()
    };
    let usual = processes("oltp:files=4,threads=20,size=1m");
    let four = processes("oltp:files=4,threads=20,size=1m,writers=4");
    assert_eq!((usual, four), (20 + 10 + 1, 20 + 4 + 1));
}

#[test]
fn micro_workloads_end_when_all_is_done() {
    let made = run("create:files=500,threads=5,fsync=yes", 1);
    assert_eq!((made.count("open"), made.count("pwrite")), (500, 500));
    assert_eq!((made.count("fsync"), made.model.files()), (500, 500));
    assert_eq!(made.model.bytes(), 500 * 4_096);
    let deleted = run("delete:files=500,threads=5", 1);
    assert_eq!((deleted.count("unlink"), deleted.model.files()), (500, 0));
    let made = run("mkdir:files=500,threads=5,dirwidth=10", 1);
    assert_eq!(made.count("mkdir"), 500);
    let removed = run("rmdir:files=500,threads=5,dirwidth=10", 1);
    assert_eq!(removed.count("rmdir"), 500);
    assert_eq!(made.model.dirs() - removed.model.dirs(), 500);
    assert!(removed.source.notes().is_empty());
}

#[test]
fn overwrites_stay_within_and_appends_extend_their_files() {
    let over = run("overwrite:size=64k,bs=512:4k,fsync=4,threads=2,ops=4000", 1);
    assert_eq!(over.model.bytes(), 2 * 65_536);
    let syncs = over.count("fsync") as f64 / over.count("pwrite") as f64;
    assert!((syncs - 0.25).abs() < 0.01, "{syncs}");
    let order = run("overwrite:order=sequential,size=64k,bs=4k,ops=101", 1);
    let places = order.made.iter().filter_map(|m| match m.call {
        Call::Pwrite { at, .. } => Some(at / 4_096),
        _ => None,
    });
    let expected: Vec<u64> = (0..100).map(|i| i % 16).collect();
    assert_eq!(places.collect::<Vec<_>>(), expected);
    let grown = run("append:bs=1000,ops=101", 1);
    assert_eq!(grown.model.bytes(), 100_000);
}

#[test]
fn equal_seeds_make_equal_calls_and_sizes_ignore_the_threads() {
    for text in [
        "varmail:files=300,ops=5000",
        "oltp:files=2,size=1m,threads=9,ops=5000",
    ] {
        assert_eq!(run(text, 7).text(), run(text, 7).text());
        assert_ne!(run(text, 7).text(), run(text, 8).text());
    }
    let setup = |text: &str| {
        let source = FileWorkload::parse(text)
            .unwrap()
            .open(sim::Seed(4))
            .unwrap();
        source.setup().clone()
    };
    assert_eq!(setup("varmail:threads=1"), setup("varmail:threads=99"));
}

#[test]
fn run_with_too_few_files_ends_with_a_note_or_continues() {
    for text in [
        "varmail:files=5,threads=12,ops=20000",
        "varmail:files=1,threads=3,ops=1000",
        "fileserver:files=3,threads=9,ops=20000",
        "webproxy:files=2,threads=4,ops=20000",
        "webserver:files=1,threads=30,ops=20000",
    ] {
        for seed in 1..6 {
            let run = run(text, seed);
            let dry = run
                .source
                .notes()
                .iter()
                .any(|note| note.contains("more files"));
            assert!(dry || run.made.len() > 900, "{text} {}", run.made.len());
        }
    }
}

#[test]
fn time_and_calls_bound_a_run() {
    let run = run("varmail:files=100,threads=2,time=5ms,ops=0", 1);
    assert!(run.time.0 < 5_100_000 && run.made.len() > 100);
    let mut most = 0;
    let limited = run_watched("varmail:files=100,threads=9,ops=1234", 1, |_, _| most += 1);
    assert_eq!((most, limited.made.len()), (1_234, 1_234));
}

#[test]
fn every_preset_runs_with_its_defaults_made_small() {
    let small = [
        ("files", "40"),
        ("ops", "600"),
        ("records", "2000"),
        ("threads", "3"),
    ];
    // Many calls of `anything` fail, and `ace` opens directories as files, which the model refuses.
    let presets = FILE_PRESETS
        .iter()
        .filter(|p| !["anything", "ace"].contains(&p.name));
    for preset in presets {
        let given = small
            .iter()
            .filter(|(name, _)| preset.param(name).is_some());
        let given: Vec<String> = given
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let text = format!("{}:{}", preset.name, given.join(","));
        assert!(!run(&text, 1).made.is_empty(), "{text}");
        let full: Vec<String> = preset
            .params()
            .map(|p| format!("{}={}", p.name, p.default))
            .collect();
        FileWorkload::parse(&format!("{}:{}", preset.name, full.join(","))).unwrap();
    }
}

#[test]
fn workloads_of_blocks_and_of_files_are_told_apart() {
    let says = |e: workload::WorkloadError| e.to_string();
    let blocks = says(Workload::parse("varmail:files=10").unwrap_err());
    assert!(
        blocks.starts_with("varmail is a file workload: expected"),
        "{blocks}"
    );
    let files = says(FileWorkload::parse("zipfwrite:bs=4k").unwrap_err());
    assert!(
        files.starts_with("zipfwrite is a block workload: expected"),
        "{files}"
    );
    // Some presets exist for both.
    for both in ["randwrite", "randread", "randrw"] {
        let text = format!("{both}:bs=4k,ops=10");
        Workload::parse(&text).unwrap();
        FileWorkload::parse(&text).unwrap();
        assert!(!workload::files::asks_for_files(&text));
    }
    let near = says(FileWorkload::parse("varmial").unwrap_err());
    assert!(near.ends_with("did you mean varmail"), "{near}");
    let unknown = says(FileWorkload::parse("varmail:file=3").unwrap_err());
    assert!(unknown.contains("did you mean files"), "{unknown}");
    let value = says(FileWorkload::parse("varmail:dirwidth=1").unwrap_err());
    assert!(value.contains("dirwidth: expected 0 or"), "{value}");
    let small = FileWorkload::parse("ycsb-a:memtable=100")
        .unwrap()
        .open(sim::Seed(1));
    assert!(says(small.err().unwrap()).contains("expected a memtable"));
}

#[test]
fn randrw_has_the_requested_share_of_reads() {
    let made = run("randrw:read=25,bs=4k,size=1m,threads=1,ops=1000", 1).made;
    let reads = made
        .iter()
        .filter(|made| matches!(made.call, Call::Pread { .. } | Call::Read { .. }));
    let (reads, all) = (reads.count(), made.len());
    assert!(
        (230..=250).contains(&(reads * 1000 / all)),
        "{reads} of {all}"
    );
    let made = run("randread:bs=4k,size=1m,threads=1,ops=1000", 1).made;
    let writes = made
        .iter()
        .filter(|made| matches!(made.call, Call::Pwrite { .. } | Call::Write { .. }));
    assert_eq!(writes.count(), 0);
}

#[test]
fn number_of_calls_is_known_unless_another_limit_applies() {
    let calls = |text: &str| FileWorkload::parse(text).unwrap().calls();
    assert_eq!(calls("varmail:ops=500"), Some(500));
    assert_eq!(calls("anything:ops=300"), Some(300));
    for text in ["varmail:ops=0", "varmail:time=1s", "ycsb-a:ops=10"] {
        assert_eq!(calls(text), None, "{text}");
    }
}
