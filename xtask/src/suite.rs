//! Parallel run of the workspace's test programs.
//!
//! `cargo test` runs one program after the other, and most end with a few long tests that leave the
//! other cores idle. Invariants: the programs are those that `cargo test` builds, each run in the
//! folder of its crate. The output of a program is printed as a whole, after its end. A program
//! that does not end in time is killed.

use crate::{copies, program, tree};
use serde::Deserialize;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// A program of tests that Cargo has built.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Program {
    /// Crate and target, in readable form.
    pub name: String,
    /// Path of the executable.
    pub file: PathBuf,
    /// Working directory of the program.
    pub folder: PathBuf,
}

/// A message of Cargo, with the fields that concern test programs.
#[derive(Deserialize)]
struct Message {
    reason: String,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Crates whose integration tests take more than half a minute, the longest first. Started last,
/// one of them would leave the other cores idle.
const LONGEST: [&str; 13] = [
    "stack",
    "cowfs",
    "flashloom",
    "lfs",
    "ssd",
    "extfs",
    "remap",
    "hyfim",
    "persimmon",
    "hostftl",
    "machine",
    "parakeet",
    "programs",
];

/// Time limit of a program: several times the time of the longest one on two slow cores. Its output
/// by then names the test that hangs.
const PATIENCE: Duration = Duration::from_secs(20 * 60);

/// Position of a program in the order of starts: first the longest, then the other integration
/// tests, then the rest.
fn turn(name: &str) -> usize {
    let crates = name.strip_suffix(", tests/it");
    let long = crates.and_then(|name| LONGEST.iter().position(|&long| long == name));
    let otherwise = LONGEST.len() + usize::from(!name.contains(", tests/"));
    long.unwrap_or(otherwise)
}

/// Builds all tests of the workspace at `root`, runs them with `environment`, and then the examples
/// in the docs.
///
/// # Errors
/// A failed build, a program with too many functions, or the tests that failed; all programs of
/// tests are run in any case.
pub fn run(root: &Path, environment: &[(&str, String)]) -> Result<(), String> {
    let messages = built(root)?;
    if let Some(program) = copies::program_in(&messages) {
        copies::check(root, &program)?;
    }
    let mut programs = parse(&messages)?;
    programs.sort_by_key(|program| turn(&program.name));
    let count = programs.len();
    let Totals { failed, skipped } = run_all(programs, environment, PATIENCE);
    if !skipped.is_empty() {
        println!("-- skipped, in whole or in part:\n{}", skipped.join("\n"));
    }
    if !failed.is_empty() {
        return Err(format!(
            "{} of {count} failed: {}",
            failed.len(),
            failed.join(", ")
        ));
    }
    let mut cargo = tree::cargo();
    let cargo = cargo.current_dir(root).envs(environment.iter().cloned());
    program::run(cargo.args(["test", "--workspace", "--doc"]))
}

/// Builds the tests and returns the messages of Cargo; diagnostics go to the terminal.
fn built(root: &Path) -> Result<String, String> {
    let words = ["test", "--workspace", "--no-run"];
    let mut cargo = tree::cargo();
    let cargo = cargo.current_dir(root).args(words);
    let cargo = cargo.arg("--message-format=json-render-diagnostics");
    let output = cargo.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("`cargo test --no-run`: {error}"))?;
    let why = || "the tests were not built".to_owned();
    output.status.success().then_some(()).ok_or_else(why)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The test programs in the messages of Cargo, one JSON document a line.
///
/// # Errors
/// The first line that is not a message.
pub fn parse(said: &str) -> Result<Vec<Program>, String> {
    let mut programs = Vec::new();
    for line in said.lines() {
        let message: Message = serde_json::from_str(line)
            .map_err(|error| format!("cargo said {line:?}, not a message: {error}"))?;
        programs.extend(message.program());
    }
    Ok(programs)
}

impl Message {
    fn program(self) -> Option<Program> {
        if self.reason != "compiler-artifact" || !self.profile?.test {
            return None;
        }
        let (target, folder) = (self.target?, self.manifest_path?.parent()?.to_owned());
        let package = folder.file_name()?.to_string_lossy().into_owned();
        let name = match target.kind.iter().any(|kind| kind == "test") {
            true => format!("{package}, tests/{}", target.name),
            false => format!("{package}, {} {}", target.kind.join(" "), target.name),
        };
        Some(Program {
            name,
            file: self.executable?,
            folder,
        })
    }
}

/// Results summed over the programs that have run.
#[derive(Debug, Default)]
struct Totals {
    /// Names of programs that failed.
    failed: Vec<String>,
    /// Lines with which tests report that they were skipped, as `judges::skip` writes them.
    skipped: Vec<String>,
}

/// Runs `programs` in parallel, one on each core, each for at most `patience`.
fn run_all(programs: Vec<Program>, environment: &[(&str, String)], patience: Duration) -> Totals {
    let count = programs.len();
    let left = Mutex::new(programs.into_iter().enumerate());
    let totals = Mutex::new(Totals::default());
    let next = || left.lock().expect("no worker panics with it").next();
    let work = || {
        while let Some((index, program)) = next() {
            let place = format!("{}/{count} {}", index + 1, program.name);
            let (passed, said) = run_one(&program, environment, patience, &place);
            let mut totals = totals.lock().expect("no worker panics with it");
            let skipped = said.lines().filter(|line| line.starts_with("skipped "));
            totals.skipped.extend(skipped.map(str::to_owned));
            if !passed {
                totals.failed.push(program.name);
            }
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(work);
        }
    });
    totals.into_inner().expect("no worker has panicked")
}

