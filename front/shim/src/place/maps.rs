//! Mappings of placed files: parts of zones, mapped block by block.
//!
//! Files are aligned to blocks in zones, so the parts of a file can be mapped side by side. The
//! daemon does not reset the zones of a mapping while it exists. Later writes are not visible in a
//! mapping. Therefore a shared mapping of a file that this process can write demotes the file
//! first: then the system keeps the mapping coherent.
//!
//! Invariants: an allocator that unmaps its own memory takes no lock here, as none of these
//! mappings is in its memory. A mapping leaves the list before it is unmapped, since another thread
//! may be given the same addresses at once.

use super::demote::{again, asked, demote, refused};
use super::fault::Fault;
use super::gate::{self, quiet};
use super::table::{self, Open};
use super::volume::{Pinned, Volume};
use crate::preload::next::hooks;
use crate::preload::raw;
use crate::sys;
use core::ffi::{c_int, c_void};
use libc::{off_t, size_t};
use shimmer::{BLOCK, Piece};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of mappings at a time: as many as the daemon lets a process pin.
const ROOM: usize = 4096;

/// Start and end addresses of all mappings, for unmaps that must take no lock; an end of 0 marks a
/// free entry.
static SPANS: [[AtomicUsize; 2]; ROOM] = [const { [const { AtomicUsize::new(0) }; 2] }; ROOM];

/// Number of entries of [`SPANS`] that were ever in use.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// An entry of [`SPANS`], freed on drop.
struct Span(&'static [AtomicUsize; 2]);

impl Span {
    fn new(start: usize, end: usize) -> Option<Self> {
        let free = |span: &&[AtomicUsize; 2]| {
            let order = (Ordering::AcqRel, Ordering::Relaxed);
            // An end of 1 reserves the entry and describes an empty range.
            let taken = span[1].compare_exchange(0, 1, order.0, order.1);
            taken.is_ok()
        };
        let at = SPANS.iter().position(|span| free(&span))?;
        TAKEN.fetch_max(at + 1, Ordering::AcqRel);
        SPANS[at][0].store(start, Ordering::Release);
        SPANS[at][1].store(end, Ordering::Release);
        Some(Self(&SPANS[at]))
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        self.0[1].store(0, Ordering::Release);
    }
}

/// Whether any mapping lies as a whole in an address range.
fn any_within(start: usize, end: usize) -> bool {
    let taken = &SPANS[..TAKEN.load(Ordering::Acquire)];
    taken.iter().any(|span| {
        let [from, to] = [&span[0], &span[1]].map(|it| it.load(Ordering::Acquire));
        to > from && start <= from && to <= end
    })
}

/// A mapping, and the pin that keeps its zones from being reset.
struct Mapping {
    start: usize,
    len: usize,
    _span: Span,
    pinned: Pinned,
    /// The volume that holds the pin; `None` in a child without a connection of its own.
    volume: Option<&'static Volume>,
    behind: List,
}

type List = Option<Box<Mapping>>;

static MAPPINGS: Mutex<List> = Mutex::new(None);

fn mappings() -> MutexGuard<'static, List> {
    MAPPINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts a mapping at the head of a list.
fn add(all: &mut List, mut mapping: Box<Mapping>) {
    mapping.behind = all.take();
    *all = Some(mapping);
}

/// Removes from a list the mappings that lie as a whole in an address range, and returns them.
fn take(mut all: &mut List, start: usize, end: usize) -> List {
    let mut gone = None;
    while let Some(mut mapping) = all.take() {
        if start <= mapping.start && mapping.start + mapping.len <= end {
            *all = mapping.behind.take();
            add(&mut gone, mapping);
        } else {
            all = &mut all.insert(mapping).behind;
        }
    }
    gone
}

/// The parts of a file's pieces from `offset` on, at most `len` bytes.
fn cut(all: &[Piece], offset: u64, len: u64) -> Vec<Piece> {
    let mut at = 0;
    let mut pieces = Vec::new();
    for piece in all {
        let (from, to) = (
            at.max(offset),
            (at + piece.len).min(offset.saturating_add(len)),
        );
        if from < to {
            let start = piece.at + (from - at);
            pieces.push(Piece {
                at: start,
                len: to - from,
                ..*piece
            });
        }
        at += piece.len;
    }
    pieces
}

fn maps(
    (at, len): (usize, size_t),
    (protection, flags): (c_int, c_int),
    (fd, offset): (c_int, off_t),
    next: impl FnOnce() -> *mut c_void,
) -> *mut c_void {
    if fd < 0 || flags & libc::MAP_ANONYMOUS != 0 {
        return next();
    }
    let open = match asked(fd) {
        Ok(Some(open)) => open,
        Ok(None) => return next(),
        Err(errno) => return failed(errno),
    };
    let shared = flags & libc::MAP_TYPE != libc::MAP_PRIVATE;
    if shared && is_written(&open) {
        return match raw::keeping_errno(|| quiet(|| again(|| demote(fd, &open)))) {
            Ok(()) => next(),
            Err(Fault::Errno(errno)) => failed(errno),
            Err(Fault::Gone | Fault::Demote | Fault::Lost) => failed(libc::EIO),
        };
    }
    let aligned = (offset as u64).is_multiple_of(BLOCK) && offset >= 0 && len > 0;
    if !aligned || !open.reads() {
        return failed(if aligned { libc::EACCES } else { libc::EINVAL });
    }
    let map = || {
        let volume = open.volume()?;
        let pinned = volume.pin(&open.file)?;
        map_parts(
            volume,
            pinned,
            (at, len),
            (protection, flags),
            offset as u64,
        )
    };
    match raw::keeping_errno(|| quiet(|| again(map))) {
        Ok(place) => place as *mut c_void,
        Err(Fault::Errno(errno)) => failed(errno),
        Err(Fault::Gone | Fault::Demote | Fault::Lost) => failed(libc::EIO),
    }
}

/// Whether this process may write to a file, by this descriptor or another one.
fn is_written(open: &Open) -> bool {
    let writes = |(_, other): (_, Arc<Open>)| other.writes() && other.file.id == open.file.id;
    open.writes() || quiet(table::all).into_iter().any(writes)
}

fn failed(errno: c_int) -> *mut c_void {
    let null: *mut c_void = refused(errno);
    debug_assert!(null.is_null());
    libc::MAP_FAILED
}

/// Maps parts side by side over a reserved range. Access behind the end of the file faults.
fn map_parts(
    volume: &'static Volume,
    pinned: Pinned,
    (at, len): (usize, usize),
    (protection, flags): (c_int, c_int),
    offset: u64,
) -> Result<usize, Fault> {
    let pieces = cut(
        &pinned.pieces,
        offset,
        len.next_multiple_of(BLOCK as usize) as u64,
    );
    let place = flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE);
    let empty = (
        libc::PROT_NONE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | place,
    );
    let start = match sys::map(at, len, empty, (-1, 0)) {
        Ok(start) => start,
        Err(errno) => {
            volume.unpin(&pinned);
            return Err(errno.into());
        }
    };
    let how = (
        protection,
        flags & !libc::MAP_FIXED_NOREPLACE | libc::MAP_FIXED,
    );
    let mut reached = start;
    for piece in pieces {
        let zone = volume.zones.get(piece.zone);
        let mapped = zone.and_then(|fd| sys::map(reached, piece.len as usize, how, (fd, piece.at)));
        if let Err(errno) = mapped {
            sys::unmap(start, len);
            volume.unpin(&pinned);
            return Err(errno.into());
        }
        reached += piece.len as usize;
    }
    let Some(span) = Span::new(start, start + len) else {
        sys::unmap(start, len);
        volume.unpin(&pinned);
        return Err(Fault::Errno(libc::ENOMEM));
    };
    let mapping = Box::new(Mapping {
        start,
        len,
        _span: span,
        pinned,
        volume: Some(volume),
        behind: None,
    });
    add(&mut mappings(), mapping);
    Ok(start)
}

