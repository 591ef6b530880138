//! What a rule reports.

use std::fmt;

/// One violation of one rule. Findings sort by place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file, relative to the root of the workspace.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub what: String,
    /// What to do instead.
    pub remedy: String,
}

impl Finding {
    /// A violation at `path:line`.
    pub fn new(path: &str, line: usize, what: impl Into<String>, remedy: &str) -> Self {
        Self {
            path: path.to_owned(),
            line,
            what: what.into(),
            remedy: remedy.to_owned(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            line,
            what,
            remedy,
        } = self;
        write!(f, "{path}:{line}: {what}\n    remedy: {remedy}")
    }
}
