//! Tests of the host in front of a simulated drive.

mod bytes;
mod cuts;
mod latency;
mod pm;
mod raw;
mod requests;
mod resources;
mod waits;
mod zoned;
