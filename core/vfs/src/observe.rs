//! Observers of changes of file contents.
//!
//! Invariant: an act is announced before it can have any effect, with the range that it will
//! change, and again when it has ended. Observers take no virtual time.

use crate::body::{Body, DirtyPage};
use crate::flags::Source;
use crate::types::{Ino, PAGE};
use crate::vfs::{Core, Vfs};
use std::ops::Range;
use std::rc::Rc;

/// A change of file contents, or a force.
#[derive(Clone, Debug)]
pub enum Act<'a> {
    /// A write to a file; it may end short.
    Write {
        /// Inode number of the file.
        ino: Ino,
        /// Offset of the first byte.
        offset: u64,
        /// Bytes to be written.
        source: Source<'a>,
    },
    /// A change of the size of a file.
    Resize {
        /// Inode number of the file.
        ino: Ino,
        /// New size in bytes.
        size: u64,
    },
    /// Zeroing of a range, without growing the file.
    Zero {
        /// Inode number of the file.
        ino: Ino,
        /// Bytes to be zeroed.
        range: Range<u64>,
    },
    /// Sharing of bytes between two files, or two places of one file: all of the bytes or none.
    Share {
        /// Inode number of the source.
        from: Ino,
        /// Bytes of the source.
        span: Range<u64>,
        /// Inode number of the target.
        to: Ino,
        /// Offset in the target.
        place: u64,
    },
    /// Force of bytes of a file, and of the metadata that lead to them.
    Force {
        /// Inode number of the file.
        ino: Ino,
        /// Bytes to be forced.
        range: Range<u64>,
        /// Whether names and attributes may stay volatile.
        data_only: bool,
    },
    /// Force of the whole file system.
    ForceAll,
}

/// Receiver of the acts of a mount.
pub trait Observer {
    /// Called before an act; returns a number that names the act in [`Observer::ends`].
    fn begins(&self, act: &Act<'_>) -> u64;

    /// Called after an act: `done` is the number of bytes written (0 for acts that write none), or
    /// `None` if the act failed and may have happened in part.
    fn ends(&self, number: u64, done: Option<u64>);

    /// Called after a failed write-back of `range`, which is not retried: the medium may hold the
    /// range in part or not at all, whatever is forced later.
    fn gave_up(&self, ino: Ino, range: Range<u64>);
}

impl<B: Body> Vfs<B> {
    /// Reports every act to `observer` from now on.
    pub fn observe(&self, observer: Rc<dyn Observer>) {
        *self.core.observer.borrow_mut() = Some(observer);
    }
}

impl<B: Body> Core<B> {
    /// Reports that an act begins; `None` without an observer.
    #[inline]
    pub(crate) fn begins<'a>(&self, act: impl FnOnce() -> Act<'a>) -> Option<u64> {
        let observer = self.observer.borrow();
        observer.as_ref().map(|observer| observer.begins(&act()))
    }

    /// Reports that the act of `begins` has ended.
    #[inline]
    pub(crate) fn ends(&self, number: Option<u64>, done: Option<u64>) {
        if let (Some(number), Some(observer)) = (number, &*self.observer.borrow()) {
            observer.ends(number, done);
        }
    }

    /// Reports that pages of a file could not be written back.
    pub(crate) fn gave_up(&self, ino: Ino, pages: &[DirtyPage]) {
        let Some(observer) = &*self.observer.borrow() else {
            return;
        };
        for page in pages {
            observer.gave_up(ino, page.index * PAGE..(page.index + 1) * PAGE);
        }
    }
}
