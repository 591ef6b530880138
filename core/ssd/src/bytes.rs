//! What the byte interface of a drive knows besides that of blocks: lines, and
//! why an access to them is refused.

use crate::drive::IoError;
use crate::wlog::{CommitError, LINE, StoreError};

/// Why an access by bytes failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ByteError {
    /// The access is not of whole lines.
    #[error("{len} bytes at {at} are not whole lines of {LINE} bytes")]
    Unaligned {
        /// First byte.
        at: u64,
        /// How many.
        len: u64,
    },
    /// As with blocks.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The log of the drive takes no such write.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The transaction cannot commit.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The drive is one of blocks only.
    #[error("this drive is not read and written by bytes: it has no front")]
    NoBytes,
    /// What a power cut left in the log is not on flash yet.
    #[error("the log holds what a power cut left: the drive must recover before it is stored to")]
    Unrecovered,
    /// The firmware has no transactions.
    #[error("the firmware of this drive has no transactions")]
    NoTransactions,
    /// What the power cut left has been recovered already.
    #[error("there is nothing to recover since the drive was last recovered")]
    Recovered,
}

/// The lines of an access, first and one past the last.
///
/// # Errors
/// If it is not of whole lines, or goes past the `capacity` of the drive in bytes.
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
