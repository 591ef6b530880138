//! Traces of runs: complete, exact and without effect.

use crate::{done, plan};
use ssd::Precondition;
use stack::{Plan, Tracer, media, run_on};
use std::collections::BTreeMap;
use units::Bytes;

/// The table of commands and the events of a run, whose record is that of a run without a trace.
fn traced(plan: &Plan) -> (Vec<BTreeMap<String, String>>, Vec<serde_json::Value>) {
    let mut tracer = Tracer::new(Some(Vec::new()), Some(Vec::new()));
    let media = media(plan).unwrap();
    let (mut run, _) = run_on(plan, media, &mut |sight| tracer.see(sight).unwrap()).unwrap();
    let (requests, events) = tracer.finish().unwrap();
    let mut alone = done(plan);
    for run in [&mut run, &mut alone] {
        (run.wall_time_s, run.peak_rss_bytes) = (0.0, 0);
    }
    assert_eq!(run, alone);
    let table = String::from_utf8(requests.unwrap()).unwrap();
    let mut lines = table.lines().map(|line| line.split(',').map(str::to_owned));
    let names: Vec<String> = lines.next().unwrap().collect();
    let rows = lines.map(|line| names.iter().cloned().zip(line).collect());
    let document: serde_json::Value = serde_json::from_slice(&events.unwrap()).unwrap();
    let events = document["traceEvents"].as_array().unwrap().clone();
    (rows.collect(), events)
}

/// Value of a column; zero if it is empty.
fn number(row: &BTreeMap<String, String>, name: &str) -> u64 {
    match row[name].as_str() {
        "" => 0,
        text => text.parse().unwrap(),
    }
}

const PARTS: [&str; 10] = [
    "submit_ns",
    "firmware_ns",
    "map_ns",
    "buffer_ns",
    "die_wait_ns",
    "die_ns",
    "channel_wait_ns",
    "channel_ns",
    "other_ns",
    "complete_ns",
];

fn check_parts(rows: &[BTreeMap<String, String>]) {
    for row in rows {
        let parts: u64 = PARTS.iter().map(|part| number(row, part)).sum();
        assert_eq!(parts, number(row, "latency_ns"), "{row:?}");
    }
}

/// Checks that the slices of each track do not overlap, in units of a nanosecond.
fn check_slices(events: &[serde_json::Value]) {
    let nanos = |value: &serde_json::Value| (value.as_f64().unwrap() * 1000.0).round() as u64;
    let mut tracks: BTreeMap<(u64, u64), Vec<(u64, u64)>> = BTreeMap::new();
    for event in events.iter().filter(|event| event["ph"] == "X") {
        let track = ["pid", "tid"].map(|name| event[name].as_u64().unwrap());
        let (begin, span) = (nanos(&event["ts"]), nanos(&event["dur"]));
        let slices = tracks.entry(track.into()).or_default();
        slices.push((begin, begin + span));
    }
    for (track, slices) in &mut tracks {
        slices.sort_unstable();
        let apart = slices.windows(2).all(|pair| pair[0].1 <= pair[1].0);
        assert!(apart, "{track:?}");
    }
}

#[test]
fn random_reads_and_writes_have_their_parts() {
    let workload = "randrw:ops=20000,depth=16,read=70";
    let mut plan = plan("raw@block", 64, Precondition::Aged, workload);
    plan.drive.flash.suspend_limit = 4;
    let (rows, events) = traced(&plan);
    assert_eq!(rows.len(), 20_000);
    check_parts(&rows);
    check_slices(&events);
    let sum = |name: &str| rows.iter().map(|row| number(row, name)).sum::<u64>();
    assert!(sum("die_ns") > 0 && sum("die_wait_ns") > 0);
    assert_eq!(sum("other_ns") + sum("map_ns"), 0);
    assert!(rows.iter().any(|row| row["behind"] == "program"));
    let count = |name: &str| events.iter().filter(|event| event["name"] == name).count();
    assert!(count("gc") > 0 && count("erase") > 0 && count("write buffer (pages)") > 0);
    let ends = events.iter().filter(|event| event["ph"] == "e");
    assert_eq!(ends.count(), 20_000);
}

#[test]
fn commands_of_jobs_zones_and_file_systems_are_traced() {
    let job = "[a]\nrw=randread\nbs=8k\niodepth=4\nnumber_ios=500\n[b]\nrw=write\nnumber_ios=100\n";
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("j.fio");
    std::fs::write(&path, job).unwrap();
    let cases = [
        ("raw@block", 64, Precondition::Full, path.to_str().unwrap()),
        ("raw@zns", 512, Precondition::Fresh, "seqwrite:ops=2000"),
        (
            "ext4@block",
            128,
            Precondition::Full,
            "varmail:files=50,ops=300",
        ),
        (
            "f2fs@zns",
            512,
            Precondition::Fresh,
            "varmail:files=50,ops=300",
        ),
        (
            "btrfs@ocssd",
            128,
            Precondition::Fresh,
            "varmail:files=50,ops=300",
        ),
        (
            "bytefs@byte",
            128,
            Precondition::Full,
            "varmail:files=50,ops=300",
        ),
    ];
    for (stack, mib, past, workload) in cases {
        let (rows, events) = traced(&plan(stack, mib, past, workload));
        assert!(rows.len() > 20, "{stack}: {}", rows.len());
        check_parts(&rows);
        check_slices(&events);
        assert!(rows.iter().all(|row| row["result"] == "ok"), "{stack}");
    }
}

#[test]
fn writes_wait_for_the_buffer_and_misses_for_translation_pages() {
    let cases = [
        ("randwrite:ops=8000,depth=64", Bytes(0), "buffer_ns"),
        ("randrw:ops=4000", Bytes(64 << 10), "map_ns"),
    ];
    for (workload, cache, part) in cases {
        let mut plan = plan("raw@block", 256, Precondition::Aged, workload);
        plan.drive.mapping.cache = cache;
        let (rows, _) = traced(&plan);
        check_parts(&rows);
        assert!(rows.iter().any(|row| number(row, part) > 0), "{part}");
    }
}
