//! The host between a program and its drive: processor, queues and link.
//!
//! # The life of a command
//!
//! A core builds the command and rings the doorbell; the controller fetches the
//! command, and the data of a write, over the link; the drive executes the command;
//! the data of a read and the completion return over the link; the handler of an
//! interrupt, or a polling core, processes the completion.
//!
//! # Invariants
//!
//! - The latency of a command on an idle machine is the sum of the parts that
//!   [`Parts`] lists, to the nanosecond.
//! - Cores and both directions of the link serve in order of arrival, and a
//!   reservation is made at the moment of arrival. A core that loads from a
//!   memory-mapped drive is held until the data arrive.
//! - The ledger counts a command's traffic when the command has succeeded, so it
//!   agrees with the drive's own count.
//!
//! This crate knows no mapping and no file, and a command costs no allocation.

mod byte_device;
mod bytes;
mod config;
mod cores;
mod device;
mod disk;
mod image;
mod ledger;
mod linear;
mod link;
mod packing;
mod pass;
mod pm;
mod port;
mod ram;
mod raw;
mod request;
mod swap;
mod trace;
mod zoned;

pub use byte_device::Posted;
pub use bytes::BytePort;
pub use config::{ByteAccess, Completion, Cpu, HostConfig, HostError, Queues};
pub use cores::Computing;
pub use device::{BlockDevice, Busy, Parts, QueuePair};
pub use disk::{BlockCalls, ByteCalls, ByteDisk, Disk, SwapCalls, SwapDisk, ZoneCalls, ZoneDisk};
pub use image::Image;
pub use ledger::{Grain, Ledger, Purpose, Traffic, Who};
pub use linear::Linear;
pub use link::{Direction, Link};
pub use packing::Packing;
pub use pm::{Pm, PmConfig, PmError, PmMedia, PmWatch, Region, Regions};
pub use port::{BlockPort, deallocate};
pub use ram::{RamDisk, RamZones, ZoneAtRest, ZonesAtRest};
pub use raw::{RawDevice, RawMark, RawPort};
pub use request::Request;
pub use swap::{PageChange, SwapPort};
pub use trace::TracedCommand;
#[doc(hidden)]
pub use units::pass_on;
pub use zoned::{DrivePort, ZonedDevice, ZonedPort};
