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
    bench.refuses("man file", &["file"]);
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

/// Examples that need a client, a tool or a served drive, or take longer than a test may.
const NOT_RUN: &[&str] = &[
    "drive cut",
    "drive fault",
    "drive stats",
    "man ~",
    "memory",
    "mount",
    "record --memory",
    "reproduce bytefs",
    "serve",
    "shim",
    "soak",
];

/// The examples below the help of `command` and of its subcommands, in the order of the help.
fn examples(bench: &Bench, command: &str) -> Vec<String> {
    let help = bench.done(&format!("{command} --help"));
    let Some((_, shown)) = help.split_once("\nExamples:\n") else {
        let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        let named = listed.take_while(|line| line.starts_with("  "));
        let first = named.filter_map(|line| line.split_whitespace().next());
        let parts: Vec<_> = first.map(|word| format!("{command} {word}")).collect();
        assert!(!parts.is_empty(), "{command} has no examples");
        return parts
            .iter()
            .flat_map(|part| examples(bench, part))
            .collect();
    };
    let lines = shown.lines().filter(|line| !line.is_empty());
    let found: Vec<_> = lines
        .map(|line| {
            line.strip_prefix("  flashloom ")
                .expect("a command")
                .to_owned()
        })
        .collect();
    assert_eq!(found.len(), 2, "{help}");
    found
}

#[test]
fn examples_of_the_help_run_in_their_order() {
    let bench = Bench::new();
    fs::create_dir(bench.path("play")).expect("it can be made");
    for line in [
        "drive create o.flash --preset ocssd --size 512MiB",
        "drive create f.flash --preset fdp --size 64MiB",
        "drive create b.flash --size 256MiB",
        "mkfs btrfs b.flash",
    ] {
        bench.done(line);
    }
    let all = commands(&bench);
    let all: Vec<_> = all
        .iter()
        .flat_map(|command| examples(&bench, command))
        .collect();
    for line in &all {
        let is_left_out = NOT_RUN.iter().any(|words| line.starts_with(words));
        if is_left_out || line == "compare" {
            continue;
        }
        bench.done(line);
    }
}
