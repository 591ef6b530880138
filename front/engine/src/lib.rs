//! Runtime shared by all fronts: the thread of a simulation, the wall clock that may pace it, and
//! the drive in a file that survives the process.
//!
//! A front translates requests of clients and knows no other front. Threads, clocks and files,
//! which layers below must not use, are confined to this crate.
//!
//! - [`Engine`] owns one thread with one kernel and one value that no other thread shares. Requests
//!   reach the thread as closures, in the order sent.
//! - [`listen`] opens a socket in the file system; a [`Spare`] descriptor lets a server reject a
//!   connection when the process has no descriptors left.
//! - [`Source`] is a socket or other file that the thread polls itself.
//! - [`Output`] buffers bytes until such a file takes them.
//! - [`Turnstile`] limits the rate of expensive requests of unauthenticated clients.
//! - [`Show`] selects the addresses that clients see: those of the drive, or of a remapping layer
//!   above it.
//! - [`DriveFile`] is a drive's file under a lock, [`Keeper`] keeps the file consistent with a
//!   powered drive, [`Device`] serves requests for bytes from both.

mod device;
mod exits;
mod faults;
mod file;
mod keeper;
mod lateness;
mod output;
mod pacer;
mod process;
mod ranges;
mod reactor;
mod socket;
mod surface;
mod thread;
mod turnstile;

pub use device::{Device, DeviceEngine, Fault, Medium};
pub use faults::Injected;
pub use file::{Access, DriveFile, FileError};
pub use keeper::Keeper;
pub use lateness::Late;
pub use output::Output;
pub use pacer::Pace;
pub use process::{Signals, leave_terminal};
pub use reactor::{Caller, Next, Source};
pub use socket::{Spare, is_socket, listen};
pub use surface::Show;
pub use thread::{Desk, Engine, Gone, Handle, Service, finish};
pub use turnstile::Turnstile;
