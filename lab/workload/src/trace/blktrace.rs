//! The kernel's binary trace: `struct blk_io_trace` of `blktrace_api.h`,
//! version 7, in either byte order.
//!
//! Invariant: a record's payload is at most 64 KiB, because its length has 16 bits, and at most
//! [`MAX_NAME`] bytes of a payload are kept, as a process name.

use super::Action;
use super::event::{Event, Kind, Line};
use super::records::{Records, fill};
use super::rwbs::device_number;
use crate::request::Op;
use input::{Expected, Fault, expected};
use std::collections::BTreeMap;
use std::io::{BufRead, Read};
use units::SECTOR;

/// Bytes of a record before its payload.
pub(super) const RECORD: usize = 48;

/// `BLK_IO_TRACE_MAGIC` and `BLK_IO_TRACE_VERSION`.
const MAGIC: u32 = 0x6561_7400;
const VERSION: u32 = 7;

/// Bytes of a process name that are kept; the kernel's own names have 16.
const MAX_NAME: usize = 64;
/// Upper bound on the processes whose names are remembered; later ones have no name.
const MAX_PROCESSES: usize = 65_536;

/// Categories, the upper half of the action (`enum blktrace_cat`).
const WRITE: u32 = 1 << 1;
const FLUSH: u32 = 1 << 2;
const NOTIFY: u32 = 1 << 10;
const META: u32 = 1 << 12;
const DISCARD: u32 = 1 << 13;
const FUA: u32 = 1 << 15;

/// The low byte of an action: the lower half without the flag for a control group.
const ACTION_MASK: u32 = 0xff;
/// `__BLK_TN_PROCESS`: the payload is the name of the process.
const PROCESS: u32 = 0;

/// Byte order of contents that begin with `head`: `Some(true)` for big-endian, `Some(false)` for
/// little-endian, `None` if the contents are no blktrace.
pub(super) fn magic(head: &[u8]) -> Option<bool> {
    let word = <[u8; 4]>::try_from(head.get(..4)?).ok()?;
    let is = |word: u32| word & !0xff == MAGIC;
    match (is(u32::from_le_bytes(word)), is(u32::from_be_bytes(word))) {
        (true, _) => Some(false),
        (_, true) => Some(true),
        _ => None,
    }
}

/// One record, without its unused fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    time: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    pid: u32,
    device: u32,
    payload: u16,
}

impl Record {
    fn read(raw: &[u8; RECORD]) -> Result<Self, Expected> {
        let Some(big) = magic(raw) else {
            return expected("the magic number 0x656174 of a blktrace record");
        };
        let field = |offset, length| number(&raw[offset..offset + length], big);
        if field(0, 4) as u32 & 0xff != VERSION {
            return expected("version 7 of the blktrace record");
        }
        Ok(Self {
            time: field(8, 8),
            sector: field(16, 8),
            bytes: field(24, 4) as u32,
            action: field(28, 4) as u32,
            pid: field(32, 4) as u32,
            device: field(36, 4) as u32,
            payload: field(46, 2) as u16,
        })
    }

    const fn category(self) -> u32 {
        self.action >> 16
    }

    fn kind(self) -> Option<Kind> {
        let category = self.category();
        let has = |flag| category & flag != 0;
        match self.bytes {
            0 if has(FLUSH) => Some(Kind::Flush),
            0 => None,
            _ if has(DISCARD) => Some(Kind::Data(Op::Trim)),
            _ if has(WRITE) => Some(Kind::Data(Op::Write)),
            _ => Some(Kind::Data(Op::Read)),
        }
    }

    fn event(self, name: &[u8]) -> Option<Event<'_>> {
        let kind = self.kind()?;
        let data = kind != Kind::Flush;
        Some(Event {
            at: self.time,
            start: if data { self.sector } else { 0 },
            sectors: u64::from(self.bytes).div_ceil(SECTOR),
            fua: kind == Kind::Data(Op::Write) && self.category() & FUA != 0,
            preflush: data && self.category() & FLUSH != 0,
            metadata: self.category() & META != 0,
            widened: !u64::from(self.bytes).is_multiple_of(SECTOR),
            device: device_number(self.device >> 20, self.device & 0xf_ffff),
            name,
            ..Event::new(kind)
        })
    }
}

/// An unsigned number of up to eight bytes.
fn number(bytes: &[u8], big: bool) -> u64 {
    let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
    if big {
        bytes.iter().fold(0, add)
    } else {
        bytes.iter().rev().fold(0, add)
    }
}

/// Action letters of the whole records in `head`.
pub(super) fn letters(mut head: &[u8]) -> impl Iterator<Item = &'static str> {
    std::iter::from_fn(move || {
        let record = Record::read(head.first_chunk()?).ok()?;
        head = head.get(RECORD + usize::from(record.payload)..)?;
        let notice = record.category() & NOTIFY != 0;
        Some(if notice {
            None
        } else {
            letter(record.action & ACTION_MASK)
        })
    })
    .flatten()
}

/// Reads records in the order of the file.
pub(super) struct Blktrace {
    action: Action,
    names: BTreeMap<u32, String>,
    /// Offset of the next record in the file, in bytes.
    offset: u64,
}

impl Blktrace {
    pub(super) const fn new(action: Action) -> Self {
        Self {
            action,
            names: BTreeMap::new(),
            offset: 0,
        }
    }

    fn request(&mut self, record: Record) -> Line<'_> {
        let taken = letter(record.action & ACTION_MASK).is_some_and(|a| self.action.takes(a));
        if !taken {
            return Line::Nothing;
        }
        let name = self
            .names
            .get(&record.pid)
            .map_or(&b""[..], String::as_bytes);
        record.event(name).map_or(Line::Skipped, Line::Event)
    }

    fn notice(&mut self, record: Record, name: &[u8]) {
        let room = self.names.len() < MAX_PROCESSES;
        if record.action & ACTION_MASK == PROCESS && room {
            let name = name.split(|&b| b == 0).next().unwrap_or_default();
            self.names
                .insert(record.pid, String::from_utf8_lossy(name).into_owned());
        }
    }
}

impl Records for Blktrace {
    fn next(&mut self, input: &mut dyn BufRead) -> Result<Option<Line<'_>>, Fault> {
        let mut raw = [0; RECORD];
        if !fill(input, &mut raw)? {
            return Ok(None);
        }
        let record = Record::read(&raw)?;
        let name = payload(input, record.payload)?;
        self.offset += RECORD as u64 + u64::from(record.payload);
        if record.category() & NOTIFY != 0 {
            self.notice(record, &name);
            return Ok(Some(Line::Nothing));
        }
        Ok(Some(self.request(record)))
    }

    fn offset(&self) -> u64 {
        self.offset
    }
}

/// Letter by which blkparse names an action (`enum blktrace_act`): `Q`, `D` or `C`.
const fn letter(action: u32) -> Option<&'static str> {
    match action {
        1 => Some("Q"),
        7 => Some("D"),
        8 => Some("C"),
        _ => None,
    }
}

/// Consumes a payload of `length` bytes and returns up to [`MAX_NAME`] bytes of it.
fn payload(input: &mut dyn BufRead, length: u16) -> Result<Vec<u8>, Fault> {
    let mut payload = Vec::new();
    let read = input.take(u64::from(length)).read_to_end(&mut payload)?;
    if read < usize::from(length) {
        return expected(format!(
            "a payload of {length} bytes, but the file ends within it"
        ));
    }
    payload.truncate(MAX_NAME);
    Ok(payload)
}
