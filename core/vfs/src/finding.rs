//! What checkers of file systems that are not mounted have found.
//!
//! Invariant: no more than [`MOST`] are kept, whatever the image says.

use std::fmt;

/// Findings are told up to this many, which are enough to see that an image is damaged.
const MOST: usize = 100;

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding(String);

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What was found so far, in order.
#[derive(Debug, Default)]
pub struct Findings(Vec<Finding>);

impl Findings {
    /// Notes something, unless enough is known.
    pub fn say(&mut self, what: String) {
        if self.0.len() < MOST {
            self.0.push(Finding(what));
        }
    }

    /// What was found so far.
    #[must_use]
    pub fn so_far(&self) -> &[Finding] {
        &self.0
    }

    /// What was found in all.
    #[must_use]
    pub fn into_all(self) -> Vec<Finding> {
        self.0
    }
}

/// The one thing that keeps an image from being looked at.
impl From<String> for Findings {
    fn from(what: String) -> Self {
        Self(vec![Finding(what)])
    }
}
