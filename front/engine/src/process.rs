//! Process control: signals that end the process, and detaching from the terminal.

use nix::sys::signal::{SigSet, Signal};
use std::thread::Builder;
use std::{fs, io};

/// Blocked termination signals, for one thread to wait on.
pub struct Signals {
    set: SigSet,
}

impl Signals {
    /// Blocks SIGINT, SIGTERM and SIGHUP in this thread and in the threads it starts. Call this
    /// before any other thread exists. SIGHUP stays ignored if the process was started so, as
    /// `nohup` does; SIGINT and SIGTERM are blocked in any case, since a shell starts background
    /// processes with SIGINT ignored.
    ///
    /// # Errors
    /// If the signal mask cannot be changed.
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

    /// Exit status of a process that `signal` ended, as shells report it.
    #[must_use]
    pub fn status(signal: Signal) -> u8 {
        128 + signal as u8
    }

    /// Starts a thread that calls `tell` with each signal until `tell` returns false.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn watch(self, tell: impl Fn(Signal) -> bool + Send + 'static) -> io::Result<()> {
        let watch = move || while self.set.wait().is_ok_and(&tell) {};
        Builder::new().name("signals".to_owned()).spawn(watch)?;
        Ok(())
    }
}

/// Mask of ignored signals (signal 1 in the lowest bit) from the text of `/proc/self/status`; 0 if
/// it has none.
fn ignored(status: &str) -> u64 {
    let mut lines = status.lines();
    let mask = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.unwrap_or_default()
}

/// Starts a new session without a terminal, so that closing the terminal does not end the process.
///
/// # Errors
/// If the process is the leader of a process group.
pub fn leave_terminal() -> io::Result<()> {
    nix::unistd::setsid()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_parsed_from_proc_status() {
        let told = "SigBlk:\t0000000000000002\nSigIgn:\t0000000000001001\nSigCgt:\t0\n";
        let hangup = 1 << (Signal::SIGHUP as i32 - 1);
        assert_eq!(ignored(told) & hangup, hangup);
        assert_eq!(ignored(told) & (1 << (Signal::SIGTERM as i32 - 1)), 0);
        assert_eq!(ignored("Name:\tflashloom\n"), 0);
    }
}
