//! Published measurements beside the model: each kind at rest, and a ratchet of the errors.

use stack::validate::{Document, Measured, Row, Summary, Task, documents, rows};

/// The rows of the experiments of `drive` and `kind` whose source ends in `source`.
fn measured(drive: &str, kind: &str, source: &str) -> Vec<Row> {
    let documents = documents().unwrap();
    let document: &Document = documents.iter().find(|d| d.drive == drive).unwrap();
    let wanted = document.experiment.iter();
    let wanted = wanted.filter(|e| e.kind == kind && e.source.ends_with(source));
    let all = wanted.flat_map(|experiment| {
        let outcome = Task::new(document, experiment).and_then(|task| task.run());
        rows(document, experiment, &outcome)
    });
    all.collect()
}

fn value(rows: &[Row], what: &str) -> f64 {
    let row = rows.iter().find(|row| row.what == what).unwrap();
    row.measured
        .unwrap_or_else(|| panic!("{what}: {}", row.reason))
}

#[test]
fn read_at_rest_is_the_sum_of_its_parts() {
    let rows = measured(
        "zn540",
        "random read",
        "spdk/zns-a/lbaf2/randread/4096bs/1zone/1.json",
    );
    let (mean, p99) = (value(&rows, "mean"), value(&rows, "p99"));
    // Command 5.6, DRAM 0.6, array 50, bus 0.2 and 4 KiB at 450 MB/s, host and link about 3.
    assert!(
        (mean - 68.4).abs() < 0.5 && (p99 - mean).abs() < 0.2,
        "{mean} {p99}"
    );
    assert!((value(&rows, "iops") * mean / 1e6 - 1.0).abs() < 0.01);
}

#[test]
fn every_value_has_a_measured_one_or_a_reason() {
    let documents = documents().unwrap();
    for document in &documents {
        for experiment in &document.experiment {
            let outcome = Task::new(document, experiment).map(|_| Measured::default());
            for row in rows(document, experiment, &outcome) {
                assert!(row.measured.is_none() && !row.reason.is_empty(), "{row:?}");
            }
        }
    }
}

#[test]
fn equal_experiments_give_equal_rows() {
    let run = || measured("zn540", "zone state", "run2, finish_0");
    assert_eq!(run(), run());
}

/// Errors that may fall and not rise: mean of the absolute errors in percent, rounded up.
const ERRORS: [(&str, &str, &str, f64); 5] = [
    (
        "zn540",
        "random read",
        "spdk/zns-a/lbaf2/randread/4096bs/1zone/4.json",
        20.0,
    ),
    ("zn540", "zone state", "run2, finish_1", 20.0),
    ("zn540", "zone state", "run2, finish_137856", 20.0),
    ("zn540", "zone state", "run4, reset_17232", 20.0),
    ("zn540", "zone state", "run4, reset_137856", 20.0),
];

#[test]
fn errors_do_not_rise() {
    for (drive, kind, source, most) in ERRORS {
        let rows = measured(drive, kind, source);
        let summary = Summary::of(&rows);
        assert!(summary.values > 0 && summary.left == 0, "{rows:?}");
        let median = summary.total.unwrap().median;
        assert!(median <= most, "{drive} {kind}: {median}");
    }
}
