//! The block port: the interface between a file system, or a layer that remaps
//! addresses, and the device below.
//!
//! A layer that remaps addresses is a port over a port, so code against the trait
//! runs over a drive, over such a layer, and over [`crate::RamDisk`] alike.

use crate::cores::Computing;
use crate::ledger::Who;
use crate::{BlockDevice, QueuePair};
use ssd::{Content, IoError, Sink};
use units::{Bytes, Extent, Ns, Placement, SECTOR};

/// A device that is read and written in sectors of 512 bytes. Clones share the device.
#[allow(async_fn_in_trait, reason = "a simulation is one thread")]
pub trait BlockPort: Clone + 'static {
    /// Size of the device in bytes, a whole number of sectors.
    fn capacity(&self) -> Bytes;

    /// Number of placement handles; 1 if the device does not separate data.
    fn handles(&self) -> u16;

    /// Reads `extent` into `sink`.
    ///
    /// # Errors
    /// If `extent` ends past the device, or the medium fails.
    async fn read(&self, extent: Extent, sink: &mut impl Sink, who: Who) -> Result<(), IoError>;

    /// Writes `content` to `extent`. The data are durable once a later flush has
    /// ended, or on completion with `fua`.
    ///
    /// # Errors
    /// If `extent` ends past the device, or the device has become read-only.
    async fn write(
        &self,
        extent: Extent,
        content: Content<'_>,
        placement: Placement,
        who: Who,
        fua: bool,
    ) -> Result<(), IoError>;

    /// Deallocates `extent`, which then reads as zeros or as its old contents.
    ///
    /// # Errors
    /// If `extent` ends past the device.
    async fn trim(&self, extent: Extent) -> Result<(), IoError>;

    /// Makes every completed write durable. Like Linux, the host sends no command to a
    /// drive that reports no volatile write cache.
    ///
    /// # Errors
    /// If the device has become read-only and a command was sent.
    async fn flush(&self) -> Result<(), IoError>;

    /// Requests `span` of processor time of the current task's core, behind the work
    /// that the core already has.
    fn compute(&self, span: Ns) -> Computing;
}

/// Deallocates all of `port`, as makers of file systems do by default before they write.
///
/// # Errors
/// If the port refuses it.
pub async fn deallocate(port: &impl BlockPort) -> Result<(), IoError> {
    // Sectors of one command: the maximum of an extent, in whole blocks of 4,096 bytes.
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
    /// The queue pair of the current task; task numbers spread tasks over the queue
    /// pairs.
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
