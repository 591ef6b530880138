//! The block port: what a file system or a layer that moves addresses asks for.
//!
//! A layer that changes addresses is a port over a port, so whatever is written
//! against the trait runs over a drive, over such a layer, and over
//! [`crate::RamDisk`] alike.

use crate::cores::Computing;
use crate::ledger::Who;
use crate::{BlockDevice, QueuePair};
use ssd::{Content, IoError, Sink};
use units::{Bytes, Extent, Ns, Placement, SECTOR};

/// Something that is read and written in sectors.
#[allow(async_fn_in_trait, reason = "a simulation is one thread")]
pub trait BlockPort: Clone + 'static {
    /// Size.
    fn capacity(&self) -> Bytes;

    /// Number of placement handles; 1 where data cannot be told apart.
    fn handles(&self) -> u16;

    /// Reads `extent` into `sink`.
    ///
    /// # Errors
    /// Past the end, or if the medium fails.
    async fn read(&self, extent: Extent, sink: &mut impl Sink, who: Who) -> Result<(), IoError>;

    /// Writes `content` to `extent`. It is durable once a later flush has ended,
    /// or at once with `fua`.
    ///
    /// # Errors
    /// Past the end, or if nothing can be written any more.
    async fn write(
        &self,
        extent: Extent,
        content: Content<'_>,
        placement: Placement,
        who: Who,
        fua: bool,
    ) -> Result<(), IoError>;

    /// Deallocates `extent`, which then reads as zeros or as it was before.
    ///
    /// # Errors
    /// Past the end.
    async fn trim(&self, extent: Extent) -> Result<(), IoError>;

    /// Makes every completed write durable. Nothing is sent to a drive that says it
    /// has no volatile write cache, as Linux does.
    ///
    /// # Errors
    /// If nothing can be written any more and a command was sent.
    async fn flush(&self) -> Result<(), IoError>;

    /// Keeps the core of the current task busy for `span`, once it has done what
    /// was asked of it before.
    fn compute(&self, span: Ns) -> Computing;
}

/// Deallocates all of `port`, as makers of file systems do by default before they write.
///
/// # Errors
/// If the port refuses it.
pub async fn deallocate(port: &impl BlockPort) -> Result<(), IoError> {
    // Sectors of one command: as many as an extent can have, in whole blocks of 4,096 bytes.
    const MOST: u64 = u32::MAX as u64 & !7;
    let (mut start, end) = (0, port.capacity().0 / SECTOR);
    while start < end {
        let sectors = (end - start).min(MOST);
        port.trim(Extent::new(start, sectors as u32)).await?;
        start += sectors;
    }
    Ok(())
}

impl BlockDevice {
    /// The queue pair of the core that the current task runs on. Tasks are
    /// spread over the cores by their numbers.
    #[must_use]
    pub fn here(&self) -> QueuePair {
        self.queue(self.current())
    }
}

impl BlockPort for BlockDevice {
    fn capacity(&self) -> Bytes {
        let sectors = self.drive().capacity().0 / SECTOR;
        Bytes(sectors * SECTOR)
    }

    fn handles(&self) -> u16 {
        let placements = &self.drive().config().placement;
        match self.drive().config().interface {
            ssd::Interface::Block | ssd::Interface::Zoned => 1,
            _ => placements.handles.saturating_mul(placements.reclaim_groups),
        }
    }

    async fn read(&self, extent: Extent, sink: &mut impl Sink, who: Who) -> Result<(), IoError> {
        self.here().read(extent, sink, who).await
    }

    async fn write(
        &self,
        extent: Extent,
        content: Content<'_>,
        placement: Placement,
        who: Who,
        fua: bool,
    ) -> Result<(), IoError> {
        let queue = self.here();
        queue.write(extent, content, placement, who, fua).await
    }

    async fn trim(&self, extent: Extent) -> Result<(), IoError> {
        self.here().trim(extent).await
    }

    async fn flush(&self) -> Result<(), IoError> {
        if self.drive().has_volatile_cache() {
            self.here().flush().await?;
        }
        Ok(())
    }

    fn compute(&self, span: Ns) -> Computing {
        self.occupy(self.current(), span)
    }
}
