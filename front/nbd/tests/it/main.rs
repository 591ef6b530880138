//! A server beside a client that is written down from the specification again.

mod client;
mod hostile;
mod memory;
mod model;
mod programs;
mod server;
mod tls;
