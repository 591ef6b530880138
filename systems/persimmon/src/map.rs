//! The three structures in memory: where blocks of metadata are (MAT), how much of each of
//! their zones is not valid (ZIT), and which zones are in use (ZB).
//!
//! # Invariants
//!
//! - A block of metadata, and a chunk page, is valid where the map leads to it, and nowhere
//!   else; both count (the paper's artifact leaves pages out).
//! - A zone whose flash has failed is neither chosen to be written nor emptied, and is
//!   read while it can be.
//! - A part of the map that is in memory says what its newest page says, so it can be let
//!   go at any time.

use crate::format::{About, Entries, PER_CHUNK, ZONES_MAX, ZoneAt};
use crate::layout::Layout;
use std::collections::BTreeMap;
use std::ops::Range;
use units::NoSpace;

/// A zone of metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Zone {
    pub(crate) at: ZoneAt,
    /// Blocks that the map leads to.
    pub(crate) valid: u32,
    /// Whether nothing can be written to it any more.
    pub(crate) lost: bool,
}

impl Zone {
    /// Blocks that are written and not valid.
    pub(crate) const fn invalid(&self) -> u32 {
        self.at.written.saturating_sub(self.valid)
    }

    /// Whether it can be opened.
    const fn is_free(&self) -> bool {
        self.at.epoch == 0 && !self.lost
    }

    /// Whether blocks of it are led to, or may be.
    const fn is_used(&self) -> bool {
        self.at.epoch != 0
    }
}

/// The zone with the most blocks that are not valid; none if nothing is gained anywhere.
//= dissertation 4.3.3
pub(crate) fn victim(zones: &[Zone], current: u32) -> Option<u32> {
    let zones = (0..).zip(zones);
    let full = zones.filter(|(zone, state)| *zone != current && state.is_used() && !state.lost);
    let gain = full.filter(|(_, state)| state.invalid() > 0);
    let most = gain.max_by_key(|(zone, state)| (state.invalid(), std::cmp::Reverse(*zone)));
    most.map(|(zone, _)| zone)
}

/// A zone that is emptied by its reset alone.
pub(crate) fn of_no_use(zones: &[Zone], current: u32) -> Option<u32> {
    let mut zones = (0..).zip(zones);
    let found = zones.find(|(zone, state)| {
        *zone != current && state.is_used() && !state.lost && state.valid == 0
    });
    found.map(|(zone, _)| zone)
}

/// The first zone that is free, by number.
//= dissertation 4.3.2
pub(crate) fn first_free(zones: &[Zone]) -> Option<u32> {
    let at = zones.iter().position(Zone::is_free)?;
    u32::try_from(at).ok()
}

/// Why there is no zone to open.
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

/// A part of the map in memory.
struct Part {
    entries: Box<Entries>,
    used: u64,
}

/// Where metadata are.
pub(crate) struct Map {
    layout: Layout,
    /// Blocks of F2FS that are mapped.
    blocks: Range<u32>,
    /// Where the page of each part is; 0 for one that was never written.
    pages: Vec<u32>,
    parts: BTreeMap<u32, Part>,
    /// Parts in memory at most.
    most: usize,
    clock: u64,
    pub(crate) zones: Vec<Zone>,
    /// The zone that is written.
    pub(crate) current: u32,
    /// Openings so far.
    pub(crate) epoch: u32,
}

impl Map {
    /// A map of these blocks of F2FS, of which none was written, in zones of metadata that
    /// are free.
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

    /// Keeps so many parts in memory at most, but one at least.
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

    /// The number of a block of F2FS; none if it is not mapped.
    pub(crate) fn index(&self, block: u32) -> Option<u32> {
        let known = self.blocks.contains(&block);
        known.then(|| block - self.blocks.start)
    }

    /// The part that a block is in.
    pub(crate) const fn part_of(index: u32) -> u32 {
        index / PER_CHUNK as u32
    }

