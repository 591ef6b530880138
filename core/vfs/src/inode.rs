//! A file in use: what the cache and the body share.
//!
//! Invariant: there is one [`Face`] of a file in use, whatever its body keeps with it, and
//! however many bodies lie over each other.

use crate::types::{Attr, Ino};
use std::cell::Cell;
use std::ops::Deref;
use std::rc::Rc;
use units::Hint;
use units::{Origin, Placement};

/// What anybody may know and set of a file in use.
pub struct Face {
    /// Its number.
    pub ino: Ino,
    /// Attributes, the newest truth.
    pub attr: Cell<Attr>,
    /// How long its data are expected to live.
    pub hint: Cell<Hint>,
    /// Where the drive shall put its data, if somebody has decided that: it goes before
    /// what a body makes of the hint.
    pub handle: Cell<Option<Placement>>,
    /// Whom its data are booked under.
    pub origin: Cell<Origin>,
    /// How many calls make what was written of it durable: what is written back
    /// meanwhile, somebody waits for.
    pub forcing: Cell<u32>,
}

impl Face {
    /// Changes attributes.
    pub fn update(&self, change: impl FnOnce(&mut Attr)) {
        let mut attr = self.attr.get();
        change(&mut attr);
        self.attr.set(attr);
    }
}

/// A file in use. `P` is what its body keeps with it.
pub struct Inode<P> {
    face: Rc<Face>,
    /// The body's own.
    pub private: P,
}

impl<P> Inode<P> {
    /// An inode as it comes from the medium.
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

    /// The same file as a body over this one knows it, which keeps what `wrap` makes of
    /// the inode.
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
