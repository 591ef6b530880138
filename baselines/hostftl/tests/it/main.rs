//! The mapping of an open-channel drive, tested from outside.

mod cuts;
mod faults;
mod model;
mod refusals;
mod support;
