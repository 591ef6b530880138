//! Ends of a command by signals, `kill -9`, or a full disk.

use crate::{Bench, Guarded, PATIENCE};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A recording of `count` calls, which takes a second or more to convert.
fn calls(count: u32) -> String {
    let mut text = "flashloom file calls 1\nroot text=\"/x\"\ncommand text=\"x\"\n".to_owned();
    text += "thread process=0 pid=1 tid=1 parent=0 born=0 program=\"x\"\n";
    for at in 0..count {
        text += &format!("{at}000 0 stat of=path path=\"\" = 0 +580\n");
    }
    text + &format!("end events={count}\n")
}

/// The program with the words of `line` in the folder of `bench`.
fn heeding(bench: &Bench, line: &str) -> Guarded {
    let child = crate::heeding()
        .args(line.split_whitespace())
        .current_dir(bench.folder.path())
        .env_remove("FLASHLOOM_DB")
        .env("TMPDIR", bench.path("tmp"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Guarded(child.expect("env starts"))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("it can be listed");
    let name = |entry: std::io::Result<fs::DirEntry>| {
        let name = entry.expect("listed").file_name();
        name.to_string_lossy().into_owned()
    };
    entries.map(name).collect()
}

/// Whether the process has a file open, named or not, that was made in `folder`.
fn has_open(child: &Guarded, folder: &Path) -> bool {
    let open = fs::read_dir(format!("/proc/{}/fd", child.0.id()));
    let mut open = open.into_iter().flatten().flatten();
    open.any(|fd| fs::read_link(fd.path()).is_ok_and(|path| path.starts_with(folder)))
}

/// The output is being written without a name when each signal ends the process.
#[test]
fn command_ended_while_it_writes_leaves_no_file_behind() {
    let bench = Bench::new();
    for folder in ["in", "out", "tmp"] {
        fs::create_dir(bench.path(folder)).expect("made");
    }
    bench.write("in/calls.txt", calls(600_000));
    let out = bench.path("out").canonicalize().expect("it is there");
    for (signal, number) in [("-TERM", 15), ("-HUP", 1), ("-INT", 2), ("-KILL", 9)] {
        let mut child = heeding(&bench, "trace convert in/calls.txt --to flt out/calls.flt");
        let start = Instant::now();
        while !has_open(&child, &out) {
            assert!(start.elapsed() < PATIENCE, "it writes nothing");
            let ended = child.0.try_wait().expect("it is ours");
            assert!(ended.is_none(), "it was too fast");
            std::thread::sleep(Duration::from_millis(1));
        }
        child.signal(signal);
        assert_eq!(child.ended().signal(), Some(number));
        assert_eq!(names(&out), Vec::<String>::new(), "{signal}");
    }
    assert_eq!(names(&bench.path("tmp")), Vec::<String>::new());
}

/// The shipped recording is read from a temporary file without a name.
#[test]
fn run_that_is_killed_leaves_no_temporary_file_of_its_workload() {
    let bench = Bench::new();
    fs::create_dir(bench.path("tmp")).expect("made");
    let temporary = bench.path("tmp").canonicalize().expect("it is there");
    let mut child = heeding(&bench, "run ext4@block --workload rocksdb");
    let start = Instant::now();
    while !has_open(&child, &temporary) {
        assert!(start.elapsed() < PATIENCE, "it reads no recording");
        assert!(child.0.try_wait().expect("it is ours").is_none());
        std::thread::sleep(Duration::from_millis(1));
    }
    child.signal("-KILL");
    child.ended();
    assert_eq!(names(&temporary), Vec::<String>::new());
}

#[test]
fn file_left_by_a_killed_process_is_removed_by_the_next_command() {
    let bench = Bench::new();
    bench.write(".flashloom-aB3dE6", "left behind");
    let used = bench.path(".flashloom-xY2zW4");
    let mut file = File::create(&used).expect("made");
    file.write_all(b"being written").expect("written");
    file.lock().expect("locked, as by a process that writes it");
    bench.done("drive create d.flash --size 16MiB");
    let mut names = names(&bench.path(""));
    names.sort();
    assert_eq!(names, [".flashloom-xY2zW4", "d.flash"]);
}

/// A limit of file sizes replaces a full disk: writes fail in the same way.
#[test]
fn output_without_room_is_named_as_the_user_named_it() {
    let bench = Bench::new();
    bench.done("drive create d.flash --size 16MiB");
    bench.write("calls.txt", calls(100));
    bench.write("t.csv", crate::trace(200));
    for (line, name) in [
        ("drive create new.flash --size 16MiB", "new.flash"),
        ("mkfs ext4 d.flash", "d.flash"),
        ("drive export d.flash out.img", "out.img"),
        ("trace convert t.csv --to msr m.csv", "m.csv"),
        ("trace convert calls.txt --to flt-text c.txt", "c.txt"),
        (
            "run raw@block --trace t.csv --size 64MiB --report r.html",
            "r.html",
        ),
    ] {
        let said = Command::new("sh")
            .args(["-c", "trap '' XFSZ; ulimit -f 1; exec \"$0\" \"$@\""])
            .arg(env!("CARGO_BIN_EXE_flashloom"))
            .args(line.split_whitespace())
            .current_dir(bench.folder.path())
            .env_remove("FLASHLOOM_DB")
            .env("HOME", bench.path(""))
            .env("XDG_DATA_HOME", bench.path("data"))
            .output()
            .expect("a shell starts");
        let err = String::from_utf8_lossy(&said.stderr);
        assert_eq!(said.status.code(), Some(2), "{line}: {err}");
        let last = err.lines().last().unwrap_or_default();
        assert!(last.contains(&format!("{name}: ")), "{line}: {err}");
        assert_eq!(err.matches(name).count(), 1, "{line}: {err}");
        assert!(
            !err.contains(".flashloom-") && !err.contains("tmp"),
            "{line}: {err}"
        );
    }
}
