//! Tables for a terminal.

use crate::fixture;
use proptest::prelude::*;
use report::configuration::{Difference, Setting};
use report::ranking::LeftOut;
use report::record::{Comparison, Handle, LatencySet, Run, Sample};
use report::store::{Filter, RunMeta, Store};
use report::table::{self, Style};

/// Compares `text` with the golden file, which is also the readers' example of the output.
fn golden(name: &str, text: &str) {
    let path = format!("{}/tests/it/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    if text != expected {
        let actual = format!("{}/{name}.txt", env!("CARGO_TARGET_TMPDIR"));
        std::fs::write(&actual, text).expect("actual text");
        panic!("the table differs: diff {path} {actual}, then copy it over if it is right");
    }
}

fn hundred() -> Style {
    Style {
        width: 100,
        ..Style::default()
    }
}

fn wide() -> Style {
    Style {
        width: 120,
        ..Style::default()
    }
}

#[test]
fn tables_match_their_golden_files() {
    let comparison = fixture::comparison();
    let run = fixture::one();
    golden("comparison", &table::comparison(&comparison, wide()));
    golden(
        "comparison-100",
        &table::comparison(
            &comparison,
            Style {
                width: 100,
                ..Style::default()
            },
        ),
    );
    golden("summary", &table::summary(&comparison, hundred()));
    golden("run", &table::run(&run, wide()));
    golden("why", &table::why(&run, wide()));
    golden("timeline", &table::timeline(&run, wide()));
    golden(
        "diff",
        &table::diff(&comparison.runs[0], &comparison.runs[1], wide()),
    );
}

#[test]
fn history_is_a_line_for_each_run() {
    let directory = tempfile::tempdir().expect("directory");
    let store = Store::open(&directory.path().join("history.db")).expect("created");
    for (run, started) in fixture::comparison().runs.iter().zip(0..) {
        let meta = RunMeta {
            commit: "7e96b0d1c2".to_owned(),
            seed: 1,
            label: "nightly".to_owned(),
            started_unix_s: (started > 0).then_some(1_700_000_000 + started * 60),
            ..RunMeta::default()
        };
        store.append(run, &meta).expect("appended");
    }
    let entries = store.list(&Filter::default(), 10).expect("listed");
    golden("history", &table::history(&entries, wide()));
}

#[test]
fn no_line_is_wider_than_asked_for_with_two_to_eight_stacks() {
    let pool = fixture::comparison().runs;
    for stacks in 2..=8 {
        let runs = pool.iter().cycle().take(stacks).cloned().collect();
        let comparison = Comparison {
            runs,
            ..fixture::comparison()
        };
        for width in [80, 100, 120] {
            let text = table::comparison(
                &comparison,
                Style {
                    color: false,
                    width,
                },
            );
            for line in text.lines() {
                assert!(report::human::width(line) <= width, "{width}: {line}");
                assert_eq!(line, line.trim_end());
            }
            // At 100 columns five of the long synthetic names fit into two blocks, with the first
            // name repeated.
            let blocks = text.matches("operations/s").count();
            assert!(
                width < 100 || blocks <= 2,
                "{stacks} stacks at {width}:\n{text}"
            );
        }
    }
}

#[test]
fn summary_of_ten_stacks_is_a_hundred_columns_wide() {
    let mut comparison = fixture::comparison();
    let pool = comparison.runs.clone();
    comparison.runs = pool.into_iter().cycle().take(10).collect();
    for (run, past) in comparison
        .runs
        .iter_mut()
        .zip(["full", "aged"].iter().cycle())
    {
        run.steady = Some(false);
        (*past).clone_into(&mut run.precondition);
    }
    let text = table::summary(&comparison, hundred());
    for line in text.lines() {
        assert!(
            report::human::width(line) <= 100,
            "{}: {text}",
            report::human::width(line)
        );
        assert_eq!(line, line.trim_end());
    }
}

#[test]
fn summary_of_a_run_with_failed_calls_shows_no_figures() {
    let mut comparison = fixture::comparison();
    let failed = comparison.runs[1].ops / 10;
    comparison.runs[1].errors = [("pwrite ENOSPC".to_owned(), failed)].into();
    let text = table::summary(&comparison, hundred());
    let stack = comparison.runs[1].stack.as_str();
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with(stack))
        .collect();
    for line in &lines[..2] {
        let figures = line.strip_prefix(stack).unwrap_or(line);
        assert!(!figures.contains(|c: char| c.is_ascii_digit()), "{line}");
    }
    assert!(lines[2].contains("failed requests"), "{}", lines[2]);
}

