//! What must be there before the first call.

use super::{Mode, Name, NodeKind};

/// The tree before the first call: each parent before its children. Its root
/// is there without an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// The entries, in the order in which they can be made.
    pub entries: Vec<Entry>,
}

/// One file or directory of a [`Setup`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where.
    pub path: Name,
    /// What.
    pub kind: EntryKind,
    /// Its permissions.
    pub mode: Mode,
}

/// What an [`Entry`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A directory.
    Directory,
    /// A regular file of this many bytes, all of them written.
    File {
        /// Its size in bytes.
        size: u64,
    },
    /// A symbolic link.
    Symlink {
        /// What it says, as it says it.
        target: Name,
    },
    /// A second name of the file at `to`, which an earlier entry made.
    Link {
        /// The first name.
        to: Name,
    },
    /// A pipe, socket or device, which has a name and no contents.
    Node(NodeKind),
}
