//! f2fs-tools. Tests that need one that is not there say so and pass.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Whether `tool` can be run; says so if not.
pub(crate) fn has(tool: &str) -> bool {
    let look = format!("PATH=$PATH:/sbin:/usr/sbin command -v {tool}");
    let found = Command::new("sh").args(["-c", &look]).output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: there is no {tool}");
    }
    found
}

/// Runs a command; gives all that it wrote.
pub(crate) fn run(program: &str, arguments: &[&str], image: &Path) -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(program);
    command.env("PATH", format!("{path}:/sbin:/usr/sbin"));
    command.args(arguments).arg(image).stdin(Stdio::null());
    let output = command.output().expect("the command starts");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    String::from_utf8_lossy(&output.stdout).into_owned() + &errors
}

/// Asserts that `fsck.f2fs` has walked all of an image and has nothing to complain about.
pub(crate) fn assert_clean(image: &Path) {
    let said = run("fsck.f2fs", &["-f", "--dry-run"], image);
    let wrong = ["[Fail]", "[ASSERT]", "unreachable", "Invalid"];
    let complains = |line: &str| wrong.iter().any(|word| line.contains(word));
    assert!(!said.lines().any(complains), "{said}");
    assert!(said.contains("other corrupted bugs"), "{said}");
}

/// Writes an image to a sparse file.
pub(crate) fn save(dir: &Path, name: &str, image: &[u8]) -> PathBuf {
    let path = dir.join(name);
    let mut file = File::create(&path).unwrap();
    for (index, block) in image.chunks(lfs::BLOCK).enumerate() {
        if block.iter().any(|&byte| byte != 0) {
            file.seek(SeekFrom::Start((index * lfs::BLOCK) as u64))
                .unwrap();
            file.write_all(block).unwrap();
        }
    }
    file.set_len(image.len() as u64).unwrap();
    path
}
