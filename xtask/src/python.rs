//! The Python package: built as a wheel, installed where nothing else is, and tested.
//!
//! Invariant: what is tested is the wheel, never the sources beside it. Everything made on
//! the way is under `target/python`.

use crate::program::{self, run};
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
    let folder = root.join("target/python");
    let Some(programs) = program::python(&folder.join("venv"), PACKAGES)? else {
        println!("{}: the tests of the Python package skip", program::PYTHON);
        let why = || program::PYTHON.to_owned();
        return (!program::strict()).then_some(()).ok_or_else(why);
    };
    let tool = |name: &str| Command::new(programs.join(name));
    let wheel = built(root, tool("maturin"), &folder)?;
    run(tool("pip")
        .args(["install", "--quiet", "--no-deps", "--force-reinstall"])
        .arg(wheel))?;
    run(tool("pytest")
        .args(["-q", "-rs", "-p", "no:cacheprovider", "python/tests"])
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
        .args(["build", "--quiet", "--profile", "dev"])
        .args(["--features", "as-tests", "--out"])
        .arg(&wheels)
        .args(["--interpreter"])
        .arg(folder.join("venv/bin/python"))
        .args(["--manifest-path"])
        .arg(root.join("python/Cargo.toml")))?;
    let mut files = std::fs::read_dir(&wheels).map_err(|e| e.to_string())?;
    let wheel = files.find_map(|file| Some(file.ok()?.path()));
    wheel.ok_or_else(|| "maturin has built no wheel".to_owned())
}
