//! Tests of waits: byte accesses wait for the link, the drive and each other, and other work
//! waits for them.

use host::{BlockDevice, BlockPort, BytePort, Direction, HostConfig, Link, Who};
use sim::{Kernel, Seed, Sim};
use ssd::front::FrontConfig;
use ssd::{Content, Drive, DriveConfig, DriveMedia, Preset};
use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use units::{Bytes, Extent, KIB, MIB, Ns, Placement};

const LINE: usize = 64;
const PAGE: u64 = 4_096;

/// A drive of 64 MiB with a log, or a cache of 1 MiB.
fn drive(log: bool) -> DriveConfig {
    let mut config = (Preset::named("byte").unwrap().config)().resized(Bytes(64 * MIB));
    let mut front = FrontConfig::default();
    if log {
        front.log.bytes = Bytes(256 * KIB);
    } else {
        front.cache.bytes = Bytes(MIB);
    }
    config.front = Some(front);
    config
}

/// A host of one core, whose processor posts up to `posted` lines.
fn host(posted: u32) -> HostConfig {
    let mut host = HostConfig::default();
    host.bytes.posted = posted;
    host.cpu.cores = 1;
    host
}

fn on_drive<T: 'static, F: Future<Output = T> + 'static>(
    config: &DriveConfig,
    host: HostConfig,
    work: impl FnOnce(Sim, BlockDevice) -> F,
) -> T {
    let kernel = Kernel::new();
    let media = DriveMedia::new(config, Seed(1)).unwrap();
    let drive = Drive::ready(&kernel.sim(), config, media, Seed(1)).unwrap();
    let device = BlockDevice::new(&kernel.sim(), host, drive).unwrap();
    kernel.block_on(work(kernel.sim(), device))
}

async fn store(device: &BlockDevice, at: u64) {
    let stored = device.store(at, &[1; LINE], 0, Who::default());
    stored.await.unwrap();
}

async fn load(device: &BlockDevice, at: u64) {
    let mut line = [0; LINE];
    let loaded = device.load(at, &mut line, Who::default());
    loaded.await.unwrap();
}

async fn write(device: &BlockDevice, first: u64, pages: u64) {
    let extent = Extent::new(first * 8, 8 * pages as u32);
    let (nothing, who) = (Content::Nothing, Who::default());
    let written = device.write(extent, nothing, Placement(0), who, false);
    written.await.unwrap();
}

/// Writes `pages` pages, and then enough others to evict them from buffer and cache.
async fn on_flash(sim: &Sim, device: &BlockDevice, pages: u64) {
    for first in (0..pages).chain(1_000..6_000).step_by(50) {
        write(device, first, 50).await;
    }
    sim.sleep(Ns::ms(50)).await;
}

#[test]
fn stores_arrive_at_the_rate_of_the_drive_memory() {
    for (log, each) in [(true, 80), (false, 64)] {
        let span = on_drive(&drive(log), host(2_000), |sim, device| async move {
            write(&device, 0, 16).await;
            for line in 0..1_000 {
                store(&device, line * 64).await;
            }
            let begin = sim.now();
            device.verify().await.unwrap();
            sim.now().since(begin)
        });
        // Each store moves separately at 12.8 bytes per ns; the last one is answered.
        let one = (each * 10_u64).div_ceil(128);
        let answer = 100 + if log { 89 } else { 49 };
        assert_eq!(span, Ns(1_000 * one + answer + 4_800), "log: {log}");
    }
}

/// Latency of a load, or of a store that waits for its arrival, beside reads and writes of
/// 1 MiB.
fn beside_blocks(link: Link, loads: bool, [reads, writes]: [u64; 2]) -> Ns {
    let host = HostConfig { link, ..host(1) };
    on_drive(&drive(true), host, move |sim, device| async move {
        for number in 0..writes {
            let written = device.clone();
            sim.spawn_detached(async move { write(&written, 256 * number, 256).await });
        }
        for _ in 0..reads {
            let read = device.clone();
            sim.spawn_detached(async move {
                let nothing = Extent::new(8 * 1_000, 2_048);
                read.read(nothing, &mut (), Who::default()).await.unwrap();
            });
        }
        // By then the block commands have reached the drive or the link.
        sim.sleep(Ns::us(300)).await;
        let begin = sim.now();
        if loads {
            load(&device, PAGE).await;
        } else {
            let two = device.store(0, &[1; 2 * LINE], 0, Who::default());
            two.await.unwrap();
        }
        sim.now().since(begin)
    })
}

