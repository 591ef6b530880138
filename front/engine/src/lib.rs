//! What all fronts share: the thread on which a simulation lives, the wall clock
//! that may pace it, and the drive in a file that survives the process.
//!
//! A front translates requests of the outside and knows no other front. What it
//! needs below it that must not be there, threads, a clock and files, is here.
//!
//! - [`Engine`] owns one thread with one kernel and one value that is not shared
//!   with any other thread. Requests reach it as closures, in their order.
//! - [`listen`] opens a socket in the file system; a [`Spare`] file is for who comes when there are
//!   no more.
//! - [`Source`] is a file of the outside, such as a socket, that this thread itself listens to.
//! - [`Output`] is what waits until such a file takes it.
//! - [`Turnstile`] says how often strangers may ask for what takes long.
//! - [`Show`] says whether the addresses of a drive are shown or those of a layer above it
//!   that remaps them.
//! - [`DriveFile`] is a drive's file under a lock, [`Keeper`] keeps it up with a
//!   drive under power, [`Device`] answers requests for bytes out of both.

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
