//! A drive for clients of the network block device: the fixed newstyle handshake,
//! structured replies, and every command.
//!
//! - [`wire`] is the layout of options, requests and replies.
//! - [`Export`] is the interface to served data. [`Drive`] serves a drive of the engine.
//! - [`Server`] listens for clients, and to them: all of it happens on the thread of the
//!   drive, so that no thread has to be woken for a request or for an answer, and what comes
//!   together goes through together.
//!
//! # Invariants
//!
//! - What a client sends can cost it its connection, and nothing else: no length that it
//!   names is allocated before it was checked against a limit, and what requests and the
//!   answers to them hold is bounded for all of them ([`TOTAL`]) without one getting in the
//!   way of another ([`FLOOR`]), and so is what of one is under way ([`UNDER_WAY`]).
//! - Each request is answered once, also if the drive has stopped.
//! - An answer to a write is given when the drive promises it, and one to a flush, or to a
//!   write that is forced, when it is durable. All connections are to the same drive, so a
//!   flush on one of them is one for all.
//!
//! Access is controlled by the address (a socket in the file system, or this machine unless another
//! address is given) and by the certificates of [`Tls`], if there are any.

mod connection;
mod drive;
mod export;
mod pool;
mod server;
mod session;
mod tls;
pub mod wire;

pub use connection::UNDER_WAY;
pub use drive::Drive;
pub use export::{Answer, Done, Export, Job, PIECES_MAX, Piece, Refusal};
pub use pool::{FLOOR, TOTAL};
pub use server::{Address, AddressError, CLIENTS_MAX, Server};
pub use tls::{Tls, TlsError};
