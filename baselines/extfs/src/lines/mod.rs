//! Changes persist as cache lines: transactions of lines over a port with bytes.
//!
//! A **family** of strategies. Here is what its members share: who changes which lines
//! (`table`), copies of them (`snapshot`), blocks of metadata in memory (`medium`), the
//! order in which transactions go to the drive (`commit`), and contents of files
//! (`data`), which may go through a journal of blocks (`journal`). A member says how the lines of
//! one transaction become durable together: it is a [`Durable`].
//!
//! # Invariants
//!
//! - A line is in at most one transaction that is not copied, and on the drive in at
//!   most one that is not durable: versions of a line are in the order of commits.
//! - A transaction is durable as a whole, and not before those whose lines it changed;
//!   those that change more than contents are in the order in which handles ended.
//! - Contents that were written before a transaction is durable are on the medium
//!   first, as in the ordered mode of ext4.
//! - `write` and `end` wait for nobody: what is closed goes to the drive in a task of
//!   its own, and who shall return after that waits in [`crate::Persist::settle`].
//! - A failed commit makes the file system read-only; nothing commits after it.

mod commit;
mod compare;
mod config;
mod core;
mod data;
mod durable;
mod journal;
mod medium;
mod metrics;
mod owners;
mod persist;
mod place;
mod snapshot;
mod table;
pub mod undo;

pub use compare::changed_lines;
pub use config::{LineOptions, at_least};
pub use durable::Durable;
pub use journal::{CommitEntry, DataJournal};
pub use medium::{Medium, broken};
pub use metrics::Metrics;
pub use persist::{Handle, Lines};
pub use snapshot::Piece;
pub use table::LINES;
