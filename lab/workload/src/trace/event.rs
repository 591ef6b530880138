//! Content of one line or record of a trace, before it becomes a request.

use super::bytes::decimal;
use crate::request::Op;
use input::{Expected, expected};
use units::SECTOR;

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An operation on an extent.
    Data(Op),
    /// A flush of the drive's write cache.
    Flush,
}

/// One request as its trace states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event<'a> {
    pub(super) kind: Kind,
    /// Time in nanoseconds, by the clock of the trace.
    pub(super) at: u64,
    /// First sector of the request.
    pub(super) start: u64,
    pub(super) sectors: u64,
    pub(super) fua: bool,
    /// Whether a flush precedes the operation (`REQ_PREFLUSH`).
    pub(super) preflush: bool,
    pub(super) metadata: bool,
    /// Whether the bounds in bytes were no multiples of a sector and have been widened.
    pub(super) widened: bool,
    pub(super) device: u64,
    /// Process, file, host or volume of the request; empty if the format has none.
    pub(super) name: &'a [u8],
    /// Volume of the request, if the format names it beside a process.
    pub(super) volume: &'a [u8],
}

impl Event<'static> {
    /// An event of this kind with all other fields 0, false or empty.
    pub(super) const fn new(kind: Kind) -> Self {
        Event {
            kind,
            at: 0,
            start: 0,
            sectors: 0,
            fua: false,
            preflush: false,
            metadata: false,
            widened: false,
            device: 0,
            name: b"",
            volume: b"",
        }
    }

    /// An operation on a range of bytes, widened to whole sectors; errs if the range ends past
    /// 2^64.
    pub(super) fn bytes(op: Op, offset: u64, length: u64) -> Result<Self, Expected> {
        let Some(end) = offset.checked_add(length) else {
            return expected("a range of bytes that ends below 2^64");
        };
        let start = offset / SECTOR;
        Ok(Event {
            start,
            sectors: if length == 0 {
                0
            } else {
                end.div_ceil(SECTOR) - start
            },
            widened: !(offset | end).is_multiple_of(SECTOR),
            ..Event::new(Kind::Data(op))
        })
    }
}

/// Content of a line or record.
pub(super) enum Line<'a> {
    /// One request.
    Event(Event<'a>),
    /// No request: a heading, another action or a note of the format.
    Nothing,
    /// A request of a kind that a drive does not perform.
    Skipped,
    /// Notice of the kernel that it lost events.
    Lost,
}

/// Parser of the lines of one text format, fed in the order of the file.
pub(super) trait Parser {
    /// Parses `line`, which has no white space at its ends and is not empty.
    fn line<'a>(&mut self, line: &'a [u8]) -> Result<Line<'a>, Expected>;
}

/// Parses `word` as a number; `what` is the expectation of the error.
#[inline]
pub(super) fn number(word: Option<&[u8]>, what: &str) -> Result<u64, Expected> {
    match word.and_then(decimal) {
        Some(number) => Ok(number),
        None => expected(what),
    }
}
