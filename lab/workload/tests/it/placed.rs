//! Recordings as events of file placement.

use parakeet::event::Call;
use parakeet::judge::{Device, amplification, by_rules, peak};
use parakeet::learn::{Options, learn};
use parakeet::rules::{RuleSet, sets};
use std::io::Cursor;
use workload::files::placed;
use workload::files::trace::{FileTrace, LoadedFiles};

fn loaded(calls: &[&str]) -> LoadedFiles {
    let head = "flashloom file calls 1\n\
        thread process=0 pid=1 tid=1 parent=0 born=0 program=\"/bin/tool\"\n\
        setup-file path=\"old\" mode=0644 size=4096\n";
    let lines = calls.iter().enumerate();
    let lines = lines.map(|(at, call)| format!("{} 0 {call} +5\n", at * 10));
    let end = format!("end events={}\n", calls.len());
    let text = head.to_owned() + &lines.collect::<String>() + &end;
    let trace = FileTrace::from_reader("t", Cursor::new(text.into_bytes())).unwrap();
    trace.load().unwrap()
}

/// Events of the calls: number of the file, and a word with the details.
fn done(calls: &[&str]) -> Vec<String> {
    let loaded = loaded(calls);
    let word = |call| match call {
        Call::Open(open) => format!(
            "open {} {:o} {}",
            String::from_utf8_lossy(open.path),
            open.flags.0,
            open.size
        ),
        Call::Write { offset, len } => format!("write {offset} {len}"),
        Call::Rename { to } => format!("rename {}", String::from_utf8_lossy(to)),
        other => format!("{other:?}").to_lowercase(),
    };
    let events = placed(&loaded);
    assert!(events.is_sorted_by_key(|event| event.at));
    events
        .iter()
        .map(|event| format!("{} {}", event.file.0, word(event.call)))
        .collect()
}

#[test]
fn a_file_is_followed_through_its_names() {
    let calls = [
        "open fd=0 path=\"a\" flags=write|create|truncate mode=0644 = 0",
        "hint fd=0 life=long = EINVAL",
        "pwrite fd=0 at=0 len=10 = 8",
        "pwrite fd=0 at=0 len=10 = ENOSPC",
        "fdatasync fd=0 = 0",
        "rename from=\"a\" to=\"old\" how=replace = 0",
        "close fd=0 = 0",
        "open fd=0 path=\"old\" flags=write|append mode=0 = 0",
        "write fd=0 len=5 = 5",
        "unlink path=\"old\" = 0",
        "close fd=0 = 0",
    ];
    let expected = [
        "2 open a 1101 0",
        "2 hint(long)",
        "2 write 0 8",
        "2 sync",
        "2 rename old",
        "1 gone",
        "2 close",
        "2 open old 2001 8",
        "2 write 8 5",
        "2 close",
        "2 gone",
    ];
    assert_eq!(done(&calls), expected);
}

#[test]
fn links_directories_and_files_without_names() {
    let calls = [
        "open fd=0 path=\"d/x\" flags=write|create mode=0644 = 0",
        "close fd=0 = 0",
        "link of=path path=\"d/x\" to=\"y\" = 0",
        "rename from=\"d\" to=\"e\" how=replace = 0",
        "unlink path=\"y\" = 0",
        "unlink path=\"d/x\" = ENOENT",
        "unlink path=\"e/x\" = 0",
        "open fd=0 path=\"\" flags=write|tmpfile mode=0600 = 0",
        "close fd=0 = 0",
        "truncate of=path path=\"old\" len=0 = 0",
    ];
    let expected = [
        "2 open d/x 101 0",
        "2 close",
        "2 gone",
        "3 open  1 0",
        "3 close",
        "3 gone",
        "1 truncate { len: 0 }",
    ];
    assert_eq!(done(&calls), expected);
}

/// Rules that are learned from the first half of the shipped RocksDB recording serve its second
/// half as well as hand-written rules.
#[test]
fn rules_learned_from_rocksdb_match_handwritten_ones() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../flashloom/traces/rocksdb.flt"
    );
    let loaded = FileTrace::open(path).unwrap().load().unwrap();
    let events = placed(&loaded);
    let (seen, unseen) = events.split_at(events.len() / 2);
    let learned = learn(&seen.iter().copied(), &Options::default()).unwrap();
    let all = || unseen.iter().copied();
    let device = Device::for_peak(peak(all()).unwrap());
    let by = |rules: &RuleSet| by_rules(&device, rules, all()).unwrap().per_mille();
    let hand = |name: &str| by(&RuleSet::read(name, sets::text(name).unwrap()).unwrap());
    let without = amplification(&device, all(), |_| 0).unwrap().per_mille();
    let (native, tuned, own) = (hand("rocksdb"), hand("rocksdb-tuned"), by(&learned.rules));
    println!("without {without}, native {native}, tuned {tuned}, learned {own}");
    assert!(own <= native + 10 && own < without);
    // The learned rules tell logs from tables and use the hints of tables.
    let text = learned.print();
    assert_eq!(RuleSet::read("learned", &text).unwrap(), learned.rules);
    assert!(
        text.contains("path = \"#.log\"") && text.contains("path = \"#.sst\""),
        "{text}"
    );
}
