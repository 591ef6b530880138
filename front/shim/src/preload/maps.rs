//! Mappings of files.
//!
//! Loads and stores pass through no function. When a range is synced or unmapped, and when the
//! program ends, the page table tells which of its pages were touched, and a record notes them.
//! This overstates where the kernel maps the neighbours of a page that is read, and counts whole
//! pages.

use super::log::{More, note, timed};
use super::next::hooks;
use super::{raw, watch};
use crate::wire::{Head, Op};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};
use libc::{off_t, size_t};

const PAGE: usize = 4096;

/// Address range of a watched file's mapping; the slot is free if `start` is 0.
struct Slot {
    start: AtomicUsize,
    end: AtomicUsize,
}

/// Number of slots; mappings beyond it are not tracked.
const ROOM: usize = 4096;

static SLOTS: [Slot; ROOM] = [const {
    Slot {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
    }
}; ROOM];

/// Number of slots that were ever in use.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

fn slots() -> &'static [Slot] {
    &SLOTS[..TAKEN.load(Ordering::Acquire).min(ROOM)]
}

fn take(start: usize, len: usize) {
    let end = start + len.next_multiple_of(PAGE);
    let free = |slot: &&Slot| {
        let claim = slot
            .start
            .compare_exchange(0, start, Ordering::AcqRel, Ordering::Relaxed);
        claim.is_ok()
    };
    if let Some(slot) = slots().iter().find(free) {
        return slot.end.store(end, Ordering::Release);
    }
    let next = TAKEN.fetch_add(1, Ordering::AcqRel);
    if let Some(slot) = SLOTS.get(next) {
        slot.start.store(start, Ordering::Release);
        slot.end.store(end, Ordering::Release);
    }
}

/// Calls `each` with the parts of tracked mappings in a range.
fn overlaps(start: usize, len: usize, mut each: impl FnMut(&Slot, usize, usize)) {
    let end = start.saturating_add(len.next_multiple_of(PAGE));
    for slot in slots() {
        let from = slot.start.load(Ordering::Acquire).max(start);
        let to = slot.end.load(Ordering::Acquire).min(end);
        if from < to && slot.start.load(Ordering::Acquire) != 0 {
            each(slot, from, to);
        }
    }
}

/// Removes an unmapped range from a slot. A hole in the middle also drops the part before it.
fn cut(slot: &Slot, from: usize, to: usize) {
    let (start, end) = (&slot.start, &slot.end);
    if to < end.load(Ordering::Acquire) {
        start.store(to, Ordering::Release);
    } else if from > start.load(Ordering::Acquire) {
        end.store(from, Ordering::Release);
    } else {
        end.store(0, Ordering::Release);
        start.store(0, Ordering::Release);
    }
}

/// Records the touched pages of a range, or the whole range if the page table cannot be read.
fn touched(from: usize, to: usize) {
    let path = c"/proc/self/pagemap".as_ptr() as usize;
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as usize;
    let here = libc::AT_FDCWD as usize;
    let table = raw::call(libc::SYS_openat, [here, path, flags, 0, 0, 0]);
    let Ok(table) = usize::try_from(table) else {
        return run(from, to);
    };
    let mut begin = None;
    let mut at = from;
    let mut entries = [0_u64; 256];
    while at < to {
        let pages = (to - at).div_ceil(PAGE).min(entries.len());
        let place = entries.as_mut_ptr() as usize;
        let args = [table, place, pages * 8, at / PAGE * 8, 0, 0];
        if raw::call(libc::SYS_pread64, args) != (pages * 8) as isize {
            break;
        }
        for entry in &entries[..pages] {
            // The two highest bits of an entry: present and swapped.
            match (begin, entry >> 62 != 0) {
                (None, true) => begin = Some(at),
                (Some(start), false) => {
                    run(start, at);
                    begin = None;
                }
                _ => {}
            }
            at += PAGE;
        }
    }
    if let Some(start) = begin {
        run(start, at.min(to));
    }
    raw::call(libc::SYS_close, [table, 0, 0, 0, 0, 0]);
}

fn run(from: usize, to: usize) {
    let words = (from as u64, (to - from) as u64);
    note(
        Head::new(Op::Touched).words(words.0, words.1, 0),
        &More::default(),
    );
}

