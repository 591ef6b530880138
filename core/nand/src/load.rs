//! Load of the dies, from which firmware estimates the latency of a read.
//!
//! Invariant: an operation counts from its arrival until it has ended.

use crate::device::Nand;
use std::cell::Cell;

/// Numbers of operations that have arrived and not ended, including those in service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Number of reads; a multi-plane read counts once.
    pub reads: u32,
    /// Number of programs and copybacks.
    pub programs: u32,
    /// Number of erases; a multi-plane erase counts once.
    pub erases: u32,
}

impl Load {
    /// Sum of the two loads.
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

/// Load by die number.
pub(crate) struct Loads(Vec<Cell<Load>>);

impl Loads {
    pub(crate) fn new(dies: u32) -> Self {
        Self((0..dies).map(|_| Cell::default()).collect())
    }

    /// Counts an operation until [`Loads::end`].
    #[inline]
    pub(crate) fn begin(&self, die: u32, kind: Kind) {
        self.change(die, kind, |count| count + 1);
    }

    #[inline]
    pub(crate) fn end(&self, die: u32, kind: Kind) {
        self.change(die, kind, |count| count - 1);
    }

    fn change(&self, die: u32, kind: Kind, by: impl FnOnce(u32) -> u32) {
        let load = &self.0[die as usize];
        let mut now = load.get();
        let count = now.of(kind);
        *count = by(*count);
        load.set(now);
    }
}

impl Nand {
    /// Operations that wait at `die` or are in service there.
    ///
    /// # Panics
    /// If `die` does not exist.
    #[must_use]
    pub fn die_load(&self, die: u32) -> Load {
        self.loads().0[die as usize].get()
    }

    /// Sum of the loads of all dies of `channel`.
    #[must_use]
    pub fn channel_load(&self, channel: u32) -> Load {
        let dies = self.loads().0.iter().skip(channel as usize);
        let dies = dies.step_by(self.geometry().channels as usize);
        dies.fold(Load::default(), |sum, die| sum.and(die.get()))
    }
}
