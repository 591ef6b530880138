//! The layer through its public verbs, on a disk in memory.

mod cuts;
mod damage;
mod limits;
mod memory;
mod model;
