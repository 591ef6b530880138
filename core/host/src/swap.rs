//! The swap port: atomic replacement of pages by new versions.
//!
//! A page is 4 KiB. A new version is *staged* beside the old one, and a power cut still
//! leaves the old one. *Publishing* replaces any number of old versions by the staged ones,
//! and changes bytes of other pages, as one atomic step.

use crate::ledger::Who;
use crate::{BlockDevice, BlockPort, RamDisk};
use nand::Payload;
use ssd::IoError;
use std::ops::Range;

/// A change of bytes in adjacent pages, in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageChange {
    /// Number of the first page.
    pub first: u64,
    /// New contents of all the pages.
    pub contents: Vec<Payload>,
    /// Version stamp in the pages: the byte offset of its eight bytes, and their value. If a
    /// recovery finds another value there, the pages have been reused since. None for pages
    /// that always hold the same structure.
    pub stamp: Option<(u32, u64)>,
    /// Byte ranges that differ from the old contents, in rising order.
    pub parts: Vec<Range<usize>>,
    /// Origin and purpose under which the change is booked.
    pub who: Who,
}

/// A port with optional swaps of pages. If [`SwapPort::has_swaps`] is false, callers use no
/// other function of this trait; the defaults are for such ports.
#[allow(async_fn_in_trait, reason = "a simulation is one thread")]
pub trait SwapPort: BlockPort {
    /// Whether the port supports swaps of pages.
    async fn has_swaps(&self) -> bool {
        false
    }

    /// Maximum number of changes, of four pages each, in one publication.
    fn most_changes(&self) -> usize {
        0
    }

    /// Writes new versions of pages that were written before, beside the old versions.
    /// Returns the number of the staged group; None if there is no room now. Reads return
    /// the new versions at once. The caller must not write these pages in another way until
    /// they are published.
    ///
    /// # Errors
    /// If the pages lie past the end, or the device has become read-only.
    async fn stage(&self, _: u64, _: &[Payload], _: Who) -> Result<Option<u64>, IoError> {
        Ok(None)
    }

    /// Drops the staged group of that number; the old versions are valid again.
    fn unstage(&self, _: u64) {}

    /// Makes all earlier writes durable, then atomically replaces old versions by the staged
    /// ones and applies the changes. Versions of one page must be published in the order in
    /// which they were staged.
    ///
    /// # Errors
    /// If the device has become read-only, or there are more changes than
    /// [`SwapPort::most_changes`].
    async fn publish(&self, _: &[u64], _: &[PageChange]) -> Result<(), IoError> {
        Err(IoError::ReadOnly)
    }
}

impl SwapPort for BlockDevice {}

impl SwapPort for RamDisk {}
