//! The process: signals that ask it to end, and life without a terminal.

use nix::sys::signal::{SigSet, Signal};
use std::thread::Builder;
use std::{fs, io};

/// Signals that ask the process to end, held back so that a thread can take them.
pub struct Signals {
    set: SigSet,
}

impl Signals {
    /// Holds them back from this thread and from those that it starts. To be
    /// called before there is any other. The end of a terminal stays ignored if the process
    /// was started so, as `nohup` does; the others are held in any case, since a shell has
    /// what it starts in the background ignore an interrupt.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn hold() -> io::Result<Self> {
        let mut set = SigSet::empty();
        let ignored = ignored(&fs::read_to_string("/proc/self/status").unwrap_or_default());
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            let is_ignored = ignored & (1 << (signal as i32 - 1)) != 0;
            if signal != Signal::SIGHUP || !is_ignored {
                set.add(signal);
            }
        }
        set.thread_block()?;
        Ok(Self { set })
    }

    /// The exit status of a process that `signal` has ended, as shells report it.
    #[must_use]
    pub fn status(signal: Signal) -> u8 {
        128 + signal as u8
    }

    /// Calls `tell` with each signal that comes, until it says that nobody listens.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn watch(self, tell: impl Fn(Signal) -> bool + Send + 'static) -> io::Result<()> {
        let watch = move || while self.set.wait().is_ok_and(&tell) {};
        Builder::new().name("signals".to_owned()).spawn(watch)?;
        Ok(())
    }
}

/// The signals that the process ignores, the first in the lowest bit, as Linux tells them in
/// `status`; none where it does not.
fn ignored(status: &str) -> u64 {
    let mut lines = status.lines();
    let mask = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.unwrap_or_default()
}

/// Leaves the terminal, so that its end is not the end of this process.
///
/// # Errors
/// If the process leads a group of others.
pub fn leave_terminal() -> io::Result<()> {
    nix::unistd::setsid()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_what_linux_tells() {
        let told = "SigBlk:\t0000000000000002\nSigIgn:\t0000000000001001\nSigCgt:\t0\n";
        let hangup = 1 << (Signal::SIGHUP as i32 - 1);
        assert_eq!(ignored(told) & hangup, hangup);
        assert_eq!(ignored(told) & (1 << (Signal::SIGTERM as i32 - 1)), 0);
        assert_eq!(ignored("Name:\tflashloom\n"), 0);
    }
}
