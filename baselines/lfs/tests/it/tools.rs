//! f2fs-tools. Tests that need one that is not there say so and pass.

use std::path::Path;
use std::process::Command;

pub(crate) use judges::{has, save};

/// Runs a command; gives all that it wrote.
pub(crate) fn run(program: &str, arguments: &[&str], image: &Path) -> String {
    judges::text(&judges::run(
        Command::new(program).args(arguments).arg(image),
    ))
}

/// Asserts that `fsck.f2fs` has walked all of an image and has nothing to complain about.
pub(crate) fn assert_clean(image: &Path) {
    let said = run("fsck.f2fs", &["-f", "--dry-run"], image);
    let wrong = ["[Fail]", "[ASSERT]", "unreachable", "Invalid"];
    let complains = |line: &str| wrong.iter().any(|word| line.contains(word));
    assert!(!said.lines().any(complains), "{said}");
    assert!(said.contains("other corrupted bugs"), "{said}");
}
