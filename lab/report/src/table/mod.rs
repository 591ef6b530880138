//! Records as text tables for a terminal.
//!
//! Invariants: a table is a function of records and [`Style`] alone; without
//! colour it holds no control character, whatever the names in a record hold;
//! no line ends in blanks.

mod claims;
mod comparison;
mod diff;
mod grid;
mod history;
mod jobs;
mod listing;
mod papers;
mod ranking;
mod refusals;
mod run;
mod summary;
mod timeline;
mod why;

pub use claims::claims;
pub use comparison::comparison;
pub(crate) use comparison::failures;
pub use diff::diff;
pub use history::{history, memory_history};
pub use listing::{Side, facts, listing};
pub use papers::papers;
pub use ranking::{left_out, ranking};
pub use run::run;
pub use summary::summary;
pub use timeline::timeline;
pub use why::why;

/// The layout of text for a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether cells are marked with ANSI colours.
    pub color: bool,
    /// Width of the terminal in columns.
    pub width: usize,
}

impl Default for Style {
    fn default() -> Self {
        Self {
            color: false,
            width: 110,
        }
    }
}
