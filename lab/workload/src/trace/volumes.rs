//! Parsers of the tables with a request of one volume in each line: block storage of clouds, disks
//! of the Storage Performance Council, virtual desktops and virtual machines.
//!
//! The volume, if there is one, is the device of a request, and its number is the name of the
//! origin.

use super::bytes::{columns, trimmed};
use super::event::{Event, Kind, Line, Parser, number};
use super::{records, rwbs};
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

/// Parser of the traces of virtual desktops that Fujitsu published with SYSTOR '17 (SNIA, set
/// 4928; columns by its README): `Timestamp,Response,IOType,LUN,Offset,Size`, in seconds since 1970
/// and bytes. The operation is empty if no response was recorded; such requests are left out.
#[derive(Default)]
pub(super) struct Systor;

impl Parser for Systor {
    fn line<'a>(&mut self, line: &'a [u8]) -> Result<Line<'a>, Expected> {
        if line.starts_with(b"Timestamp,") {
            return Ok(Line::Nothing);
        }
        let Some(([at, _response, kind, lun, offset, size], None)) = columns(line) else {
            return expected("6 columns Timestamp,Response,IOType,LUN,Offset,Size");
        };
        let Some(at) = rwbs::seconds(trimmed(at)) else {
            return expected("a time in seconds in column 1");
        };
        let op = match trimmed(kind) {
            b"" => return Ok(Line::Skipped),
            b"Read" => Op::Read,
            b"Write" => Op::Write,
            letters => letter(letters, "R, W or nothing in column 3")?,
        };
        let device = number(Some(lun), "the number of a unit in column 4")?;
        let offset = number(Some(offset), "an offset in bytes in column 5")?;
        let size = number(Some(size), "a size in bytes in column 6")?;
        let event = Event::bytes(op, offset, size)?;
        Ok(Line::Event(Event {
            at,
            device,
            name: trimmed(lun),
            ..event
        }))
    }
}

/// Parser of `CloudPhysics`' traces as tables, in sectors of 512 bytes and sizes in bytes: either
/// `version,time,op,size,lbn`, with seconds and the hexadecimal code of the SCSI operation (the
/// sample of libCacheSim), or `ts,lba,op,size`, with microseconds and `r` or `w` (the form that
/// Cydonia reads).
#[derive(Default)]
pub(super) struct CloudPhysics;

impl Parser for CloudPhysics {
    fn line<'a>(&mut self, line: &'a [u8]) -> Result<Line<'a>, Expected> {
        if line.starts_with(b"version,") || line.starts_with(b"ts,") {
            return Ok(Line::Nothing);
        }
        let Some(([first, second, third, fourth], fifth)) = columns(line) else {
            return expected("5 columns version,time,op,size,lbn or 4 columns ts,lba,op,size");
        };
        match fifth {
            None => micros([first, second, third, fourth]),
            Some(start) => scsi([second, start, third, fourth]),
        }
    }
}

/// Request of a line `ts,lba,op,size`.
fn micros([at, start, kind, size]: [&[u8]; 4]) -> Result<Line<'static>, Expected> {
    let at = number(Some(at), "a time in microseconds in column 1")?;
    let Some(at) = at.checked_mul(1_000) else {
        return expected("a time in microseconds before the year 2554 in column 1");
    };
    let start = number(Some(start), "a first sector in column 2")?;
    let op = letter(kind, "r or w in column 3")?;
    let size = number(Some(size), "a size in bytes in column 4")?;
    let event = records::bytes(op, start, size)?;
    Ok(Line::Event(Event { at, ..event }))
}

/// Request of the time, first sector, operation and size of a line `version,time,op,size,lbn`.
fn scsi([at, start, code, size]: [&[u8]; 4]) -> Result<Line<'static>, Expected> {
    let Some(at) = rwbs::seconds(trimmed(at)) else {
        return expected("a time in seconds in column 2");
    };
    let code = std::str::from_utf8(trimmed(code)).unwrap_or_default();
    let Ok(code) = u8::from_str_radix(code, 16) else {
        return expected("the hexadecimal code of a SCSI operation in column 3");
    };
    let size = number(Some(size), "a size in bytes in column 4")?;
    let start = number(Some(start), "a first sector in column 5")?;
    let event = match records::scsi(code.into()) {
        None => return Ok(Line::Skipped),
        Some(Kind::Flush) => Event::new(Kind::Flush),
        Some(Kind::Data(op)) => records::bytes(op, start, size)?,
    };
    Ok(Line::Event(Event { at, ..event }))
}
