//! Other programs: their presence, and the results of running them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Arguments with which `python3` succeeds only if it is 3.9 or later and has `venv`.
pub const PYTHON_PROBE: &[&str] = &[
    "-c",
    "import sys, ensurepip, venv; assert sys.version_info >= (3, 9)",
];

/// Message for a machine without a suitable Python.
pub const PYTHON: &str = "Python 3.9 or later with venv is missing (on Debian: apt-get install \
     python3 python3-venv)";

/// Runs `command` to its end.
///
/// # Errors
/// If it cannot be started or does not succeed; the message has its words and its status.
pub fn run(command: &mut Command) -> Result<(), String> {
    let told = told(command);
    let status = command.status().map_err(|e| format!("`{told}`: {e}"))?;
    let why = || format!("`{told}` ended with {status}");
    status.success().then_some(()).ok_or_else(why)
}

/// Standard output of `command`.
///
/// # Errors
/// As [`run`], with the last line of its standard error.
pub fn output(command: &mut Command) -> Result<String, String> {
    let told = told(command);
    let output = command.output().map_err(|e| format!("`{told}`: {e}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    Err(format!("`{told}`: {}", last.unwrap_or("it has failed")))
}

/// The words of `command`, with its program reduced to the file name.
fn told(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    let words = command.get_args().map(|word| word.to_string_lossy());
    let words: Vec<_> = words.collect();
    format!("{} {}", name.to_string_lossy(), words.join(" "))
}

/// Whether a program is in `PATH` or in the folders of administrators.
#[must_use]
pub fn on_path(program: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = path.split(':').chain(["/usr/sbin", "/sbin", "/usr/bin"]);
    folders
        .map(|folder| Path::new(folder).join(program))
        .any(|file| file.is_file())
}

/// Installs `packages` from PyPI into the Python environment in `folder`, which is created if
/// missing, and returns its folder of programs. `None` without a suitable Python.
///
/// # Errors
/// If the environment or a package cannot be installed.
pub fn python(folder: &Path, packages: &[&str]) -> Result<Option<PathBuf>, String> {
    if output(Command::new("python3").args(PYTHON_PROBE)).is_err() {
        return Ok(None);
    }
    let programs = folder.join("bin");
    if !programs.join("pip").is_file() {
        run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    }
    run(Command::new(programs.join("pip"))
        .args(["install", "--quiet"])
        .args(packages))?;
    Ok(Some(programs))
}

/// Whether no check may be skipped, as in continuous integration.
#[must_use]
pub fn strict() -> bool {
    std::env::var_os("CI").is_some()
}
