//! The device of the ordinary file system: a whole drive, or the conventional zones of one.

use host::{BlockPort, Computing, Disk, Linear, Who, ZoneDisk, ZonedPort};
use sim::Sim;
use ssd::{Content, IoError, Sink};
use units::{Bytes, Extent, Ns, Placement, SECTOR};

/// Blocks that accept random writes.
#[derive(Clone)]
pub enum Ordinary {
    /// All blocks of a drive without zones.
    Whole(Disk),
    /// The blocks of conventional zones, and their size in bytes.
    Conventional(Linear<ZoneDisk>, Bytes),
}

impl Ordinary {
    /// The randomly writable blocks of a drive, from its block port and its zones if it has some.
    #[must_use]
    pub fn of(sim: &Sim, disk: Disk, zones: Option<ZoneDisk>) -> Self {
        match zones {
            None => Self::Whole(disk),
            Some(zones) => {
                let limits = zones.limits();
                let sectors = u64::from(limits.conventional) * limits.size;
                Self::Conventional(Linear::new(sim, zones), Bytes(sectors * SECTOR))
            }
        }
    }
}

impl BlockPort for Ordinary {
    host::pass_block!([Self::Whole(port) => port, Self::Conventional(port, _) => port]
        handles, read, write, trim, flush, compute);

    fn capacity(&self) -> Bytes {
        match self {
            Self::Whole(port) => port.capacity(),
            Self::Conventional(_, bytes) => *bytes,
        }
    }
}
