//! Storage behind a namespace.
//!
//! Invariants: addresses and lengths are in bytes, in whole logical blocks of at least 512; the
//! controller has checked them against [`Shape::bytes`].

use sim::Permit;
use ssd::front::RecoveryReport;
use ssd::{FdpLog, Health, ZoneAction, ZoneInfo, ZoneLimits, ZoneStatus};
use std::future::Future;
use units::Ns;

/// Constant properties of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Size of the address space in bytes.
    pub bytes: u64,
    /// Writable bytes: less than `bytes` if the capacity of zones is below their size.
    pub capacity: u64,
    /// Globally unique identifier of the namespace, 128 bits.
    pub id: [u8; 16],
    /// Whether acknowledged writes may be lost before a flush.
    pub volatile_cache: bool,
    /// Granularity of deallocation in bytes.
    pub granule: u32,
    /// Number of spare flash blocks that replace bad ones.
    pub spare_blocks: u64,
    /// Limits of the zones; none for a namespace without zones.
    pub zones: Option<ZoneLimits>,
    /// Placement hints that the namespace accepts.
    pub placements: Placements,
    /// Whether the namespace also supports byte access.
    pub bytes_too: bool,
}

/// Kind of placement hints of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placements {
    /// The namespace takes no placement hints.
    None,
    /// Streams: their number besides the default one.
    Streams(u16),
    /// Flexible data placement (FDP), with reclaim groups and handles.
    Fdp {
        /// Number of reclaim groups.
        groups: u16,
        /// Number of handles in each group.
        handles: u16,
        /// Whether garbage collection keeps the handles' data apart.
        isolated: bool,
        /// Size of a reclaim unit in bytes.
        unit: u64,
    },
}

/// Reasons why a backend rejects or fails a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The state or limits of a zone forbid the request.
    #[error(transparent)]
    Zone(#[from] ZoneStatus),
    /// The range reaches past the end of the namespace.
    #[error("past the end of the namespace")]
    OutOfRange,
    /// Uncorrectable read error of the flash.
    #[error("unrecovered read error")]
    Media,
    /// Write error of the flash.
    #[error("write fault")]
    WriteFault,
    /// The drive has become read-only.
    #[error("the namespace has become read-only")]
    ReadOnly,
    /// The placement identifier does not exist.
    #[error("no such placement")]
    Placement,
    /// Invalid range or transaction of a byte access.
    #[error("not as the byte interface wants it")]
    Bytes,
    /// The backend does not support the request.
    #[error("the namespace has no such interface")]
    Unsupported,
    /// The drive's file cannot be written.
    #[error("what keeps the namespace has failed")]
    Internal,
    /// The drive has no power: no request is answered any more.
    #[error("the namespace has lost its power")]
    Gone,
}

/// Options of a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// Index of the handle or stream; 0 is the default one.
    pub placement: u16,
    /// Whether the write must be durable before its completion (FUA).
    pub forced: bool,
}

/// A range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte.
    pub at: u64,
    /// Length of the span in bytes.
    pub len: u64,
}

impl Span {
    /// Offset one past the last byte.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.at + self.len
    }
}

/// Result of a request.
type Done<T> = Result<T, Failure>;

