//! The map between zones and an address space without gaps.
//!
//! The address space begins with the conventional zones, used as a whole. Behind them,
//! with `room` used sectors per sequential zone, address `a` is sector `a mod room` of
//! sequential zone `a / room`.

use ssd::ZoneLimits;
use units::Extent;

/// The zones of a drive as one address space. Lengths are in sectors of 512 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    limits: ZoneLimits,
    room: u64,
}

/// The sectors of one zone that a request touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) zone: u32,
    /// Number of sectors of the request before this piece.
    pub(crate) before: u64,
    /// The sectors of the piece in the drive's addresses.
    pub(crate) extent: Extent,
    pub(crate) is_sequential: bool,
    /// Whether the piece begins at the start of a sequential zone, and whether it ends at
    /// the end of that zone's used sectors.
    pub(crate) begins: bool,
    pub(crate) ends: bool,
}

impl Packing {
    /// The address space of a drive with `limits`. Of each sequential zone, the largest
    /// multiple of `grain` sectors within its capacity is used.
    #[must_use]
    pub const fn new(limits: ZoneLimits, grain: u64) -> Self {
        Self {
            room: limits.capacity / grain * grain,
            limits,
        }
    }

    /// Number, sizes and limits of the drive's zones.
    #[must_use]
    pub const fn limits(&self) -> &ZoneLimits {
        &self.limits
    }

    /// Number of used sectors per sequential zone.
    #[must_use]
    pub const fn room(&self) -> u64 {
        self.room
    }

    /// Number of sectors of all conventional zones.
    #[must_use]
    pub const fn conventional(&self) -> u64 {
        self.limits.conventional as u64 * self.limits.size
    }

    /// Size of the address space in sectors.
    #[must_use]
    pub const fn sectors(&self) -> u64 {
        let sequential = self.limits.zones - self.limits.conventional;
        self.conventional() + sequential as u64 * self.room
    }

    /// The zone of `sector`, and the sector's address on the drive.
    #[must_use]
    pub const fn place(&self, sector: u64) -> (u32, u64) {
        let (first, from, len) = match sector.checked_sub(self.conventional()) {
            Some(from) => (self.limits.conventional, from, self.room),
            None => (0, sector, self.limits.size),
        };
        let zone = first + (from / len) as u32;
        (zone, zone as u64 * self.limits.size + from % len)
    }

    /// The sector of this address space at address `at` of the drive, which lies in the used sectors
    /// of a zone.
    #[must_use]
    pub const fn sector(&self, at: u64) -> u64 {
        match at.checked_sub(self.conventional()) {
            Some(from) => {
                let (zone, within) = (from / self.limits.size, from % self.limits.size);
                self.conventional() + zone * self.room + within
            }
            None => at,
        }
    }

    /// Splits `extent` into pieces at the ends of zones.
    pub(crate) fn pieces(self, extent: Extent) -> impl Iterator<Item = Piece> {
        let (mut at, end) = (extent.start.0, extent.end());
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let (zone, start) = self.place(at);
            let is_sequential = zone >= self.limits.conventional;
            let len = if is_sequential {
                self.room
            } else {
                self.limits.size
            };
            let within = start - u64::from(zone) * self.limits.size;
            let count = (end - at).min(len - within);
            let piece = Piece {
                zone,
                before: at - extent.start.0,
                extent: Extent::new(start, count as u32),
                is_sequential,
                begins: is_sequential && within == 0,
                ends: is_sequential && within + count == len,
            };
            at += count;
            Some(piece)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four zones of 64 sectors: one conventional zone, and three with a capacity of 50.
    const LIMITS: ZoneLimits = ZoneLimits {
        zones: 4,
        conventional: 1,
        size: 64,
        capacity: 50,
        block: 8,
        ..ZoneLimits::NONE
    };

    #[test]
    fn place_maps_each_sector_to_its_own_address_within_the_capacity() {
        for grain in [1, 8, 16] {
            let packing = Packing::new(LIMITS, grain);
            let mut last = None;
            for sector in 0..packing.sectors() {
                let (zone, at) = packing.place(sector);
                assert!(last < Some(at), "places rise");
                last = Some(at);
                let within = at - u64::from(zone) * 64;
                let most = if zone == 0 { 64 } else { 50 / grain * grain };
                assert!(zone < 4 && within < most);
                assert_eq!(packing.sector(at), sector);
            }
        }
    }

    #[test]
    fn pieces_cover_a_request_and_end_with_zones() {
        let packing = Packing::new(LIMITS, 16);
        assert_eq!(packing.sectors(), 64 + 3 * 48);
        let pieces: Vec<Piece> = packing.pieces(Extent::new(56, 100)).collect();
        let spans = pieces.iter().map(|p| (p.zone, p.before, p.extent));
        let expected = [
            (0, 0, Extent::new(56, 8)),
            (1, 8, Extent::new(64, 48)),
            (2, 56, Extent::new(128, 44)),
        ];
        assert_eq!(spans.collect::<Vec<_>>(), expected);
        let ends = pieces.iter().map(|p| (p.begins, p.ends));
        let expected = [(false, false), (true, true), (true, false)];
        assert_eq!(ends.collect::<Vec<_>>(), expected);
    }
}
