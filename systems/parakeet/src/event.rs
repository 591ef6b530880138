//! Events: calls of a program on its files, as far as they matter for placement.

use crate::directive::Hint;
use crate::flags::Flags;
use units::Ns;

/// A file, by a number that is unique while the file exists, such as its inode number. It may
/// denote another file after [`Call::Gone`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileKey(pub u64);

/// A call that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// End of the call, on any clock that does not go back.
    pub at: Ns,
    /// Number of the calling thread; any unique one.
    pub thread: u32,
    /// File that the call is made on.
    pub file: FileKey,
    /// Kind of the call, with its arguments.
    pub call: Call<'a>,
}

/// A call on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call<'a> {
    /// The file was opened, or created and opened.
    Open(Opening<'a>),
    /// Space was allocated for the file, up to `len` bytes from its start.
    Allocate {
        /// End of the allocated range in bytes.
        len: u64,
    },
    /// The program gave a hint at the lifetime of the file's data.
    Hint(Hint),
    /// Data were written to the file.
    Write {
        /// Offset of the first byte.
        offset: u64,
        /// Number of written bytes.
        len: u64,
    },
    /// The file was synced.
    Sync,
    /// The size of the file was set.
    Truncate {
        /// New size in bytes.
        len: u64,
    },
    /// The file was renamed. If another file had that name before, it gets a [`Call::Gone`] in an
    /// event of its own.
    Rename {
        /// New path of the file.
        to: &'a [u8],
    },
    /// One of the file's open descriptors was closed.
    Close,
    /// The file's last name was removed and it is not open: its data are dead.
    Gone,
}

/// Arguments of an `open`, and attributes of its caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opening<'a> {
    /// Path as the program passed it, or an absolute one; in bytes, as in the kernel.
    pub path: &'a [u8],
    /// Flags of the call.
    pub flags: Flags,
    /// Permissions for a file that is created.
    pub mode: u32,
    /// Size of the file before this call, in bytes.
    pub size: u64,
    /// Path or name of the program.
    pub program: &'a [u8],
    /// Name of the thread (`pthread_setname_np`); empty if unknown.
    pub thread: &'a [u8],
    /// Level of the file in an LSM tree, if the caller knows it.
    pub level: Option<u8>,
}
