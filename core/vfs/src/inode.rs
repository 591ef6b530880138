//! A file in use: what the cache and the body share.

use crate::types::{Attr, Hint, Ino};
use std::cell::Cell;
use units::{Origin, Placement};

/// A file in use. `P` is what its body keeps with it.
pub struct Inode<P> {
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
    /// The body's own.
    pub private: P,
}

impl<P> Inode<P> {
    /// An inode in memory.
    pub const fn new(ino: Ino, attr: Attr, private: P) -> Self {
        Self {
            ino,
            attr: Cell::new(attr),
            hint: Cell::new(Hint::NotSet),
            handle: Cell::new(None),
            origin: Cell::new(Origin(0)),
            forcing: Cell::new(0),
            private,
        }
    }

    /// Changes attributes.
    pub fn update(&self, change: impl FnOnce(&mut Attr)) {
        let mut attr = self.attr.get();
        change(&mut attr);
        self.attr.set(attr);
    }
}
