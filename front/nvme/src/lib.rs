//! NVMe: a controller, and its way over TCP.

pub mod backend;
mod command;
mod controller;
mod drive;
mod entry;
mod layout;
mod namespace;
mod status;
mod subsystem;
pub mod tcp;
mod token;

pub use backend::{Backend, Failure, Manner, Placements, Shape, Span};
pub use drive::DriveBackend;
pub use entry::{Direction, ENTRY_BYTES, Entry, Sgl};
pub use namespace::Namespace;
pub use status::Status;
pub use subsystem::{Allowed, DISCOVERY_NQN, Identity, Subsystem, TRANSFER, Visitor};
pub use token::{Completion, Effect, Link, Token};
