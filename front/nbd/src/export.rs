//! Interface between the protocol and the storage that it serves.

use crate::session::Reply;
use crate::wire::Code;
use std::rc::Rc;

/// Most extents in one answer to a block status request. Our choice: the answer's memory is
/// reserved before the request begins, and a client can query the rest with another request.
pub const PIECES_MAX: u32 = 2048;

/// A validated request to an [`Export`]. Its range lies within the export, and its data are at
/// most [`crate::wire::DATA_MAX`] bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Job {
    /// Reads a range; answered with [`Answer::Data`].
    Read {
        /// Offset of the range in bytes.
        offset: u64,
        /// Length of the range in bytes.
        length: u32,
    },
    /// Writes `bytes` at `offset`.
    Write {
        /// Offset of the range in bytes.
        offset: u64,
        /// Data to write; their length is that of the range.
        bytes: Vec<u8>,
        /// Whether the write must be durable before the answer (FUA).
        force: bool,
    },
    /// Fills a range with zeros.
    Zero {
        /// Offset of the range in bytes.
        offset: u64,
        /// Length of the range in bytes.
        length: u32,
        /// Whether the range may be deallocated.
        hole: bool,
        /// Whether the zeros must be durable before the answer (FUA).
        force: bool,
    },
    /// Discards a range; the drive may deallocate the pages within it.
    Trim {
        /// Offset of the range in bytes.
        offset: u64,
        /// Length of the range in bytes.
        length: u32,
        /// Whether the discard must be durable before the answer (FUA).
        force: bool,
    },
    /// Makes every acknowledged write durable.
    Flush,
    /// Queries which parts of a range are allocated; answered with [`Answer::Pieces`].
    Status {
        /// Offset of the range in bytes.
        offset: u64,
        /// Length of the range in bytes.
        length: u32,
        /// Most pieces in the answer: from 1 to [`PIECES_MAX`].
        most: u32,
    },
}

/// An extent of a range: allocated, or a hole that reads as zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Length in bytes; not zero.
    pub length: u32,
    /// Whether the extent is allocated; otherwise it is a hole.
    pub data: bool,
}

/// Result of a job.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// Success of a job that returns no data.
    Done,
    /// Bytes of the range of a [`Job::Read`].
    Data(Vec<u8>),
    /// Consecutive extents from the start of the range of a [`Job::Status`]. They may end before
    /// the range does; none is empty.
    Pieces(Vec<Piece>),
}

/// Error of a job: its code, and a sentence for the client's user.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Error code of the protocol.
    pub code: Code,
    /// Explanation; clients with structured replies receive it.
    pub why: String,
}

/// Connection that receives the answers to its jobs.
pub(crate) trait Take {
    /// Queues `answer` for the request that `reply` identifies.
    fn take(&self, reply: Reply, answer: Result<Answer, Refusal>);

    /// Drops the connection without an answer to `reply`.
    fn lose(&self, reply: Reply);
}

/// Completion of a job, used exactly once. If dropped, it answers with [`Code::Shutdown`].
pub struct Done {
    taker: Option<Rc<dyn Take>>,
    reply: Reply,
}

impl Done {
    pub(crate) fn new(taker: Rc<dyn Take>, reply: Reply) -> Self {
        Self {
            taker: Some(taker),
            reply,
        }
    }

    /// Completes the job with `answer`.
    pub fn answer(mut self, answer: Result<Answer, Refusal>) {
        if let Some(taker) = self.taker.take() {
            taker.take(self.reply, answer);
        }
    }

    /// Drops the client's connection without an answer, because the drive has lost its power.
    pub fn lose(mut self) {
        if let Some(taker) = self.taker.take() {
            taker.lose(self.reply);
        }
    }
}

impl Drop for Done {
    fn drop(&mut self) {
        if let Some(taker) = self.taker.take() {
            let refusal = Refusal {
                code: Code::Shutdown,
                why: "the drive is powered off".to_owned(),
            };
            taker.take(self.reply, Err(refusal));
        }
    }
}

/// An export, served on the thread that polls its clients.
pub trait Export: Clone + 'static {
    /// Size in bytes; constant while the export is served.
    fn size(&self) -> u64;

    /// Name of the export. An empty requested name selects this export too.
    fn name(&self) -> &str;

    /// Preferred block size in bytes: a power of two, at least 512.
    fn preferred(&self) -> u32;

    /// Begins `job`. The export completes `done` before this returns or later.
    fn begin(&self, job: Job, done: Done);
}
