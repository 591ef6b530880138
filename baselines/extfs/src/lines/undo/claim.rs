//! The claim of the undo journal on the blocks of the block journal: a feature in the
//! superblock of the block journal that is defined by this crate alone.
//!
//! While the feature is set, e2fsck, the kernel and the block journal of this crate
//! refuse the file system: they would use it with half of a transaction in place.
//!
//! # Invariants
//!
//! - The feature is set before the first record of a mount is stored and cleared after
//!   the last record is void: records are valid only while it is set.
//! - A mount sets the feature after a new epoch has begun, when no record is valid; an
//!   unmount clears it after another epoch has begun. So a power cut between any two
//!   of these steps leaves nothing to undo.
//! - The superblock of the file system demands recovery (`needs_recovery`) for a part of
//!   that time only.
//! - The superblock of the journal is written as a block, which is atomic.

use crate::buffer::BLOCK;
use crate::geometry::MountError;
use crate::jbd2::{Superblock, write_durably};
use host::{Disk, Who};
use nand::Payload;
use ssd::IoError;
use std::cell::RefCell;
use std::sync::Arc;
use units::Placement;

/// The superblock of the block journal, whose log is empty.
pub(super) struct Claim {
    block: u64,
    who: Who,
    superblock: RefCell<Superblock>,
}

impl Claim {
    /// Reads the claim from `bytes`, the contents of the superblock's `block`.
    ///
    /// # Errors
    ///
    /// If the superblock is damaged or its log is not empty.
    pub(super) fn new(block: u64, bytes: &[u8; BLOCK], who: Who) -> Result<Self, MountError> {
        let damaged = MountError::Journal("its superblock is damaged, or of another kind");
        let superblock = Superblock::parse(bytes).map_err(|_| damaged)?;
        // A later replay of the log would overwrite all changes of this mount.
        if !superblock.is_empty() {
            return Err(MountError::Unrecovered);
        }
        Ok(Self {
            block,
            who,
            superblock: RefCell::new(superblock),
        })
    }

    /// Whether the claim is set, so that records are valid.
    pub(super) fn is_made(&self) -> bool {
        self.superblock.borrow().is_lent()
    }

    /// Sets or clears the claim; the change is durable on return.
    pub(super) async fn set(&self, port: &Disk, made: bool) -> Result<(), IoError> {
        let bytes = {
            let mut superblock = self.superblock.borrow_mut();
            superblock.lend(made);
            superblock.encode()
        };
        let payload = Payload::Bytes(Arc::from(bytes));
        write_durably(port, (self.block, payload), (Placement(0), self.who)).await
    }
}
