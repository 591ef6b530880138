//! Workloads of block requests (generators, traces and their classification) and of file calls
//! ([`files`]).
//!
//! Invariants: a workload is a function of its description and the seed; a
//! trace reader never panics, never allocates by a length that came from the
//! file, and names the line or the offset of what it refuses.

pub mod anonymous;
pub mod classify;
pub mod describe;
pub mod files;
pub mod generate;
pub mod jobs;
pub mod request;
pub mod shipped;
pub mod trace;

pub use classify::{Placer, Placing, classify};
pub use describe::{PRESETS, Pacing, Stream, Workload, WorkloadError};
pub use jobs::Jobs;
pub use request::{Labels, Op, Purpose, Request};

/// Every preset: generators of block requests and of file calls, then the presets for paths to a
/// trace, a fio job, a filebench script and a recording.
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
