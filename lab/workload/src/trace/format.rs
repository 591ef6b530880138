//! The formats by name.

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
    /// The block traces of Alibaba Cloud.
    Alibaba,
    /// The traces of Tencent's cloud block storage.
    Tencent,
    /// The format of the Storage Performance Council.
    Spc,
}

impl Format {
    /// All formats, in the order in which they are listed to people.
    pub const ALL: [Self; 10] = [
        Self::Csv,
        Self::Msr,
        Self::Mqsim,
        Self::Fio,
        Self::Blktrace,
        Self::Blkparse,
        Self::Ftrace,
        Self::Alibaba,
        Self::Tencent,
        Self::Spc,
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
            Self::Alibaba => "alibaba",
            Self::Tencent => "tencent",
            Self::Spc => "spc",
        }
    }

    /// All names, separated by commas.
    #[must_use]
    pub fn list() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// Whether its traces hold many volumes, each with addresses of its own.
    #[must_use]
    pub const fn has_volumes(self) -> bool {
        matches!(self, Self::Alibaba | Self::Tencent | Self::Spc)
    }
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
    fn names_are_read_back() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        assert_eq!(
            "xml".parse::<Format>().unwrap_err().to_string(),
            "expected a trace format (csv, msr, mqsim, fio, blktrace, blkparse, ftrace, alibaba, \
             tencent, spc), found \"xml\""
        );
    }
}
