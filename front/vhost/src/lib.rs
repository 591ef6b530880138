//! A drive as the block device of a virtual machine: the other side of `vhost-user-blk`.
//!
//! The machine keeps its queues in memory that it shares by file descriptors. It is read and
//! written here by system calls on these, never mapped: a machine that changes its memory
//! meanwhile can confuse itself, and nobody else.
//!
//! - [`wire`] is the layout of messages, descriptors and requests.
//! - [`Server`] listens at a socket, for one machine at a time.
//!
//! # Invariants
//!
//! - Nothing that a machine says is believed: an address is looked up in what it shares, a
//!   chain ends within as many descriptors as its queue has, and a request holds at most
//!   [`wire::DATA_MAX`] bytes.
//! - A request is answered once, in a queue that has not been stopped since; a queue counts as
//!   stopped when all that was under way in it is answered.
//= virtio 5.2

mod budget;
mod memory;
mod queue;
mod request;
mod server;
mod session;
pub mod wire;

pub use server::Server;
