//! The user's checker, run on one recovered tree at a time.

use crate::reins::{Ended, Reins};
use crate::run::absolute;
use crate::tree;
use crash::Shown;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, PipeReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::Builder;
use std::time::Duration;
use tempfile::TempDir;
use vfs::Ino;

/// Last bytes of the output of a checker that are kept, and their lines.
const KEPT: usize = 4 << 10;
const LINES: usize = 10;

/// Time for the output of a killed group to end: a process that left the group may hold it open.
const LEAVE: Duration = Duration::from_secs(1);

/// End of a checker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The exit status is 0.
    Passed,
    /// Any other exit status.
    Failed(i32),
    /// A signal, by its number.
    Crashed(i32),
    /// It ran out of time and was killed.
    Hung,
}

impl Outcome {
    fn of(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(0), _) => Self::Passed,
            // The shell reports so the end of a command by a signal.
            (Some(code @ 129..=192), _) => Self::Crashed(code - 128),
            (Some(code), _) => Self::Failed(code),
            (None, signal) => Self::Crashed(signal.unwrap_or_default()),
        }
    }
}

/// Result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// End of the checker.
    pub outcome: Outcome,
    /// Last lines that it printed.
    pub said: String,
}

/// A command that judges trees.
pub struct Checker {
    reins: Arc<Reins>,
    command: OsString,
    home: PathBuf,
    timeout: Duration,
    scratch: TempDir,
}

impl Checker {
    /// A checker that runs `command` by `sh -c`, for at most `timeout`. If the first word of it is a
    /// relative path to a file, the path begins at `home`.
    ///
    /// # Errors
    /// If the system has no temporary directory.
    pub fn new(
        reins: Arc<Reins>,
        command: &str,
        home: &Path,
        timeout: Duration,
    ) -> io::Result<Self> {
        Ok(Self {
            reins,
            command: at_home(command, home),
            home: home.to_owned(),
            timeout,
            scratch: TempDir::with_prefix("flashloom-powercut-")?,
        })
    }

    /// Runs the command in a copy of the tree below `root`; `cut` is the name of the power cut, and
    /// `output` the program's output before it.
    ///
    /// # Errors
    /// If the tree cannot be copied or the command not be started; `Interrupted` after a signal to
    /// this process.
    pub fn check(
        &self,
        (shown, root): (&Shown, Ino),
        cut: &str,
        output: &[u8],
    ) -> io::Result<Checked> {
        let dir = self.scratch.path().join("files");
        let printed = self.scratch.path().join("output");
        fs::create_dir(&dir)?;
        tree::write(shown, root, &dir)?;
        fs::write(&printed, output)?;
        let (read, said) = io::pipe()?;
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(&self.command)
            .current_dir(&dir)
            .env("FLASHLOOM_DIR", &dir)
            .env("FLASHLOOM_OUTPUT", &printed)
            .env("FLASHLOOM_CUT", cut)
            .env("FLASHLOOM_FROM", &self.home)
            .stdin(Stdio::null())
            .stdout(said.try_clone()?)
            .stderr(said)
            .process_group(0);
        let child = self.reins.start(&mut command)?;
        // The command holds the writing end of the pipe.
        drop(command);
        let last = last_of(read)?;
        let ended = self.reins.wait(child, Some(self.timeout))?;
        let outcome = match ended {
            Ended::Leader(status) => Outcome::of(status),
            Ended::Late => Outcome::Hung,
        };
        let said = last.recv_timeout(LEAVE).unwrap_or_default();
        tree::remove(&dir)?;
        Ok(Checked {
            outcome,
            said: last_lines(&said),
        })
    }
}

/// `command` with a relative path in its first word made absolute, if it leads to a file.
fn at_home(command: &str, home: &Path) -> OsString {
    let command = command.trim_start();
    let end = command.find(char::is_whitespace).unwrap_or(command.len());
    let (word, rest) = command.split_at(end);
    let path = absolute(OsStr::new(word), home);
    if !word.contains('/') || !path.is_file() {
        return command.into();
    }
    let mut whole = OsString::from("'");
    whole.push(path.to_string_lossy().replace('\'', r"'\''"));
    whole.push("'");
    whole.push(rest);
    whole
}

