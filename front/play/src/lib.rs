//! Plays a workload of files as real system calls under one directory.
//!
//! The same program then runs on whatever file system is mounted there and on a
//! simulated one, and what the two write can be set beside each other.
//!
//! Invariants:
//! - Nothing outside the directory is touched: the kernel walks every path
//!   beneath it and refuses one that leads out, through a symbolic link or not.
//! - A thread of the workload is a thread of the system. It asks the source for
//!   one call at a time, and the source alone says who waits for whom.
//! - A call that cannot be played is counted and answered as the recording has
//!   it; nothing is left out silently.
//! - Data are patterns of eight bytes, as in the model.
//!
//! It must not know how a stack is built, and no parser of a command line.

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
