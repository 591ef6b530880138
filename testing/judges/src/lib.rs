//! Programs of others that judge images of file systems, such as `e2fsck`, and what a test needs
//! of its machine.
//!
//! Invariant: a test that cannot run prints a line that names it and the reason, and passes;
//! where `CI` is set it fails with that reason.

use nix::mount::{MsFlags, umount};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Bytes that are left out of a sparse file together.
const BLOCK: usize = 4096;

/// Reports that the running test, or a part of it, cannot run here. The test harness hides what
/// a test prints until it fails, so the line goes to standard error past it.
///
/// # Panics
/// If `CI` is set.
pub fn skip(reason: &str) {
    let reason = reason.trim();
    assert!(
        std::env::var_os("CI").is_none(),
        "{reason}, and nothing is skipped where CI is set"
    );
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // The line is all that is lost if standard error is closed.
    let _ = writeln!(io::stderr(), "skipped {test}: {reason}");
}

/// Rounds of a random test: `few`, or `many` where `FLASHLOOM_NIGHTLY` is set. Each round has a
/// seed of its own, and the first ones cover every kind of state that the test asserts.
#[must_use]
pub fn rounds(few: u64, many: u64) -> u64 {
    match std::env::var_os("FLASHLOOM_NIGHTLY") {
        Some(_) => many,
        None => few,
    }
}

/// Whether `tool` is installed; skips if not.
#[must_use]
pub fn has(tool: &str) -> bool {
    let found = path_of(tool).is_some();
    if !found {
        skip(&format!("{tool} is not installed"));
    }
    found
}

/// The file of a program, from `PATH` and the administrators' folders; skips if it is not
/// installed.
#[must_use]
pub fn installed(tool: &str) -> Option<PathBuf> {
    let found = path_of(tool);
    if found.is_none() {
        skip(&format!("{tool} is not installed"));
    }
    found
}

fn path_of(tool: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = path.split(':').chain(["/sbin", "/usr/sbin"]);
    folders
        .map(|folder| Path::new(folder).join(tool))
        .find(|file| file.is_file())
}

/// Whether this process may mount through FUSE; skips if not. Containers often have the device
/// and still refuse the mount.
#[must_use]
pub fn has_fuse() -> bool {
    let device = File::options().read(true).write(true).open("/dev/fuse");
    let why = match device {
        Err(error) => Some(format!("/dev/fuse: {error}")),
        Ok(_) if nix::unistd::geteuid().is_root() => cannot_mount(),
        Ok(_) => path_of("fusermount3")
            .is_none()
            .then(|| "fusermount3 is not installed".to_owned()),
    };
    if let Some(why) = &why {
        skip(&format!("no FUSE: {why}"));
    }
    why.is_none()
}

/// Whether root may mount here, in namespaces and through loop devices; skips if not.
#[must_use]
pub fn has_mounts() -> bool {
    let why = match nix::unistd::geteuid().is_root() {
        true => cannot_mount(),
        false => Some("only root mounts".to_owned()),
    };
    if let Some(why) = &why {
        skip(why);
    }
    why.is_none()
}

/// Whether root may mount files through loop devices here; skips if not.
#[must_use]
pub fn has_loops() -> bool {
    let path = "/dev/loop-control";
    if let Err(error) = File::options().read(true).write(true).open(path) {
        skip(&format!("{path}: {error}"));
        return false;
    }
    has_mounts()
}

/// The kernel's reason for refusing a mount to root.
fn cannot_mount() -> Option<String> {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let none = None::<&str>;
    let mounted = nix::mount::mount(none, folder.path(), Some("tmpfs"), MsFlags::empty(), none);
    let unmounted = mounted.and_then(|()| umount(folder.path()));
    unmounted
        .err()
        .map(|error| format!("mounting is refused: {error}"))
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
