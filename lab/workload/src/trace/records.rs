//! Binary formats of records of equal length without a heading: `VMware`'s vscsi traces, which
//! `CloudPhysics` published, and oracleGeneral of libCacheSim. All numbers are little-endian.
//!
//! Layouts and units are those of libCacheSim's readers (`vscsi.h`, `oracleGeneralBin.h`).
//!
//! Invariant: [`recognize`] takes contents only if every whole record at their beginning is
//! plausible, because neither format has a magic number.

use super::Format;
use super::event::{Event, Kind, Line};
use crate::request::Op;
use input::{Expected, Fault, expected};
use std::io::{self, BufRead};
use units::SECTOR;

/// Bytes of the longest record.
const LONGEST: usize = 40;

/// Reader of binary records in the order of the file.
pub(super) trait Records: Send {
    /// Reads the next record; `None` at the end of the file.
    fn next(&mut self, input: &mut dyn BufRead) -> Result<Option<Line<'_>>, Fault>;

    /// Offset of the next record in the file, in bytes.
    fn offset(&self) -> u64;
}

/// Layout of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// Version 1 of vscsi: sequence number, length in bytes, number of segments, SCSI operation,
    /// version, first sector, microseconds.
    Vscsi1,
    /// Version 2 of vscsi: SCSI operation, version, sequence number, length in bytes, number of
    /// segments, first sector, microseconds, response time.
    Vscsi2,
    /// Seconds, first sector, size in bytes, number of the next request of the same object.
    Oracle,
}

impl Layout {
    const fn bytes(self) -> usize {
        match self {
            Self::Vscsi1 => 32,
            Self::Vscsi2 => 40,
            Self::Oracle => 24,
        }
    }

    /// Layout of `format` in contents that begin with `head`: vscsi has its version in the upper
    /// byte of a field whose place depends on it.
    pub(super) fn of(format: Format, head: &[u8]) -> Self {
        match format {
            Format::Oracle => Self::Oracle,
            _ if head.get(3) == Some(&2) && head.get(15) != Some(&1) => Self::Vscsi2,
            _ => Self::Vscsi1,
        }
    }

    /// Parses one record, whose length is that of this layout.
    fn parse(self, raw: &[u8]) -> Result<Line<'static>, Expected> {
        let field = |at: usize, length: usize| number(&raw[at..at + length]);
        match self {
            Self::Vscsi1 => vscsi(
                1,
                field(14, 2),
                [12, 4, 16, 24].map(|at| field(at, width(at))),
            ),
            Self::Vscsi2 => {
                let fields = [field(0, 2), field(8, 4), field(16, 8), field(24, 8)];
                vscsi(2, field(2, 2), fields)
            }
            Self::Oracle => oracle(field(0, 4), field(4, 8), field(12, 4)),
        }
    }
}

/// Bytes of the field at `at` of version 1.
const fn width(at: usize) -> usize {
    match at {
        12 => 2,
        4 => 4,
        _ => 8,
    }
}

/// An unsigned number of up to eight bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// Request of a vscsi record of `version`, from its operation, length, first sector and time.
fn vscsi(version: u64, found: u64, fields: [u64; 4]) -> Result<Line<'static>, Expected> {
    let [command, length, start, at] = fields;
    if found >> 8 != version {
        return expected(format!("version {version} of the vscsi record"));
    }
    let Some(at) = at.checked_mul(1_000) else {
        return expected("a time in microseconds below 2^54");
    };
    let Some(kind) = scsi(command & 0xff) else {
        return Ok(Line::Skipped);
    };
    let event = match kind {
        Kind::Flush => Event::new(Kind::Flush),
        Kind::Data(op) => bytes(op, start, length)?,
    };
    Ok(Line::Event(Event { at, ..event }))
}

