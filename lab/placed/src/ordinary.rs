//! Where the ordinary file system is: a whole drive, or the conventional zones of one.

use host::{BlockPort, Computing, DrivePort, Linear, Who, ZonedPort};
use sim::Sim;
use ssd::{Content, IoError, Sink};
use units::{Bytes, Extent, Ns, Placement, SECTOR};

/// Blocks that are written anywhere.
#[derive(Clone)]
pub enum Ordinary<P: DrivePort> {
    /// Those of a drive without zones.
    Whole(P),
    /// Those of conventional zones, and their number of bytes.
    Conventional(Linear<P::Zones>, Bytes),
}

impl<P: DrivePort> Ordinary<P> {
    /// Those of the drive behind `port`.
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
    fn capacity(&self) -> Bytes {
        match self {
            Self::Whole(port) => port.capacity(),
            Self::Conventional(_, bytes) => *bytes,
        }
    }

    fn handles(&self) -> u16 {
        match self {
            Self::Whole(port) => port.handles(),
            Self::Conventional(port, _) => port.handles(),
        }
    }

    async fn read(&self, extent: Extent, sink: &mut impl Sink, who: Who) -> Result<(), IoError> {
        match self {
            Self::Whole(port) => port.read(extent, sink, who).await,
            Self::Conventional(port, _) => port.read(extent, sink, who).await,
        }
    }

    async fn write(
        &self,
        extent: Extent,
        content: Content<'_>,
        placement: Placement,
        who: Who,
        fua: bool,
    ) -> Result<(), IoError> {
        match self {
            Self::Whole(port) => port.write(extent, content, placement, who, fua).await,
            Self::Conventional(port, _) => port.write(extent, content, placement, who, fua).await,
        }
    }

    async fn trim(&self, extent: Extent) -> Result<(), IoError> {
        match self {
            Self::Whole(port) => port.trim(extent).await,
            Self::Conventional(port, _) => port.trim(extent).await,
        }
    }

    async fn flush(&self) -> Result<(), IoError> {
        match self {
            Self::Whole(port) => port.flush().await,
            Self::Conventional(port, _) => port.flush().await,
        }
    }

    fn compute(&self, span: Ns) -> Computing {
        match self {
            Self::Whole(port) => port.compute(span),
            Self::Conventional(port, _) => port.compute(span),
        }
    }
}
