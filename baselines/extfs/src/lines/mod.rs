//! Changes persist as cache lines: transactions of lines over a port with bytes.
//!
//! A **family** of strategies. Its members share the owners of changed lines (`table`), copies of
//! lines (`snapshot`), blocks of metadata in memory (`medium`), the order in which transactions go
//! to the drive (`commit`), and file contents (`data`), which may go through a journal of blocks
//! (`journal`). A member is a [`Durable`]: it makes the lines of one transaction durable together.
//!
//! # Invariants
//!
//! - A line is in at most one transaction that is not copied, and on the drive in at
//!   most one that is not durable: versions of a line are in the order of commits.
//! - A transaction becomes durable as a whole, after every earlier transaction with a
//!   line in common; transactions of metadata commit in the order in which handles ended.
//! - Contents written before a transaction is durable are on the medium first, as in
//!   the ordered mode of ext4.
//! - `write` and `end` never wait: a closed transaction commits in a task of its own,
//!   and a call that returns only after the commit waits in [`crate::Persist::settle`].
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
