//! Forced commits, by request and by age, and their flushes.
//!
//! Invariants: a force waits for one commit and one flush at most, and shares both with forces that
//! arrive meanwhile; a flush that began before the call does not count.

use super::{Core, data};
use host::BlockPort;
use ssd::IoError;
use std::rc::Rc;
use units::Ns;
use vfs::{Errno, Result};

/// Numbers of the last flush started and of the last one finished.
#[derive(Default)]
pub(super) struct Flushes {
    started: u64,
    finished: u64,
    active: bool,
}

/// Next step of a task that needs a flush.
enum Turn {
    Done,
    Lead,
    Wait,
}

impl Flushes {
    fn turn(&mut self, wanted: u64) -> Turn {
        if self.finished >= wanted {
            return Turn::Done;
        }
        if self.active {
            return Turn::Wait;
        }
        self.active = true;
        self.started += 1;
        Turn::Lead
    }
}

impl Core {
    /// Waits for a flush that begins after this call; calls during a running flush share
    /// the next one, as in Linux' block layer.
    pub(super) async fn flush(&self) -> std::result::Result<(), IoError> {
        let wanted = self.state.borrow().flushes.started + 1;
        loop {
            let turn = self.state.borrow_mut().flushes.turn(wanted);
            match turn {
                Turn::Done => return Ok(()),
                Turn::Lead => return self.lead_flush().await,
                Turn::Wait => self.flushed.wait(&self.sim).await,
            }
        }
    }

    async fn lead_flush(&self) -> std::result::Result<(), IoError> {
        let flushed = self.port.flush().await;
        let mut state = self.state.borrow_mut();
        state.counts.flushes += 1;
        state.flushes.active = false;
        if flushed.is_ok() {
            state.flushes.finished = state.flushes.started;
        }
        self.flushed.notify(&self.sim);
        flushed
    }

    /// Starts the timer that commits the running transaction at `commit_interval`,
    /// unless it runs already.
    pub(super) fn start_timer(self: &Rc<Self>) {
        if !std::mem::replace(&mut self.state.borrow_mut().timer, true) {
            let core = Rc::clone(self);
            self.sim.spawn_detached(async move { core.time().await });
        }
    }

    async fn time(self: Rc<Self>) {
        while let Some((id, due)) = self.due() {
            if due <= self.sim.now() {
                self.request_commit(id);
                break;
            }
            self.sim.sleep_until(due).await;
        }
        self.state.borrow_mut().timer = false;
    }

    /// The running transaction, and the time at which the timer commits it.
    fn due(&self) -> Option<(u64, Ns)> {
        let state = self.state.borrow();
        let running = state.running.as_ref()?;
        let due = running
            .opened
            .0
            .saturating_add(self.config.commit_interval.0);
        Some((running.id, Ns(due)))
    }

    /// Waits until transaction `id` is durable or the journal is aborted.
    pub(super) async fn wait_committed(&self, id: u64) {
        while self.is_pending(id) {
            self.committed.wait(&self.sim).await;
        }
    }

    fn is_pending(&self, id: u64) -> bool {
        let state = self.state.borrow();
        state.committed < id && !state.aborted
    }

    /// The last transaction that was opened.
    pub(super) fn newest(&self) -> u64 {
        self.state.borrow().next - 1
    }

    /// Makes all transactions up to `upto` durable, and all file contents written until
    /// now. `EIO` if that fails, `EROFS` if the journal was aborted before, as in Linux.
    pub(super) async fn force(self: &Rc<Self>, upto: u64) -> Result<()> {
        if self.is_aborted() {
            return Err(Errno::EROFS);
        }
        let with_data = upto.max(self.state.borrow().data_upto);
        let upto = with_data.min(self.newest());
        let covered = self.will_flush(upto);
        if self.is_pending(upto) {
            self.request_commit(upto);
            self.wait_committed(upto).await;
        }
        if self.is_aborted() {
            return Err(Errno::EIO);
        }
        if covered || vfs::mutant::is("ext4-fsync-without-flush") {
            return Ok(());
        }
        let flushed = self.flush().await;
        if let Err(error) = flushed {
            self.abort(error).await;
        }
        flushed.map_err(data::failed)
    }

    /// Whether the commit of `upto` will flush all writes made until now.
    fn will_flush(&self, upto: u64) -> bool {
        let state = self.state.borrow();
        match &state.committing {
            Some((committing, _)) if committing.id == upto => !committing.flushing.get(),
            _ => state.committed < upto,
        }
    }

    /// Makes every transaction and all file contents durable.
    pub(super) async fn force_all(self: &Rc<Self>) -> Result<()> {
        self.force(self.newest()).await
    }

    /// Makes everything durable and then writes the metadata home, as `sync` of Linux does.
    pub(super) async fn sync(self: &Rc<Self>) -> Result<()> {
        self.force_all().await?;
        let _turn = self.checkpointing.acquire(1).await;
        let home = self.write_home(self.dirty()).await;
        if let Err(error) = home {
            self.abort(error).await;
        }
        home.map_err(data::failed)
    }
}