#[test]
fn loads_and_stores_wait_for_their_turn_on_a_busy_link() {
    let link = Link {
        generation: 3,
        lanes: 1,
        ..Link::default()
    };
    let load = |blocks| beside_blocks(link, true, blocks);
    let store = |blocks| beside_blocks(link, false, blocks);
    // The idle cost includes the link.
    let at_rest = (load([0, 0]), store([0, 0]));
    let costs = (4_800 + 89 + 100 + 5, 2 * 600 + 89 + 100 + 12);
    assert_eq!(at_rest, (Ns(costs.0), Ns(costs.1)));
    let to_host = link.transfer(2 * MIB, Direction::ToHost);
    let to_drive = link.transfer(2 * MIB, Direction::ToDrive);
    let long = |span: Ns, rest: Ns, wait: Ns| {
        let wait = Ns(wait.0 * 9 / 10)..Ns(wait.0 * 3 / 2);
        assert!(wait.contains(&(span - rest)), "{span}, {wait:?}");
    };
    long(load([3, 0]), at_rest.0, to_host);
    long(load([0, 3]), at_rest.0, to_drive);
    long(store([0, 3]), at_rest.1, to_drive);
    // Blocks in the other direction share only the drive's memory with the access.
    let beside = store([3, 0]);
    assert!(beside <= at_rest.1 + Ns(3 * 320), "{beside}");
}

#[test]
fn core_that_loads_does_nothing_else_until_the_data_arrive() {
    for hits in [true, false] {
        let (load_over, other_over) =
            on_drive(&drive(false), host(64), move |sim, device| async move {
                on_flash(&sim, &device, 100).await;
                if hits {
                    load(&device, 0).await;
                }
                let over = Rc::new(Cell::new(Ns::ZERO));
                let (other, at) = (device.clone(), Rc::clone(&over));
                let time = sim.clone();
                sim.spawn_detached(async move {
                    time.sleep(Ns(1_000)).await;
                    other.compute(Ns(10_000)).over(&time).await;
                    at.set(time.now());
                });
                let begin = sim.now();
                load(&device, 0).await;
                let loaded = sim.now();
                sim.sleep(Ns::ms(1)).await;
                (loaded.since(begin), over.get().since(begin))
            });
        let hit = Ns(4_800 + 49 + 100 + 5);
        assert_eq!(load_over == hit, hits, "{load_over}");
        assert_eq!(other_over, load_over + Ns(10_000));
    }
}

#[test]
fn verify_waits_for_earlier_stores_and_not_for_later_ones() {
    let [alone, beside] = [0, 40].map(|later| {
        on_drive(
            &drive(false),
            HostConfig::default(),
            move |sim, device| async move {
                on_flash(&sim, &device, 100).await;
                // The drive reads the page of each store before it takes the store in.
                for page in 0..4 {
                    store(&device, page * PAGE).await;
                }
                let other = device.clone();
                let storing = sim.spawn(async move {
                    for page in 10..10 + later {
                        store(&other, page * PAGE).await;
                    }
                });
                let begin = sim.now();
                device.verify().await.unwrap();
                let span = sim.now().since(begin);
                assert_eq!(device.has_posted(), later > 0);
                storing.await;
                device.verify().await.unwrap();
                assert!(!device.has_posted());
                span
            },
        )
    });
    assert_eq!(alone, beside);
}

/// Time to store to `pages` pages on flash, and to verify, on a drive with a cache.
fn stores_to_flash(pages: u64) -> Ns {
    on_drive(&drive(false), host(64), move |sim, device| async move {
        on_flash(&sim, &device, 200).await;
        let begin = sim.now();
        for page in 0..pages {
            store(&device, 7 * page * PAGE).await;
        }
        device.verify().await.unwrap();
        sim.now().since(begin)
    })
}

#[test]
fn pages_of_stores_in_flight_are_fetched_in_parallel() {
    let (one, many) = (stores_to_flash(1), stores_to_flash(16));
    assert!(one.0 > 40_000, "it comes from flash: {one}");
    assert!(2 * many.0 < 16 * one.0, "{many} of 16, {one} of one");
}
