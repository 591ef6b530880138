//! The designs that are compared, as a table of which parts are on.

/// What moves pages between the drive and the host's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Migration {
    /// Nothing: all pages stay on the drive.
    Stay,
    /// The drive counts accesses and tells which pages are hot.
    Counted,
    /// The host samples accesses, as TPP does.
    Sampled,
    /// The host's memory is a cache of pages in hardware, as in AstriFlash.
    HostCache,
}

/// One of the memory systems that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Design {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a line.
    pub help: &'static str,
    /// Whether there is a drive at all, or enough DRAM for everything.
    pub drive: bool,
    /// Part C: the drive hints that an access takes long, and the host switches.
    pub switches: bool,
    /// Part P, or what stands for it.
    pub migration: Migration,
    /// Part W: the log of lines.
    pub log: bool,
}

/// All of them, in the order of the paper's figures.
//= skybyte 6.1
//= skybyte 6.8
pub const DESIGNS: &[Design] = &[
    design(
        "base-cssd",
        "the CXL-SSD alone",
        false,
        Migration::Stay,
        false,
    ),
    design(
        "skybyte-c",
        "with context switches",
        true,
        Migration::Stay,
        false,
    ),
    design(
        "skybyte-p",
        "with page migration",
        false,
        Migration::Counted,
        false,
    ),
    design(
        "skybyte-w",
        "with the write log",
        false,
        Migration::Stay,
        true,
    ),
    design(
        "skybyte-cp",
        "switches, migration",
        true,
        Migration::Counted,
        false,
    ),
    design(
        "skybyte-wp",
        "log, migration",
        false,
        Migration::Counted,
        true,
    ),
    design(
        "skybyte-full",
        "switches, log, migration",
        true,
        Migration::Counted,
        true,
    ),
    design(
        "skybyte-ct",
        "switches, migration by TPP",
        true,
        Migration::Sampled,
        false,
    ),
    design(
        "skybyte-wct",
        "switches, log, migration by TPP",
        true,
        Migration::Sampled,
        true,
    ),
    design(
        "astriflash-cxl",
        "host DRAM as a cache of pages",
        false,
        Migration::HostCache,
        false,
    ),
    Design {
        drive: false,
        ..design(
            "dram-only",
            "DRAM for everything",
            false,
            Migration::Stay,
            false,
        )
    },
];

const fn design(
    name: &'static str,
    help: &'static str,
    switches: bool,
    migration: Migration,
    log: bool,
) -> Design {
    Design {
        name,
        help,
        drive: true,
        switches,
        migration,
        log,
    }
}

impl Design {
    /// The design called `name`.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        DESIGNS.iter().find(|design| design.name == name)
    }
}
