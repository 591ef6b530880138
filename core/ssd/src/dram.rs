//! DRAM that a drive needs, by its contents.
//!
//! The sizes are those of real firmware, not of this simulation: four bytes lead from an address to
//! its place on flash.

use crate::config::{CacheHolds, DriveConfig, Interface};
use crate::mapcache;
use units::Bytes;

/// Bytes of a map entry (`bytefs` 4.9 has four for a page as well).
const ENTRY: u64 = 4;

/// DRAM that a drive needs, by its contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dram {
    /// The map from addresses to flash; for zones, an entry for each block.
    pub map: Bytes,
    /// The write buffer, and the buffers of the zones that may be active.
    pub buffers: Bytes,
    /// The write log, its commit entries, and the page cache.
    pub front: Bytes,
    /// Pages that were read ahead, which are clean.
    pub ahead: Bytes,
}

impl Dram {
    /// DRAM of the drive in all.
    #[must_use]
    pub const fn total(&self) -> Bytes {
        Bytes(self.map.0 + self.buffers.0 + self.front.0 + self.ahead.0)
    }
}

impl DriveConfig {
    /// DRAM of log and page cache that a battery keeps.
    #[must_use]
    pub fn front_kept(&self) -> Bytes {
        let Some(front) = &self.front else {
            return Bytes(0);
        };
        let log = match front.keeps_log() {
            true => front.log.bytes.0 + front.log.commits.0,
            false => 0,
        };
        let cache = match front.keeps_pages() {
            true => front.cache.bytes.0,
            false => 0,
        };
        Bytes(log + cache)
    }

    /// The DRAM that the drive needs. An open-channel drive needs none for a map.
    #[must_use]
    pub fn dram(&self) -> Dram {
        let front = self.front.map_or(0, |front| {
            front.log.bytes.0 + front.log.commits.0 + front.cache.bytes.0
        });
        Dram {
            map: Bytes(self.map_bytes()),
            buffers: Bytes(self.controller.write_buffer.0 + self.zone_buffers()),
            front: Bytes(front),
            ahead: self.controller.read_ahead,
        }
    }

    fn map_bytes(&self) -> u64 {
        let entries = |bytes: u64| bytes.div_ceil(self.mapping.unit.0.max(1)) * ENTRY;
        match self.interface {
            Interface::OpenChannel => 0,
            Interface::Zoned => {
                let geometry = &self.geometry;
                let planes = u64::from(geometry.dies()) * u64::from(geometry.planes);
                let blocks = planes * u64::from(geometry.blocks_per_plane);
                let zones = self.zones.as_ref();
                let anywhere = zones.map_or(0, |z| u64::from(z.conventional) * z.capacity.0);
                blocks * ENTRY + entries(anywhere)
            }
            _ => match (self.mapping.cache.0, entries(self.capacity.0)) {
                (0, all) => all,
                (cache, all) => match self.mapping.cache_holds {
                    CacheHolds::Pages => cache.min(all),
                    CacheHolds::Entries => cache.min(all / ENTRY * mapcache::ENTRY),
                },
            },
        }
    }

    /// Buffers of the zones that can be active at once.
    fn zone_buffers(&self) -> u64 {
        let Some(zones) = &self.zones else { return 0 };
        let most = self.capacity.0 / zones.capacity.0.max(1);
        let active = match zones.max_active {
            0 => most,
            active => most.min(u64::from(active)),
        };
        active * zones.buffer.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::Preset;

    fn preset(name: &str) -> DriveConfig {
        (Preset::named(name).unwrap().config)()
    }

    #[test]
    fn page_map_takes_a_thousandth_of_the_capacity() {
        let drive = preset("block");
        assert_eq!(drive.dram().map.0, drive.capacity.0 / 1_024);
        let mut paged = drive.clone();
        paged.mapping.cache = Bytes(1 << 20);
        assert_eq!(paged.dram().map.0, 1 << 20);
        paged.mapping.cache = Bytes(u64::MAX);
        assert_eq!(paged.dram(), drive.dram());
        paged.mapping.cache_holds = CacheHolds::Entries;
        assert_eq!(
            paged.dram().map.0,
            2 * drive.dram().map.0,
            "a cached entry takes eight bytes, with the number of its page"
        );
    }

    /// Saving by interface: zones need an entry for each block, chunks none.
    #[test]
    fn map_size_follows_the_interface() {
        let map = |name| preset(name).dram().map.0;
        assert_eq!(
            map("zns"),
            4 * 4 * 2 * 402 * ENTRY,
            "an entry for each block"
        );
        assert!(map("zns") * 64 < map("block"), "{}", map("zns"));
        assert_eq!(map("ocssd"), 0);
        assert_eq!(map("fdp"), map("block"));
    }

    #[test]
    fn front_adds_its_log_and_cache() {
        let drive = preset("byte");
        let front = drive.front.unwrap();
        let parts = front.log.bytes.0 + front.log.commits.0 + front.cache.bytes.0;
        assert!(parts > 0);
        assert_eq!(drive.dram().front.0, parts);
        let dram = drive.dram();
        assert_eq!(dram.total().0, dram.map.0 + dram.buffers.0 + parts);
    }
}
