//! fio's I/O logs, versions 2 and 3.
//!
//! Version 2 has no times: its clock advances by `wait` lines only, which fio's manual gives in
//! microseconds after the previous one. Version 3 begins each line with the microseconds since the
//! job began, which is what fio writes (`utime_since_now`). Each file counts as a device, numbered
//! by first appearance, and is the origin of its requests.

use super::event::{Event, Kind, Line, Parser, number};
use crate::request::Op;
use input::{Expected, expected};

/// Upper bound on the files of a log; a log with more is refused.
const MAX_FILES: usize = 4096;

/// Parser of a log; the first line states the version.
#[derive(Default)]
pub(super) struct Fio {
    version: Option<u8>,
    /// Clock of version 2, in nanoseconds.
    clock: u64,
    files: Vec<String>,
}

impl Parser for Fio {
    fn line<'a>(&mut self, line: &'a str) -> Result<Line<'a>, Expected> {
        match self.version {
            None => self.header(line),
            Some(2) => self.action(self.clock, line.split_ascii_whitespace()),
            Some(_) => self.stamped(line),
        }
    }
}

impl Fio {
    fn header(&mut self, line: &str) -> Result<Line<'static>, Expected> {
        self.version = match line.trim_end() {
            "fio version 2 iolog" => Some(2),
            "fio version 3 iolog" => Some(3),
            _ => return expected("\"fio version 2 iolog\" or \"fio version 3 iolog\""),
        };
        Ok(Line::Nothing)
    }

    fn stamped<'a>(&mut self, line: &'a str) -> Result<Line<'a>, Expected> {
        let mut words = line.split_ascii_whitespace();
        let at = microseconds(words.next(), "a time in microseconds in column 1")?;
        self.action(at, words)
    }

    fn action<'a>(
        &mut self,
        at: u64,
        mut words: impl Iterator<Item = &'a str>,
    ) -> Result<Line<'a>, Expected> {
        let (Some(name), Some(action)) = (words.next(), words.next()) else {
            return expected("a file and an action");
        };
        let device = self.file(name)?;
        let event = match action {
            "add" | "open" | "close" | "unlink" => return Ok(Line::Nothing),
            "wait" => return self.wait(words.next()),
            "sync" | "datasync" => Event::new(Kind::Flush),
            _ => data(action, words)?,
        };
        Ok(Line::Event(Event {
            at,
            device,
            name,
            ..event
        }))
    }

    fn wait(&mut self, time: Option<&str>) -> Result<Line<'static>, Expected> {
        if self.version == Some(3) {
            return expected("no wait, which version 3 replaces by times");
        }
        let span = microseconds(time, "a time in microseconds after wait")?;
        self.clock = self.clock.saturating_add(span);
        Ok(Line::Nothing)
    }

    fn file(&mut self, name: &str) -> Result<u64, Expected> {
        let known = self.files.iter().position(|f| f == name);
        if known.is_none() && self.files.len() == MAX_FILES {
            return expected(format!("at most {MAX_FILES} files"));
        }
        let index = known.unwrap_or_else(|| {
            self.files.push(name.to_owned());
            self.files.len() - 1
        });
        Ok(index as u64)
    }
}

fn data<'a>(
    action: &str,
    mut words: impl Iterator<Item = &'a str>,
) -> Result<Event<'static>, Expected> {
    let op = match action {
        "read" => Op::Read,
        "write" => Op::Write,
        "trim" => Op::Trim,
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

fn microseconds(word: Option<&str>, what: &str) -> Result<u64, Expected> {
    match number(word, what)?.checked_mul(1_000) {
        Some(ns) => Ok(ns),
        None => expected(what),
    }
}
