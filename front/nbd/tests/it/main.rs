//! The server against a client written independently from the specification.

mod client;
mod hostile;
mod memory;
mod model;
mod programs;
mod server;
mod tls;
