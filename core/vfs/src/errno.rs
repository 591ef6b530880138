//! Errors with the numbers of Linux.

/// The result of a file operation.
pub type Result<T> = std::result::Result<T, Errno>;

macro_rules! errnos {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        /// Error of a file operation; the numbers are those of Linux on x86-64.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
        #[repr(i32)]
        #[allow(clippy::upper_case_acronyms, reason = "the field's names")]
        pub enum Errno {
            $(
                #[doc = $text]
                #[error("{}: {}", stringify!($name), $text)]
                $name = $number,
            )*
        }

        impl Errno {
            /// Every error, by ascending number.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Symbolic name, such as `ENOENT`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }
        }
    };
}

errnos! {
    EPERM = 1, "not permitted";
    ENOENT = 2, "no such file or directory";
    EINTR = 4, "interrupted";
    EIO = 5, "the medium failed";
    ENXIO = 6, "nothing there";
    E2BIG = 7, "too long a list";
    EBADF = 9, "bad descriptor";
    EAGAIN = 11, "would have to wait";
    ENOMEM = 12, "out of memory";
    EACCES = 13, "permission denied";
    EBUSY = 16, "in use";
    EEXIST = 17, "exists";
    EXDEV = 18, "on another file system";
    ENODEV = 19, "no such device";
    ENOTDIR = 20, "not a directory";
    EISDIR = 21, "is a directory";
    EINVAL = 22, "invalid argument";
    EMFILE = 24, "too many open files";
    ETXTBSY = 26, "is being executed";
    EFBIG = 27, "file too large";
    ENOSPC = 28, "no space left";
    ESPIPE = 29, "cannot seek";
    EROFS = 30, "read-only file system";
    EMLINK = 31, "too many links";
    ERANGE = 34, "result does not fit";
    EDEADLK = 35, "would deadlock";
    ENAMETOOLONG = 36, "name too long";
    ENOLCK = 37, "no locks left";
    ENOSYS = 38, "not implemented";
    ENOTEMPTY = 39, "directory not empty";
    ELOOP = 40, "too many symbolic links";
    ENODATA = 61, "no such attribute";
    EOVERFLOW = 75, "value too large";
    EOPNOTSUPP = 95, "not supported";
    ETOOMANYREFS = 109, "too many are in use";
    EUCLEAN = 117, "the structure of the file system is damaged";
    EDQUOT = 122, "quota exceeded";
}

impl Errno {
    /// Number of the error, positive.
    #[must_use]
    pub const fn number(self) -> i32 {
        self as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_itself() {
        assert_eq!(Errno::ENOENT.number(), 2);
        assert_eq!(Errno::EUCLEAN.name(), "EUCLEAN");
        assert!(Errno::ALL.is_sorted());
        let text = Errno::ENOTEMPTY.to_string();
        assert_eq!(text, "ENOTEMPTY: directory not empty");
    }
}