    /// Where the pages of the parts are.
    pub(crate) fn pages(&self) -> &[u32] {
        &self.pages
    }

    /// The addresses of a part, if it is in memory.
    pub(crate) fn part(&mut self, part: u32) -> Option<&Entries> {
        self.clock += 1;
        let found = self.parts.get_mut(&part)?;
        found.used = self.clock;
        Some(&found.entries)
    }

    /// Brings a part to memory; those that were used longest ago go.
    pub(crate) fn keep(&mut self, part: u32, entries: Box<Entries>) {
        self.shrink(self.most - 1);
        self.clock += 1;
        let used = self.clock;
        self.parts.insert(part, Part { entries, used });
    }

    /// Counts a block that is led to from now on instead of `old`.
    fn move_valid(&mut self, old: u32, new: u32) {
        if let Some(zone) = self.layout.metadata_zone(old).filter(|_| old != 0) {
            self.zones[zone as usize].valid -= 1;
        }
        if let Some(zone) = self.layout.metadata_zone(new).filter(|_| new != 0) {
            self.zones[zone as usize].valid += 1;
        }
    }

    /// How zones are divided.
    pub(crate) const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Whether a block of a zone of metadata is written.
    pub(crate) fn is_written(&self, addr: u32) -> bool {
        let zone = self.layout.metadata_zone(addr);
        zone.is_some_and(|zone| {
            let within = addr - self.layout.metadata(zone).start;
            within < self.zones[zone as usize].at.written
        })
    }

    /// The page of a part was found at `addr`; nothing is counted yet.
    pub(crate) fn set_found(&mut self, part: u32, addr: u32) {
        self.pages[part as usize] = addr;
    }

    /// Counts what a part of which the page is at `page` leads to, and the page; none if
    /// something leads where nothing is.
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

    /// A new page of a part was written to `addr`, with these addresses.
    pub(crate) fn set_part(&mut self, part: u32, before: &Entries, after: Box<Entries>, addr: u32) {
        for (&old, &new) in before.iter().zip(after.iter()) {
            if old != new {
                self.move_valid(old, new);
            }
        }
        self.set_page(part, addr);
        self.keep(part, after);
    }

    /// The page of a part is at `addr` from now on.
    pub(crate) fn set_page(&mut self, part: u32, addr: u32) {
        let old = std::mem::replace(&mut self.pages[part as usize], addr);
        self.move_valid(old, addr);
    }

    /// Opens the first free zone; none if there is none.
    pub(crate) fn open(&mut self) -> Option<()> {
        self.current = first_free(&self.zones)?;
        self.epoch += 1;
        self.zones[self.current as usize].at = ZoneAt {
            epoch: self.epoch,
            written: 0,
        };
        Some(())
    }

    /// A zone was reset.
    pub(crate) fn release(&mut self, zone: u32) {
        self.zones[zone as usize].at = ZoneAt::default();
    }

    /// Blocks that can still be written to the current zone.
    pub(crate) fn room(&self) -> u32 {
        let zone = self.zones.get(self.current as usize);
        let zone = zone.filter(|zone| zone.is_used() && !zone.lost);
        zone.map_or(0, |zone| {
            self.layout.zone_blocks.saturating_sub(zone.at.written)
        })
    }

    /// Zones that are free.
    pub(crate) fn free_zones(&self) -> u32 {
        self.zones.iter().filter(|zone| zone.is_free()).count() as u32
    }

    /// What a page says beside the addresses, where a block at `old` is superseded.
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
            // The block that is superseded counts already.
            invalid: state.map_or(0, |state| state.invalid() + 1),
            bitmap,
        }
    }

    /// Bytes of it in memory.
    pub(crate) fn memory(&self) -> usize {
        let parts = self.parts.len() * size_of::<Entries>();
        parts + self.pages.len() * 4 + self.zones.len() * size_of::<Zone>()
    }

    /// Holds the invariants against the parts in memory, which have to be all.
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
