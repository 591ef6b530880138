//! `serve`: a drive for real clients.

use super::Answer;
use super::failure::Failure;
use super::output::note;
use clap::{Args, ValueEnum};
use engine::{Device, Handle, Pace, Signals};
use fuse::{DRIVE_NAME, DriveFs, End};
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::rc::Rc;
use units::Bytes;

/// What a process in the background says when its work has begun.
const READY: &str = "ready\n";

/// Put a drive under power and let real clients use it
///
/// --file shows it as the file `drive` in a directory; a loop device over that
/// file (losetup --direct-io=on -b 4096) takes any file system of the kernel.
#[derive(Args)]
pub(crate) struct Serve {
    /// The drive file
    #[arg(value_name = "DRIVE")]
    path: PathBuf,
    /// Show the drive as a file in this directory, until that is unmounted
    #[arg(long, value_name = "DIR")]
    file: PathBuf,
    /// Whether requests take the time that the model says
    #[arg(long, value_enum, default_value_t = Latency::Off)]
    latency: Latency,
    /// Return as soon as clients can use the drive
    #[arg(long)]
    background: bool,
    /// Started by another process, which waits to be told
    #[arg(long, hide = true)]
    told: bool,
}

/// How long requests take.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Latency {
    /// As short as this machine can
    Off,
    /// As the model of the drive says
    Model,
}

impl Latency {
    fn pace(self) -> Pace {
        match self {
            Self::Off => Pace::Free,
            Self::Model => Pace::Wall,
        }
    }
}

impl Serve {
    pub(crate) fn run(&self) -> Answer {
        if self.background {
            return start_in_background();
        }
        if self.told {
            engine::leave_terminal()?;
        }
        // Before any thread is there that a signal could end the process on.
        let signals = Signals::hold()?;
        let powered = Device::start(&self.path, self.latency.pace());
        let (engine, device) = powered.map_err(|e| Failure::at(&self.path, e))?;
        let shown = self.show(device.clone(), signals);
        // Who still uses the drive gets errors from here on.
        device.stop();
        let closed = engine.join()?;
        closed.map_err(|e| Failure::at(&self.path, e))?;
        shown.map(|()| String::new())
    }

    /// Mounts the drive and waits for the end.
    fn show(&self, device: Handle<Device>, signals: Signals) -> Result<(), Failure> {
        let size = device.ask(|device: Rc<Device>| async move { device.capacity() })?;
        let name = self.path.display().to_string();
        let filesystem = DriveFs::new(device, name.clone(), size);
        let mounted = fuse::mount(filesystem, &self.file, &name, signals)?;
        let at = self.file.join(DRIVE_NAME);
        self.tell(&format!(
            "{name} ({}) is {}; it is served until {} is unmounted or this is interrupted",
            Bytes(size),
            at.display(),
            self.file.display()
        ));
        let busy = || {
            note("someone still uses the drive: waiting; another signal powers it off at once");
        };
        match mounted.wait(busy)? {
            End::Unused => Ok(()),
            End::Forced => Err(Failure::at(
                &self.path,
                "the drive was powered off while someone used it",
            )),
        }
    }

    /// Says that clients can use the drive.
    fn tell(&self, sentence: &str) {
        if !self.told {
            return note(sentence);
        }
        // Who asked may have gone; the drive is served all the same.
        let mut out = io::stdout().lock();
        let _ = out.write_all(READY.as_bytes()).and_then(|()| out.flush());
    }
}

/// Runs this very command again as a process of its own, and waits until that
/// has begun its work or given up.
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
    let reason = reason.trim().trim_start_matches("flashloom: ");
    Err(Failure::new(reason))
}
