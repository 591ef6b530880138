//! The running process group, and signals for it.
//!
//! Invariant: at most one group runs at a time. A signal to this process is kept, passed on to the
//! group, and stops the start of any other.

use engine::Signals;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use std::io;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::Duration;

/// Handle on the running process group, shared with the thread that waits for signals.
#[derive(Default)]
pub struct Reins {
    /// Process group that runs; 0 if none does.
    group: AtomicI32,
    /// Exit status of this process after a signal; 0 before any.
    status: AtomicU8,
    /// Held while a group starts or ends.
    turn: Mutex<()>,
}

/// End of a process group.
pub(crate) enum Ended {
    /// The leader ended by itself.
    Leader(ExitStatus),
    /// The group was killed after the given time.
    Late,
}

impl Reins {
    /// Takes SIGINT, SIGTERM and SIGHUP from this process. Call this before any other thread
    /// exists.
    ///
    /// # Errors
    /// If the signals cannot be watched.
    pub fn hold() -> io::Result<Arc<Self>> {
        let reins = Arc::new(Self::default());
        let heard = Arc::clone(&reins);
        Signals::hold()?.watch(move |signal| {
            heard.pass(signal);
            true
        })?;
        Ok(reins)
    }

    /// Exit status of this process after a signal; `None` before any.
    #[must_use]
    pub fn status(&self) -> Option<u8> {
        let status = self.status.load(Ordering::SeqCst);
        (status != 0).then_some(status)
    }

    fn pass(&self, signal: Signal) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.status.swap(Signals::status(signal), Ordering::SeqCst);
        let signal = if before == 0 { signal } else { Signal::SIGKILL };
        self.kill(signal);
    }

    fn kill(&self, signal: Signal) {
        let group = self.group.load(Ordering::SeqCst);
        if group != 0 {
            // A group without a process is as good as killed.
            let _ = killpg(Pid::from_raw(group), signal);
        }
    }

    /// Starts `command`, which leads a group of its own, with no signal blocked.
    ///
    /// # Errors
    /// If it cannot be started; `Interrupted` after a signal to this process.
    pub(crate) fn start(&self, command: &mut Command) -> io::Result<Child> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if self.status().is_some() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let before = SigSet::empty().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
        let child = command.spawn();
        before.thread_set_mask()?;
        let child = child?;
        self.group.store(child.id() as i32, Ordering::SeqCst);
        Ok(child)
    }

    /// Waits for the leader of the running group, then kills the rest of it. Kills all of it after
    /// the time `most`, if there is one.
    ///
    /// # Errors
    /// If the system has no thread; `Interrupted` if a signal to this process ended the group.
    pub(crate) fn wait(&self, mut child: Child, most: Option<Duration>) -> io::Result<Ended> {
        let leader = Pid::from_raw(child.id() as i32);
        let (tell, ended) = channel();
        let watch = move || {
            let how = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
            while waitid(Id::Pid(leader), how) == Err(nix::Error::EINTR) {}
            // The receiver waits no longer if the time was up.
            let _ = tell.send(());
        };
        Builder::new().name("wait".to_owned()).spawn(watch)?;
        let is_late = match most {
            Some(most) => ended.recv_timeout(most).is_err(),
            None => ended.recv().is_err(),
        };
        // The leader has not been waited for, so the number of the group is still its own.
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.kill(Signal::SIGKILL);
        self.group.store(0, Ordering::SeqCst);
        drop(turn);
        let status = child.wait()?;
        if self.status().is_some() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        Ok(if is_late {
            Ended::Late
        } else {
            Ended::Leader(status)
        })
    }
}
