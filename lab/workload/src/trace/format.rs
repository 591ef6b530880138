//! Names of the trace formats.

use std::fmt;
use std::str::FromStr;

/// Format of a trace of block requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Flashloom's own: `time_ns,flags,sector,sectors,process`.
    Csv,
    /// The block traces of Microsoft Research Cambridge (SNIA).
    Msr,
    /// The ASCII traces of `MQSim`, which descend from DiskSim's.
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
    /// Flashloom's own in binary, `.flb`.
    Flb,
}

impl Format {
    /// Every format, in the order in which messages list them.
    pub const ALL: [Self; 11] = [
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
        Self::Flb,
    ];

    /// Name by which a user selects the format.
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
            Self::Flb => "flb",
        }
    }

    /// Names of all formats, separated by commas, for messages.
    #[must_use]
    pub fn list() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// Whether [`write`](super::write()) can produce this format.
    #[must_use]
    pub const fn is_written(self) -> bool {
        matches!(
            self,
            Self::Csv | Self::Msr | Self::Mqsim | Self::Fio | Self::Blkparse | Self::Flb
        )
    }

    /// Whether traces of this format hold many volumes, each with addresses of its own.
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

/// Error: a name that is no trace format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a trace format ({}), found {found:?}", Format::list())]
pub struct UnknownFormat {
    /// Name as it was given.
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
    fn format_names_round_trip() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        assert_eq!(
            "xml".parse::<Format>().unwrap_err().to_string(),
            "expected a trace format (csv, msr, mqsim, fio, blktrace, blkparse, ftrace, alibaba, \
             tencent, spc, flb), found \"xml\""
        );
    }
}
