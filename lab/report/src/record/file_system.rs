//! What a file system says of itself in a record.

use serde::{Deserialize, Serialize};

/// A file system at the end of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSystem {
    /// Bytes that files can fill, what is in use included.
    pub usable_bytes: u64,
    /// Those of them that are in use.
    pub used_bytes: u64,
    /// What one that is laid out as a log counts.
    pub log: Option<LogFacts>,
    /// What one of trees that are copied on write counts.
    pub trees: Option<TreeFacts>,
    /// Pieces of the drive that its files lie in, of one that tells.
    pub extents: Option<Extents>,
    /// What a mapping counts that exchanges pages for it.
    #[serde(default)]
    pub swaps: Option<SwapFacts>,
}

/// A mapping in persistent memory that exchanges pages and keeps changes of nodes: over the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwapFacts {
    /// Publications.
    pub published: u64,
    /// Sectors of 4 KiB that were written to spare places.
    pub staged: u64,
    /// Those of them that took the place of what was there.
    pub exchanged: u64,
    /// Batches that were refused for lack of spare sectors.
    pub refused: u64,
    /// Publications that waited for room in the journal of nodes.
    pub waits: u64,
}

/// Pieces of the drive that files lie in at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extents {
    /// Files that have any.
    pub files: u64,
    /// All of them, as the file system keeps them.
    #[serde(default)]
    pub pieces: u64,
    /// The same where two that follow each other in the file and on the drive are one.
    pub total: u64,
    /// Those of the file that has the most of these.
    pub most: u64,
}

/// Nodes of 16 KiB, by the trees of a file system that they are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nodes {
    /// All of them.
    pub all: u64,
    /// The tree that leads to the others.
    pub roots: u64,
    /// Extents and who refers to them.
    pub extents: u64,
    /// Chunks, and where they are on the drive.
    pub chunks: u64,
    /// Files and directories.
    pub files: u64,
    /// Sums of contents.
    pub checksums: u64,
    /// What was forced since the last commit.
    pub logs: u64,
}

/// A file system of trees that are copied on write: over the run, but for levels, which are
/// those at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeFacts {
    /// Commits.
    pub commits: u64,
    /// Forces that made a commit.
    pub forced_commits: u64,
    /// Forces that a log was enough for.
    pub logged_forces: u64,
    /// Nodes that were copied because they had to change.
    pub copied: Nodes,
    /// Nodes that were changed in their place.
    pub changed: Nodes,
    /// Nodes that were split.
    pub split: Nodes,
    /// Nodes that were written to new places.
    pub written: Nodes,
    /// Nodes of which a publication had what is changed in their place, once for each.
    #[serde(default)]
    pub handed: Nodes,
    /// Bytes of these changes in a journal in persistent memory.
    #[serde(default)]
    pub journaled_bytes: u64,
    /// Nodes that were written in their places, some time after.
    #[serde(default)]
    pub written_back: u64,
    /// Pages of contents that were written to new places.
    pub copied_pages: u64,
    /// Pages of contents that were written in their place.
    pub replaced_pages: u64,
    /// Levels of the tree of files.
    pub files_levels: u64,
    /// Levels of the tree of extents.
    pub extents_levels: u64,
    /// Levels of the tree of sums.
    pub checksums_levels: u64,
}

/// A file system that is laid out as a log: over the run, but for what it holds at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogFacts {
    /// Bytes of its tables in memory: what leads to nodes, segments and blocks of tables.
    pub memory_bytes: u64,
    /// Cleaning that a change waited for.
    pub foreground: Cleaning,
    /// Cleaning while nobody changed anything.
    pub background: Cleaning,
    /// Cleaning of zones that hold tables.
    pub metadata: Cleaning,
    /// Checkpoints that were written.
    pub checkpoints: u64,
}

/// Sections or zones of a file system that were emptied by the file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cleaning {
    /// How many.
    pub calls: u64,
    /// Bytes that were moved out of them.
    pub moved_bytes: u64,
    /// Virtual time that moving them took; 0 where it is not measured, and in older records.
    #[serde(default)]
    pub time_ns: u64,
}
