//! `powercut`: faults of small programs are found, their good twins pass, and any end of a checker
//! is reported. Tests skip if FUSE is missing.

use crate::{Bench, Said, number};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::{env, fs};

/// A program that prints before it forces its file, and then after that.
const PROGRAM: &str = "#!/bin/sh\nset -e\nfor n in 1 2 3; do\n  echo $n >> log\n  sync log\n  \
    echo $n\ndone\n";

/// A bench with the script `app.sh`; `None` without FUSE.
fn bench(program: &str) -> Option<Bench> {
    if !judges::has_fuse() {
        return None;
    }
    let bench = Bench::new();
    script(&bench, "app.sh", program);
    Some(bench)
}

fn script(bench: &Bench, name: &str, text: &str) {
    bench.write(name, text);
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(bench.path(name), executable).expect("it can be changed");
}

/// The result of `powercut` with `options`, and its document.
fn cut(bench: &Bench, options: &[&str], check: &str, program: &[&str]) -> (Said, Value) {
    let words = [
        &["powercut", "--json", "--check", check],
        options,
        &["--"],
        program,
    ]
    .concat();
    let said = bench.run_words(&words);
    let found: Value = serde_json::from_str(&said.out)
        .unwrap_or_else(|error| panic!("{}: {error}: {}", said.command, said.err));
    assert_eq!(found["schema"], "flashloom.powercut/1");
    (said, found)
}

/// An example of the repository with the fault `how`; `None` without Python.
fn example(name: &str, how: &str, options: &[&str]) -> Option<Value> {
    let bench = bench(PROGRAM)?;
    judges::has("python3").then_some(())?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/powercut");
    let path = path.join(name).display().to_string();
    let check = match name {
        "log.py" => format!("python3 {path} check-{how}"),
        _ => format!("python3 {path} check"),
    };
    let (said, found) = cut(&bench, options, &check, &["python3", &path, how]);
    let wrong = number(&found, "/failed");
    assert_eq!(said.code, Some(i32::from(wrong > 0)), "{}", said.err);
    assert_eq!(number(&found, "/passed") + wrong, number(&found, "/states"));
    assert!(number(&found, "/states") > 2, "{found}");
    Some(found)
}

#[test]
fn rename_without_fsync_is_found_and_its_good_twin_passes() {
    let Some(bad) = example("settings.py", "bad", &[]) else {
        return;
    };
    let said = bad["failures"][0]["stderr"].as_str().expect("a text");
    assert_eq!(said, "the settings have 0 lines of 501");
    let good = example("settings.py", "good", &[]).expect("the first ran");
    assert_eq!(number(&good, "/failed"), 0, "{good}");
}

#[test]
fn log_that_trusts_its_count_is_found_and_its_good_twin_passes() {
    let options = ["--every", "10"];
    let Some(bad) = example("log.py", "bad", &options) else {
        return;
    };
    let said = bad["failures"][0]["stderr"].as_str().expect("a text");
    assert!(said.ends_with("has other contents"), "{said}");
    let good = example("log.py", "good", &options).expect("the first ran");
    assert_eq!(number(&good, "/failed"), 0, "{good}");
}

#[test]
fn transfers_that_sqlite_did_not_force_are_found_and_forced_ones_are_there() {
    let Some(bad) = example("ledger.py", "bad", &[]) else {
        return;
    };
    let said = bad["failures"][0]["stderr"].as_str().expect("a text");
    assert!(said.contains("transfers were committed"), "{said}");
    // The removal of the journal is not forced.
    let full = example("ledger.py", "full", &[]).expect("the first ran");
    assert!(number(&full, "/failed") > 0, "{full}");
    let good = example("ledger.py", "good", &[]).expect("the first ran");
    assert_eq!(number(&good, "/failed"), 0, "{good}");
}

