//! The controller and its ways over TCP and vfio-user, as a host sees them.

mod areas;
mod auth;
mod commands;
mod connect;
mod drives;
mod fuzz;
mod guest;
mod host;
mod identify;
mod memory;
mod peers;
mod plain;
mod power;
mod protocol;
mod slot;
mod slot_fuzz;
mod sockets;
mod uncorrectable;
mod verified;
mod wire;
