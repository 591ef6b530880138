//! Options shared by all strategies that persist cache lines.

use super::table::LINES;
use crate::geometry::MountError;
use ssd::wlog::LINE;
use units::{Ns, Origin, Placement};

/// Limits of transactions of cache lines, and choice of interface for file contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineOptions {
    /// Whether file contents and metadata are loaded and stored in place, by bytes alone.
    pub in_place: bool,
    /// Whether write-back compares a page with its duplicate, so that a small change may
    /// go by bytes.
    pub compares: bool,
    /// A page with fewer changed cache lines than this, of 64, goes by bytes. A new block
    /// of metadata counts as 64 changed lines.
    pub byte_lines: u32,
    /// Largest direct request, in bytes, that goes by bytes; `None`: all go by blocks.
    pub direct_bytes: Option<u64>,
    /// Bound on cache lines in transactions that are not durable, counted as reserved by handles. A
    /// handle that would exceed it waits; a handle that can never fit fails with `ENOSPC`.
    pub open_lines: u64,
    /// Handles per transaction; further handles wait until it is closed.
    pub handles: usize,
    /// Age at which a transaction commits without a force; `None`: it commits once it is closed, and
    /// calls that change names or attributes wait for that.
    pub commit_interval: Option<Ns>,
    /// Bound on clean blocks of metadata in memory.
    pub cache_blocks: usize,
    /// Origin to which requests for metadata are attributed.
    pub origin: Origin,
    /// Placement handle of writes of metadata blocks.
    pub placement: Placement,
    /// Processor time to compare a page with its duplicate.
    pub compare: Ns,
}

impl LineOptions {
    /// Checks that every handle of the body and every direct request can fit.
    ///
    /// # Errors
    /// [`MountError::Option`] if `open_lines` or `handles` is too small.
    pub fn check(&self) -> Result<(), MountError> {
        // A request may begin and end within a line.
        let request = |bytes: u64| bytes.div_ceil(LINE as u64) + 2;
        let open_lines = self.direct_bytes.map_or(0, request).max(LINES);
        at_least("open_lines", self.open_lines, open_lines)?;
        at_least("handles", self.handles as u64, 1)
    }
}

/// Checks that the option `what` is at least `least`.
///
/// # Errors
/// [`MountError::Option`] with the value and its minimum.
pub fn at_least(what: &'static str, value: u64, least: u64) -> Result<(), MountError> {
    if value < least {
        return Err(MountError::Option { what, value, least });
    }
    Ok(())
}
