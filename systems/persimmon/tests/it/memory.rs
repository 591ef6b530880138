//! Zones in memory, and Persimmon on them.

use host::{RamZones, ZonesAtRest};
use persimmon::{Appended, MkfsOptions, Zones};
use sim::{Kernel, Seed, Sim};
use ssd::{ZoneLimits, ZoneState};
use vfs::{Clock, Compute, Vfs};

pub(crate) type Fs = lfs::LfsFs<Appended<RamZones>>;

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

/// Runs `work` on these zones, and gives them.
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

/// What is there once nothing is under way.
pub(crate) fn rested(port: &RamZones) -> ZonesAtRest {
    port.after_cut(&mut Seed(0).stream("rest"), |_, _, behind| behind)
}

/// Zones with an empty file system.
pub(crate) fn ram_made() -> ZonesAtRest {
    let port = on(ZonesAtRest::new(limits()), async |sim, port| {
        let made = persimmon::format(&sim, &port, &MkfsOptions::default()).await;
        made.expect("there is room");
    });
    rested(&port)
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

/// Zones at rest.
pub(crate) struct AtRest<'a>(pub(crate) &'a ZonesAtRest);

impl lfs::Image for AtRest<'_> {
    fn blocks(&self) -> u64 {
        lfs::packing(self.0.limits).sectors() / 8
    }

    fn read(&self, block: u64, out: &mut lfs::Block) -> bool {
        if block >= self.blocks() {
            return false;
        }
        let (_, sector) = lfs::packing(self.0.limits).place(block * 8);
        self.0.payload(sector).copy_to(0, out)
    }
}

impl Zones for AtRest<'_> {
    fn limits(&self) -> ZoneLimits {
        self.0.limits
    }

    fn written(&self, zone: u32) -> u32 {
        let zone = self.0.zones.get(zone as usize);
        zone.map_or(0, |zone| match zone.state {
            // As a drive has it, which does not tell any more.
            ZoneState::ReadOnly => ZONE_BLOCKS as u32,
            _ => zone.payloads.len() as u32,
        })
    }
}
