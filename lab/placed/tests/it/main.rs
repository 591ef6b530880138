//! Placed files over zones of a drive, beside a file system in memory.

mod bench;
mod calls;
mod model;
