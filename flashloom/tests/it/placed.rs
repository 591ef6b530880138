//! `shim` and `shim view`: a program with its files in zones, and another one without the library
//! that reads them.

use crate::serve::{must, tool};
use crate::{Bench, Guarded, Said};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const RULES: &str = "name = \"t\"\n[[stream]]\nname = \"s\"\nlife = \"short\"\n\
                     [[rule]]\npath = \"*.log\"\nstream = \"s\"\n";
const MIB: u64 = 1 << 20;
/// Number of tries, with pauses of 10 ms, before a wait fails.
const TRIES: u32 = 1_000;

/// Zones, rules for files that end with `.log`, and a mount of the placed files.
struct Shown {
    bench: Bench,
    view: Guarded,
}

fn prepared() -> Bench {
    let bench = Bench::new();
    bench.write("rules", RULES);
    fs::create_dir_all(bench.path("zones/seq")).expect("a directory");
    let says = format!("capacity={}\nopen=8\nactive=10\n", 8 * MIB);
    bench.write("zones/emulated", says);
    for zone in 0..16 {
        bench.write(&format!("zones/seq/{zone}"), "");
    }
    bench
}

/// Runs a shell script with its files placed.
fn placed(bench: &Bench, script: &str) -> Said {
    let words = [
        "shim", "--rules", "rules", "--zones", "zones", "--", "sh", "-c", script,
    ];
    let said = bench.run_words(&words);
    assert_eq!(said.code, Some(0), "{script}: {}", said.err);
    said
}

#[track_caller]
fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..TRIES {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what}");
}

impl Shown {
    fn new(bench: Bench) -> Self {
        fs::create_dir(bench.path("m")).expect("a directory");
        let view = Command::new(env!("CARGO_BIN_EXE_flashloom"))
            .args(["shim", "view", "zones", "m"])
            .current_dir(bench.path(""))
            .stderr(Stdio::null())
            .spawn();
        let shown = Self {
            view: Guarded(view.expect("it starts")),
            bench,
        };
        until("it is not mounted", || shown.is_mounted());
        shown
    }

    fn is_mounted(&self) -> bool {
        let mounts = fs::read_to_string("/proc/mounts").expect("it can be read");
        mounts.contains(&self.whole("m").display().to_string())
    }

    fn whole(&self, name: &str) -> PathBuf {
        let folder = self.bench.path("").canonicalize().expect("it is there");
        folder.join(name)
    }

    /// Path in the mount of the file called `name`.
    fn at(&self, name: &str) -> PathBuf {
        let whole = self.whole(name);
        let beneath = whole.strip_prefix("/").expect("it is whole");
        self.bench.path("m").join(beneath)
    }

