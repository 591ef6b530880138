//! Open files, and the descriptors of processes that refer to them.
//!
//! Invariant: the reference count of an open file is the number of descriptors and mappings of it
//! in all processes together; it is closed when the count reaches zero.

use super::maps::Mapping;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// An index in [`Files`], which is also the slot in the trace.
pub(super) type Slot = u32;

/// An open file of the recorded system.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenFile {
    /// The path by which it was opened, or its new path if it was renamed since.
    pub(super) path: Vec<u8>,
    /// Offset in bytes of the next read or write without an explicit one.
    pub(super) offset: u64,
    /// Whether every write goes to the end of the file.
    pub(super) append: bool,
    /// Device and inode, which tell files apart.
    pub(super) identity: (u64, u64),
    /// Number of descriptors and mappings of the file; set by [`Files`].
    pub(super) references: u32,
}

/// Every open file, by slot; freed slots are reused, lowest first.
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

    /// Adds an open file with one reference and returns its slot.
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

    /// Counts one more descriptor or mapping.
    pub(super) fn share(&mut self, slot: Slot) {
        self.files[slot as usize].references += 1;
    }

    /// Drops one reference; returns `true`, with the slot free again, if it was the last.
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

    /// Updates the paths of files that are open at or under `from`.
    pub(super) fn renamed(&mut self, from: &[u8], to: &[u8]) {
        for file in &mut self.files {
            if super::paths::is_under(&file.path, from) {
                file.path = [to, &file.path[from.len()..]].concat();
            }
        }
    }
}

/// Open descriptors of a process, and the slots of their open files.
pub(super) type Descriptors = BTreeMap<i32, Slot>;

/// A process, across all programs that it executes one after another.
#[derive(Clone, Debug, Default)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) parent: Option<usize>,
    /// Thread ID of the process's first thread.
    pub(super) first: u32,
    pub(super) descriptors: Descriptors,
    /// Descriptors from before the current program started. Those that are not found open again
    /// were closed by `exec`.
    pub(super) inherited: Descriptors,
    pub(super) mappings: Vec<Mapping>,
    pub(super) folder: Vec<u8>,
    pub(super) program: Vec<u8>,
    /// The program that an `exec` in progress is about to run.
    pub(super) exec: Option<Vec<u8>>,
}

impl Process {
    /// The child after a fork: a copy of descriptors and mappings, each of which shares its open
    /// file.
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
    fn slot_is_free_once_unreferenced() {
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
