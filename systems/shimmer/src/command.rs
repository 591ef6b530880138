//! What goes between the core and whoever has the zones.

use std::ops::Deref;
use std::sync::Arc;
use thiserror::Error;
use units::NoSpace;

/// A command's name until it is answered.
pub type Ticket = u64;

/// A file, by a number that is never used again once the first batch after a start is
/// durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId(pub u64);

/// What a driver shall do. Of one zone at most one command is under way, so a driver may
/// do all that it is given at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Write `data` to a zone at byte `at`, which is its write pointer. Both are whole
    /// blocks.
    Write {
        /// The zone.
        zone: u32,
        /// First byte.
        at: u64,
        /// What to write.
        data: Data,
    },
    /// Write a piece of one zone to the write pointer of another one.
    Copy {
        /// Where it is.
        from: Piece,
        /// The zone to write to.
        zone: u32,
        /// First byte there.
        at: u64,
    },
    /// Make durable what was written by commands that were answered.
    Flush,
    /// Empty a zone.
    Reset {
        /// The zone.
        zone: u32,
    },
    /// Make a zone full.
    Finish {
        /// The zone.
        zone: u32,
    },
    /// Close a zone: it stays as it is, and the device needs no buffer for it.
    Close {
        /// The zone.
        zone: u32,
    },
}

/// Bytes to write: a part of a buffer that is shared with reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    pub(crate) buffer: Arc<Vec<u8>>,
    pub(crate) from: usize,
    pub(crate) len: usize,
}

impl Deref for Data {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer[self.from..self.from + self.len]
    }
}

/// Bytes of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The zone.
    pub zone: u32,
    /// First byte.
    pub at: u64,
    /// How many.
    pub len: u64,
}

/// Where bytes of a file are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// In a zone.
    Zone(Piece),
    /// Still in memory.
    Memory(Data),
}

/// The zones did not do a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a zone was not written")]
pub struct Failure;

/// Why a file does not stay in zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demote {
    /// A write begins before what has gone to a zone already.
    Past,
    /// A write begins behind the end.
    Hole,
    /// The file would be written through a mapping.
    Mapping,
}

/// Why a call was not done.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Commands must be done first; then ask again.
    #[error("commands must be done first")]
    Busy,
    /// The end of the file is in a zone in the middle of a block: read the piece, hand it
    /// to [`crate::Core::load_tail`], ask again.
    #[error("the last block must be read first")]
    Tail(Piece),
    /// A zone cannot hold this: the file must go to an ordinary file system. Read it as
    /// a whole, write it there, force it, then remove it here.
    #[error("a zone cannot hold this write ({0:?})")]
    Demote(Demote),
    /// No zone has room.
    #[error("{0}")]
    NoSpace(Box<NoSpace>),
    /// Zones have failed.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// There is no such file.
    #[error("there is no such file")]
    Missing,
    /// There is such a file already.
    #[error("there is such a file already")]
    Exists,
    /// This is no path: empty, longer than 4,095 bytes, or with a zero byte.
    #[error("a path has 1 to 4095 bytes, and none is zero")]
    Path,
}
