//! Open files, and the descriptors of processes that stand for them.
//!
//! Invariant: the references of an open file are the descriptors and mappings,
//! of all processes together, that stand for it; it is closed when there are
//! none left.

use super::maps::Mapping;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// A place in [`Files`], which is also the slot in the trace.
pub(super) type Slot = u32;

/// An open file.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenFile {
    /// What it was opened by.
    pub(super) path: Vec<u8>,
    /// Where the next read or write without an offset goes.
    pub(super) offset: u64,
    /// Whether every write goes to the end.
    pub(super) append: bool,
    /// Its file system and number, which tell files apart.
    pub(super) identity: (u64, u64),
    /// Descriptors and mappings of it; set by [`Files`].
    pub(super) references: u32,
}

/// Every open file.
#[derive(Default)]
pub(super) struct Files {
    files: Vec<OpenFile>,
    free: BinaryHeap<Reverse<Slot>>,
}

impl Files {
    /// The slot that the next open file takes.
    pub(super) fn next(&self) -> Slot {
        let fresh = || Slot::try_from(self.files.len()).expect("fewer than 2^32 open files");
        self.free.peek().map_or_else(fresh, |slot| slot.0)
    }

    /// A new open file with one reference.
    pub(super) fn open(&mut self, file: OpenFile) -> Slot {
        let slot = self.next();
        let file = OpenFile {
            references: 1,
            ..file
        };
        match self.free.pop() {
            Some(_) => self.files[slot as usize] = file,
            None => self.files.push(file),
        }
        slot
    }

    /// One more descriptor or mapping.
    pub(super) fn share(&mut self, slot: Slot) {
        self.files[slot as usize].references += 1;
    }

    /// One less; `true` if it was the last.
    pub(super) fn release(&mut self, slot: Slot) -> bool {
        let file = &mut self.files[slot as usize];
        file.references -= 1;
        if file.references == 0 {
            self.free.push(Reverse(slot));
        }
        file.references == 0
    }

    pub(super) fn get(&self, slot: Slot) -> &OpenFile {
        &self.files[slot as usize]
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> &mut OpenFile {
        &mut self.files[slot as usize]
    }

    /// Renames what is open at or under `from`.
    pub(super) fn renamed(&mut self, from: &[u8], to: &[u8]) {
        for file in &mut self.files {
            if super::paths::is_under(&file.path, from) {
                file.path = [to, &file.path[from.len()..]].concat();
            }
        }
    }
}

/// Descriptors and the open files that they stand for.
pub(super) type Descriptors = BTreeMap<i32, Slot>;

/// A process, over any number of programs that it ran one after another.
#[derive(Clone, Debug, Default)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) parent: Option<usize>,
    /// The system's number of its first thread.
    pub(super) first: u32,
    pub(super) descriptors: Descriptors,
    /// Descriptors from before its program started; those that are not found
    /// again were closed by that.
    pub(super) inherited: Descriptors,
    pub(super) mappings: Vec<Mapping>,
    pub(super) folder: Vec<u8>,
    pub(super) program: Vec<u8>,
    /// A program that it is about to run.
    pub(super) exec: Option<Vec<u8>>,
}

impl Process {
    /// The descriptors and mappings that a fork copies, each of them shared.
    pub(super) fn forked(&self, files: &mut Files) -> Self {
        self.descriptors
            .values()
            .for_each(|&slot| files.share(slot));
        self.mappings.iter().for_each(|it| files.share(it.slot));
        Self {
            inherited: Descriptors::new(),
            exec: None,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_free_when_nothing_refers_to_it() {
        let mut files = Files::default();
        let a = files.open(OpenFile::default());
        let b = files.open(OpenFile::default());
        files.share(a);
        assert!(!files.release(a));
        assert!(files.release(a) && files.next() == a);
        assert_eq!((files.open(OpenFile::default()), b), (a, 1));
        assert_eq!(files.next(), 2);
    }
}
