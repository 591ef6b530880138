//! Pasts: blocks written before the run, as functions.
//!
//! A drive that starts full would need its spare words in memory before the first operation. A past
//! computes them instead. A block takes memory from the first program or erase that changes it.

use crate::block::BlockState;
use crate::geometry::BlockId;
use std::any::Any;
use std::fmt::Debug;
use std::panic::RefUnwindSafe;

/// State of a block in a past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastBlock {
    /// `Erased`, `Written` or `Bad`.
    pub state: BlockState,
    /// Number of programmed pages, in whole programs; all of them can be read and hold zeros.
    pub written: u32,
    /// Label of the block, if it is written.
    pub label: u64,
}

/// All blocks of a drive at the start of a run, none of them erased so far. The functions are pure.
pub trait Past: Any + Debug + RefUnwindSafe + Send + Sync {
    /// State of a block.
    fn block(&self, id: BlockId) -> PastBlock;

    /// Stamp of a program of a written block, counted from the start of the block.
    fn stamp(&self, id: BlockId, program: u32) -> u64;

    /// One spare word of a written page.
    fn word(&self, id: BlockId, page: u32, word: u32) -> u32;
}
