//! Parsers of the formats with one line a request and one machine a file: Flashloom's CSV, MSR's,
//! `MQSim`'s, blkparse's and ftrace's.
//!
//! Invariant: a parser keeps state only from a heading or a footer of its format, or from the first
//! action of a trace.

use super::Action;
use super::event::{Event, Kind, Line, Parser, number};
use super::rwbs;
use crate::request::Op;
use input::{Expected, expected};

/// Parser of Flashloom's CSV. The heading is optional; the process is everything after the fourth
/// comma, so its name may hold commas.
#[derive(Default)]
pub(super) struct Csv;

impl Parser for Csv {
    fn line<'a>(&mut self, line: &'a str) -> Result<Line<'a>, Expected> {
        if line.starts_with("time_ns,") {
            return Ok(Line::Nothing);
        }
        let mut columns = line.splitn(5, ',');
        let at = number(columns.next(), "a time in nanoseconds in column 1")?;
        let Some(flags) = columns.next() else {
            return expected("5 columns time_ns,flags,sector,sectors,process");
        };
        let flags = rwbs::parse(flags.trim())?;
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
    fn line<'a>(&mut self, line: &'a str) -> Result<Line<'a>, Expected> {
        if line.starts_with("Timestamp,") {
            return Ok(Line::Nothing);
        }
        let columns: Vec<&str> = line.splitn(8, ',').collect();
        let &[at, name, disk, kind, offset, size, _response] = columns.as_slice() else {
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

fn msr_operation(word: &str) -> Result<Op, Expected> {
    match word.trim() {
        w if w.eq_ignore_ascii_case("read") => Ok(Op::Read),
        w if w.eq_ignore_ascii_case("write") => Ok(Op::Write),
        _ => expected("Read or Write in column 4"),
    }
}

/// Parser of `MQSim`'s five numbers. Its samples write the flag of a read as 1.
#[derive(Default)]
pub(super) struct Mqsim;

impl Parser for Mqsim {
    fn line<'a>(&mut self, line: &'a str) -> Result<Line<'a>, Expected> {
        let words: Vec<&str> = line.split_ascii_whitespace().take(6).collect();
        let &[at, device, start, sectors, kind] = words.as_slice() else {
            return expected("5 numbers: time in ns, device, first sector, sectors, 0 or 1");
        };
        let op = match kind {
            "0" => Op::Write,
            "1" => Op::Read,
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
    fn line<'a>(&mut self, line: &'a str) -> Result<Line<'a>, Expected> {
        let mut words = line.split_ascii_whitespace();
        let first = words.next().unwrap_or_default();
        self.ended |= first.starts_with("CPU") || first == "Total";
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
        if !self.action.takes(action) {
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
fn place<'a>(words: impl Iterator<Item = &'a str>) -> Result<(u64, u64), Expected> {
    let mut words = words.take_while(|word| !word.starts_with('['));
    let words: [Option<&str>; 4] = std::array::from_fn(|_| words.next());
    let (start, sectors) = match words {
        [None, ..] => return Ok((0, 0)),
        [Some(priority), None, ..] if priority.parse::<u64>().is_err() => return Ok((0, 0)),
        [start, Some("+"), sectors, _] | [_, start, Some("+"), sectors] => (start, sectors),
        _ => return expected("sector + count"),
    };
    let start = number(start, "a first sector")?;
    let sectors = number(sectors, "a number of sectors after the +")?;
    Ok((start, sectors))
}

/// Contents of the brackets that end `text`, from the first opening bracket on, since a process may
/// have brackets in its name; empty without brackets.
fn bracketed(text: &str) -> &str {
    let inner = text.trim_end().strip_suffix(']');
    let inner = inner.and_then(|l| l.split_once('['));
    inner.map_or("", |(_, name)| name)
}

/// Parser of the kernel's text of `block_rq_issue`: `process-pid [cpu] flags seconds:
/// block_rq_issue: maj,min rwbs bytes (command) sector + count … [process]`. Lines of other events
/// are skipped.
#[derive(Default)]
pub(super) struct Ftrace;

/// Mark of the lines that are parsed.
const ISSUE: &str = ": block_rq_issue: ";

impl Parser for Ftrace {
    fn line<'a>(&mut self, line: &'a str) -> Result<Line<'a>, Expected> {
        if line.starts_with("CPU:") && line.contains("LOST") {
            return Ok(Line::Lost);
        }
        let Some((before, after)) = line.split_once(ISSUE) else {
            return Ok(Line::Nothing);
        };
        let stamp = before.split_ascii_whitespace().next_back();
        let Some(at) = stamp.and_then(rwbs::seconds) else {
            return expected("a time in seconds before block_rq_issue");
        };
        let mut words = after.split_ascii_whitespace();
        let Some(device) = words.next().and_then(rwbs::device) else {
            return expected("a device major,minor after block_rq_issue");
        };
        let flags = rwbs::parse(words.next().unwrap_or_default())?;
        // The command is empty except for passed-through requests, whose hexadecimal bytes stand in
        // the same parentheses.
        let Some((_, rest)) = after.split_once(") ") else {
            return expected("a command in parentheses");
        };
        let (start, sectors) = place(rest.split_ascii_whitespace())?;
        let name = bracketed(rest);
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
