//! Server for the network block device (NBD) protocol: the fixed newstyle handshake,
//! structured replies, and every command.
//!
//! - [`wire`] is the layout of options, requests and replies.
//! - [`Export`] is the interface to served data. [`Drive`] serves a drive of the engine.
//! - [`Server`] accepts and serves clients on the thread of the drive. No thread is woken for a
//!   request or an answer, and requests that arrive together are handled together.
//!
//! # Invariants
//!
//! - Invalid input costs the client at most its connection. A length that it names is checked
//!   against a limit before memory is allocated for it. Requests and their answers hold a
//!   bounded amount of memory in total ([`TOTAL`]), each client has a guaranteed share
//!   ([`FLOOR`]), and the requests in flight of one client are bounded ([`UNDER_WAY`]).
//! - Each request is answered once, also if the drive has stopped, unless its connection ends
//!   first.
//! - A write is answered when the drive has acknowledged it; a flush or a write with FUA when
//!   it is durable. All connections share one drive, so a flush on one covers the writes of all.
//!
//! Access is controlled by the address (a socket in the file system, or the loopback interface
//! unless another address is given) and by the certificates of [`Tls`], if it is used.

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
