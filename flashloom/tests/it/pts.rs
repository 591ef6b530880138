//! `pts`: the industry's tests of SSDs.

use crate::Bench;

#[test]
fn tests_print_tables_and_a_document() {
    let bench = Bench::new();
    let line = "pts block --size 128MiB --point 1ms --test iops,endurance --out kept";
    let text = bench.done(line);
    for words in [
        "iops (128 in flight)",
        "read/write",
        "100/0",
        "512 B",
        "TBW",
        "DWPD",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let json = bench.json(line, "flashloom.pts/1");
    let names = json["tests"].as_array().expect("a list");
    let names: Vec<_> = names.iter().map(|test| test["test"].as_str()).collect();
    assert_eq!(names, [Some("iops"), Some("endurance")]);
    let points = json["tests"][0]["points"].as_array().expect("a list");
    assert_eq!(points.len(), 56);
}

#[test]
fn nonsense_is_refused() {
    let bench = Bench::new();
    bench.refuses("pts block --test speed", &["--test", "throughput-128k"]);
    bench.refuses("pts block --point 90s", &["--point", "60"]);
    bench.refuses("pts zns", &["zns", "random writes"]);
    bench.refuses("pts nothing", &["nothing"]);
}
