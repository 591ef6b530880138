//! `run`, and the shipped trace.

use crate::{Bench, cells, number, sum, trace};
use std::path::Path;

const SCHEMA: &str = "flashloom.run/1";

#[test]
fn the_shipped_trace_runs_by_its_name() {
    let bench = Bench::new();
    let run = bench.json("run raw@block --workload postgres-ext4", SCHEMA);
    assert!(number(&run, "/ops") >= 200_000);
    assert_eq!(run["workload"], "postgres-ext4");
    assert_eq!(run["errors"], serde_json::json!({}));
}

#[test]
fn the_shipped_trace_is_long_enough_to_mean_something() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces/postgres-ext4.csv.zst");
    let path = path.to_str().expect("it is text");
    let info = Bench::new().json(&format!("trace info {path}"), "flashloom.trace-info/1");
    assert!(number(&info, "/requests") >= 200_000);
    assert_eq!(info["format"], "csv");
}

#[test]
fn a_stack_of_files_runs_the_shipped_recording() {
    let bench = Bench::new();
    let run = bench.json("run ext4@block --workload rocksdb:ops=3000", SCHEMA);
    assert_eq!(
        (number(&run, "/ops"), &run["errors"]),
        (3000, &serde_json::json!({}))
    );
    assert_eq!(run["workload"], "rocksdb:ops=3000");
    let listed = bench.done("workloads");
    assert!(
        listed.contains("rocksdb") && listed.contains("postgres-ext4"),
        "{listed}"
    );
    assert!(bench.done("workloads rocksdb").contains("think"));
    // Programs for memory are listed too; a name that two share shows both.
    assert!(
        listed.contains("bfs") && listed.contains("dlrm"),
        "{listed}"
    );
    assert!(bench.done("workloads bfs").contains("section"));
    let both = bench.done("workloads tpcc");
    assert!(
        both.contains("mysql") && both.contains("in memory"),
        "{both}"
    );
}

#[test]
fn a_timeline_and_a_page_belong_to_the_run() {
    let bench = Bench::new();
    let line = "run raw@fdp --workload randwrite:ops=4000 --size 64MiB --timeline=1ms \
                --report page.html";
    let run = bench.json(line, SCHEMA);
    let samples = run["timeline"].as_array().expect("a list");
    assert!(samples.len() > 2, "{}", samples.len());
    let ops: u64 = samples.iter().map(|s| number(s, "/ops")).sum();
    assert_eq!(ops, 4000);
    let page = bench.text("page.html");
    let cells = cells(&page);
    let groups = report::metric::GROUPS
        .iter()
        .filter(|group| group.of == report::metric::Of::All);
    let metrics: usize = groups.map(|group| group.metrics.len()).sum();
    assert_eq!(cells.len(), metrics);
    for (_, path, value) in cells {
        assert_eq!(run.pointer(path).expect(path).to_string(), value, "{path}");
    }
    let told = bench.done(line);
    assert!(
        told.contains("raw@fdp") && told.lines().count() > 20,
        "{told}"
    );
    let plain = bench.json(
        "run raw@fdp --workload randwrite:ops=4000 --size 64MiB",
        SCHEMA,
    );
    assert_eq!(plain["timeline"], serde_json::json!([]));
    assert_eq!(plain["latency_ns"], run["latency_ns"]);
}

#[test]
fn knobs_and_drives_change_the_run() {
    let bench = Bench::new();
    bench.write(
        "mine.toml",
        "preset = \"block\"\ncapacity = \"64MiB\"\nflash.part = \"qlc\"\n",
    );
    let line = "run raw@block --workload randread:ops=500 --drive mine.toml";
    let run = bench.json(line, SCHEMA);
    assert_eq!(
        (&run["drive"]["nand"], &run["drive"]["name"]),
        (&"qlc".into(), &"mine".into())
    );
    assert_eq!(run["precondition"], "aged");
    let faster = bench.json(&format!("{line} --set flash.part=slc"), SCHEMA);
    assert_eq!(faster["drive"]["nand"], "slc");
    let p50 = |run| number(run, "/latency_ns/p50");
    assert!(p50(&faster) < p50(&run));
    // The stack determines the interface.
    let other = bench.json(&line.replace("raw@block", "raw@fdp"), SCHEMA);
    assert_eq!(other["drive"]["interface"], "fdp");
    assert_eq!(other["drive"]["geometry"], run["drive"]["geometry"]);
}

#[test]
fn conventional_zones_take_their_flash_from_the_others() {
    let bench = Bench::new();
    for zones in [8, 16] {
        let line = "run f2fs@zns --workload create:files=50 --size 1GiB";
        let run = bench.json(&format!("{line} --set zones.conventional={zones}"), SCHEMA);
        let bytes = number(&run, "/drive/capacity_bytes");
        let (least, most) = (900 << 20, 1_040 << 20);
        assert!((least..most).contains(&bytes), "{zones}: {bytes}");
    }
}

