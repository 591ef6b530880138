//! Knobs that all members of the family have.

use super::table::LINES;
use crate::geometry::MountError;
use ssd::wlog::LINE;
use units::{Ns, Origin, Placement};

/// How transactions of lines are made, and how contents of files go to the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineOptions {
    /// Whether contents of files are loaded and stored where they lie, by bytes alone,
    /// and blocks of metadata too.
    pub in_place: bool,
    /// Whether a page that is written back is compared with its duplicate, so that it
    /// may go by bytes.
    pub compares: bool,
    /// A page of which fewer than so many of its 64 lines have changed goes by bytes,
    /// and so does a new block of metadata, of which all have.
    pub byte_lines: u32,
    /// Direct requests of up to so many bytes go by bytes; none do without it.
    pub direct_bytes: Option<u64>,
    /// Lines that may be in transactions that are not durable, as reserved by their
    /// handles. Whoever would exceed it waits; what can never fit is refused with
    /// `ENOSPC`.
    pub open_lines: u64,
    /// Handles that one transaction takes in before new ones have to wait until it
    /// is closed.
    pub handles: usize,
    /// Clean blocks of metadata in memory.
    pub cache_blocks: usize,
    /// Whom metadata are booked under.
    pub origin: Origin,
    /// Where the drive shall put blocks of metadata.
    pub placement: Placement,
    /// Time that a core needs to compare a page with its duplicate.
    pub compare: Ns,
}

impl LineOptions {
    /// Whether they can be.
    ///
    /// # Errors
    /// [`MountError::Option`].
    pub fn check(&self) -> Result<(), MountError> {
        // A request may begin and end within a line.
        let request = |bytes: u64| bytes.div_ceil(LINE as u64) + 2;
        let open_lines = self.direct_bytes.map_or(0, request).max(LINES);
        at_least("open_lines", self.open_lines, open_lines)?;
        at_least("handles", self.handles as u64, 1)
    }
}

/// Refuses a value of an option that is less than `least`.
///
/// # Errors
/// [`MountError::Option`].
pub fn at_least(what: &'static str, value: u64, least: u64) -> Result<(), MountError> {
    if value < least {
        return Err(MountError::Option { what, value, least });
    }
    Ok(())
}
