//! The values that calls take: flags, modes and other words of the file API.
//!
//! Their numbers are ours, the same on every system; whoever records or replays
//! translates.

use super::Name;
use super::field::{Field, FieldSink, FieldSource};
use std::fmt;
use units::Hint;

/// An open file, as a slot that [`super::Call::Open`] takes and
/// [`super::Call::Close`] frees. Slots are small numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fd(pub u32);

/// Permission bits, at most 0o7777.
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

/// An error of the system, by its number on Linux; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Errno(pub u16);

/// Names of the errors that file calls give, and their numbers on Linux.
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
    /// The error called `text`: a name such as `ENOENT`, or `E` and a number.
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

/// What a call is about: an open file or a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// An open file, as in `fstat`.
    Open(Fd),
    /// A path, following a symbolic link at its end, as in `stat`.
    Path(Name),
    /// A path, taking a symbolic link at its end for itself, as in `lstat`.
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

/// Declares a set of flags: bits with their words, the lowest first.
macro_rules! flags {
    ($(#[$doc:meta])* $name:ident { $($(#[$bit_doc:meta])* $bit:ident $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $name {
            /// None of the flags.
            pub const NONE: Self = Self(0);
            /// The words of the flags, the lowest bit first.
            pub const WORDS: &'static [&'static str] = &[$($word),*];
            flags!(@bits 0, $($(#[$bit_doc])* $bit,)*);

            /// Whether all of `others` are set.
            #[must_use]
            pub const fn has(self, others: Self) -> bool {
                self.0 & others.0 == others.0
            }

            /// These and `others`.
            #[must_use]
            pub const fn and(self, others: Self) -> Self {
                Self(self.0 | others.0)
            }

            /// These and `others` if `condition` holds.
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
    /// How a file is opened. Without [`OpenFlags::READ`] and
    /// [`OpenFlags::WRITE`] it is open for neither (`O_PATH`).
    OpenFlags {
        /// For reading.
        READ "read",
        /// For writing.
        WRITE "write",
        /// Made if it is missing (`O_CREAT`).
        CREATE "create",
        /// Refused if it is there (`O_EXCL`).
        EXCLUSIVE "exclusive",
        /// Emptied (`O_TRUNC`).
        TRUNCATE "truncate",
        /// Every write goes to the end (`O_APPEND`).
        APPEND "append",
        /// Past the page cache (`O_DIRECT`).
        DIRECT "direct",
        /// Every write is durable with its metadata (`O_SYNC`).
        SYNC "sync",
        /// Every write is durable with what is needed to read it (`O_DSYNC`).
        DSYNC "dsync",
        /// A file without a name in the directory at the path (`O_TMPFILE`).
        TMPFILE "tmpfile",
        /// Refused unless it is a directory (`O_DIRECTORY`).
        DIRECTORY "directory",
        /// Refused if the path ends in a symbolic link (`O_NOFOLLOW`).
        NOFOLLOW "nofollow",
        /// Reads leave the time of access alone (`O_NOATIME`).
        NOATIME "noatime",
    }
}

flags! {
    /// What `sync_file_range` does, in this order.
    RangeSync {
        /// Waits for writeback that is under way.
        WAIT_BEFORE "wait-before",
        /// Starts writeback of what is dirty.
        WRITE "write",
        /// Waits for it.
        WAIT_AFTER "wait-after",
    }
}

/// Makes the words of a choice a field of calls.
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

/// Declares a choice: variants with their words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$v_doc:meta])* $variant:ident $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$v_doc])* $variant,)*
        }

        impl $name {
            /// Every choice.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];
            /// Their words.
            pub const WORDS: &'static [&'static str] = &[$($word),*];

            /// Its word.
            #[must_use]
            pub const fn word(self) -> &'static str {
                Self::WORDS[self as usize]
            }
        }

        field_of_words!($name);
    };
}

words! {
    /// What `fallocate` does to a range.
    Allocation {
        /// Allocates, and extends the file to the end of the range.
        Extend "extend",
        /// Allocates, and leaves the size alone.
        KeepSize "keep-size",
        /// Makes a hole; the size stays.
        Punch "punch",
        /// Zeroes, and extends the file to the end of the range.
        Zero "zero",
        /// Zeroes; the size stays.
        ZeroKeepSize "zero-keep-size",
        /// Removes the range and moves up what follows.
        Collapse "collapse",
        /// Inserts a hole and moves down what follows.
        Insert "insert",
        /// Gives the range blocks of its own.
        Unshare "unshare",
    }
}

words! {
    /// What a rename does if the new name is taken.
    RenameHow {
        /// Replaces it.
        Replace "replace",
        /// Fails (`RENAME_NOREPLACE`).
        NoReplace "no-replace",
        /// Exchanges the two (`RENAME_EXCHANGE`).
        Exchange "exchange",
        /// Replaces it and leaves a whiteout (`RENAME_WHITEOUT`).
        Whiteout "whiteout",
    }
}

words! {
    /// What a directory can hold besides directories and symbolic links.
    NodeKind {
        /// A regular file.
        File "file",
        /// A named pipe.
        Fifo "fifo",
        /// A socket.
        Socket "socket",
        /// A character device.
        Character "character",
        /// A block device.
        Block "block",
    }
}

words! {
    /// What setting an extended attribute expects.
    XattrHow {
        /// Nothing.
        Set "set",
        /// That it is missing (`XATTR_CREATE`).
        Create "create",
        /// That it is there (`XATTR_REPLACE`).
        Replace "replace",
    }
}

words! {
    /// What a call does to a lock.
    Lock {
        /// Takes it together with others.
        Shared "shared",
        /// Takes it alone.
        Exclusive "exclusive",
        /// Gives it back.
        Unlock "unlock",
    }
}

words! {
    /// What a program says it will do with a range.
    Advice {
        /// Nothing special.
        Normal "normal",
        /// Read in order.
        Sequential "sequential",
        /// Read in no order.
        Random "random",
        /// Read once.
        NoReuse "no-reuse",
        /// Read soon; `readahead` says the same.
        WillNeed "will-need",
        /// Not read soon.
        DontNeed "dont-need",
    }
}

field_of_words!(Hint);

words! {
    /// What `msync` waits for.
    MsyncHow {
        /// Nothing (`MS_ASYNC`).
        Async "async",
        /// That the range is durable (`MS_SYNC`).
        Sync "sync",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_a_set() {
        let flags = OpenFlags::READ.and(OpenFlags::CREATE);
        assert!(flags.has(OpenFlags::READ) && flags.has(OpenFlags::NONE));
        assert!(!flags.has(OpenFlags::READ.and(OpenFlags::WRITE)));
        assert_eq!(flags.and_if(false, OpenFlags::WRITE), flags);
        assert_eq!(OpenFlags::NOATIME.0, 1 << (OpenFlags::WORDS.len() - 1));
    }

    #[test]
    fn errors_are_read_as_they_are_printed() {
        for number in 1..200 {
            let errno = Errno(number);
            assert_eq!(Errno::named(&errno.to_string()), Some(errno));
        }
        assert_eq!(Errno(2).to_string(), "ENOENT");
        assert_eq!((Errno::named("E0"), Errno::named("x")), (None, None));
    }

    #[test]
    fn words_belong_to_their_choices() {
        assert_eq!(Advice::ALL.len(), Advice::WORDS.len());
        assert_eq!(RenameHow::Replace.word(), "replace");
    }
}
