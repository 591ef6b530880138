//! Programs of others that judge images of file systems, such as `e2fsck`, for the tests of
//! formats. Tests that need one that is not there say so and pass.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Bytes that are left out of a sparse file together.
const BLOCK: usize = 4096;

/// Whether `tool` can be run; says so if not.
#[must_use]
pub fn has(tool: &str) -> bool {
    let look = format!("PATH=$PATH:/sbin:/usr/sbin command -v {tool}");
    let found = Command::new("sh").args(["-c", &look]).output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: there is no {tool}");
    }
    found
}

/// Runs a command, which may be one of the system's, and gives what it wrote.
///
/// # Panics
/// If it cannot be started.
pub fn run(command: &mut Command) -> Output {
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/sbin:/usr/sbin"));
    let output = command.stdin(Stdio::null()).output();
    output.expect("the command starts")
}

/// Standard output and errors of a run.
#[must_use]
pub fn text(output: &Output) -> String {
    let out = String::from_utf8_lossy(&output.stdout);
    format!("{out}{}", String::from_utf8_lossy(&output.stderr))
}

/// Writes an image to a sparse file in `dir`, and gives its path.
///
/// # Panics
/// If the system refuses.
#[must_use]
pub fn save(dir: &Path, name: &str, image: &[u8]) -> PathBuf {
    let path = dir.join(name);
    let write = || -> io::Result<()> {
        let mut file = File::create(&path)?;
        for (index, block) in image.chunks(BLOCK).enumerate() {
            if block.iter().any(|&byte| byte != 0) {
                file.seek(SeekFrom::Start((index * BLOCK) as u64))?;
                file.write_all(block)?;
            }
        }
        file.set_len(image.len() as u64)
    };
    write().expect("the image can be written");
    path
}