    /// Process id of the daemon of the zones.
    fn daemon(&self) -> Option<String> {
        let zones = self.whole("zones").display().to_string();
        let words = |process: &Path| fs::read(process.join("cmdline")).unwrap_or_default();
        let serves = |process: &Path| {
            let words = String::from_utf8_lossy(&words(process)).into_owned();
            words.contains("\0serve\0") && words.contains(&zones)
        };
        let processes = fs::read_dir("/proc").expect("it is there").flatten();
        let mut all = processes.map(|entry| entry.path());
        let found = all.find(|process| serves(process))?;
        Some(found.file_name()?.to_string_lossy().into_owned())
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        let m = self.bench.path("m").display().to_string();
        let _ = tool("fusermount3", &["-u", "-z", &m]);
        // Unless it was never mounted, the view ends by itself, with its daemon.
        for _ in 0..TRIES {
            if self.view.0.try_wait().is_ok_and(|ended| ended.is_some()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn programs_without_the_library_read_placed_files_and_write_none() {
    if !judges::has_fuse() {
        return;
    }
    let bench = prepared();
    fs::create_dir(bench.path("d")).expect("a directory");
    placed(
        &bench,
        "head -c 3000001 /dev/urandom > x; cat x > d/a.log; echo b > d/b.log; chmod 600 d/b.log",
    );
    let bytes = bench.read("x");
    let bare = bench.read("d/a.log");
    assert!(bare.starts_with(b"flashloom: the bytes of this file are in zones"));
    assert_eq!(bare.len(), bytes.len());
    let shown = Shown::new(bench);
    assert!(fs::read(shown.at("d/a.log")).expect("it is read") == bytes);
    let file = File::open(shown.at("d/a.log")).expect("it is opened");
    let mut part = [0; 999];
    file.read_exact_at(&mut part, 1_234_567)
        .expect("it is read");
    assert!(part == bytes[1_234_567..1_235_566]);
    let names = fs::read_dir(shown.at("d")).expect("it is listed");
    let mut names: Vec<_> = names.flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    assert_eq!(names, ["a.log", "b.log"]);
    let rights = fs::metadata(shown.at("d/b.log")).expect("it is there");
    assert_eq!(rights.permissions().mode() & 0o777, 0o400);
    assert!(!shown.at("x").exists(), "it is not placed");
    for refused in [
        fs::write(shown.at("d/a.log"), "x"),
        fs::remove_file(shown.at("d/a.log")),
        fs::write(shown.at("d/c.log"), "x"),
    ] {
        let error = refused.expect_err("nothing can be written").kind();
        assert_eq!(error, std::io::ErrorKind::ReadOnlyFilesystem);
    }
}

#[test]
fn a_view_follows_what_programs_do_and_daemons_that_die() {
    if !judges::has_fuse() {
        return;
    }
    let bench = prepared();
    placed(&bench, "echo one > a.log");
    let shown = Shown::new(bench);
    let read = |name: &str| fs::read_to_string(shown.at(name));
    assert_eq!(read("a.log").expect("it is read"), "one\n");
    placed(
        &shown.bench,
        "echo two >> a.log; echo new > b.log; mv b.log c.log",
    );
    assert_eq!(read("a.log").expect("it is read"), "one\ntwo\n");
    assert_eq!(read("c.log").expect("it is read"), "new\n");
    assert!(read("b.log").is_err(), "it has another name");
    placed(&shown.bench, "sync a.log; rm c.log");
    assert!(read("c.log").is_err(), "it is removed");
    let first = shown.daemon().expect("there is one while there is a view");
    must("kill", &["-9", &first]);
    until("the file is not read after the daemon's death", || {
        read("a.log").is_ok_and(|text| text == "one\ntwo\n")
    });
    assert_ne!(shown.daemon(), Some(first));
}

/// The recorded calls are the same with and without placement; placed data is not recorded twice.
#[test]
fn placed_files_can_be_recorded_too() {
    let bench = prepared();
    let script =
        "head -c 3000001 /dev/zero > a.log; mv a.log b.log; echo x > plain; cat b.log | wc -c";
    let record = |words: &[&str], out: &str| {
        let all = [words, &[out, "--", "sh", "-c", script]].concat();
        let said = bench.run_words(&all);
        assert_eq!(
            (said.code, said.out.trim()),
            (Some(0), "3000001"),
            "{}",
            said.err
        );
        for name in ["a.log", "b.log", "plain"] {
            let _ = fs::remove_file(bench.path(name));
        }
        let info = bench.json(&format!("trace info {out}"), "flashloom.file-trace-info/1");
        assert_eq!(info["command"], format!("sh -c {script}"));
        let kinds = info["kinds"].as_array().expect("a list").clone();
        for name in ["open", "pwrite", "pread", "rename"] {
            assert!(kinds.iter().any(|kind| kind["call"] == name), "{name}");
        }
        (info["write_bytes"].clone(), info["read_bytes"].clone())
    };
    let shim = ["shim", "--rules", "rules", "--zones", "zones", "--record"];
    let placed = record(&shim, "placed.flt");
    assert_eq!(placed.0, 3_000_003);
    assert_eq!(placed, record(&["record", "-o"], "plain.flt"));
}

#[test]
fn placing_that_is_asked_to_end_ends_with_its_program() {
    for (signal, code) in [("-TERM", 143), ("-HUP", 129)] {
        let bench = prepared();
        let script = "echo $$ > pid; echo kept > a.log; echo > started; exec sleep 1000";
        let words = [
            "shim", "--rules", "rules", "--zones", "zones", "--", "sh", "-c", script,
        ];
        let child = crate::heeding()
            .args(words)
            .current_dir(bench.path(""))
            .spawn()
            .expect("it starts");
        let mut child = crate::Guarded(child);
        until("it does not begin", || bench.path("started").exists());
        child.signal(signal);
        assert_eq!(child.ended().code(), Some(code));
        let process = Path::new("/proc").join(bench.text("pid").trim());
        assert!(!process.exists(), "the program goes on");
        assert_eq!(placed(&bench, "cat a.log").out, "kept\n");
    }
}

/// Redis uses jemalloc, which opens files under its own lock at start-up.
#[test]
fn program_with_jemalloc_begins_and_ends_under_the_libraries() {
    if !std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .any(|folder| folder.join("redis-server").is_file())
    {
        assert!(std::env::var_os("CI").is_none(), "CI installs redis-server");
        println!("skipped: redis-server is not installed");
        return;
    }
    let bench = prepared();
    for words in [
        &["shim", "--rules", "rocksdb"][..],
        &["shim", "--rules", "rocksdb", "--zones", "zones"],
        &["record", "-o", "t.flt"],
    ] {
        let said = tool_in(&bench, words);
        assert!(said.contains("Redis server"), "{words:?}: {said}");
    }
}

/// The version output of redis-server under a command, within a minute.
fn tool_in(bench: &Bench, words: &[&str]) -> String {
    let said = Command::new("timeout")
        .args(["60", env!("CARGO_BIN_EXE_flashloom")])
        .args(words)
        .args(["--", "redis-server", "--version"])
        .current_dir(bench.path(""))
        .output()
        .expect("it runs");
    String::from_utf8_lossy(&said.stdout).into_owned()
}
