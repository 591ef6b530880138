//! Tests of what the programs compute and emit, and of what the readers accept and reject.

mod drive;
mod emitted;
mod fuzz;
mod kernels;
mod traces;
mod workloads;
