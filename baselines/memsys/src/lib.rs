//! A computer's memory system: cores, caches, DRAM, an operating system, and the link
//! to memory that lies on a drive.

mod far;
mod op;

pub use far::{Far, FarEvent, Line, LineData, ReadReply, Tag};
pub use op::{Op, Program};
