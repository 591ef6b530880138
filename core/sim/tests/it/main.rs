//! The contracts of the kernel, tested from outside.

mod kernel;
mod server;
mod sync;
