//! Builds a memory system with a CXL-SSD, runs a program on it, and reports the outcome.
//!
//! A [`Setup`] is a design, a reading of the paper, a workload and their changes; [`run()`] turns
//! it into an [`Outcome`]. Designs that are compared share the workload, the flash and all sizes.
//!
//! Invariants: sizes that belong together shrink together ([`Setup::factor`]); a run is a function
//! of its setup; every number of an outcome is a counter, a quotient of counters, or a price.
//!
//! This crate must not know the command line or the layout of a report.

mod beside;
mod outcome;
pub mod reproduce;

mod run;
mod setup;
mod size;
mod sweep;

pub use beside::{Asked, AskedError, MEMORY_RUNS_SCHEMA, MemoryRuns, beside};
pub use outcome::{
    Amat, Cost, Device, Flash, Lines, MEMORY_SCHEMA, Moves, Outcome, Part, Switches, Time, compare,
};
pub use run::{RunError, Witness, run, run_program};
pub use setup::{Change, Setup, SetupError};
pub use sweep::Sweep;
