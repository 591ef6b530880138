//! NAND flash: geometry, timing, cells and their rules, wear and failures.
//!
//! What this crate must not know: a logical address. The spare area holds words
//! whose meaning belongs to the firmware.
//!
//! # The rules of physics
//!
//! - A block is erased as a whole, then its pages are programmed in order, once.
//! - A page that was torn by a power cut, or whose program failed, is unreadable
//!   until its block is erased. A block whose erase was cut must be erased again.
//! - Breaking a rule is an error ([`NandError`]) and changes nothing.
//!
//! # The fault model
//!
//! Contents stay pristine and faults lie over them. Injected by [`Faults`]:
//! programs and erases that fail (the block then belongs out of service), reads
//! that need retries, reads that stay uncorrectable, blocks that are bad from
//! the factory, blocks that wear out. At a power cut, of the operations under
//! way those that a die has begun leave torn pages or half-erased blocks, and
//! those that still wait for their die or their channel leave nothing.
//!
//! # Time
//!
//! A read occupies its die for tR and then its channel for command and data; a
//! program occupies the channel, then the die for tPROG; an erase the channel for
//! its command, then the die for tBERS. The command and address cycles of a read
//! are charged together with its data burst: the latency is the exact sum and
//! the occupancy right, only the order of the two bus uses is not modelled.

mod block;
mod device;
mod faults;
mod geometry;
mod load;
mod media;
mod part;
mod payload;
mod watch;

pub use block::{BlockState, Page};
pub use device::{Counters, Nand, Priority, Program, Ticket};
pub use faults::Faults;
pub use geometry::{BlockId, Geometry, GeometryError, MAX_PLANES, Row};
pub use load::Load;
pub use media::{BlockDelta, BlockImage, BlockImageError, Media, NandError};
pub use part::{PARTS, Part, Timing};
pub use payload::{PART, Partly, Payload, UNIT};
pub use watch::{Spot, Watch};
