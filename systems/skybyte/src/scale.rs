//! The device for programs whose memory is smaller.
//!
//! Sizes shrink with the memory of the program; latencies, channels and dies stay. So a
//! page stays in the cache for a time that is as much shorter, while one on its way or in
//! the write buffer takes as long as before; and what a die does once in a block must not
//! become what it does for every page.

use crate::config::DeviceConfig;
use nand::Timing;
use ssd::DriveConfig;
use units::{Bytes, Ns};

impl DeviceConfig {
    /// The same device with all sizes divided by `by`: capacity, DRAM and log. Times and
    /// the number of channels and dies stay, and garbage is collected at the same shares of
    /// the flash. Registers of pages on their way and the write buffer stay large enough for
    /// all channels and dies to work. Dies that are smaller have smaller blocks, whose erase is
    /// as much shorter: what is erased for a page that is programmed takes the same time.
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
        // What is on its way takes places of the cache that become fewer, while latencies stay:
        // no more of it than keeps the flash busy. Four pages a channel: a choice of ours.
        let least = self.drive.geometry.channels * 4;
        let registers = u64::from(self.cache.mshrs);
        let fewer = u32::try_from(registers / by).unwrap_or(u32::MAX);
        config.cache.mshrs = fewer.max(least.min(self.cache.mshrs));
        // What is programmed is in the buffer until then, and as many dies work as before.
        let geometry = &self.drive.geometry;
        let dies = geometry.dies() * geometry.pages_per_program * geometry.planes;
        let least = u64::from(dies.max(least)) * 4096;
        let buffer = &mut config.drive.controller.write_buffer.0;
        *buffer = (*buffer / by).max(least.min(*buffer));
        config.dram.bytes = Bytes(self.dram.bytes.0 / by);
        config.log.bytes = Bytes(self.log.bytes.0 / by);
        config
    }

    /// What an erase takes in a smaller `drive`, where it takes `erase` in this one.
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
                // What is erased for a page takes as long.
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
