//! Every check of continuous integration, in eight steps. The first step looks for the programs and
//! components that the others need.
//!
//! Each step prints its name and the equivalent command at its start, and its time at its end. The
//! first step that fails ends the check with a remedy.

use crate::{Tree, deny, program, python, rules, suite, tools, tree};
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

struct Step {
    name: &'static str,
    work: Work,
    /// Whether `--quick` skips the step.
    slow: bool,
    remedy: &'static str,
}

enum Work {
    /// Runs Cargo with these arguments.
    Cargo(&'static [&'static str]),
    /// Calls a function of this program; the name is that of its command.
    Own(&'static str, fn(&Path) -> Result<(), String>),
}

const STEPS: &[Step] = &[
    Step {
        name: "tools",
        work: Work::Own("tools", |_| tools::provide()),
        slow: true,
        remedy: "install what is missing, from Debian's packages or otherwise",
    },
    Step {
        name: "format",
        work: Work::Cargo(&["fmt", "--all", "--check"]),
        slow: false,
        remedy: "run `cargo fmt --all`",
    },
    Step {
        name: "clippy",
        work: Work::Cargo(&["clippy", "--workspace", "--all-targets"]),
        slow: false,
        remedy: "do what each message suggests; `cargo clippy --fix` does many of them",
    },
    Step {
        name: "docs",
        work: Work::Cargo(&[
            "doc",
            "--no-deps",
            "--workspace",
            "--document-private-items",
        ]),
        slow: true,
        remedy: "mend the links that rustdoc names",
    },
    Step {
        name: "house rules",
        work: Work::Own("rules", rules),
        slow: false,
        remedy: "each finding above names its own; `cargo xtask rules` shows them again",
    },
    Step {
        name: "crates of others",
        work: Work::Own("deny", deny::check),
        slow: true,
        remedy: "take another crate or version, or say in deny.toml why not",
    },
    Step {
        name: "tests",
        work: Work::Own("tests", test),
        slow: true,
        remedy: "run the failed test alone: `cargo test -p CRATE NAME`",
    },
    Step {
        name: "Python",
        work: Work::Own("python", python::test),
        slow: true,
        remedy: "run `cargo xtask python`; it needs PyPI for maturin and what the tests use",
    },
];

/// Runs the steps in order, without the slow ones if `quick`.
///
/// # Errors
/// The name of the step that failed, with its remedy.
pub fn run(root: &Path, quick: bool) -> Result<(), String> {
    let start = Instant::now();
    let steps: Vec<_> = STEPS.iter().filter(|step| !quick || !step.slow).collect();
    for (index, step) in steps.iter().enumerate() {
        println!(
            "== {}/{} {}: {}",
            index + 1,
            steps.len(),
            step.name,
            step.command()
        );
        let begin = Instant::now();
        let outcome = step.run(root);
        let seconds = begin.elapsed().as_secs_f64();
        outcome.map_err(|why| {
            let name = step.name;
            format!(
                "{name} failed after {seconds:.1} s: {why}\nremedy: {}",
                step.remedy
            )
        })?;
        println!("== {} passed in {seconds:.1} s", step.name);
    }
    println!("== all passed in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

impl Step {
    fn command(&self) -> String {
        match self.work {
            Work::Cargo(words) => format!("cargo {}", words.join(" ")),
            Work::Own(word, _) => format!("cargo xtask {word}"),
        }
    }

    fn run(&self, root: &Path) -> Result<(), String> {
        let words = match self.work {
            Work::Own(_, run) => return run(root),
            Work::Cargo(words) => words,
        };
        let mut command = tree::cargo();
        command.current_dir(root).args(words);
        match self.name {
            "clippy" if tools::warnings_are_errors() => {
                command.args(["--", "-D", "warnings"]);
            }
            "docs" if tools::warnings_are_errors() => {
                command.env("RUSTDOCFLAGS", "-D warnings");
                command.envs(as_clippy());
            }
            _ => {}
        }
        program::run(&mut command)
    }
}

/// Environment with which Cargo reuses the compiler results of the clippy step: that in which
/// `cargo clippy -- -D warnings` reads the crates of the workspace. If it does not match, the
/// crates are read again, and the result stays the same.
fn as_clippy() -> Vec<(&'static str, OsString)> {
    let cargo = env::var_os("CARGO").map(PathBuf::from);
    let driver = cargo.map(|cargo| cargo.with_file_name("clippy-driver"));
    let Some(driver) = driver.filter(|driver| driver.is_file()) else {
        return Vec::new();
    };
    let mark = "__CLIPPY_HACKERY__";
    vec![
        ("RUSTC_WORKSPACE_WRAPPER", driver.into()),
        ("CLIPPY_ARGS", format!("-D{mark}warnings{mark}").into()),
    ]
}

/// Builds and runs the tests of the workspace at `root`.
///
/// # Errors
/// As [`suite::run`].
pub fn test(root: &Path) -> Result<(), String> {
    tests(root, None)
}

/// Runs the tests with every round of the random ones (`judges::rounds`). The check runs the first
/// rounds of each, which reach the states that the tests assert, because all of them take a third of
/// its time.
///
/// # Errors
/// As [`suite::run`].
pub fn nightly(root: &Path) -> Result<(), String> {
    tests(root, Some(("FLASHLOOM_NIGHTLY", "1".to_owned())))
}

fn tests(root: &Path, more: Option<(&'static str, String)>) -> Result<(), String> {
    let sample = sample(root).map(|number| ("FLASHLOOM_SOAK_SAMPLE", number));
    let environment: Vec<_> = sample.into_iter().chain(more).collect();
    suite::run(root, &environment)
}

/// A number derived from the commit: tests try different power cuts for each commit, and the same
/// ones for the same commit. `None` outside a checkout.
fn sample(root: &Path) -> Option<String> {
    let mut git = Command::new("git");
    let git = git
        .args(["rev-parse", "--short=8", "HEAD"])
        .current_dir(root);
    let said = String::from_utf8(git.output().ok()?.stdout).ok()?;
    let number = u64::from_str_radix(said.trim(), 16).ok()?;
    Some(number.to_string())
}

/// Prints the findings of the house rules on the workspace at `root`.
///
/// # Errors
/// The number of findings, or why the workspace could not be read.
pub fn rules(root: &Path) -> Result<(), String> {
    let tree = Tree::read(root).map_err(|error| error.to_string())?;
    let findings = rules::find_all(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        let (rules, files) = (rules::ALL.len(), tree.sources.len());
        println!("{rules} rules hold over {files} files");
        return Ok(());
    }
    Err(format!("{} findings", findings.len()))
}
