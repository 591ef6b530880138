//! Placed files that this process has open: one [`File`] each, however many openings it has.

use super::volume::Volume;
use crate::share::memory::LeaseId;
use crate::share::message::NO_LEASE;
use crate::sys;
use core::ptr::null_mut;
use shimmer::{FileId, Piece};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

/// Number of writes without a ring, after a refused lease, before a lease is requested again.
const REFUSED: u32 = 64;

/// A placed file as this process knows it.
pub(super) struct File {
    pub(super) id: FileId,
    /// The lease that allows writes by the ring ([`NO_LEASE`] if none), and the volume that granted
    /// it.
    lease: AtomicU64,
    giver: AtomicPtr<Volume>,
    /// Length of the file in bytes; valid while there is a lease.
    pub(super) size: AtomicU64,
    /// Held while a lease is requested, by one thread at a time.
    pub(super) asking: Mutex<()>,
    /// Writes left before a lease is requested again.
    pub(super) patience: AtomicU32,
    /// Number of writes, and the number of them that were synced.
    written: AtomicU64,
    forced: AtomicU64,
    /// Time of this process's latest change of the file, in ns; 0 if there was none.
    changed: AtomicU64,
    /// Last known change time of the stand-in, and the value of `changed` at that moment, both in
    /// ns.
    stood: [AtomicU64; 2],
    /// Whether the daemon died with writes that were not synced.
    lost: AtomicBool,
    pub(super) map: RwLock<Map>,
}

/// Location of a file's bytes in zones, as last reported by a volume.
#[derive(Default)]
pub(super) struct Map {
    /// Address of the volume that reported the map; 0 for none.
    pub(super) of: usize,
    pub(super) generation: u64,
    /// Number of bytes of the file that are in zones.
    pub(super) stored: u64,
    /// The pieces, each with its offset in the file.
    pub(super) pieces: Vec<(u64, Piece)>,
}

static FILES: Mutex<BTreeMap<FileId, Weak<File>>> = Mutex::new(BTreeMap::new());

/// The file with a number; shared by all its openings.
pub(super) fn of(id: FileId) -> Arc<File> {
    let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(file) = files.get(&id).and_then(Weak::upgrade) {
        return file;
    }
    files.retain(|_, file| file.strong_count() > 0);
    let file = Arc::new(File::new(id));
    files.insert(id, Arc::downgrade(&file));
    file
}

/// A file of which nothing is known: every call on it fails.
pub(super) fn stranger() -> Arc<File> {
    let file = File::new(FileId(u64::MAX));
    file.lost.store(true, Ordering::Release);
    Arc::new(file)
}

/// Change times of a file, in ns: by this process (`changed`), and of the stand-in (`at`), with the
/// value of `changed` at that moment (`with`).
#[derive(Clone, Copy)]
pub(super) struct Times {
    changed: u64,
    at: u64,
    with: u64,
}

impl Times {
    /// The time of this process's latest change, if it came after the stand-in's change at `ctime`;
    /// otherwise the stand-in has the valid time. Clocks are coarse, so if `ctime` is the known
    /// one, the order is taken from the record and not from the clock.
    pub(super) fn after(self, ctime: u64) -> Option<u64> {
        let later = if ctime == self.at {
            self.changed != self.with
        } else {
            self.changed > ctime
        };
        later.then_some(self.changed)
    }
}

impl File {
    fn new(id: FileId) -> Self {
        Self {
            id,
            lease: AtomicU64::new(NO_LEASE),
            giver: AtomicPtr::new(null_mut()),
            size: AtomicU64::new(0),
            asking: Mutex::default(),
            patience: AtomicU32::new(0),
            written: AtomicU64::new(0),
            forced: AtomicU64::new(0),
            changed: AtomicU64::new(0),
            stood: [const { AtomicU64::new(0) }; 2],
            lost: AtomicBool::new(false),
            map: RwLock::default(),
        }
    }

    /// The lease that `volume` has granted for this file.
    #[inline]
    pub(super) fn lease(&self, volume: &'static Volume) -> Option<LeaseId> {
        let lease = self.lease.load(Ordering::Acquire);
        let here = core::ptr::from_ref(volume).cast_mut();
        (lease != NO_LEASE && self.giver.load(Ordering::Acquire) == here).then_some(lease)
    }

    /// Stores a lease, and the file's length in bytes.
    pub(super) fn take_lease(&self, volume: &'static Volume, lease: LeaseId, size: u64) {
        self.size.store(size, Ordering::Relaxed);
        self.giver
            .store(core::ptr::from_ref(volume).cast_mut(), Ordering::Release);
        self.lease.store(lease, Ordering::Release);
    }

    /// Drops `lease`, unless another one has replaced it.
    pub(super) fn drop_lease(&self, lease: LeaseId) {
        let (to, order) = (NO_LEASE, Ordering::AcqRel);
        let _ = (self.lease).compare_exchange(lease, to, order, Ordering::Relaxed);
    }

    /// Notes a refused lease: the next [`REFUSED`] writes do not request one.
    pub(super) fn refused(&self) {
        self.patience.store(REFUSED, Ordering::Relaxed);
    }

    /// Whether the next write should not request a lease; counts that write.
    pub(super) fn waits(&self) -> bool {
        let left = self.patience.load(Ordering::Relaxed);
        if left > 0 {
            self.patience.store(left - 1, Ordering::Relaxed);
        }
        left > 0
    }

    /// Counts a write and notes its time.
    #[inline]
    pub(super) fn writes(&self) {
        self.written.fetch_add(1, Ordering::Relaxed);
        self.changes();
    }

    /// Notes a change of contents or length at the present time.
    #[inline]
    pub(super) fn changes(&self) {
        self.changed.store(sys::now(), Ordering::Relaxed);
    }

    /// Time of this process's latest change, in ns; 0 if there was none.
    pub(super) fn changed(&self) -> u64 {
        self.changed.load(Ordering::Relaxed)
    }

    /// Notes that the stand-in was changed at `ctime`, when this process's latest change was
    /// `changed`.
    pub(super) fn stood(&self, ctime: u64, changed: u64) {
        self.stood[0].store(ctime, Ordering::Relaxed);
        self.stood[1].store(changed, Ordering::Relaxed);
    }

    /// Snapshot of the change times.
    pub(super) fn times(&self) -> Times {
        let [at, with] = [&self.stood[0], &self.stood[1]].map(|it| it.load(Ordering::Relaxed));
        let changed = self.changed();
        Times { changed, at, with }
    }

    /// Number of writes so far.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Notes that the first `written` writes are durable.
    pub(super) fn forced(&self, written: u64) {
        self.forced.fetch_max(written, Ordering::AcqRel);
    }

    /// Handles the death of the daemon: the file is lost if it had writes that were not synced.
    pub(super) fn daemon_died(&self) {
        if self.written() != self.forced.load(Ordering::Acquire) {
            self.lost.store(true, Ordering::Release);
        }
    }

    /// Whether writes were lost with a daemon: every call on the file fails until all openings are
    /// closed.
    #[inline]
    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }
}
