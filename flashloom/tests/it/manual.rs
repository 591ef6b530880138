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
