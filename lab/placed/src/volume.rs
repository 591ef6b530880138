//! The core with its zones, and the tasks that execute its commands.
//!
//! Invariants: no borrow of the core is held across an await; each command has its own task, which
//! reports the result to the core and then starts the commands that became possible.

use crate::state::State;
use crate::zones::{Reader, Zones, limits_of};
use host::{ZoneDisk, ZonedPort};
use nand::UNIT;
use shimmer::{
    BLOCK, Command, Core, FileId, LOG_ZONES, OpenError, Options, Part, Piece, Refusal, SyncId,
    Ticket, ZoneReport,
};
use sim::{Boxed, Signal, Sim};
use ssd::ZoneLimits;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use thiserror::Error;
use units::Origin;
use vfs::{Body, Errno, Result};

/// Most bytes of a log that are read: a larger write pointer is that of a finished zone.
const LONGEST_LOG: u64 = 1 << 30;

/// Bytes of one read of a log.
const READ: u64 = 1 << 20;

/// The reason why zones cannot have placed files.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum VolumeError {
    /// The core rejects the zones.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The drive failed a command on the log.
    #[error("the log of placed files: {0}")]
    Failed(#[from] shimmer::Failure),
    /// The ordinary file system failed.
    #[error("the files that stand for placed ones: {0}")]
    Ordinary(#[from] Errno),
}

/// The core with its zones.
pub(crate) struct Volume {
    pub(crate) zones: Zones,
    pub(crate) core: RefCell<Core>,
    /// Notified when a command has completed.
    done: Signal,
    /// Whether names were removed whose files the core forgets with its next batch.
    gone: Cell<bool>,
    /// Number of zones reset for reuse.
    pub(crate) resets: Cell<u64>,
    /// Origin of the data of each file.
    pub(crate) origins: RefCell<BTreeMap<FileId, Origin>>,
    /// Capacity of all data zones, in bytes.
    pub(crate) capacity: u64,
}

fn capacity(reports: &[ZoneReport]) -> u64 {
    let data = reports.iter().skip(LOG_ZONES as usize);
    data.map(|report| report.capacity).sum()
}

/// Makes a volume on the sequential zones of a drive, which must be empty.
///
/// # Errors
/// If there are too few zones, or they fail.
pub fn format(
    port: &impl ZonedPort,
    options: Options,
    volume: u64,
) -> Boxed<'static, std::result::Result<(), VolumeError>> {
    format_disk(ZoneDisk::from(port), options, volume)
}

fn format_disk(
    port: ZoneDisk,
    options: Options,
    volume: u64,
) -> Boxed<'static, std::result::Result<(), VolumeError>> {
    Box::pin(make(port, options, volume))
}

async fn make(
    port: ZoneDisk,
    options: Options,
    volume: u64,
) -> std::result::Result<(), VolumeError> {
    let zones = Zones::new(port);
    let mut core = Core::format(options, zones.limits(), &zones.reports(), volume)?;
    let sync = core.sync_all();
    loop {
        while let Some((ticket, command)) = core.next_command() {
            let done = zones.run(&command, Origin::default()).await;
            core.complete(ticket, done);
        }
        if let Some(outcome) = core.poll_sync(sync) {
            return outcome.map_err(|_| shimmer::Failure.into());
        }
    }
}

/// Problems of the volume in zones at rest.
#[must_use]
pub fn check(
    reader: &impl Reader,
    limits: &ZoneLimits,
    reports: &[ZoneReport],
    options: Options,
) -> Vec<String> {
    let log = |zone: u32| {
        let written = reports
            .get(zone as usize)
            .map_or(0, |report| report.written);
        let mut bytes = Vec::new();
        let mut block = [0; UNIT];
        for at in 0..written.min(LONGEST_LOG) / BLOCK {
            if !reader.read(zone, at, &mut block) {
                break;
            }
            bytes.extend(block);
        }
        bytes
    };
    let (first, second) = (log(0), log(1));
    let opened = Core::open(options, limits_of(limits), reports, [&first, &second]);
    opened
        .err()
        .map(|why| why.to_string())
        .into_iter()
        .collect()
}

