//! NVMe over TCP.
//!
//! [`Connection`] implements the protocol without I/O; [`Target`] moves its bytes through sockets
//! on the thread of the simulation: commands and completions wake no other thread, and bytes that
//! arrive together are processed together.
//!
//! Limits of a connection:
//!
//! - Commands in flight and buffered data are bounded (see [`Connection`]). A host that reads
//!   slowly is not read from while 1 MiB of output is unsent, and is dropped when no write succeeds
//!   for 30 s.
//! - A connection that is not a queue after 10 s is dropped, and so is a controller that is silent
//!   for its keep-alive timeout, or for two minutes if it is for discovery. A host that has crashed
//!   is dropped within two minutes in any case.
//! - At most 256 connections exist. A new one replaces a terminated one, or the oldest that is not
//!   a queue; otherwise the new one is dropped.
//!
//! Any host that can reach the address and sends an allowed name gets access, unless hosts must
//! authenticate ([`crate::Secrets`]); a connection does not count as a queue until its host has.
//! There is no TLS.

mod connection;
mod digest;
mod input;
mod patience;
pub mod pdu;
mod peer;
mod target;

pub use connection::{Connection, Submission};
pub use digest::crc;
pub use target::Target;
