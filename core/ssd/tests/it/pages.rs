//! Access by whole pages, for a front outside the crate.

use crate::steady::bare;
use crate::support::tiny;
use nand::{Load, Payload};
use sim::{Kernel, Seed};
use ssd::{Cause, Drive, DriveConfig, DriveMedia, ReadCause};
use units::Ns;

fn ready(config: &DriveConfig) -> (Kernel, Drive) {
    let kernel = Kernel::new();
    let media = DriveMedia::new(config, Seed(1)).unwrap();
    let drive = Drive::ready(&kernel.sim(), config, media, Seed(1)).unwrap();
    (kernel, drive)
}

fn put(kernel: &Kernel, drive: &Drive, page: u32, payload: &Payload) {
    let (putter, payload) = (drive.clone(), payload.clone());
    kernel.block_on(async move {
        putter.take_room().await.unwrap();
        putter.put_page(page, Some(payload), Cause::Eviction);
    });
}

#[test]
fn put_page_is_visible_and_durable_at_once() {
    let (kernel, drive) = ready(&tiny(true));
    assert_eq!(drive.page(5), Payload::Zero);
    assert!(drive.try_room());
    drive.put_page(5, Some(Payload::Fill(7)), Cause::Eviction);
    assert_eq!(drive.page(5), Payload::Fill(7));
    assert!(!drive.is_on_flash(5) && drive.flash_load(5).is_none());
    let media = drive.at_power_cut();
    // One program takes four pages of this flash.
    (6..9).for_each(|page| put(&kernel, &drive, page, &Payload::Zero));
    kernel.run();
    assert!(drive.is_on_flash(5));
    assert_eq!(drive.page(5), Payload::Fill(7));
    let kernel = Kernel::new();
    let after = Drive::ready(&kernel.sim(), &tiny(true), media, Seed(1)).unwrap();
    assert_eq!(after.page(5), Payload::Fill(7), "the buffer has a battery");
}

#[test]
fn room_is_limited_by_the_write_buffer() {
    let config = tiny(true);
    let (kernel, drive) = ready(&config);
    let pages = config.controller.write_buffer.0 / 4096;
    assert!((0..pages).all(|_| drive.try_room()));
    assert!(!drive.try_room());
    drive.give_room_back();
    assert!(drive.try_room());
    drop(kernel);
}

#[test]
fn fetch_takes_flash_time_and_shows_in_the_load() {
    let mut config = bare(150, 5_000);
    config.flash.keep_contents = true;
    let (kernel, drive) = ready(&config);
    for page in 0..4 {
        put(&kernel, &drive, page, &Payload::Zero);
    }
    kernel.run();
    let begun = kernel.sim().now();
    let fetch = |page: u32| {
        let drive = drive.clone();
        kernel.sim().spawn_detached(async move {
            drive.fetch_page(page, ReadCause::CacheFetch).await.unwrap();
        });
    };
    // Two planes: pages 0 and 1 share a program, and so a die; 2 is on another channel.
    (0..3).for_each(fetch);
    kernel.run_until(begun + Ns(1));
    let load = drive.flash_load(1).unwrap();
    let reads = |reads| Load {
        reads,
        ..Load::default()
    };
    assert_eq!((load.die, load.channel), (reads(2), reads(2)));
    assert!(!load.collecting);
    assert_eq!(drive.flash_load(2).unwrap().die, reads(1));
    kernel.run();
    let timing = config.timing().unwrap();
    let bus = timing.command + Ns::transfer(4096, timing.bus_bytes_per_s);
    // The bus takes longer than the array: the second page waits for the first.
    assert!(bus > timing.read);
    assert_eq!(kernel.sim().now(), begun + timing.read + bus + bus);
    assert_eq!(drive.ledger().reads[ReadCause::CacheFetch as usize], 3);
}

/// Lowest and highest number of free lines while pages are overwritten at random.
fn free_lines(batch: u32) -> (u32, u32) {
    let mut config = bare(150, 4_000);
    config.collection.background_lines = 20;
    config.collection.batch_lines = batch;
    let (kernel, drive) = ready(&config);
    let mut rng = Seed(1).stream("pages");
    let (mut least, mut most) = (u32::MAX, 0);
    for step in 0..40_000_u64 {
        put(&kernel, &drive, rng.below(4_000) as u32, &Payload::Zero);
        kernel.run();
        if step > 20_000 {
            least = least.min(drive.free_lines());
            most = most.max(drive.free_lines());
        }
    }
    (least, most)
}

#[test]
fn collection_reclaims_a_whole_batch() {
    //= skybyte 6.1
    let (least, most) = free_lines(0);
    let (least_of_batch, most_of_batch) = free_lines(30);
    let seen = format!("{least} to {most}, {least_of_batch} to {most_of_batch}");
    assert!(
        least.abs_diff(least_of_batch) <= 1,
        "it begins alike: {seen}"
    );
    assert!(most - least <= 2, "{seen}");
    let went_on = most_of_batch - most;
    assert!((28..=32).contains(&went_on), "{seen}");
}
