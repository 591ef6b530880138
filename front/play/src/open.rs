//! The open files of a workload, shared by its threads.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::sync::{Arc, Mutex, PoisonError};
use workload::files::Fd;

/// An open file.
#[derive(Debug)]
pub(crate) struct OpenFile {
    /// The descriptor.
    pub(crate) fd: OwnedFd,
    /// Entries of a directory that the system gave and no call took yet.
    pub(crate) entries: Mutex<u64>,
}

/// The slots of open files.
///
/// Invariant: a file that one thread closes while another uses it stays open
/// until that use ends, as in the kernel.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles(Mutex<Vec<Option<Arc<OpenFile>>>>);

impl OpenFiles {
    /// The file in the slot `fd`; EBADF if there is none, which happens where a
    /// recorded open did not fail.
    pub(crate) fn get(&self, fd: Fd) -> Result<Arc<OpenFile>, Errno> {
        let slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let file = slots.get(fd.0 as usize).and_then(Option::as_ref);
        file.cloned().ok_or(Errno::BADF)
    }

    /// Puts a file into the slot.
    pub(crate) fn put(&self, slot: Fd, fd: OwnedFd) {
        let entries = Mutex::new(0);
        let file = Some(Arc::new(OpenFile { fd, entries }));
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = slot.0 as usize;
        if slots.len() <= slot {
            slots.resize(slot + 1, None);
        }
        let before = std::mem::replace(&mut slots[slot], file);
        // Closing may take long.
        drop(slots);
        drop(before);
    }

    /// Takes the file out of the slot.
    pub(crate) fn take(&self, fd: Fd) -> Result<Arc<OpenFile>, Errno> {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = slots.get_mut(fd.0 as usize);
        slot.and_then(Option::take).ok_or(Errno::BADF)
    }
}
