//! HyFiM, tested from outside.

mod adopt;
mod cuts;
mod limits;
mod shared;
mod support;
