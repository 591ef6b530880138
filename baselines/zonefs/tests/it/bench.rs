//! A drive of a few zones, and helpers to mount it.

use host::{BlockDevice, HostConfig, ZonedDevice, ZonedPort};
use sim::{Kernel, Seed, Sim};
use ssd::{Drive, DriveConfig, DriveMedia, Preset, ZoneConfig};
use units::{Bytes, KIB, Origin};
use zonefs::{Group, How, Options, Superblock, ZoneFs, mkfs};

/// Capacity of a zone in bytes.
pub(crate) const MOST: u64 = 12 << 20;
pub(crate) const BLOCK: u64 = 4096;

/// A write through the cache.
pub(crate) const CACHED: How = How {
    direct: false,
    append: false,
};
/// A write around the cache.
pub(crate) const DIRECT: How = How {
    direct: true,
    append: false,
};
/// A write around the cache at the end of the file.
pub(crate) const APPEND: How = How {
    direct: true,
    append: true,
};

pub(crate) const fn seq(number: usize) -> (Group, usize) {
    (Group::Sequential, number)
}

pub(crate) const fn cnv(number: usize) -> (Group, usize) {
    (Group::Conventional, number)
}

/// The generic drive with ten zones.
pub(crate) fn config(change: impl FnOnce(&mut ZoneConfig)) -> DriveConfig {
    let preset = Preset::named("zns").expect("a preset");
    let mut config = (preset.config)();
    config.flash.keep_contents = true;
    let zones = config.zones.as_mut().expect("it has zones");
    change(zones);
    let conventional = u64::from(zones.conventional);
    config.capacity = Bytes(conventional * zones.size.0 + (10 - conventional) * zones.capacity.0);
    config
}

pub(crate) fn device(sim: &Sim, config: &DriveConfig) -> ZonedDevice {
    let media = DriveMedia::new(config, Seed(1)).expect("a good configuration");
    let drive = Drive::ready(sim, config, media, Seed(2)).expect("a good configuration");
    let device = BlockDevice::new(sim, HostConfig::default(), drive).expect("as above");
    ZonedDevice::new(&device).expect("a zoned drive")
}

/// Formats `port` and mounts it.
pub(crate) async fn mounted<P: ZonedPort>(
    sim: &Sim,
    port: &P,
    superblock: &Superblock,
    options: Options,
) -> ZoneFs {
    mkfs(port, superblock, Origin(0)).await.unwrap();
    ZoneFs::mount(sim, port, options).await.unwrap()
}

/// Runs `work` on a new drive.
pub(crate) fn on<T: 'static>(
    config: &DriveConfig,
    work: impl AsyncFnOnce(Sim, ZonedDevice) -> T + 'static,
) -> T {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let device = device(&sim, config);
    kernel.block_on(async move { work(sim, device).await })
}

/// `blocks` blocks, each filled with its own position.
pub(crate) fn text(from: u64, blocks: u64) -> Vec<u8> {
    let word = |at: u64| (from + at).to_le_bytes();
    (0..blocks * BLOCK / 8).flat_map(word).collect()
}

pub(crate) const SOME: u64 = 4 * KIB;
