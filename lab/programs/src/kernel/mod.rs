//! The kernels: algorithms that run on structures at virtual addresses.
//!
//! Each module says which program it follows, how its structures lie, and what it
//! counts as instructions. Counted are those of the inner loops, as a compiler writes
//! them for a 64-bit machine without vectors unless the module says otherwise: one for
//! an arithmetic operation, a comparison, a branch that closes a loop or takes an if;
//! loads and stores count themselves. What stays in registers is free.

pub mod bc;
pub mod bfs;
pub mod dlrm;
pub mod durable;
pub mod radix;
pub mod srad;
pub mod synthetic;
mod table;
pub mod tpcc;
pub mod ycsb;
