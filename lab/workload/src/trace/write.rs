//! Writers of the formats that are worth converting to.
//!
//! Invariant: this crate's reader reads a written trace back equal, as far as the format can carry
//! it. `csv` and `blkparse` carry all but the placement; `fio` carries whole microseconds, no
//! forced unit access and no zone commands; `msr` carries units of 100 ns, reads and writes;
//! `mqsim` carries reads and writes without their origins.

use super::{Format, rwbs};
use crate::request::{Labels, METADATA, Op, Purpose, Request};
use std::io::{self, Write};
use units::{Extent, SECTOR};

/// Counts of a written trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Number of requests written.
    pub requests: u64,
    /// Requests left out because the format cannot express them.
    pub left_out: u64,
}

/// Error of writing a trace.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// There is no writer for the format.
    #[error("expected a format that can be written (csv, msr, mqsim, fio, blkparse), found {0}")]
    Format(Format),
    /// The output could not be written.
    #[error("the trace cannot be written: {0}")]
    Io(#[from] io::Error),
}

/// Windows file time (2007-02-22) at which written MSR traces begin; readers of the format expect a
/// plausible date.
const FILE_TIME: u64 = 128_166_372_000_000_000;

/// Writes `requests` to `out` in `format`; `labels` names their origins.
///
/// # Errors
/// If the format has no writer, or if `out` fails.
pub fn write(
    format: Format,
    labels: &Labels,
    requests: impl IntoIterator<Item = Request>,
    out: &mut dyn Write,
) -> Result<Written, WriteError> {
    let mut writer = Writer::new(format, labels)?;
    writer.header(out)?;
    let mut written = Written::default();
    for request in requests {
        if writer.request(&request, out)? {
            written.requests += 1;
        } else {
            written.left_out += 1;
        }
    }
    Ok(written)
}

struct Writer<'a> {
    format: Format,
    labels: &'a Labels,
    /// Sequence number of blkparse's last line.
    sequence: u64,
    /// Origins whose `add` and `open` lines have been written, in fio's format.
    open: Vec<bool>,
}

impl<'a> Writer<'a> {
    fn new(format: Format, labels: &'a Labels) -> Result<Self, WriteError> {
        if !format.is_written() {
            return Err(WriteError::Format(format));
        }
        Ok(Self {
            format,
            labels,
            sequence: 0,
            open: vec![false; Labels::MAX],
        })
    }

    fn header(&self, out: &mut dyn Write) -> io::Result<()> {
        match self.format {
            Format::Csv => writeln!(out, "time_ns,flags,sector,sectors,process"),
            Format::Fio => writeln!(out, "fio version 3 iolog"),
            _ => Ok(()),
        }
    }

    /// Writes one request; returns `false` if the format cannot express it.
    fn request(&mut self, request: &Request, out: &mut dyn Write) -> io::Result<bool> {
        let data = matches!(request.op, Op::Read | Op::Write);
        match self.format {
            Format::Csv => self.csv(request, out)?,
            Format::Blkparse => self.blkparse(request, out)?,
            Format::Fio => return self.fio(request, out),
            Format::Msr if data => self.msr(request, out)?,
            Format::Mqsim if data => mqsim(request, out)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Name of the request's origin without the suffix for metadata, which the flags carry; empty
    /// for the unnamed origin. Line ends become spaces.
    fn name(&self, request: &Request) -> String {
        let full = self.labels.name(request.origin);
        let name = full.strip_suffix(METADATA).unwrap_or(full);
        let name = if name == "unnamed" { "" } else { name };
        name.replace(['\n', '\r'], " ")
    }

    fn flags(&self, request: &Request) -> String {
        let metadata = self.labels.purpose(request.origin) != Purpose::Data;
        let operation = rwbs::letters(request.op);
        let fua = if request.fua { "F" } else { "" };
        let metadata = if metadata { "M" } else { "" };
        format!("{operation}{fua}{metadata}")
    }

    fn csv(&self, request: &Request, out: &mut dyn Write) -> io::Result<()> {
        let Extent { start, sectors } = request.extent;
        let (at, flags, name) = (request.at.0, self.flags(request), self.name(request));
        writeln!(out, "{at},{flags},{},{sectors},{name}", start.0)
    }

    fn blkparse(&mut self, request: &Request, out: &mut dyn Write) -> io::Result<()> {
        self.sequence += 1;
        let Extent { start, sectors } = request.extent;
        let (seconds, ns) = (request.at.0 / 1_000_000_000, request.at.0 % 1_000_000_000);
        let (flags, name) = (self.flags(request), self.name(request));
        let sequence = self.sequence;
        writeln!(
            out,
            "  8,0    0 {sequence:8} {seconds:5}.{ns:09}     0  Q {flags:>3} {} + {sectors} [{name}]",
            start.0
        )
    }

    fn msr(&self, request: &Request, out: &mut dyn Write) -> io::Result<()> {
        let at = FILE_TIME + request.at.0 / 100;
        let kind = if request.op == Op::Read {
            "Read"
        } else {
            "Write"
        };
        let (offset, size) = (request.extent.start.0 * SECTOR, request.extent.bytes());
        let name = self.name(request).replace(',', " ");
        writeln!(out, "{at},{name},0,{kind},{offset},{size},0")
    }

    fn fio(&mut self, request: &Request, out: &mut dyn Write) -> io::Result<bool> {
        let action = match request.op {
            Op::Read => "read",
            Op::Write => "write",
            Op::Trim => "trim",
            Op::Flush => "sync",
            _ => return Ok(false),
        };
        let at = request.at.0 / 1_000;
        let file = self
            .labels
            .name(request.origin)
            .replace(char::is_whitespace, "_");
        let open = &mut self.open[usize::from(request.origin.0).min(Labels::MAX - 1)];
        if !std::mem::replace(open, true) {
            writeln!(out, "{at} {file} add\n{at} {file} open")?;
        }
        let (offset, length) = (request.extent.start.0 * SECTOR, request.extent.bytes());
        writeln!(out, "{at} {file} {action} {offset} {length}")?;
        Ok(true)
    }
}

fn mqsim(request: &Request, out: &mut dyn Write) -> io::Result<()> {
    let Extent { start, sectors } = request.extent;
    let kind = u8::from(request.op == Op::Read);
    writeln!(out, "{} 0 {} {sectors} {kind}", request.at.0, start.0)
}
