//! Files of plans, whose errors name the file, the line and what was expected.

use std::ops::Range;

/// A file that comes with the program.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Source {
    /// As it is asked for.
    pub(super) name: &'static str,
    /// Where it is in the repository.
    pub(super) path: &'static str,
    pub(super) text: &'static str,
}

/// What is wrong with a plan or with what was asked of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PlanError(String);

impl PlanError {
    pub(super) fn asked(kind: &str, known: &[&str], found: &str) -> Self {
        Self(format!(
            "{}: expected one of its {kind} {}, found {found:?}",
            super::PAPER,
            known.join(", ")
        ))
    }
}

impl Source {
    /// The error that `problem` at this place is.
    pub(super) fn error(&self, at: Range<usize>, problem: impl std::fmt::Display) -> PlanError {
        let before = &self.text.as_bytes()[..at.start.min(self.text.len())];
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        let problem = problem.to_string().replace('\n', "; ");
        PlanError(format!("{}:{line}: {problem}", self.path))
    }

    /// The error of the parser, at its place.
    pub(super) fn syntax(&self, error: &toml::de::Error) -> PlanError {
        self.error(error.span().unwrap_or(0..0), error.message())
    }
}
