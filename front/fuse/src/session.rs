//! Mounting, and the end of a mount.
//!
//! A mount ends when the kernel says so: after `umount` or `fusermount3 -u`, or
//! after the first signal, which takes the directory away from new users and
//! waits for those who have a file open. A second signal does not wait.

use crate::options::MountOptions;
use engine::Signals;
use fuser::{Config, Filesystem, MountOption, Session, SessionACL};
use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::thread::Builder;
use std::time::Duration;

/// Threads that take requests from the kernel. The simulation is one thread; a
/// second one copies what is written while it works.
const THREADS: usize = 2;

/// How long the end of a mount that nobody uses may take before someone is told
/// that it is in use.
const GRACE: Duration = Duration::from_millis(500);

/// Why nothing was mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// There is no such directory.
    #[error("{0}: expected a directory to mount on, found none")]
    NoDirectory(PathBuf),
    /// The kernel has no FUSE, or does not let this user have it.
    #[error(
        "{path}: it cannot be mounted: {source}; is there a /dev/fuse, and fusermount3 for users other than root?"
    )]
    Refused {
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Signals or threads cannot be had.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What happened to a mount.
enum Event {
    /// The kernel let go of it.
    Over(io::Result<()>),
    /// Someone wants it to end.
    Signal,
}

/// A directory that shows something.
pub struct Mounted {
    events: Receiver<Event>,
    dir: PathBuf,
}

/// How a mount ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Nobody used it any more.
    Unused,
    /// It was told to end although someone did.
    Forced,
}

/// How something is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show<'a> {
    /// The drive of this name: nothing on it runs or is a device.
    Drive(&'a str),
    /// The file system of this name, mounted with these options.
    FileSystem(&'a str, MountOptions),
}

/// Shows `filesystem` at `dir` until it is unmounted or one of `signals` comes.
///
/// # Errors
/// If there is no directory or no FUSE.
pub fn mount(
    filesystem: impl Filesystem,
    dir: &Path,
    show: Show<'_>,
    signals: Signals,
) -> Result<Mounted, MountError> {
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
    signals.watch(move |_| signalled.send(Event::Signal).is_ok())?;
    let run = move || {
        // Nobody listens only if the process is about to end.
        let _ = happened.send(Event::Over(session.run()));
    };
    Builder::new().name("fuse".to_owned()).spawn(run)?;
    let dir = dir.to_owned();
    Ok(Mounted { events, dir })
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
    // Another user than root may need a line in /etc/fuse.conf for this.
    if root {
        config.acl = SessionACL::All;
    }
    config.n_threads = Some(THREADS);
    config.clone_fd = true;
    config
}

impl Mounted {
    /// Waits for the end. Calls `busy` if a signal came and someone still uses
    /// the mount.
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

/// Takes a mount away from new users. It ends when those who use it are done.
fn detach(dir: &Path) -> io::Result<()> {
    match umount2(dir, MntFlags::MNT_DETACH) {
        Ok(()) => Ok(()),
        // It is root's to unmount, and that of a program that acts for others.
        Err(Errno::EPERM) => {
            let mut command = Command::new("fusermount3");
            let status = command.args(["-u", "-z", "--"]).arg(dir).status()?;
            let refused = || io::Error::other("fusermount3 does not unmount it");
            status.success().then_some(()).ok_or_else(refused)
        }
        // Someone has just done so.
        Err(Errno::EINVAL) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
