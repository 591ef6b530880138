//! Fits of a drive to measurements.

use crate::Bench;
use std::fs;

const SHEET: &str =
    "random read 4k: 150 kIOPS\nread latency 4k: 95 us\nrandom read 16k: 130 kIOPS\n";

#[test]
fn datasheet_gives_a_drive_file_that_runs() {
    let bench = Bench::new();
    fs::write(bench.path("sheet.txt"), SHEET).unwrap();
    let line = "calibrate sheet.txt -o mine.toml --out fits";
    let json = bench.json(line, "flashloom.calibrate/1");
    assert_eq!(json["rows"].as_array().unwrap().len(), 3);
    let knob = &json["knobs"][0];
    assert_eq!(knob["name"], "flash.timing.read");
    let value = |key: &str| knob[key].as_f64().unwrap();
    assert!(
        value("low") <= value("value") && value("value") <= value("high"),
        "{knob}"
    );
    let latency = &json["rows"][1];
    assert!(latency["error"].as_f64().unwrap().abs() < 20.0, "{latency}");
    assert!(json["cross_validated"]["median"].is_f64());
    assert_eq!(bench.json(line, "flashloom.calibrate/1"), json);
    let told = bench.done(&format!("{line} --jobs 1"));
    assert!(told.contains("took no part in the fit"), "{told}");
    bench.done("run raw@block --drive mine.toml --workload randread:ops=100 --precondition fresh");
}

#[test]
fn files_without_measurements_are_refused_together() {
    let bench = Bench::new();
    fs::write(bench.path("a.txt"), "hello\n").unwrap();
    fs::write(bench.path("b.json"), "{\"jobs\": []}").unwrap();
    let parts = ["a.txt:1", "random read 4k", "b.json", "1 to 256 jobs"];
    bench.refuses("calibrate a.txt b.json -o mine.toml", &parts);
    assert!(!bench.path("mine.toml").exists());
}
