//! HyFiM, tested from outside.

mod adopt;
mod cuts;
mod fuzz;
mod limits;
mod shared;
mod support;
