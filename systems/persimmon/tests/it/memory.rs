//! Zones in memory, and Persimmon on them.

use host::{RamZones, ZonesAtRest};
use persimmon::{Appended, MkfsOptions};
use sim::{Kernel, Sim};
use ssd::ZoneLimits;
use vfs::{Clock, Compute, Vfs};

pub(crate) type Fs = lfs::LfsFs<Appended>;

/// Blocks of a zone: two segments, the fewest that there can be.
pub(crate) const ZONE_BLOCKS: usize = 2 * 512;

pub(crate) fn limits() -> ZoneLimits {
    let sectors = ZONE_BLOCKS as u64 * 8;
    ZoneLimits {
        zones: 40,
        size: sectors,
        capacity: sectors,
        block: 8,
        max_open: 14,
        max_active: 14,
        ..ZoneLimits::NONE
    }
}

/// Runs `work` on zones in memory and returns them.
pub(crate) fn on<W: Future<Output = ()>>(
    at_rest: ZonesAtRest,
    work: impl FnOnce(Sim, RamZones) -> W + 'static,
) -> RamZones {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let port = RamZones::holding(&sim, at_rest);
    let kept = port.clone();
    kernel.block_on(async move { work(sim, port).await });
    kept
}

/// Zones in memory with an empty file system.
pub(crate) fn ram_made() -> ZonesAtRest {
    let port = on(ZonesAtRest::new(limits()), async |sim, port| {
        let made = persimmon::format(&sim, &port, &MkfsOptions::default()).await;
        made.expect("there is room");
    });
    port.at_rest()
}

pub(crate) fn served(sim: &Sim, body: Fs) -> Vfs<Fs> {
    let cache = vfs::model::cache(false);
    Vfs::mount(sim, body, cache, Clock::default(), Compute::unlimited())
}

pub(crate) async fn ram_mounted(sim: &Sim, port: &RamZones) -> Vfs<Fs> {
    let (body, _) = persimmon::mount(sim, port, crate::bench::options())
        .await
        .unwrap();
    served(sim, body)
}
