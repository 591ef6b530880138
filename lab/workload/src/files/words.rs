//! Values of the fields of calls: flags, modes and other words of the file API.
//!
//! Their numbers are Flashloom's own and equal on every system; a recorder and a player translate
//! them.

use super::Name;
use super::field::{Field, FieldSink, FieldSource};
use std::fmt;
use units::Hint;

/// An open file, as a slot that [`super::Call::Open`] takes and
/// [`super::Call::Close`] frees. Slots are small numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fd(pub u32);

/// Permission bits, at most `0o7777`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mode(pub u16);

impl Field for Mode {
    fn put(self, key: &'static str, sink: &mut impl FieldSink) {
        sink.octal(key, self.0.into());
    }

    fn take<S: FieldSource>(key: &'static str, source: &mut S) -> Result<Self, S::Error> {
        let bits = source.octal(key, 0o7777)?;
        Ok(Self(u16::try_from(bits).expect("bounded by the source")))
    }
}

/// Error number of Linux; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Errno(pub u16);

/// Names and Linux numbers of the errors of file calls.
const ERRNO: &[(u16, &str)] = &[
    (1, "EPERM"),
    (2, "ENOENT"),
    (4, "EINTR"),
    (5, "EIO"),
    (9, "EBADF"),
    (11, "EAGAIN"),
    (12, "ENOMEM"),
    (13, "EACCES"),
    (14, "EFAULT"),
    (16, "EBUSY"),
    (17, "EEXIST"),
    (18, "EXDEV"),
    (19, "ENODEV"),
    (20, "ENOTDIR"),
    (21, "EISDIR"),
    (22, "EINVAL"),
    (23, "ENFILE"),
    (24, "EMFILE"),
    (25, "ENOTTY"),
    (26, "ETXTBSY"),
    (27, "EFBIG"),
    (28, "ENOSPC"),
    (29, "ESPIPE"),
    (30, "EROFS"),
    (31, "EMLINK"),
    (32, "EPIPE"),
    (34, "ERANGE"),
    (36, "ENAMETOOLONG"),
    (37, "ENOLCK"),
    (38, "ENOSYS"),
    (39, "ENOTEMPTY"),
    (40, "ELOOP"),
    (61, "ENODATA"),
    (75, "EOVERFLOW"),
    (95, "EOPNOTSUPP"),
    (116, "ESTALE"),
    (122, "EDQUOT"),
];

impl Errno {
    /// Parses an error: a name such as `ENOENT`, or `E` and a number.
    #[must_use]
    pub fn named(text: &str) -> Option<Self> {
        let known = ERRNO.iter().find(|(_, name)| *name == text);
        let number = || text.strip_prefix('E')?.parse().ok().filter(|&n| n > 0);
        known.map(|&(n, _)| n).or_else(number).map(Self)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match ERRNO.iter().find(|(number, _)| *number == self.0) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "E{}", self.0),
        }
    }
}

/// Object of a call: an open file or a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// An open file, as in `fstat`.
    Open(Fd),
    /// A path; a symbolic link at its end is followed, as in `stat`.
    Path(Name),
    /// A path; a symbolic link at its end is the object itself, as in `lstat`.
    Link(Name),
}

const TARGETS: &[&str] = &["fd", "path", "link"];

impl Field for Target {
    fn put(self, key: &'static str, sink: &mut impl FieldSink) {
        match self {
            Self::Open(fd) => {
                sink.word(key, 0, TARGETS);
                sink.fd("fd", fd);
            }
            Self::Path(path) => {
                sink.word(key, 1, TARGETS);
                sink.name("path", path);
            }
            Self::Link(path) => {
                sink.word(key, 2, TARGETS);
                sink.name("path", path);
            }
        }
    }

    fn take<S: FieldSource>(key: &'static str, source: &mut S) -> Result<Self, S::Error> {
        Ok(match source.word(key, TARGETS)? {
            0 => Self::Open(source.fd("fd")?),
            1 => Self::Path(source.name("path")?),
            _ => Self::Link(source.name("path")?),
        })
    }
}

