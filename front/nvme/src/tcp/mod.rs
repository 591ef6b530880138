//! NVMe over TCP.
//!
//! [`Connection`] knows the protocol and does no input or output; [`Target`] moves its
//! bytes through sockets, on the thread of the simulation: no thread has to be woken for a
//! command or for its completion, and what comes together goes through together.
//!
//! What a connection may take:
//!
//! - Commands that are under way and data that wait, in either direction, are few
//!   (see [`Connection`]): a host that reads slowly, or not at all, stops being read
//!   from while 1 MiB waits for it, and is dropped when nothing can be written to it for
//!   30 s.
//! - A connection that is no queue after 10 s is dropped, and so is a controller from
//!   which nothing is heard for the time that its host has promised, or for two minutes if it is
//!   for discovery. One whose computer is gone is dropped within two minutes in any case.
//! - There are at most 256 connections; one more takes the place of one that has ended and is
//!   still there, of the oldest that is no queue, or is dropped at once.
//!
//! Who can reach the address and says an allowed name is let in, unless hosts have to prove
//! who they are ([`crate::Secrets`]); a connection whose host has not yet is no queue. There
//! is no TLS.

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
