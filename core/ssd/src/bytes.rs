//! Accesses by bytes: their errors, and their translation to cache lines.

use crate::drive::IoError;
use crate::wlog::{CommitError, LINE, StoreError};

/// Error of an access by bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ByteError {
    /// The access does not cover whole cache lines.
    #[error("{len} bytes at {at} are not whole lines of {LINE} bytes")]
    Unaligned {
        /// First byte of the access.
        at: u64,
        /// Length of the access in bytes.
        len: u64,
    },
    /// The access failed as one by blocks would.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The log of the drive rejects the write.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The transaction cannot commit.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The drive has no front: it is addressed by blocks only.
    #[error("this drive is not read and written by bytes: it has no front")]
    NoBytes,
    /// The log holds entries from before a power cut that are not on flash yet.
    #[error("the log holds what a power cut left: the drive must recover before it is stored to")]
    Unrecovered,
    /// The firmware of the front has no transactions.
    #[error("the firmware of this drive has no transactions")]
    NoTransactions,
    /// The drive was recovered before, and there is nothing to recover since.
    #[error("there is nothing to recover since the drive was last recovered")]
    Recovered,
}

/// The cache lines of an access: the first, and one past the last.
///
/// # Errors
/// If the access does not cover whole lines, or exceeds the `capacity` of the drive in bytes.
pub fn lines_of(at: u64, len: u64, capacity: u64) -> Result<(u64, u64), ByteError> {
    let line = LINE as u64;
    if !at.is_multiple_of(line) || !len.is_multiple_of(line) || len == 0 {
        return Err(ByteError::Unaligned { at, len });
    }
    let end = at.checked_add(len).filter(|&end| end <= capacity);
    let Some(end) = end else {
        let sector = units::SECTOR;
        return Err(ByteError::Io(IoError::OutOfRange {
            first: at / sector,
            last: at.saturating_add(len - 1) / sector,
            sectors: capacity / sector,
        }));
    };
    Ok((at / line, end / line))
}
