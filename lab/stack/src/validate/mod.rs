//! Published measurements of real drives beside the model.
//!
//! An [`Experiment`] becomes a [`Task`] on the preset of its drive, or a reason why the model cannot
//! run it; a task that has run gives [`Measured`] quantities, and these give one [`Row`] for each
//! published value.
//!
//! Invariants: each value of a document gives one row, run or not; a row without a measured value
//! has a reason. A task is a function of its experiment, and equal tasks give equal quantities.

mod drives;
mod fio;
mod jobs;
mod measure;
mod rows;
mod summary;
mod task;
mod zone;

pub use drives::small;
pub(crate) use fio::TAIL;
pub use fio::{FioError, Given, read as read_fio};
pub use measure::Measured;
pub use rows::{
    Action, Document, Experiment, Interface, Job, Of, OneOrMore, State, Value, Word, ZoneCommand,
    documents,
};
pub use summary::{Group, Row, Spread, Summary, rows};
pub use task::Task;
pub(crate) use task::through_kernel as plan;
