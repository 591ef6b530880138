//! The kernels: algorithms that run on structures at virtual addresses.
//!
//! Each module states the program that it follows, the layout of its structures, and the
//! instructions that it counts. Counted are those of the inner loops, as a compiler emits them for
//! a 64-bit machine without vectors unless the module says otherwise: one for an arithmetic
//! operation, a comparison, a branch that closes a loop or takes an if; loads and stores count
//! themselves. Values in registers are free.

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
