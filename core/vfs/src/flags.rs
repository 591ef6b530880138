//! Flags of open files, and sources of written data.

use crate::types::PAGE;
use nand::Payload;
use std::ops::{BitOr, BitOrAssign};

/// Flags of `open`, with the bits of Linux on x86-64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpenFlags(u32);

macro_rules! flags {
    ($($name:ident = $bits:literal, $text:literal;)*) => {
        impl OpenFlags {
            $(
                #[doc = $text]
                pub const $name: Self = Self($bits);
            )*
        }
    };
}

flags! {
    READ = 0x8000_0000, "May be read.";
    WRITE = 0x4000_0000, "May be written.";
    CREATE = 0o100, "Is made if it does not exist.";
    EXCLUSIVE = 0o200, "Must not exist.";
    TRUNCATE = 0o1_000, "Is cut to nothing.";
    APPEND = 0o2_000, "Every write goes to the end.";
    NON_BLOCK = 0o4_000, "Nothing waits; of no effect on files.";
    DATA_SYNC = 0o10_000, "Every write is durable when it returns.";
    DIRECT = 0o40_000, "Goes around the cache.";
    DIRECTORY = 0o200_000, "Must be a directory.";
    NO_FOLLOW = 0o400_000, "Must not be a symbolic link.";
    NO_ATIME = 0o1_000_000, "Reads leave the time of the last read alone.";
    SYNC = 0o4_010_000, "As `DATA_SYNC`, and the attributes too.";
    PATH = 0o10_000_000, "Only names the file.";
    TMPFILE = 0o20_200_000, "Makes a file without a name in a directory.";
}

/// Access modes of Linux: write only, and read and write.
const WRONLY: u32 = 1;
const RDWR: u32 = 2;

impl OpenFlags {
    /// Access for both reading and writing.
    pub const BOTH: Self = Self(Self::READ.0 | Self::WRITE.0);
    /// Flags of `creat`: write, create, truncate.
    pub const CREAT: Self = Self(Self::WRITE.0 | Self::CREATE.0 | Self::TRUNCATE.0);

    /// Whether all bits of `flags` are set.
    #[inline]
    #[must_use]
    pub const fn has(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// These flags with the bits of `flags` cleared.
    #[must_use]
    pub const fn without(self, flags: Self) -> Self {
        Self(self.0 & !flags.0)
    }

    /// Converts the flags of a Linux `open` call; unknown bits are dropped.
    #[must_use]
    pub const fn from_linux(flags: i32) -> Self {
        let flags = flags as u32;
        let access = match flags & 3 {
            0 => Self::READ.0,
            WRONLY => Self::WRITE.0,
            _ => Self::BOTH.0,
        };
        Self(access | flags & 0o37_777_700)
    }

    /// Converts to the flags of a Linux `open` call.
    #[must_use]
    pub const fn to_linux(self) -> i32 {
        let access = match (self.has(Self::READ), self.has(Self::WRITE)) {
            (_, false) => 0,
            (false, true) => WRONLY,
            (true, true) => RDWR,
        };
        (self.0 & 0o37_777_700 | access) as i32
    }
}

impl BitOr for OpenFlags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for OpenFlags {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// Data to be written.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// Bytes, written as they are.
    Bytes(&'a [u8]),
    /// The eight bytes of a number, little endian, repeated: the byte at offset `n` of the file is
    /// byte `n % 8` of the number. A whole page of a pattern costs no memory.
    Fill {
        /// The number whose bytes are repeated.
        pattern: u64,
        /// Bytes to be written.
        len: u64,
    },
}

impl Source<'_> {
    /// Bytes to be written.
    #[must_use]
    pub const fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Fill { len, .. } => *len,
        }
    }

    /// Whether the source has no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes from `from` on into `out`, which lies at `offset` of the file.
    pub(crate) fn copy_to(&self, from: u64, offset: u64, out: &mut [u8]) {
        match self {
            Self::Bytes(bytes) => {
                let from = from as usize;
                out.copy_from_slice(&bytes[from..from + out.len()]);
            }
            Self::Fill { pattern, .. } => {
                // A page holds whole repetitions of the pattern.
                let _ = Payload::Fill(*pattern).copy_to((offset % PAGE) as usize, out);
            }
        }
    }

    /// The source limited to its first `len` bytes.
    pub(crate) fn cut(self, len: u64) -> Self {
        match self {
            Self::Bytes(bytes) => Self::Bytes(&bytes[..len.min(bytes.len() as u64) as usize]),
            Self::Fill { pattern, len: all } => Self::Fill {
                pattern,
                len: all.min(len),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_keep_the_numbers_of_linux() {
        let flags = OpenFlags::from_linux(0o1_102);
        assert_eq!(
            flags,
            OpenFlags::BOTH | OpenFlags::CREATE | OpenFlags::TRUNCATE
        );
        assert_eq!(flags.to_linux(), 0o1_102);
        assert!(OpenFlags::SYNC.has(OpenFlags::DATA_SYNC));
        assert!(!OpenFlags::DATA_SYNC.has(OpenFlags::SYNC));
    }

    #[test]
    fn a_pattern_belongs_to_the_offsets_of_the_file() {
        let source = Source::Fill {
            pattern: 0x0807_0605_0403_0201,
            len: 4,
        };
        let mut out = [0; 4];
        source.copy_to(0, 6, &mut out);
        assert_eq!(out, [7, 8, 1, 2]);
    }
}
