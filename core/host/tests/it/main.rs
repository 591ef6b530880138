//! The host in front of a drive.

mod latency;
mod resources;
