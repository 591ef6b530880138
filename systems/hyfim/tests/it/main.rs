//! HyFiM through its public interface.

mod adopt;
mod cuts;
mod direct;
mod fuzz;
mod limits;
mod shared;
mod support;
