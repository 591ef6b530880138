//! Manual pages and completions cover every command.

use crate::Bench;
use std::fs;
use std::process::Command;

/// The commands in the help text.
fn commands(bench: &Bench) -> Vec<String> {
    let help = bench.done("--help");
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let named = listed.take_while(|line| line.starts_with("  "));
    let first = named.filter_map(|line| line.split_whitespace().next());
    let all: Vec<String> = first.map(str::to_owned).collect();
    assert!(all.len() > 20, "{help}");
    all
}

#[test]
fn each_command_has_a_page() {
    let bench = Bench::new();
    for _ in 0..2 {
        bench.done("man pages/man1");
    }
    let pages = bench.path("pages/man1");
    for command in commands(&bench) {
        let page = fs::read_to_string(pages.join(format!("flashloom-{command}.1")));
        let page = page.unwrap_or_else(|error| panic!("{command}: {error}"));
        assert!(page.contains(".SH SYNOPSIS"), "{command}");
    }
    assert!(pages.join("flashloom-drive-create.1").is_file());
    bench.write("file", "");
    bench.refuses("man file", &["file: expected a directory, found a file"]);
}

#[test]
fn shells_complete_each_command() {
    let bench = Bench::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = bench.done(&format!("completions {shell}"));
        for command in commands(&bench) {
            assert!(script.contains(&command), "{shell}: {command}");
        }
        // Shells that are installed parse the script without errors.
        bench.write("script", &script);
        let read = Command::new(shell)
            .arg("-n")
            .arg(bench.path("script"))
            .output();
        if let Ok(read) = read {
            assert!(read.status.success(), "{shell}: {read:?}");
        }
    }
    bench.refuses("completions csh", &["csh"]);
}

/// Commands whose examples need a program that may be missing, run until a signal, or take longer
/// than a test may.
const NOT_RUN: &[&str] = &[
    "drive cut",
    "calibrate",
    "drive fault",
    "drive stats",
    "man",
    "memory",
    "mount",
    "powercut",
    "record",
    "serve",
    "shim",
    "soak",
];
/// Examples that take longer than a test may.
const LONG: &[&str] = &["flashloom compare", "flashloom reproduce bytefs/fig6"];

/// The commands below `command` that can be run, each with the lines of its examples.
fn examples(bench: &Bench, command: &str) -> Vec<(String, Vec<String>)> {
    let help = bench.done(&format!("{command} --help"));
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let named = listed.take_while(|line| line.starts_with("  "));
    let first = named.filter_map(|line| line.split_whitespace().next());
    let parts = first.map(|part| examples(bench, &format!("{command} {part}")));
    let below: Vec<_> = parts.flatten().collect();
    let Some((_, shown)) = help.split_once("\nExamples:\n") else {
        assert!(!below.is_empty(), "{command} has no examples");
        return below;
    };
    let lines = shown.lines().filter_map(|line| line.strip_prefix("  "));
    let own = (command.to_owned(), lines.map(str::to_owned).collect());
    std::iter::once(own).chain(below).collect()
}

/// Fails if an example needs a file or a directory that the lines above it do not make.
#[test]
fn examples_of_each_help_run_in_their_order_in_an_empty_directory() {
    let bench = Bench::new();
    let commands = commands(&bench);
    let all = commands.iter().flat_map(|c| examples(&bench, c));
    for (command, lines) in all {
        if NOT_RUN.iter().any(|words| command.starts_with(words)) {
            continue;
        }
        let bench = Bench::new();
        for line in lines.iter().filter(|line| !LONG.contains(&line.as_str())) {
            match (line.strip_prefix("flashloom "), line.strip_prefix("mkdir ")) {
                (Some(words), _) => drop(bench.done(words)),
                (_, Some(name)) => fs::create_dir(bench.path(name)).expect("it can be made"),
                _ => panic!("{command}: the test cannot run {line:?}"),
            }
        }
    }
}
