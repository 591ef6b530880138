//! Shared parts of commands that serve a drive until they are ended.

use super::Answer;
use super::failure::Failure;
use super::output::note;
use clap::{Args, ValueEnum};
use engine::{Pace, Signals};
use fuse::{End, Mounted};
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::num::NonZeroU32;
use std::path::Path;
use std::process::{Command, Stdio};

/// Message of a background process whose work has begun.
const READY: &str = "ready\n";

/// Options of processes that serve a drive.
#[derive(Args)]
pub(crate) struct Run {
    /// Time at which requests complete
    #[arg(long, value_enum, default_value_t = Latency::Off)]
    latency: Latency,
    /// With --latency model: make each second of the drive this many seconds long, so that a slow
    /// client keeps up with a fast drive; divide the client's times by it
    #[arg(long, value_name = "N")]
    dilate: Option<NonZeroU32>,
    /// Run in the background; return as soon as the drive is ready
    #[arg(long)]
    background: bool,
    /// Internal: started by a parent process that waits for readiness
    #[arg(long, hide = true)]
    told: bool,
}

/// Timing of served requests.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Latency {
    /// Complete requests as soon as this machine has processed them
    Off,
    /// Complete requests when the simulated drive would. The server polls the clock for the last
    /// 90 µs before each completion, which costs processor time
    Model,
}

impl Run {
    /// The pace of virtual time.
    ///
    /// # Errors
    /// If a time is dilated that requests do not take.
    pub(crate) fn pace(&self) -> Result<Pace, Failure> {
        match (self.latency, self.dilate) {
            (Latency::Off, None) => Ok(Pace::Free),
            (Latency::Off, Some(_)) => Err(Failure::new(
                "--dilate: expected --latency model, found --latency off".to_owned(),
            )),
            (Latency::Model, None) => Ok(Pace::Wall),
            (Latency::Model, Some(factor)) => Ok(Pace::Dilated(factor)),
        }
    }

    /// Runs `work` in this process or in a background one.
    pub(crate) fn go(&self, work: impl FnOnce(Signals) -> Result<(), Failure>) -> Answer {
        self.pace()?;
        if self.background {
            return start_in_background();
        }
        if self.told {
            engine::leave_terminal()?;
        }
        // Before the start of any thread, on which a signal could end the process.
        work(Signals::hold()?).map(|()| String::new())
    }

    /// Reports that the drive can be used.
    pub(crate) fn tell(&self, sentence: &str) {
        if !self.told {
            return note(sentence);
        }
        // The waiting process may be gone; the drive is served anyway.
        let mut out = io::stdout().lock();
        let _ = out.write_all(READY.as_bytes()).and_then(|()| out.flush());
    }

    /// Waits until the export of the drive at `path` ends.
    pub(crate) fn wait(&self, mounted: Mounted, path: &Path) -> Result<(), Failure> {
        let busy = || {
            note(
                "the drive is still in use: waiting for its users; send another signal to power \
                it off at once",
            );
        };
        match mounted.wait(busy)? {
            End::Unused => Ok(()),
            End::Forced => Err(Failure::at(path, "the drive was powered off while in use")),
        }
    }
}

/// Runs this command again as a process of its own, and waits until that has begun its work or
/// failed.
fn start_in_background() -> Answer {
    let words = std::env::args_os().skip(1);
    let words = words.filter(|word| word != "--background");
    let words: Vec<OsString> = words.chain(["--told".into()]).collect();
    let mut child = Command::new(std::env::current_exe()?)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut line)?;
    }
    if line == READY {
        return Ok(String::new());
    }
    let mut reason = String::new();
    if let Some(mut err) = child.stderr.take() {
        err.read_to_string(&mut reason)?;
    }
    child.wait()?;
    // Notes may precede the error.
    let from = reason.rfind("\nflashloom: ").map_or(0, |at| at + 1);
    let reason = reason[from..].trim();
    Err(Failure::new(reason.trim_start_matches("flashloom: ")))
}
