//! Who wants to know what happens to contents.
//!
//! Invariant: an act is told of before it can have any effect, with the range
//! that it will change, and again when it has ended; what is told costs no time.

use crate::body::{Body, DirtyPage};
use crate::flags::Source;
use crate::types::{Ino, PAGE};
use crate::vfs::{Core, Vfs};
use std::ops::Range;
use std::rc::Rc;

/// Something that changes contents, or forces them.
#[derive(Clone, Debug)]
pub enum Act<'a> {
    /// A write; it may be cut short.
    Write {
        /// To which file.
        ino: Ino,
        /// Where.
        offset: u64,
        /// What.
        source: Source<'a>,
    },
    /// Setting the size.
    Resize {
        /// Of which file.
        ino: Ino,
        /// In bytes.
        size: u64,
    },
    /// Making a range zero, without growing the file.
    Zero {
        /// Of which file.
        ino: Ino,
        /// Which bytes.
        range: Range<u64>,
    },
    /// Having bytes of one file be in another one too, or elsewhere in the same one: all of
    /// them or none.
    Share {
        /// From which file.
        from: Ino,
        /// Which bytes.
        span: Range<u64>,
        /// To which file.
        to: Ino,
        /// Where.
        place: u64,
    },
    /// Forcing bytes of a file, and what leads to them.
    Force {
        /// Which file.
        ino: Ino,
        /// Which bytes.
        range: Range<u64>,
        /// Whether names and attributes may wait.
        data_only: bool,
    },
    /// Forcing everything.
    ForceAll,
}

/// Is told of acts.
pub trait Observer {
    /// An act begins; the number names it when it ends.
    fn begins(&self, act: &Act<'_>) -> u64;

    /// It has ended: so many bytes were written (0 for what writes none), or
    /// none if it failed, in which case it may have happened in part.
    fn ends(&self, number: u64, done: Option<u64>);

    /// What a file holds in `range` could not be written back, and is not tried again:
    /// the medium has it in part or not at all, whatever is forced later.
    fn gave_up(&self, ino: Ino, range: Range<u64>);
}

impl<B: Body> Vfs<B> {
    /// Tells `observer` of every act from now on.
    pub fn observe(&self, observer: Rc<dyn Observer>) {
        *self.core.observer.borrow_mut() = Some(observer);
    }
}

impl<B: Body> Core<B> {
    /// Tells that an act begins, if anybody wants to know.
    #[inline]
    pub(crate) fn begins<'a>(&self, act: impl FnOnce() -> Act<'a>) -> Option<u64> {
        let observer = self.observer.borrow();
        observer.as_ref().map(|observer| observer.begins(&act()))
    }

    /// Tells that it has ended.
    #[inline]
    pub(crate) fn ends(&self, number: Option<u64>, done: Option<u64>) {
        if let (Some(number), Some(observer)) = (number, &*self.observer.borrow()) {
            observer.ends(number, done);
        }
    }

    /// Tells that pages of a file could not be written back.
    pub(crate) fn gave_up(&self, ino: Ino, pages: &[DirtyPage]) {
        let Some(observer) = &*self.observer.borrow() else {
            return;
        };
        for page in pages {
            observer.gave_up(ino, page.index * PAGE..(page.index + 1) * PAGE);
        }
    }
}