#[test]
fn same_command_finds_the_same_and_its_repetition_finds_the_first_failure() {
    // The second line is acknowledged before it is forced.
    let program = "#!/bin/sh\necho a > log\nsync log\necho 1\necho b >> log\necho 2\nsync log\n";
    let Some(bench) = bench(program) else { return };
    let check = "test $(cat log 2>/dev/null | wc -l) -ge $(wc -l < $FLASHLOOM_OUTPUT)";
    let options = ["--every", "3"];
    let (said, found) = cut(&bench, &options, check, &["./app.sh"]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    let (again, _) = cut(&bench, &options, check, &["./app.sh"]);
    assert_eq!(said.out, again.out);
    let options = [
        "--every",
        "3",
        "--save",
        "app.calls",
        "--junit",
        "found.xml",
    ];
    let (_, saved) = cut(&bench, &options, check, &["./app.sh"]);
    let xml = bench.text("found.xml");
    let failures = number(&saved, "/failed");
    assert!(xml.contains(&format!("failures=\"{failures}\"")), "{xml}");
    let first = &found["failures"][0]["cut"];
    assert_eq!(first, &saved["failures"][0]["cut"]);
    let event = first.as_str().expect("a text");
    let words = [
        "powercut",
        "--check",
        check,
        "--recording",
        "app.calls",
        "--at",
        event,
    ];
    let once = bench.run_words(&words);
    assert_eq!(once.code, Some(1), "{}", once.err);
    assert!(
        once.out
            .contains(&format!("cut {event}, the earliest, after ")),
        "{}",
        once.out
    );
    let far = [
        "--check",
        "true",
        "--recording",
        "app.calls",
        "--at",
        "9999999",
    ];
    let far = bench.run_words(&[&["powercut"][..], &far].concat());
    assert_eq!(far.code, Some(2), "{}", far.out);
    assert!(far.err.contains("expected an event up to"), "{}", far.err);
}

#[test]
fn recording_is_repeated_on_other_file_systems() {
    let Some(bench) = bench(PROGRAM) else { return };
    let check = "test $(cat log 2>/dev/null | wc -l) -ge $(wc -l < $FLASHLOOM_OUTPUT)";
    cut(&bench, &["--save", "app.calls"], check, &["./app.sh"]);
    for on in [
        "f2fs@block",
        "btrfs@block",
        "bytefs@byte",
        "nova@byte",
        "persimmon@zns",
    ] {
        let words = ["--on", on, "--recording", "app.calls", "--points", "40"];
        let words = [&["powercut", "--json", "--check", check][..], &words].concat();
        let said = bench.run_words(&words);
        assert_eq!(said.code, Some(0), "{on}: {}{}", said.out, said.err);
    }
}

#[test]
fn hung_and_crashed_checkers_are_reported_as_that() {
    let Some(bench) = bench(PROGRAM) else { return };
    let check = "case $(cat log | wc -l) in 3) ;; 2) kill -SEGV $$;; 1) sleep 60 & sleep 60;; \
        *) echo no log >&2; exit 7;; esac";
    let (said, found) = cut(&bench, &["--timeout", "1"], check, &["./app.sh"]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    let failures = found["failures"].as_array().expect("a list");
    let outcome = |name: &str| {
        let mut all = failures.iter().filter(|failure| failure["outcome"] == name);
        let first = all.next().unwrap_or_else(|| panic!("{name}: {found}"));
        first["status"].as_i64()
    };
    assert_eq!(outcome("failed"), Some(7));
    assert_eq!(outcome("crashed"), Some(11));
    assert_eq!(outcome("hung"), None);
    let kinds =
        ["passed", "failed", "crashed", "hung"].map(|kind| number(&found, &format!("/{kind}")));
    assert_eq!(
        kinds.iter().sum::<u64>(),
        number(&found, "/states"),
        "{found}"
    );
}

#[test]
fn programs_and_checkers_that_fail_without_a_cut_are_refused() {
    let Some(bench) = bench(PROGRAM) else { return };
    let refused = |words: &[&str], expected: &str| {
        let said = bench.run_words(&[&["powercut"], words].concat());
        assert_eq!(said.code, Some(2), "{}", said.out);
        assert!(said.err.contains(expected), "{}", said.err);
    };
    refused(
        &["--check", "true", "--", "false"],
        "false: expected exit status 0 in a run without a power cut; it ended with 1",
    );
    refused(&["--check", "true", "--", "true"], "it changed none");
    refused(&["--check", "true", "--", "./none"], "./none: No such file");
    refused(
        &["--check", "echo wrong; exit 3", "--", "./app.sh"],
        "it failed with exit status 3: wrong",
    );
    refused(
        &["--check", "true", "--on", "raw@block", "--", "./app.sh"],
        "expected a file system",
    );
    bench.write("other", "no recording");
    refused(
        &["--check", "true", "--recording", "other"],
        "other: expected recorded calls",
    );
    refused(
        &["--check", "true", "--every", "0", "--", "true"],
        "at least 1",
    );
}
