//! `compare`: the document, the table and the page show the same runs.

use crate::{Bench, cells, sum, trace};
use report::record::{Comparison, Run};
use report::{Style, table};
use serde_json::Value;

const SCHEMA: &str = "flashloom.compare/1";

/// Fields that every run has.
const FIELDS: [&str; 29] = [
    "/schema",
    "/stack",
    "/drive",
    "/workload",
    "/seed",
    "/ops",
    "/ops_per_s",
    "/latency_ns/mean",
    "/latency_ns/p50",
    "/latency_ns/p99",
    "/latency_ns/p99_9",
    "/latency_ns/p99_99",
    "/latency_ns/max",
    "/latency_ns/by_op/write/p99_9",
    "/latency_ns/by_op/read/mean",
    "/host/read_bytes",
    "/host/write_bytes",
    "/host/by_purpose/data/write/byte",
    "/host/by_purpose/data/read/block",
    "/nand/read_pages",
    "/nand/program_pages",
    "/nand/erase_blocks",
    "/nand/by_cause/host",
    "/nand/by_cause/gc",
    "/waf/host",
    "/waf/device",
    "/sim_time_ns",
    "/wall_time_s",
    "/peak_rss_bytes",
];

/// The lines of a document that equal runs repeat.
fn repeatable(document: &str) -> String {
    let varies = |line: &&str| !line.contains("\"wall_time_s\"") && !line.contains("\"peak_rss");
    let lines: Vec<&str> = document.lines().filter(varies).collect();
    lines.join("\n")
}

#[test]
fn a_trace_on_the_default_stacks() {
    let bench = Bench::new();
    bench.write("small.csv", trace(1_500));
    let document = bench.json("compare small.csv --size 64MiB", SCHEMA);
    let runs = document["runs"].as_array().expect("a list");
    let stacks: Vec<_> = runs
        .iter()
        .map(|run| format!("{} {}", run["stack"], run["precondition"]).replace('"', ""))
        .collect();
    assert_eq!(
        stacks,
        ["raw@block aged", "raw@streams aged", "raw@fdp aged"]
    );
    for run in runs {
        for field in FIELDS {
            assert!(run.pointer(field).is_some_and(|v| !v.is_null()), "{field}");
        }
        assert_eq!(run["schema"], "flashloom.run/1");
        assert_eq!(run["ops"], 3000);
        let workload = run["workload"].as_str().expect("text");
        assert!(workload.starts_with("small.csv"), "{workload}");
        let pages = run["nand"]["program_pages"].as_u64().expect("a number");
        let page = run["nand"]["page_bytes"].as_u64().expect("a number");
        assert_eq!(sum(&run["nand"]["by_cause"]), pages * page);
    }
    agrees(&bench.text("report.html"), &document);
}

/// Asserts that every cell of `page` shows the value at its path.
pub(crate) fn agrees(page: &str, document: &Value) {
    let runs = document["runs"].as_array().expect("a list");
    let cells = cells(page);
    let comparison = report::parse(&document.to_string());
    let comparison: Comparison = comparison.expect("it is a comparison");
    let records: Vec<&Run> = comparison.runs.iter().collect();
    let groups = report::metric::GROUPS.iter();
    let groups = groups.filter(|group| group.applies(&records));
    let metrics = groups.flat_map(|group| group.metrics);
    let metrics = metrics.filter(|m| m.is_compared()).count();
    assert_eq!(cells.len(), metrics * runs.len());
    for (run, path, value) in cells {
        // A field that a run lacks is null.
        let found = runs[run].pointer(path).unwrap_or(&Value::Null);
        assert_eq!(found.to_string(), value, "{path} of run {run}");
    }
}

#[test]
fn a_preset_and_its_table() {
    let bench = Bench::new();
    let line = "compare randwrite:ops=1500 --size 64MiB --stacks raw@block,raw@fdp \
                --preconditions aged --report page.html --jobs 1";
    let text = bench.done(&format!("{line} --json"));
    let comparison: Comparison = report::parse(&text).expect("it is a comparison");
    agrees(
        &bench.text("page.html"),
        &serde_json::from_str(&text).expect("it is JSON"),
    );
    assert!(!crate::exists(&bench.path("report.html")));
    // The table must not show values that differ between equal runs.
    let words = |table: &str| -> Vec<String> {
        let lines = table
            .lines()
            .filter(|l| !l.contains("wall") && !l.contains("memory"));
        lines.map(str::to_owned).collect()
    };
    let shown = bench.done(&line.replace("compare ", "compare --workload "));
    let expected = table::summary(&comparison, Style::default());
    assert_eq!(words(shown.trim_end()), words(expected.trim_end()));
    assert!(shown.contains("@fdp"), "{shown}");
}