/// `munmap`: unmaps, and releases the pins of mappings that are unmapped as a whole.
fn unmaps(start: usize, len: size_t, next: impl FnOnce() -> c_int) -> c_int {
    // The kernel unmaps whole pages.
    let end = start.saturating_add(len).saturating_add(BLOCK as usize - 1) & !(BLOCK as usize - 1);
    if gate::is_inside() || !any_within(start, end) {
        return next();
    }
    let gone = raw::keeping_errno(|| quiet(|| take(&mut mappings(), start, end)));
    let done = next();
    if gone.is_some() {
        raw::keeping_errno(|| quiet(|| let_go(gone, done == 0)));
    }
    done
}

/// Releases the pins of mappings that are gone; puts them back in the list if they were not
/// unmapped.
fn let_go(mut gone: List, unmapped: bool) {
    while let Some(mut mapping) = gone {
        gone = mapping.behind.take();
        match unmapped {
            true => {
                let pinned = &mapping.pinned;
                mapping.volume.inspect(|volume| volume.unpin(pinned));
            }
            false => add(&mut mappings(), mapping),
        }
    }
}

/// In a child: the pins made through the parent's connection belong to the child's own.
pub(super) fn inherited(parent: *const Volume, own: Option<&'static Volume>) {
    let mut all = mappings();
    let mut at = &mut *all;
    while let Some(mapping) = at {
        if mapping.volume.is_some_and(|of| core::ptr::eq(of, parent)) {
            mapping.volume = own;
        }
        at = &mut mapping.behind;
    }
}

hooks! {
    in flashloom_place:
    fn [mmap mmap64](
        at: *mut c_void, len: size_t, protection: c_int, flags: c_int, fd: c_int, off: off_t
    ) -> *mut c_void, |next| maps((at as usize, len), (protection, flags), (fd, off), next);
    fn [munmap](at: *mut c_void, len: size_t) -> c_int, |next| unmaps(at as usize, len, next);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_of_a_file_is_cut_from_its_pieces() {
        let piece = |zone, at, len| Piece {
            zone,
            at: at * BLOCK,
            len: len * BLOCK,
        };
        let parts = [piece(2, 5, 3), piece(4, 0, 2)];
        let all = cut(&parts, 0, u64::MAX);
        assert_eq!(all, [piece(2, 5, 3), piece(4, 0, 2)]);
        assert_eq!(
            cut(&parts, 2 * BLOCK, 2 * BLOCK),
            [piece(2, 7, 1), piece(4, 0, 1)]
        );
        assert_eq!(cut(&parts, 5 * BLOCK, BLOCK), []);
    }
}
