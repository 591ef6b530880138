//! Parsers of the formats with one line a request and one machine a file: Flashloom's CSV, MSR's,
//! `MQSim`'s, blkparse's and the kernel's tracepoints.
//!
//! Invariant: a parser keeps state only from a heading or a footer of its format, or from the first
//! action of a trace.

use super::Action;
use super::bytes::{Words, columns, decimal, divided, trimmed};
use super::event::{Event, Kind, Line, Parser, number};
use super::rwbs;
use crate::request::Op;
use input::{Expected, expected};
use memchr::memmem;

/// Parser of Flashloom's CSV. The heading is optional; the process is everything after the fourth
/// comma, so its name may hold commas.
#[derive(Default)]
pub(super) struct Csv;

impl Parser for Csv {
    fn line<'a>(&mut self, line: &'a [u8]) -> Result<Line<'a>, Expected> {
        if line.starts_with(b"time_ns,") {
            return Ok(Line::Nothing);
        }
        let mut columns = line.splitn(5, |byte| *byte == b',');
        let at = number(columns.next(), "a time in nanoseconds in column 1")?;
        let Some(flags) = columns.next() else {
            return expected("5 columns time_ns,flags,sector,sectors,process");
        };
        let flags = rwbs::parse(trimmed(flags))?;
        let start = number(columns.next(), "a first sector in column 3")?;
        let sectors = number(columns.next(), "a number of sectors in column 4")?;
        let Some(name) = columns.next() else {
            return expected("a process in column 5");
        };
        let at_and_name = |event| Event { at, name, ..event };
        Ok(flags
            .event(start, sectors)
            .map_or(Line::Skipped, |e| Line::Event(at_and_name(e))))
    }
}

/// Parser of the MSR Cambridge CSV. Times are Windows file times, in units of 100 ns; the device is
/// the number of the disk, and the host is the origin.
#[derive(Default)]
pub(super) struct Msr;

impl Parser for Msr {
    fn line<'a>(&mut self, line: &'a [u8]) -> Result<Line<'a>, Expected> {
        if line.starts_with(b"Timestamp,") {
            return Ok(Line::Nothing);
        }
        let Some(([at, name, disk, kind, offset, size, _response], None)) = columns(line) else {
            return expected(
                "7 columns Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime",
            );
        };
        let at = number(Some(at), "a file time in column 1")?;
        let Some(at) = at.checked_mul(100) else {
            return expected("a file time below the year 2185 in column 1");
        };
        let device = number(Some(disk), "a disk number in column 3")?;
        let op = msr_operation(kind)?;
        let offset = number(Some(offset), "an offset in bytes in column 5")?;
        let size = number(Some(size), "a size in bytes in column 6")?;
        let event = Event::bytes(op, offset, size)?;
        Ok(Line::Event(Event {
            at,
            name,
            device,
            ..event
        }))
    }
}

fn msr_operation(word: &[u8]) -> Result<Op, Expected> {
    match trimmed(word) {
        w if w.eq_ignore_ascii_case(b"read") => Ok(Op::Read),
        w if w.eq_ignore_ascii_case(b"write") => Ok(Op::Write),
        _ => expected("Read or Write in column 4"),
    }
}

/// Parser of `MQSim`'s five numbers. Its samples write the flag of a read as 1.
#[derive(Default)]
pub(super) struct Mqsim;

impl Parser for Mqsim {
    fn line<'a>(&mut self, line: &'a [u8]) -> Result<Line<'a>, Expected> {
        let mut words = Words(line);
        let columns: [Option<&[u8]>; 6] = std::array::from_fn(|_| words.next());
        let [
            Some(at),
            Some(device),
            Some(start),
            Some(sectors),
            Some(kind),
            None,
        ] = columns
        else {
            return expected("5 numbers: time in ns, device, first sector, sectors, 0 or 1");
        };
        let op = match kind {
            b"0" => Op::Write,
            b"1" => Op::Read,
            _ => return expected("0 for a write or 1 for a read in column 5"),
        };
        Ok(Line::Event(Event {
            at: number(Some(at), "a time in nanoseconds in column 1")?,
            device: number(Some(device), "a device number in column 2")?,
            start: number(Some(start), "a first sector in column 3")?,
            sectors: number(Some(sectors), "a number of sectors in column 4")?,
            ..Event::new(Kind::Data(op))
        }))
    }
}

/// Parser of blkparse's default output: `maj,min cpu sequence seconds pid action rwbs [priority]
/// sector + count [process]`. The summary that blkparse appends ends the trace.
pub(super) struct Blkparse {
    action: Action,
    ended: bool,
}

impl Blkparse {
    pub(super) const fn new(action: Action) -> Self {
        Self {
            action,
            ended: false,
        }
    }
}

