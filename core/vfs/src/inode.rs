//! An inode in memory: the state shared by the cache and the body.
//!
//! Invariant: a file in use has one [`Face`], whatever its body keeps with it, and however many
//! bodies are stacked.

use crate::types::{Attr, Ino};
use std::cell::Cell;
use std::ops::Deref;
use std::rc::Rc;
use units::Hint;
use units::{Origin, Placement};

/// State of a file in use that every layer may read and set.
pub struct Face {
    /// Number of the inode.
    pub ino: Ino,
    /// Current attributes; the copy on the medium may be older.
    pub attr: Cell<Attr>,
    /// Expected lifetime of the data, set by the program.
    pub hint: Cell<Hint>,
    /// Placement that a program or layer chose for the data on the drive; it overrides the
    /// placement that a body derives from the hint. `None` leaves the choice to the body.
    pub handle: Cell<Option<Placement>>,
    /// Origin (process or file) to which requests for the data are attributed.
    pub origin: Cell<Origin>,
    /// Calls that are making written data of this file durable; while it is not 0, a caller waits
    /// for the write-back.
    pub forcing: Cell<u32>,
}

impl Face {
    /// Applies `change` to the attributes.
    pub fn update(&self, change: impl FnOnce(&mut Attr)) {
        let mut attr = self.attr.get();
        change(&mut attr);
        self.attr.set(attr);
    }
}

/// A file in use. `P` is the private state of its body.
pub struct Inode<P> {
    face: Rc<Face>,
    /// State private to the body.
    pub private: P,
}

impl<P> Inode<P> {
    /// An inode with default hint, placement and origin.
    pub fn new(ino: Ino, attr: Attr, private: P) -> Self {
        let face = Face {
            ino,
            attr: Cell::new(attr),
            hint: Cell::new(Hint::NotSet),
            handle: Cell::new(None),
            origin: Cell::new(Origin(0)),
            forcing: Cell::new(0),
        };
        let face = Rc::new(face);
        Self { face, private }
    }

    /// The same file for a body stacked over this one: shares the [`Face`], and keeps the inode as
    /// part of the private state that `wrap` returns.
    pub fn within<Q>(self, wrap: impl FnOnce(Self) -> Q) -> Inode<Q> {
        let face = Rc::clone(&self.face);
        let private = wrap(self);
        Inode { face, private }
    }
}

impl<P> Deref for Inode<P> {
    type Target = Face;

    fn deref(&self) -> &Face {
        &self.face
    }
}
