//! Findings: the reports of the rules.

use std::fmt;

/// One violation of one rule. Findings sort by place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// File, relative to the root of the workspace.
    pub path: String,
    /// Line number, from 1.
    pub line: usize,
    /// Violation that was found.
    pub what: String,
    /// Action that resolves the finding.
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
