//! Persimmon through its public verbs, on the drive itself and on zones in memory.

mod bench;
mod cuts;
mod failing;
mod fuzz;
mod memory;
mod mounts;