fn maps(
    len: size_t,
    (protection, flags): (c_int, c_int),
    (fd, offset): (c_int, off_t),
    next: impl FnOnce() -> *mut c_void,
) -> *mut c_void {
    if fd < 0 || flags & libc::MAP_ANONYMOUS != 0 || !watch::watched(fd) {
        return next();
    }
    let head = Head::on(Op::Map, fd)
        .words(len as u64, offset as u64, protection as u64)
        .flags(flags);
    let mut place = core::ptr::null_mut();
    let call = || {
        place = next();
        if place == libc::MAP_FAILED {
            -1_isize
        } else {
            place as isize
        }
    };
    timed(head, call, |_| More::default());
    if place != libc::MAP_FAILED {
        take(place as usize, len);
    }
    place
}

fn unmaps(place: usize, len: size_t, next: impl FnOnce() -> c_int) -> c_int {
    let mut ours = false;
    raw::keeping_errno(|| {
        overlaps(place, len, |slot, from, to| {
            ours = true;
            touched(from, to);
            cut(slot, from, to);
        });
    });
    if !ours {
        return next();
    }
    let head = Head::new(Op::Unmap).words(place as u64, len as u64, 0);
    timed(head, next, |_| More::default())
}

fn syncs(place: usize, len: size_t, flags: c_int, next: impl FnOnce() -> c_int) -> c_int {
    let mut ours = false;
    raw::keeping_errno(|| {
        overlaps(place, len, |_, from, to| {
            ours = true;
            touched(from, to);
        });
    });
    if !ours {
        return next();
    }
    let head = Head::new(Op::Msync)
        .words(place as u64, len as u64, 0)
        .flags(flags);
    timed(head, next, |_| More::default())
}

fn moves(place: usize, lens: (size_t, size_t), next: impl FnOnce() -> *mut c_void) -> *mut c_void {
    let mut ours = false;
    raw::keeping_errno(|| {
        overlaps(place, lens.0.max(1), |_, from, to| {
            ours = true;
            touched(from, to);
        });
    });
    if !ours {
        return next();
    }
    let head = Head::new(Op::Remap).words(place as u64, lens.0 as u64, lens.1 as u64);
    let mut moved = core::ptr::null_mut();
    let call = || {
        moved = next();
        if moved == libc::MAP_FAILED {
            -1_isize
        } else {
            moved as isize
        }
    };
    timed(head, call, |_| More::default());
    if moved != libc::MAP_FAILED {
        overlaps(place, lens.0.max(1), cut);
        take(moved as usize, lens.1);
    }
    moved
}

/// Records the touched pages of the mappings that are left when a program ends.
extern "C" fn destructor() {
    for slot in slots() {
        let start = slot.start.load(Ordering::Acquire);
        let end = slot.end.load(Ordering::Acquire);
        if start != 0 && start < end {
            touched(start, end);
        }
    }
}

/// Entry of `.fini_array`: the dynamic linker runs it when a program ends.
#[cfg_attr(flashloom_preload, used)]
#[cfg_attr(flashloom_preload, unsafe(link_section = ".fini_array"))]
pub static DESTRUCTOR: extern "C" fn() = destructor;

hooks! {
    in flashloom_preload:
    fn [mmap mmap64](
        at: *mut c_void, len: size_t, protection: c_int, flags: c_int, fd: c_int, off: off_t
    ) -> *mut c_void, |next| maps(len, (protection, flags), (fd, off), next);
    fn [munmap](at: *mut c_void, len: size_t) -> c_int, |next| unmaps(at as usize, len, next);
    fn [msync](at: *mut c_void, len: size_t, flags: c_int) -> c_int, |next|
        syncs(at as usize, len, flags, next);
    fn [mremap](
        at: *mut c_void, old: size_t, new: size_t, flags: c_int, to: *mut c_void
    ) -> *mut c_void, |next| moves(at as usize, (old, new), next);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_cut_at_either_end_and_freed() {
        let start = 0x10_0000;
        take(start, 4 * PAGE);
        let parts = |from, len| {
            let mut found = Vec::new();
            overlaps(from, len, |_, from, to| found.push((from, to)));
            found
        };
        assert_eq!(parts(start + PAGE, 1), [(start + PAGE, start + 2 * PAGE)]);
        overlaps(start, PAGE, cut);
        overlaps(start + 3 * PAGE, PAGE, cut);
        assert_eq!(
            parts(0, 1 << 30),
            [(start + PAGE, start + 3 * PAGE)],
            "both ends are gone"
        );
        overlaps(start, 4 * PAGE, cut);
        assert_eq!(parts(0, 1 << 30), []);
    }
}
