//! Recordings of unmodified programs.

use super::model::Model;
use super::{Place, Recorded};
use judges::installed;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use workload::files::{Call, EntryKind};

const HARD: &str = include_str!("hard.c");

fn count(recorded: &Recorded, is: impl Fn(&Call) -> bool) -> usize {
    let events = recorded.trace.events.iter();
    events.filter(|event| is(&event.step.call)).count()
}

/// Runs a program before the recording starts.
fn prepare(folder: &Path, program: &str, arguments: &[&str]) {
    let status = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .status();
    assert!(status.unwrap().success());
}

#[test]
fn threads_signals_forks_and_violence_lose_nothing() {
    let place = Place::new();
    let program = place.build(HARD, "hard");
    let recorded = place.record("work", &program, &[]);
    recorded.check();
    Model::replayed(&recorded.trace).check(&place.path("work"));
    let first = recorded
        .trace
        .threads
        .iter()
        .filter(|it| it.process == 0)
        .count();
    assert!(first >= 5, "{first} threads");
    assert!(recorded.outcome.summary.processes >= 8);
}

#[test]
fn calls_of_an_allocator_under_its_lock_are_recorded_without_allocating() {
    let place = Place::new();
    let program = place.build(include_str!("within.c"), "within");
    let recorded = place.record("work", &program, &[]);
    let placed = |call: &Call| matches!(call, Call::Write { len: 6, .. });
    assert_eq!(count(&recorded, placed), 12 * 25);
}

#[test]
fn recorded_writes_of_a_database_give_its_file_lengths() {
    let Some(program) = installed("sqlite3") else {
        return;
    };
    let place = Place::new();
    let script = "create table t(a, b); insert into t values(1, randomblob(100000)); \
                  begin; insert into t select * from t; insert into t select * from t; commit; \
                  delete from t where rowid = 2; vacuum; select count(*) from t;";
    let recorded = place.record("work", &program, &["x.db", script]);
    recorded.check();
    Model::replayed(&recorded.trace).check(&place.path("work"));
    assert!(
        count(&recorded, |call| matches!(
            call,
            Call::Fdatasync { .. } | Call::Fsync { .. }
        )) > 5
    );
    assert!(count(&recorded, |call| matches!(call, Call::RecordLock { .. })) > 10);
}

#[test]
fn recorded_database_with_a_log_maps_its_index() {
    let Some(program) = installed("sqlite3") else {
        return;
    };
    let place = Place::new();
    let script = "pragma journal_mode=wal; create table t(a, b); \
                  insert into t values(1, randomblob(50000)); select count(*) from t;";
    let recorded = place.record("work", &program, &["x.db", script]);
    recorded.check();
    assert!(count(&recorded, |call| matches!(call, Call::Store { .. })) > 0);
}

#[test]
fn recorded_archive_is_written_and_read() {
    let Some(program) = installed("tar") else {
        return;
    };
    let place = Place::new();
    for (name, size) in [("a", 10), ("d/b", 100_000), ("d/e/c", 0)] {
        let path = place.path("work/tree").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, vec![b'x'; size]).unwrap();
    }
    let packed = place.record("work", &program, &["cf", "t.tar", "tree"]);
    packed.check();
    Model::replayed(&packed.trace).check(&place.path("work"));
    let sizes = packed
        .trace
        .setup
        .entries
        .iter()
        .map(|entry| match entry.kind {
            EntryKind::File { size } => size,
            _ => 0,
        });
    assert_eq!(sizes.sum::<u64>(), 100_010);
    assert!(count(&packed, |call| matches!(call, Call::Readdir { .. })) >= 3);
    std::fs::create_dir(place.path("work/out")).unwrap();
    let unpacked = place.record("work", &program, &["xf", "t.tar", "-C", "out"]);
    unpacked.check();
    assert!(place.path("work/out/tree/d/b").is_file());
    assert!(count(&unpacked, |call| matches!(call, Call::Mkdir { .. })) >= 3);
    assert!(unpacked.outcome.summary.write_bytes >= 100_010);
}

#[test]
fn recorded_writes_of_a_clone_give_its_file_lengths() {
    let Some(program) = installed("git") else {
        return;
    };
    let place = Place::new();
    let source = place.path("source");
    std::fs::create_dir(&source).unwrap();
    for number in 0..50 {
        let name = format!("file-{number}");
        std::fs::write(source.join(name), format!("{number}\n").repeat(number * 20)).unwrap();
    }
    let identity = ["-c", "user.name=n", "-c", "user.email=e"];
    prepare(&source, "git", &["init", "-q"]);
    prepare(&source, "git", &["add", "."]);
    prepare(
        &source,
        "git",
        &[&identity[..], &["commit", "-q", "-m", "all"]].concat(),
    );
    let from = format!("file://{}", source.display());
    let recorded = place.record("work", &program, &["clone", "-q", &from, "clone"]);
    recorded.check();
    Model::replayed(&recorded.trace).check(&place.path("work"));
    assert!(recorded.outcome.summary.processes > 1);
}

#[test]
fn recorded_writes_of_a_key_value_store_give_its_file_lengths() {
    let Some(program) = installed("db_bench") else {
        return;
    };
    let place = Place::new();
    let database = format!("--db={}", place.path("work/db").display());
    let arguments = [
        "--benchmarks=fillrandom,readrandom,compact",
        "--num=20000",
        "--threads=2",
        "--write_buffer_size=1048576",
        "--sync=0",
        &database,
    ];
    let recorded = place.record("work", &program, &arguments);
    recorded.check();
    Model::replayed(&recorded.trace).check(&place.path("work"));
    assert!(recorded.outcome.summary.threads > 2);
}

/// A script that runs a server and its clients in the working directory; its first argument is the
/// folder of their programs.
const SERVER: &str = "set -e; B=$0; D=$PWD/data; export LC_ALL=C
$B/initdb -D $D --no-sync --auth=trust >/dev/null
$B/pg_ctl -D $D -o \"-k $PWD -c listen_addresses='' -c fsync=off\" -l log -w start >/dev/null
$B/pgbench -h $PWD -i -s 1 postgres >/dev/null 2>&1
$B/pgbench -h $PWD -c 4 -j 2 -t 50 postgres >/dev/null
$B/pg_ctl -D $D -w stop -m fast >/dev/null";

/// Folder of the programs of a PostgreSQL server, as installed by Debian.
fn postgresql() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten();
    let mut found = versions.flatten().map(|version| version.path().join("bin"));
    let found = found.find(|folder| folder.join("postgres").is_file());
    if found.is_none() {
        judges::skip("postgresql is not installed");
    }
    found
}

#[test]
fn recorded_writes_of_a_server_and_clients_give_their_file_lengths() {
    let Some(programs) = postgresql() else { return };
    let place = Place::new();
    let programs = programs.display().to_string();
    let work = place.path("work");
    std::fs::create_dir(&work).unwrap();
    let script = ["-c", SERVER, &programs];
    // The server refuses to run as root; Debian creates a user for it.
    let root = std::fs::metadata(&work).unwrap().uid() == 0;
    let recorded = if root {
        prepare(&work, "chmod", &["755", "..", "."]);
        prepare(&work, "chown", &["postgres", "."]);
        let words = [&["-u", "postgres", "--", "/bin/sh"][..], &script].concat();
        place.record("work", Path::new("runuser"), &words)
    } else {
        place.record("work", Path::new("/bin/sh"), &script)
    };
    recorded.check();
    Model::replayed(&recorded.trace).check(&work);
    assert!(recorded.outcome.summary.processes > 10);
}
