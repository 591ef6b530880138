//! Backend of `vhost-user-blk`: serves a drive as the block device of a virtual machine.
//!
//! The machine keeps its queues in memory that it shares by file descriptors. This crate reads
//! and writes that memory by system calls on the descriptors and never maps it, so a machine
//! that changes its memory during a request can corrupt only its own data.
//!
//! - [`wire`] is the layout of messages, descriptors and requests.
//! - [`Server`] listens at a socket and serves one machine at a time.
//!
//! # Invariants
//!
//! - Input of a machine is validated: an address must lie in the memory that it shares, a chain
//!   has at most as many descriptors as its table, and a request has at most
//!   [`wire::DATA_MAX`] bytes of data (plus two sectors for its header and status).
//! - A request is answered once, in its own queue, unless the drive loses its power. A queue
//!   counts as stopped only when all its requests are answered.
//= virtio 5.2

mod budget;
mod memory;
mod queue;
mod request;
mod server;
mod session;
pub mod wire;

pub use server::Server;
