//! Programs as streams of memory accesses: kernels that run, numbers that are met,
//! traces that are read.
//!
//! Invariants: a program is a function of its description and the seed; however many
//! threads it is given, they do the same work in all; what a thread does between two
//! meetings depends on no other thread; this process holds what a kernel must know to
//! go on, not what its memory would hold.
//!
//! This crate knows the seam of the memory system ([`memsys::Program`]) and no machine.

mod character;
mod graph;
pub mod kernel;
mod mem;
mod preset;
mod published;
mod section;
mod tape;
mod threads;
pub mod trace;
mod workload;

pub use character::{Character, characterise};
pub use graph::{Graph, Shape};
pub use preset::{PRESETS, Param, Preset, TRACE, Unit};
pub use published::{PUBLISHED, Published, published};
pub use tape::Tape;
pub use threads::Threads;
pub use workload::{Workload, WorkloadError};
