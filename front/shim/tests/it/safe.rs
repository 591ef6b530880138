//! Invariants under faulty rules, signals and forks.

use super::Place;
use super::place::{bare, rule, rules, run, script, serve, text, written, zones};
use shim::run::{Placer, check};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const WRONG: &str = "[[rule]]\nstream = \"none\"\npaht = \"x\"\n";

/// Makes a named pipe that has no writer.
fn pipe(path: &Path) {
    let name = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the name is a string.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o644) }, 0);
}

/// Rules that cannot be loaded, with a part of the error message of each.
fn broken(place: &Place) -> Vec<(PathBuf, &'static str)> {
    let at = |name: &str| place.path(name);
    std::fs::write(at("wrong"), WRONG).unwrap();
    std::fs::create_dir(at("folder")).unwrap();
    pipe(&at("pipe"));
    let long = format!("{}{}", rule("log"), "#".repeat(1 << 20));
    std::fs::write(at("long"), long).unwrap();
    std::fs::write(at("bytes"), b"\xff\xfe").unwrap();
    vec![
        (at("none"), "no such file, nor ready rules"),
        (at("wrong"), "paht"),
        (at("folder"), "Is a directory"),
        (at("pipe"), "expected a file, found a pipe"),
        (at("long"), "longer than 1048576 bytes"),
        (at("bytes"), "not UTF-8"),
    ]
}

#[test]
fn invalid_rules_are_reported_before_a_program_runs() {
    let place = Place::new();
    for (rules, expected) in broken(&place) {
        let why = check(&rules).unwrap_err();
        assert!(why.contains(expected), "{why}");
        assert!(why.starts_with(&rules.display().to_string()), "{why}");
    }
    check(Path::new("rocksdb")).unwrap();
    check(&rules(&place, &rule("log"))).unwrap();
}

#[test]
fn placed_files_stay_placed_under_invalid_rules_and_no_file_is_added() {
    let place = Place::new();
    let zones = zones(&place, 16);
    let good = rules(&place, &rule("log"));
    let made = script(&place, "echo kept > a.log; echo cut > c.log", &good, &zones);
    assert!(made.status.success());
    let other = place.path("other");
    std::fs::write(&other, rule("sst")).unwrap();
    let mut bad = broken(&place);
    bad.push((other, ""));
    let mut kept = "kept\n".to_owned();
    for (number, (rules, expected)) in bad.iter().enumerate() {
        let words = format!(
            "cat a.log; echo {number} >> a.log; od -c a.log | tail -1; cat < a.log; wc -c a.log; \
             echo c{number} > c.log; cat c.log; echo plain > p{number}.log"
        );
        let said = script(&place, &words, rules, &zones);
        let more = format!("{kept}{number}\n");
        let end = format!("{:07o}\n", more.len());
        let wanted = format!("{kept}{end}{more}{} a.log\nc{number}\n", more.len());
        assert_eq!(text(&said.stdout), wanted, "{expected}");
        let error = text(&said.stderr);
        assert!(error.contains(expected), "{error}");
        let plain = std::fs::read(place.path(&format!("work/p{number}.log"))).unwrap();
        assert_eq!(plain, b"plain\n", "nothing more is placed");
        kept = more;
    }
    let said = script(&place, "cat a.log c.log", &good, &zones);
    assert_eq!(text(&said.stdout), format!("{kept}c6\n"));
    let len = bare(&place.path("work/a.log"));
    assert_eq!(len, kept.len(), "it was placed all the time");
}

/// Runs a shell script under the library, without zones.
fn without_zones(place: &Place, script: &str, rules: &Path) -> Output {
    let placer = Placer::new().unwrap();
    let words = [OsString::from("-c"), script.into()];
    let command = placer.command(("/bin/sh".as_ref(), &words), rules, None);
    run(command.unwrap(), &place.path("work"))
}

#[test]
fn unreachable_placed_file_returns_errors_and_is_intact_afterwards() {
    let place = Place::new();
    let (good, zones) = (rules(&place, &rule("log")), zones(&place, 16));
    script(&place, "echo kept > a.log", &good, &zones);
    for rules in [good.clone(), place.path("none")] {
        for asks in [
            "cat a.log",
            "cat < a.log",
            "echo more >> a.log",
            "echo more > a.log",
            "od -An -c a.log",
            "head -c 1 < a.log",
            "truncate -s 2 a.log",
        ] {
            let words = format!("{asks} && echo done; echo plain > x.txt; cat x.txt");
            let said = without_zones(&place, &words, &rules);
            assert_eq!(text(&said.stdout), "plain\n", "{asks}");
            let error = text(&said.stderr);
            assert!(error.contains("none are given"), "{asks}: {error}");
        }
    }
    let said = script(&place, "cat a.log", &good, &zones);
    assert_eq!(text(&said.stdout), "kept\n");
}

