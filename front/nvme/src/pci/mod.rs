//! The way over vfio-user: the controller as a PCIe drive of a virtual machine, whose
//! own `nvme` driver then owns it.
//!
//! # The idea
//!
//! The monitor of a machine connects to a socket ([`Server`]) and says where the memory
//! of its guest is: files, by their descriptors. It passes on what the guest reads and
//! writes of the drive's configuration space (`config`) and registers
//! (`registers`). Queues and data are in the memory of the guest, which is read and
//! written as the files that it is (`guest`); nothing of it is mapped here.
//!
//! One thread of a connection answers messages (`session`) and never waits for the
//! drive; another (`device`) fetches entries, moves data, posts completions and raises
//! interrupts.
//!
//! # Invariants
//!
//! - What a guest or its monitor says is checked before it is believed: addresses lie in
//!   memory that was given, lists end, queues have as many entries as they may. Memory is
//!   taken by limits of ours.
//! - Descriptors that came are read, written or signalled by the threads of their own
//!   connection only: one that blocks is a misfortune of who sent it.
//! - A reset is complete when nothing that was asked for before is under way any more.

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
