/// The expected lifetime of a file's data, with the names and numbers of Linux
/// (`F_SET_RW_HINT`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Hint {
    /// The application has set no hint.
    #[default]
    NotSet = 0,
    /// The application has set the hint to "no information".
    None = 1,
    /// Data with a short lifetime.
    Short = 2,
    /// Data with a medium lifetime.
    Medium = 3,
    /// Data with a long lifetime.
    Long = 4,
    /// Data with an extremely long lifetime.
    Extreme = 5,
}

impl Hint {
    /// Every hint, indexed by its number.
    pub const ALL: [Self; 6] = [
        Self::NotSet,
        Self::None,
        Self::Short,
        Self::Medium,
        Self::Long,
        Self::Extreme,
    ];
    /// The words of the hints in text, in the order of [`Self::ALL`].
    pub const WORDS: [&'static str; 6] = ["not-set", "none", "short", "medium", "long", "extreme"];

    /// The word of this hint, from [`Self::WORDS`].
    #[must_use]
    pub const fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    /// The hint with Linux' number `raw`; None if Linux has none.
    #[must_use]
    pub fn from_raw(raw: u64) -> Option<Self> {
        let at = usize::try_from(raw).ok()?;
        Self::ALL.get(at).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_have_the_numbers_of_the_kernel() {
        for (raw, hint) in Hint::ALL.into_iter().enumerate() {
            assert_eq!(hint as usize, raw);
            assert_eq!(Hint::from_raw(raw as u64), Some(hint));
        }
        assert_eq!(Hint::from_raw(6), None);
        assert_eq!(Hint::from_raw(u64::MAX), None);
    }
}
