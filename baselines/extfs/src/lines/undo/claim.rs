//! Who the blocks of the journal belong to: a feature in the superblock of the block
//! journal, that nobody else knows.
//!
//! While it is there e2fsck, the kernel and the block journal here refuse the file
//! system, of which they would take what is half done for whole.
//!
//! # Invariants
//!
//! - The feature is there from before the first record of a mount until after the last
//!   one is void: records count exactly while it is there.
//! - It goes on after a new epoch has begun, and so finds no record that counts; it goes
//!   off after another one has begun. So a cut between any two steps leaves nothing to
//!   undo.
//! - The superblock of the file system says that there is something to recover for a
//!   part of that time.
//! - It is replaced as a block, which is atomic.

use crate::buffer::BLOCK;
use crate::geometry::MountError;
use crate::jbd2::{Superblock, write_durably};
use host::{BlockPort, Who};
use nand::Payload;
use ssd::IoError;
use std::cell::RefCell;
use std::sync::Arc;
use units::Placement;

/// The superblock of the block journal, which holds nothing.
pub(super) struct Claim {
    block: u64,
    who: Who,
    superblock: RefCell<Superblock>,
}

impl Claim {
    /// That in `bytes`, which are those of `block`.
    pub(super) fn new(block: u64, bytes: &[u8; BLOCK], who: Who) -> Result<Self, MountError> {
        let damaged = MountError::Journal("its superblock is damaged, or of another kind");
        let superblock = Superblock::parse(bytes).map_err(|_| damaged)?;
        // What is in it would be replayed over all that changes from now on.
        if !superblock.is_empty() {
            return Err(MountError::Unrecovered);
        }
        Ok(Self {
            block,
            who,
            superblock: RefCell::new(superblock),
        })
    }

    /// Whether records count.
    pub(super) fn is_made(&self) -> bool {
        self.superblock.borrow().is_lent()
    }

    /// Says that records count, or that they do not, durably when this ends.
    pub(super) async fn set(&self, port: &impl BlockPort, made: bool) -> Result<(), IoError> {
        let bytes = {
            let mut superblock = self.superblock.borrow_mut();
            superblock.lend(made);
            superblock.encode()
        };
        let payload = Payload::Bytes(Arc::from(bytes));
        write_durably(port, (self.block, payload), (Placement(0), self.who)).await
    }
}