#[test]
fn the_same_command_gives_the_same_bytes_on_any_number_of_threads() {
    let bench = Bench::new();
    bench.write("small.csv", trace(400));
    let line = "compare small.csv --size 64MiB --json";
    let run = |more: &str| repeatable(&bench.done(&format!("{line} {more}")));
    let first = run("");
    assert_eq!(first, run(""));
    assert_eq!(first, run("--jobs 1"));
    assert_eq!(first, run("--jobs 2"));
    assert_eq!(first, run("--seed 1"));
    assert_ne!(first, run("--seed 2"));
}

/// The first calls of the shipped recording: all of it would take long without optimization.
const SHORT: &str = "compare rocksdb:ops=2000";

#[test]
fn a_recording_on_the_default_stacks() {
    let bench = Bench::new();
    assert!(bench.done("compare --help").contains("[default: rocksdb]"));
    let document = bench.json(&format!("{SHORT} --size 256MiB"), SCHEMA);
    let runs = document["runs"].as_array().expect("a list");
    let named = |run: &Value| format!("{} {}", run["stack"], run["precondition"]);
    let stacks: Vec<_> = runs.iter().map(|run| named(run).replace('"', "")).collect();
    assert_eq!(
        stacks,
        [
            "ext4@block full",
            "ext4@streams full",
            "ext4@fdp full",
            "ext4@block aged",
            "ext4@streams aged",
            "ext4@fdp aged"
        ]
    );
    for run in runs {
        assert_eq!(run["workload"], "rocksdb:ops=2000,think=no");
        assert!(crate::number(run, "/at_load/latency_ns/count") > 0);
        assert_eq!(run["errors"], serde_json::json!({}));
        for purpose in ["data", "journal"] {
            let path = format!("/host/by_purpose/{purpose}/write/total");
            assert!(crate::number(run, &path) > 0, "{purpose}");
        }
    }
    agrees(&bench.text("report.html"), &document);
}

/// The recording determines the size of the drive, unless the user sets it.
#[test]
fn a_recording_has_a_drive_of_its_size() {
    let bench = Bench::new();
    let capacity = |more: &str| {
        let line = format!("run ext4@block --workload rocksdb:ops=9 --precondition fresh {more}");
        crate::number(
            &bench.json(&line, "flashloom.run/1"),
            "/drive/capacity_bytes",
        )
    };
    assert_eq!(capacity(""), 1408 << 20);
    assert_eq!(capacity("--size 256MiB"), 256 << 20);
    assert_eq!(capacity("--drive block"), 4 << 30);
}

#[test]
fn a_recording_gives_the_same_bytes_on_any_number_of_threads() {
    let bench = Bench::new();
    let line = format!("{SHORT} --preconditions aged --size 128MiB --json");
    let run = |more: &str| repeatable(&bench.done(&format!("{line} {more}")));
    let first = run("--jobs 1");
    assert_eq!(first, run("--jobs 2"));
    assert_eq!(first, run("--seed 1"));
}

/// RocksDB's lifetime hints determine the placement handles of its files.
#[test]
fn hints_of_the_recorded_program_choose_handles() {
    let bench = Bench::new();
    let used = |params: &str| -> Vec<u64> {
        let line = format!("run ext4@fdp --workload rocksdb:ops=2000{params} --size 256MiB");
        let run = bench.json(&line, "flashloom.run/1");
        let handles = run["handles"].as_array().expect("a list").iter();
        let used = handles.filter(|handle| crate::number(handle, "/host_bytes") > 0);
        used.map(|handle| crate::number(handle, "/id")).collect()
    };
    // Handles for short (the log) and medium (fresh tables); the last one is the file system's.
    assert_eq!(used(""), [0, 1, 2, 7]);
    assert_eq!(used(",hints=no"), [0, 7]);
}