/// Runs one program and prints its output. Returns whether it passed, and the output.
fn run_one(
    program: &Program,
    environment: &[(&str, String)],
    patience: Duration,
    place: &str,
) -> (bool, String) {
    println!("-- {place} begins");
    let begin = Instant::now();
    let (passed, how, said) = match output_of(program, environment, patience) {
        Ok((Some(status), said)) if status.success() => (true, "passed".to_owned(), said),
        Ok((Some(status), said)) => (false, format!("FAILED ({status})"), said),
        Ok((None, said)) => (false, "FAILED (it did not end)".to_owned(), said),
        Err(error) => (false, format!("FAILED ({error})"), String::new()),
    };
    let seconds = begin.elapsed().as_secs_f64();
    // One call, so that the outputs of two programs never mix.
    println!("{}\n-- {place} {how} in {seconds:.1} s", said.trim_end());
    (passed, said)
}

/// Runs a program. Returns its status, `None` if it was killed, and its output. The output goes to
/// a file, because a surviving child of the program might keep a pipe open.
fn output_of(
    program: &Program,
    environment: &[(&str, String)],
    patience: Duration,
) -> io::Result<(Option<ExitStatus>, String)> {
    let mut said = tempfile::tempfile()?;
    let mut command = Command::new(&program.file);
    let command = command.current_dir(&program.folder);
    let command = command.envs(environment.iter().cloned());
    let command = command.stdin(Stdio::null());
    let command = command.stdout(said.try_clone()?).stderr(said.try_clone()?);
    let status = ended(&mut command.spawn()?, patience)?;
    let mut bytes = Vec::new();
    said.rewind()?;
    said.read_to_end(&mut bytes)?;
    Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
}

