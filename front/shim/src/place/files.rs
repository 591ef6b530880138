//! Placed files that this process has open, each once, however often it is open.

use super::volume::Volume;
use crate::share::memory::LeaseId;
use crate::share::message::NO_LEASE;
use crate::sys;
use core::ptr::null_mut;
use shimmer::{FileId, Piece};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

/// Writes that are not by the ring, after a lease was refused, before it is asked for again.
const REFUSED: u32 = 64;

/// A placed file, as this process knows it.
pub(super) struct File {
    pub(super) id: FileId,
    /// The lease by which it is written, and the volume that gave it.
    lease: AtomicU64,
    giver: AtomicPtr<Volume>,
    /// Its length while there is a lease.
    pub(super) size: AtomicU64,
    /// One asks for a lease at a time.
    pub(super) asking: Mutex<()>,
    /// Writes for which no lease is asked for.
    pub(super) patience: AtomicU32,
    /// How often it was written to, and how much of that was forced.
    written: AtomicU64,
    forced: AtomicU64,
    /// When this process last changed it, in ns; 0 if it has not.
    changed: AtomicU64,
    /// When what stands for it was changed, as last known, and how far this process had
    /// changed the file by then.
    stood: [AtomicU64; 2],
    /// The daemon has died with something that was not forced.
    lost: AtomicBool,
    pub(super) map: RwLock<Map>,
}

/// Where a file is in zones.
#[derive(Default)]
pub(super) struct Map {
    /// The volume that said so.
    pub(super) of: usize,
    pub(super) generation: u64,
    /// Bytes of the file that are there.
    pub(super) stored: u64,
    /// Where each piece begins in the file, and in which zone.
    pub(super) pieces: Vec<(u64, Piece)>,
}

static FILES: Mutex<BTreeMap<FileId, Weak<File>>> = Mutex::new(BTreeMap::new());

/// The file of a number.
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

/// One of which nothing is known: whatever is asked of it fails.
pub(super) fn stranger() -> Arc<File> {
    let file = File::new(FileId(u64::MAX));
    file.lost.store(true, Ordering::Release);
    Arc::new(file)
}

/// When a file was changed: by this process, and when what stands for it was, with how much of
/// that.
#[derive(Clone, Copy)]
pub(super) struct Times {
    changed: u64,
    at: u64,
    with: u64,
}

impl Times {
    /// When it was changed, if this process has done so after what stands for it was changed
    /// at `ctime`: then nobody has said another time since. Clocks of calls are coarse, so
    /// what is known to have been before is not asked of them.
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

    /// The lease that a volume has given.
    #[inline]
    pub(super) fn lease(&self, volume: &'static Volume) -> Option<LeaseId> {
        let lease = self.lease.load(Ordering::Acquire);
        let here = core::ptr::from_ref(volume).cast_mut();
        (lease != NO_LEASE && self.giver.load(Ordering::Acquire) == here).then_some(lease)
    }

    /// Notes a lease, and how long the file is.
    pub(super) fn take_lease(&self, volume: &'static Volume, lease: LeaseId, size: u64) {
        self.size.store(size, Ordering::Relaxed);
        self.giver
            .store(core::ptr::from_ref(volume).cast_mut(), Ordering::Release);
        self.lease.store(lease, Ordering::Release);
    }

    /// Forgets the lease.
    pub(super) fn drop_lease(&self, lease: LeaseId) {
        let (to, order) = (NO_LEASE, Ordering::AcqRel);
        let _ = (self.lease).compare_exchange(lease, to, order, Ordering::Relaxed);
    }

    /// No lease was given.
    pub(super) fn refused(&self) {
        self.patience.store(REFUSED, Ordering::Relaxed);
    }

    /// Whether a lease should not be asked for now.
    pub(super) fn waits(&self) -> bool {
        let left = self.patience.load(Ordering::Relaxed);
        if left > 0 {
            self.patience.store(left - 1, Ordering::Relaxed);
        }
        left > 0
    }

    /// It is written to.
    #[inline]
    pub(super) fn writes(&self) {
        self.written.fetch_add(1, Ordering::Relaxed);
        self.changes();
    }

    /// It is written to, or cut.
    #[inline]
    pub(super) fn changes(&self) {
        self.changed.store(sys::now(), Ordering::Relaxed);
    }

    /// When this process last changed it, in ns; 0 if it has not.
    pub(super) fn changed(&self) -> u64 {
        self.changed.load(Ordering::Relaxed)
    }

    /// What stands for it was changed at `ctime`, with what this process had `changed`.
    pub(super) fn stood(&self, ctime: u64, changed: u64) {
        self.stood[0].store(ctime, Ordering::Relaxed);
        self.stood[1].store(changed, Ordering::Relaxed);
    }

    /// When it was changed, as this process knows it now.
    pub(super) fn times(&self) -> Times {
        let [at, with] = [&self.stood[0], &self.stood[1]].map(|it| it.load(Ordering::Relaxed));
        let changed = self.changed();
        Times { changed, at, with }
    }

    /// How often it was written to.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// As often as this is durable.
    pub(super) fn forced(&self, written: u64) {
        self.forced.fetch_max(written, Ordering::AcqRel);
    }

    /// The daemon has died, which may have had something that was not forced.
    pub(super) fn daemon_died(&self) {
        if self.written() != self.forced.load(Ordering::Acquire) {
            self.lost.store(true, Ordering::Release);
        }
    }

    /// Whether something was lost: nothing is done with the file then until all have
    /// closed it.
    #[inline]
    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }
}
