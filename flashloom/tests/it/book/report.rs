//! The report of all papers that comes along is the whole of it, and the README shows its table.

use super::page::root;
use crate::Bench;
use std::fs;

/// What is between the marks of the table of results.
fn table(file: &str) -> String {
    let text = fs::read_to_string(root().join(file)).unwrap();
    let (_, behind) = text.split_once("<!-- results -->\n").unwrap();
    let (table, _) = behind.split_once("<!-- end of results -->").unwrap();
    table.to_owned()
}

#[test]
fn the_readme_has_the_table_of_the_report() {
    assert_eq!(table("README.md"), table("docs/reproduction/report.md"));
}

/// No claim of a paper is missing from it, whatever plans say by now.
#[test]
fn the_report_has_every_claim_that_there_is() {
    let listed = Bench::new().json("reproduce --list", "flashloom.papers/1");
    let rows = table("docs/reproduction/report.md");
    for paper in listed["papers"].as_array().unwrap() {
        let figures = paper["figures"].as_array().unwrap();
        let claims: u64 = figures.iter().map(|f| f["claims"].as_u64().unwrap()).sum();
        let row = format!("| {} | {claims} | ", paper["name"].as_str().unwrap());
        assert!(rows.contains(&row), "{row:?} is not in\n{rows}");
    }
}
