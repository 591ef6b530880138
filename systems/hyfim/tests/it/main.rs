//! HyFiM, tested from outside.

mod cuts;
mod limits;
mod support;
