//! fio's I/O logs, versions 2 and 3.
//!
//! Version 2 has no times: its clock advances by `wait` lines only, which fio's manual gives in
//! microseconds after the previous one. Version 3 begins each line with the microseconds since the
//! job began, which is what fio writes (`utime_since_now`). Each file counts as a device, numbered
//! by first appearance, and is the origin of its requests.

use super::bytes::Words;
use super::event::{Event, Kind, Line, Parser, number};
use super::names::Names;
use crate::request::Op;
use input::{Expected, expected};

/// Parser of a log; the first line states the version.
#[derive(Default)]
pub(super) struct Fio {
    version: Option<u8>,
    /// Clock of version 2, in nanoseconds.
    clock: u64,
    files: Names,
}

impl Parser for Fio {
    fn line<'a>(&mut self, line: &'a [u8]) -> Result<Line<'a>, Expected> {
        match self.version {
            None => self.header(line),
            Some(2) => self.action(self.clock, Words(line)),
            Some(_) => self.stamped(line),
        }
    }
}

impl Fio {
    fn header(&mut self, line: &[u8]) -> Result<Line<'static>, Expected> {
        self.version = match line {
            b"fio version 2 iolog" => Some(2),
            b"fio version 3 iolog" => Some(3),
            _ => return expected("\"fio version 2 iolog\" or \"fio version 3 iolog\""),
        };
        Ok(Line::Nothing)
    }

    fn stamped<'a>(&mut self, line: &'a [u8]) -> Result<Line<'a>, Expected> {
        let mut words = Words(line);
        let at = microseconds(words.next(), "a time in microseconds in column 1")?;
        self.action(at, words)
    }

    fn action<'a>(
        &mut self,
        at: u64,
        mut words: impl Iterator<Item = &'a [u8]>,
    ) -> Result<Line<'a>, Expected> {
        let (Some(name), Some(action)) = (words.next(), words.next()) else {
            return expected("a file and an action");
        };
        let device = self.files.number(name, "files")?;
        let event = match action {
            b"add" | b"open" | b"close" | b"unlink" => return Ok(Line::Nothing),
            b"wait" => return self.wait(words.next()),
            b"sync" | b"datasync" => Event::new(Kind::Flush),
            _ => data(action, words)?,
        };
        Ok(Line::Event(Event {
            at,
            device,
            name,
            ..event
        }))
    }

    fn wait(&mut self, time: Option<&[u8]>) -> Result<Line<'static>, Expected> {
        if self.version == Some(3) {
            return expected("no wait, which version 3 replaces by times");
        }
        let span = microseconds(time, "a time in microseconds after wait")?;
        self.clock = self.clock.saturating_add(span);
        Ok(Line::Nothing)
    }
}

fn data<'a>(
    action: &[u8],
    mut words: impl Iterator<Item = &'a [u8]>,
) -> Result<Event<'static>, Expected> {
    let op = match action {
        b"read" => Op::Read,
        b"write" => Op::Write,
        b"trim" => Op::Trim,
        _ => {
            return expected(
                "an action add, open, close, read, write, trim, sync, datasync or wait",
            );
        }
    };
    let offset = number(words.next(), "an offset in bytes")?;
    let length = number(words.next(), "a length in bytes")?;
    Event::bytes(op, offset, length)
}

fn microseconds(word: Option<&[u8]>, what: &str) -> Result<u64, Expected> {
    match number(word, what)?.checked_mul(1_000) {
        Some(ns) => Ok(ns),
        None => expected(what),
    }
}
