//! The database of past runs.

use crate::fixture;
use report::json::Document;
use report::record::Run;
use report::store::{Filter, Kept, Line, RunMeta, Store};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("directory");
    let path = directory.path().join("history.db");
    (directory, path)
}

fn meta(label: &str) -> RunMeta {
    RunMeta {
        commit: "7e96b0d".to_owned(),
        plan_hash: "synthetic".to_owned(),
        seed: u64::MAX,
        label: label.to_owned(),
        command: "flashloom run".to_owned(),
        started_unix_s: Some(1_700_000_000),
    }
}

fn refusal(path: &Path) -> String {
    Store::open(path).expect_err("refused").to_string()
}

#[test]
fn appended_run_is_read_back_equal() {
    let (_directory, path) = place();
    let run = fixture::one();
    let id = Store::open(&path)
        .expect("created")
        .append(&run, &meta("a"))
        .expect("appended");
    let store = Store::open(&path).expect("opened again");
    let stored = store.get(id).expect("stored");
    assert_eq!((stored.run, stored.meta), (run, meta("a")));
    let missing = store.get::<Run>(99).expect_err("none").to_string();
    assert!(missing.ends_with("history.db has no run 99"), "{missing}");
}

#[test]
fn lists_are_newest_first_filtered_and_limited() {
    let (_directory, path) = place();
    let store = Store::open(&path).expect("created");
    assert_eq!(store.latest::<Run>().expect("read"), None);
    for (run, label) in fixture::comparison()
        .runs
        .iter()
        .zip(["a", "b", "a", "b", "a"])
    {
        store.append(run, &meta(label)).expect("appended");
    }
    let ids = |filter: &Filter, limit| -> Vec<i64> {
        store
            .list(filter, limit)
            .expect("listed")
            .iter()
            .map(|e| e.id)
            .collect()
    };
    assert_eq!(ids(&Filter::default(), 2), [5, 4]);
    assert_eq!(
        ids(
            &Filter {
                label: Some("a".to_owned()),
                ..Filter::default()
            },
            9
        ),
        [5, 3, 1]
    );
    let stack = Some("synthetic-f2fs@zns".to_owned());
    assert_eq!(
        ids(
            &Filter {
                stack,
                ..Filter::default()
            },
            9
        ),
        [3]
    );
    assert_eq!(store.latest::<Run>().expect("read").map(|s| s.id), Some(5));
}

/// A record of another kind than a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Other {
    schema: String,
    profile: String,
}

impl Document for Other {
    const SCHEMA: &'static str = "other/1";
}

impl Kept for Other {
    fn line(&self) -> Line<'_> {
        Line {
            stack: "a-design",
            workload: "bfs",
            ops_per_s: 5e9,
            p99_ns: 250.0,
            waf_device: 0.0,
        }
    }
}

#[test]
fn runs_of_two_kinds_share_one_numbering_and_are_not_confused() {
    let (_directory, path) = place();
    let store = Store::open(&path).expect("created");
    let (run, other) = (
        fixture::one(),
        Other {
            schema: Other::SCHEMA.to_owned(),
            profile: "paper".to_owned(),
        },
    );
    store.append(&run, &meta("a")).expect("appended");
    assert_eq!(store.append(&other, &meta("b")).expect("appended"), 2);
    assert_eq!(store.get::<Other>(2).expect("stored").run, other);
    assert_eq!(store.latest::<Run>().expect("read").map(|s| s.id), Some(1));
    assert_eq!(
        store.latest::<Other>().expect("read").map(|s| s.id),
        Some(2)
    );
    let listed = store.list(&Filter::default(), 9).expect("listed");
    let told: Vec<_> = listed
        .iter()
        .map(|entry| (entry.id, &*entry.schema))
        .collect();
    assert_eq!(told, [(2, Other::SCHEMA), (1, Run::SCHEMA)]);
    assert_eq!(store.entry(2).expect("listed"), listed[0]);
    assert_eq!((listed[0].ops_per_s, listed[0].p99_ns), (5e9, 250.0));
    let wrong = store.get::<Run>(2).expect_err("another kind").to_string();
    assert!(wrong.contains("found schema \"other/1\""), "{wrong}");
    assert!(
        store
            .entry(3)
            .expect_err("none")
            .to_string()
            .ends_with("has no run 3")
    );
}

