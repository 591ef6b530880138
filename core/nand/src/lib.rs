//! NAND flash: geometry, timing, cells and their rules, wear and failures.
//!
//! This crate must not know logical addresses. The spare area holds words whose
//! meaning belongs to the firmware.
//!
//! # The rules of physics
//!
//! - A block is erased as a whole, then its pages are programmed in order, once.
//! - A page torn by a power cut, or by a failed program, is unreadable until its
//!   block is erased. A block half erased by a power cut must be erased again.
//! - An operation that breaks a rule returns an error ([`NandError`]) and changes
//!   nothing.
//!
//! # The fault model
//!
//! Contents stay pristine and faults lie over them. [`Faults`] injects programs and
//! erases that fail (the firmware should then retire the block), reads that need
//! retries, uncorrectable reads, blocks that are bad from the factory, and blocks
//! that wear out. At a power cut, operations that a die has begun leave torn pages
//! or half-erased blocks, and operations that still wait for their die or channel
//! leave no trace.
//!
//! # Time
//!
//! A read occupies its die for tR and then its channel for command and data; a
//! program occupies the channel, then the die for tPROG; an erase the channel for
//! its command, then the die for tBERS. The command and address cycles of a read
//! are charged together with its data burst: latency and occupancy are exact, but
//! the order of the two uses of the bus is not modelled. With
//! [`Nand::read_from_registers`] a read of a page that is in the registers of its die,
//! or is about to be sensed, has no tR of its own.

mod block;
mod device;
mod faults;
mod geometry;
mod load;
mod media;
mod operation;
mod part;
mod past;
mod payload;
mod registers;
mod trace;
mod watch;

pub use block::{BlockState, Page};
pub use device::{Counters, Nand, Priority, Program, Ticket};
pub use faults::Faults;
pub use geometry::{BlockId, Geometry, GeometryError, MAX_PLANES, Row};
pub use load::Load;
pub use media::{BlockDelta, BlockImage, BlockImageError, Media, NandError};
pub use operation::{Firmware, Reading, Report};
pub use part::{PARTS, Part, Timing};
pub use past::{Past, PastBlock};
pub use payload::{PART, Partly, Payload, UNIT};
pub use trace::{Parts, Place, Served, Tracer, Work};
pub use watch::{Spot, Watch};
