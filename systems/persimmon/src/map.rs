//! The three structures in memory: addresses of metadata blocks (MAT), invalid blocks of
//! each metadata zone (ZIT), and the zones in use (ZB).
//!
//! # Invariants
//!
//! - A metadata block or chunk page is valid only at the address that the map has for it;
//!   both count as valid blocks (the paper's artifact leaves pages out).
//! - A failed zone is neither opened nor cleaned; it is read while the drive still reads it.
//! - A part of the map in memory equals its newest page, so it can be evicted at any time.

use crate::format::{About, Entries, PER_CHUNK, ZONES_MAX, ZoneAt};
use crate::layout::Layout;
use std::collections::BTreeMap;
use std::ops::Range;
use units::NoSpace;

/// State of a metadata zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Zone {
    pub(crate) at: ZoneAt,
    /// Valid blocks: those that the map references.
    pub(crate) valid: u32,
    /// Whether the drive reports the zone read-only or offline.
    pub(crate) lost: bool,
}

impl Zone {
    /// Written blocks that are not valid.
    pub(crate) const fn invalid(&self) -> u32 {
        self.at.written.saturating_sub(self.valid)
    }

    /// Whether the zone can be opened.
    const fn is_free(&self) -> bool {
        self.at.epoch == 0 && !self.lost
    }

    /// Whether the zone was opened since its last reset, and may have valid blocks.
    const fn is_used(&self) -> bool {
        self.at.epoch != 0
    }
}

/// Cleaning victim: the zone with the most invalid blocks, the lowest number among equals;
/// `None` if no zone has any.
//= dissertation 4.3.3
pub(crate) fn victim(zones: &[Zone], current: u32) -> Option<u32> {
    let zones = (0..).zip(zones);
    let full = zones.filter(|(zone, state)| *zone != current && state.is_used() && !state.lost);
    let gain = full.filter(|(_, state)| state.invalid() > 0);
    let most = gain.max_by_key(|(zone, state)| (state.invalid(), std::cmp::Reverse(*zone)));
    most.map(|(zone, _)| zone)
}

/// A zone without valid blocks: a reset empties it without relocation.
pub(crate) fn of_no_use(zones: &[Zone], current: u32) -> Option<u32> {
    let mut zones = (0..).zip(zones);
    let found = zones.find(|(zone, state)| {
        *zone != current && state.is_used() && !state.lost && state.valid == 0
    });
    found.map(|(zone, _)| zone)
}

/// The free zone with the lowest number, if any.
//= dissertation 4.3.2
pub(crate) fn first_free(zones: &[Zone]) -> Option<u32> {
    let at = zones.iter().position(Zone::is_free)?;
    u32::try_from(at).ok()
}

/// Explains a lack of free metadata zones: counts zones by what holds them.
pub(crate) fn no_zone(map: &Map) -> NoSpace {
    let kinds = [
        "zones that have failed",
        "the zone that is written",
        "zones full of valid metadata",
        "zones of metadata that is valid in part",
    ];
    let kind_of = |(number, zone): (u32, &Zone)| match zone {
        _ if zone.lost => Some(0),
        _ if !zone.is_used() => None,
        _ if number == map.current => Some(1),
        _ if zone.invalid() == 0 => Some(2),
        _ => Some(3),
    };
    let mut counts = [0; 4];
    let found = (0..).zip(&map.zones).filter_map(kind_of);
    found.for_each(|kind: usize| counts[kind] += 1);
    let (free, all) = (map.free_zones().into(), map.zones.len() as u64);
    let none = NoSpace::new("free zones of metadata", 1, free, all);
    let holders = kinds.into_iter().zip(counts);
    holders.fold(none, |why, (who, amount)| why.held(who, amount))
}

/// A part of the map in memory; `used` is its last use, for LRU eviction.
struct Part {
    entries: Box<Entries>,
    used: u64,
}

/// Map of metadata blocks (MAT) with the states of their zones (ZIT and ZB).
pub(crate) struct Map {
    layout: Layout,
    /// Virtual F2FS addresses that the map covers.
    blocks: Range<u32>,
    /// Address of each part's page; 0 for a page that was never written.
    pages: Vec<u32>,
    parts: BTreeMap<u32, Part>,
    /// Parts kept in memory at most.
    most: usize,
    clock: u64,
    pub(crate) zones: Vec<Zone>,
    /// The zone with the write point.
    pub(crate) current: u32,
    /// Count of zones opened since mkfs.
    pub(crate) epoch: u32,
}

