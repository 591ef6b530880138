//! Directives: the stream of a file, and its lifetime group within the stream.
//!
//! Invariants: a stream never reuses a group's number, and numbers only increase. A file keeps its
//! group until it changes its stream or is emptied.

use units::Ns;

pub use units::Hint;

/// A stream: a set of files that a program writes for one purpose, numbered from 0 in the order of
/// the rule file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u16);

/// Placement of a file: the stream, and the group of files in it that are expected to die together.
///
/// Each interface is told as much of a directive as it can express: see [`crate::translate`].
//= dissertation 6.1
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Directive {
    /// Stream of the file.
    pub stream: StreamId,
    /// The lifetime group within the stream, from 0.
    pub group: u64,
}

/// Classes of data lifetimes, ordered but without a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Life {
    /// Data that die soonest.
    Short,
    /// Data that outlive short-lived ones.
    Medium,
    /// Data that outlive medium-lived ones.
    Long,
    /// Data that outlive all others, or are never removed.
    Extreme,
}

impl Life {
    /// Every class, from the shortest to the longest.
    pub const ALL: [Self; 4] = [Self::Short, Self::Medium, Self::Long, Self::Extreme];
    /// Words for the classes in rule files, in the same order.
    pub const WORDS: [&'static str; 4] = ["short", "medium", "long", "extreme"];

    /// Word for the class in rule files.
    #[must_use]
    pub const fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }
}

/// Policy by which a stream starts a new group.
///
/// The source forms groups by creation time or other parameters, without details (6.1); 6.3.2
/// mentions timestamps.
//= dissertation 6.1
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// Never: all files share one group.
    One,
    /// A new group with every file.
    File,
    /// A new group after `files` files, or with the first file after a pause of more than `gap`.
    Batch {
        /// Number of files in a group, at least 1.
        files: u32,
        /// Longest pause between two files of a group.
        gap: Ns,
    },
    /// A new group with the first file that comes at least `every` after the group began.
    Epoch {
        /// Duration of a group, above 0.
        every: Ns,
    },
    /// A new group with the first file after `size` bytes were written to the group, such as the
    /// size of a zone.
    Bytes {
        /// Number of bytes, above 0.
        size: u64,
    },
}

/// Default number of files in a batch. Our choice: a compaction of an LSM tree writes about that
/// many.
pub const BATCH_FILES: u32 = 16;
/// Default pause that ends a batch; our choice.
pub const BATCH_GAP: Ns = Ns::secs(1);

impl Default for Grouping {
    /// Batches of [`BATCH_FILES`] files, ended by pauses of [`BATCH_GAP`].
    fn default() -> Self {
        Self::Batch {
            files: BATCH_FILES,
            gap: BATCH_GAP,
        }
    }
}

/// State of the newest group of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Newest {
    /// Number of the group; `None` before the first one.
    number: Option<u64>,
    files: u32,
    bytes: u64,
    began: Ns,
    last: Ns,
}

impl Newest {
    /// The group of a file that is assigned at time `at`.
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

    /// Uncounts a file that left group `number` before anything was written to it.
    pub(crate) fn leave(&mut self, number: u64) {
        if self.number == Some(number) {
            self.files = self.files.saturating_sub(1);
        }
    }

    /// Counts bytes written to group `number`, if that is still the newest.
    pub(crate) fn wrote(&mut self, number: u64, bytes: u64) {
        if self.number == Some(number) {
            self.bytes = self.bytes.saturating_add(bytes);
        }
    }

    fn is_over(&self, grouping: Grouping, at: Ns) -> bool {
        // A clock that went back does not age a group.
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

/// A stream as declared in a rule file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Name of the stream, by which rules refer to it.
    pub name: String,
    /// Lifetime class relative to other streams; `None` if unknown.
    pub life: Option<Life>,
    /// Expected lifetime of its data; `None` if unknown.
    pub expect: Option<Ns>,
    /// Its share of written data, relative to the shares of other streams; at least 1. Scarce
    /// targets are divided by share.
    pub share: u32,
    /// Write hint for the kernel, if it differs from that of `life`.
    pub hint: Option<Hint>,
    /// Policy by which the stream starts a new group.
    pub grouping: Grouping,
}

impl Stream {
    /// A stream of which only the name is known.
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
    fn group_ends_by_its_policy() {
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
