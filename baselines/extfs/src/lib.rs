//! The extent file system, in the on-disk format of ext4.
//!
//! The **body** knows the format: superblock, groups, bitmaps, inodes, extents,
//! directories. How a change of it persists is a **strategy** ([`Persist`]) that
//! the body takes as a parameter: the block journal of ext4 is one; byte-granular
//! journals and transactions in firmware are others. So the body never touches a
//! medium, and nothing but the strategy knows whether it has blocks.
//!
//! # Invariants
//!
//! - Every change of metadata is a range of bytes of a [`Buffer`], made by
//!   [`Persist::write`] within a transaction.
//! - What a transaction frees is not used again before it is durable.

mod buffer;
pub mod jbd2;
mod persist;

pub use buffer::{BLOCK, Buffer};
pub use persist::{DataWrite, Persist, Run, TxId};
