//! Zoned drives: configurations and helpers of their tests.

mod cuts;
mod faults;
mod firmware;
mod limits;

mod model;
mod refusals;
mod rules;
mod window;

use crate::support::tiny;
use sim::{Kernel, Seed, Sim};
use ssd::{
    Content, Drive, DriveConfig, DriveMedia, Interface, Unwritten, ZoneConfig, ZoneFirmware, Zones,
};
use units::{Bytes, Extent, Origin};

/// 512-byte sectors in one of 4 KiB.
pub(crate) const PER: u64 = 8;

/// Ten zones of 62 sectors, 64 apart, over both dies of the tiny flash. Units have four sectors, so
/// that the last unit of a zone is partial.
pub(crate) fn tiny_zns(protected: bool) -> DriveConfig {
    let mut config = tiny(protected);
    config.name = "tiny zones".to_owned();
    config.interface = Interface::Zoned;
    config.capacity = Bytes(10 * 62 * 4096);
    config.zones = Some(ZoneConfig {
        size: Bytes(64 * 4096),
        capacity: Bytes(62 * 4096),
        dies: 2,
        max_open: 3,
        max_active: 4,
        buffer: Bytes(16 * 4096),
        append_limit: Bytes(0),
        conventional: 0,
        read_across: true,
        read_unwritten: Unwritten::Zeros,
        random_write_area: Bytes(0),
        random_write_step: Bytes(0),
        random_write_zones: 0,
        firmware: ZoneFirmware::default(),
    });
    config
}

/// The tiny flash in zones of one die each.
pub(crate) fn narrow(protected: bool) -> DriveConfig {
    let mut config = tiny_zns(protected);
    let zones = config.zones.as_mut().expect("it has zones");
    zones.dies = 1;
    zones.size = Bytes(32 * 4096);
    zones.capacity = Bytes(32 * 4096);
    config.capacity = Bytes(10 * 32 * 4096);
    config
}

pub(crate) fn change(config: &DriveConfig, to: impl FnOnce(&mut ZoneConfig)) -> DriveConfig {
    let mut config = config.clone();
    to(config.zones.as_mut().expect("it has zones"));
    config
}

pub(crate) fn fresh(config: &DriveConfig) -> (Kernel, Drive) {
    let media = DriveMedia::new(config, Seed(1)).expect("a good configuration");
    powered(config, media)
}

pub(crate) fn powered(config: &DriveConfig, media: DriveMedia) -> (Kernel, Drive) {
    let kernel = Kernel::new();
    let drive = Drive::ready(&kernel.sim(), config, media, Seed(2)).expect("a good configuration");
    drive.check();
    (kernel, drive)
}

pub(crate) fn zones(drive: &Drive) -> Zones {
    drive.zones().expect("a zoned drive").clone()
}

/// `len` sectors of 4 KiB from sector `at` of `zone` on.
pub(crate) fn extent(zones: &Zones, zone: u32, at: u64, len: u64) -> Extent {
    let start = u64::from(zone) * zones.limits().size + at * PER;
    Extent::new(start, (len * PER) as u32)
}

/// The tags in `extent`: the first eight bytes of each sector.
pub(crate) async fn tags(zones: &Zones, extent: Extent) -> Result<Vec<u64>, ssd::ZoneStatus> {
    let mut bytes = vec![0; extent.bytes() as usize];
    zones.read(extent, &mut bytes.as_mut_slice()).await?;
    let tag = |sector: &[u8]| u64::from_le_bytes(sector[..8].try_into().expect("eight bytes"));
    Ok(bytes.chunks(4096).map(tag).collect())
}

/// Contents of sectors that repeat these tags.
pub(crate) fn bytes(tags: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let sector = |tag: u64| tag.to_le_bytes().repeat(512);
    tags.into_iter().flat_map(sector).collect()
}

/// Writes tagged sectors at `at` of `zone`.
pub(crate) async fn write(
    zones: &Zones,
    zone: u32,
    at: u64,
    tags: Vec<u64>,
) -> Result<(), ssd::ZoneStatus> {
    let extent = extent(zones, zone, at, tags.len() as u64);
    let bytes = bytes(tags);
    zones
        .write(extent, Content::Bytes(&bytes), Origin(0), false)
        .await
}

pub(crate) fn run<T: 'static>(kernel: &Kernel, work: impl AsyncFnOnce(Sim) -> T + 'static) -> T {
    let sim = kernel.sim();
    kernel.block_on(async move { work(sim).await })
}
