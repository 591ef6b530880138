//! JSON documents: round trip and paths.

use crate::fixture;
use report::record::{Comparison, Run};
use report::{metric, parse, to_json};

#[test]
fn documents_come_back_equal_and_byte_identical() {
    let comparison = fixture::comparison();
    let text = to_json(&comparison);
    let back: Comparison = parse(&text).expect("own document");
    assert_eq!(back, comparison);
    assert_eq!(to_json(&back), text);
}

#[test]
fn every_metric_is_found_in_the_document_at_its_path() {
    let run = fixture::one();
    let document: serde_json::Value = serde_json::from_str(&to_json(&run)).expect("JSON");
    for metric in metric::of(&[&run]) {
        let found = document.pointer(metric.path).map(ToString::to_string);
        assert_eq!(found, Some((metric.get)(&run).raw()), "{}", metric.path);
    }
}

#[test]
fn another_schema_is_named() {
    let error = parse::<Run>(&to_json(&fixture::comparison())).expect_err("not a run");
    assert_eq!(
        error.to_string(),
        "expected a flashloom.run/1 document, found schema \"flashloom.compare/1\""
    );
}

#[test]
fn a_fault_is_named_with_its_place() {
    let text = to_json(&fixture::one()).replace("\"ops\": 1000000", "\"ops\": -1");
    let error = parse::<Run>(&text).expect_err("negative count").to_string();
    assert!(
        error.starts_with("expected a flashloom.run/1 document: invalid value: integer `-1`"),
        "{error}"
    );
    assert!(error.contains("at line "), "{error}");
    let error = parse::<Run>("{").expect_err("half a document").to_string();
    assert!(error.contains("EOF"), "{error}");
}

#[test]
fn files_are_replaced_as_a_whole() {
    let directory = tempfile::tempdir().expect("directory");
    let path = directory.path().join("report.html");
    report::file::write(&path, "first").expect("written");
    report::file::write(&path, "second").expect("replaced");
    assert_eq!(std::fs::read_to_string(&path).expect("read"), "second");
    assert_eq!(
        std::fs::read_dir(directory.path()).expect("listed").count(),
        1
    );
    let missing = directory.path().join("missing/report.html");
    let error = report::file::write(&missing, "")
        .expect_err("no directory")
        .to_string();
    assert!(error.contains("missing/report.html"), "{error}");
}