#[test]
fn a_small_page_cache_misses_more() {
    let bench = Bench::new();
    let line = "run ext4@block --workload webserver:files=200,ops=2000 --size 256MiB";
    let large = bench.json(line, SCHEMA);
    let small = bench.json(&format!("{line} --set page_cache.memory=256KiB"), SCHEMA);
    let misses = |run| number(run, "/app/cache_misses");
    assert!(misses(&small) > misses(&large) * 2);
    let slow = format!("{line} --set host.cpu.submit=1ms");
    assert!(number(&bench.json(&slow, SCHEMA), "/sim_time_ns") > number(&large, "/sim_time_ns"));
    // Every listed knob accepts its own value.
    let listed = bench.done("stacks");
    let knobs = listed.lines().filter_map(|line| line.strip_prefix("  "));
    let set: Vec<String> = knobs
        .filter(|knob| knob.contains('='))
        .map(|knob| format!(" --set {}", knob.replace('"', "")))
        .collect();
    assert!(set.len() > 20, "{listed}");
    let same = bench.json(&(line.to_owned() + &set.concat()), SCHEMA);
    assert_eq!(same["app"], large["app"]);
    assert_eq!(same["latency_ns"], large["latency_ns"]);
}

#[test]
fn the_knobs_that_are_listed_make_the_drive_again() {
    let bench = Bench::new();
    bench.write("all.toml", bench.done("drives fdp"));
    let line = "run raw@fdp --workload randwrite:ops=300 --size 64MiB --drive";
    let preset = bench.json(&format!("{line} fdp"), SCHEMA);
    let listed = bench.json(&format!("{line} all.toml"), SCHEMA);
    assert_eq!(preset["latency_ns"], listed["latency_ns"]);
    assert_eq!(preset["nand"], listed["nand"]);
}

#[test]
fn a_drive_file_keeps_what_it_has_been_through() {
    let bench = Bench::new();
    bench.done("drive create d.flash --preset fdp --size 64MiB");
    let smart = || bench.json("drive smart d.flash", "flashloom.smart/1");
    let (fresh, before) = (smart(), bench.read("d.flash"));
    assert_eq!(number(&fresh, "/host_write_bytes"), 0);
    let line = "run raw@fdp --workload randwrite:ops=1000,bs=4k --drive d.flash";
    let run = bench.json(line, SCHEMA);
    assert_eq!(run["precondition"], "kept");
    assert_eq!(bench.read("d.flash"), before);
    bench.done(&format!("{line} --save"));
    let (once, grown) = (smart(), number(&smart(), "/host_write_bytes"));
    assert_eq!(grown, 1000 * 4096);
    assert!(number(&once, "/programmed_bytes") >= grown);
    assert!(number(&once, "/power_cycles") > number(&fresh, "/power_cycles"));
    bench.done(&format!("{line} --save"));
    assert_eq!(number(&smart(), "/host_write_bytes"), 2 * grown);
    assert!(bench.done("drive smart d.flash").contains("host writes"));
    for refused in [
        "--precondition aged",
        "--size 32MiB --save --precondition full",
    ] {
        assert_eq!(
            bench.run(&format!("{line} {refused}")).code,
            Some(2),
            "{refused}"
        );
    }
}

#[test]
fn a_trace_is_the_same_in_every_format() {
    let bench = Bench::new();
    bench.write("small.csv", trace(300));
    let line = "run raw@block --size 64MiB --trace";
    let csv = bench.json(&format!("{line} small.csv"), SCHEMA);
    for format in ["mqsim", "msr", "fio", "blkparse", "flb"] {
        let out = format!("small.{format}.zst");
        bench.done(&format!("trace convert small.csv {out} --to {format}"));
        let run = bench.json(&format!("{line} {out} --format {format}"), SCHEMA);
        assert_eq!(run["ops"], csv["ops"], "{format}");
        assert_eq!(
            run["host"]["write_bytes"], csv["host"]["write_bytes"],
            "{format}"
        );
        assert_eq!(
            sum(&run["nand"]["by_cause"]),
            sum(&csv["nand"]["by_cause"]),
            "{format}"
        );
    }
    let twice = bench.json(&format!("{line} small.flb.zst:repeat=2"), SCHEMA);
    assert_eq!(
        twice["ops"].as_u64(),
        csv["ops"].as_u64().map(|ops| 2 * ops)
    );
    let head = bench.json("trace head small.csv -n 3", "flashloom.trace-head/1");
    assert_eq!(head["requests"].as_array().map(Vec::len), Some(3));
    assert_eq!(head["requests"][1]["op"], "read");
}

#[test]
fn the_shipped_trace_is_looked_into_by_its_name() {
    let bench = Bench::new();
    let info = bench.done("trace info postgres-ext4");
    assert!(info.contains("391,515"), "{info}");
    let info = bench.json("trace info rocksdb", "flashloom.file-trace-info/1");
    assert_eq!(
        (&info["file"], &info["root"]),
        (&"rocksdb".into(), &"/srv".into())
    );
    assert!(number(&info, "/calls") > 100_000);
    let head = bench.done("trace head rocksdb");
    assert!(head.contains("open fd=0"), "{head}");
}
