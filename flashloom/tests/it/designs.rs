//! `memory`, and `compare` of memory designs: the document and the tables show the same runs, and
//! options for drives are rejected.

use crate::{Bench, attribute, number};
use serde_json::Value;

const SCHEMA: &str = "flashloom.memory-runs/1";
const SMALL: &str = "synthetic:threads=2,footprint=4MiB,section=20000";

/// All designs, in the order of tables.
const DESIGNS: [&str; 11] = [
    "base-cssd",
    "skybyte-c",
    "skybyte-p",
    "skybyte-w",
    "skybyte-cp",
    "skybyte-wp",
    "skybyte-full",
    "skybyte-ct",
    "skybyte-wct",
    "astriflash-cxl",
    "dram-only",
];

fn runs(document: &Value) -> &Vec<Value> {
    document["runs"].as_array().expect("a list")
}

fn real(value: &Value, pointer: &str) -> f64 {
    let found = value.pointer(pointer).and_then(Value::as_f64);
    found.unwrap_or_else(|| panic!("{pointer} is no number"))
}

/// The cells of the row of `design` in the table with the title `title`.
fn row<'a>(text: &'a str, title: &str, design: &str) -> Vec<&'a str> {
    let table = text.split("\n\n").find(|table| table.contains(title));
    let mut lines = table.expect(title).lines();
    let line = lines.find(|line| line.starts_with(design)).expect(design);
    // A number and its unit are one cell: at least two blanks separate cells.
    line.split("  ")
        .map(str::trim)
        .filter(|c| !c.is_empty())
        .collect()
}

#[test]
fn a_program_for_memory_is_compared_on_all_designs() {
    let bench = Bench::new();
    let document = bench.json(&format!("compare --workload {SMALL}"), SCHEMA);
    let runs = runs(&document);
    let designs: Vec<_> = runs
        .iter()
        .map(|run| run["design"].as_str().unwrap())
        .collect();
    assert_eq!(designs, DESIGNS);
    let base = number(&runs[0], "/time_ns") as f64;
    for run in runs {
        assert_eq!(
            (&run["schema"], &run["versus"]),
            (&"flashloom.memory/1".into(), &"base-cssd".into())
        );
        let time = number(run, "/time_ns") as f64;
        assert!((real(run, "/speed_up") - base / time).abs() < 1e-9);
        let parts = ["host_dram", "ssd_dram", "flash"];
        let sum: f64 = parts
            .iter()
            .map(|part| real(run, &format!("/amat/{part}/adds_ns")))
            .sum();
        assert!((sum - real(run, "/amat/mean_ns")).abs() < 1e-6, "{run}");
        for field in ["/memory_bound", "/cost/cheaper", "/cost/cost_effectiveness"] {
            assert!(real(run, field) > 0.0, "{field}");
        }
        for field in [
            "/flash/read_pages",
            "/flash/program_pages",
            "/switches/all",
            "/moves/promotions",
        ] {
            number(run, field);
        }
    }
    assert!(crate::exists(&bench.path("flashloom.db")));
    page_is_of(&document, &bench.text("report.html"));
}

/// Asserts that every cell of the table of `page` agrees with `document`, which the page embeds.
fn page_is_of(document: &Value, page: &str) {
    let tags = page.split("<td").filter_map(|rest| rest.split_once('>'));
    let mut cells = 0;
    for (tag, _) in tags {
        let Some(path) = attribute(tag, "data-path") else {
            continue;
        };
        let value = document.pointer(path).unwrap_or(&Value::Null);
        assert_eq!(
            attribute(tag, "data-value"),
            Some(value.to_string().as_str()),
            "{path}"
        );
        cells += 1;
    }
    assert!(cells > 10 * runs(document).len(), "{cells} cells");
    let (_, embedded) = page.split_once("<script").expect("it has its document");
    let (_, embedded) = embedded.split_once('>').expect("a tag");
    let (embedded, _) = embedded.split_once("</script>").expect("its end");
    assert_eq!(
        serde_json::from_str::<Value>(embedded).expect("a document"),
        *document
    );
}

