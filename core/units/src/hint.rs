/// How long the data of a file will live, in the words of Linux (`F_SET_RW_HINT`) and with
/// its numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Hint {
    /// Nothing was said.
    #[default]
    NotSet = 0,
    /// It was said that nothing is known.
    None = 1,
    /// Short.
    Short = 2,
    /// Medium.
    Medium = 3,
    /// Long.
    Long = 4,
    /// Extremely long.
    Extreme = 5,
}

impl Hint {
    /// Every hint, at the index that is its number.
    pub const ALL: [Self; 6] = [
        Self::NotSet,
        Self::None,
        Self::Short,
        Self::Medium,
        Self::Long,
        Self::Extreme,
    ];
    /// Their words.
    pub const WORDS: [&'static str; 6] = ["not-set", "none", "short", "medium", "long", "extreme"];

    /// Its word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    /// The hint of the kernel's number `raw`, if there is one.
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
