//! A drive with few zones, and placed files on it.

use host::{BlockDevice, HostConfig, ZoneDisk, ZonedDevice};
use parakeet::rules::RuleSet;
use placed::{Chooser, Placed, Policy, format};
use shimmer::Options;
use sim::{Kernel, Seed, Sim};
use ssd::{Drive, DriveConfig, DriveMedia, Preset};
use units::{Bytes, KIB, MIB, Origin};
use vfs::mem::MemFs;
use vfs::{Access, Clock, Compute, Process, Vfs};

pub(crate) type Fs = Placed;

/// Small extents and few buffers, so that a short run fills them.
pub(crate) const OPTIONS: Options = Options {
    extent: Bytes(64 * KIB),
    buffers: 3,
    policy: shimmer::Policy::Streams,
    relocate: true,
    free_zones_min: 4,
    log_blocks_max: 64,
};

/// Rules that place every file except those called `c`.
pub(crate) const RULES: &str = r#"
name = "test"
[[stream]]
name = "short"
life = "short"
[[stream]]
name = "long"
life = "long"
group = { by = "file" }
[[rule]]
path = "**/c"
stream = "none"
[[rule]]
hint = "short"
stream = "short"
[[rule]]
path = "**"
stream = "long"
"#;

pub(crate) fn rules() -> RuleSet {
    RuleSet::read("test", RULES).unwrap()
}

fn config(zones: u64) -> DriveConfig {
    let preset = Preset::named("zns").expect("a preset");
    let mut config = (preset.config)();
    config.flash.keep_contents = true;
    config.capacity = Bytes(zones * config.zones.expect("it has zones").capacity.0);
    config
}

pub(crate) fn device(sim: &Sim, zones: u64) -> ZonedDevice {
    let config = config(zones);
    let media = DriveMedia::new(&config, Seed(1)).expect("a good configuration");
    let drive = Drive::ready(sim, &config, media, Seed(2)).expect("a good configuration");
    let device = BlockDevice::new(sim, HostConfig::default(), drive).expect("as above");
    ZonedDevice::new(&device).expect("a zoned drive")
}

pub(crate) async fn mounted(sim: &Sim, zones: ZonedDevice, tiny: bool) -> Vfs<Fs> {
    format(&zones, OPTIONS, 7).await.unwrap();
    let below = MemFs::new(Bytes(64 * MIB));
    let how = (Chooser::new(&rules(), Policy::Pools, 14), OPTIONS);
    let body = Placed::mount(
        sim,
        below.into(),
        Some(ZoneDisk::from(&zones)),
        how,
        Origin(0),
    )
    .await;
    let (clock, compute) = (Clock::default(), Compute::unlimited());
    Vfs::mount(sim, body.unwrap(), vfs::model::cache(tiny), clock, compute)
}

/// Runs `work` as root over this many zones, each of 12 MiB.
pub(crate) fn on<W>(zones: u64, work: impl FnOnce(Process<Fs>) -> W + 'static)
where
    W: Future<Output = ()>,
{
    let kernel = Kernel::new();
    let sim = kernel.sim();
    kernel.block_on(async move {
        let device = device(&sim, zones);
        let vfs = mounted(&sim, device, false).await;
        work(Process::new(&vfs, Access::root())).await;
        vfs.unmount().await.unwrap();
    });
}
