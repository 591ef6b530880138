//! The descriptor table: tells which descriptors of the program are placed files.
//!
//! Invariants: one byte per descriptor holds its kind; only placed ones need a lookup beyond it.
//! Duplicated descriptors share one [`Open`], as they share their offset.

use super::fault::Fault;
use super::files::File;
use super::gate;
use super::offset::Offset;
use super::start;
use super::volume::Volume;
use core::ffi::c_int;
use shimmer::FileId;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Message for a file that is in other zones than those of this process.
pub(super) const ELSEWHERE: &[u8] = b"a file is placed in other zones than those given";

/// Number of descriptors in the table. Files with higher descriptors are not placed.
pub(super) const ROOM: usize = 1 << 16;

const UNKNOWN: u8 = 0;
const PLAIN: u8 = 1;
const PLACED: u8 = 2;
const OURS: u8 = 3;

static KINDS: [AtomicU8; ROOM] = [const { AtomicU8::new(UNKNOWN) }; ROOM];

static FILES: RwLock<BTreeMap<c_int, Arc<Open>>> = RwLock::new(BTreeMap::new());

/// Number of descriptors that are placed files.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// An opening of a placed file, shared by its duplicated descriptors.
pub(super) struct Open {
    pub(super) file: Arc<File>,
    pub(super) offset: Offset,
    pub(super) flags: c_int,
    pub(super) append: AtomicBool,
    /// Device and inode of the stand-in.
    pub(super) inode: (u64, u64),
    /// Number of the volume that holds the file.
    pub(super) zones: u64,
    /// Whether the stand-in and its attribute are known to be durable.
    pub(super) forced: AtomicBool,
    /// The volume with which the opening is registered; null if with none yet.
    pub(super) volume: AtomicPtr<Volume>,
}

impl Open {
    pub(super) fn reads(&self) -> bool {
        self.flags & libc::O_ACCMODE != libc::O_WRONLY
    }

    pub(super) fn writes(&self) -> bool {
        self.flags & libc::O_ACCMODE != libc::O_RDONLY
    }

    /// The volume, with which the opening is registered on return. After a restart of the daemon it
    /// is registered anew, unless writes were lost.
    pub(super) fn volume(&self) -> Result<&'static Volume, Fault> {
        let volume = start::volume().ok_or(Fault::Errno(libc::EIO))?;
        if volume.number() != self.zones {
            start::complain(ELSEWHERE);
            return Err(Fault::Errno(libc::EIO));
        }
        let here = core::ptr::from_ref(volume).cast_mut();
        let before = self.volume.load(Ordering::Acquire);
        if before != here && !before.is_null() {
            self.file.daemon_died();
        }
        if self.file.is_lost() {
            return Err(Fault::Errno(libc::EIO));
        }
        if before != here {
            volume.opened(self.file.id)?;
            self.volume.store(here, Ordering::Release);
        }
        Ok(volume)
    }

    /// In a child: moves the registration from the parent's volume to the child's, or to none.
    fn inherited(&self, parent: *mut Volume, child: *mut Volume) {
        let (old, order) = (parent, Ordering::AcqRel);
        let _ = (self.volume).compare_exchange(old, child, order, Ordering::Relaxed);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let _within = gate::enter();
        let here = start::opened().map_or(core::ptr::null_mut(), |volume| {
            core::ptr::from_ref(volume).cast_mut()
        });
        if let Some(volume) = start::opened().filter(|_| *self.volume.get_mut() == here) {
            volume.closed(self.file.id);
        }
        if let Some(rules) = start::rules() {
            rules.closed(self.file.id.0);
        }
    }
}

/// Kind of a descriptor.
pub(super) enum Kind {
    /// The descriptor was not examined yet.
    Unknown,
    /// A descriptor of the program that is no placed file's.
    Plain,
    /// A placed file, with its opening.
    Placed(Arc<Open>),
    /// A descriptor of this library.
    Ours,
}

