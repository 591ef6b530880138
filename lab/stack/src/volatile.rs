//! A volatile write cache in front of a drive, emptied in any order: of two writes without a flush
//! between them, either may be the one that a power cut loses.
//!
//! A simulated drive empties its own buffer in order, and a forced write makes all earlier writes
//! durable. The block interface promises neither, so a file system that forgets a flush survives
//! every cut of that drive. Behind this cache it does not.
//!
//! Invariants: the held writes do not overlap. Commands take turns, so no held write reaches the
//! drive after a newer write of the same sectors.

use host::{BlockDevice, BlockPort, Who};
use nand::Payload;
use sim::{Lock, Rng, Sim};
use ssd::{Content, IoError};
use units::{Extent, Placement};

/// After each write, one held write goes to the drive with a chance of one in so many. Our own
/// choice: a write stays for a few others, so that a later one often overtakes it.
const EVICTED_IN: u64 = 8;

/// The cache of one powered drive.
pub(crate) struct Volatile(Lock<Held>);

struct Held {
    rng: Rng,
    writes: Vec<Write>,
}

struct Write {
    extent: Extent,
    content: Kept,
    placement: Placement,
    who: Who,
}

/// Content of a held write.
enum Kept {
    Nothing,
    Fill(u64),
    Bytes(Vec<u8>),
    Sectors(Vec<Payload>),
}

impl Kept {
    fn of(content: Content<'_>) -> Self {
        match content {
            Content::Nothing => Self::Nothing,
            Content::Fill(pattern) => Self::Fill(pattern),
            Content::Bytes(bytes) => Self::Bytes(bytes.to_vec()),
            Content::Sectors(sectors) => Self::Sectors(sectors.to_vec()),
        }
    }

    fn content(&self) -> Content<'_> {
        match self {
            Self::Nothing => Content::Nothing,
            Self::Fill(pattern) => Content::Fill(*pattern),
            Self::Bytes(bytes) => Content::Bytes(bytes),
            Self::Sectors(sectors) => Content::Sectors(sectors),
        }
    }
}

impl Held {
    async fn evict(&mut self, device: &BlockDevice, index: usize) -> Result<(), IoError> {
        let write = self.writes.swap_remove(index);
        let (content, placement) = (write.content.content(), write.placement);
        let written = device.write(write.extent, content, placement, write.who, false);
        written.await
    }

    /// Writes the held writes that overlap `extent` to the drive.
    async fn settle(&mut self, device: &BlockDevice, extent: Extent) -> Result<(), IoError> {
        let overlaps =
            |held: &Write| held.extent.start.0 < extent.end() && extent.start.0 < held.extent.end();
        while let Some(index) = self.writes.iter().position(overlaps) {
            self.evict(device, index).await?;
        }
        Ok(())
    }
}

impl Volatile {
    /// An empty cache; `rng` chooses the writes that leave it early.
    pub(crate) fn new(sim: &Sim, rng: Rng) -> Self {
        let writes = Vec::new();
        Self(Lock::new(sim, Held { rng, writes }))
    }

    /// Holds a write back, or passes it on if it is forced.
    pub(crate) async fn write(
        &self,
        device: &BlockDevice,
        extent: Extent,
        content: Content<'_>,
        (placement, who, fua): (Placement, Who, bool),
    ) -> Result<(), IoError> {
        let mut held = self.0.lock().await;
        held.settle(device, extent).await?;
        if fua {
            return device.write(extent, content, placement, who, true).await;
        }
        held.writes.push(Write {
            extent,
            content: Kept::of(content),
            placement,
            who,
        });
        if held.rng.below(EVICTED_IN) == 0 {
            let most = held.writes.len() as u64;
            let index = held.rng.below(most) as usize;
            held.evict(device, index).await?;
        }
        Ok(())
    }

    /// Writes what is held of `extent` to the drive, before a command that passes by.
    pub(crate) async fn settle(&self, device: &BlockDevice, extent: Extent) -> Result<(), IoError> {
        self.0.lock().await.settle(device, extent).await
    }

    /// Writes all to the drive, in any order.
    pub(crate) async fn empty(&self, device: &BlockDevice) -> Result<(), IoError> {
        let mut held = self.0.lock().await;
        while !held.writes.is_empty() {
            let most = held.writes.len() as u64;
            let index = held.rng.below(most) as usize;
            held.evict(device, index).await?;
        }
        Ok(())
    }
}
