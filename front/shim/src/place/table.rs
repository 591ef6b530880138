//! Descriptors of the program: which of them are placed files.
//!
//! Invariants: one byte says what a descriptor is; only those that are placed are looked
//! up any further. Descriptors that were copied share what is known, as they share their
//! offset.

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

/// What is said of a file that is not in the zones of this process.
pub(super) const ELSEWHERE: &[u8] = b"a file is placed in other zones than those given";

/// Descriptors that are told apart. Files that are opened above are not placed.
pub(super) const ROOM: usize = 1 << 16;

const UNKNOWN: u8 = 0;
const PLAIN: u8 = 1;
const PLACED: u8 = 2;
const OURS: u8 = 3;

static KINDS: [AtomicU8; ROOM] = [const { AtomicU8::new(UNKNOWN) }; ROOM];

static FILES: RwLock<BTreeMap<c_int, Arc<Open>>> = RwLock::new(BTreeMap::new());

/// How many descriptors are placed.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// An opening of a placed file.
pub(super) struct Open {
    pub(super) file: Arc<File>,
    pub(super) offset: Offset,
    pub(super) flags: c_int,
    pub(super) append: AtomicBool,
    /// Device and inode of the file that stands for it.
    pub(super) inode: (u64, u64),
    /// The number of the volume in which the file is.
    pub(super) zones: u64,
    /// Whether that file and its attribute are known to be durable.
    pub(super) forced: AtomicBool,
    /// The volume in which it was opened; null if in none yet.
    pub(super) volume: AtomicPtr<Volume>,
}

impl Open {
    pub(super) fn reads(&self) -> bool {
        self.flags & libc::O_ACCMODE != libc::O_WRONLY
    }

    pub(super) fn writes(&self) -> bool {
        self.flags & libc::O_ACCMODE != libc::O_RDONLY
    }

    /// The volume, in which it is open after this. With another daemon than before it is
    /// opened anew, unless something was lost.
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

    /// A child has it open as its parent has, in a volume of its own, or in none yet.
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

/// What a descriptor is.
pub(super) enum Kind {
    /// Nobody has looked.
    Unknown,
    /// The program's, and none of our business.
    Plain,
    /// A placed file.
    Placed(Arc<Open>),
    /// Of this library.
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

/// Whether nobody has looked at a descriptor yet.
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

/// What is known of a copy of one that is not placed is what is known of that.
pub(super) fn as_another(copy: c_int, of: c_int) {
    match kind(of) {
        Kind::Unknown => disown(copy),
        _ => plain(copy),
    }
}

/// A descriptor at which nobody had looked is the program's.
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

/// Whether a descriptor above those that are told apart was given.
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
    // The last one asks the daemon.
    drop(old);
}

/// Forgets a descriptor; gives the file that it was.
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

/// Forgets a descriptor if it is still that of an opening.
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
    // The last one asks the daemon.
    drop((gone, open));
}

/// All offsets are the kernel's from now on.
pub(super) fn share_all() {
    for (fd, open) in all() {
        open.offset.share(fd);
    }
}

/// In a child: what was open in the volume of its parent is open in its own.
pub(super) fn inherited(parent: *mut Volume, own: *mut Volume) {
    for (_, open) in all() {
        open.inherited(parent, own);
    }
}

/// What was open in the volume of a process from which this one was forked is open in none.
pub(super) fn begins_anew(parent: *mut Volume) {
    inherited(parent, core::ptr::null_mut());
}

/// A program is about to begin that has those of what is open here that are `kept`. Whether
/// all offsets are passed on: one may be held by a call upon which this has come, if it has come
/// `upon_a_call`.
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

/// The first thing that `work` gives for what is placed; nothing if somebody changes that.
/// Nobody is waited for, nothing is allocated, and nothing is let go.
pub(super) fn at_once<T>(work: impl Fn(c_int, &Open) -> Option<T>) -> Option<T> {
    let files = FILES.try_read().ok()?;
    files.iter().find_map(|(fd, open)| work(*fd, open))
}

/// The placed file that is open here, and for which this file stands.
pub(super) fn of_inode(inode: (u64, u64)) -> Option<FileId> {
    if !has_any() {
        return None;
    }
    let _within = gate::enter();
    let files = FILES.read().unwrap_or_else(PoisonError::into_inner);
    let open = files.values().find(|open| open.inode == inode)?;
    Some(open.file.id)
}

/// Whether anything is placed.
pub(super) fn has_any() -> bool {
    COUNT.load(Ordering::Relaxed) > 0
}

/// All that is placed.
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

/// The descriptors of a range that are placed or unknown no more after this; and those of
/// this library within it, which the range must not close.
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

/// Forgets what is plain in a range.
pub(super) fn forget_plain(first: u32, last: u32) {
    let end = (last as usize).saturating_add(1).min(ROOM);
    for kind in KINDS.get(first as usize..end).unwrap_or_default() {
        let _ = kind.compare_exchange(PLAIN, UNKNOWN, Ordering::AcqRel, Ordering::Relaxed);
    }
}
