//! The process: signals that ask it to end, and life without a terminal.

use nix::sys::signal::{SigSet, Signal};
use std::io;
use std::thread::Builder;

/// Signals that ask the process to end, held back so that a thread can take them.
pub struct Signals {
    set: SigSet,
}

impl Signals {
    /// Holds them back from this thread and from those that it starts. To be
    /// called before there is any other.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn hold() -> io::Result<Self> {
        let mut set = SigSet::empty();
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            set.add(signal);
        }
        set.thread_block()?;
        Ok(Self { set })
    }

    /// Calls `tell` for each signal that comes, until it says that nobody listens.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn watch(self, tell: impl Fn() -> bool + Send + 'static) -> io::Result<()> {
        let watch = move || while self.set.wait().is_ok() && tell() {};
        Builder::new().name("signals".to_owned()).spawn(watch)?;
        Ok(())
    }
}

/// Leaves the terminal, so that its end is not the end of this process.
///
/// # Errors
/// If the process leads a group of others.
pub fn leave_terminal() -> io::Result<()> {
    nix::unistd::setsid()?;
    Ok(())
}
