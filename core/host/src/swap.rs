//! The swap port: pages whose new versions are taken into use at one instant.
//!
//! A page is 4 KiB. A new version is *staged* beside the old one, which stays what a power
//! cut leaves; *publishing* puts any number of versions in the places of the old ones, and
//! changes bytes of other pages, as a whole.

use crate::ledger::Who;
use crate::{BlockDevice, BlockPort, RamDisk};
use nand::Payload;
use ssd::IoError;
use std::ops::Range;

/// Bytes of pages that change; the pages stay where they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageChange {
    /// The first of the pages.
    pub first: u64,
    /// All that they hold from then on.
    pub contents: Vec<Payload>,
    /// A byte of theirs from which on eight say which version of what they hold, and what
    /// these are. If they are others at a recovery, something else is there by now. None
    /// for pages that always hold the same thing.
    pub stamp: Option<(u32, u64)>,
    /// Bytes that differ from before, in rising order.
    pub parts: Vec<Range<usize>>,
    /// Whom they are booked under.
    pub who: Who,
}

/// A port that may swap pages. What has none of it says so by [`SwapPort::has_swaps`], and
/// is asked for nothing else.
#[allow(async_fn_in_trait, reason = "a simulation is one thread")]
pub trait SwapPort: BlockPort {
    /// Whether pages can be swapped.
    async fn has_swaps(&self) -> bool {
        false
    }

    /// Changes of four pages each that can be published at once.
    fn most_changes(&self) -> usize {
        0
    }

    /// Writes new versions of pages that were written before, beside them, and gives the
    /// number that they are called by; none if there is no room for them now. They are read
    /// at once. Nobody writes these pages otherwise until they are published.
    ///
    /// # Errors
    /// Past the end, or if nothing can be written any more.
    async fn stage(&self, _: u64, _: &[Payload], _: Who) -> Result<Option<u64>, IoError> {
        Ok(None)
    }

    /// Gives up what was staged: what was there before is there again.
    fn unstage(&self, _: u64) {}

    /// Makes all that was written so far durable, and then, as a whole, takes what was
    /// staged into use and changes pages. Versions of one page are published in the order in
    /// which they were staged.
    ///
    /// # Errors
    /// If nothing can be written any more, or there are more changes than
    /// [`SwapPort::most_changes`].
    async fn publish(&self, _: &[u64], _: &[PageChange]) -> Result<(), IoError> {
        Err(IoError::ReadOnly)
    }
}

impl SwapPort for BlockDevice {}

impl SwapPort for RamDisk {}
