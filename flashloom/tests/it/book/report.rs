//! The shipped report of all papers is complete, and the README shows its primary counts.

use super::page::root;
use crate::Bench;
use std::fs;
use std::ops::Range;

/// The table of results in the report.
fn table() -> String {
    let text = fs::read_to_string(root().join("docs/reproduction/report.md")).unwrap();
    let (_, behind) = text.split_once("<!-- results -->\n").unwrap();
    let (table, _) = behind.split_once("<!-- end of results -->").unwrap();
    table.to_owned()
}

#[test]
fn the_readme_has_the_table_of_the_report() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let (_, rows) = readme.split_once("| system | claims | held |").unwrap();
    let (rows, _) = rows.split_once("\n\n").unwrap();
    let report = table();
    let counts = |rows: &str, columns: Range<usize>| -> Vec<Vec<u64>> {
        let cells = |row: &str| {
            let cells: Vec<&str> = row.split(" | ").skip(columns.start).collect();
            let counts = cells.into_iter().take(columns.len());
            counts
                .map(|cell| cell.trim_end_matches(" |").parse().unwrap())
                .collect()
        };
        rows.lines().skip(2).map(cells).collect()
    };
    assert_eq!(counts(rows, 1..6), counts(&report, 2..7));
}

/// No claim of a paper is missing from the report, even after plans changed.
#[test]
fn report_has_every_claim_of_every_paper() {
    let listed = Bench::new().json("reproduce --list", "flashloom.papers/1");
    let rows = table();
    for paper in listed["papers"].as_array().unwrap() {
        let figures = paper["figures"].as_array().unwrap();
        let claims: u64 = figures.iter().map(|f| f["claims"].as_u64().unwrap()).sum();
        let row = format!("| {} | {claims} | ", paper["name"].as_str().unwrap());
        assert!(rows.contains(&row), "{row:?} is not in\n{rows}");
    }
}

/// The counts of checks in the README agree with the list in the book.
#[test]
fn counts_of_the_readme_are_those_of_the_book() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let (_, checks) = readme.split_once("## Validation").unwrap();
    let (checks, _) = checks.split_once("\n## ").unwrap();
    let book = fs::read_to_string(root().join("docs/book/src/trust.md")).unwrap();
    let of_count = |c: char| c.is_ascii_digit() || c == ',';
    let words = checks
        .split(|c| !of_count(c))
        .map(|word| word.trim_matches(','));
    let counts: Vec<_> = words.filter(|word| word.contains(',')).collect();
    assert!(counts.len() > 1, "{counts:?}");
    for count in counts {
        assert!(book.contains(count), "{count} is not in trust.md");
    }
}
