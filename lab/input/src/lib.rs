//! How the lab reads what comes from outside: files that others wrote, whose contents may be
//! compressed, by line, record and block; documents in TOML; and what is asked for by a name and
//! parameters.
//!
//! Invariants: nothing is allocated by a length that a file states, but for the window of
//! a zstd frame and a block of ours, which are bounded; whatever is refused is named by
//! its file, its place and what was expected there.
//!
//! It must not know what is read: formats belong to who reads them.

pub mod blocks;
pub mod document;
mod error;
pub mod named;
mod stream;

pub use error::{Expected, Fault, TraceError, excerpt, expected};
pub use stream::{Input, Opened, open, read_line};
