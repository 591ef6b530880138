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
    /// The kernel's text of block tracepoints.
    Ftrace,
    /// The same, as `perf script` prints it.
    Perf,
    /// The same, as `trace-cmd report` prints it.
    TraceCmd,
    /// The output of biosnoop.
    Biosnoop,
    /// The block traces of Alibaba Cloud.
    Alibaba,
    /// The traces of Tencent's cloud block storage.
    Tencent,
    /// The format of the Storage Performance Council.
    Spc,
    /// The traces of virtual desktops of SYSTOR '17.
    Systor,
    /// The traces of Florida International University.
    Fiu,
    /// The traces of `CloudPhysics` as tables.
    CloudPhysics,
    /// The binary traces of `VMware`'s vscsi layer, versions 1 and 2.
    Vscsi,
    /// The ASCII traces of `DiskSim`.
    DiskSim,
    /// The binary oracleGeneral traces of libCacheSim.
    Oracle,
    /// Flashloom's own in binary, `.flb`.
    Flb,
    /// A table of any program, whose columns [`Options`](super::Options) state. It has no name that
    /// a user could select.
    Table,
}

impl Format {
    /// Every format that a user can select, in the order in which messages list them.
    pub const ALL: [Self; 20] = [
        Self::Csv,
        Self::Msr,
        Self::Mqsim,
        Self::Fio,
        Self::Blktrace,
        Self::Blkparse,
        Self::Ftrace,
        Self::Perf,
        Self::TraceCmd,
        Self::Biosnoop,
        Self::Alibaba,
        Self::Tencent,
        Self::Spc,
        Self::Systor,
        Self::Fiu,
        Self::CloudPhysics,
        Self::Vscsi,
        Self::DiskSim,
        Self::Oracle,
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
            Self::Perf => "perf",
            Self::TraceCmd => "trace-cmd",
            Self::Biosnoop => "biosnoop",
            Self::Alibaba => "alibaba",
            Self::Tencent => "tencent",
            Self::Spc => "spc",
            Self::Systor => "systor",
            Self::Fiu => "fiu",
            Self::CloudPhysics => "cloudphysics",
            Self::Vscsi => "vscsi",
            Self::DiskSim => "disksim",
            Self::Oracle => "oracle",
            Self::Flb => "flb",
            Self::Table => "columns",
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
        matches!(
            self,
            Self::Alibaba | Self::Tencent | Self::Spc | Self::Systor
        )
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
            "expected a trace format (csv, msr, mqsim, fio, blktrace, blkparse, ftrace, perf, \
             trace-cmd, biosnoop, alibaba, tencent, spc, systor, fiu, cloudphysics, vscsi, disksim, \
             oracle, flb), found \"xml\""
        );
    }
}
