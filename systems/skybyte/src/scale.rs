//! Scaling of a device for programs with a smaller memory.
//!
//! Sizes shrink with the memory of the program; latencies, channels and dies stay. A page's
//! stay in the cache shrinks by that factor too, while a fetch and a stay in the write buffer
//! take as long as before. The cost of an erase per programmed page must not grow.

use crate::config::DeviceConfig;
use nand::Timing;
use ssd::DriveConfig;
use units::{Bytes, Ns};

impl DeviceConfig {
    /// This device with all sizes divided by `by`: capacity, DRAM and log. Latencies and the
    /// number of channels and dies stay, and garbage collection keeps its thresholds as shares
    /// of the flash. MSHRs and write buffer stay large enough to keep all channels and dies
    /// busy. Smaller dies have smaller blocks with a proportionally shorter erase, so the erase
    /// time per programmed page is unchanged.
    #[must_use]
    pub fn scaled(&self, by: u64) -> Self {
        let by = by.max(1);
        let mut config = self.clone();
        let capacity = Bytes((self.drive.capacity.0 / by).max(4096) / 4096 * 4096);
        config.drive = self.drive.resized(capacity);
        let lines = |drive: &DriveConfig| u64::from(drive.geometry.blocks_per_plane.max(1));
        let (before, after) = (lines(&self.drive), lines(&config.drive));
        config.drive.flash.timing = self.drive.timing().ok().map(|timing| Timing {
            erase: self.erase_in(&config.drive, timing.erase),
            ..timing
        });
        let share = |count: u32| (u64::from(count) * after / before) as u32;
        let collection = &mut config.drive.collection;
        collection.background_lines = share(collection.background_lines);
        collection.batch_lines = share(collection.batch_lines);
        // Pages in flight take slots of a smaller cache while latencies stay, so there are only
        // as many as keep the flash busy. Four pages a channel: a choice of ours.
        let least = self.drive.geometry.channels * 4;
        let registers = u64::from(self.cache.mshrs);
        let fewer = u32::try_from(registers / by).unwrap_or(u32::MAX);
        config.cache.mshrs = fewer.max(least.min(self.cache.mshrs));
        // A page stays in the write buffer until it is programmed, and as many dies work as before.
        let geometry = &self.drive.geometry;
        let dies = geometry.dies() * geometry.pages_per_program * geometry.planes;
        let least = u64::from(dies.max(least)) * 4096;
        let buffer = &mut config.drive.controller.write_buffer.0;
        *buffer = (*buffer / by).max(least.min(*buffer));
        config.dram.bytes = Bytes(self.dram.bytes.0 / by);
        config.log.bytes = Bytes(self.log.bytes.0 / by);
        config
    }

    /// Erase time of the smaller `drive`, where an erase takes `erase` in this one.
    #[must_use]
    pub fn erase_in(&self, drive: &DriveConfig, erase: Ns) -> Ns {
        let pages = |drive: &DriveConfig| u64::from(drive.geometry.pages_per_block.max(1));
        Ns(erase.0.saturating_mul(pages(drive)) / pages(&self.drive)).max(Ns(1))
    }
}

#[cfg(test)]
mod tests {
    use crate::config::DeviceConfig;
    use crate::design::Design;
    use crate::profile::Profile;

    #[test]
    fn a_smaller_device_is_one_in_proportion() {
        for profile in Profile::ALL {
            let config = profile.device(Design::named("skybyte-full").unwrap());
            for by in [1, 16, 64, 500] {
                let small = config.scaled(by).checked().unwrap();
                assert_eq!(small.dram.bytes.0, config.dram.bytes.0 / by);
                let lines = f64::from(small.drive.geometry.blocks_per_plane);
                let kept = f64::from(small.drive.collection.background_lines) / lines;
                assert!((0.17..0.21).contains(&kept), "1/{by}: {kept} of the lines");
                // The erase time per page is unchanged.
                let each = |config: &DeviceConfig| {
                    let erase = config.drive.timing().unwrap().erase.0 as f64;
                    erase / f64::from(config.drive.geometry.pages_per_block)
                };
                assert!((each(&small) / each(&config) - 1.0).abs() < 0.01, "1/{by}");
                let work = u64::from(config.drive.geometry.dies()) * 4096;
                assert!(small.drive.controller.write_buffer.0 >= work, "1/{by}");
                let pages = small.cached_pages();
                assert!(small.cache.mshrs <= pages / 4 || by == 500, "1/{by}");
                let raw = small.drive.geometry.bytes() as f64;
                let used = small.drive.capacity.0 as f64 / raw;
                assert!((0.4..0.51).contains(&used), "1/{by}: {used} for the host");
            }
        }
    }
}
