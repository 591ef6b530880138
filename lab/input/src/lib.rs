//! Reading of input from outside: files written by other programs, whose contents may be
//! compressed, by line, record and block; TOML documents; and names with parameters.
//!
//! Invariants: no allocation has a size that a file states, except the windows of zstd and xz, and a
//! block of the binary container, which are bounded; every error names the file, the place and the
//! expectation.
//!
//! This crate must not know the formats that it carries: they belong to the crates that parse them.

pub mod blocks;
pub mod document;
mod error;
pub mod named;
mod stream;

pub use error::{Expected, Fault, TraceError, excerpt, expected};
pub use stream::{Input, Opened, open, read_line};
