//! Flags of the system call `open`.

/// Flags of `open`, with the values of Linux on x86-64. Other processors have different values of
/// `O_DIRECT`, `O_DIRECTORY` and `O_NOFOLLOW`; callers there must translate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flags(pub u32);

/// Mask of the access mode (read, write or both), which is a number and not a set of bits.
const ACCESS: u32 = 0b11;

/// Words of rule files, and their bits. `O_SYNC` contains `O_DSYNC`, and `O_TMPFILE` contains
/// `O_DIRECTORY`.
///
/// Source: `include/uapi/asm-generic/fcntl.h` of Linux.
const BITS: &[(&str, u32)] = &[
    ("create", 0o100),
    ("exclusive", 0o200),
    ("truncate", 0o1000),
    ("append", 0o2000),
    ("nonblock", 0o4000),
    ("dsync", 0o10000),
    ("direct", 0o40000),
    ("directory", 0o200_000),
    ("nofollow", 0o400_000),
    ("noatime", 0o1_000_000),
    ("cloexec", 0o2_000_000),
    ("sync", 0o4_010_000),
    ("path", 0o10_000_000),
    ("tmpfile", 0o20_200_000),
];

impl Flags {
    /// Access for reading only.
    pub const READ: Self = Self(0);
    /// Access for writing only.
    pub const WRITE: Self = Self(1);
    /// Access for reading and writing.
    pub const READ_WRITE: Self = Self(2);
    /// Create the file if it is missing.
    pub const CREATE: Self = Self(0o100);
    /// Fail if the file exists.
    pub const EXCLUSIVE: Self = Self(0o200);
    /// Empty the file when it is opened.
    pub const TRUNCATE: Self = Self(0o1000);
    /// Write at the end of the file always.
    pub const APPEND: Self = Self(0o2000);
    /// Bypass the page cache.
    pub const DIRECT: Self = Self(0o40000);
    /// Close the descriptor on `exec`.
    pub const CLOEXEC: Self = Self(0o2_000_000);
    /// Make every write durable, with the metadata needed to read it.
    pub const DSYNC: Self = Self(0o10000);
    /// Make every write durable, with all metadata.
    pub const SYNC: Self = Self(0o4_010_000);

    /// The union of these flags and `other`.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all bits of `other` are set, ignoring the access mode.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        let bits = other.0 & !ACCESS;
        self.0 & bits == bits
    }

    /// Whether the file may be read.
    #[must_use]
    pub const fn reads(self) -> bool {
        matches!(self.0 & ACCESS, 0 | 2)
    }

    /// Whether the file may be written.
    #[must_use]
    pub const fn writes(self) -> bool {
        matches!(self.0 & ACCESS, 1 | 2)
    }

    /// Whether the condition `word`, one of [`words`], holds; `None` for an unknown word.
    #[must_use]
    pub fn is(self, word: &str) -> Option<bool> {
        match word {
            "read" => Some(self.reads()),
            "write" => Some(self.writes()),
            _ => {
                let known = BITS.iter().find(|(name, _)| *name == word);
                known.map(|&(_, bits)| self.has(Self(bits)))
            }
        }
    }
}

/// Every word that [`Flags::is`] accepts.
pub fn words() -> impl Iterator<Item = &'static str> {
    ["read", "write"]
        .into_iter()
        .chain(BITS.iter().map(|(name, _)| *name))
}

/// A condition on the flags of an open file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlagTest {
    /// Words, and whether each must hold.
    pub(crate) words: Vec<(&'static str, bool)>,
}

impl FlagTest {
    /// Parses a condition: a word, or `!` and a word; `None` if the word is unknown.
    pub(crate) fn parse(text: &str) -> Option<(&'static str, bool)> {
        let (word, wanted) = match text.strip_prefix('!') {
            Some(word) => (word, false),
            None => (text, true),
        };
        words()
            .find(|known| *known == word)
            .map(|word| (word, wanted))
    }

    pub(crate) fn holds(&self, flags: Flags) -> bool {
        let holds = |&(word, wanted): &(&str, bool)| flags.is(word) == Some(wanted);
        self.words.iter().all(holds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    //= dissertation 6.3.1
    #[test]
    fn flags_of_the_published_log_decode_to_their_words() {
        // Figure 6.5 prints them as binary digits.
        let log = Flags(0b1000_0000_0010_0100_0001);
        let lock = Flags(0b1000_0000_0000_0100_0010);
        let sst = Flags(0b1000_0100_0010_0100_0001);
        let set = |flags: Flags| -> Vec<&str> {
            words()
                .filter(|word| flags.is(word) == Some(true))
                .collect()
        };
        assert_eq!(set(log), ["write", "create", "truncate", "cloexec"]);
        assert_eq!(set(lock), ["read", "write", "create", "cloexec"]);
        assert_eq!(
            set(sst),
            ["write", "create", "truncate", "direct", "cloexec"]
        );
    }

    #[test]
    fn words_agree_with_the_constants() {
        let named = [
            ("create", Flags::CREATE),
            ("exclusive", Flags::EXCLUSIVE),
            ("truncate", Flags::TRUNCATE),
            ("append", Flags::APPEND),
            ("direct", Flags::DIRECT),
            ("cloexec", Flags::CLOEXEC),
            ("dsync", Flags::DSYNC),
            ("sync", Flags::SYNC),
        ];
        for (word, flag) in named {
            assert_eq!(flag.is(word), Some(true), "{word}");
            assert_eq!(Flags::READ.is(word), Some(false), "{word}");
        }
        assert_eq!(Flags::SYNC.is("dsync"), Some(true));
        assert_eq!(Flags::DSYNC.is("sync"), Some(false));
        assert_eq!(Flags::READ.is("write"), Some(false));
        assert_eq!(Flags::READ_WRITE.is("read"), Some(true));
        assert_eq!(Flags(3).is("write"), Some(false));
        assert_eq!(Flags::READ.is("creat"), None);
    }

    #[test]
    fn flag_test_requires_all_words() {
        let test = FlagTest {
            words: ["write", "!direct"]
                .map(|text| FlagTest::parse(text).unwrap())
                .to_vec(),
        };
        assert!(test.holds(Flags::WRITE));
        assert!(!test.holds(Flags::WRITE.and(Flags::DIRECT)));
        assert!(!test.holds(Flags::READ));
        assert_eq!(FlagTest::parse("!!direct"), None);
    }
}
