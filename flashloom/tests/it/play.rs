//! File workloads played as real system calls in a directory.

use crate::{Bench, Guarded};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// Number of calls by kind.
fn counts(played: &Value) -> Vec<(String, u64)> {
    let kinds = played["calls"].as_array().expect("a list");
    let count = |kind: &Value| {
        let name = kind["name"].as_str().expect("a name").to_owned();
        (name, kind["count"].as_u64().expect("a number"))
    };
    kinds.iter().map(count).collect()
}

/// Sizes of all files below `dir`, by path.
fn sizes(dir: &Path) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        match fs::metadata(&path).expect("it is there") {
            meta if meta.is_dir() => found.extend(sizes(&path)),
            meta => found.push((path.to_string_lossy().into_owned(), meta.len())),
        }
    }
    found.sort();
    found
}

#[test]
fn a_thread_leaves_the_same_files_each_time() {
    let bench = Bench::new();
    let workload = "varmail:files=60,threads=1,ops=900";
    let left = |name: &str| {
        fs::create_dir(bench.path(name)).expect("it can be made");
        let line = format!("play {workload} --on {name}");
        let played = bench.json(&line, "flashloom.play/1");
        assert_eq!(
            (&played["ops"], &played["mismatches"]),
            (&900.into(), &0.into())
        );
        let files = sizes(&bench.path(name)).into_iter();
        let below = |(path, len): (String, u64)| {
            let (_, path) = path.split_once(name).expect("below it");
            (path.to_owned(), len)
        };
        (counts(&played), files.map(below).collect::<Vec<_>>())
    };
    assert_eq!(left("first"), left("again"));
}

#[test]
fn files_can_be_made_before() {
    let bench = Bench::new();
    fs::create_dir(bench.path("dir")).expect("it can be made");
    let workload = "fileserver:files=20,threads=3,ops=200,size=4k";
    let line = format!("play {workload} --on dir --setup-only");
    bench.json(&line, "flashloom.play.setup/1");
    let bytes: u64 = sizes(&bench.path("dir")).iter().map(|file| file.1).sum();
    assert!(bytes > 0);
    bench.refuses(
        &format!("play {workload} --on dir"),
        &["dir", "empty directory", "--no-setup"],
    );
    let line = format!("play {workload} --on dir --no-setup");
    let played = bench.json(&line, "flashloom.play/1");
    assert_eq!(played["ops"], 200);
    assert!(
        counts(&played)
            .iter()
            .any(|(name, count)| name == "unlink" && *count > 0)
    );
    let errors = played["calls"].as_array().expect("a list").iter();
    assert!(
        errors
            .map(|kind| &kind["errors"])
            .all(|e| e == &serde_json::json!({}))
    );
}

#[test]
fn invalid_play_is_rejected() {
    let bench = Bench::new();
    bench.refuses(
        "play varmail --on missing",
        &["missing", "expected a directory"],
    );
    bench.refuses("play nothing --on .", &["nothing"]);
    bench.refuses("play hotcold --on .", &["hotcold", "block workload"]);
    bench.refuses(
        "play varmail --on . --setup-only --no-setup",
        &["--no-setup"],
    );
}

/// The answer covers the calls up to the signal.
#[test]
fn playing_ended_by_a_signal_answers_with_what_was_played() {
    for (signal, status) in [("-TERM", 143), ("-INT", 130)] {
        let bench = Bench::new();
        fs::create_dir(bench.path("dir")).expect("it can be made");
        let line = "play varmail:files=20,threads=4,ops=1000000000 --on dir --json";
        let out = fs::File::create(bench.path("out")).expect("made");
        let child = crate::heeding()
            .args(line.split_whitespace())
            .current_dir(bench.folder.path())
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(Stdio::null())
            .spawn();
        let mut child = Guarded(child.expect("the program starts"));
        crate::soak::await_handler(&child.0.id().to_string());
        std::thread::sleep(Duration::from_millis(50));
        child.signal(signal);
        assert_eq!(child.ended().code(), Some(status));
        let played: Value = serde_json::from_slice(&bench.read("out")).expect("a document");
        assert_eq!(played["threads"], 4);
        let ops = played["ops"].as_u64().expect("a number");
        assert!(ops > 0 && ops < 1_000_000_000, "{ops}");
        assert!(
            played["notes"].to_string().contains("ended the run"),
            "{played:#}"
        );
    }
}
