//! Facts of a file system in a record.

use serde::{Deserialize, Serialize};

/// The state of a file system at the end of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSystem {
    /// Bytes that files can fill, used ones included.
    pub usable_bytes: u64,
    /// Bytes in use, of `usable_bytes`.
    pub used_bytes: u64,
    /// Counters of a log-structured file system.
    pub log: Option<LogFacts>,
    /// Counters of a file system of copy-on-write trees.
    pub trees: Option<TreeFacts>,
    /// Pieces of the drive that hold the files, for file systems that report them.
    pub extents: Option<Extents>,
    /// Counters of a mapping that publishes writes by exchanging pages.
    #[serde(default)]
    pub swaps: Option<SwapFacts>,
}

/// A mapping in persistent memory that exchanges pages and journals changes of nodes. Counters
/// cover the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwapFacts {
    /// Batches of changes published.
    pub published: u64,
    /// Sectors of 4 KiB written to spare places.
    pub staged: u64,
    /// Staged sectors that replaced the old ones when they were published.
    pub exchanged: u64,
    /// Batches refused because spare sectors ran out.
    pub refused: u64,
    /// Publications that waited for space in the journal of nodes.
    pub waits: u64,
}

/// The pieces of the drive that hold files at the end of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extents {
    /// Files with at least one piece.
    pub files: u64,
    /// Pieces as the file system records them.
    #[serde(default)]
    pub pieces: u64,
    /// Pieces after merging neighbours that are adjacent both in the file and on the drive.
    pub total: u64,
    /// Merged pieces of the most fragmented file.
    pub most: u64,
}

/// Numbers of 16 KiB tree nodes, by the tree that they belong to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nodes {
    /// Nodes of all trees.
    pub all: u64,
    /// Nodes of the root tree, which points to the other trees.
    pub roots: u64,
    /// Nodes of the extent tree, with the references to each extent.
    pub extents: u64,
    /// Nodes of the chunk tree: chunks and their places on the drive.
    pub chunks: u64,
    /// Nodes of the tree of files and directories.
    pub files: u64,
    /// Nodes of the tree of content checksums.
    pub checksums: u64,
    /// Nodes of the log trees, which hold what was forced since the last commit.
    pub logs: u64,
}

/// A file system of copy-on-write trees. Counters cover the run; levels are those at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeFacts {
    /// Number of commits in the run.
    pub commits: u64,
    /// Forces (fsync) that caused a commit.
    pub forced_commits: u64,
    /// Forces (fsync) that only wrote a log tree.
    pub logged_forces: u64,
    /// Nodes copied because they had to change.
    pub copied: Nodes,
    /// Nodes changed in place.
    pub changed: Nodes,
    /// Nodes that were split.
    pub split: Nodes,
    /// Nodes written to new places.
    pub written: Nodes,
    /// Nodes whose changes in place a publication contained, counted once for each publication.
    #[serde(default)]
    pub handed: Nodes,
    /// Bytes of these changes in the journal in persistent memory.
    #[serde(default)]
    pub journaled_bytes: u64,
    /// Changed nodes written back to their places later.
    #[serde(default)]
    pub written_back: u64,
    /// Pages of contents written to new places.
    pub copied_pages: u64,
    /// Pages of contents overwritten in place.
    pub replaced_pages: u64,
    /// Levels of the tree of files at the end.
    pub files_levels: u64,
    /// Levels of the extent tree at the end.
    pub extents_levels: u64,
    /// Levels of the checksum tree at the end.
    pub checksums_levels: u64,
}

/// A log-structured file system. Counters cover the run; sizes are those at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogFacts {
    /// Memory of the tables that locate nodes, segments and blocks of tables, in bytes.
    pub memory_bytes: u64,
    /// Cleaning that a change had to wait for.
    pub foreground: Cleaning,
    /// Cleaning in the background, while no change was pending.
    pub background: Cleaning,
    /// Cleaning of zones with metadata tables.
    pub metadata: Cleaning,
    /// Number of checkpoints written.
    pub checkpoints: u64,
}

/// Sections or zones that the file system cleaned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cleaning {
    /// Number of sections or zones cleaned.
    pub calls: u64,
    /// Valid bytes moved by cleaning.
    pub moved_bytes: u64,
    /// Virtual time of cleaning, ns; 0 where it is not measured, and in older records.
    #[serde(default)]
    pub time_ns: u64,
}
