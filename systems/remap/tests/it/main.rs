//! The layer through its public interface, on a RAM disk.

mod cuts;
mod damage;
mod limits;
mod memory;
mod model;
