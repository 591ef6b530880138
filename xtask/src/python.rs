//! The Python package: built as a wheel, installed in an environment of its own, and tested.
//!
//! Invariant: the tests run against the wheel, never against the sources beside it. All
//! intermediate files are under `target/python`.

use crate::program::{self, run};
use crate::tree;
use std::path::{Path, PathBuf};
use std::process::Command;

/// PyPI packages that build the wheel and that its tests need.
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
/// The step that failed; in continuous integration also a missing Python.
pub fn build_and_test(root: &Path) -> Result<(), String> {
    let mut cargo = tree::cargo();
    run(cargo
        .current_dir(root)
        .args(["build", "--quiet", "-p", "flashloom"]))?;
    test(root)
}

/// Builds the wheel and runs its tests against the program that `cargo test` has built. A separate
/// build would compile much of it once more.
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

/// Builds the wheel in the profile of the other tests, and returns its path.
fn built(root: &Path, mut maturin: Command, folder: &Path) -> Result<PathBuf, String> {
    let wheels = folder.join("wheels");
    // A wheel of another version would lie beside the new one.
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