/// The first `written` bytes of a zone, up to the first unreadable block: their replay detects
/// missing bytes.
async fn log_of(zones: &Zones, zone: u32, written: u64, who: Origin) -> Vec<u8> {
    let (mut bytes, mut most) = (Vec::new(), READ);
    while (bytes.len() as u64) < written {
        let at = bytes.len() as u64;
        let len = most.min(written - at);
        match zones.read(Piece { zone, at, len }, who).await {
            Ok(more) => bytes.extend(more),
            Err(_) if most > BLOCK => most = BLOCK,
            Err(_) => break,
        }
    }
    bytes
}

impl Volume {
    /// The core's keys of all files.
    pub(crate) fn keys(&self) -> Vec<Vec<u8>> {
        let core = self.core.borrow();
        core.files().map(|(key, _)| key.to_vec()).collect()
    }

    /// Opens the volume in the zones of a drive.
    pub(crate) async fn open(
        port: ZoneDisk,
        options: Options,
        origin: Origin,
    ) -> std::result::Result<Self, VolumeError> {
        let zones = Zones::new(port);
        let reports = zones.reports();
        let mut logs = Vec::new();
        for (zone, report) in reports.iter().enumerate().take(LOG_ZONES as usize) {
            let written = report.written.min(LONGEST_LOG);
            logs.push(log_of(&zones, zone as u32, written, origin).await);
        }
        let log = |at: usize| logs.get(at).map_or(&[][..], |bytes| &bytes[..]);
        let core = Core::open(options, zones.limits(), &reports, [log(0), log(1)])?;
        Ok(Self {
            capacity: capacity(&reports),
            zones,
            core: RefCell::new(core),
            done: Signal::default(),
            gone: Cell::new(false),
            resets: Cell::new(0),
            origins: RefCell::default(),
        })
    }

    /// Notes that names were removed, whose files the next batch of the log forgets.
    pub(crate) fn forgets(&self) {
        self.gone.set(true);
    }
}

impl State {
    /// Starts all commands that can be executed now.
    pub(crate) fn pump(self: &Rc<Self>) {
        let Some(volume) = &self.volume else { return };
        loop {
            let next = volume.core.borrow_mut().next_command();
            let Some((ticket, command)) = next else {
                return;
            };
            self.sim
                .spawn_detached(Rc::clone(self).run(ticket, command));
        }
    }

    async fn run(self: Rc<Self>, ticket: Ticket, command: Command) {
        let Some(volume) = &self.volume else { return };
        let of_log = matches!(command, Command::Write { zone, .. } if zone < LOG_ZONES);
        let settled = match of_log && volume.gone.replace(false) {
            true => self.below.sync_all().await,
            false => Ok(()),
        };
        let result = match settled {
            Ok(()) => {
                let file = volume.core.borrow().file_of(ticket);
                let origin = file.and_then(|id| volume.origins.borrow().get(&id).copied());
                let origin = origin.unwrap_or(self.origin);
                volume.zones.run(&command, origin).await
            }
            Err(_) => {
                volume.gone.set(true);
                Err(shimmer::Failure)
            }
        };
        if matches!(command, Command::Reset { .. }) && result.is_ok() {
            volume.resets.set(volume.resets.get() + 1);
        }
        volume.core.borrow_mut().complete(ticket, result);
        volume.done.notify(&self.sim);
        self.pump();
    }

    fn core(&self) -> Result<&Volume> {
        self.volume.as_ref().ok_or(Errno::EIO)
    }

    /// Converts a refusal to an error, and records a limit that was hit.
    fn refused(&self, refusal: Refusal) -> Errno {
        match refusal {
            Refusal::NoSpace(why) => {
                let (now, limit) = (self.sim.now(), why.limit);
                self.refusals.borrow_mut().note(now, limit, || *why);
                Errno::ENOSPC
            }
            Refusal::Exists => Errno::EEXIST,
            Refusal::Path => Errno::ENAMETOOLONG,
            _ => Errno::EIO,
        }
    }

