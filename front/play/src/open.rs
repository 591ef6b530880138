//! The open files of a workload, shared by its threads.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::sync::{Arc, Mutex, PoisonError};
use workload::files::Fd;

/// An open file and its unread directory entries.
#[derive(Debug)]
pub(crate) struct OpenFile {
    /// File descriptor of the system.
    pub(crate) fd: OwnedFd,
    /// Directory entries that the system has returned and no call has consumed.
    pub(crate) entries: Mutex<u64>,
}

/// Slots of open files, by recorded descriptor.
///
/// Invariant: a file that one thread closes while another uses it stays open
/// until that use ends, as in the kernel.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles(Mutex<Vec<Option<Arc<OpenFile>>>>);

impl OpenFiles {
    /// Returns the file in slot `fd`; EBADF if the slot is empty, as after an open that failed here
    /// and not in the recording.
    pub(crate) fn get(&self, fd: Fd) -> Result<Arc<OpenFile>, Errno> {
        let slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let file = slots.get(fd.0 as usize).and_then(Option::as_ref);
        file.cloned().ok_or(Errno::BADF)
    }

    /// Stores a file in the slot; closes the file that was there.
    pub(crate) fn put(&self, slot: Fd, fd: OwnedFd) {
        let entries = Mutex::new(0);
        let file = Some(Arc::new(OpenFile { fd, entries }));
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = slot.0 as usize;
        if slots.len() <= slot {
            slots.resize(slot + 1, None);
        }
        let before = std::mem::replace(&mut slots[slot], file);
        // Closing may take long: release the lock first.
        drop(slots);
        drop(before);
    }

    /// Removes the file from the slot.
    pub(crate) fn take(&self, fd: Fd) -> Result<Arc<OpenFile>, Errno> {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = slots.get_mut(fd.0 as usize);
        slot.and_then(Option::take).ok_or(Errno::BADF)
    }
}
