//! A namespace: a backend, and the size of the logical blocks through which the host addresses it.

use crate::backend::{Backend, Placements, Shape, Span};
use crate::command::io::{Blocks, Hint, Writing};
use crate::status::Status;
use crate::{Failure, Manner};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use units::SECTOR;

/// Block sizes by the index of their LBA format, as powers of two.
pub(crate) const FORMATS: [u8; 2] = [9, 12];

/// The LBA format of a namespace, readable from another thread.
pub(crate) struct Watch(Arc<AtomicU8>);

impl Watch {
    /// Size of a logical block in bytes.
    pub(crate) fn block(&self) -> u64 {
        1 << FORMATS[usize::from(self.0.load(Ordering::Relaxed))]
    }
}

/// A backend with an LBA format and open streams.
pub struct Namespace<B> {
    backend: B,
    /// Index of the current LBA format in [`FORMATS`].
    format: Arc<AtomicU8>,
    /// Open streams, and the placement of each.
    pub(crate) streams: RefCell<BTreeMap<u16, u16>>,
}

impl<B: Backend> Namespace<B> {
    /// A namespace over `backend`. Its blocks have 4,096 bytes, the unit that drives here map,
    /// until a host formats it otherwise.
    #[must_use]
    pub fn new(backend: B) -> Self {
        Self {
            backend,
            format: Arc::new(AtomicU8::new(1)),
            streams: RefCell::default(),
        }
    }

    /// The backend that stores the blocks.
    #[must_use]
    pub fn backend(&self) -> &B {
        &self.backend
    }

    pub(crate) fn shape(&self) -> &Shape {
        self.backend.shape()
    }

    /// Size of a logical block in bytes.
    pub(crate) fn block(&self) -> u64 {
        1 << FORMATS[usize::from(self.format())]
    }

    /// Index of the LBA format.
    pub(crate) fn format(&self) -> u8 {
        self.format.load(Ordering::Relaxed)
    }

    /// Whether the namespace supports the LBA format; zones require blocks of 4,096 bytes.
    pub(crate) fn has_format(&self, format: u8) -> bool {
        let power = FORMATS.get(usize::from(format));
        power.is_some_and(|&power| self.smallest_block() <= 1 << power)
    }

    pub(crate) fn set_format(&self, format: u8) {
        self.format.store(format, Ordering::Relaxed);
    }

    /// Shares the LBA format with a transport on another thread, which computes data lengths from
    /// it. During a Format the length may be stale; the command then rejects the data.
    pub(crate) fn watch_format(&self) -> Watch {
        Watch(Arc::clone(&self.format))
    }

    fn smallest_block(&self) -> u64 {
        let zones = self.shape().zones;
        zones.map_or(SECTOR, |zones| zones.block * SECTOR)
    }

    /// Size of the namespace in blocks.
    pub(crate) fn blocks(&self) -> u64 {
        self.shape().bytes / self.block()
    }

    /// Byte range of `blocks`.
    pub(crate) fn span(&self, blocks: Blocks) -> Result<Span, Status> {
        let end = blocks.first.checked_add(blocks.count);
        let fits = end.is_some_and(|end| end <= self.blocks());
        fits.then(|| Span {
            at: blocks.first * self.block(),
            len: blocks.count * self.block(),
        })
        .ok_or(Status::LbaOutOfRange)
    }

    /// Index of the zone that starts at block `first`.
    pub(crate) fn zone_at(&self, first: u64) -> Result<u32, Status> {
        let zones = self.shape().zones.ok_or(Status::InvalidOpcode)?;
        if first >= self.blocks() {
            return Err(Status::LbaOutOfRange);
        }
        let size = zones.size * SECTOR / self.block();
        let starts = first.is_multiple_of(size);
        starts
            .then_some((first / size) as u32)
            .ok_or(Status::InvalidField)
    }

    /// Resolves the hint of a write to a placement.
    pub(crate) fn manner(&self, writing: Writing) -> Result<Manner, Status> {
        let placement = match (writing.hint, self.shape().placements) {
            (Hint::None, _) => 0,
            (Hint::Stream(0), Placements::Streams(_)) => 0,
            (Hint::Stream(id), Placements::Streams(most)) => self.stream(id, most),
            // The drive logs an event for an unknown placement, under its own number.
            (
                Hint::Placement(id),
                Placements::Fdp {
                    groups, handles, ..
                },
            ) => known_placement(id, groups, handles).unwrap_or(id.max(groups * handles)),
            _ => return Err(Status::InvalidField),
        };
        Ok(Manner {
            placement,
            forced: writing.forced,
        })
    }

    /// Placement of stream `id`. Opens the stream if fewer than `most` are open; otherwise returns
    /// the default placement.
    //= nvme-2.1 8.1.8
    fn stream(&self, id: u16, most: u16) -> u16 {
        let mut streams = self.streams.borrow_mut();
        if let Some(&placement) = streams.get(&id) {
            return placement;
        }
        let free = (1..=most).find(|free| streams.values().all(|used| used != free));
        free.inspect(|&free| {
            streams.insert(id, free);
        })
        .unwrap_or(0)
    }
}

/// Number of high bits of a placement identifier that name its reclaim group.
//= nvme-2.1 8.1.10
pub(crate) fn group_bits(groups: u16) -> u32 {
    groups.max(1).next_power_of_two().trailing_zeros()
}

/// Placement identifier by which the host names `placement`.
pub(crate) fn placement_id(placement: u16, groups: u16, handles: u16) -> u16 {
    let (group, handle) = (placement / handles, placement % handles);
    let high = u32::from(group) << (16 - group_bits(groups));
    (high as u16) | handle
}

/// Placement with the identifier `id`; none if there is no such placement.
//= nvme-2.1 8.1.10
pub(crate) fn known_placement(id: u16, groups: u16, handles: u16) -> Option<u16> {
    let shift = 16 - group_bits(groups);
    let (group, handle) = match shift {
        16 => (0, id),
        _ => (id >> shift, id & ((1 << shift) - 1)),
    };
    let exists = group < groups && handle < handles;
    exists.then(|| group * handles + handle)
}

impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Zone(status) => Self::Zone(status),
            Failure::OutOfRange => Self::LbaOutOfRange,
            Failure::Media => Self::UnrecoveredRead,
            Failure::WriteFault => Self::WriteFault,
            Failure::Gone => Self::PowerLost,
            Failure::ReadOnly => Self::WriteProtected,
            Failure::Placement | Failure::Bytes => Self::InvalidField,
            Failure::Unsupported => Self::InvalidOpcode,
            Failure::Internal => Self::InternalError,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_are_named_by_group_and_handle() {
        for (groups, handles) in [(1, 8), (2, 4), (3, 8), (16, 16)] {
            for number in 0..groups * handles {
                let id = placement_id(number, groups, handles);
                assert_eq!(known_placement(id, groups, handles), Some(number));
            }
            assert_eq!(known_placement(handles, groups, handles), None);
        }
        // With two groups, the highest bit names the group.
        assert_eq!(placement_id(5, 2, 4), 0x8001);
        assert_eq!(known_placement(0x8004, 2, 4), None);
    }
}
