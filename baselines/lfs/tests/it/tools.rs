//! Calls of f2fs-tools. A test whose tool is not installed prints so and passes.

use std::path::Path;
use std::process::Command;

pub(crate) use judges::{has, save};

/// Runs `program` on `image`; returns all of its output.
pub(crate) fn run(program: &str, arguments: &[&str], image: &Path) -> String {
    judges::text(&judges::run(
        Command::new(program).args(arguments).arg(image),
    ))
}

/// Asserts that `fsck.f2fs` reaches the end of its checks of `image` and reports no error.
pub(crate) fn assert_clean(image: &Path) {
    let said = run("fsck.f2fs", &["-f", "--dry-run"], image);
    let wrong = ["[Fail]", "[ASSERT]", "unreachable", "Invalid"];
    let complains = |line: &str| wrong.iter().any(|word| line.contains(word));
    assert!(!said.lines().any(complains), "{said}");
    assert!(said.contains("other corrupted bugs"), "{said}");
}
