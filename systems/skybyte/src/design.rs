//! Table of the compared designs, with the parts of SkyByte that each one has.

/// Mechanism that moves pages between the drive and the host's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Migration {
    /// No migration: all pages stay on the drive.
    Stay,
    /// The drive counts accesses and reports hot pages to the host.
    Counted,
    /// The host samples accesses, as TPP does.
    Sampled,
    /// The host's memory is a cache of pages in hardware, as in AstriFlash.
    HostCache,
}

/// A memory system of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Design {
    /// Name in plans and reports, e.g. `skybyte-full`.
    pub name: &'static str,
    /// One-line description for listings.
    pub help: &'static str,
    /// Whether memory is on a drive; false for a host with DRAM for everything.
    pub drive: bool,
    /// Part C: the drive sends delay hints, and the host switches threads on them.
    pub switches: bool,
    /// Part P, or the migration that the design has in its place.
    pub migration: Migration,
    /// Part W: whether the drive has a write log.
    pub log: bool,
}

/// All designs, in the order of the paper's figures.
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
    /// Looks a design up by name; `None` if there is none.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        DESIGNS.iter().find(|design| design.name == name)
    }
}
