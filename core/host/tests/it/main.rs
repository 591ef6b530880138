//! Tests of the host in front of a simulated drive.

mod bytes;
mod cuts;
mod drives;
mod latency;
mod pm;
mod raw;
mod requests;
mod resources;
mod waits;
mod zoned;