#[test]
fn sync_without_placed_files_syncs_those_of_other_processes() {
    let place = Place::new();
    let source = r#"
        #define _GNU_SOURCE
        #include <fcntl.h>
        #include <unistd.h>
        int main(int argc, char **argv) {
            if (argc == 1) return sync(), 0;
            return syncfs(open(".", O_RDONLY | O_DIRECTORY));
        }"#;
    let program = place.build(source, "forces");
    let (rules, zones) = (rules(&place, &rule("log")), zones(&place, 16));
    for (how, least) in [("", 5000), (" all", 10000)] {
        let words = format!(
            "head -c 5000 /dev/zero > a{}.log; {}{how}; wc -c ../zones/seq/* | tail -1",
            how.len(),
            program.display()
        );
        let said = script(&place, &words, &rules, &zones);
        assert!(said.status.success(), "{}", text(&said.stderr));
        let now = text(&said.stdout);
        let total: u64 = now.trim().split(' ').next().unwrap().parse().unwrap();
        assert!(total > least, "{how}: {now}");
    }
    assert!(written(&zones) >= 10000);
}

/// Runs a program with files placed; kills it if it hangs.
#[track_caller]
fn placed(place: &Place, program: &Path) -> String {
    let (rules, zones) = (rules(place, &rule("log")), zones(place, 16));
    let _served = serve(&zones);
    let placer = Placer::new().unwrap();
    // SIGKILL works even if the program blocks all other signals.
    let words = ["-s", "KILL", "60"].map(OsString::from);
    let words: Vec<_> = words.into_iter().chain([program.into()]).collect();
    let command = placer.command(("timeout".as_ref(), &words), &rules, Some(&zones));
    let with = run(command.unwrap(), &place.path("with"));
    let said = text(&with.stdout);
    let (status, error) = (with.status, text(&with.stderr));
    assert!(status.success(), "{status}: {said}{error}");
    said
}

/// Runs a program without the library and with files placed; both must print the same.
#[track_caller]
fn same(place: &Place, source: &str, name: &str) {
    let program = place.build(source, name);
    let plain = run(Command::new(&program), &place.path("plain"));
    assert!(plain.status.success(), "{}", plain.status);
    assert_eq!(placed(place, &program), text(&plain.stdout));
}

#[test]
fn handler_that_interrupts_the_allocator_may_write() {
    same(&Place::new(), include_str!("handler.c"), "handler");
}

#[test]
fn handler_inside_a_placed_call_never_waits() {
    same(&Place::new(), include_str!("upon.c"), "upon");
}

#[test]
fn unplaced_files_are_opened_and_read_without_allocating() {
    same(&Place::new(), include_str!("alloc.c"), "alloc");
}

#[test]
fn calls_of_an_allocator_under_its_lock_allocate_nothing() {
    same(&Place::new(), include_str!("within.c"), "within");
}

#[test]
fn length_of_an_unreachable_placed_file_is_an_error() {
    let place = Place::new();
    let source = r#"
        #define _GNU_SOURCE
        #include <fcntl.h>
        #include <sys/stat.h>
        #include <unistd.h>
        #include "said.h"
        int main(void) {
            struct stat of;
            struct statx more;
            int fd = open("link", O_RDONLY);
            DO(fstat(fd, &of));
            DO(statx(fd, "", AT_EMPTY_PATH, STATX_SIZE, &more));
            DO(stat("a.log", &of));
            DO(lstat("a.log", &of));
            DO(fstatat(AT_FDCWD, "link", &of, 0));
            DO(statx(AT_FDCWD, "a.log", 0, STATX_SIZE, &more));
            DO(stat("plain.log", &of));
            return 0;
        }"#;
    let program = place.build(source, "lengths");
    let (rules, zones) = (rules(&place, &rule("log")), zones(&place, 16));
    // The stand-in is empty.
    let made = "echo kept > a.log; ln -s a.log link; truncate -s 100 plain.log";
    script(&place, made, &rules, &zones);
    let stand = std::fs::File::options()
        .write(true)
        .open(place.path("work/a.log"));
    stand.unwrap().set_len(0).unwrap();
    let placer = Placer::new().unwrap();
    let command = placer.command((program.as_os_str(), &[]), &rules, Some(&zones));
    // The library does not wait for a daemon if the folder of zones does not exist.
    std::fs::rename(&zones, place.path("away")).unwrap();
    let said = run(command.unwrap(), &place.path("work"));
    let (out, error) = (text(&said.stdout), text(&said.stderr));
    let answers: Vec<_> = out
        .lines()
        .map(|line| line.rsplit(" = ").next().unwrap())
        .collect();
    let mut wanted = vec!["-1 EIO"; 6];
    wanted.push("0");
    assert_eq!(answers, wanted, "{out}{error}");
}

#[test]
fn handler_can_jump_out_of_a_placed_write() {
    same(&Place::new(), include_str!("jumps.c"), "jumps");
}

#[test]
fn handler_inside_a_placed_write_may_fork() {
    same(&Place::new(), include_str!("forks.c"), "forks");
}

#[test]
fn fork_and_flush_of_all_streams_do_not_deadlock() {
    same(&Place::new(), include_str!("streams.c"), "streams");
}

#[test]
fn child_of_an_unseen_fork_connects_on_its_own() {
    same(&Place::new(), include_str!("unseen.c"), "unseen");
}

#[test]
fn cancelled_thread_ends_at_a_placed_call() {
    same(&Place::new(), include_str!("cancel.c"), "cancel");
}

#[test]
fn child_inherits_the_descriptors_open_at_the_fork() {
    let place = Place::new();
    let program = place.build(include_str!("heirs.c"), "heirs");
    assert_eq!(placed(&place, &program), "bad 0, some 1\n");
}

#[test]
fn replaced_descriptor_is_always_the_old_or_the_new_file() {
    same(&Place::new(), include_str!("over.c"), "over");
}
