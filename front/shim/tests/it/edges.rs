//! Rare operations of programs and tools on placed files, by which no data may be lost.

use super::Place;
use super::place::{bare, compare, rule, rules, script, text, written, zones};
use std::process::Command;

/// Runs a shell command without the library, in the folder of [`script`].
fn without(place: &Place, words: &str) {
    let mut shell = Command::new("/bin/sh");
    let shell = shell.args(["-c", words]).current_dir(place.path("work"));
    assert!(shell.status().unwrap().success(), "{words}");
}

#[test]
fn rare_calls_behave_as_without_the_library() {
    let place = Place::new();
    let program = place.build(include_str!("edges.c"), "edges");
    let (rules, zones) = (rules(&place, &rule("log")), zones(&place, 16));
    let with = compare(&place, &program, &rules, Some(&zones));
    assert_eq!(text(&with.stderr), "");
    assert!(written(&zones) > 0);
}

#[test]
fn copy_with_all_attributes_is_a_separate_file() {
    let place = Place::new();
    let (rules, zones) = (rules(&place, &rule("log")), zones(&place, 16));
    let copies = "seq 1 10000 > a.log; sync; md5sum < a.log; cp -a a.log b.log; rm a.log; \
                  md5sum < b.log; \
                  far=$(mktemp -d /dev/shm/flashloom-test-XXXXXX) && mv b.log $far/c.log; \
                  md5sum < $far/c.log; mv $far/c.log d.log; rm -r $far; md5sum < d.log; ls";
    let said = script(&place, copies, &rules, &zones);
    let (out, error) = (text(&said.stdout), text(&said.stderr));
    let sum = out.lines().next().unwrap_or_default().to_owned();
    assert!(!sum.starts_with("d41d8cd9"), "{out}{error}");
    assert_eq!(
        out,
        format!("{sum}\n{sum}\n{sum}\n{sum}\nd.log\n"),
        "{error}"
    );
}

#[test]
fn copy_made_without_the_library_is_reported_and_does_not_affect_the_file() {
    let place = Place::new();
    let (rules, zones) = (rules(&place, &rule("log")), zones(&place, 16));
    script(
        &place,
        "echo kept > a.log; echo other > b.log; sync",
        &rules,
        &zones,
    );
    // A backup; a rename and a second name; a restored backup.
    without(
        &place,
        "cp -a a.log copy.log && ln a.log link.log && mv a.log moved.log",
    );
    without(&place, "cp -a b.log b.bak && rm b.log && cp -a b.bak b.log");
    let reads = "cat copy.log; cat moved.log link.log; cat b.log; stat -c '%s %n' copy.log";
    let said = script(&place, reads, &rules, &zones);
    let (out, error) = (text(&said.stdout), text(&said.stderr));
    assert_eq!(out, "kept\nkept\n5 copy.log\n", "{error}");
    let told = |name: &str| error.contains(&format!("{name}: a copy of a placed file"));
    assert!(
        told("copy.log") && told("b.log") && !told("moved.log"),
        "{error}"
    );
    // No operation on the copy affects the file.
    let ends = "echo x >> copy.log; truncate -s 0 copy.log; mv copy.log copy.txt; \
                mv -f copy.log copied.log; rm -f copied.log; cat moved.log; ls";
    let said = script(&place, ends, &rules, &zones);
    let out = text(&said.stdout);
    assert_eq!(
        out,
        "kept\nb.bak\nb.log\nlink.log\nmoved.log\n",
        "{}",
        text(&said.stderr)
    );
    // A copy that a program starts with as standard input fails all the same.
    without(&place, "cp -a moved.log copy.log");
    let placer = shim::run::Placer::new().unwrap();
    let command = placer.command(("cat".as_ref(), &[]), &rules, Some(&zones));
    let copy = std::fs::File::open(place.path("work/copy.log")).unwrap();
    let _served = super::place::serve(&zones);
    let said = command.unwrap().stdin(copy).output().unwrap();
    assert!(
        !said.status.success() && said.stdout.is_empty(),
        "{}",
        text(&said.stdout)
    );
}

#[test]
fn truncate_by_path_resizes_the_stand_in() {
    let place = Place::new();
    let source = r#"
        #include <unistd.h>
        int main(void) { return truncate("a.log", 7) != 0; }"#;
    let program = place.build(source, "cuts");
    let (rules, zones) = (rules(&place, &rule("log")), zones(&place, 16));
    let words = format!("seq 1000 > a.log; sync; {}", program.display());
    let said = script(&place, &words, &rules, &zones);
    assert!(said.status.success(), "{}", text(&said.stderr));
    let stand = std::fs::metadata(place.path("work/a.log")).unwrap();
    assert_eq!(stand.len(), 7, "tools without the library see it");
}

#[test]
fn file_in_other_zones_causes_no_removal_in_these() {
    let place = Place::new();
    let rules = rules(&place, &rule("log"));
    let (one, other) = (zones(&place, 8), place.path("others"));
    script(&place, "echo one > a.log; sync", &rules, &one);
    std::fs::rename(&one, &other).unwrap();
    let one = zones(&place, 8);
    script(
        &place,
        "echo two > b.log; sync; rm a.log; sync",
        &rules,
        &one,
    );
    let said = script(&place, "cat b.log", &rules, &one);
    assert_eq!(text(&said.stdout), "two\n", "{}", text(&said.stderr));
}

#[test]
fn file_that_cannot_leave_the_zones_keeps_its_name() {
    let place = Place::new();
    let program = place.build(include_str!("moves.c"), "moves");
    let (rules, zones) = (rules(&place, &rule("log")), zones(&place, 8));
    let said = script(&place, program.to_str().unwrap(), &rules, &zones);
    let expected = "rename(\"a.log\", \"a.bak\") = -1 EFBIG\n\
                    link(\"a.log\", \"a.bak\") = -1 EFBIG\naccess(\"a.bak\", F_OK) = -1 ENOENT\n";
    assert_eq!(text(&said.stdout), expected, "{}", text(&said.stderr));
    let len = bare(&place.path("work/a.log"));
    assert_eq!(len, 3_145_728, "nothing is left of the copy");
    let moved = "mv a.log a.bak; tr -d p < a.bak | wc -c; wc -c < a.bak";
    let said = script(&place, moved, &rules, &zones);
    assert_eq!(text(&said.stdout), "0\n3145728\n", "{}", text(&said.stderr));
}