impl Map {
    /// An empty map of the virtual addresses `blocks`; all metadata zones are free.
    pub(crate) fn new(layout: Layout, blocks: Range<u32>) -> Self {
        Self {
            pages: vec![0; blocks.len().div_ceil(PER_CHUNK)],
            blocks,
            parts: BTreeMap::new(),
            most: usize::MAX,
            clock: 0,
            zones: vec![Zone::default(); layout.metadata_zones as usize],
            current: 0,
            epoch: 0,
            layout,
        }
    }

    /// Limits the parts in memory to `most`, at least one; `None` is no limit.
    pub(crate) fn limit(&mut self, most: Option<usize>) {
        self.most = most.map_or(usize::MAX, |most| most.max(1));
        self.shrink(self.most);
    }

    fn shrink(&mut self, most: usize) {
        while self.parts.len() > most {
            let oldest = self.parts.iter().min_by_key(|(_, part)| part.used);
            let Some((&oldest, _)) = oldest else { break };
            self.parts.remove(&oldest);
        }
    }

    /// Index of a virtual F2FS address; `None` if the map does not cover it.
    pub(crate) fn index(&self, block: u32) -> Option<u32> {
        let known = self.blocks.contains(&block);
        known.then(|| block - self.blocks.start)
    }

    /// Part that contains block `index`.
    pub(crate) const fn part_of(index: u32) -> u32 {
        index / PER_CHUNK as u32
    }

    /// Address of each part's page; 0 for a page that was never written.
    pub(crate) fn pages(&self) -> &[u32] {
        &self.pages
    }

    /// Addresses of a part if it is in memory; counts as a use.
    pub(crate) fn part(&mut self, part: u32) -> Option<&Entries> {
        self.clock += 1;
        let found = self.parts.get_mut(&part)?;
        found.used = self.clock;
        Some(&found.entries)
    }

    /// Inserts a part into memory; evicts the least recently used parts.
    pub(crate) fn keep(&mut self, part: u32, entries: Box<Entries>) {
        self.shrink(self.most - 1);
        self.clock += 1;
        let used = self.clock;
        self.parts.insert(part, Part { entries, used });
    }

    /// Moves one valid block from the zone of `old` to that of `new`; 0 is no address.
    fn move_valid(&mut self, old: u32, new: u32) {
        if let Some(zone) = self.layout.metadata_zone(old).filter(|_| old != 0) {
            self.zones[zone as usize].valid -= 1;
        }
        if let Some(zone) = self.layout.metadata_zone(new).filter(|_| new != 0) {
            self.zones[zone as usize].valid += 1;
        }
    }

    /// Division of the drive's zones.
    pub(crate) const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Whether `addr` lies in a metadata zone, before its write pointer.
    pub(crate) fn is_written(&self, addr: u32) -> bool {
        let zone = self.layout.metadata_zone(addr);
        zone.is_some_and(|zone| {
            let within = addr - self.layout.metadata(zone).start;
            within < self.zones[zone as usize].at.written
        })
    }

    /// Records, at recovery, that the page of a part was found at `addr`; leaves the counts of
    /// valid blocks to [`Self::count`].
    pub(crate) fn set_found(&mut self, part: u32, addr: u32) {
        self.pages[part as usize] = addr;
    }

    /// Counts the valid blocks of a part and its page at `page`; `None` if an address is not
    /// a written block of a metadata zone.
    pub(crate) fn count(&mut self, page: u32, entries: &Entries) -> Option<()> {
        let all = entries.iter().copied().chain([page]);
        for addr in all.filter(|addr| *addr != 0) {
            if !self.is_written(addr) {
                return None;
            }
            self.move_valid(0, addr);
        }
        Some(())
    }

    /// Replaces a part's addresses after its new page was written to `addr`.
    pub(crate) fn set_part(&mut self, part: u32, before: &Entries, after: Box<Entries>, addr: u32) {
        for (&old, &new) in before.iter().zip(after.iter()) {
            if old != new {
                self.move_valid(old, new);
            }
        }
        self.set_page(part, addr);
        self.keep(part, after);
    }

    /// Sets the address of a part's page and counts the page as valid there.
    pub(crate) fn set_page(&mut self, part: u32, addr: u32) {
        let old = std::mem::replace(&mut self.pages[part as usize], addr);
        self.move_valid(old, addr);
    }

