//! A drive as NVMe namespaces: a controller that does no input or output, and its ways
//! over TCP and, as a drive of a virtual machine, over vfio-user. `docs/nvme.md` says what a
//! host finds.
//!
//! # The idea
//!
//! 64 bytes come ([`Entry`]), are parsed once into a typed command, and owe one
//! completion ([`Token`]). What a command does is an `async fn` over a [`Backend`]; the
//! simulated drive is one ([`DriveBackend`]), and a row of bytes in a test is another.
//! A [`Subsystem`] holds namespaces and the controllers of hosts, and lives with the
//! drive on one thread. A transport parses its own units, moves data, and knows of a
//! command no more than which way its data go.
//!
//! # Invariants
//!
//! - Dwords are seen in `entry` and `command`, structures that hosts are told in `layout`;
//!   status codes have their numbers in [`Status`] alone.
//! - What a host sends never panics, never waits for ever, and takes memory by limits of
//!   ours only.
//! - A host that is not allowed gets a refusal of its Connect and nothing else; one that has
//!   to prove itself and has not gets nothing but the messages for that.
//!
//! It knows neither how a drive works nor how its file is kept: that is `ssd` and
//! `engine`.

mod auth;
pub mod backend;
mod command;
mod controller;
mod drive;
mod entry;
mod layout;
mod namespace;
pub mod pci;
mod status;
mod subsystem;
pub mod tcp;
mod token;

pub use auth::{Secret, SecretError, Secrets};
pub use backend::{Backend, Failure, Manner, Placements, Shape, Span};
pub use drive::{DriveBackend, ROOM};
pub use entry::{Direction, ENTRY_BYTES, Entry, Sgl};
pub use namespace::Namespace;
pub use status::Status;
pub use subsystem::{Allowed, DISCOVERY_NQN, Identity, Subsystem, TRANSFER, Visitor};
pub use token::{Completion, Effect, Link, Tell, Token};