fn slot(fd: c_int) -> Option<&'static AtomicU8> {
    KINDS.get(usize::try_from(fd).ok()?)
}

fn set(fd: c_int, kind: u8) {
    if let Some(slot) = slot(fd) {
        slot.store(kind, Ordering::Release);
    }
}

#[inline]
pub(super) fn kind(fd: c_int) -> Kind {
    match slot(fd).map(|slot| slot.load(Ordering::Acquire)) {
        Some(UNKNOWN) => Kind::Unknown,
        Some(PLACED) => find(fd).map_or(Kind::Plain, Kind::Placed),
        Some(OURS) => Kind::Ours,
        _ => Kind::Plain,
    }
}

/// Whether a descriptor is known to be no placed file's.
#[inline]
pub(super) fn is_plain(fd: c_int) -> bool {
    let kind = slot(fd).map(|slot| slot.load(Ordering::Acquire));
    !matches!(kind, Some(UNKNOWN | PLACED))
}

/// Whether a descriptor is known to be a placed file's.
#[inline]
pub(super) fn is_placed(fd: c_int) -> bool {
    slot(fd).is_some_and(|slot| slot.load(Ordering::Acquire) == PLACED)
}

/// Whether a descriptor was not examined yet.
#[inline]
pub(super) fn is_unknown(fd: c_int) -> bool {
    slot(fd).is_some_and(|slot| slot.load(Ordering::Acquire) == UNKNOWN)
}

fn find(fd: c_int) -> Option<Arc<Open>> {
    let _within = gate::enter();
    let files = FILES.read().unwrap_or_else(PoisonError::into_inner);
    files.get(&fd).cloned()
}

pub(super) fn plain(fd: c_int) {
    set(fd, PLAIN);
}

/// Copies the kind of a descriptor that is not placed to a duplicate of it.
pub(super) fn as_another(copy: c_int, of: c_int) {
    match kind(of) {
        Kind::Unknown => disown(copy),
        _ => plain(copy),
    }
}

/// Marks a descriptor as plain, unless its kind was determined meanwhile.
pub(super) fn found_plain(fd: c_int) {
    let order = (Ordering::AcqRel, Ordering::Relaxed);
    slot(fd).map(|slot| slot.compare_exchange(UNKNOWN, PLAIN, order.0, order.1));
}

pub(super) fn own(fd: c_int) {
    set(fd, OURS);
}

pub(super) fn disown(fd: c_int) {
    set(fd, UNKNOWN);
}

/// Whether a descriptor is beyond the table.
pub(super) fn is_beyond(fd: c_int) -> bool {
    slot(fd).is_none()
}

pub(super) fn place(fd: c_int, open: Arc<Open>) {
    let _within = gate::enter();
    let mut files = FILES.write().unwrap_or_else(PoisonError::into_inner);
    let old = files.insert(fd, open);
    if old.is_none() {
        COUNT.fetch_add(1, Ordering::Relaxed);
    }
    set(fd, PLACED);
    drop(files);
    // Dropping the last reference sends a request to the daemon, so no lock may be held.
    drop(old);
}

/// Forgets a descriptor; returns its opening if it was a placed file.
pub(super) fn forget(fd: c_int) -> Option<Arc<Open>> {
    let was = slot(fd)?.swap(UNKNOWN, Ordering::AcqRel);
    if was != PLACED {
        return None;
    }
    let _within = gate::enter();
    let mut files = FILES.write().unwrap_or_else(PoisonError::into_inner);
    let open = files.remove(&fd)?;
    COUNT.fetch_sub(1, Ordering::Relaxed);
    Some(open)
}

