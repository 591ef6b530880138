//! Owners of a block: transactions with lines of it, and the old bytes of these lines.
//!
//! Invariant: the old bytes of a line are those at its first change by the transaction.
//! All transactions that changed the line before are durable by the time this one is
//! stored, so the medium holds the same bytes then.

use super::compare::runs;
use crate::buffer::{BLOCK, Buffer};
use ssd::wlog::LINE;
use std::rc::Rc;

/// Lines of a block that belong to one transaction.
pub(super) struct Owner {
    pub(super) tx: u64,
    pub(super) mask: u64,
    /// The block is new: lines not written to the buffer yet count, too.
    pub(super) new: bool,
    pub(super) copied: bool,
    /// Old bytes of its lines, for a strategy that undoes; `None` for new blocks.
    pub(super) old: Option<Old>,
}

/// Old bytes of a block; lines outside the mask of the owner are zeros.
type Old = Box<[u8; BLOCK]>;

pub(super) struct Block {
    /// Buffer of a metadata block; `None` for file contents.
    pub(super) buffer: Option<Rc<Buffer>>,
    pub(super) owners: Vec<Owner>,
}

impl Owner {
    /// Saves the lines `mask` of `now` before their first change. Does nothing for a new
    /// block, which is never rolled back.
    pub(super) fn keep_old(&mut self, now: &[u8; BLOCK], mask: u64) {
        if !self.new && mask != 0 {
            copy_lines(self.old.get_or_insert_with(zeros), now, mask);
        }
    }

    /// Takes over the lines of another transaction, disjoint from those of this one.
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

/// Copies the lines `mask` of `from` to `to`.
fn copy_lines(to: &mut [u8; BLOCK], from: &[u8; BLOCK], mask: u64) {
    for (first, len) in runs(mask) {
        let bytes = first * LINE..(first + len) * LINE;
        to[bytes.clone()].copy_from_slice(&from[bytes]);
    }
}
