//! Tree of files that exists before the first call.

use super::{Mode, Name, NodeKind};

/// Tree of files before the first call, each parent before its children. The root exists without an
/// entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// Entries, in an order in which they can be made.
    pub entries: Vec<Entry>,
}

/// One file or directory of a [`Setup`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Path of the entry.
    pub path: Name,
    /// Kind of the entry.
    pub kind: EntryKind,
    /// Permissions of the entry.
    pub mode: Mode,
}

/// Kind of an [`Entry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A directory, made empty.
    Directory,
    /// A regular file of this many bytes, all of them written.
    File {
        /// Size of the file in bytes.
        size: u64,
    },
    /// A symbolic link to `target`.
    Symlink {
        /// Target of the link, verbatim.
        target: Name,
    },
    /// A hard link to the file at `to`, which an earlier entry made.
    Link {
        /// Existing path of the file.
        to: Name,
    },
    /// A pipe, socket or device, which has a name and no contents.
    Node(NodeKind),
}
