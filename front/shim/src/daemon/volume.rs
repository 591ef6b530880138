//! The volume: the core under a lock, whose commands are executed by the threads that call it.
//!
//! Invariants:
//! - Commands run without the lock, on the thread that takes them, so that calls of other threads
//!   proceed meanwhile.
//! - One process serves a folder of zones: it holds the folder's lock.
//! - Before a batch of the log that records removed names is written, the folders of these names
//!   are synced, so that no name comes back without its file.
//! - Clients that read zones directly are notified before a zone is reset.

use super::clients::Clients;
use super::stands;
use super::zones::ZoneFiles;
use crate::place::Mark;
use crate::sys::{self, Errno};
use shimmer::{
    Command, Core, FileId, LOG_ZONES, OpenError, Options, Part, Piece, Placement, Refusal, Status,
    SyncId,
};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(super) struct Volume {
    /// Clients, which may read zones directly.
    pub(super) clients: Clients,
    inner: Mutex<Inner>,
    changed: Condvar,
    pub(super) zones: ZoneFiles,
    /// Number that tells this volume from others.
    pub(super) number: u64,
    /// Descriptor of the folder, which holds its lock.
    pub(super) folder: i32,
    /// Reason of the latest `ENOSPC`, one sentence.
    why: Mutex<String>,
}

pub(super) struct Inner {
    pub(super) core: Core,
    /// Folders in which names of placed files were removed since the last batch of the log.
    folders: BTreeSet<Vec<u8>>,
}

type Guard = MutexGuard<'static, Inner>;

/// A call that the zones cannot serve, or that failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The file must be moved to the ordinary file system.
    Demote,
    /// The file is no longer in the zones: it was moved away or removed.
    Gone,
    /// An error of the system, as in `errno`.
    Errno(Errno),
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

/// A number that practically no other volume has, mixed from the time of day and the process ID.
fn unique() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the clock exists, and the call writes to the local `time`.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut time) };
    let process = std::process::id();
    (time.tv_sec as u64) << 32 ^ (time.tv_nsec as u64) << 12 ^ u64::from(process)
}

/// Opens the core over zones; formats them first if they are blank.
fn open_core(zones: &ZoneFiles) -> Result<Core, String> {
    let options = Options::default();
    let log = |zone: u32| {
        let written = zones
            .reports
            .get(zone as usize)
            .map_or(0, |report| report.written);
        // No log is longer than 1 GiB; bytes behind that are the filling of a finished zone.
        zones.bytes(zone, written.min(1 << 30))
    };
    let logs = (log(0), log(1));
    let (Ok(first), Ok(second)) = logs else {
        return Err("the zones of the log cannot be read".to_owned());
    };
    match Core::open(options, zones.limits, &zones.reports, [&first, &second]) {
        Err(OpenError::Unformatted { blank: true }) => {
            Core::format(options, zones.limits, &zones.reports, unique())
        }
        other => other,
    }
    .map_err(|why| why.to_string())
}

/// Number of attempts to take the lock, [`PAUSE`] apart: half a second in all. The present holder
/// may be a daemon that is ending.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(5);

/// Takes the folder's lock for this process; returns `false` if another process keeps it.
fn locked(fd: libc::c_int) -> bool {
    (0..TRIES).any(|time| {
        if time > 0 {
            std::thread::sleep(PAUSE);
        }
        sys::lock(fd).is_ok()
    })
}

impl Volume {
    /// Opens the volume in a folder of zones.
    ///
    /// # Errors
    /// A sentence with the reason: the folder cannot be opened, is locked, or has no usable zones.
    pub(super) fn open(folder: &CString) -> Result<Self, String> {
        let errno = |what: &str, errno| format!("{what}: error {errno}");
        let fd = sys::open(folder, libc::O_RDONLY | libc::O_DIRECTORY);
        let fd = fd.map_err(|it| errno("it cannot be opened", it))?;
        if !locked(fd) {
            sys::close(fd);
            return Err(crate::run::BUSY.to_owned());
        }
        let zones = ZoneFiles::new(folder.as_bytes());
        let opened = zones.and_then(|zones| {
            let core = open_core(&zones);
            core.inspect_err(|_| zones.close_all())
                .map(|core| (zones, core))
        });
        let (zones, core) = opened.inspect_err(|_| sys::close(fd))?;
        let number = core.volume();
        let inner = Mutex::new(Inner {
            core,
            folders: BTreeSet::new(),
        });
        Ok(Self {
            clients: Clients::default(),
            why: Mutex::default(),
            inner,
            changed: Condvar::new(),
            zones,
            number,
            folder: fd,
        })
    }

