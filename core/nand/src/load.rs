//! What waits at the dies, to look at: firmware that estimates how long a read will
//! take asks for it.
//!
//! Invariant: an operation counts from its arrival until it has ended or is given up.

use crate::device::Nand;
use std::cell::Cell;

/// Operations that have arrived and not ended, those in service included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Reads, of any number of planes.
    pub reads: u32,
    /// Programs.
    pub programs: u32,
    /// Erases.
    pub erases: u32,
}

impl Load {
    /// Both together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            reads: self.reads + other.reads,
            programs: self.programs + other.programs,
            erases: self.erases + other.erases,
        }
    }

    fn of(&mut self, kind: Kind) -> &mut u32 {
        match kind {
            Kind::Read => &mut self.reads,
            Kind::Program => &mut self.programs,
            Kind::Erase => &mut self.erases,
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Read,
    Program,
    Erase,
}

/// The load of each die.
pub(crate) struct Loads(Vec<Cell<Load>>);

impl Loads {
    pub(crate) fn new(dies: u32) -> Self {
        Self((0..dies).map(|_| Cell::default()).collect())
    }

    /// Counts an operation until the result is dropped.
    pub(crate) fn begin(&self, die: u32, kind: Kind) -> Counted<'_> {
        let load = &self.0[die as usize];
        change(load, kind, |count| count + 1);
        Counted { load, kind }
    }
}

fn change(load: &Cell<Load>, kind: Kind, by: impl FnOnce(u32) -> u32) {
    let mut now = load.get();
    let count = now.of(kind);
    *count = by(*count);
    load.set(now);
}

/// An operation that is counted.
pub(crate) struct Counted<'a> {
    load: &'a Cell<Load>,
    kind: Kind,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        change(self.load, self.kind, |count| count - 1);
    }
}

impl Nand {
    /// What waits at a die.
    ///
    /// # Panics
    /// If there is no such die.
    #[must_use]
    pub fn die_load(&self, die: u32) -> Load {
        self.loads().0[die as usize].get()
    }

    /// What waits at all dies of a channel.
    #[must_use]
    pub fn channel_load(&self, channel: u32) -> Load {
        let dies = self.loads().0.iter().skip(channel as usize);
        let dies = dies.step_by(self.geometry().channels as usize);
        dies.fold(Load::default(), |sum, die| sum.and(die.get()))
    }
}
