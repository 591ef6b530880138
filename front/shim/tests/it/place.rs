//! Programs whose files are placed, beside the same ones without.

use super::Place;
use super::programs::installed;
use shim::run::Placer;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PROGRAM: &str = include_str!("place.c");
const MIB: u64 = 1 << 20;

/// A folder that does as zones do: `count` of 8 MiB.
fn zones(place: &Place, count: u32) -> PathBuf {
    let folder = place.path("zones");
    std::fs::create_dir_all(folder.join("seq")).unwrap();
    let says = format!("capacity={}\nopen=8\nactive=10\n", 8 * MIB);
    std::fs::write(folder.join("emulated"), says).unwrap();
    for zone in 0..count {
        std::fs::write(folder.join(format!("seq/{zone}")), "").unwrap();
    }
    folder
}

/// Bytes in zones for data.
fn written(zones: &Path) -> u64 {
    let size = |zone: u32| std::fs::metadata(zones.join(format!("seq/{zone}")));
    (2..)
        .map_while(|zone| size(zone).ok())
        .map(|it| it.len())
        .sum()
}

fn rules(place: &Place, text: &str) -> PathBuf {
    let path = place.path("rules");
    std::fs::write(&path, text).unwrap();
    path
}

/// A program that places, or does not, in a folder of its own.
fn run(mut command: Command, folder: &Path) -> Output {
    std::fs::create_dir_all(folder).unwrap();
    command.current_dir(folder).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a program says without the library, and with it.
fn compare(place: &Place, program: &Path, rules: &Path, zones: Option<&Path>) -> Output {
    let placer = Placer::new().unwrap();
    let plain = run(Command::new(program), &place.path("plain"));
    assert!(plain.status.success());
    let with = placer
        .command((program.as_os_str(), &[]), rules, zones)
        .unwrap();
    let with = run(with, &place.path("with"));
    for (number, (with, plain)) in text(&with.stdout)
        .lines()
        .zip(text(&plain.stdout).lines())
        .enumerate()
    {
        assert_eq!(with, plain, "line {}", number + 1);
    }
    assert!(
        with.status.success(),
        "{}: {}",
        with.status,
        text(&with.stderr)
    );
    assert_eq!(with.stdout.len(), plain.stdout.len());
    with
}

#[test]
fn calls_on_files_that_no_rule_names_are_as_without_the_library() {
    let place = Place::new();
    let program = place.build(PROGRAM, "calls");
    let (rules, zones) = (rules(&place, "*.sst 1 1 5\n"), zones(&place, 16));
    let with = compare(&place, &program, &rules, Some(&zones));
    assert_eq!(text(&with.stderr), "");
    assert_eq!(written(&zones), 0);
}

#[test]
fn calls_on_placed_files_are_as_without_the_library() {
    let place = Place::new();
    let program = place.build(PROGRAM, "calls");
    let (rules, zones) = (rules(&place, "*.log 1 1 2\n"), zones(&place, 16));
    let with = compare(&place, &program, &rules, Some(&zones));
    assert_eq!(text(&with.stderr), "");
    assert!(written(&zones) > 200_000, "{}", written(&zones));
}

#[test]
fn hints_change_nothing_that_a_program_sees() {
    let place = Place::new();
    let program = place.build(PROGRAM, "calls");
    let rules = rules(&place, "*.log 1 1 2\n");
    let with = compare(&place, &program, &rules, None);
    assert_eq!(text(&with.stderr), "");
}

/// Runs a shell script with files placed; gives what it says.
fn script(place: &Place, script: &str, rules: &Path, zones: &Path) -> Output {
    let placer = Placer::new().unwrap();
    let words = [OsString::from("-c"), script.into()];
    let what = ("/bin/sh".as_ref(), &words[..]);
    run(
        placer.command(what, rules, Some(zones)).unwrap(),
        &place.path("work"),
    )
}

#[test]
fn tools_under_the_library_see_what_others_have_placed() {
    let place = Place::new();
    let (rules, zones) = (rules(&place, "*.log 1 1 2\n"), zones(&place, 16));
    let make = "head -c 3000000 /dev/urandom > x; cat x > a.log; cmp x a.log && cp a.log b.log \
                && cmp x b.log && mv a.log c.log && cmp x c.log && wc -c < c.log && rm b.log && ls";
    let said = script(&place, make, &rules, &zones);
    assert_eq!(
        text(&said.stdout),
        "3000000\nc.log\nx\n",
        "{}",
        text(&said.stderr)
    );
    assert!(written(&zones) >= 3_000_000);
    // Without the library the file is as long, and empty.
    let bare = std::fs::read(place.path("work/c.log")).unwrap();
    assert_eq!(bare, vec![0; 3_000_000]);
}

#[test]
fn rules_with_an_error_are_named_and_nothing_is_placed() {
    let place = Place::new();
    let (rules, zones) = (
        rules(&place, "*.log 1 1 2\n*.sst one 1 5\n"),
        zones(&place, 8),
    );
    let said = script(
        &place,
        "cat /dev/null > a.log; echo hello >> a.log; cat a.log",
        &rules,
        &zones,
    );
    assert!(text(&said.stdout).starts_with("hello"));
    assert!(
        text(&said.stderr).contains("line 2"),
        "{}",
        text(&said.stderr)
    );
    assert_eq!(written(&zones), 0);
}

const BENCH: &str = "--num=60000 --value_size=400 --write_buffer_size=2097152 --threads=2 \
                     --compression_type=none --target_file_size_base=2097152";

#[test]
fn a_database_finds_all_that_it_has_placed() {
    let Some(program) = installed("db_bench") else {
        return;
    };
    let place = Place::new();
    let rules = rules(&place, "*.sst 2 1 5\n*.log 1 1 2\n");
    let zones = zones(&place, 64);
    let program = program.display();
    let fill =
        format!("{program} --benchmarks=fillrandom,overwrite,readrandom --db=db {BENCH} 2>&1");
    let said = script(&place, &fill, &rules, &zones);
    assert!(
        said.status.success(),
        "{}{}",
        text(&said.stdout),
        text(&said.stderr)
    );
    assert!(written(&zones) > 8 * MIB);
    let again = format!(
        "{program} --use_existing_db=1 --benchmarks=readseq,verifychecksum,readwhilewriting --db=db {BENCH} 2>&1"
    );
    let said = script(&place, &again, &rules, &zones);
    assert!(
        said.status.success(),
        "{}{}",
        text(&said.stdout),
        text(&said.stderr)
    );
    let out = text(&said.stdout);
    assert!(!out.contains("orrupt") && !out.contains("rror"), "{out}");
}
