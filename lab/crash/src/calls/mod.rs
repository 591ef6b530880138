//! File calls with their contents: recorded on one mount, repeated on another.
//!
//! A [`Recorder`] between the file API and a file system sees changes of names and attributes; its
//! [`Tape`] observes the file API and adds contents and forces. [`play()`] repeats the calls on a
//! fresh file system.
//!
//! # Invariants
//!
//! - A recording holds the calls that succeeded, in the order in which they ended, so a call comes
//!   after all calls that had ended when it began. Output of the program stands behind every call
//!   that had ended when it was printed.
//! - The calls of a recording succeed, one after the other, on an empty file system that has room
//!   for them: inode numbers are labels, and the same label stands for one file from the call that
//!   makes it to the next that does.
//! - Times of files are not repeated, nor the times between calls.

mod coded;
mod play;
mod record;
mod told;

pub use coded::CodeError;
pub use play::{Played, play};
pub use record::{Recorder, Tape};

use std::ops::Range;
use vfs::{FallocateMode, FileKind, Ino};

/// A place of a name: the directory and the bytes of the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// Label of the directory.
    pub dir: Ino,
    /// Bytes of the name.
    pub name: Vec<u8>,
}

/// Permissions and owner of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owned {
    /// Permission bits, without the kind of the file.
    pub mode: u16,
    /// User that owns the file.
    pub uid: u32,
    /// Group that owns the file.
    pub gid: u32,
}

/// A call that changes files, forces them, or prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// A new file of any kind under a free name.
    Make {
        /// Place of the new name.
        at: Name,
        /// Label of the new file.
        ino: Ino,
        /// Kind of the file.
        kind: FileKind,
        /// Permissions and owner of the new file.
        owned: Owned,
        /// Device number, for a device; else 0.
        rdev: u32,
        /// Target of a symbolic link; empty for other kinds.
        target: Vec<u8>,
    },
    /// A further name of a file.
    Link {
        /// Place of the new name.
        at: Name,
        /// Label of the file.
        ino: Ino,
    },
    /// Removal of a name.
    Remove {
        /// Place of the name.
        at: Name,
        /// Label of the file that had it.
        ino: Ino,
        /// Whether it is a directory.
        is_dir: bool,
    },
    /// A rename, or an exchange of two names.
    Rename {
        /// Place of the old name.
        from: Name,
        /// Place of the new name.
        to: Name,
        /// Whether the two names exchange their files.
        exchange: bool,
    },
    /// A write of bytes.
    Write {
        /// Label of the file.
        ino: Ino,
        /// Offset of the first byte.
        offset: u64,
        /// Bytes that were written.
        bytes: Vec<u8>,
    },
    /// A change of the size of a file.
    Resize {
        /// Label of the file.
        ino: Ino,
        /// New size in bytes.
        size: u64,
    },
    /// Allocation, punching or zeroing of a range.
    Allocate {
        /// Label of the file.
        ino: Ino,
        /// Operation on the range.
        mode: FallocateMode,
        /// Bytes of the range.
        range: Range<u64>,
    },
    /// Sharing of bytes without copying them.
    Share {
        /// Label of the source.
        from: Ino,
        /// Bytes of the source.
        span: Range<u64>,
        /// Label of the target.
        to: Ino,
        /// Offset in the target.
        place: u64,
    },
    /// New permissions or owner of a file.
    Own {
        /// Label of the file.
        ino: Ino,
        /// Permissions and owner from now on.
        owned: Owned,
    },
    /// A new or changed extended attribute, or a removed one.
    Extend {
        /// Label of the file.
        ino: Ino,
        /// Name of the attribute, with its namespace.
        name: Vec<u8>,
        /// New value; `None` removes the attribute.
        value: Option<Vec<u8>>,
    },
    /// Force of a file or directory.
    Force {
        /// Label of the file.
        ino: Ino,
        /// Whether names and attributes may stay volatile.
        data_only: bool,
    },
    /// Force of the whole file system.
    ForceAll,
    /// Output of the program, which takes no time.
    Print(Vec<u8>),
}

impl Call {
    /// Labels of the files that the call uses; not that of a file that it makes.
    fn uses(&self) -> Vec<Ino> {
        match self {
            Self::Make { at, .. } => vec![at.dir],
            Self::Link { at, ino } | Self::Remove { at, ino, .. } => vec![at.dir, *ino],
            Self::Rename { from, to, .. } => vec![from.dir, to.dir],
            Self::Share { from, to, .. } => vec![*from, *to],
            Self::Write { ino, .. }
            | Self::Resize { ino, .. }
            | Self::Allocate { ino, .. }
            | Self::Own { ino, .. }
            | Self::Extend { ino, .. }
            | Self::Force { ino, .. } => vec![*ino],
            Self::ForceAll | Self::Print(_) => Vec::new(),
        }
    }
}

/// The recorded calls of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// Label of the root directory.
    pub root: Ino,
    /// Calls in the order in which they ended.
    pub calls: Vec<Call>,
}

impl Recording {
    /// Number of calls that change or force files.
    #[must_use]
    pub fn len(&self) -> usize {
        let is_call = |call: &&Call| !matches!(call, Call::Print(_));
        self.calls.iter().filter(is_call).count()
    }

    /// Whether the program has changed nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Output of the program among the first `calls` entries.
    #[must_use]
    pub fn output(&self, calls: usize) -> Vec<u8> {
        let mut output = Vec::new();
        for call in &self.calls[..calls.min(self.calls.len())] {
            if let Call::Print(bytes) = call {
                output.extend_from_slice(bytes);
            }
        }
        output
    }
}
