//! Quantities of the storage field as types: time, bytes, addresses, placements, lifetime
//! hints, and allocations that found no space. Also suggestions for misspelled words
//! ([`did_you_mean`]) and a macro for methods that delegate ([`pass_on`]).
//!
//! Invariants: every quantity is an integer; printing rounds to two decimals, and the
//! printed form parses ([`Ns`] always, [`Bytes`] if nothing was rounded away); arithmetic
//! that would leave the range is a programming error and panics in debug builds.
//!
//! This crate knows no drive, no host and no clock.

mod hint;
pub mod layout;
mod parse;
mod pass;
mod refusal;
mod size;
mod suggest;
mod time;

pub use hint::Hint;
pub use parse::ParseError;
pub use refusal::{Holder, NoSpace, Refusals, Refused};
pub use size::{Bytes, GIB, KIB, MIB, TIB};
pub use suggest::did_you_mean;
pub use time::{Ns, Rate};

/// Bytes of one host-visible sector, the unit in which [`Lba`] counts: 512.
pub const SECTOR: u64 = 512;

/// A logical block address of the host, in 512-byte sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lba(pub u64);

/// A contiguous range of the host's 512-byte sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Extent {
    /// First sector of the range.
    pub start: Lba,
    /// Length in 512-byte sectors.
    pub sectors: u32,
}

impl Extent {
    /// The range of `sectors` sectors from `start`.
    #[must_use]
    pub const fn new(start: u64, sectors: u32) -> Self {
        Self {
            start: Lba(start),
            sectors,
        }
    }

    /// One past the last sector.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.start.0 + self.sectors as u64
    }

    /// Length of the range in bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.sectors as u64 * SECTOR
    }
}

/// A placement handle in the host's numbering: a stream of a multi-stream drive,
/// a placement identifier of an FDP drive. Handle 0 is the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Placement(pub u16);

/// The cause of a request: an index into the host's table of labels (a process, a file,
/// a structure). Origin 0 is "unnamed".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin(pub u16);