#[test]
fn a_plan_says_what_varies() {
    let bench = Bench::new();
    bench.write(
        "small.toml",
        "preset = \"fdp\"\ncapacity = \"64MiB\"\n[flash]\npart = \"qlc\"\n",
    );
    let plan = "stacks = [\"raw@fdp\"]\nworkloads = [\"randwrite:ops=200\"]\nseeds = [1, 2]\n\
                drives = [\"small.toml\"]\n\
                overrides.\"placement.handles\" = [1, 4]\n";
    bench.write("plan.toml", plan);
    let document = bench.json("compare plan.toml", SCHEMA);
    let labels: Vec<&str> = document["runs"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|run| run["label"].as_str().expect("text"))
        .collect();
    let expected = ["1", "4"].map(|n| [1, 2].map(|s| format!("placement.handles={n} seed={s}")));
    assert_eq!(labels, expected.concat());
    assert_eq!(document["runs"][0]["drive"]["nand"], "qlc");
    let shown = bench.done("compare plan.toml --verbose");
    assert!(shown.contains("placement.handles=4"), "{shown}");
    for option in [
        "--size 64MiB",
        "--seed 2",
        "--stacks raw@fdp",
        "--preconditions aged",
        "--set name=x",
        "--drive fdp",
        "--format csv",
        "--timeline",
    ] {
        let said = bench.run(&format!("compare plan.toml {option}"));
        let name = option.split(' ').next().unwrap_or_default();
        assert_eq!(said.code, Some(2), "{option}");
        assert!(
            said.err.contains(name) && said.err.contains("plan.toml"),
            "{}",
            said.err
        );
    }
}

/// A stack that cannot run is named, and the others are shown.
#[test]
fn stack_that_cannot_run_does_not_affect_others() {
    let bench = Bench::new();
    let line = "compare create:files=60 --size 256MiB --preconditions full";
    let said = bench.run(&format!("{line} --stacks zonefs@zns,ext4@block"));
    assert_eq!(said.code, Some(1), "{}", said.err);
    for told in ["@block", "left out: zonefs@zns (full): "] {
        assert!(said.out.contains(told), "{told}: {}", said.out);
    }
    let page = bench.text("report.html");
    assert!(page.contains("ext4@block"));
    let said = bench.run(&format!("{line} --stacks ext4@block,zonefs@zns --json"));
    assert_eq!(said.code, Some(1), "{}", said.err);
    let told = "left out: zonefs@zns (full): ";
    assert!(said.err.contains(told), "{}", said.err);
    let comparison: Comparison = report::parse(&said.out).expect("it is a comparison");
    assert_eq!(comparison.runs.len(), 1);
    // A stored run has the hash of its own plan, whatever plan precedes it.
    let history = bench.json("history", "flashloom.history/1");
    let hashes = [0, 1].map(|at: usize| history["runs"][at]["plan_hash"].clone());
    assert!(
        hashes[0].is_string() && hashes[0] == hashes[1],
        "{hashes:?}"
    );
    bench.refuses(
        &format!("{line} --stacks zonefs@zns"),
        &["zonefs@zns (full): "],
    );
}

/// Every stack that can run the workload is ranked by a run of its own; one that cannot has a
/// reason, and does not affect others.
#[test]
fn all_stacks_are_ranked() {
    let bench = Bench::new();
    let line = "compare create:files=60,threads=2,fsync=yes --all --seeds 2 --size 256MiB";
    let ranking = bench.json(line, "flashloom.ranking/1");
    let ranked = ranking["ranked"].as_array().expect("a list");
    let names: Vec<&str> = ranked.iter().filter_map(|r| r["stack"].as_str()).collect();
    for stack in [
        "ext4@block",
        "hyfim@ocssd",
        "bytefs@byte",
        "persimmon@zns",
        "shimmer@zns",
    ] {
        assert!(names.contains(&stack), "{stack} is not in {names:?}");
    }
    let scores = ranked.iter().map(|r| r["score"]["median"].as_f64());
    assert!(
        scores.is_sorted_by(|a, b| a >= b),
        "the best one is not first"
    );
    let left = ranking["left_out"].to_string();
    assert!(
        left.contains("zonefs@zns") && !names.contains(&"zonefs@zns"),
        "{left}"
    );
    let alone = |stack: &str| {
        let line =
            format!("run {stack} --workload create:files=60,threads=2,fsync=yes --size 256MiB");
        bench.json(&line, "flashloom.run/1")["ops_per_s"].as_f64()
    };
    let (bytes, blocks) = (alone("bytefs@byte"), alone("ext4@block"));
    let ratio = bytes.zip(blocks).map(|(x, y)| x / y).expect("numbers");
    let found = ranked
        .iter()
        .find(|r| r["stack"] == "bytefs@byte")
        .expect("it is ranked");
    let speeds = ["least", "most"].map(|end| found["speed"][end].as_f64().expect("a number"));
    assert!(
        speeds.iter().any(|x| (x - ratio).abs() < 1e-9),
        "{speeds:?} {ratio}"
    );
}
