//! Transport over vfio-user: the controller is a PCIe drive of a virtual machine, driven by the
//! guest's own `nvme` driver.
//!
//! # The idea
//!
//! The monitor of a machine connects to a socket ([`Server`]) and shares the guest's memory as
//! file descriptors. It forwards the guest's accesses to the drive's configuration space
//! (`config`) and registers (`registers`). Queues and data are in the guest's memory, which is
//! accessed by reads and writes of the files (`guest`) and never mapped.
//!
//! A connection has two threads. One answers messages (`session`) and waits for the other only
//! in a device reset. The other (`device`) fetches entries, moves data, posts completions and
//! raises interrupts.
//!
//! # Invariants
//!
//! - Input of a guest or its monitor is validated: addresses must lie in mapped memory, lists
//!   are finite, and queues have at most the allowed entries. Our own limits bound memory use.
//! - Only the threads of a connection access the descriptors that it received, so a descriptor
//!   that blocks harms only its sender.
//! - A reset is complete when no earlier command is in flight.

mod config;
mod device;
mod guest;
mod manage;
mod message;
mod pointer;
mod queues;
mod registers;
mod server;
mod session;
mod socket;

pub(crate) use config::VENDOR;
pub use server::Server;
