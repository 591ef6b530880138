//! The nouns of the file API.

use units::Ns;

/// Bytes of a page of the cache, the unit of file contents: 4096.
pub const PAGE: u64 = 4096;

/// Bytes that one call reads, writes or copies at most, as in Linux
/// (`MAX_RW_COUNT`): what fits an `int`, in whole pages.
pub const MAX_TRANSFER: u64 = i32::MAX as u64 / PAGE * PAGE;

/// Bytes of a call around the cache that are in memory at once, a choice of ours:
/// so that a length that somebody else names takes no more.
pub(crate) const AROUND: u64 = 16 << 20;

/// The number of an inode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ino(pub u64);

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

impl FileKind {
    /// Its number in the directory entries of ext4 and F2FS, which Linux numbers alike.
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

    /// The kind of such a number.
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

    /// Its bits in a mode.
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

    /// The kind whose bits `mode` has, if any.
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

/// Time of a file: seconds since 1970 and nanoseconds below a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Seconds since 1970, negative before.
    pub secs: i64,
    /// Nanoseconds, below 1,000,000,000.
    pub nanos: u32,
}

impl Timestamp {
    /// The last time not after it of those that lie `grain` nanoseconds apart, of which whole
    /// ones are in a second.
    #[must_use]
    pub const fn at_grain(self, grain: u32) -> Self {
        let nanos = self.nanos / grain * grain;
        Self { nanos, ..self }
    }
}

/// Attributes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// What it is.
    pub kind: FileKind,
    /// Permissions with set-id and sticky bits; 12 bits.
    pub mode: u16,
    /// Names that lead to it.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device: major in bits 8 to 19, minor in the rest, as
    /// Linux encodes it in 32 bits.
    pub rdev: u32,
    /// Size in bytes.
    pub size: u64,
    /// Sectors of 512 bytes that it occupies.
    pub sectors: u64,
    /// Last read.
    pub atime: Timestamp,
    /// Last change of contents.
    pub mtime: Timestamp,
    /// Last change of attributes.
    pub ctime: Timestamp,
    /// Creation.
    pub btime: Timestamp,
    /// Tells files apart that had the same number one after the other.
    pub generation: u32,
}

/// Who asks: for permissions and for the owner of what is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// User; 0 may do everything.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Further groups.
    pub groups: Vec<u32>,
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The present.
    Now,
    /// This time.
    At(Timestamp),
}

/// Attributes to set; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// Permissions.
    pub mode: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size.
    pub size: Option<u64>,
    /// Last read.
    pub atime: Option<SetTime>,
    /// Last change.
    pub mtime: Option<SetTime>,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Where to go on after it: stable while the directory changes.
    pub cookie: u64,
    /// The inode.
    pub ino: Ino,
    /// What it is.
    pub kind: FileKind,
    /// Its name.
    pub name: Vec<u8>,
}

/// What `fallocate` does to a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FallocateMode {
    /// Allocates it; unwritten parts read as zeros.
    Allocate {
        /// Whether the size stays where it is.
        keep_size: bool,
    },
    /// Deallocates it; the size stays.
    Punch,
    /// Makes it read as zeros, allocated.
    Zero {
        /// Whether the size stays where it is.
        keep_size: bool,
    },
}

/// What to look for from an offset on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekWhat {
    /// Data.
    Data,
    /// A hole; the end of the file is one.
    Hole,
}

/// What must hold to set an extended attribute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XattrFlags {
    /// Nothing.
    #[default]
    Any,
    /// It does not exist.
    Create,
    /// It exists.
    Replace,
}

/// How full a file system is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatFs {
    /// Bytes of a block.
    pub block_size: u32,
    /// Blocks for data.
    pub blocks: u64,
    /// Those that are free.
    pub blocks_free: u64,
    /// Those that an ordinary user may have.
    pub blocks_available: u64,
    /// Inodes.
    pub files: u64,
    /// Those that are free.
    pub files_free: u64,
    /// Longest name in bytes.
    pub name_max: u32,
}

/// What cleaning has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaning {
    /// Sections, or zones, that were emptied.
    pub calls: u64,
    /// Bytes that were moved out of them.
    pub moved_bytes: u64,
    /// Time that it took to move them, waits for running calls included.
    pub time: Ns,
}

impl Cleaning {
    /// What was done since it was `before`.
    #[must_use]
    pub const fn since(self, before: Self) -> Self {
        Self {
            calls: self.calls - before.calls,
            moved_bytes: self.moved_bytes - before.moved_bytes,
            time: Ns(self.time.0 - before.time.0),
        }
    }
}

/// Nodes by the trees of a file system that they are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodesByTree {
    /// The tree that leads to the others.
    pub roots: u64,
    /// Extents and who refers to them.
    pub extents: u64,
    /// Chunks, and where they are on the device.
    pub chunks: u64,
    /// Files and directories.
    pub files: u64,
    /// Sums of contents.
    pub checksums: u64,
    /// What was forced since the last commit.
    pub logs: u64,
}

/// What a copy-on-write file system of trees has counted since it was mounted, and how
/// high its trees are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeStats {
    /// Commits.
    pub commits: u64,
    /// Forces that made a commit.
    pub forced_commits: u64,
    /// Forces that a log was enough for.
    pub logged_forces: u64,
    /// Nodes that were copied because they had to change.
    pub copied: NodesByTree,
    /// Nodes that were changed in their place.
    pub changed: NodesByTree,
    /// Nodes that were split.
    pub split: NodesByTree,
    /// Nodes that were written to new places.
    pub written: NodesByTree,
    /// Nodes of which a publication had what is changed in their place: who keeps them writes
    /// them there when that suits.
    pub handed: NodesByTree,
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

/// Pieces of the medium that files lie in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtentCounts {
    /// Files that have any.
    pub files: u64,
    /// All of them, as the file system keeps them.
    pub pieces: u64,
    /// The same as `filefrag` counts them: two that follow each other in the file and on the
    /// medium are one.
    pub extents: u64,
    /// Those of the file that has the most of these.
    pub most: u64,
}

/// What a file system that is laid out as a log has counted since it was mounted, and what
/// it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Bytes of its tables in memory: what leads to nodes, segments and blocks of tables;
    /// inodes, nodes and contents that are cached are none of it.
    pub memory: u64,
    /// Cleaning that a change waited for.
    pub foreground: Cleaning,
    /// Cleaning while nobody changed anything.
    pub background: Cleaning,
    /// Cleaning of zones that hold tables.
    pub metadata: Cleaning,
    /// Checkpoints that were written.
    pub checkpoints: u64,
}
