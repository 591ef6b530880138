//! The controller and its way over TCP, as a host sees them.

mod commands;
mod connect;
mod drives;
mod fuzz;
mod host;
mod identify;
mod memory;
mod protocol;
mod sockets;
mod wire;