/// Declares a set of flags: bits with their words, the lowest bit first.
macro_rules! flags {
    ($(#[$doc:meta])* $name:ident { $($(#[$bit_doc:meta])* $bit:ident $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $name {
            /// The empty set of flags.
            pub const NONE: Self = Self(0);
            /// Words of the flags, the lowest bit first.
            pub const WORDS: &'static [&'static str] = &[$($word),*];
            flags!(@bits 0, $($(#[$bit_doc])* $bit,)*);

            /// Whether all of `others` are set.
            #[must_use]
            pub const fn has(self, others: Self) -> bool {
                self.0 & others.0 == others.0
            }

            /// Union of these flags and `others`.
            #[must_use]
            pub const fn and(self, others: Self) -> Self {
                Self(self.0 | others.0)
            }

            /// Union of these flags and `others` if `condition` holds, else these flags.
            #[must_use]
            pub const fn and_if(self, condition: bool, others: Self) -> Self {
                if condition { self.and(others) } else { self }
            }
        }

        impl Field for $name {
            fn put(self, key: &'static str, sink: &mut impl FieldSink) {
                sink.bits(key, self.0, Self::WORDS);
            }

            fn take<S: FieldSource>(key: &'static str, source: &mut S) -> Result<Self, S::Error> {
                source.bits(key, Self::WORDS).map(Self)
            }
        }
    };
    (@bits $n:expr, $(#[$doc:meta])* $bit:ident, $($rest:tt)*) => {
        $(#[$doc])*
        pub const $bit: Self = Self(1 << $n);
        flags!(@bits $n + 1, $($rest)*);
    };
    (@bits $n:expr,) => {};
}

flags! {
    /// Flags of an open. Without [`OpenFlags::READ`] and [`OpenFlags::WRITE`] the file is open for
    /// neither (`O_PATH`).
    OpenFlags {
        /// Open for reading.
        READ "read",
        /// Open for writing.
        WRITE "write",
        /// Create the file if it is missing (`O_CREAT`).
        CREATE "create",
        /// Fail if the file exists (`O_EXCL`).
        EXCLUSIVE "exclusive",
        /// Cut the file to length 0 (`O_TRUNC`).
        TRUNCATE "truncate",
        /// Make every write at the end (`O_APPEND`).
        APPEND "append",
        /// Bypass the page cache (`O_DIRECT`).
        DIRECT "direct",
        /// Make every write durable with its metadata (`O_SYNC`).
        SYNC "sync",
        /// Make every write durable with the metadata needed to read it (`O_DSYNC`).
        DSYNC "dsync",
        /// Create a file without a name in the directory at the path (`O_TMPFILE`).
        TMPFILE "tmpfile",
        /// Fail unless the path is a directory (`O_DIRECTORY`).
        DIRECTORY "directory",
        /// Fail if the path ends in a symbolic link (`O_NOFOLLOW`).
        NOFOLLOW "nofollow",
        /// Leave the access time unchanged by reads (`O_NOATIME`).
        NOATIME "noatime",
    }
}

flags! {
    /// Parts of a `sync_file_range`, made in this order.
    RangeSync {
        /// Wait for write-back in progress.
        WAIT_BEFORE "wait-before",
        /// Start write-back of dirty pages.
        WRITE "write",
        /// Wait for the write-back.
        WAIT_AFTER "wait-after",
    }
}

/// Implements [`Field`] for an enum with words.
macro_rules! field_of_words {
    ($name:ident) => {
        impl Field for $name {
            fn put(self, key: &'static str, sink: &mut impl FieldSink) {
                sink.word(key, self as usize, &Self::WORDS);
            }

            fn take<S: FieldSource>(key: &'static str, source: &mut S) -> Result<Self, S::Error> {
                source.word(key, &Self::WORDS).map(|index| Self::ALL[index])
            }
        }
    };
}

/// Declares an enum whose variants have words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$v_doc:meta])* $variant:ident $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$v_doc])* $variant,)*
        }

        impl $name {
            /// Every variant, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];
            /// Words of the variants, in the order of declaration.
            pub const WORDS: &'static [&'static str] = &[$($word),*];

            /// Word of the variant in traces and reports.
            #[must_use]
            pub const fn word(self) -> &'static str {
                Self::WORDS[self as usize]
            }
        }

        field_of_words!($name);
    };
}

