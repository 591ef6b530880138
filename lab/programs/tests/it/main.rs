//! What the programs compute, what they emit, and what the readers take and refuse.

mod drive;
mod emitted;
mod fuzz;
mod kernels;
mod traces;
mod workloads;