/// Storage behind a namespace. Methods of unsupported interfaces return [`Failure::Unsupported`].
pub trait Backend: Sized + 'static {
    /// Properties of the namespace; they never change.
    fn shape(&self) -> &Shape;

    /// Fills `into` with the bytes from `at` on.
    fn read(&self, at: u64, into: &mut [u8]) -> impl Future<Output = Done<()>>;

    /// Checks that the `space.len()` bytes at `at` are readable: fails exactly if
    /// [`Backend::read`] does. May use `space` as a buffer.
    fn verify(&self, at: u64, space: &mut [u8]) -> impl Future<Output = Done<()>> {
        self.read(at, space)
    }

    /// Writes `data` from byte `at` on.
    fn write(&self, at: u64, data: &[u8], how: Manner) -> impl Future<Output = Done<()>>;

    /// Makes `span` read as zeros; deallocates whole granules where possible.
    fn zero(&self, span: Span, how: Manner) -> impl Future<Output = Done<()>>;

    /// Whether [`Backend::spoil`] is supported.
    fn can_spoil(&self) -> bool {
        false
    }

    /// Makes reads of any part of `span` fail until that part is written.
    fn spoil(&self, span: Span) -> impl Future<Output = Done<()>> {
        let _ = span;
        async { Err(Failure::Unsupported) }
    }

    /// Deallocates the whole granules of `span`, which then read as zeros.
    fn deallocate(&self, span: Span) -> impl Future<Output = Done<()>>;

    /// Makes every acknowledged write durable.
    fn flush(&self) -> impl Future<Output = Done<()>>;

    /// Copies `sources`, concatenated, to byte `to`. Reads all sources before the first write.
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

    /// Waits for `bytes` of buffer space beside the command's transferred data; the permit holds
    /// the space until it is dropped. None means no limit.
    fn room(&self, bytes: u64) -> impl Future<Output = Option<Permit>> {
        let _ = bytes;
        async { None }
    }

    /// Health counters over the life of the backend; none if it keeps none.
    fn health(&self) -> Option<Health>;

    /// Whether an earlier namespace reports the same health, so that sums must skip this one.
    fn shares_health(&self) -> bool {
        false
    }

    /// Whether the backend has become read-only.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Current virtual time; zero for a backend without a clock.
    fn now(&self) -> Ns {
        Ns::ZERO
    }

    /// Descriptor of zone `zone`; none if there is no such zone.
    fn zone(&self, zone: u32) -> Option<ZoneInfo> {
        let _ = zone;
        None
    }

    /// Performs `action` on a zone, or with none on all zones in a suitable state.
    fn manage(&self, zone: Option<u32>, action: ZoneAction) -> impl Future<Output = Done<()>> {
        let _ = (zone, action);
        async { Err(Failure::Unsupported) }
    }

    /// Commits the random write area of a zone up to byte `end`.
    fn commit_zone(&self, end: u64) -> impl Future<Output = Done<()>> {
        let _ = end;
        async { Err(Failure::Unsupported) }
    }

    /// Appends to a zone; returns the byte offset of the data.
    fn append(&self, zone: u32, data: &[u8], how: Manner) -> impl Future<Output = Done<u64>> {
        let _ = (zone, data, how);
        async { Err(Failure::Unsupported) }
    }

    /// Log of the reclaim units; none without flexible data placement.
    fn fdp(&self) -> Option<FdpLog> {
        None
    }

    /// Bytes left in the reclaim unit of a placement handle; none if unknown.
    fn writable_in_unit(&self, placement: u16) -> Option<u64> {
        let _ = placement;
        None
    }

    /// Points a placement handle to an empty reclaim unit.
    fn renew_unit(&self, placement: u16) -> impl Future<Output = Done<()>> {
        let _ = placement;
        async { Err(Failure::Unsupported) }
    }

    /// Reads 64-byte lines from byte `at` on.
    fn load(&self, at: u64, into: &mut [u8]) -> impl Future<Output = Done<()>> {
        let _ = (at, into);
        async { Err(Failure::Unsupported) }
    }

    /// Writes 64-byte lines from byte `at` on as part of transaction `tx`; 0 for none.
    fn store(&self, at: u64, data: &[u8], tx: u32) -> impl Future<Output = Done<()>> {
        let _ = (at, data, tx);
        async { Err(Failure::Unsupported) }
    }

    /// Commits transaction `tx`, which makes its lines durable.
    fn commit(&self, tx: u32) -> impl Future<Output = Done<()>> {
        let _ = tx;
        async { Err(Failure::Unsupported) }
    }

    /// Replays the transactions that had committed before the power loss.
    fn recover(&self) -> impl Future<Output = Done<RecoveryReport>> {
        async { Err(Failure::Unsupported) }
    }
}
