//! The controller and its way over TCP, as a host sees them.

mod commands;
mod connect;
mod host;
mod identify;
mod memory;
mod protocol;
mod sockets;
mod wire;