#[test]
fn runs_are_appended_together_or_not_at_all() {
    let (_directory, path) = place();
    let store = Store::open(&path).expect("created");
    let full = "CREATE TRIGGER full BEFORE INSERT ON runs WHEN (SELECT count(*) FROM runs) = 2 \
                BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END";
    let other = rusqlite::Connection::open(&path).expect("opened");
    other.execute_batch(full).expect("laid out");
    let runs = fixture::comparison().runs;
    let append = |runs: &[Run]| store.append_all(runs.iter().map(|run| (run, meta("a"))));
    let kept = || store.list(&Filter::default(), 9).expect("listed").len();
    let error = append(&runs).expect_err("it is full").to_string();
    assert!(
        error.ends_with("history.db: database or disk is full"),
        "{error}"
    );
    assert_eq!(kept(), 0);
    append(&runs[..2]).expect("there is room");
    assert_eq!(kept(), 2);
}

#[test]
fn looking_makes_no_database() {
    let (_directory, path) = place();
    Store::existing(&path).expect_err("there is none");
    assert!(!path.exists());
    fs::write(&path, "").expect("written");
    let error = Store::existing(&path).expect_err("it is empty").to_string();
    assert!(
        error.ends_with("expected a history of runs, found nothing in it"),
        "{error}"
    );
    assert_eq!(fs::read(&path).expect("read"), b"");
    let store = Store::open(&path).expect("laid out");
    store.append(&fixture::one(), &meta("a")).expect("appended");
    let looking = Store::existing(&path).expect("opened");
    assert_eq!(looking.entry(1).expect("listed").id, 1);
    looking
        .append(&fixture::one(), &meta("a"))
        .expect_err("it only looks");
}

#[test]
fn writers_wait_for_each_other() {
    let (_directory, path) = place();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let store = Store::open(&path).expect("opened");
                for _ in 0..10 {
                    store.append(&fixture::one(), &meta("x")).expect("appended");
                }
            });
        }
    });
    let store = Store::open(&path).expect("opened");
    assert_eq!(
        store.list(&Filter::default(), 100).expect("listed").len(),
        40
    );
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let (_directory, path) = place();
    let text = "this is a letter, not a database. ".repeat(200);
    fs::write(&path, &text).expect("written");
    let error = refusal(&path);
    assert!(
        error.contains("history.db is damaged or not a history of runs"),
        "{error}"
    );
    assert!(!error.contains('\n'), "{error}");
    assert_eq!(fs::read_to_string(&path).expect("read"), text);
}

#[test]
fn a_damaged_database_is_named() {
    let (_directory, path) = place();
    let store = Store::open(&path).expect("created");
    for _ in 0..20 {
        store.append(&fixture::one(), &meta("x")).expect("appended");
    }
    drop(store);
    let mut bytes = fs::read(&path).expect("read");
    let half = bytes.len() / 2;
    bytes[4096..half].fill(0xa5);
    fs::write(&path, bytes).expect("written");
    let error = Store::open(&path)
        .and_then(|s| s.list(&Filter::default(), 100))
        .expect_err("damaged");
    assert!(
        error.to_string().contains("is damaged or not a history"),
        "{error}"
    );
}

#[test]
fn the_database_of_another_program_is_refused_and_left_alone() {
    let (_directory, path) = place();
    let other = rusqlite::Connection::open(&path).expect("created");
    other
        .execute_batch("CREATE TABLE music (name TEXT)")
        .expect("laid out");
    let error = refusal(&path);
    assert!(error.contains("database of another program"), "{error}");
    let tables = other.query_row("SELECT count(*) FROM sqlite_schema", [], |r| {
        r.get::<_, i64>(0)
    });
    assert_eq!(tables, Ok(1));
}

#[test]
fn a_newer_layout_is_refused_with_advice() {
    let (_directory, path) = place();
    drop(Store::open(&path).expect("created"));
    let newer = rusqlite::Connection::open(&path).expect("opened");
    newer
        .execute_batch("PRAGMA user_version = 7")
        .expect("marked");
    let error = refusal(&path);
    assert!(
        error.contains("layout version 7; this program knows versions up to 1"),
        "{error}"
    );
}
