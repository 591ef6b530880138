//! Which transactions have lines of a block, and what these held before.
//!
//! Invariant: what is kept of a line is what it held when its transaction first changed
//! it. All transactions that changed it before are durable by the time that this one is
//! stored, so that is what the medium holds then.

use super::compare::runs;
use crate::buffer::{BLOCK, Buffer};
use ssd::wlog::LINE;
use std::rc::Rc;

/// What a transaction has of a block.
pub(super) struct Owner {
    pub(super) tx: u64,
    pub(super) mask: u64,
    /// The block is new: what is not in the buffer yet counts, too.
    pub(super) new: bool,
    pub(super) copied: bool,
    /// What its lines held before, if that is kept; not of new blocks.
    pub(super) old: Option<Old>,
}

/// What the lines of a block held: those that nobody has asked for are zeros.
type Old = Box<[u8; BLOCK]>;

pub(super) struct Block {
    /// Metadata; none for contents of files.
    pub(super) buffer: Option<Rc<Buffer>>,
    pub(super) owners: Vec<Owner>,
}

impl Owner {
    /// Keeps what lines hold that are about to change for the first time. What a new
    /// block holds nobody wants back.
    pub(super) fn keep_old(&mut self, now: &[u8; BLOCK], mask: u64) {
        if !self.new && mask != 0 {
            copy_lines(self.old.get_or_insert_with(zeros), now, mask);
        }
    }

    /// Takes over what another transaction has of the block: other lines.
    pub(super) fn take_over(&mut self, other: Self) {
        if let Some(old) = other.old {
            copy_lines(self.old.get_or_insert_with(zeros), &old, other.mask);
        }
        self.mask |= other.mask;
        self.new |= other.new;
    }
}

fn zeros() -> Old {
    Box::new([0; BLOCK])
}

/// Copies lines of `from`.
fn copy_lines(to: &mut [u8; BLOCK], from: &[u8; BLOCK], mask: u64) {
    for (first, len) in runs(mask) {
        let bytes = first * LINE..(first + len) * LINE;
        to[bytes.clone()].copy_from_slice(&from[bytes]);
    }
}
