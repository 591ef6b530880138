//! The device of the ordinary file system: a whole drive, or the conventional zones of one.

use host::{BlockPort, Computing, DrivePort, Linear, Who, ZonedPort};
use sim::Sim;
use ssd::{Content, IoError, Sink};
use units::{Bytes, Extent, Ns, Placement, SECTOR};

/// Blocks that accept random writes.
#[derive(Clone)]
pub enum Ordinary<P: DrivePort> {
    /// All blocks of a drive without zones.
    Whole(P),
    /// The blocks of conventional zones, and their size in bytes.
    Conventional(Linear<P::Zones>, Bytes),
}

impl<P: DrivePort> Ordinary<P> {
    /// The randomly writable blocks of the drive behind `port`.
    #[must_use]
    pub fn of(sim: &Sim, port: &P) -> Self {
        match port.zones() {
            None => Self::Whole(port.clone()),
            Some(zones) => {
                let limits = zones.limits();
                let sectors = u64::from(limits.conventional) * limits.size;
                Self::Conventional(Linear::new(sim, zones), Bytes(sectors * SECTOR))
            }
        }
    }
}

impl<P: DrivePort> BlockPort for Ordinary<P> {
    host::pass_block!([Self::Whole(port) => port, Self::Conventional(port, _) => port]
        handles, read, write, trim, flush, compute);

    fn capacity(&self) -> Bytes {
        match self {
            Self::Whole(port) => port.capacity(),
            Self::Conventional(_, bytes) => *bytes,
        }
    }
}
