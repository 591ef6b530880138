//! Published measurements beside the model, and those of a user.

use crate::Bench;
use std::fs;

#[test]
fn small_kind_has_a_table_and_rows() {
    let bench = Bench::new();
    let text = bench.done("validate zn540 --kind zone-state --every 9 --verbose");
    for part in [
        "zn540",
        "finish after 0 blocks",
        "median error",
        "values of 1 drives",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let line = "validate zn540 --kind zone-state --every 9";
    let json = bench.json(line, "flashloom.validate/1");
    let row = &json["rows"][0];
    assert_eq!(
        (row["drive"].as_str(), row["fitted"].as_bool()),
        (Some("zn540"), Some(false))
    );
    assert!(row["error"].is_f64() && row["source"].is_string(), "{row}");
}

#[test]
fn list_counts_values_that_are_not_run() {
    let list = Bench::new().json("validate --list", "flashloom.validate-list/1");
    let kinds = list["kinds"].as_array().unwrap();
    let sum = |key: &str| kinds.iter().filter_map(|k| k[key].as_u64()).sum::<u64>();
    assert!(sum("values") >= 7_563 && sum("left") > 0 && sum("left") < sum("values"));
}

#[test]
fn unknown_drive_kind_and_malformed_output_are_rejected() {
    let bench = Bench::new();
    bench.refuses("validate nothing", &["zn540", "nothing"]);
    bench.refuses(
        "validate zn540 --kind writes",
        &["--kind", "random read", "writes"],
    );
    fs::write(bench.path("f.json"), "{\"jobs\": []}").unwrap();
    bench.refuses(
        "validate zns --against f.json",
        &["f.json", "1 to 256 jobs"],
    );
    bench.refuses("validate --against f.json", &["--against", "one drive"]);
}

#[test]
fn output_of_fio_is_set_beside_the_model() {
    let bench = Bench::new();
    let output = r#"{"global options": {"rw": "randread", "bs": "4k", "iodepth": "4"},
        "jobs": [{"jobname": "r", "job options": {}, "read": {"iops": 50000.0}}]}"#;
    fs::write(bench.path("f.json"), output).unwrap();
    let json = bench.json("validate block --against f.json", "flashloom.validate/1");
    let row = &json["rows"][0];
    assert_eq!(row["what"], "read iops");
    assert!(row["measured"].as_f64().unwrap() > 10_000.0, "{row}");
}
