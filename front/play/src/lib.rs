//! Plays a workload of files as real system calls under one directory.
//!
//! The same workload then runs on any mounted file system and on a simulated one, and their writes
//! can be compared.
//!
//! Invariants:
//! - Nothing outside the directory is touched: the kernel walks every path
//!   beneath it and refuses one that leads out, through a symbolic link or not.
//! - Each thread of the workload is a thread of the system. The thread fetches one call at a time
//!   from the source, and the source alone decides which thread waits.
//! - A call that cannot be played is counted and answered as recorded; no call is dropped silently.
//! - Data are patterns of eight bytes, as in the model.
//!
//! This crate must not know how a stack is built, nor parse a command line.

mod answer;
mod call;
mod data;
mod failure;
mod open;
mod outcome;
mod place;
mod player;
mod setup;
mod strings;
mod target;
mod threads;
mod translate;

pub use answer::stand_in;
pub use failure::Failure;
pub use outcome::{Kind, Mismatch, Outcome, Percentiles};
pub use place::Place;
pub use setup::prepare;
pub use threads::{Options, play};