#[test]
fn values_shown_as_equal_are_no_finding() {
    let mut comparison = fixture::comparison();
    comparison.runs.truncate(2);
    let rate = comparison.runs[0].ops_per_s;
    let says = |comparison: &Comparison| table::comparison(comparison, wide());
    comparison.runs[1].ops_per_s = rate * 1.006;
    assert!(says(&comparison).contains("most operations per second"));
    comparison.runs[1].ops_per_s = rate * 1.004;
    assert!(!says(&comparison).contains("most operations per second"));
}

/// A comparison whose middle run completed nothing.
fn with_failures() -> Comparison {
    let mut comparison = fixture::comparison();
    comparison.runs.truncate(3);
    let failed = &mut comparison.runs[1];
    failed.errors = [("zone full".to_owned(), 200)].into();
    (failed.ops, failed.ops_per_s) = (0, 0.0);
    failed.latency_ns = LatencySet::default();
    failed.nand.program_pages = 0;
    comparison
}

#[test]
fn failed_run_is_never_the_best() {
    let comparison = with_failures();
    let failed = &comparison.runs[1].stack;
    let text = table::comparison(&comparison, wide());
    let told: Vec<&str> = text.lines().filter(|l| l.starts_with(failed)).collect();
    assert_eq!(
        told,
        [format!("{failed}: failed requests: 200 zone full")],
        "{text}"
    );
    assert!(text.contains("has the lowest p99 latency"), "{text}");
    let left_out = LeftOut {
        stack: "zonefs@zns".to_owned(),
        reason: "no name fits".to_owned(),
    };
    let page = report::page::comparison(&comparison, &[left_out], "");
    assert!(page.contains("Left out: zonefs@zns: no name fits"));
    assert!(page.contains("<td class=\"best\" data-run=\"2\""));
    assert!(!page.contains("<td class=\"best\" data-run=\"1\""));
}

#[test]
fn latency_without_requests_is_no_number() {
    let comparison = with_failures();
    let text = table::run(&comparison.runs[1], wide());
    for row in ["  mean", "  p99", "  max"] {
        let line = text.lines().find(|line| line.starts_with(row));
        let value = line.and_then(|line| line.split_whitespace().nth(1));
        assert_eq!(value, Some(report::human::NOTHING), "{text}");
    }
    let kinds = text.lines().find(|line| line.starts_with("  all "));
    assert_eq!(kinds.map(|line| line.matches('–').count()), Some(6));
}

#[test]
fn runs_that_differ_in_wall_time_alone_are_identical() {
    let a = fixture::one();
    let b = Run {
        wall_time_s: 99.0,
        peak_rss_bytes: 1,
        ..a.clone()
    };
    assert!(table::diff(&a, &b, wide()).contains("identical"));
    let c = Run {
        ops: a.ops + 1,
        ..a.clone()
    };
    assert!(!table::diff(&a, &c, wide()).contains("identical"));
}

#[test]
fn names_cannot_steer_the_terminal() {
    let mut run = fixture::one();
    run.stack = "\u{1b}[2J@\u{7}".to_owned();
    run.workload = "line\nbreak\r".to_owned();
    run.errors.insert("\u{1b}]0;title".to_owned(), 1);
    run.nand.by_cause.insert("\u{1b}c".to_owned(), 1 << 40);
    run.refusals[0].limit = "\u{1b}[1m".to_owned();
    run.refusals[0].held_by[0].who = "\r".to_owned();
    run.refusals[1].held_by[0].origin = Some("\u{7}".to_owned());
    for text in all_tables(&run, wide()) {
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text}");
    }
}

fn all_tables(run: &Run, style: Style) -> Vec<String> {
    let comparison = Comparison {
        runs: vec![run.clone(), run.clone()],
        ..fixture::comparison()
    };
    vec![
        table::comparison(&comparison, style),
        table::run(run, style),
        table::why(run, style),
        table::timeline(run, style),
        table::diff(run, &fixture::one(), style),
    ]
}

fn all_pages(run: &Run) -> Vec<String> {
    let comparison = Comparison {
        runs: vec![run.clone(), run.clone()],
        ..fixture::comparison()
    };
    vec![
        report::page::comparison(&comparison, &[], ""),
        report::page::run(run, ""),
    ]
}

/// Counts at both ends of their range, and between them.
fn count() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), Just(u64::MAX), any::<u64>()]
}

fn real() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(0.0),
        Just(f64::MAX),
        Just(f64::MIN_POSITIVE),
        0.0..1e12
    ]
}

