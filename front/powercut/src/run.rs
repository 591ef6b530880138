//! The program that is recorded.

use crate::reins::{Ended, Reins};
use std::ffi::{OsStr, OsString};
use std::io::{self, PipeWriter};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// The program or script `word` of a command line that is run elsewhere: a relative path with a
/// slash becomes one from `home`.
#[must_use]
pub(crate) fn absolute(word: &OsStr, home: &Path) -> PathBuf {
    match word.as_encoded_bytes().contains(&b'/') {
        true => home.join(word),
        false => PathBuf::from(word),
    }
}

/// User and group of this process, to which the files of its program belong.
#[must_use]
pub fn user() -> (u32, u32) {
    use nix::unistd::{getegid, geteuid};
    (geteuid().as_raw(), getegid().as_raw())
}

/// Runs `words` in the directory `dir`, with standard output to `out`, and returns how it ended.
///
/// # Errors
/// If it cannot be started; `Interrupted` after a signal to this process.
pub fn run(
    reins: &Reins,
    words: &[OsString],
    (dir, home): (&Path, &Path),
    out: PipeWriter,
) -> io::Result<ExitStatus> {
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(absolute(program, home));
    command
        .args(arguments)
        .current_dir(dir)
        .env("FLASHLOOM_DIR", dir)
        .env("FLASHLOOM_FROM", home)
        .stdin(Stdio::null())
        .stdout(out)
        .process_group(0);
    let child = reins.start(&mut command)?;
    // The command holds a writing end of the pipe.
    drop(command);
    match reins.wait(child, None)? {
        Ended::Leader(status) => Ok(status),
        Ended::Late => Err(io::ErrorKind::TimedOut.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_relative_paths_are_taken_from_home() {
        let home = Path::new("/home/me");
        let at = |word: &str| absolute(OsStr::new(word), home);
        assert_eq!(at("python3"), Path::new("python3"));
        assert_eq!(at("/bin/true"), Path::new("/bin/true"));
        assert_eq!(at("./app"), Path::new("/home/me/./app"));
        assert_eq!(at("bin/app"), Path::new("/home/me/bin/app"));
    }
}
