//! What one line or record of a trace says, before it becomes a request.

use crate::request::Op;
use input::{Expected, expected};
use units::SECTOR;

/// What an event asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An operation on an extent.
    Data(Op),
    /// A flush.
    Flush,
}

/// One request as its trace states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event<'a> {
    pub(super) kind: Kind,
    /// Nanoseconds by the clock of the trace.
    pub(super) at: u64,
    /// In sectors.
    pub(super) start: u64,
    pub(super) sectors: u64,
    pub(super) fua: bool,
    /// A flush goes ahead of it.
    pub(super) preflush: bool,
    pub(super) metadata: bool,
    /// Its bounds were no multiples of a sector and have been widened.
    pub(super) widened: bool,
    pub(super) device: u64,
    /// The process or the file, empty if the format has none.
    pub(super) name: &'a str,
}

impl Event<'static> {
    /// An event of this kind with nothing else stated.
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
            name: "",
        }
    }

    /// An operation on a range of bytes, widened to whole sectors.
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

/// What a line is.
pub(super) enum Line<'a> {
    /// A request.
    Event(Event<'a>),
    /// No request, as its format foresees.
    Nothing,
    /// A request that asks for nothing which a drive of ours does.
    Skipped,
    /// The kernel says here that it lost events.
    Lost,
}

/// Reads the lines of one format in their order.
pub(super) trait Parser {
    /// What `line` says; it is neither empty nor blank.
    fn line<'a>(&mut self, line: &'a str) -> Result<Line<'a>, Expected>;
}

/// `word` as a number, called `what` if it is none.
pub(super) fn number(word: Option<&str>, what: &str) -> Result<u64, Expected> {
    match word.map(|w| w.trim().parse()) {
        Some(Ok(number)) => Ok(number),
        _ => expected(what),
    }
}