/// Forgets a descriptor if it still refers to `open`.
pub(super) fn forget_opening(fd: c_int, open: Arc<Open>) {
    let _within = gate::enter();
    let mut files = FILES.write().unwrap_or_else(PoisonError::into_inner);
    let is_it = files.get(&fd).is_some_and(|it| Arc::ptr_eq(it, &open));
    let gone = if is_it { files.remove(&fd) } else { None };
    if gone.is_some() {
        COUNT.fetch_sub(1, Ordering::Relaxed);
        let order = (Ordering::AcqRel, Ordering::Relaxed);
        slot(fd).map(|slot| slot.compare_exchange(PLACED, UNKNOWN, order.0, order.1));
    }
    drop(files);
    // Dropping the last reference sends a request to the daemon, so no lock may be held.
    drop((gone, open));
}

/// Moves all offsets to the kernel.
pub(super) fn share_all() {
    for (fd, open) in all() {
        open.offset.share(fd);
    }
}

/// In a child: moves registrations from the parent's volume to the child's own.
pub(super) fn inherited(parent: *mut Volume, own: *mut Volume) {
    for (_, open) in all() {
        open.inherited(parent, own);
    }
}

/// In a child without a volume: drops registrations with the parent's volume.
pub(super) fn begins_anew(parent: *mut Volume) {
    inherited(parent, core::ptr::null_mut());
}

/// Moves the offsets of the `kept` descriptors to the kernel before another program starts.
/// `upon_a_call` is set in a handler that interrupted its own thread in here; the result is `false`
/// if the interrupted call holds the table or one of the offsets.
pub(super) fn passes_on(kept: impl Fn(c_int) -> bool, upon_a_call: bool) -> bool {
    if !upon_a_call {
        let all = all().into_iter().filter(|(fd, _)| kept(*fd));
        all.for_each(|(fd, open)| open.offset.share(fd));
        return true;
    }
    let Ok(files) = FILES.try_read() else {
        return false;
    };
    let mut all = files.iter().filter(|(fd, _)| kept(**fd));
    all.all(|(fd, open)| open.offset.share_if_free(*fd))
}

/// The first result of `work` on a placed descriptor; `None` if a thread holds the table for
/// writing. It never waits, allocates nothing and drops nothing.
pub(super) fn at_once<T>(work: impl Fn(c_int, &Open) -> Option<T>) -> Option<T> {
    let files = FILES.try_read().ok()?;
    files.iter().find_map(|(fd, open)| work(*fd, open))
}

/// The placed file that is open here and whose stand-in has this device and inode.
pub(super) fn of_inode(inode: (u64, u64)) -> Option<FileId> {
    if !has_any() {
        return None;
    }
    let _within = gate::enter();
    let files = FILES.read().unwrap_or_else(PoisonError::into_inner);
    let open = files.values().find(|open| open.inode == inode)?;
    Some(open.file.id)
}

/// Whether any descriptor is a placed file.
pub(super) fn has_any() -> bool {
    COUNT.load(Ordering::Relaxed) > 0
}

/// Every placed descriptor and its opening.
pub(super) fn all() -> Vec<(c_int, Arc<Open>)> {
    if !has_any() {
        return Vec::new();
    }
    let _within = gate::enter();
    let files = FILES.read().unwrap_or_else(PoisonError::into_inner);
    files
        .iter()
        .map(|(fd, open)| (*fd, Arc::clone(open)))
        .collect()
}

/// This library's own descriptors in a range, which a close of the range must spare.
pub(super) fn ours_within(first: u32, last: u32) -> Vec<c_int> {
    let end = (last as usize).saturating_add(1).min(ROOM);
    let kinds = KINDS.get(first as usize..end).unwrap_or_default();
    let ours = kinds
        .iter()
        .enumerate()
        .filter(|(_, kind)| kind.load(Ordering::Relaxed) == OURS);
    ours.map(|(index, _)| (first as usize + index) as c_int)
        .collect()
}

/// Forgets the kind of all plain descriptors in a range.
pub(super) fn forget_plain(first: u32, last: u32) {
    let end = (last as usize).saturating_add(1).min(ROOM);
    for kind in KINDS.get(first as usize..end).unwrap_or_default() {
        let _ = kind.compare_exchange(PLAIN, UNKNOWN, Ordering::AcqRel, Ordering::Relaxed);
    }
}
