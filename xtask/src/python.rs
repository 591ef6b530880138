//! The Python package: built as a wheel, installed where nothing else is, and tested.
//!
//! Invariant: what is tested is the wheel, never the sources beside it. Everything made on
//! the way is under `target/python`.

use crate::tree;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What builds the wheel and what its tests need, from PyPI.
const PACKAGES: &[&str] = &[
    "maturin>=1.9,<2",
    "pytest>=8",
    "pandas>=2",
    "pyarrow>=17",
    "matplotlib>=3.8",
    "ray>=2.40",
    "tqdm>=4",
];

/// Prints the version if the interpreter can be used.
const PROBE: &str = "import sys, ensurepip, venv; assert sys.version_info >= (3, 9)";

const REMEDY: &str = "Python 3.9 or later with venv is missing (on Debian: apt-get install \
     python3 python3-venv)";

/// Builds the program and tests the package against it.
///
/// # Errors
/// What failed; in continuous integration also that there is no Python.
pub fn build_and_test(root: &Path) -> Result<(), String> {
    let mut cargo = tree::cargo();
    run(cargo
        .current_dir(root)
        .args(["build", "--quiet", "-p", "flashloom"]))?;
    test(root)
}

/// Builds the wheel and runs its tests against the program that `cargo test` has built:
/// built for itself alone, much of it would be built once more.
///
/// # Errors
/// As [`build_and_test`].
pub fn test(root: &Path) -> Result<(), String> {
    if !succeeds(Command::new("python3").args(["-c", PROBE])) {
        println!("{REMEDY}: the tests of the Python package skip");
        let strict = std::env::var_os("CI").is_some();
        return (!strict).then_some(()).ok_or_else(|| REMEDY.to_owned());
    }
    let folder = root.join("target/python");
    let venv = folder.join("venv");
    if !venv.join("bin/pip").is_file() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    }
    let tool = |name: &str| Command::new(venv.join("bin").join(name));
    run(tool("pip").args(["install", "--quiet"]).args(PACKAGES))?;
    let wheel = built(root, tool("maturin"), &folder)?;
    run(tool("pip")
        .args(["install", "--quiet", "--no-deps", "--force-reinstall"])
        .arg(wheel))?;
    run(tool("pytest")
        .args(["-q", "-p", "no:cacheprovider", "python/tests"])
        .current_dir(root)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("FLASHLOOM", root.join("target/debug/flashloom")))
}

/// The wheel that `maturin` builds in the profile of the other tests.
fn built(root: &Path, mut maturin: Command, folder: &Path) -> Result<PathBuf, String> {
    let wheels = folder.join("wheels");
    // Another version would lie beside it.
    let _ = std::fs::remove_dir_all(&wheels);
    run(maturin
        .args(["build", "--quiet", "--profile", "dev", "--out"])
        .arg(&wheels)
        .args(["--interpreter"])
        .arg(folder.join("venv/bin/python"))
        .args(["--manifest-path"])
        .arg(root.join("python/Cargo.toml")))?;
    let mut files = std::fs::read_dir(&wheels).map_err(|e| e.to_string())?;
    let wheel = files.find_map(|file| Some(file.ok()?.path()));
    wheel.ok_or_else(|| "maturin has built no wheel".to_owned())
}

fn run(command: &mut Command) -> Result<(), String> {
    let program = Path::new(command.get_program()).to_owned();
    let name = program.file_name().unwrap_or(program.as_os_str());
    let told = || {
        let words = command.get_args().map(|word| word.to_string_lossy());
        let words: Vec<_> = words.collect();
        format!("{} {}", name.to_string_lossy(), words.join(" "))
    };
    let told = told();
    let status = command.status().map_err(|e| format!("`{told}`: {e}"))?;
    let why = || format!("`{told}` ended with {status}");
    status.success().then_some(()).ok_or_else(why)
}

fn succeeds(command: &mut Command) -> bool {
    let output = command.output();
    output.is_ok_and(|output| output.status.success())
}
