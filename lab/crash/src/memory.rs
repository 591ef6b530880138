//! Memory that a history takes.
//!
//! Invariant: the result counts recorded entries, not what the allocator reserves for them, so that
//! it is a function of the history, and a run ends at its bound at the same event on every machine.

use crate::alone::Forced;
use crate::attributes::Known;
use crate::chronicle::{Change, Chronicle, Id, Key, Moment, Pending};
use crate::file::{Edit, File, Older, Part};
use crate::spans::Spans;
use std::mem::size_of;

/// Bytes of `entries` entries of type `T`.
const fn of<T>(entries: usize) -> usize {
    entries * size_of::<T>()
}

impl Chronicle {
    /// Bytes of everything that is recorded: files with their earlier contents and sizes, changes
    /// of names, and calls under way.
    #[must_use]
    pub fn memory(&self) -> u64 {
        let files: usize = self.files.values().map(File::memory).sum();
        let changes: usize = self.log.iter().map(|moment| moment.changes.len()).sum();
        let pending: usize = self.pending.values().map(Pending::memory).sum();
        let names = of::<(Key, Id)>(self.names.len()) + of::<Forced>(self.forced.len());
        let log = of::<Moment>(self.log.len()) + of::<Change>(changes);
        (files + names + log + pending) as u64
    }
}

impl File {
    fn memory(&self) -> usize {
        let contents = self.now.memory() + self.unknown.memory();
        let changed = of::<Older>(self.older.len()) + of::<Part>(self.maybe.len());
        let sizes = of::<(u64, u64)>(self.sizes.len());
        let touches = of::<usize>(self.touches.len());
        size_of::<Self>() + contents + changed + sizes + touches + self.attributes.memory()
    }
}

impl Spans {
    fn memory(&self) -> usize {
        of::<(u64, u64, u64)>(self.len())
    }
}

impl Known {
    fn memory(&self) -> usize {
        let extended = |(name, value): (&Vec<u8>, &Vec<u8>)| name.len() + value.len();
        let states = self.states();
        let extended: usize = states.flat_map(|state| &state.extended).map(extended).sum();
        of::<crate::Attributes>(self.states().count()) + extended
    }
}

impl Pending {
    fn memory(&self) -> usize {
        let parts = match self {
            Self::Edit(_, Edit::Write { parts, .. }) => parts.len(),
            _ => 0,
        };
        size_of::<Self>() + of::<Part>(parts)
    }
}
