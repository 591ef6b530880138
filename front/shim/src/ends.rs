//! Signal handling of a process that runs a program: it ends after the program, whatever signal
//! asks it to terminate.
//!
//! Invariants:
//! - A termination signal is passed to the program, also one that arrives before the program has
//!   started.
//! - No such signal interrupts the cleanup of this process after the program's end.
//! - No signal goes to another process that reuses the program's process ID.

use std::io;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicI32, Ordering};

/// Process ID of the running program; 0 if none runs.
static PROGRAM: AtomicI32 = AtomicI32::new(0);

/// A signal that arrived before the program started; 0 if none did.
static EARLY: AtomicI32 = AtomicI32::new(0);

/// Signals by which a terminal ends programs: the terminal sends them to the program, too.
const TERMINAL: [libc::c_int; 2] = [libc::SIGINT, libc::SIGQUIT];

/// Signals that are passed on, unless this process ignores them (`SIGHUP` under `nohup`).
const PASSED: [libc::c_int; 2] = [libc::SIGTERM, libc::SIGHUP];

extern "C" fn passes(signal: libc::c_int) {
    let program = PROGRAM.load(Ordering::SeqCst);
    if program == 0 {
        EARLY.store(signal, Ordering::SeqCst);
    } else {
        // SAFETY: `kill` takes no pointers, and may be called in a signal handler.
        unsafe { libc::kill(program, signal) };
    }
}

/// Guard: while it lives, this process outlives termination signals and passes them on to the
/// program that it runs. Dropping it restores the handlers.
pub struct Ends {
    before: [(libc::c_int, libc::sighandler_t); 2],
}

/// Sets the handler of a signal and returns the previous one.
fn set(signal: libc::c_int, handler: libc::sighandler_t) -> libc::sighandler_t {
    // SAFETY: the handler is the default one or ours, which may run at any point.
    unsafe { libc::signal(signal, handler) }
}

impl Ends {
    /// Installs the handlers. At most one guard may exist in a process.
    #[must_use]
    pub fn begin() -> Self {
        let before = PASSED.map(|signal| {
            let was = set(signal, libc::SIG_IGN);
            if was != libc::SIG_IGN {
                set(signal, passes as *const () as libc::sighandler_t);
            }
            (signal, was)
        });
        Self { before }
    }

    /// Runs a program to its end and returns its status.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub fn run(&self, mut command: Command) -> io::Result<ExitStatus> {
        let mut child = command.spawn()?;
        let before = TERMINAL.map(|signal| (signal, set(signal, libc::SIG_IGN)));
        let program = child.id() as libc::pid_t;
        PROGRAM.store(program, Ordering::SeqCst);
        let early = EARLY.swap(0, Ordering::SeqCst);
        if early != 0 {
            // SAFETY: the program was not waited for, so the process ID is still its own.
            unsafe { libc::kill(program, early) };
        }
        // `WNOWAIT` keeps the process ID reserved until no signal can be sent to it any more.
        let (which, how) = (libc::P_PID, libc::WEXITED | libc::WNOWAIT);
        // SAFETY: all zeros are a valid answer, which is written.
        unsafe {
            let mut about: libc::siginfo_t = core::mem::zeroed();
            while libc::waitid(which, program as libc::id_t, &raw mut about, how) != 0
                && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
            {}
        }
        PROGRAM.store(0, Ordering::SeqCst);
        let status = child.wait();
        restore(&before);
        status
    }
}

fn restore(all: &[(libc::c_int, libc::sighandler_t)]) {
    for (signal, handler) in all {
        if *handler != libc::SIG_ERR {
            set(*signal, *handler);
        }
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        restore(&self.before);
    }
}
