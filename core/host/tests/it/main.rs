//! The host in front of a drive.

mod bytes;
mod latency;
mod resources;
mod waits;