    /// Repeats `call` until it need not wait for commands or for the end of the file.
    async fn until_done<T>(
        self: &Rc<Self>,
        id: FileId,
        mut call: impl FnMut(&mut Core) -> std::result::Result<T, Refusal>,
    ) -> Result<T> {
        let volume = self.core()?;
        loop {
            let outcome = call(&mut volume.core.borrow_mut());
            self.pump();
            match outcome {
                Ok(value) => return Ok(value),
                Err(Refusal::Busy) => volume.done.wait(&self.sim).await,
                Err(Refusal::Tail(piece)) => {
                    let tail = volume.zones.read(piece, self.origin).await;
                    let tail = tail.map_err(|_| Errno::EIO)?;
                    volume.core.borrow_mut().load_tail(id, &tail);
                }
                Err(refusal) => return Err(self.refused(refusal)),
            }
        }
    }

    /// Writes bytes at `offset`; returns their number, at least one.
    pub(crate) async fn put(self: &Rc<Self>, id: FileId, offset: u64, data: &[u8]) -> Result<u64> {
        let mut done = 0;
        while done < data.len() {
            let (at, rest) = (offset + done as u64, &data[done..]);
            let taken = self.until_done(id, |core| core.write(id, at, rest)).await;
            match taken {
                Ok(more) => done += more,
                Err(_) if done > 0 => break,
                Err(errno) => return Err(errno),
            }
        }
        Ok(done as u64)
    }

    /// Reads up to `len` bytes at `offset`; fewer at the end of the file.
    pub(crate) async fn get(self: &Rc<Self>, id: FileId, offset: u64, len: u64) -> Result<Vec<u8>> {
        let volume = self.core()?;
        let parts = volume.core.borrow_mut().read(id, offset, len);
        let parts = parts.map_err(|refusal| self.refused(refusal))?;
        let origin = volume.origins.borrow().get(&id).copied();
        let origin = origin.unwrap_or(self.origin);
        let (mut bytes, mut failed) = (Vec::new(), false);
        for part in &parts {
            match part {
                Part::Memory(data) => bytes.extend_from_slice(data),
                Part::Zone(piece) => match volume.zones.read(*piece, origin).await {
                    Ok(read) => bytes.extend(read),
                    Err(_) => failed = true,
                },
            }
        }
        volume.core.borrow_mut().release(&parts);
        self.pump();
        if failed { Err(Errno::EIO) } else { Ok(bytes) }
    }

    /// Truncates a file to `size` bytes.
    pub(crate) async fn cut(self: &Rc<Self>, id: FileId, size: u64) -> Result<()> {
        self.until_done(id, |core| core.truncate(id, size)).await
    }

    /// Makes a file durable, or all files if `id` is `None`.
    pub(crate) async fn force(self: &Rc<Self>, id: Option<FileId>) -> Result<()> {
        let volume = self.core()?;
        let begun = {
            let mut core = volume.core.borrow_mut();
            match id {
                Some(id) => core.sync(id),
                None => Ok(core.sync_all()),
            }
        };
        let sync = begun.map_err(|refusal| self.refused(refusal))?;
        self.wait_for(volume, sync).await
    }

    async fn wait_for(self: &Rc<Self>, volume: &Volume, sync: SyncId) -> Result<()> {
        loop {
            let outcome = volume.core.borrow_mut().poll_sync(sync);
            self.pump();
            match outcome {
                Some(outcome) => return outcome.map_err(|refusal| self.refused(refusal)),
                None => volume.done.wait(&self.sim).await,
            }
        }
    }

    /// Waits until no command is in flight.
    pub(crate) async fn rest(self: &Rc<Self>, sim: &Sim) {
        let Some(volume) = &self.volume else { return };
        while volume.core.borrow().is_busy() {
            volume.done.wait(sim).await;
        }
    }
}
