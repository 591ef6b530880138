//! Parsers of formats with words between white space, whose process names may hold white space:
//! `DiskSim`'s, the traces of Florida International University, and biosnoop.

use super::bytes::{Words, scaled};
use super::event::{Event, Kind, Line, Parser, number};
use super::names::Names;
use crate::request::Op;
use input::{Expected, expected};
use units::Ns;

/// Parser of `DiskSim`'s ASCII traces: milliseconds, device, first sector, sectors and hexadecimal
/// flags, whose lowest bit is set for a read (manual of `DiskSim` 4.0, "Default ASCII traces").
#[derive(Default)]
pub(super) struct DiskSim;

impl Parser for DiskSim {
    fn line<'a>(&mut self, line: &'a [u8]) -> Result<Line<'a>, Expected> {
        let mut words = Words(line);
        let columns: [Option<&[u8]>; 6] = std::array::from_fn(|_| words.next());
        let [Some(at), device, start, sectors, Some(flags), None] = columns else {
            return expected("5 numbers: time in ms, device, first sector, sectors, flags");
        };
        let Some(at) = scaled(at, 6) else {
            return expected("a time in milliseconds in column 1");
        };
        let text = std::str::from_utf8(flags).unwrap_or_default();
        let digits = text.trim_start_matches("0x");
        let Ok(flags) = u64::from_str_radix(digits, 16) else {
            return expected("hexadecimal flags in column 5");
        };
        let op = match flags & 1 {
            0 => Op::Write,
            _ => Op::Read,
        };
        Ok(Line::Event(Event {
            at,
            device: number(device, "a device number in column 2")?,
            start: number(start, "a first sector in column 3")?,
            sectors: number(sectors, "a number of sectors in column 4")?,
            ..Event::new(Kind::Data(op))
        }))
    }
}

/// Parser of the traces of Florida International University (SNIA, set 390): nanoseconds, process
/// number, process, first sector, sectors, `R` or `W`, major and minor device number, and usually
/// the MD5 of the contents.
#[derive(Default)]
pub(super) struct Fiu;

impl Parser for Fiu {
    fn line<'a>(&mut self, line: &'a [u8]) -> Result<Line<'a>, Expected> {
        let mut words = Words(line);
        let at = number(words.next(), "a time in nanoseconds in column 1")?;
        number(words.next(), "a process number in column 2")?;
        let mut rest = words.0;
        let mut last = [&b""[..]; 3];
        let kind = loop {
            let Some(word) = last_word(&mut rest) else {
                return expected("R or W in column 6");
            };
            match word {
                b"R" | b"r" => break Op::Read,
                b"W" | b"w" => break Op::Write,
                _ if !last[2].is_empty() => return expected("R or W in column 6"),
                _ => last = [word, last[0], last[1]],
            }
        };
        let device = |word: &'a [u8]| number(Some(word), "a device number in columns 7 and 8");
        let (major, minor) = (device(last[0])?, device(last[1])?);
        let sectors = number(last_word(&mut rest), "a number of sectors in column 5")?;
        let start = number(last_word(&mut rest), "a first sector in column 4")?;
        Ok(Line::Event(Event {
            at,
            device: (major & 0xfff) << 20 | minor & 0xf_ffff,
            name: rest.trim_ascii(),
            start,
            sectors,
            ..Event::new(Kind::Data(kind))
        }))
    }
}

/// Parser of biosnoop of the BPF Compiler Collection: `TIME(s) COMM PID DISK T SECTOR BYTES
/// [QUE(ms)] LAT(ms)`. Times are those of completion, so the request is issued by its latency
/// earlier; the disk may be missing.
#[derive(Default)]
pub(super) struct Biosnoop {
    disks: Names,
}

/// Added to all times, so that the first request may begin before time 0.
const BEFORE: Ns = Ns::secs(3_600);

impl Parser for Biosnoop {
    fn line<'a>(&mut self, line: &'a [u8]) -> Result<Line<'a>, Expected> {
        let mut words = Words(line);
        let Some(first) = words.next().filter(|word| !word.starts_with(b"TIME(")) else {
            return Ok(Line::Nothing);
        };
        let Some(end) = scaled(first, 9) else {
            return expected("a time in seconds in column 1");
        };
        let mut rest = words.0;
        let (op, [start, size, latency]) = biosnoop_request(&mut rest)?;
        let start = number(Some(start), "a sector behind R or W")?;
        let size = number(Some(size), "a size in bytes behind the sector")?;
        let Some(latency) = scaled(latency, 6) else {
            return expected("a latency in milliseconds in the last column");
        };
        if size == 0 {
            return Ok(Line::Skipped);
        }
        let disk = last_word(&mut rest).unwrap_or_default();
        let is_pid = !disk.is_empty() && disk.iter().all(u8::is_ascii_digit);
        let device = match is_pid {
            true => self.disks.number(b"", "disks")?,
            false => {
                number(last_word(&mut rest), "a process number before the disk")?;
                self.disks.number(disk, "disks")?
            }
        };
        let event = super::records::bytes(op, start, size)?;
        Ok(Line::Event(Event {
            at: end.saturating_add(BEFORE.0).saturating_sub(latency),
            device,
            name: rest.trim_ascii(),
            ..event
        }))
    }
}

/// Operation at the end of `rest`, with the sector, size and latency behind it, which `rest` loses.
fn biosnoop_request<'a>(rest: &mut &'a [u8]) -> Result<(Op, [&'a [u8]; 3]), Expected> {
    let mut last = [&b""[..]; 4];
    for behind in 0..=4 {
        let word = last_word(rest);
        let op = match word {
            Some([b'R', ..]) if behind > 2 => Op::Read,
            Some([b'W', ..]) if behind > 2 => Op::Write,
            Some([b'D']) if behind > 2 => Op::Trim,
            Some(word) if behind < 4 => {
                last = [word, last[0], last[1], last[2]];
                continue;
            }
            _ => break,
        };
        return Ok((op, [last[0], last[1], last[behind - 1]]));
    }
    expected("R or W, a sector, a size in bytes and a latency in milliseconds at the end")
}

/// The last word of `text`, which loses it; `None` if there is none.
fn last_word<'a>(text: &mut &'a [u8]) -> Option<&'a [u8]> {
    let all = text.trim_ascii_end();
    let begin = all.iter().rposition(u8::is_ascii_whitespace);
    let (before, word) = all.split_at(begin.map_or(0, |at| at + 1));
    *text = before;
    (!word.is_empty()).then_some(word)
}
