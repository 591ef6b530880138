//! Rules: the assignment of files to streams.
//!
//! Invariants: the first rule that matches decides. A rule names a declared stream, or none. A rule
//! without conditions is the last one. Evaluation allocates nothing.

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

/// Attributes of a file that rules can test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts<'a> {
    /// Present path of the file.
    pub path: &'a [u8],
    /// Flags with which it was opened.
    pub flags: Flags,
    /// Permissions passed when it was opened.
    pub mode: u32,
    /// Size in bytes, or the end of its allocated space if that is larger.
    pub size: u64,
    /// Path or name of the program.
    pub program: &'a [u8],
    /// Name of the thread that opened it.
    pub thread: &'a [u8],
    /// Latest write hint of the program.
    pub hint: Hint,
    /// Level of the file in an LSM tree; `None` if unknown.
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

/// A conjunction of conditions, and the stream of files that fulfil it. An empty list is no
/// condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Patterns of the path, of which one must match.
    pub paths: Vec<Glob>,
    /// Conditions on the flags.
    pub(crate) flags: FlagTest,
    /// Permissions, of which one must be the file's.
    pub modes: Vec<u32>,
    /// Range of the size in bytes.
    pub size: Option<RangeInclusive<u64>>,
    /// Patterns of the program, of which one must match.
    pub programs: Vec<Glob>,
    /// Patterns of the thread's name, of which one must match.
    pub threads: Vec<Glob>,
    /// Write hints, of which one must be the file's.
    pub hints: Vec<Hint>,
    /// Range of the level; a file of unknown level is in no range.
    pub level: Option<RangeInclusive<u8>>,
    /// Stream of matching files; `None` leaves them without a directive.
    pub stream: Option<StreamId>,
}

impl Rule {
    /// Adds a condition on the flags: a word of [`crate::flags::words`], optionally after a `!`.
    /// Returns `false` if there is no such word.
    pub fn require(&mut self, flag: &str) -> bool {
        let test = FlagTest::parse(flag);
        self.flags.words.extend(test);
        test.is_some()
    }

    /// Whether the rule has no conditions.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let bare = Self {
            stream: self.stream,
            ..Self::default()
        };
        *self == bare
    }

    /// Whether all conditions hold for a file.
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

/// The contents of a rule file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSet {
    /// Name of the rule set; may be empty.
    pub name: String,
    /// Streams of the rule set, indexed by [`StreamId`].
    pub streams: Vec<Stream>,
    /// Rules in the order in which they are tried.
    pub rules: Vec<Rule>,
}

impl RuleSet {
    /// Index of the first rule that matches; `None` if none does.
    //= dissertation 6.2
    #[must_use]
    pub fn find(&self, facts: &Facts<'_>) -> Option<usize> {
        self.rules.iter().position(|rule| rule.matches(facts))
    }

    /// Stream of a file; `None` if no rule matches, or the first match has no stream.
    #[must_use]
    pub fn classify(&self, facts: &Facts<'_>) -> Option<StreamId> {
        self.find(facts).and_then(|rule| self.rules[rule].stream)
    }

    /// The stream called `name`; `None` if there is none.
    #[must_use]
    pub fn stream(&self, name: &str) -> Option<StreamId> {
        let at = self.streams.iter().position(|stream| stream.name == name)?;
        u16::try_from(at).ok().map(StreamId)
    }
}