#[test]
fn the_tables_are_of_the_document() {
    let bench = Bench::new();
    let line = format!(
        "compare {SMALL} --stacks skybyte-full,base-cssd --set precondition=fresh --seed 3"
    );
    let (document, text) = (bench.json(&line, SCHEMA), bench.done(&line));
    for run in runs(&document) {
        let design = run["design"].as_str().unwrap();
        let whole = row(&text, "speed-up", design);
        assert_eq!(run["seed"], 3);
        assert_eq!(run["changes"], serde_json::json!(["precondition=fresh"]));
        assert_eq!(whole[3], format!("{:.2}", real(run, "/speed_up")));
        for (cell, field) in [
            (5, "/flash/read_pages"),
            (6, "/flash/program_pages"),
            (7, "/switches/all"),
            (8, "/moves/promotions"),
        ] {
            assert_eq!(whole[cell], number(run, field).to_string(), "{field}");
        }
        assert_eq!(whole[9], format!("{:.2}", real(run, "/cost/cheaper")));
        let access = row(&text, "AMAT", design);
        for (cell, field) in [
            (1, "mean_ns"),
            (2, "host_dram/adds_ns"),
            (3, "ssd_dram/adds_ns"),
            (4, "flash/adds_ns"),
        ] {
            assert_eq!(
                access[cell],
                format!("{:.1}", real(run, &format!("/amat/{field}")))
            );
        }
    }
    // `memory` prints the same for several designs; without base-cssd, the first is the base.
    let memory = format!(
        "memory skybyte-full,base-cssd --workload {SMALL} --set precondition=fresh --seed 3"
    );
    assert_eq!(bench.done(&format!("{memory} --report m.html")), text);
    let page = String::from_utf8(bench.read("m.html")).expect("a page is text");
    assert!(page.contains("Core time by activity") && page.contains("skybyte-full"));
    let others = bench.json(
        &format!("compare {SMALL} --stacks skybyte-w,skybyte-c"),
        SCHEMA,
    );
    assert_eq!(runs(&others)[1]["versus"], "skybyte-w");
}

#[test]
fn kinds_do_not_mix() {
    let bench = Bench::new();
    for (line, words) in [
        (
            "compare bfs --stacks raw@block",
            "bfs is a memory workload, and raw@block is a storage stack",
        ),
        (
            "compare randread --stacks base-cssd",
            "base-cssd is a memory design, and randread is a storage workload",
        ),
        (
            "compare --stacks base-cssd",
            "rocksdb is a storage workload",
        ),
        (
            "compare bfs --stacks raw@block,base-cssd",
            "base-cssd is a memory design and raw@block is a storage stack",
        ),
        (
            "compare bfs --stacks skybyte-ful",
            "a memory design (base-cssd, ",
        ),
        (
            "compare bfs --stacks base-cssd --size 1GiB",
            "--size applies to storage stacks only",
        ),
        ("compare bfs --all", "--all applies to storage stacks only"),
        (
            "compare bfs --preconditions aged",
            "--preconditions applies to storage stacks only",
        ),
        (
            "compare bfs --report no/such/place.html",
            "no/such/place.html",
        ),
        ("compare bfs --profile papr", "default, paper, artifact"),
        ("compare randread:ops=9 --profile paper", "--profile"),
        ("compare bfs:scale=smal", "small, medium, paper"),
        ("compare bfs --set precondition=agd", "precondition=agd"),
    ] {
        bench.refuses(line, &[words]);
    }
    // A name that stacks and programs share means the workload of stacks.
    bench.refuses("compare tpcc:warehouses=x", &["tpcc"]);
    bench.refuses(
        "compare tpcc:scale=tiny --stacks base-cssd",
        &["small, medium, paper"],
    );
}

#[test]
fn a_trace_of_accesses_is_a_program_for_memory() {
    let bench = Bench::new();
    let lines = (0..400).map(|n| format!(" L {:08x},8\nI  04000000,4\n", n * 4_096));
    bench.write("t.lackey", lines.collect::<String>());
    let document = bench.json("compare t.lackey --stacks dram-only", SCHEMA);
    assert_eq!(runs(&document)[0]["workload"], "t.lackey");
    bench.refuses(
        "compare t.lackey --stacks raw@block",
        &["t.lackey is a memory workload"],
    );
}
