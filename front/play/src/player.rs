//! State with which a thread plays its calls.

use crate::data::{self, Data};
use crate::open::OpenFiles;
use crate::place::Place;
use crate::strings::Strings;
use std::mem::MaybeUninit;

/// Bytes that one read of a directory asks for, as much as glibc does.
const DIRECTORY_READ: usize = 32 << 10;

/// Per-thread state for playing calls.
pub(crate) struct Player<'a> {
    /// Directory of the workload.
    pub(crate) place: &'a Place,
    /// The open files of all threads.
    pub(crate) open: &'a OpenFiles,
    /// Strings of the current call; the thread fills them before it plays the call.
    pub(crate) strings: Strings,
    /// Buffer for file data.
    pub(crate) data: Data,
    /// Buffer for directory entries.
    pub(crate) entries: Vec<MaybeUninit<u8>>,
    /// Number of writes so far, which determines their data; starts far from those of other
    /// threads.
    version: u64,
}

impl<'a> Player<'a> {
    pub(crate) fn new(place: &'a Place, open: &'a OpenFiles, thread: u32) -> Self {
        Self {
            place,
            open,
            strings: Strings::default(),
            data: Data::default(),
            entries: vec![MaybeUninit::uninit(); DIRECTORY_READ],
            version: u64::from(thread) << 40,
        }
    }

    /// Counts a write and returns its pattern, for offset `at` of the open file `fd`.
    pub(crate) fn pattern(&mut self, fd: u32, at: u64) -> u64 {
        self.version += 1;
        data::pattern(fd, at, self.version)
    }
}
