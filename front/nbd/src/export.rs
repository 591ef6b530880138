//! Interface of an export.

use crate::session::Reply;
use crate::wire::Code;
use std::rc::Rc;

/// Most pieces of one answer about what is allocated. A choice of ours: what an answer takes is
/// counted before the request is begun, and a client that wants to know more asks again.
pub const PIECES_MAX: u32 = 2048;

/// A request on its way to what is served. Ranges are within it, and data are not longer
/// than [`crate::wire::DATA_MAX`].
#[derive(Debug, PartialEq, Eq)]
pub enum Job {
    /// Gives the bytes of a range.
    Read {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
    },
    /// Writes bytes.
    Write {
        /// First byte.
        offset: u64,
        /// Data to write.
        bytes: Vec<u8>,
        /// Whether it is durable when it is answered.
        force: bool,
    },
    /// Makes a range zeros.
    Zero {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
        /// Whether the range may be deallocated.
        hole: bool,
        /// Whether it is durable when it is answered.
        force: bool,
    },
    /// Deallocates what can be of a range.
    Trim {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
        /// Whether it is durable when it is answered.
        force: bool,
    },
    /// Makes durable what was answered.
    Flush,
    /// Says what is allocated of a range.
    Status {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
        /// Pieces of the answer, at most: from 1 to [`PIECES_MAX`].
        most: u32,
    },
}

/// A part of a range that is allocated, or reads as zeros because it is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Bytes.
    pub length: u32,
    /// Whether it is allocated.
    pub data: bool,
}

/// Result of a job.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// Success without data.
    Done,
    /// The bytes that were asked for.
    Data(Vec<u8>),
    /// What is allocated, from the start of the range on, as far as that many pieces tell;
    /// none is empty.
    Pieces(Vec<Piece>),
}

/// Error of a job: its code, and a sentence for the client's user.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Error code of the protocol.
    pub code: Code,
    /// Explanation in words.
    pub why: String,
}

/// Receiver of answers.
pub(crate) trait Take {
    /// Gives the answer that `reply` is the head of.
    fn take(&self, reply: Reply, answer: Result<Answer, Refusal>);

    /// Closes the client's connection.
    fn lose(&self, reply: Reply);
}

/// Takes the answer to a job. Dropped, it says that the drive is gone.
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

    /// Gives the answer.
    pub fn answer(mut self, answer: Result<Answer, Refusal>) {
        if let Some(taker) = self.taker.take() {
            taker.take(self.reply, answer);
        }
    }

    /// The power of the drive was cut: there is no answer, and the client is hung up on.
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
    /// Bytes of it, which do not change.
    fn size(&self) -> u64;

    /// Name of the export. An empty requested name selects this export too.
    fn name(&self) -> &str;

    /// The length that serves it best, a power of two of at least 512 bytes.
    fn preferred(&self) -> u32;

    /// Begins a job; the answer may come at once or later.
    fn begin(&self, job: Job, done: Done);
}
