//! Set-up shared by the tests: a small zoned drive, mkfs, mount, and a view for the checker.

use host::{BlockDevice, HostConfig, ZonedDevice, ZonedPort};
use persimmon::{Appended, MkfsOptions, Options, Zones};
use sim::{Kernel, Seed, Sim};
use ssd::{Drive, DriveConfig, DriveMedia, Preset, ZoneLimits};
use units::{Bytes, MIB, Ns, SECTOR};
use vfs::{Access, CacheConfig, Clock, Compute, Process, Vfs};

pub(crate) type Fs = lfs::LfsFs<Appended>;

/// A zoned drive without power loss protection: a cut loses unflushed writes.
pub(crate) fn config() -> DriveConfig {
    let preset = Preset::named("zns").expect("a preset");
    let mut config = (preset.config)().resized(Bytes(128 * MIB));
    config.flash.keep_contents = true;
    config.controller.power_loss_protection = false;
    config
}

pub(crate) fn attached(sim: &Sim, drive: &Drive) -> ZonedDevice {
    let device = BlockDevice::new(sim, HostConfig::default(), drive.clone());
    let device = device.expect("the default can be");
    ZonedDevice::new(&device).expect("a zoned drive")
}

/// A new drive with its power on.
pub(crate) fn ready(sim: &Sim) -> Drive {
    let media = DriveMedia::new(&config(), Seed(1)).expect("it can be built");
    Drive::ready(sim, &config(), media, Seed(1)).expect("as above")
}

/// Media of a drive with an empty file system, shut down cleanly.
pub(crate) fn made() -> DriveMedia {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    kernel.block_on(async move {
        let drive = ready(&sim);
        let options = MkfsOptions::default();
        let made = persimmon::format(&sim, &attached(&sim, &drive), &options).await;
        made.expect("there is room");
        drive.shutdown().await
    })
}

/// Checkpoints often enough that a short run has many.
pub(crate) fn options() -> Options {
    let mut options = Options::default();
    options.body.interval = Ns::us(900);
    options
}

pub(crate) async fn mounted(sim: &Sim, port: &ZonedDevice) -> Vfs<Fs> {
    let (body, _) = persimmon::mount(sim, port, options()).await.unwrap();
    let cache = CacheConfig {
        expire: Ns::us(300),
        writeback_interval: Ns::us(100),
        ..vfs::model::cache(false)
    };
    Vfs::mount(sim, body, cache, Clock::default(), Compute::unlimited())
}

pub(crate) fn root(vfs: &Vfs<Fs>) -> Process<Fs> {
    Process::new(vfs, Access::root())
}

/// View of an idle drive for [`persimmon::check`].
pub(crate) struct AtRest(pub(crate) ZonedDevice, pub(crate) Drive);

impl host::Image for AtRest {
    fn blocks(&self) -> u64 {
        lfs::packing(self.0.limits()).sectors() / 8
    }

    fn read(&self, block: u64, out: &mut lfs::Block) -> bool {
        let (_, sector) = lfs::packing(self.0.limits()).place(block * 8);
        let page = u32::try_from(sector / 8).ok();
        let found = page.and_then(|page| self.1.peek(page));
        found.is_some_and(|payload| payload[0].copy_to(0, out))
    }
}

impl Zones for AtRest {
    fn limits(&self) -> ZoneLimits {
        self.0.limits()
    }

    fn written(&self, zone: u32) -> u32 {
        let written = self.0.zone(zone).map_or(0, |info| info.readable());
        (written * SECTOR / lfs::BLOCK as u64) as u32
    }
}