/// Starts to read a pipe; the last bytes arrive once it has ended.
fn last_of(mut pipe: PipeReader) -> io::Result<Receiver<Vec<u8>>> {
    let (tell, last) = channel();
    let read = move || {
        let (mut kept, mut piece) = (VecDeque::new(), [0; KEPT]);
        while let Ok(len @ 1..) = pipe.read(&mut piece) {
            kept.extend(&piece[..len]);
            let surplus = kept.len().saturating_sub(KEPT);
            kept.drain(..surplus);
        }
        // The receiver has given up on a process that left its group.
        let _ = tell.send(kept.into());
    };
    Builder::new().name("said".to_owned()).spawn(read)?;
    Ok(last)
}

fn last_lines(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crash::{Attributes, Seen};
    use nand::Payload;
    use vfs::FileKind;

    const ROOT: Ino = Ino(1);

    fn checker(command: &str) -> Checker {
        let (reins, home) = (Arc::default(), Path::new("/"));
        Checker::new(reins, command, home, Duration::from_millis(500)).expect("a directory")
    }

    fn seen(ino: u64, kind: FileKind, mode: u16) -> Seen {
        Seen {
            ino: Ino(ino),
            kind,
            size: 0,
            pages: Vec::new(),
            target: Vec::new(),
            attributes: Attributes {
                mode,
                uid: nix::unistd::geteuid().as_raw(),
                gid: nix::unistd::getegid().as_raw(),
                ..Attributes::default()
            },
        }
    }

    fn checked(command: &str, shown: &Shown) -> Checked {
        let checker = checker(command);
        // A second check finds nothing of the first.
        let first = checker.check((shown, ROOT), "7", b"saved\n").expect("run");
        let second = checker.check((shown, ROOT), "7", b"saved\n").expect("run");
        assert_eq!(first, second);
        first
    }

    #[test]
    fn checker_sees_the_tree_and_the_output() {
        let mut shown = Shown::default();
        let mut file = seen(3, FileKind::Regular, 0o640);
        file.size = 2 * 4096 + 3;
        file.pages = vec![
            Payload::Zero,
            Payload::Fill(0x6161_6161_6161_6161),
            Payload::Fill(0x6262_6262_6262_6262),
        ];
        let mut link = seen(4, FileKind::Symlink, 0o777);
        link.target = b"dir/file".to_vec();
        shown.add(ROOT, b"dir", seen(2, FileKind::Directory, 0o500));
        shown.add(Ino(2), b"file", file.clone());
        shown.add(ROOT, b"other", file);
        shown.add(ROOT, b"link", link);
        let command = "stat -c '%n %a %s %h' dir dir/file; tail -c 4 link; readlink link; \
            cat $FLASHLOOM_OUTPUT; echo $FLASHLOOM_CUT; test $PWD = $FLASHLOOM_DIR";
        let found = checked(command, &shown);
        assert_eq!(found.outcome, Outcome::Passed, "{}", found.said);
        let lines: Vec<&str> = found.said.lines().collect();
        assert!(lines[0].starts_with("dir 500"), "{lines:?}");
        let rest = ["dir/file 640 8195 2", "abbbdir/file", "saved", "7"];
        assert_eq!(lines[1..], rest);
    }

    #[test]
    fn end_of_a_checker_is_told_apart() {
        let shown = Shown::default();
        let outcome = |command| checked(command, &shown).outcome;
        assert_eq!(outcome("exit 3"), Outcome::Failed(3));
        assert_eq!(outcome("kill -SEGV $$"), Outcome::Crashed(11));
        assert_eq!(outcome("sh -c 'kill -ABRT $$'"), Outcome::Crashed(6));
        assert_eq!(outcome("sleep 60 & sleep 60"), Outcome::Hung);
        let said = checked("seq 100; exit 1", &shown).said;
        assert_eq!(
            said,
            (91..=100)
                .map(|n| n.to_string())
                .collect::<Vec<_>>()
                .join("\n")
        );
    }

    #[test]
    fn first_word_of_a_command_begins_at_home() {
        let home = TempDir::new().expect("a directory");
        fs::write(home.path().join("it's"), "").expect("written");
        let found = at_home("./it's a b", home.path());
        let path = home.path().display().to_string();
        assert_eq!(found, OsString::from(format!(r"'{path}/./it'\''s' a b")));
        assert_eq!(at_home("./none a", home.path()), "./none a");
        assert_eq!(at_home("true", home.path()), "true");
    }
}
