//! What a namespace lies on.
//!
//! Invariants: addresses and lengths are in bytes, and of whole logical blocks of at
//! least 512; the controller has checked that they are within [`Shape::bytes`].

use sim::Permit;
use ssd::front::RecoveryReport;
use ssd::{FdpLog, Health, ZoneAction, ZoneInfo, ZoneLimits, ZoneStatus};
use std::future::Future;
use units::Ns;

/// What a namespace is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes that its addresses run over.
    pub bytes: u64,
    /// Bytes that the host may write: less than `bytes` where zones have a size
    /// apart from their capacity.
    pub capacity: u64,
    /// What it is known by, all over the world.
    pub id: [u8; 16],
    /// Whether writes that were answered may be lost until a flush was.
    pub volatile_cache: bool,
    /// Bytes that are deallocated together.
    pub granule: u32,
    /// Blocks of the flash that replace bad ones.
    pub spare_blocks: u64,
    /// Zones, if it has any.
    pub zones: Option<ZoneLimits>,
    /// How the host says what belongs together.
    pub placements: Placements,
    /// Whether it is read and written by bytes too.
    pub bytes_too: bool,
}

/// How the host says what belongs together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placements {
    /// Not at all.
    None,
    /// By streams: so many besides the default one.
    Streams(u16),
    /// By placement handles.
    Fdp {
        /// Reclaim groups.
        groups: u16,
        /// Handles of each group.
        handles: u16,
        /// Whether data stay apart when they are moved, too.
        isolated: bool,
        /// Bytes of a reclaim unit.
        unit: u64,
    },
}

/// Why it cannot be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A zone refuses it.
    #[error(transparent)]
    Zone(#[from] ZoneStatus),
    /// Past the end.
    #[error("past the end of the namespace")]
    OutOfRange,
    /// The flash cannot be read.
    #[error("unrecovered read error")]
    Media,
    /// The flash cannot be written.
    #[error("write fault")]
    WriteFault,
    /// No more can be written.
    #[error("the namespace has become read-only")]
    ReadOnly,
    /// There is no such placement.
    #[error("no such placement")]
    Placement,
    /// It does not fit an access by bytes, or a transaction.
    #[error("not as the byte interface wants it")]
    Bytes,
    /// There is no such thing.
    #[error("the namespace has no such interface")]
    Unsupported,
    /// What keeps it has failed.
    #[error("what keeps the namespace has failed")]
    Internal,
    /// It has lost its power: nobody gets an answer any more.
    #[error("the namespace has lost its power")]
    Gone,
}

/// How a write is done besides its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// Handle or stream, counted from 0, which is the default one.
    pub placement: u16,
    /// Whether it is durable when it is answered.
    pub forced: bool,
}

/// A range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub at: u64,
    /// Bytes.
    pub len: u64,
}

impl Span {
    /// One past the last byte.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.at + self.len
    }
}

/// What a command does.
type Done<T> = Result<T, Failure>;

