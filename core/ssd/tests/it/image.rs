//! Drive files: a round trip loses nothing, and input that is no drive file is rejected.

mod hostile;
mod log;
mod memory;

use nand::Payload;
use sim::{Kernel, Seed};
use ssd::image::{self, ImageError};
use ssd::{Content, Drive, DriveConfig, DriveMedia, Precondition, Preset};
use units::{Bytes, Extent, MIB, Origin, Placement};

/// A drive of a few hundred pages that keeps contents.
fn small(name: &str) -> DriveConfig {
    let mut config = (Preset::named(name).unwrap().config)();
    config.flash.keep_contents = true;
    config.geometry.channels = 2;
    config.geometry.chips_per_channel = 1;
    config.geometry.blocks_per_plane = 40;
    config.geometry.pages_per_block = 6;
    config.controller.write_buffer = Bytes(MIB);
    config.placement.handles = config.placement.handles.min(3);
    config.capacity = Bytes(6 * MIB);
    config
}

/// Runs random writes, rewrites and deallocations, then cuts the power or shuts down.
fn live(
    config: &DriveConfig,
    media: DriveMedia,
    seed: u64,
    commands: u32,
    cut: bool,
) -> DriveMedia {
    let kernel = Kernel::new();
    let drive = Drive::ready(&kernel.sim(), config, media, Seed(seed)).unwrap();
    let worker = drive.clone();
    let mut rng = Seed(seed).stream("commands");
    let per_page = config.mapping.unit.0 / 512;
    let pages = config.capacity.0 / config.mapping.unit.0;
    kernel.block_on(async move {
        for number in 0..commands {
            let first = rng.below(pages);
            let count = 1 + rng.below((pages - first).min(6));
            let extent = Extent::new(first * per_page, (count * per_page) as u32);
            let bytes: Vec<u8> = (0..extent.sectors * 512)
                .map(|n| (n ^ number) as u8)
                .collect();
            let content = match rng.below(8) {
                0 => Content::Nothing,
                1..5 => Content::Fill(rng.next_u64()),
                5 | 6 => Content::Bytes(&bytes),
                _ => {
                    worker.trim(extent).await.unwrap();
                    continue;
                }
            };
            let placement = Placement(rng.below(u64::from(config_handles(&worker))) as u16);
            let origin = Origin(0);
            worker
                .write(extent, content, placement, origin, false)
                .await
                .unwrap();
        }
    });
    if cut {
        return drive.at_power_cut();
    }
    let drive = drive.clone();
    kernel.block_on(async move { drive.shutdown().await })
}

fn config_handles(drive: &Drive) -> u16 {
    drive.config().placement.handles
}

/// Contents of every page after power-on.
fn contents(config: &DriveConfig, media: DriveMedia) -> Vec<Option<Vec<Payload>>> {
    let kernel = Kernel::new();
    let drive = Drive::ready(&kernel.sim(), config, media, Seed(9)).unwrap();
    drive.check();
    (0..drive.layout().host_pages)
        .map(|page| drive.peek(page))
        .collect()
}

fn bytes_of(config: &DriveConfig, media: &DriveMedia) -> Vec<u8> {
    let mut bytes = Vec::new();
    image::write(config, media, &mut bytes).unwrap();
    bytes
}

fn read(bytes: &[u8]) -> Result<(DriveConfig, DriveMedia), ImageError> {
    image::read(&mut &bytes[..])
}

/// Writes and reads a drive file, and compares all observable state.
#[track_caller]
fn round_trip(config: &DriveConfig, media: &DriveMedia) -> DriveMedia {
    let bytes = bytes_of(config, media);
    let (read_config, read_media) = read(&bytes).unwrap();
    assert_eq!(read_config, *config);
    assert_eq!(read_media.smart, media.smart);
    let geometry = media.cells.geometry();
    for index in 0..geometry.blocks() as usize {
        let block = geometry.block_at(index);
        assert_eq!(read_media.cells.export(block), media.cells.export(block));
    }
    assert_eq!(
        bytes_of(config, &read_media),
        bytes,
        "written again, the same bytes"
    );
    let found = contents(config, read_media.clone());
    assert_eq!(found, contents(config, media.clone()));
    read_media
}

#[test]
fn drive_round_trips_through_a_file() {
    for name in ["block", "streams", "fdp"] {
        for past in Precondition::ALL {
            for (seed, cut) in [(1, false), (2, true), (3, true)] {
                let mut config = small(name);
                config.controller.power_loss_protection = seed != 3;
                let media = past.media(&config, Seed(seed)).unwrap();
                let media = round_trip(&config, &media);
                let media = live(&config, media, seed, 400, cut);
                let media = round_trip(&config, &media);
                round_trip(&config, &live(&config, media, seed + 7, 100, !cut));
            }
        }
    }
}

#[test]
fn drive_read_from_a_file_behaves_like_the_original() {
    let config = small("fdp");
    let media = live(
        &config,
        Precondition::Aged.media(&config, Seed(4)).unwrap(),
        4,
        300,
        true,
    );
    let copy = read(&bytes_of(&config, &media)).unwrap().1;
    let later = |media| bytes_of(&config, &live(&config, media, 5, 300, true));
    assert_eq!(later(media), later(copy));
}
