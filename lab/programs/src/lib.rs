//! Programs as streams of memory accesses: kernels that are executed, synthetic accesses, and
//! recorded traces.
//!
//! Invariants: a program is a function of its description and the seed. The total work is the same
//! for any number of threads. The operations of a thread between two barriers do not depend on
//! other threads. This process holds only what a kernel needs to continue, not the contents of its
//! simulated memory.
//!
//! This crate uses the interface of the memory system ([`memsys::Program`]) and knows no machine.

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
