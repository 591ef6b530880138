//! Workloads in the block language (generators, traces and their classification)
//! and in the language of files ([`files`]).
//!
//! Invariants: a workload is a function of its description and the seed; a
//! trace reader never panics, never allocates by a length that came from the
//! file, and names the line or the offset of what it refuses.

pub mod classify;
pub mod describe;
pub mod files;
pub mod generate;
pub mod request;
pub mod shipped;
pub mod trace;

pub use classify::{Placer, Placing, classify};
pub use describe::{PRESETS, Pacing, Stream, Workload, WorkloadError};
pub use request::{Labels, Op, Purpose, Request};

/// All that can be named: what is generated, of requests and of file calls, then what
/// can follow the path of a file.
pub fn presets() -> impl Iterator<Item = &'static describe::Preset> {
    let generated = PRESETS.iter().chain(&files::FILE_PRESETS);
    let of_files = [
        &describe::TRACE,
        &describe::JOB,
        &files::SCRIPT,
        &files::CALLS,
    ];
    generated.chain(of_files)
}
