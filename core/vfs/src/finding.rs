//! Findings of checkers of unmounted file systems.
//!
//! Invariant: no more than [`MOST`] findings are kept, whatever the image holds.

use std::fmt;

/// Findings kept at most: enough to show that an image is damaged.
const MOST: usize = 100;

/// An inconsistency that a checker found, as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding(String);

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Findings of one check, in the order in which they were made.
#[derive(Debug, Default)]
pub struct Findings(Vec<Finding>);

impl Findings {
    /// Adds a finding, unless `MOST` are kept already.
    pub fn say(&mut self, what: String) {
        if self.0.len() < MOST {
            self.0.push(Finding(what));
        }
    }

    /// Findings made so far, in order.
    #[must_use]
    pub fn so_far(&self) -> &[Finding] {
        &self.0
    }

    /// All findings of the check, in order.
    #[must_use]
    pub fn into_all(self) -> Vec<Finding> {
        self.0
    }
}

/// A single finding that keeps a checker from reading the image at all.
impl From<String> for Findings {
    fn from(what: String) -> Self {
        Self(vec![Finding(what)])
    }
}
