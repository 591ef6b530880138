//! What is counted.

/// Counts since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Blocks of metadata that the body wrote.
    pub blocks: u64,
    /// Blocks that were written for them, with chunk pages and what cleaning moved.
    pub written: u64,
    /// Chunk pages that were read because their part was not in memory.
    pub pages_read: u64,
    /// Zones of metadata that were emptied, and blocks that were moved out of them.
    pub zones_cleaned: u64,
    /// Blocks of metadata that cleaning moved.
    pub blocks_moved: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Blocks of checkpoints.
    pub checkpoint_blocks: u64,
    /// Changes to the other zone of checkpoints.
    pub switches: u64,
    /// Bytes of the structures in memory.
    pub memory: u64,
}