    /// Opens the first free zone and makes it current; `None` if no zone is free.
    pub(crate) fn open(&mut self) -> Option<()> {
        self.current = first_free(&self.zones)?;
        self.epoch += 1;
        self.zones[self.current as usize].at = ZoneAt {
            epoch: self.epoch,
            written: 0,
        };
        Some(())
    }

    /// Marks a zone free after its reset.
    pub(crate) fn release(&mut self, zone: u32) {
        self.zones[zone as usize].at = ZoneAt::default();
    }

    /// Unwritten blocks of the current zone; 0 if it has failed.
    pub(crate) fn room(&self) -> u32 {
        let zone = self.zones.get(self.current as usize);
        let zone = zone.filter(|zone| zone.is_used() && !zone.lost);
        zone.map_or(0, |zone| {
            self.layout.zone_blocks.saturating_sub(zone.at.written)
        })
    }

    /// Count of free zones.
    pub(crate) fn free_zones(&self) -> u32 {
        self.zones.iter().filter(|zone| zone.is_free()).count() as u32
    }

    /// Fields of a part's next page, written as the block at `old` is superseded.
    pub(crate) fn about(&self, part: u32, old: u32) -> About {
        let mut bitmap = [0; ZONES_MAX / 8];
        for (zone, state) in self.zones.iter().enumerate() {
            bitmap[zone / 8] |= u8::from(state.is_used()) << (zone % 8);
        }
        let zone = self.layout.metadata_zone(old).filter(|_| old != 0);
        let state = zone.and_then(|zone| self.zones.get(zone as usize));
        About {
            index: part as u16,
            epoch: self.epoch as u16,
            zone: zone.unwrap_or(u32::MAX),
            // The superseded block counts as invalid already.
            invalid: state.map_or(0, |state| state.invalid() + 1),
            bitmap,
        }
    }

    /// Bytes that the three structures take in memory.
    pub(crate) fn memory(&self) -> usize {
        let parts = self.parts.len() * size_of::<Entries>();
        parts + self.pages.len() * 4 + self.zones.len() * size_of::<Zone>()
    }

    /// Asserts the counts of valid blocks; all parts must be in memory.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        let mut valid = vec![0; self.zones.len()];
        let mut met = std::collections::BTreeSet::new();
        let entries = self.parts.values().flat_map(|part| part.entries.iter());
        for &addr in entries.chain(&self.pages).filter(|addr| **addr != 0) {
            let zone = self
                .layout
                .metadata_zone(addr)
                .expect("in a zone of metadata");
            let within = addr - self.layout.metadata(zone).start;
            assert!(within < self.zones[zone as usize].at.written);
            assert!(met.insert(addr), "two blocks at {addr}");
            valid[zone as usize] += 1;
        }
        let counted: Vec<u32> = self.zones.iter().map(|zone| zone.valid).collect();
        assert_eq!(counted, valid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(epoch: u32, written: u32, valid: u32) -> Zone {
        Zone {
            at: ZoneAt { epoch, written },
            valid,
            lost: false,
        }
    }

    #[test]
    fn the_victim_has_the_most_to_gain_and_is_not_the_one_that_is_written() {
        let zones = [
            zone(1, 9, 9),
            zone(2, 9, 4),
            zone(3, 9, 4),
            zone(4, 9, 0),
            zone(0, 0, 0),
        ];
        assert_eq!(victim(&zones, 3), Some(1));
        assert_eq!(victim(&zones, 0), Some(3));
        assert_eq!(victim(&zones[..1], 7), None);
        assert_eq!(first_free(&zones), Some(4));
        assert_eq!(first_free(&zones[..4]), None);
    }

    #[test]
    fn parts_that_were_used_long_ago_go_first() {
        let layout = Layout {
            zone_blocks: 512,
            metadata_zones: 4,
        };
        let mut map = Map::new(layout, 1000..1000 + 3 * PER_CHUNK as u32);
        map.limit(Some(2));
        (0..2).for_each(|part| map.keep(part, Box::new([0; PER_CHUNK])));
        assert!(map.part(0).is_some());
        map.keep(2, Box::new([0; PER_CHUNK]));
        let known = [0, 1, 2].map(|part| map.part(part).is_some());
        assert_eq!(known, [true, false, true]);
        assert_eq!(map.index(999), None);
        assert_eq!(map.index(1000 + 1010).map(Map::part_of), Some(1));
    }
}
