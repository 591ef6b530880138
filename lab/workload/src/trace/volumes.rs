//! Parsers of the formats with many volumes: block storage of clouds, and disks of the Storage
//! Performance Council. Each line is one request of one volume.
//!
//! The volume is the device of a request, and its number is the name of the origin.

use super::bytes::{columns, trimmed};
use super::event::{Event, Kind, Line, Parser, number};
use super::rwbs;
use crate::request::Op;
use input::{Expected, expected};
use units::SECTOR;

/// Parser of Alibaba Cloud's block traces: `device_id,opcode,offset,length,timestamp`, in bytes and
/// microseconds.
#[derive(Default)]
pub(super) struct Alibaba;

impl Parser for Alibaba {
    fn line<'a>(&mut self, line: &'a [u8]) -> Result<Line<'a>, Expected> {
        if line.starts_with(b"device_id,") {
            return Ok(Line::Nothing);
        }
        let Some(([device, kind, offset, length, at], None)) = columns(line) else {
            return expected("5 columns device_id,opcode,offset,length,timestamp");
        };
        let op = letter(kind, "R or W in column 2")?;
        let offset = number(Some(offset), "an offset in bytes in column 3")?;
        let length = number(Some(length), "a length in bytes in column 4")?;
        let at = number(Some(at), "a time in microseconds in column 5")?;
        let Some(at) = at.checked_mul(1_000) else {
            return expected("a time in microseconds before the year 2554 in column 5");
        };
        let event = Event::bytes(op, offset, length)?;
        Ok(Line::Event(Event {
            at,
            device: number(Some(device), "a device number in column 1")?,
            name: trimmed(device),
            ..event
        }))
    }
}

/// Parser of the traces of Tencent's cloud block storage: `timestamp,offset,size,type,volume`, in
/// seconds and sectors of 512 bytes; type 0 is a read and 1 a write.
#[derive(Default)]
pub(super) struct Tencent;

impl Parser for Tencent {
    fn line<'a>(&mut self, line: &'a [u8]) -> Result<Line<'a>, Expected> {
        let heading = b"timestamp,offset,";
        let begins = line.get(..heading.len());
        if begins.is_some_and(|begins| begins.eq_ignore_ascii_case(heading)) {
            return Ok(Line::Nothing);
        }
        let Some(([at, start, sectors, kind, volume], None)) = columns(line) else {
            return expected("5 columns timestamp,offset,size,type,volume");
        };
        let at = number(Some(at), "a time in whole seconds in column 1")?;
        let Some(at) = at.checked_mul(1_000_000_000) else {
            return expected("a time in seconds before the year 2554 in column 1");
        };
        let start = number(Some(start), "a first sector in column 2")?;
        let sectors = number(Some(sectors), "a number of sectors in column 3")?;
        let op = match trimmed(kind) {
            b"0" => Op::Read,
            b"1" => Op::Write,
            _ => return expected("0 for a read or 1 for a write in column 4"),
        };
        Ok(Line::Event(Event {
            at,
            start,
            sectors,
            device: number(Some(volume), "a volume number in column 5")?,
            name: trimmed(volume),
            ..Event::new(Kind::Data(op))
        }))
    }
}

/// Parser of the format of the Storage Performance Council, in which the University of
/// Massachusetts keeps its traces: `unit,address,size,opcode,timestamp`, with addresses in sectors
/// of 512 bytes, sizes in bytes and times in seconds; further columns are optional.
#[derive(Default)]
pub(super) struct Spc;

impl Parser for Spc {
    fn line<'a>(&mut self, line: &'a [u8]) -> Result<Line<'a>, Expected> {
        let Some(([unit, start, size, kind, at], _)) = columns(line) else {
            return expected("5 columns unit,address,size,opcode,timestamp");
        };
        let unit_number = number(Some(unit), "a unit number in column 1")?;
        let start = number(Some(start), "a first sector in column 2")?;
        let size = number(Some(size), "a size in bytes in column 3")?;
        let op = letter(kind, "R or W in column 4")?;
        let Some(at) = rwbs::seconds(trimmed(at)) else {
            return expected("a time in seconds in column 5");
        };
        let Some(offset) = start.checked_mul(SECTOR) else {
            return expected("a first sector below 2^55 in column 2");
        };
        let event = Event::bytes(op, offset, size)?;
        Ok(Line::Event(Event {
            at,
            device: unit_number,
            name: trimmed(unit),
            ..event
        }))
    }
}

/// Parses `R` or `W`, in either case; `what` is the expectation of the error.
fn letter(word: &[u8], what: &str) -> Result<Op, Expected> {
    match trimmed(word) {
        b"R" | b"r" => Ok(Op::Read),
        b"W" | b"w" => Ok(Op::Write),
        _ => expected(what),
    }
}
