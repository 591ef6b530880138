//! Failures of the medium that a drive has answered to its host.
//!
//! Invariant: only failures of the medium count: reads with more bit errors than can be corrected,
//! and writes that find no flash to go to. Any other error of a command is not one of the medium.

use host::{Purpose, Who};
use ssd::{ByteError, IoError, ZoneStatus};
use std::cell::Cell;

/// Numbers of commands that failed because of the medium.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    contents: Cell<u64>,
    metadata: Cell<u64>,
    writes: Cell<u64>,
}

/// Cause of a failed command in the medium.
enum Cause {
    Read,
    Write,
}

/// Error of a command on any port of a drive.
pub(crate) trait CommandError: Copy {
    /// The error as one of the block port; none if that port has no such error.
    fn io(self) -> Option<IoError>;
}

impl CommandError for IoError {
    fn io(self) -> Option<IoError> {
        Some(self)
    }
}

impl CommandError for ZoneStatus {
    fn io(self) -> Option<IoError> {
        Some(self.into())
    }
}

impl CommandError for ByteError {
    fn io(self) -> Option<IoError> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

const fn cause(error: IoError) -> Option<Cause> {
    match error {
        IoError::Media(_) | IoError::Zone(ZoneStatus::UnrecoveredRead) => Some(Cause::Read),
        IoError::ReadOnly
        | IoError::Zone(
            ZoneStatus::WriteFault | ZoneStatus::ZoneIsReadOnly | ZoneStatus::ZoneIsOffline,
        ) => Some(Cause::Write),
        _ => None,
    }
}

/// Whether `error` is a failure of the medium.
pub(crate) const fn is_of_medium(error: IoError) -> bool {
    cause(error).is_some()
}

impl Losses {
    /// Counts the failure in `result` of a command for `who`, and returns the result.
    pub(crate) fn note<T, E: CommandError>(&self, result: Result<T, E>, who: Who) -> Result<T, E> {
        if let Err(error) = result {
            let cause = error.io().and_then(cause);
            self.count(cause.as_ref(), who.purpose == Purpose::Data);
        }
        result
    }

    /// As [`Self::note`], for a command that reads no contents of files.
    pub(crate) fn note_other<T, E: CommandError>(&self, result: Result<T, E>) -> Result<T, E> {
        if let Err(error) = result {
            self.count(error.io().and_then(cause).as_ref(), false);
        }
        result
    }

    /// Counts a failed read of metadata if `failed`, for errors that do not say what they are of.
    pub(crate) fn found(&self, failed: bool) {
        self.metadata.set(self.metadata.get() + u64::from(failed));
    }

    #[cold]
    fn count(&self, cause: Option<&Cause>, contents: bool) {
        let counter = match cause {
            Some(Cause::Read) if contents => &self.contents,
            Some(Cause::Read) => &self.metadata,
            Some(Cause::Write) => &self.writes,
            None => return,
        };
        counter.set(counter.get() + 1);
    }

    /// Reads of contents that failed.
    pub(crate) fn contents(&self) -> u64 {
        self.contents.get()
    }

    /// Reads of metadata that failed.
    pub(crate) fn metadata(&self) -> u64 {
        self.metadata.get()
    }

    /// Writes, flushes and other commands without a read that failed.
    pub(crate) fn writes(&self) -> u64 {
        self.writes.get()
    }
}
