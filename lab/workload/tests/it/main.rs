//! Tests of the crate through its public interface.

mod calls;
mod errors;
mod files;
mod flb;
mod foreign;
mod fuzz;
mod jobs;
mod placed;
mod published;
mod readers;
mod round_trip;
mod workloads;

use std::io::Cursor;
use workload::trace::{Format, Loaded, Options, Trace, TraceError};

/// Loads `bytes` as a trace; its name in errors is `t`.
fn load(
    bytes: impl AsRef<[u8]>,
    format: Option<Format>,
    options: Options,
) -> Result<Loaded, TraceError> {
    let reader = Cursor::new(bytes.as_ref().to_vec());
    Trace::from_reader("t", reader, format, options)?.load()
}
