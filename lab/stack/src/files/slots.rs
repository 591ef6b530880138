//! Open files by the slots that workloads name, and the patterns written to them.
//!
//! Invariant: a slot in use refers to a descriptor of the process that opened it; descriptors that
//! were shared in a recording share a slot too.

use std::rc::Rc;
use vfs::{Body, Fd, Process, Source};
use workload::files::Name;

/// The pattern of the `version`-th write, from 1, at `at` of the file that was opened as `file`:
/// `SplitMix64` over the three. Initial contents are version 0.
#[must_use]
pub fn tag(file: Name, at: u64, version: u32) -> u64 {
    let z = u64::from(file.0) << 32 | u64::from(version);
    sim::mix(z.wrapping_add(at.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

/// An open file in a slot.
pub(crate) struct Open<B: Body> {
    pub(crate) process: Rc<Process<B>>,
    pub(crate) fd: Fd,
    /// Path by which the file was opened.
    pub(crate) file: Name,
}

impl<B: Body> Clone for Open<B> {
    fn clone(&self) -> Self {
        Self {
            process: Rc::clone(&self.process),
            ..*self
        }
    }
}

/// All slots, and the number of writes to each file.
pub(crate) struct Slots<B: Body> {
    open: Vec<Option<Open<B>>>,
    versions: Vec<u32>,
}

impl<B: Body> Default for Slots<B> {
    fn default() -> Self {
        Self {
            open: Vec::new(),
            versions: Vec::new(),
        }
    }
}

/// Largest number of slots, which bounds the memory that a hostile recording can take.
const MOST: u32 = 1 << 24;

impl<B: Body> Slots<B> {
    pub(crate) fn get(&self, slot: workload::files::Fd) -> Option<Open<B>> {
        self.open.get(slot.0 as usize)?.clone()
    }

    /// Puts `open` into a slot; returns it as an error if the slot is taken or out of range.
    pub(crate) fn put(&mut self, slot: workload::files::Fd, open: Open<B>) -> Result<(), Open<B>> {
        let at = slot.0 as usize;
        if slot.0 >= MOST {
            return Err(open);
        }
        if at >= self.open.len() {
            self.open.resize_with(at + 1, || None);
        }
        match &mut self.open[at] {
            Some(_) => Err(open),
            free => {
                *free = Some(open);
                Ok(())
            }
        }
    }

    pub(crate) fn take(&mut self, slot: workload::files::Fd) -> Option<Open<B>> {
        self.open.get_mut(slot.0 as usize)?.take()
    }

    /// The next version of `len` bytes at `at` of `file`.
    pub(crate) fn next_data(&mut self, file: Name, at: u64, len: u64) -> Source<'static> {
        let index = file.0 as usize;
        if index >= self.versions.len() {
            self.versions.resize(index + 1, 0);
        }
        self.versions[index] = self.versions[index].wrapping_add(1);
        let pattern = tag(file, at, self.versions[index]);
        Source::Fill { pattern, len }
    }
}