/// What a namespace lies on. Methods of interfaces that it does not have answer
/// [`Failure::Unsupported`].
pub trait Backend: Sized + 'static {
    /// What it is. Never changes.
    fn shape(&self) -> &Shape;

    /// Reads from byte `at` on.
    fn read(&self, at: u64, into: &mut [u8]) -> impl Future<Output = Done<()>>;

    /// Fails where [`Backend::read`] would. What it reads, if it has to, it may leave in `space`.
    fn verify(&self, at: u64, space: &mut [u8]) -> impl Future<Output = Done<()>> {
        self.read(at, space)
    }

    /// Writes from byte `at` on.
    fn write(&self, at: u64, data: &[u8], how: Manner) -> impl Future<Output = Done<()>>;

    /// Makes `span` read as zeros, and deallocates what it can.
    fn zero(&self, span: Span, how: Manner) -> impl Future<Output = Done<()>>;

    /// Whether [`Backend::spoil`] does anything.
    fn can_spoil(&self) -> bool {
        false
    }

    /// Makes reads of any part of `span` fail until that is written.
    fn spoil(&self, span: Span) -> impl Future<Output = Done<()>> {
        let _ = span;
        async { Err(Failure::Unsupported) }
    }

    /// Deallocates what it can of `span`; what it deallocates reads as zeros.
    fn deallocate(&self, span: Span) -> impl Future<Output = Done<()>>;

    /// Makes every write that was answered durable.
    fn flush(&self) -> impl Future<Output = Done<()>>;

    /// Copies `sources`, one after the other, to byte `to`. All of them are read before
    /// anything is written.
    fn copy(&self, sources: &[Span], to: u64, how: Manner) -> impl Future<Output = Done<()>> {
        async move {
            let len = sources.iter().map(|span| span.len as usize).sum();
            let mut bytes = vec![0; len];
            let mut rest = &mut bytes[..];
            for span in sources {
                let (part, behind) = rest.split_at_mut(span.len as usize);
                self.read(span.at, part).await?;
                rest = behind;
            }
            self.write(to, &bytes, how).await
        }
    }

    /// Waits until `bytes` may be kept for a command beside the data that come or go with it;
    /// they may be until what is given is dropped.
    fn room(&self, bytes: u64) -> impl Future<Output = Option<Permit>> {
        let _ = bytes;
        async { None }
    }

    /// Counters over its life.
    fn health(&self) -> Option<Health>;

    /// Whether the health is that of a namespace before this one.
    fn shares_health(&self) -> bool {
        false
    }

    /// Whether nothing can be written any more.
    fn is_read_only(&self) -> bool {
        false
    }

    /// What its clock shows.
    fn now(&self) -> Ns {
        Ns::ZERO
    }

    /// The descriptor of zone `zone`.
    fn zone(&self, zone: u32) -> Option<ZoneInfo> {
        let _ = zone;
        None
    }

    /// Changes the state of a zone, or of all zones that it makes sense for.
    fn manage(&self, zone: Option<u32>, action: ZoneAction) -> impl Future<Output = Done<()>> {
        let _ = (zone, action);
        async { Err(Failure::Unsupported) }
    }

    /// Makes what the random write area of a zone holds part of it, up to byte `end`.
    fn commit_zone(&self, end: u64) -> impl Future<Output = Done<()>> {
        let _ = end;
        async { Err(Failure::Unsupported) }
    }

    /// Appends to a zone, and gives the byte where the data have come to.
    fn append(&self, zone: u32, data: &[u8], how: Manner) -> impl Future<Output = Done<u64>> {
        let _ = (zone, data, how);
        async { Err(Failure::Unsupported) }
    }

    /// What has happened to reclaim units.
    fn fdp(&self) -> Option<FdpLog> {
        None
    }

    /// Bytes that the reclaim unit of a placement handle still takes; none if that is not
    /// known.
    fn writable_in_unit(&self, placement: u16) -> Option<u64> {
        let _ = placement;
        None
    }

    /// Makes a placement handle refer to an empty reclaim unit.
    fn renew_unit(&self, placement: u16) -> impl Future<Output = Done<()>> {
        let _ = placement;
        async { Err(Failure::Unsupported) }
    }

    /// Reads lines of 64 bytes from byte `at` on.
    fn load(&self, at: u64, into: &mut [u8]) -> impl Future<Output = Done<()>> {
        let _ = (at, into);
        async { Err(Failure::Unsupported) }
    }

    /// Writes lines of 64 bytes from byte `at` on for transaction `tx`; 0 is none.
    fn store(&self, at: u64, data: &[u8], tx: u32) -> impl Future<Output = Done<()>> {
        let _ = (at, data, tx);
        async { Err(Failure::Unsupported) }
    }

    /// Commits transaction `tx`.
    fn commit(&self, tx: u32) -> impl Future<Output = Done<()>> {
        let _ = tx;
        async { Err(Failure::Unsupported) }
    }

    /// Brings home what had committed before the power went.
    fn recover(&self) -> impl Future<Output = Done<RecoveryReport>> {
        async { Err(Failure::Unsupported) }
    }
}
