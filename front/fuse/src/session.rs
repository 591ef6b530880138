//! Mounting, and the end of a mount.
//!
//! A mount ends when the kernel drops it: after `umount` or `fusermount3 -u`, or after the first
//! signal, which detaches the directory and waits until its open files are closed. A second signal
//! ends it without waiting.

use crate::options::MountOptions;
use engine::Signals;
use fuser::{Config, Filesystem, MountOption, Session, SessionACL};
use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

/// Threads that take requests from the kernel. The simulation has one thread of its own; the second
/// one here copies written data while the first one works.
const THREADS: usize = 2;

/// Time that the end of an unused mount may take before it is reported as busy.
const GRACE: Duration = Duration::from_millis(500);

/// Time that an ended mount waits for its users before it is left to them.
const LEAVE: Duration = Duration::from_secs(5);

/// Reasons why a mount failed.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The directory to mount on does not exist.
    #[error("{0}: expected a directory to mount on, found none")]
    NoDirectory(PathBuf),
    /// The kernel has no FUSE, or does not allow it for this user.
    #[error(
        "{path}: it cannot be mounted: {source}; is there a /dev/fuse, and fusermount3 for users other than root?"
    )]
    Refused {
        /// Directory to mount on.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Signals cannot be watched, or a thread not be started.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Events that end a mount.
enum Event {
    /// The kernel has dropped the mount.
    Over(io::Result<()>),
    /// A signal to end the mount arrived.
    Signal,
}

/// A directory on which a file system is mounted.
pub struct Mounted {
    events: Receiver<Event>,
    dir: PathBuf,
}

/// The way in which a mount ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The mount had no users any more.
    Unused,
    /// A second signal ended the mount although it still had users.
    Forced,
}

/// Kind of a mount, and its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show<'a> {
    /// The drive of this name: no programs or devices on it can be used.
    Drive(&'a str),
    /// The file system of this name, mounted with these options.
    FileSystem(&'a str, MountOptions),
}

/// Mounts `filesystem` on `dir` until it is unmounted or one of `signals` arrives.
///
/// # Errors
/// If the directory does not exist, or FUSE is not available.
pub fn mount(
    filesystem: impl Filesystem,
    dir: &Path,
    show: Show<'_>,
    signals: Signals,
) -> Result<Mounted, MountError> {
    let (mounted, signalled) = begin(filesystem, dir, show)?;
    signals.watch(move |_| signalled.send(Event::Signal).is_ok())?;
    Ok(mounted)
}

/// Mounts `filesystem` on `dir` until it is unmounted, or ended by [`Mounted::end`].
///
/// # Errors
/// As [`mount`].
pub fn mount_alone(
    filesystem: impl Filesystem,
    dir: &Path,
    show: Show<'_>,
) -> Result<Mounted, MountError> {
    begin(filesystem, dir, show).map(|(mounted, _)| mounted)
}

/// Mounts `filesystem`; the second value sends further events to the mount.
fn begin(
    filesystem: impl Filesystem,
    dir: &Path,
    show: Show<'_>,
) -> Result<(Mounted, Sender<Event>), MountError> {
    if !dir.is_dir() {
        return Err(MountError::NoDirectory(dir.to_owned()));
    }
    let refused = |source| MountError::Refused {
        path: dir.to_owned(),
        source,
    };
    let session = Session::new(filesystem, dir, &config(show)).map_err(refused)?;
    let (happened, events) = channel();
    let signalled = happened.clone();
    let run = move || {
        // The receiver is gone only if the process is about to end.
        let _ = happened.send(Event::Over(session.run()));
    };
    Builder::new().name("fuse".to_owned()).spawn(run)?;
    let dir = dir.to_owned();
    Ok((Mounted { events, dir }, signalled))
}

fn config(show: Show<'_>) -> Config {
    let (Show::Drive(name) | Show::FileSystem(name, _)) = show;
    let root = nix::unistd::geteuid().is_root();
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(name.to_owned()),
        MountOption::Subtype("flashloom".to_owned()),
        MountOption::DefaultPermissions,
    ];
    if let Show::FileSystem(_, options) = show {
        config.mount_options.extend(options.told(root));
    }
    // For other users than root this needs a line in /etc/fuse.conf.
    if root {
        config.acl = SessionACL::All;
    }
    config.n_threads = Some(THREADS);
    config.clone_fd = true;
    config
}

impl Mounted {
    /// Unmounts the file system, which writes back what the kernel caches. Files that are still
    /// open then stay usable until their processes close them.
    ///
    /// # Errors
    /// If the mount cannot be ended, or the connection to the kernel broke.
    pub fn end(self) -> io::Result<()> {
        detach(&self.dir)?;
        match self.events.recv_timeout(LEAVE) {
            Ok(Event::Over(result)) => result,
            Ok(Event::Signal) | Err(_) => Ok(()),
        }
    }

    /// Waits for the end. Calls `busy` if a signal arrived and the mount is still in use.
    ///
    /// # Errors
    /// If the connection to the kernel broke, or the mount cannot be ended.
    pub fn wait(self, busy: impl FnOnce()) -> io::Result<End> {
        match self.events.recv().map_err(io::Error::other)? {
            Event::Over(result) => return result.map(|()| End::Unused),
            Event::Signal => detach(&self.dir)?,
        }
        let event = self.events.recv_timeout(GRACE).or_else(|_| {
            busy();
            self.events.recv()
        });
        match event.map_err(io::Error::other)? {
            Event::Over(result) => result.map(|()| End::Unused),
            Event::Signal => Ok(End::Forced),
        }
    }
}

/// Detaches a mount from its directory. It ends when its open files are closed.
fn detach(dir: &Path) -> io::Result<()> {
    match umount2(dir, MntFlags::MNT_DETACH) {
        Ok(()) => Ok(()),
        // Only root may unmount, and the set-user-ID program `fusermount3`.
        Err(Errno::EPERM) => {
            let mut command = Command::new("fusermount3");
            let status = command.args(["-u", "-z", "--"]).arg(dir).status()?;
            let refused = || io::Error::other("fusermount3 does not unmount it");
            status.success().then_some(()).ok_or_else(refused)
        }
        // Another process has just unmounted it.
        Err(Errno::EINVAL) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
