//! How a process ends that runs a program: after the program, whatever asks it to end.
//!
//! Invariants: a signal to end is the program's, also one that comes before the program has
//! begun; what this process does after the program's end is not cut short by one; a signal goes
//! to no other process that has got the program's number since.

use std::io;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicI32, Ordering};

/// The program that runs; 0 if none does.
static PROGRAM: AtomicI32 = AtomicI32::new(0);

/// A signal that came before the program.
static EARLY: AtomicI32 = AtomicI32::new(0);

/// Signals by which a terminal ends programs: it sends them to the program too.
const TERMINAL: [libc::c_int; 2] = [libc::SIGINT, libc::SIGQUIT];

/// Signals that are passed on. The end of a terminal is not, if it is ignored (`nohup`).
const PASSED: [libc::c_int; 2] = [libc::SIGTERM, libc::SIGHUP];

extern "C" fn passes(signal: libc::c_int) {
    let program = PROGRAM.load(Ordering::SeqCst);
    if program == 0 {
        EARLY.store(signal, Ordering::SeqCst);
    } else {
        // SAFETY: it takes no memory, and may be called in a handler.
        unsafe { libc::kill(program, signal) };
    }
}

/// While this is there, the process outlives signals that ask it to end, and passes them on to
/// the program that it runs.
pub struct Ends {
    before: [(libc::c_int, libc::sighandler_t); 2],
}

/// Sets what a signal does, and says what it did before.
fn set(signal: libc::c_int, handler: libc::sighandler_t) -> libc::sighandler_t {
    // SAFETY: the handler is the system's, or ours, which may run at any point.
    unsafe { libc::signal(signal, handler) }
}

impl Ends {
    /// Begins with it. One at a time in a process.
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

    /// Runs a program to its end.
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
            // SAFETY: the program was not waited for, so the number is its own.
            unsafe { libc::kill(program, early) };
        }
        // It is waited for only once nothing is sent to it any more.
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
