//! Counters of a mounted file system.

/// Counts since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Metadata blocks that the F2FS body wrote.
    pub blocks: u64,
    /// Blocks appended to metadata zones: the body's, chunk pages, and relocations by cleaning.
    pub written: u64,
    /// Chunk pages read because their part of the map was not in memory.
    pub pages_read: u64,
    /// Metadata zones that cleaning has emptied and reset.
    pub zones_cleaned: u64,
    /// Metadata blocks that cleaning relocated.
    pub blocks_moved: u64,
    /// Checkpoints made durable.
    pub checkpoints: u64,
    /// Blocks of those checkpoints, footers and directories included.
    pub checkpoint_blocks: u64,
    /// Checkpoints that went to the other checkpoint zone because the first was full or failed.
    pub switches: u64,
    /// Bytes that the map and the zone table take in memory now.
    pub memory: u64,
}
