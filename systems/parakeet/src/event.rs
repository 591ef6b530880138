//! What a program did to its files, as far as placement is concerned.

use crate::directive::Hint;
use crate::flags::Flags;
use units::Ns;

/// A file, by a number that is its own while it exists: an inode number, say. It may
/// stand for another file after [`Call::Gone`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileKey(pub u64);

/// A call that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// When it ended, on any clock that does not go back.
    pub at: Ns,
    /// The thread that made it, by any number of its own.
    pub thread: u32,
    /// The file it was made on.
    pub file: FileKey,
    /// What was done.
    pub call: Call<'a>,
}

/// What was done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call<'a> {
    /// It was opened, or made and opened.
    Open(Opening<'a>),
    /// Room was set aside for it, up to `len` bytes from its start.
    Allocate {
        /// Bytes.
        len: u64,
    },
    /// The program said how long its data will live.
    Hint(Hint),
    /// It was written to.
    Write {
        /// From which byte.
        offset: u64,
        /// How many bytes.
        len: u64,
    },
    /// It was made durable.
    Sync,
    /// Its size was set.
    Truncate {
        /// The new size, in bytes.
        len: u64,
    },
    /// It got another name. What had that name before is [`Call::Gone`] by an event of its
    /// own.
    Rename {
        /// The new path.
        to: &'a [u8],
    },
    /// One of its open descriptors was closed.
    Close,
    /// Its last name was removed and nobody has it open: its data are dead.
    Gone,
}

/// How a file is opened, and what is known of who does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opening<'a> {
    /// The path, as the program said it or from the root; bytes, as the kernel has them.
    pub path: &'a [u8],
    /// The flags.
    pub flags: Flags,
    /// The permissions of a file that is made.
    pub mode: u32,
    /// The size of the file before this call, in bytes.
    pub size: u64,
    /// The program, as its path or its name.
    pub program: &'a [u8],
    /// The name of the thread (`pthread_setname_np`), if known.
    pub thread: &'a [u8],
    /// The level of an LSM tree that the file belongs to, where the caller knows.
    pub level: Option<u8>,
}
