//! A drive for clients of the network block device: the fixed newstyle handshake,
//! structured replies, and every command.
//!
//! - [`wire`] is what the bytes mean: options, requests, replies.
//! - [`Export`] is what is served. [`Drive`] is a drive of the engine.
//! - [`serve_client`] is one client over any stream; [`Server`] listens for them.
//!
//! # Invariants
//!
//! - What a client sends can cost it its connection, and nothing else: no length that it
//!   names is allocated before it was checked against a limit, and what its requests and
//!   the answers to them hold is bounded for each connection ([`BUDGET`]).
//! - A request is answered once, also if the drive is gone.
//! - An answer to a write is given when the drive promises it, and one to a flush, or to a
//!   write that is forced, when it is durable. All connections are to the same drive, so a
//!   flush on one of them is one for all.
//!
//! There is no TLS: who may connect is decided by the address, which is a socket in the file
//! system, or this machine unless another address is named.

mod drive;
mod export;
mod server;
mod session;
pub mod wire;

pub use drive::Drive;
pub use export::{Answer, Done, Export, Job, Piece, Refusal};
pub use server::{Address, AddressError, CLIENTS_MAX, Server, Stream};
pub use session::{BUDGET, serve_client};
