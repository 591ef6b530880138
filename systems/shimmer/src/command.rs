//! Commands from the core to its driver, which has the zones, and errors.

use std::ops::Deref;
use std::sync::Arc;
use thiserror::Error;
use units::NoSpace;

/// Number of a command, valid until the command is completed.
pub type Ticket = u64;

/// Number of a file. It is never reused once the first batch of the log after a start is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId(pub u64);

/// A command to the zones. At most one command per zone is in progress, so a driver may execute all
/// commands it has at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Write `data` at byte `at` of a zone, which is its write pointer. Both are multiples of
    /// [`BLOCK`](crate::BLOCK).
    Write {
        /// Number of the zone to write to.
        zone: u32,
        /// Offset in the zone in bytes.
        at: u64,
        /// Bytes to write, in whole blocks.
        data: Data,
    },
    /// Copy a piece of one zone to the write pointer of another one.
    Copy {
        /// Bytes to copy, in whole blocks.
        from: Piece,
        /// Number of the zone to write to.
        zone: u32,
        /// Offset in that zone in bytes.
        at: u64,
    },
    /// Make all writes durable whose commands have completed.
    Flush,
    /// Reset a zone, which is empty then.
    Reset {
        /// Number of the zone to reset.
        zone: u32,
    },
    /// Finish a zone, which is full then.
    Finish {
        /// Number of the zone to finish.
        zone: u32,
    },
    /// Close a zone: its contents stay, and the device needs no buffer for it.
    Close {
        /// Number of the zone to close.
        zone: u32,
    },
}

/// Bytes to write: a range of a buffer that is shared with reads.
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

/// A range of bytes in a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Number of the zone.
    pub zone: u32,
    /// Offset in the zone in bytes.
    pub at: u64,
    /// Length of the range in bytes.
    pub len: u64,
}

/// Location of a range of a file's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The bytes are in a zone.
    Zone(Piece),
    /// The bytes are still in memory.
    Memory(Data),
}

/// Error of a command that the zones did not execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a zone was not written")]
pub struct Failure;

/// Reasons why a file cannot stay in zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demote {
    /// A write begins before data that were already sent to a zone.
    Past,
    /// A write begins behind the end of the file.
    Hole,
    /// The file is to be written through a mapping.
    Mapping,
}

/// Reasons why the core refuses a call.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Commands must be executed first; then the call can be repeated.
    #[error("commands must be done first")]
    Busy,
    /// The file ends in a zone within a block: read the piece, pass it to
    /// [`crate::Core::load_tail`], repeat the call.
    #[error("the last block must be read first")]
    Tail(Piece),
    /// Zones cannot hold the result: the file must be moved to an ordinary file system. Read it as
    /// a whole, write it there, sync it, then remove it here.
    #[error("a zone cannot hold this write ({0:?})")]
    Demote(Demote),
    /// No zone has room for the data.
    #[error("{0}")]
    NoSpace(Box<NoSpace>),
    /// Zones have failed, and the log with them.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The file does not exist.
    #[error("there is no such file")]
    Missing,
    /// The path belongs to a file already.
    #[error("there is such a file already")]
    Exists,
    /// The path is invalid: empty, longer than 4,095 bytes, or with a zero byte.
    #[error("a path has 1 to 4095 bytes, and none is zero")]
    Path,
}