/// Waits for `child` to end; kills it after `patience` and returns `None`.
fn ended(child: &mut Child, patience: Duration) -> io::Result<Option<ExitStatus>> {
    let begin = Instant::now();
    while begin.elapsed() < patience {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(Duration::from_millis(20));
    }
    child.kill()?;
    child.wait().map(|_| None)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = r#"{"reason":"compiler-artifact","manifest_path":"/w/core/ssd/Cargo.toml","target":{"name":"it","kind":["test"]},"profile":{"test":true},"executable":"/w/target/it-1"}
{"reason":"compiler-artifact","manifest_path":"/w/core/ssd/Cargo.toml","target":{"name":"ssd","kind":["lib"]},"profile":{"test":false},"executable":null}
{"reason":"compiler-artifact","manifest_path":"/w/core/ssd/Cargo.toml","target":{"name":"ssd","kind":["lib"]},"profile":{"test":true},"executable":"/w/target/ssd-1"}
{"reason":"compiler-artifact","manifest_path":"/w/flashloom/Cargo.toml","target":{"name":"flashloom","kind":["bin"]},"profile":{"test":false},"executable":"/w/target/flashloom"}
{"reason":"build-script-executed","package_id":"x"}
{"reason":"build-finished","success":true}"#;

    #[test]
    fn test_programs_are_selected_from_cargo_messages() {
        let programs = parse(SAID).unwrap();
        let names: Vec<_> = programs
            .iter()
            .map(|program| program.name.as_str())
            .collect();
        assert_eq!(names, ["ssd, tests/it", "ssd, lib ssd"]);
        assert_eq!(programs[0].file, Path::new("/w/target/it-1"));
        assert_eq!(programs[0].folder, Path::new("/w/core/ssd"));
    }

    #[test]
    fn longest_programs_start_first_and_unit_tests_last() {
        let mut names = [
            "ssd, lib ssd",
            "nand, tests/it",
            "ssd, tests/it",
            "stack, tests/it",
        ];
        names.sort_by_key(|name| turn(name));
        let wanted = [
            "stack, tests/it",
            "ssd, tests/it",
            "nand, tests/it",
            "ssd, lib ssd",
        ];
        assert_eq!(names, wanted);
    }

    #[test]
    fn invalid_cargo_message_is_named() {
        let why = parse("error: no such command").unwrap_err();
        assert!(why.contains("no such command"), "{why}");
    }

    fn program(name: &str, file: &str, folder: &str) -> Program {
        Program {
            name: name.to_owned(),
            file: file.into(),
            folder: folder.into(),
        }
    }

    #[test]
    fn failing_programs_are_named_and_the_others_run() {
        let programs = vec![
            program("fails", "/bin/false", "/"),
            program("is not there", "/nowhere/program", "/"),
            program("passes", "/bin/true", "/"),
            program("has no folder", "/bin/true", "/nowhere"),
        ];
        let mut failed = run_all(programs, &[], PATIENCE).failed;
        failed.sort();
        assert_eq!(failed, ["fails", "has no folder", "is not there"]);
    }

    /// A shell script as a test program. `install` writes it: a descriptor open for writing here
    /// would be inherited by programs that other tests spawn, and the script would be busy.
    fn script(folder: &Path, lines: &str) -> Program {
        let (text, file) = (folder.join("lines"), folder.join("script"));
        std::fs::write(&text, format!("#!/bin/sh\n{lines}\n")).unwrap();
        let mut install = Command::new("install");
        let installed = install.arg("-m700").arg(&text).arg(&file).status().unwrap();
        assert!(installed.success());
        program("script", file.to_str().unwrap(), "/")
    }

    #[test]
    fn skipped_tests_are_collected_from_both_streams() {
        let folder = tempfile::tempdir().unwrap();
        let lines = "echo test a ... ok; echo skipped a: no fio >&2; echo not skipped";
        let totals = run_all(vec![script(folder.path(), lines)], &[], PATIENCE);
        assert_eq!(totals.skipped, ["skipped a: no fio"]);
        assert!(totals.failed.is_empty());
    }

    #[test]
    fn hanging_program_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let hangs = script(folder.path(), "echo said; exec sleep 1000");
        let (status, said) = output_of(&hangs, &[], Duration::from_secs(1)).unwrap();
        assert_eq!((status, said.as_str()), (None, "said\n"));
    }
}