/// Operation of a SCSI command by its code in the SCSI Block Commands; `None` for commands that
/// move no data of the medium, or whose range is not in the record.
pub(super) const fn scsi(command: u64) -> Option<Kind> {
    match command {
        0x08 | 0x28 | 0xa8 | 0x88 => Some(Kind::Data(Op::Read)),
        0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e => Some(Kind::Data(Op::Write)),
        0x35 | 0x91 => Some(Kind::Flush),
        _ => None,
    }
}

/// A read of an object: the format has no operations.
fn oracle(seconds: u64, start: u64, size: u64) -> Result<Line<'static>, Expected> {
    let at = seconds * 1_000_000_000;
    let event = bytes(Op::Read, start, size)?;
    Ok(Line::Event(Event { at, ..event }))
}

/// An operation on `length` bytes from the sector `start`.
pub(super) fn bytes(op: Op, start: u64, length: u64) -> Result<Event<'static>, Expected> {
    match start.checked_mul(SECTOR) {
        Some(offset) => Event::bytes(op, offset, length),
        None => expected("a first sector below 2^55"),
    }
}

/// Reader of records of equal length.
pub(super) struct Fixed {
    layout: Layout,
    offset: u64,
}

impl Fixed {
    pub(super) const fn new(layout: Layout) -> Self {
        Self { layout, offset: 0 }
    }
}

impl Records for Fixed {
    fn next(&mut self, input: &mut dyn BufRead) -> Result<Option<Line<'_>>, Fault> {
        let length = self.layout.bytes();
        let mut raw = [0; LONGEST];
        if !fill(input, &mut raw[..length])? {
            return Ok(None);
        }
        let line = self.layout.parse(&raw[..length])?;
        self.offset += length as u64;
        Ok(Some(line))
    }

    fn offset(&self) -> u64 {
        self.offset
    }
}

/// Fills `raw` with the next record; `false` at the end of the input.
pub(super) fn fill(input: &mut dyn BufRead, raw: &mut [u8]) -> Result<bool, Fault> {
    if input.fill_buf()?.is_empty() {
        return Ok(false);
    }
    match input.read_exact(raw) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => expected(format!(
            "a record of {} bytes, but the file ends within it",
            raw.len()
        )),
        Err(e) => Err(e.into()),
    }
}

/// The format of which all whole records in `head` are plausible.
pub(super) fn recognize(head: &[u8]) -> Option<Format> {
    let all = |layout: Layout, plausible: fn(u64, &[u8]) -> bool| {
        let records = head.chunks_exact(layout.bytes());
        records.len() > 0 && (0..).zip(records).all(|(turn, raw)| plausible(turn, raw))
    };
    let is_vscsi = all(Layout::Vscsi1, |_, raw| {
        raw[15] == 1 && plausible_vscsi(number(&raw[12..14]), number(&raw[4..8]))
    }) || all(Layout::Vscsi2, |_, raw| {
        raw[3] == 2 && plausible_vscsi(number(&raw[..2]), number(&raw[8..12]))
    });
    if is_vscsi {
        return Some(Format::Vscsi);
    }
    let sorted = |pair: &[&[u8]]| number(&pair[0][..4]) <= number(&pair[1][..4]);
    let records: Vec<&[u8]> = head.chunks_exact(Layout::Oracle.bytes()).collect();
    let is_oracle = all(Layout::Oracle, |turn, raw| {
        let (size, next) = (number(&raw[12..16]), number(&raw[16..]));
        size > 0 && size <= 1 << 28 && (next >= i64::MAX as u64 || next > turn && next < 1 << 40)
    });
    (is_oracle && records.windows(2).all(sorted)).then_some(Format::Oracle)
}

/// Whether `head`, which begins an oracleGeneral trace, has sizes that are no multiples of a sector.
pub(super) fn has_objects(head: &[u8]) -> bool {
    let mut records = head.chunks_exact(Layout::Oracle.bytes());
    records.any(|raw| !number(&raw[12..16]).is_multiple_of(SECTOR))
}

fn plausible_vscsi(command: u64, length: u64) -> bool {
    command <= 0xff && length.is_multiple_of(SECTOR) && length <= 1 << 28
}
