//! Several programs with files in the same zones, and daemons that are killed.

use super::Place;
use super::place::{daemon, rule, rules, run, serve, text, zones};
use shim::run::{Keeper, Placer};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Duration;

#[test]
fn processes_share_placed_files_like_ordinary_files() {
    let place = Place::new();
    let program = place.build(include_str!("share.c"), "share");
    let (rules, zones) = (rules(&place, &rule("log")), zones(&place, 16));
    let _served = serve(&zones);
    let placer = Placer::new().unwrap();
    let what = (program.as_os_str(), &[][..]);
    let command = placer.command(what, &rules, Some(&zones)).unwrap();
    let said = run(command, &place.path("work"));
    let (out, error) = (text(&said.stdout), text(&said.stderr));
    assert!(said.status.success(), "{out}{error}");
    assert_eq!(out.lines().count(), 10, "{out}{error}");
}

#[test]
fn connection_without_free_descriptors_waits_for_others_to_end() {
    let place = Place::new();
    let zones = zones(&place, 8);
    let of = zones.clone();
    let few = move || {
        let served = daemon(&of);
        let mut shell = std::process::Command::new("/bin/sh");
        shell.args(["-c", "ulimit -n 24; exec \"$0\" \"$@\""]);
        shell.arg(served.get_program()).args(served.get_args());
        shell
    };
    let first = Keeper::new(&zones, few.clone()).unwrap();
    let (came, comes) = std::sync::mpsc::channel();
    for _ in 0..40 {
        let (zones, few, came) = (zones.clone(), few.clone(), came.clone());
        std::thread::spawn(move || {
            let _ = came.send(Keeper::new(&zones, few).map(drop));
        });
    }
    for _ in 0..40 {
        let next = comes.recv_timeout(Duration::from_secs(60));
        next.expect("it is taken in").unwrap();
    }
    drop(first);
}

#[test]
fn handler_inside_a_call_that_waits_for_a_daemon_does_not_deadlock() {
    let place = Place::new();
    let program = place.build(include_str!("next.c"), "next");
    let (rules, zones) = (rules(&place, &rule("log")), zones(&place, 16));
    let (of, note, work) = (zones.clone(), place.path("daemon"), place.path("work"));
    std::fs::create_dir(&work).unwrap();
    let (notes, go) = (note.clone(), work.join("go"));
    // The first daemon starts at once, later ones once the program allows it; each writes its
    // process ID to a file.
    let waits = "[ ! -e \"$0\" ] || until [ -e \"$1\" ] || [ $((i += 1)) -gt 100 ]; do sleep 0.02; \
                 done; echo $$ > \"$0\"; shift; exec \"$@\"";
    let keeper = Keeper::new(&zones, move || {
        let served = daemon(&of);
        let mut shell = std::process::Command::new("/bin/sh");
        shell.arg("-c").arg(waits).arg(&notes).arg(&go);
        shell.arg(served.get_program()).args(served.get_args());
        shell
    });
    let keeper = keeper.unwrap();
    let placer = Placer::new().unwrap();
    // SIGKILL ends a hanging program even if it blocks all other signals.
    let program = program.into_os_string();
    let words = ["-s", "KILL", "60"].map(OsString::from);
    let words: Vec<_> = words.into_iter().chain([program]).collect();
    let what = ("timeout".as_ref(), &words[..]);
    let mut command = placer.command(what, &rules, Some(&zones)).unwrap();
    command.current_dir(&work);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let number = std::fs::read_to_string(&note).unwrap();
    let mut kill = std::process::Command::new("kill");
    assert!(kill.args(["-9", number.trim()]).status().unwrap().success());
    child.stdin.take().unwrap().write_all(b"g").unwrap();
    line.clear();
    out.read_line(&mut line).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(line, "bad 0, forced 0, refused 1\n", "{status}");
    drop(keeper);
}

#[test]
fn killed_daemon_is_replaced_and_loses_no_synced_write() {
    let place = Place::new();
    let program = place.build(include_str!("survive.c"), "survive");
    let (rules, zones) = (rules(&place, &rule("log")), zones(&place, 24));
    let (of, notes) = (zones.clone(), place.path("daemons"));
    let note = notes.clone();
    // Each daemon writes its process ID to a file, so that it can be killed.
    let keeper = Keeper::new(&zones, move || {
        let served = daemon(&of);
        let mut shell = std::process::Command::new("/bin/sh");
        shell
            .arg("-c")
            .arg("echo $$ > \"$0\"; exec \"$@\"")
            .arg(&note);
        shell.arg(served.get_program()).args(served.get_args());
        shell
    });
    let keeper = keeper.unwrap();
    let placer = Placer::new().unwrap();
    let words = [OsString::from("2500")];
    let what = (program.as_os_str(), &words[..]);
    let mut command = placer.command(what, &rules, Some(&zones)).unwrap();
    let work = place.path("work");
    std::fs::create_dir(&work).unwrap();
    let child = command.current_dir(&work).stdout(Stdio::piped()).spawn();
    let child = child.unwrap();
    let mut last = String::new();
    let mut kills = 0;
    for pause in [150, 230, 370, 410] {
        std::thread::sleep(Duration::from_millis(pause));
        let number = std::fs::read_to_string(&notes).unwrap();
        if number.trim().is_empty() || number == last {
            continue;
        }
        let killed = std::process::Command::new("kill")
            .arg("-9")
            .arg(number.trim())
            .status();
        kills += usize::from(killed.unwrap().success());
        last = number;
    }
    let said = child.wait_with_output().unwrap();
    let out = text(&said.stdout);
    assert!(said.status.success(), "{} {out}", said.status);
    let forced: u64 = out.split(' ').next().unwrap().parse().unwrap();
    assert!(kills >= 2 && forced > 50, "{kills} kills, {out}");
    drop(keeper);
}
