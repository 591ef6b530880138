//! Plain data types of the file API: inode numbers, attributes, arguments of calls, counters.

use units::Ns;

/// Bytes of a page of the cache, the unit of file contents: 4096.
pub const PAGE: u64 = 4096;

/// Bytes that one call reads, writes or copies at most, as in Linux
/// (`MAX_RW_COUNT`): what fits an `int`, in whole pages.
pub const MAX_TRANSFER: u64 = i32::MAX as u64 / PAGE * PAGE;

/// Bytes of one call around the cache that are buffered at a time, a choice of ours: a call of any
/// length takes no more memory than this.
pub(crate) const AROUND: u64 = 16 << 20;

/// Number of an inode, unique among the live inodes of one file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ino(pub u64);

/// Type of a file, as in the format bits of a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// A regular file: the only kind with contents that calls read and write.
    Regular,
    /// A directory, which maps names to inodes.
    Directory,
    /// A symbolic link, whose contents are a path.
    Symlink,
    /// A named pipe: has a name and attributes, and cannot be opened.
    Fifo,
    /// A socket: has a name and attributes, and cannot be opened.
    Socket,
    /// A character device: has a name and attributes, and cannot be opened.
    CharDevice,
    /// A block device: has a name and attributes, and cannot be opened.
    BlockDevice,
}

impl FileKind {
    /// Number of this kind in directory entries of ext4 and F2FS, which Linux numbers alike.
    #[must_use]
    pub const fn entry_number(self) -> u8 {
        match self {
            Self::Regular => 1,
            Self::Directory => 2,
            Self::CharDevice => 3,
            Self::BlockDevice => 4,
            Self::Fifo => 5,
            Self::Socket => 6,
            Self::Symlink => 7,
        }
    }

    /// The kind that directory entries call `number`; `None` for an unknown number.
    #[must_use]
    pub const fn of_entry(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Regular,
            2 => Self::Directory,
            3 => Self::CharDevice,
            4 => Self::BlockDevice,
            5 => Self::Fifo,
            6 => Self::Socket,
            7 => Self::Symlink,
            _ => return None,
        })
    }

    /// Format bits of this kind in a mode (`S_IFMT`).
    #[must_use]
    pub const fn mode_bits(self) -> u16 {
        match self {
            Self::Fifo => 0o010_000,
            Self::CharDevice => 0o020_000,
            Self::Directory => 0o040_000,
            Self::BlockDevice => 0o060_000,
            Self::Regular => 0o100_000,
            Self::Symlink => 0o120_000,
            Self::Socket => 0o140_000,
        }
    }

    /// The kind that the format bits of `mode` encode; `None` for bits of no kind.
    #[must_use]
    pub const fn of_mode(mode: u16) -> Option<Self> {
        Some(match mode & 0o170_000 {
            0o010_000 => Self::Fifo,
            0o020_000 => Self::CharDevice,
            0o040_000 => Self::Directory,
            0o060_000 => Self::BlockDevice,
            0o100_000 => Self::Regular,
            0o120_000 => Self::Symlink,
            0o140_000 => Self::Socket,
            _ => return None,
        })
    }
}

/// Timestamp of a file: seconds since 1970 and nanoseconds below a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Seconds since 1970, negative before.
    pub secs: i64,
    /// Nanoseconds within the second, below 1,000,000,000.
    pub nanos: u32,
}

/// Timestamps that an on-disk format can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRange {
    /// Earliest second since 1970.
    pub earliest: i64,
    /// Latest second since 1970.
    pub latest: i64,
    /// Granularity in nanoseconds, a divisor of a second.
    pub grain: u32,
}

impl TimeRange {
    /// The timestamp that the format holds for `time`: clamped to the range, without nanoseconds
    /// from its ends on, and rounded down to the granularity (`timestamp_truncate` in Linux).
    #[must_use]
    pub fn hold(&self, time: Timestamp) -> Timestamp {
        let secs = time.secs.clamp(self.earliest, self.latest);
        let nanos = match secs == self.earliest || secs == self.latest {
            true => 0,
            false => time.nanos - time.nanos % self.grain,
        };
        Timestamp { secs, nanos }
    }
}

impl Default for TimeRange {
    /// Seconds of 64 bits, and every nanosecond.
    fn default() -> Self {
        Self {
            earliest: i64::MIN,
            latest: i64::MAX,
            grain: 1,
        }
    }
}

/// Attributes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Type of the file.
    pub kind: FileKind,
    /// Permissions with set-id and sticky bits; 12 bits.
    pub mode: u16,
    /// Number of hard links; 0 once the last name is removed.
    pub nlink: u32,
    /// User id of the owner.
    pub uid: u32,
    /// Group id of the file.
    pub gid: u32,
    /// Device number of a device: major in bits 8 to 19, minor in the rest, as
    /// Linux encodes it in 32 bits.
    pub rdev: u32,
    /// Size of the contents in bytes.
    pub size: u64,
    /// Sectors of 512 bytes allocated to the file.
    pub sectors: u64,
    /// Time of the last read.
    pub atime: Timestamp,
    /// Time of the last change of contents.
    pub mtime: Timestamp,
    /// Time of the last change of attributes or contents.
    pub ctime: Timestamp,
    /// Time of the creation of the inode.
    pub btime: Timestamp,
    /// Generation of the inode number: differs between files that had this number one after the
    /// other.
    pub generation: u32,
}

/// Credentials of a caller: permissions are checked against them, and new inodes take their owner
/// from them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// User id; 0 passes every check but that for execution.
    pub uid: u32,
    /// Primary group id, given to new inodes.
    pub gid: u32,
    /// Supplementary group ids, for permission checks.
    pub groups: Vec<u32>,
}