    fn fault(&self, refusal: &Refusal) -> Fault {
        match refusal {
            Refusal::Demote(_) => Fault::Demote,
            Refusal::Missing => Fault::Gone,
            Refusal::NoSpace(why) => {
                let mut place = self.why.lock().unwrap_or_else(PoisonError::into_inner);
                *place = format!("no space in zones: {why}");
                Fault::Errno(libc::ENOSPC)
            }
            Refusal::Exists => Fault::Errno(libc::EEXIST),
            Refusal::Path => Fault::Errno(libc::ENAMETOOLONG),
            Refusal::Failed(_) | Refusal::Busy | Refusal::Tail(_) => Fault::Errno(libc::EIO),
        }
    }

    /// The reason of the latest `ENOSPC`.
    pub(super) fn why_full(&self) -> String {
        let why = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        why.clone()
    }

    pub(super) fn lock(&'static self) -> Guard {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes the next command, or waits until another thread has completed one.
    fn one(&'static self, mut guard: Guard) -> Guard {
        let Some((ticket, command)) = guard.core.next_command() else {
            return self
                .changed
                .wait(guard)
                .unwrap_or_else(PoisonError::into_inner);
        };
        let of_log = matches!(command, Command::Write { zone, .. } if zone < LOG_ZONES);
        let folders = if of_log {
            std::mem::take(&mut guard.folders)
        } else {
            BTreeSet::new()
        };
        drop(guard);
        if matches!(command, Command::Reset { .. }) {
            self.clients.zones_change();
        }
        folders.iter().for_each(|folder| force_folder(folder));
        let result = self.zones.run(&command);
        let mut guard = self.lock();
        guard.core.complete(ticket, result);
        self.changed.notify_all();
        guard
    }

    /// Executes commands as they come, for ever.
    pub(super) fn work(&'static self) -> ! {
        let mut guard = self.lock();
        loop {
            guard = self.one(guard);
        }
    }

    /// Executes commands until none is pending.
    fn all(&'static self, mut guard: Guard) {
        while guard.core.has_command() {
            guard = self.one(guard);
        }
    }

    fn wait(&'static self, mut guard: Guard, sync: SyncId) -> Result<(), Fault> {
        loop {
            match guard.core.poll_sync(sync) {
                Some(outcome) => {
                    self.all(guard);
                    return outcome.map_err(|refusal| self.fault(&refusal));
                }
                None => guard = self.one(guard),
            }
        }
    }

    /// Creates a file at a path and counts it as open once. A file that had the path before is
    /// dropped if its stand-in is gone, else renamed. `tag` identifies the new file's stand-in.
    pub(super) fn create(
        &'static self,
        path: &[u8],
        placement: Placement,
        tag: &[u8],
    ) -> Result<FileId, Fault> {
        let guard = self.lock();
        let before = guard.core.lookup(path);
        // A client that is creating a file has it open, and marks its stand-in a moment later.
        let closed = |id: &FileId| guard.core.status(*id).is_some_and(|it| it.opens == 0);
        let before = before.filter(closed);
        drop(guard);
        if let Some(other) = before {
            self.drop_stray(other);
        }
        let mut guard = self.lock();
        if let Some(other) = guard.core.lookup(path) {
            // The other file was renamed without the library, so its path is stale.
            let stale = format!("?/{}", other.0).into_bytes();
            guard
                .core
                .rename(path, &stale)
                .map_err(|refusal| self.fault(&refusal))?;
        }
        let made = guard.core.create(path, placement);
        let id = made.map_err(|refusal| self.fault(&refusal))?;
        let tagged = guard.core.set_tag(id, tag);
        tagged.map_err(|refusal| self.fault(&refusal))?;
        Ok(id)
    }

    /// Drops a file whose stand-in is gone without a notice, as it was removed by a program without
    /// the library, or by one that was killed before it sent the notice.
    fn drop_stray(&'static self, id: FileId) {
        let guard = self.lock();
        let (path, tag) = (guard.core.path(id), guard.core.tag(id));
        let (Some(path), Some(tag)) = (path.map(<[u8]>::to_vec), tag.map(<[u8]>::to_vec)) else {
            return;
        };
        drop(guard);
        let volume = self.number;
        if stands::is_gone(&path, &tag, Mark { volume, id }) {
            self.unlinked(id, b"");
        }
    }

    /// Drops every file whose stand-in is gone.
    pub(super) fn drop_strays(&'static self) {
        let all: Vec<_> = self.lock().core.files().map(|(_, id)| id).collect();
        all.into_iter().for_each(|id| self.drop_stray(id));
    }

    /// Writes at `offset`, or at the end if it is `None`; returns the offset behind the last byte,
    /// and the number of bytes written. The commands that result are left to the workers. Clients
    /// that read zones directly are notified after an overwrite, so that they map the file anew.
    pub(super) fn write(
        &'static self,
        id: FileId,
        offset: Option<u64>,
        data: &[u8],
    ) -> Result<(u64, usize), Fault> {
        let mut guard = self.lock();
        let status = guard.core.status(id).ok_or(Fault::Gone)?;
        let start = offset.unwrap_or(status.size);
        let mut done = 0;
        while done < data.len() {
            match guard.core.write(id, start + done as u64, &data[done..]) {
                Ok(more) => done += more,
                Err(Refusal::Busy) => guard = self.one(guard),
                Err(Refusal::Tail(piece)) => {
                    let mut tail = vec![0; piece.len as usize];
                    self.zones.read(piece, &mut tail)?;
                    guard.core.load_tail(id, &tail);
                }
                Err(_) if done > 0 => break,
                Err(refusal) => return Err(self.fault(&refusal)),
            }
        }
        if guard.core.has_command() {
            self.changed.notify_all();
        }
        if start < status.size {
            self.clients.zones_change();
        }
        Ok((start + done as u64, done))
    }

    /// Reads from `offset`; returns the number of bytes read, less than asked at the end of the
    /// file.
    pub(super) fn read(
        &'static self,
        id: FileId,
        offset: u64,
        to: &mut [u8],
    ) -> Result<usize, Fault> {
        let parts = self.lock().core.read(id, offset, to.len() as u64);
        let parts = parts.map_err(|refusal| self.fault(&refusal))?;
        let len = length(&parts);
        let outcome = self.zones.gather(&parts, &mut to[..len]);
        self.release(&parts);
        outcome?;
        Ok(len)
    }

    /// The parts of a file after it was written back: all of them in zones. The caller must release
    /// them.
    pub(super) fn in_zones(&'static self, id: FileId) -> Result<Vec<Part>, Fault> {
        let mut guard = self.lock();
        let drained = guard
            .core
            .drain(id)
            .map_err(|refusal| self.fault(&refusal))?;
        self.wait(guard, drained)?;
        let mut guard = self.lock();
        let parts = guard.core.read_stored(id);
        parts.map_err(|refusal| self.fault(&refusal))
    }

    /// Retains parts once more, for a second holder that releases them on its own.
    pub(super) fn retain(&'static self, parts: &[Part]) {
        self.lock().core.retain(parts);
    }

    pub(super) fn release(&'static self, parts: &[Part]) {
        let mut guard = self.lock();
        guard.core.release(parts);
        self.all(guard);
    }

    /// The pieces of a file that are in zones by now, from the block that begins at byte `from`,
    /// and the file's status.
    pub(super) fn pieces(
        &'static self,
        id: FileId,
        from: u64,
    ) -> Result<(Vec<Piece>, Status), Fault> {
        let mut guard = self.lock();
        let status = guard.core.status(id).ok_or(Fault::Gone)?;
        let parts = guard.core.read_stored(id);
        let parts = parts.map_err(|refusal| self.fault(&refusal))?;
        guard.core.release(&parts);
        self.all(guard);
        Ok((behind(&pieces(&parts), from), status))
    }

    pub(super) fn status(&'static self, id: FileId) -> Option<Status> {
        self.lock().core.status(id)
    }

    pub(super) fn sync(&'static self, id: FileId) -> Result<(), Fault> {
        let mut guard = self.lock();
        let sync = guard
            .core
            .sync(id)
            .map_err(|refusal| self.fault(&refusal))?;
        self.wait(guard, sync)
    }

    pub(super) fn sync_all(&'static self) -> Result<(), Fault> {
        let mut guard = self.lock();
        let sync = guard.core.sync_all();
        self.wait(guard, sync)
    }

    pub(super) fn truncate(&'static self, id: FileId, size: u64) -> Result<(), Fault> {
        let mut guard = self.lock();
        loop {
            match guard.core.truncate(id, size) {
                Err(Refusal::Busy) => guard = self.one(guard),
                outcome => {
                    self.all(guard);
                    return outcome.map_err(|refusal| self.fault(&refusal));
                }
            }
        }
    }

    /// Sets the stream and group of later writes to a file.
    pub(super) fn belongs(&'static self, id: FileId, placement: Placement) {
        let _ = self.lock().core.set_placement(id, placement);
    }

    pub(super) fn opened(&'static self, id: FileId) -> Result<(), Fault> {
        self.lock()
            .core
            .open_file(id)
            .map_err(|refusal| self.fault(&refusal))
    }

    pub(super) fn closed(&'static self, id: FileId) {
        let mut guard = self.lock();
        guard.core.close_file(id);
        self.all(guard);
    }

    /// Removes a file whose last name, in `folder`, is gone; an empty `folder` needs no sync.
    pub(super) fn unlinked(&'static self, id: FileId, folder: &[u8]) {
        let mut guard = self.lock();
        let Some(path) = guard.core.path(id).map(<[u8]>::to_vec) else {
            return;
        };
        if !folder.is_empty() {
            guard.folders.insert(folder.to_vec());
        }
        let _ = guard.core.unlink(&path);
        self.all(guard);
    }

    /// Renames a file in the log; a file that had the path `to` gets a placeholder path.
    pub(super) fn renamed(&'static self, id: FileId, to: &[u8]) {
        let mut guard = self.lock();
        let Some(from) = guard.core.path(id).map(<[u8]>::to_vec) else {
            return;
        };
        if let Some(other) = guard.core.lookup(to).filter(|other| *other != id) {
            let stale = format!("?/{}", other.0).into_bytes();
            let _ = guard.core.rename(to, &stale);
        }
        let _ = guard.core.rename(&from, to);
        self.all(guard);
    }
}

/// The parts that are in zones.
pub(super) fn pieces(parts: &[Part]) -> Vec<Piece> {
    let piece = |part: &Part| match part {
        Part::Zone(piece) => Some(*piece),
        Part::Memory(_) => None,
    };
    parts.iter().filter_map(piece).collect()
}

/// The pieces without their first `bytes` bytes.
fn behind(pieces: &[Piece], mut bytes: u64) -> Vec<Piece> {
    let mut left = Vec::new();
    for piece in pieces {
        let skip = bytes.min(piece.len);
        bytes -= skip;
        if skip < piece.len {
            left.push(Piece {
                at: piece.at + skip,
                len: piece.len - skip,
                ..*piece
            });
        }
    }
    left
}

fn length(parts: &[Part]) -> usize {
    let len = |part: &Part| match part {
        Part::Zone(piece) => piece.len as usize,
        Part::Memory(data) => data.len(),
    };
    parts.iter().map(len).sum()
}

fn force_folder(folder: &[u8]) {
    let Ok(path) = CString::new(folder) else {
        return;
    };
    if let Ok(fd) = sys::open(&path, libc::O_RDONLY | libc::O_DIRECTORY) {
        let _ = sys::force(fd);
        sys::close(fd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_behind_any_byte_are_cut_at_it() {
        let piece = |zone, at, len| Piece { zone, at, len };
        let all = [piece(3, 10, 20), piece(5, 0, 7)];
        assert_eq!(behind(&all, 0), all);
        assert_eq!(behind(&all, 8), [piece(3, 18, 12), piece(5, 0, 7)]);
        assert_eq!(behind(&all, 20), [piece(5, 0, 7)]);
        assert_eq!(behind(&all, 27), []);
        assert_eq!(behind(&all, u64::MAX), []);
    }
}
