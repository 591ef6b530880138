//! The host-side mapping of an open-channel drive, through its public interface.

mod buffered;
mod cuts;
mod faults;
mod fuzz;
mod model;
mod port;
mod races;
mod recovery;
mod refusals;
mod space;
mod support;
