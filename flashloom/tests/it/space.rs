//! A full file system names the limit: in a run, in its record, in `why`, and when it is mounted.

use crate::serve::Served;
use crate::{Bench, Guarded, number};
use std::fs::File;
use std::io::Write;
use std::process::{Command, Stdio};

#[test]
fn a_run_without_space_and_why() {
    let bench = Bench::new();
    let line = "run ext4@block --workload anything:ops=300,size=256k,room=64k --size 64MiB";
    let text = bench.done(line);
    assert!(text.contains("no space: blocks reached "), "{text}");
    assert!(text.contains("; held by "), "{text}");
    let document = bench.json(line, "flashloom.run/1");
    let met = &document["refusals"][0];
    assert_eq!(met["limit"], "blocks");
    assert!(number(met, "/times") > 0 && number(met, "/asked") > 0);
    let held = met["held_by"].as_array().expect("a list");
    let sum: u64 = held.iter().map(|holder| number(holder, "/amount")).sum();
    assert_eq!(sum + number(met, "/free"), number(met, "/total"));
    assert!(
        held.iter()
            .all(|holder| holder["who"].is_string() && holder["origin"].is_null())
    );
    let why = bench.done("why");
    for part in [
        "No space: limits that were reached",
        "held by",
        "the journal",
    ] {
        assert!(why.contains(part), "{why}");
    }
    bench.done("run ext4@block --workload varmail:files=20,ops=100 --size 64MiB");
    assert!(!bench.done("why").contains("No space"));
}

#[test]
fn a_mount_without_space_says_so_once() {
    if !judges::has_fuse() {
        return;
    }
    let served = Served::prepared(Bench::new(), "--size 64MiB", "");
    served.bench.done("mkfs ext4 d.flash");
    let errors = File::create(served.at("errors")).expect("made");
    let mount = Command::new(env!("CARGO_BIN_EXE_flashloom"))
        .args(["mount", "ext4", "d.flash", "m"])
        .current_dir(served.bench.path(""))
        .stderr(Stdio::from(errors))
        .spawn()
        .expect("the program starts");
    let mut mount = Guarded(mount);
    while !served.bench.text("errors").contains("stays mounted until") {
        assert!(mount.0.try_wait().expect("it can be asked").is_none());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    for name in ["m/a", "m/b"] {
        let mut file = File::create(served.at(name)).expect("made");
        let mut written = 0;
        while file.write_all(&[7; 65_536]).is_ok() {
            written += 1;
            assert!(written < 2_000, "it is endless");
        }
    }
    served.unmount();
    assert!(mount.ended().success());
    let said = served.bench.text("errors");
    let lines: Vec<&str> = said.lines().filter(|l| l.contains("no space")).collect();
    assert_eq!(lines.len(), 1, "{said}");
    assert!(lines[0].contains("no space: blocks: "), "{said}");
    assert!(lines[0].contains("; held by "), "{said}");
}
