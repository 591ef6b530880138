//! What is decided of a file: its stream, and its group within it.
//!
//! Invariants: a group's number is never given twice by one stream and only goes up, and
//! a file that has been given one keeps it until it changes its stream or begins anew.

use units::Ns;

pub use units::Hint;

/// A stream: a writer of files that belong together, counted from 0 in the order of the
/// rule file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u16);

/// Where a file belongs: among the files of a stream that are expected to die together.
///
/// It is what every interface is told of, each as much as it can carry: see
/// [`crate::translate`].
//= dissertation 6.1
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Directive {
    /// The stream.
    pub stream: StreamId,
    /// The lifetime group within the stream, from 0.
    pub group: u64,
}

/// How long data live, in classes that have an order and no unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Life {
    /// Dies soonest.
    Short,
    /// Outlives what is short.
    Medium,
    /// Outlives what is medium.
    Long,
    /// Outlives everything else, or is never removed.
    Extreme,
}

impl Life {
    /// Every class, in their order.
    pub const ALL: [Self; 4] = [Self::Short, Self::Medium, Self::Long, Self::Extreme];
    /// Their words in rule files.
    pub const WORDS: [&'static str; 4] = ["short", "medium", "long", "extreme"];

    /// Its word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }
}

/// When a stream begins a new group.
///
/// The source says that groups are made of creation time or other parameters and leaves
/// it there (6.1); 6.3.2 speaks of timestamps.
//= dissertation 6.1
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// Never: all files share one.
    One,
    /// With every file.
    File,
    /// After `files` files, or when none came for `gap`.
    Batch {
        /// Files in a group, at least 1.
        files: u32,
        /// The pause that ends a group.
        gap: Ns,
    },
    /// With the first file after `every` has passed since the group began.
    Epoch {
        /// How long a group takes files, above 0.
        every: Ns,
    },
    /// With the first file after `size` bytes were written to the group: the epoch of a
    /// zone of that size.
    Bytes {
        /// Bytes, above 0.
        size: u64,
    },
}

/// Files of a batch where no number is given: a choice of ours, for a compaction of an
/// LSM tree leaves about that many.
pub const BATCH_FILES: u32 = 16;
/// The pause that ends a batch where none is given: a choice of ours.
pub const BATCH_GAP: Ns = Ns::secs(1);

impl Default for Grouping {
    /// A batch.
    fn default() -> Self {
        Self::Batch {
            files: BATCH_FILES,
            gap: BATCH_GAP,
        }
    }
}

/// What is known of the newest group of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Newest {
    /// Its number, once there is a group.
    number: Option<u64>,
    files: u32,
    bytes: u64,
    began: Ns,
    last: Ns,
}

impl Newest {
    /// The group of a file that comes at `at`.
    pub(crate) fn take(&mut self, grouping: Grouping, at: Ns) -> u64 {
        let number = match self.number {
            Some(number) if !self.is_over(grouping, at) => number,
            before => {
                *self = Self {
                    began: at,
                    ..Self::default()
                };
                before.map_or(0, |number| number + 1)
            }
        };
        self.number = Some(number);
        self.files = self.files.saturating_add(1);
        self.last = at;
        number
    }

    /// Takes back a file that left group `number` before anything was written to it.
    pub(crate) fn leave(&mut self, number: u64) {
        if self.number == Some(number) {
            self.files = self.files.saturating_sub(1);
        }
    }

    /// Counts bytes that were written to group `number`, if it is still the newest.
    pub(crate) fn wrote(&mut self, number: u64, bytes: u64) {
        if self.number == Some(number) {
            self.bytes = self.bytes.saturating_add(bytes);
        }
    }

    fn is_over(&self, grouping: Grouping, at: Ns) -> bool {
        // A clock that went back makes no group older.
        let since = |then: Ns| at.0.saturating_sub(then.0);
        match grouping {
            Grouping::One => false,
            Grouping::File => true,
            Grouping::Batch { files, gap } => self.files >= files || since(self.last) > gap.0,
            Grouping::Epoch { every } => since(self.began) >= every.0,
            Grouping::Bytes { size } => self.bytes >= size,
        }
    }
}

/// A stream, as it was declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Its name.
    pub name: String,
    /// How long its files live beside those of others; unknown without.
    pub life: Option<Life>,
    /// How long its data are expected to live.
    pub expect: Option<Ns>,
    /// Its part of what is written, in proportion to those of the others; at least 1.
    /// What writes more gets more of what there is too little of.
    pub share: u32,
    /// What the kernel is told of it, where that is not what follows from `life`.
    pub hint: Option<Hint>,
    /// When it begins a new group.
    pub grouping: Grouping,
}

impl Stream {
    /// A stream of which nothing is known but the name.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            life: None,
            expect: None,
            share: 1,
            hint: None,
            grouping: Grouping::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(grouping: Grouping, files: &[(u64, u64)]) -> Vec<u64> {
        let mut newest = Newest::default();
        let mut take = |&(at, bytes): &(u64, u64)| {
            let number = newest.take(grouping, Ns(at));
            newest.wrote(number, bytes);
            number
        };
        files.iter().map(&mut take).collect()
    }

    //= dissertation 6.1
    #[test]
    fn a_group_ends_as_its_policy_says() {
        let files = [(0, 5), (1, 5), (2, 5), (9, 5), (10, 5), (3, 5)];
        let of = |grouping| groups(grouping, &files);
        assert_eq!(of(Grouping::One), [0; 6]);
        assert_eq!(of(Grouping::File), [0, 1, 2, 3, 4, 5]);
        let batch = |files, gap| Grouping::Batch {
            files,
            gap: Ns(gap),
        };
        assert_eq!(of(batch(2, 100)), [0, 0, 1, 1, 2, 2]);
        assert_eq!(of(batch(100, 6)), [0, 0, 0, 1, 1, 1]);
        assert_eq!(
            of(batch(100, 7)),
            [0; 6],
            "a pause of just the gap ends nothing"
        );
        assert_eq!(of(Grouping::Epoch { every: Ns(9) }), [0, 0, 0, 1, 1, 1]);
        assert_eq!(of(Grouping::Epoch { every: Ns(10) }), [0, 0, 0, 0, 1, 1]);
        assert_eq!(of(Grouping::Bytes { size: 10 }), [0, 0, 1, 1, 2, 2]);
        assert_eq!(of(Grouping::Bytes { size: 11 }), [0, 0, 0, 1, 1, 1]);
    }

    #[test]
    fn late_bytes_of_an_older_group_do_not_count() {
        let mut newest = Newest::default();
        let bytes = Grouping::Bytes { size: 10 };
        assert_eq!(newest.take(bytes, Ns(0)), 0);
        newest.wrote(0, 10);
        assert_eq!(newest.take(bytes, Ns(0)), 1);
        newest.wrote(0, 100);
        assert_eq!(newest.take(bytes, Ns(0)), 1);
    }
}