prop_compose! {
    fn extreme()(n in prop::collection::vec(count(), 24), x in prop::collection::vec(real(), 8),
                 text in ".{0,40}") -> Run {
        let mut run = fixture::one();
        (run.ops, run.seed, run.sim_time_ns, run.peak_rss_bytes) = (n[0], n[1], n[2], n[3]);
        (run.ops_per_s, run.waf.host, run.waf.device, run.wall_time_s) = (x[0], x[1], x[2], x[3]);
        run.host.write_bytes = n[4];
        run.nand.program_pages = n[5];
        run.nand.by_cause = [("host".to_owned(), n[6]), (text.clone(), n[7]), ("gc".to_owned(), n[8])].into();
        run.nand.by_cause_and_origin.insert(text.clone(), [(text.clone(), n[9])].into());
        run.nand.reads_by_cause.insert(text.clone(), n[10]);
        run.gc.victim_valid_histogram = n[11..(11 + n[1] as usize % 5)].to_vec();
        run.wear.histogram = vec![(n[12], n[13]), (n[14], n[15])];
        run.wear.life_years = (n[16] > 1).then_some(x[4]);
        run.latency_ns.all.cdf = vec![(n[17], n[18]), (n[19], n[20])];
        run.latency_ns.all.mean = x[5];
        run.utilisation.insert(text.clone(), x[6]);
        run.handles.push(Handle { id: 9, host_bytes: n[21], media_bytes: (n[22] > 1).then_some(n[22]), moved_bytes: n[23] });
        run.timeline.push(Sample { at_ns: n[2], ops: n[0], waf: x[7], max_latency_ns: n[3], ..Sample::default() });
        run.stack = text;
        run
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics_or_prints_nan(run in extreme(), color: bool, width in 0usize..200) {
        for text in all_tables(&run, Style { color, width }).into_iter().chain(all_pages(&run)) {
            prop_assert!(!text.contains("NaN") || run.stack.contains("NaN"));
        }
    }

    #[test]
    fn a_run_is_identical_to_itself_and_survives_its_document(run in extreme()) {
        prop_assert!(table::diff(&run, &run, wide()).contains("identical"));
        prop_assert_eq!(report::parse::<Run>(&report::to_json(&run)).expect("own document"), run);
    }
}

/// A comparison of two runs whose drives have these settings of the field `key`.
fn set(key: &str, settings: [Option<u64>; 2]) -> Comparison {
    let mut runs = fixture::comparison().runs;
    runs.truncate(2);
    for (run, setting) in runs.iter_mut().zip(settings) {
        let known = Setting::Text("tlc".to_owned());
        run.configuration
            .insert("drive.flash.part".to_owned(), known);
        let setting = setting.map(|number| (key.to_owned(), Setting::Number(number)));
        run.configuration.extend(setting);
    }
    Comparison::new("touch", 1, runs)
}

/// A field without a declaration is reported under its key.
#[test]
fn differing_fields_are_listed_whether_declared_or_not() {
    let lines = |key: &str, settings| {
        let comparison = set(key, settings);
        let lines: Vec<String> = comparison
            .differences
            .iter()
            .map(Difference::line)
            .collect();
        let printed = table::comparison(&comparison, wide());
        let page = report::page::comparison(&comparison, &[], "");
        for line in &lines {
            assert!(printed.contains(&format!("differs: {line}")), "{printed}");
            assert!(page.contains(line), "{line}");
        }
        lines
    };
    let known = lines("drive.geometry.channels", [Some(4), Some(8)]);
    assert_eq!(
        known,
        ["channels: 4 (synthetic-ext4@block); 8 (synthetic-ext4@fdp)"]
    );
    let unknown = lines("drive.new", [Some(4), None]);
    assert_eq!(
        unknown,
        ["drive.new: 4 (synthetic-ext4@block); not set (synthetic-ext4@fdp)"]
    );
    // Fields of a part that one drive lacks, and of the interface, are not compared.
    assert!(lines("drive.front.log.lookup", [Some(4), None]).is_empty());
    assert!(lines("drive.placement.handles", [Some(1), Some(8)]).is_empty());
    // Numbers that round to the same text are printed in full.
    let near = lines("drive.capacity", [Some(1 << 40), Some((1 << 40) + 4096)]);
    let wanted =
        "capacity: 1099511627776 (synthetic-ext4@block); 1099511631872 (synthetic-ext4@fdp)";
    assert_eq!(near, [wanted]);
}