/// A timestamp argument, as of `utimensat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The time at which the call runs.
    Now,
    /// This time, whatever the clock shows.
    At(Timestamp),
}

/// Attributes to set; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// Permissions with set-id and sticky bits; 12 bits.
    pub mode: Option<u16>,
    /// User id of the new owner.
    pub uid: Option<u32>,
    /// Group id to be set.
    pub gid: Option<u32>,
    /// New size in bytes.
    pub size: Option<u64>,
    /// New time of the last read.
    pub atime: Option<SetTime>,
    /// New time of the last change of contents.
    pub mtime: Option<SetTime>,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Position behind this entry, to continue a listing from; stable while the directory changes.
    pub cookie: u64,
    /// Inode that the entry leads to.
    pub ino: Ino,
    /// Type of that inode.
    pub kind: FileKind,
    /// Name in the directory, 1 to 255 bytes.
    pub name: Vec<u8>,
}

/// Operation of `fallocate` on a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FallocateMode {
    /// Allocates the range; its unwritten parts read as zeros.
    Allocate {
        /// Whether the size stays even if the range ends behind it.
        keep_size: bool,
    },
    /// Deallocates the range, which then reads as zeros; the size stays.
    Punch,
    /// Makes the range read as zeros and keeps it allocated.
    Zero {
        /// Whether the size stays even if the range ends behind it.
        keep_size: bool,
    },
}

/// Target of a seek from an offset on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekWhat {
    /// The next byte that is allocated data.
    Data,
    /// The next hole; the end of the file counts as one.
    Hole,
}

/// Precondition for setting an extended attribute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XattrFlags {
    /// No precondition: creates or replaces the attribute.
    #[default]
    Any,
    /// The attribute must not exist.
    Create,
    /// The attribute must exist.
    Replace,
}

/// Capacity and free space of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatFs {
    /// Size of a block in bytes.
    pub block_size: u32,
    /// Blocks for data in total, used and free.
    pub blocks: u64,
    /// Blocks that are free.
    pub blocks_free: u64,
    /// Free blocks that an ordinary user may allocate; the rest is reserved.
    pub blocks_available: u64,
    /// Inodes in total, in use and free.
    pub files: u64,
    /// Inodes that are free.
    pub files_free: u64,
    /// Longest name in bytes.
    pub name_max: u32,
}

/// Counters of cleaning (garbage collection) by a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaning {
    /// Sections, or zones, that cleaning has emptied.
    pub calls: u64,
    /// Bytes relocated out of them.
    pub moved_bytes: u64,
    /// Time spent on relocation, including waits for running calls.
    pub time: Ns,
}

impl Cleaning {
    /// Difference between these counters and an earlier reading, `before`.
    #[must_use]
    pub const fn since(self, before: Self) -> Self {
        Self {
            calls: self.calls - before.calls,
            moved_bytes: self.moved_bytes - before.moved_bytes,
            time: Ns(self.time.0 - before.time.0),
        }
    }
}

/// Counts of nodes, one for each kind of tree of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodesByTree {
    /// Nodes of the tree that leads to the other trees.
    pub roots: u64,
    /// Nodes of the tree of extents and their back references.
    pub extents: u64,
    /// Nodes of the tree of chunks and their places on the device.
    pub chunks: u64,
    /// Nodes of the trees of files and directories.
    pub files: u64,
    /// Nodes of the tree of checksums of contents.
    pub checksums: u64,
    /// Nodes of log trees, which hold what was forced since the last commit.
    pub logs: u64,
}

/// Counters of a copy-on-write file system of trees since its mount, and the present heights of its
/// trees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeStats {
    /// Commits, forced or not.
    pub commits: u64,
    /// `fsync` calls that needed a commit.
    pub forced_commits: u64,
    /// `fsync` calls that a log tree could serve.
    pub logged_forces: u64,
    /// Nodes that were copied because they had to change.
    pub copied: NodesByTree,
    /// Nodes that were changed in their place.
    pub changed: NodesByTree,
    /// Nodes that were split.
    pub split: NodesByTree,
    /// Nodes that were written to new places.
    pub written: NodesByTree,
    /// Changed nodes included in a publication without being written by it: the owner of the nodes
    /// writes them in place later.
    pub handed: NodesByTree,
    /// Pages of contents that were written to new places.
    pub copied_pages: u64,
    /// Pages of contents that were written in their place.
    pub replaced_pages: u64,
    /// Height of the tree of files, in levels.
    pub files_levels: u64,
    /// Height of the tree of extents, in levels.
    pub extents_levels: u64,
    /// Height of the tree of checksums, in levels.
    pub checksums_levels: u64,
}

/// Fragmentation: counts of the pieces of the medium that hold file contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtentCounts {
    /// Files that have at least one piece.
    pub files: u64,
    /// Pieces of all files, as the file system records them.
    pub pieces: u64,
    /// Extents as `filefrag` counts them: pieces adjacent both in the file and on the medium are
    /// merged.
    pub extents: u64,
    /// Extents of the most fragmented file.
    pub most: u64,
}

/// Counters of a log-structured file system since its mount, and its present memory use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Bytes of its tables in memory: maps of nodes, segments and table blocks. Excludes cached
    /// inodes, nodes and contents.
    pub memory: u64,
    /// Cleaning that a change had to wait for.
    pub foreground: Cleaning,
    /// Cleaning while no call was changing anything.
    pub background: Cleaning,
    /// Cleaning of zones that hold the tables of the file system.
    pub metadata: Cleaning,
    /// Checkpoints written to the medium.
    pub checkpoints: u64,
}
