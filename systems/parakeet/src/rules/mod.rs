//! Rules: which file belongs to which stream.
//!
//! Invariants: the first rule that matches decides; a rule names a stream that is
//! declared, or none; a rule without conditions is the last one. Asking allocates nothing.

mod error;
mod glob;
mod print;
mod read;
pub mod sets;
mod value;

pub use error::RuleError;
pub use glob::{Glob, GlobError, MAX_PARTS, escaped};
pub use print::{Notes, span};
pub use read::{MAX_RULES, MAX_STREAMS, MAX_TEXT};

use crate::directive::{Hint, Stream, StreamId};
use crate::event::Opening;
use crate::flags::{FlagTest, Flags};
use std::ops::RangeInclusive;

/// What a rule may ask about a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts<'a> {
    /// Its path now.
    pub path: &'a [u8],
    /// How it was opened.
    pub flags: Flags,
    /// The permissions that were asked for.
    pub mode: u32,
    /// Its size, or the room set aside for it if that is more, in bytes.
    pub size: u64,
    /// The program.
    pub program: &'a [u8],
    /// The name of the thread that opened it.
    pub thread: &'a [u8],
    /// What the program said of it.
    pub hint: Hint,
    /// The level of an LSM tree that it belongs to, where that is known.
    pub level: Option<u8>,
}

impl<'a> From<&Opening<'a>> for Facts<'a> {
    fn from(open: &Opening<'a>) -> Self {
        Self {
            path: open.path,
            flags: open.flags,
            mode: open.mode,
            size: open.size,
            program: open.program,
            thread: open.thread,
            hint: Hint::NotSet,
            level: open.level,
        }
    }
}

/// Conditions, all of which must hold, and the stream of a file of which they do. An
/// empty list is no condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Patterns of the path, one of which matches.
    pub paths: Vec<Glob>,
    /// What the flags are like.
    pub(crate) flags: FlagTest,
    /// The permissions, one of these.
    pub modes: Vec<u32>,
    /// The size, in bytes.
    pub size: Option<RangeInclusive<u64>>,
    /// Patterns of the program, one of which matches.
    pub programs: Vec<Glob>,
    /// Patterns of the thread's name, one of which matches.
    pub threads: Vec<Glob>,
    /// What the program said, one of these.
    pub hints: Vec<Hint>,
    /// The level, within these; a file of an unknown level is in none.
    pub level: Option<RangeInclusive<u8>>,
    /// Where the file belongs; `None` leaves it alone.
    pub stream: Option<StreamId>,
}

impl Rule {
    /// Adds a condition on the flags: a word of [`crate::flags::words`], perhaps after a
    /// `!`. Whether there is such a word.
    pub fn require(&mut self, flag: &str) -> bool {
        let test = FlagTest::parse(flag);
        self.flags.words.extend(test);
        test.is_some()
    }

    /// Whether it matches everything.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let bare = Self {
            stream: self.stream,
            ..Self::default()
        };
        *self == bare
    }

    /// Whether it matches.
    #[must_use]
    pub fn matches(&self, facts: &Facts<'_>) -> bool {
        let any = |globs: &[Glob], text| globs.is_empty() || globs.iter().any(|g| g.matches(text));
        self.flags.holds(facts.flags)
            && (self.modes.is_empty() || self.modes.contains(&facts.mode))
            && (self.hints.is_empty() || self.hints.contains(&facts.hint))
            && within(self.size.as_ref(), Some(facts.size))
            && within(self.level.as_ref(), facts.level)
            && any(&self.paths, facts.path)
            && any(&self.programs, facts.program)
            && any(&self.threads, facts.thread)
    }
}

fn within<T: PartialOrd>(range: Option<&RangeInclusive<T>>, value: Option<T>) -> bool {
    range.is_none_or(|range| value.is_some_and(|value| range.contains(&value)))
}

/// A rule file, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSet {
    /// What it is called.
    pub name: String,
    /// The streams, at the index that is their number.
    pub streams: Vec<Stream>,
    /// The rules, in their order.
    pub rules: Vec<Rule>,
}

impl RuleSet {
    /// The first rule that matches, by its place.
    //= dissertation 6.2
    #[must_use]
    pub fn find(&self, facts: &Facts<'_>) -> Option<usize> {
        self.rules.iter().position(|rule| rule.matches(facts))
    }

    /// The stream that a file belongs to; `None` if no rule matches, or one that leaves
    /// the file alone.
    #[must_use]
    pub fn classify(&self, facts: &Facts<'_>) -> Option<StreamId> {
        self.find(facts).and_then(|rule| self.rules[rule].stream)
    }

    /// The stream called `name`.
    #[must_use]
    pub fn stream(&self, name: &str) -> Option<StreamId> {
        let at = self.streams.iter().position(|stream| stream.name == name)?;
        u16::try_from(at).ok().map(StreamId)
    }
}
