//! NVMe front: a controller without I/O, and its transports, TCP and (as PCIe device of a virtual
//! machine) vfio-user. `docs/nvme.md` describes the drive as a host sees it.
//!
//! # The idea
//!
//! An entry of 64 bytes ([`Entry`]) is parsed once into a typed command, which must complete
//! exactly once ([`Token`]). A command is an `async fn` over a [`Backend`]: the simulated drive
//! ([`DriveBackend`]), or an array of bytes in tests. A [`Subsystem`] holds namespaces and the
//! controllers of hosts, and lives with the drive on one thread. A transport parses its own units,
//! moves data, and knows of a command only the direction of its data.
//!
//! # Invariants
//!
//! - Only `entry` and `command` read dwords; returned structures are laid out in `layout`; numeric
//!   status codes exist in [`Status`] alone.
//! - Input of a host never causes a panic or an endless wait, and uses memory only within fixed
//!   limits.
//! - A host that is not allowed gets a rejected Connect and nothing else; a host that must
//!   authenticate and has not can exchange only authentication messages.
//!
//! This crate knows neither the inside of a drive nor its file: these belong to `ssd` and `engine`.

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