words! {
    /// Operation of `fallocate` on a range.
    Allocation {
        /// Allocate blocks, and extend the file to the end of the range.
        Extend "extend",
        /// Allocate blocks, and keep the file size.
        KeepSize "keep-size",
        /// Punch a hole; the file size stays.
        Punch "punch",
        /// Write zeroes, and extend the file to the end of the range.
        Zero "zero",
        /// Write zeroes; the file size stays.
        ZeroKeepSize "zero-keep-size",
        /// Remove the range and move up the data behind it.
        Collapse "collapse",
        /// Insert a hole and move down the data behind it.
        Insert "insert",
        /// Replace blocks shared with other files by private copies.
        Unshare "unshare",
    }
}

words! {
    /// Treatment of an existing file with the new name of a rename.
    RenameHow {
        /// Replace the file.
        Replace "replace",
        /// Fail (`RENAME_NOREPLACE`).
        NoReplace "no-replace",
        /// Exchange the two names (`RENAME_EXCHANGE`).
        Exchange "exchange",
        /// Replace the file and leave a whiteout at the old name (`RENAME_WHITEOUT`).
        Whiteout "whiteout",
    }
}

words! {
    /// Kind of a file made by `mknod`.
    NodeKind {
        /// A regular file.
        File "file",
        /// A named pipe.
        Fifo "fifo",
        /// A socket of a local address.
        Socket "socket",
        /// A character device.
        Character "character",
        /// A block device.
        Block "block",
    }
}

words! {
    /// Expectation of a call that sets an extended attribute.
    XattrHow {
        /// None: create or replace.
        Set "set",
        /// The attribute is missing (`XATTR_CREATE`).
        Create "create",
        /// The attribute exists (`XATTR_REPLACE`).
        Replace "replace",
    }
}

words! {
    /// Operation on a lock.
    Lock {
        /// Take a shared lock.
        Shared "shared",
        /// Take an exclusive lock.
        Exclusive "exclusive",
        /// Release the held lock.
        Unlock "unlock",
    }
}

words! {
    /// Access pattern that a program announces for a range.
    Advice {
        /// No particular pattern.
        Normal "normal",
        /// Reads in order.
        Sequential "sequential",
        /// Reads in random order.
        Random "random",
        /// One read of each byte.
        NoReuse "no-reuse",
        /// Reads soon; `readahead` announces this too.
        WillNeed "will-need",
        /// No reads soon.
        DontNeed "dont-need",
    }
}

field_of_words!(Hint);

words! {
    /// Condition that `msync` waits for.
    MsyncHow {
        /// Nothing (`MS_ASYNC`).
        Async "async",
        /// The range is durable (`MS_SYNC`).
        Sync "sync",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_behave_as_a_set() {
        let flags = OpenFlags::READ.and(OpenFlags::CREATE);
        assert!(flags.has(OpenFlags::READ) && flags.has(OpenFlags::NONE));
        assert!(!flags.has(OpenFlags::READ.and(OpenFlags::WRITE)));
        assert_eq!(flags.and_if(false, OpenFlags::WRITE), flags);
        assert_eq!(OpenFlags::NOATIME.0, 1 << (OpenFlags::WORDS.len() - 1));
    }

    #[test]
    fn error_names_round_trip() {
        for number in 1..200 {
            let errno = Errno(number);
            assert_eq!(Errno::named(&errno.to_string()), Some(errno));
        }
        assert_eq!(Errno(2).to_string(), "ENOENT");
        assert_eq!((Errno::named("E0"), Errno::named("x")), (None, None));
    }

    #[test]
    fn every_variant_has_a_word() {
        assert_eq!(Advice::ALL.len(), Advice::WORDS.len());
        assert_eq!(RenameHow::Replace.word(), "replace");
    }
}
