//! The contracts of the kernel, tested from outside.

mod actor;
mod kernel;
mod server;
mod sync;