impl Parser for Blkparse {
    fn line<'a>(&mut self, line: &'a [u8]) -> Result<Line<'a>, Expected> {
        let mut words = Words(line);
        let first = words.next().unwrap_or_default();
        self.ended |= first.starts_with(b"CPU") || first == b"Total";
        if self.ended {
            return Ok(Line::Nothing);
        }
        let Some(device) = rwbs::device(first) else {
            return expected("a device major,minor in column 1");
        };
        let Some(at) = words.nth(2).and_then(rwbs::seconds) else {
            return expected("a time in seconds in column 4");
        };
        let action = words.nth(1).unwrap_or_default();
        if !self
            .action
            .takes(std::str::from_utf8(action).unwrap_or_default())
        {
            return Ok(Line::Nothing);
        }
        let flags = rwbs::parse(words.next().unwrap_or_default())?;
        let (start, sectors) = place(words)?;
        let name = bracketed(line);
        let with = |event| Event {
            at,
            device,
            name,
            ..event
        };
        Ok(flags
            .event(start, sectors)
            .map_or(Line::Skipped, |e| Line::Event(with(e))))
    }
}

/// Action letters of the lines in `head`.
pub(super) fn letters(head: &str) -> impl Iterator<Item = &str> {
    head.lines()
        .filter_map(|line| line.split_ascii_whitespace().nth(5))
}

/// Parses `sector + count` at the beginning of `words`, behind the priority that newer versions of
/// blkparse print. Both are 0 where the kernel leaves them out, as for a flush.
fn place<'a>(words: impl Iterator<Item = &'a [u8]>) -> Result<(u64, u64), Expected> {
    let mut words = words.take_while(|word| !word.starts_with(b"["));
    let words: [Option<&[u8]>; 4] = std::array::from_fn(|_| words.next());
    let (start, sectors) = match words {
        [None, ..] => return Ok((0, 0)),
        [Some(priority), None, ..] if decimal(priority).is_none() => return Ok((0, 0)),
        [start, Some(b"+"), sectors, _] | [_, start, Some(b"+"), sectors] => (start, sectors),
        _ => return expected("sector + count"),
    };
    let start = number(start, "a first sector")?;
    let sectors = number(sectors, "a number of sectors after the +")?;
    Ok((start, sectors))
}

/// Contents of the brackets that end `text`, from the first opening bracket on, since a process may
/// have brackets in its name; empty without brackets.
fn bracketed(text: &[u8]) -> &[u8] {
    let inner = text.strip_suffix(b"]");
    let inner = inner.and_then(|inner| divided(inner, b'['));
    inner.map_or(b"", |(_, name)| name)
}

/// Parser of the kernel's text of a block tracepoint: `process-pid [cpu] flags seconds:
/// block_rq_issue: maj,min rwbs bytes (command) sector + count … [process]`, as ftrace and
/// trace-cmd print it; perf puts `block:` before the name of the event. Lines of other events are
/// skipped.
pub(super) struct Ftrace {
    event: &'static str,
}

/// Tracepoints whose events may be requests. The first one that occurs is taken: a request has an
/// event of each.
const TRACEPOINTS: [(&str, Action); 3] = [
    ("block_rq_issue: ", Action::Issued),
    ("block_bio_queue: ", Action::Queued),
    ("block_rq_complete: ", Action::Completed),
];

impl Ftrace {
    /// Parser for a trace that begins with `head`, of the events that `action` selects.
    pub(super) fn new(action: Action, head: &[u8]) -> Self {
        let chosen = TRACEPOINTS.iter().find(|(event, of)| match action {
            Action::Auto => memmem::find(head, event.as_bytes()).is_some(),
            action => action == *of,
        });
        Self {
            event: chosen.unwrap_or(&TRACEPOINTS[0]).0,
        }
    }
}

impl Parser for Ftrace {
    fn line<'a>(&mut self, line: &'a [u8]) -> Result<Line<'a>, Expected> {
        let lost = |word| memmem::find(line, word).is_some();
        if line.starts_with(b"CPU:") && (lost(b"LOST") || lost(b"DROPPED")) {
            return Ok(Line::Lost);
        }
        let Some(mark) = memmem::find(line, self.event.as_bytes()) else {
            return Ok(Line::Nothing);
        };
        let (before, after) = (&line[..mark], &line[mark + self.event.len()..]);
        let before = before.strip_suffix(b"block:").unwrap_or(before);
        let Some(before) = before.trim_ascii_end().strip_suffix(b":") else {
            return Ok(Line::Nothing);
        };
        let mut stamp = before.rsplit(u8::is_ascii_whitespace);
        let Some(at) = stamp.next().and_then(rwbs::seconds) else {
            return expected("a time in seconds before the event");
        };
        let mut request = Words(after);
        let Some(device) = request.next().and_then(rwbs::device) else {
            let event = self.event.trim_end_matches(": ");
            return expected(format!("a device major,minor after {event}"));
        };
        let flags = rwbs::parse(request.next().unwrap_or_default())?;
        let rest = match self.event {
            "block_bio_queue: " => request.0,
            // The command is empty except for passed-through requests, whose hexadecimal bytes stand
            // in the same parentheses.
            _ => match memmem::find(after, b") ") {
                Some(end) => &after[end + 2..],
                None => return expected("a command in parentheses"),
            },
        };
        let (start, sectors) = place(Words(rest))?;
        // A completion has its error code in the place of the process.
        let name = match self.event {
            "block_rq_complete: " => b"",
            _ => bracketed(rest),
        };
        let with = |event| Event {
            at,
            device,
            name,
            ..event
        };
        Ok(flags
            .event(start, sectors)
            .map_or(Line::Skipped, |e| Line::Event(with(e))))
    }
}
