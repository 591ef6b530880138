//! The formats by name, and which of them some contents are in.

use super::{blktrace, rwbs};
use std::fmt;
use std::str::FromStr;

/// A trace format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Flashloom's own: `time_ns,flags,sector,sectors,process`.
    Csv,
    /// The block traces of Microsoft Research Cambridge (SNIA).
    Msr,
    /// The ASCII traces of `MQSim`, which DiskSim's descend from.
    Mqsim,
    /// fio's I/O log, version 2 or 3.
    Fio,
    /// The kernel's binary `blk_io_trace` records.
    Blktrace,
    /// blkparse's default text output.
    Blkparse,
    /// The kernel's text of the `block_rq_issue` tracepoint.
    Ftrace,
}

impl Format {
    /// All formats, in the order in which they are listed to people.
    pub const ALL: [Self; 7] = [
        Self::Csv,
        Self::Msr,
        Self::Mqsim,
        Self::Fio,
        Self::Blktrace,
        Self::Blkparse,
        Self::Ftrace,
    ];

    /// The name by which it is chosen.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Msr => "msr",
            Self::Mqsim => "mqsim",
            Self::Fio => "fio",
            Self::Blktrace => "blktrace",
            Self::Blkparse => "blkparse",
            Self::Ftrace => "ftrace",
        }
    }

    /// All names, separated by commas.
    #[must_use]
    pub fn list() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// The format of contents that begin with `head`, if it is known. The
    /// first line that is neither empty nor a comment decides.
    #[must_use]
    pub fn detect(head: &[u8]) -> Option<Self> {
        if blktrace::magic(head).is_some() {
            return Some(Self::Blktrace);
        }
        let text = String::from_utf8_lossy(head);
        if text.contains(": block_rq_") {
            return Some(Self::Ftrace);
        }
        let mut lines = text.lines().map(str::trim);
        let line = lines.find(|l| !l.is_empty() && !l.starts_with('#'))?;
        of_line(line)
    }
}

fn of_line(line: &str) -> Option<Format> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let columns: Vec<&str> = line.split(',').collect();
    Some(match () {
        () if line.starts_with("fio version ") => Format::Fio,
        () if is_msr(&columns) => Format::Msr,
        () if is_csv(&columns) => Format::Csv,
        () if words.len() == 5 && words.iter().all(|w| is_number(w)) => Format::Mqsim,
        () if words.len() >= 6 && rwbs::device(words[0]).is_some() => Format::Blkparse,
        () => return None,
    })
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit())
}

fn is_csv(columns: &[&str]) -> bool {
    columns.len() >= 5
        && (columns[0] == "time_ns" || columns[..4].iter().all(|c| !c.contains(' ')))
        && (columns[1] == "flags" || rwbs::parse(columns[1]).is_ok())
}

fn is_msr(columns: &[&str]) -> bool {
    let kind = |c: &str| ["type", "read", "write"].contains(&c.to_ascii_lowercase().as_str());
    columns.len() == 7 && kind(columns[3])
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no trace format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a trace format ({}), found {found:?}", Format::list())]
pub struct UnknownFormat {
    /// The name as given.
    pub found: String,
}

impl FromStr for Format {
    type Err = UnknownFormat;
    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        let found = Self::ALL.into_iter().find(|f| f.name() == text);
        found.ok_or_else(|| UnknownFormat {
            found: text.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_tell_the_format() {
        let detect = |text: &str| Format::detect(text.as_bytes());
        assert_eq!(
            detect("time_ns,flags,sector,sectors,process\n"),
            Some(Format::Csv)
        );
        assert_eq!(detect("0,RM,69896,8,db_bench\n"), Some(Format::Csv));
        assert_eq!(
            detect("128166372003061629,hm,0,Read,383496192,32768,113736\n"),
            Some(Format::Msr)
        );
        assert_eq!(
            detect("\n938513000 4 264719034 16 0\n"),
            Some(Format::Mqsim)
        );
        assert_eq!(detect("fio version 3 iolog\n"), Some(Format::Fio));
        assert_eq!(detect("\x07taexxxx"), Some(Format::Blktrace));
        assert_eq!(
            detect("  8,0 1 1 0.000000000 697 Q W 223490 + 8 [kjournald]\n"),
            Some(Format::Blkparse)
        );
        assert_eq!(
            detect("# tracer: nop\n x-1 [0] ... 1.0: block_rq_issue: "),
            Some(Format::Ftrace)
        );
        assert_eq!(detect("#!/bin/sh\necho hello, world\n"), None);
        assert_eq!(detect(""), None);
    }

    #[test]
    fn names_are_read_back() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        assert_eq!(
            "xml".parse::<Format>().unwrap_err().to_string(),
            "expected a trace format (csv, msr, mqsim, fio, blktrace, blkparse, ftrace), \
             found \"xml\""
        );
    }
}
