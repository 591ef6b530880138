//! Many accesses at once: bandwidth of the narrowest part, and estimates that hold.

use memsys::{Far, FarEvent, Line, ReadReply, Tag};
use sim::{Kernel, Seed};
use skybyte::{CxlSsd, Design, DeviceConfig, DeviceMedia, Prefetch, Profile, Queue, estimate};
use ssd::Precondition;
use units::Ns;

/// A hundredth of the paper's device, all of whose pages are on flash.
fn device(profile: Profile) -> DeviceConfig {
    let design = Design::named("base-cssd").expect("it is in the table");
    let mut config = profile.device(design).scaled(100);
    config.cache.prefetch = Prefetch::None;
    config.cache.mshrs = 1_500;
    config.dram.fixed = Some(Ns(46));
    config
}

fn ready(kernel: &Kernel, config: &DeviceConfig, past: Precondition) -> CxlSsd {
    let media = DeviceMedia::new(config, past, Seed(1)).unwrap();
    CxlSsd::ready(&kernel.sim(), config, media, Seed(1)).unwrap()
}

/// Bytes a nanosecond that random reads of flash give, 1,500 at a time.
fn bandwidth(profile: Profile) -> f64 {
    let config = device(profile);
    let kernel = Kernel::new();
    let mut device = ready(&kernel, &config, Precondition::Full);
    let pages = device.capacity().0 / 4096;
    let mut rng = Seed(2).stream("pages");
    let (mut waits, mut came) = (0, 0);
    while came < 60_000 {
        while waits < 1_500 {
            let line = Line(rng.below(pages) * 64);
            let reply = device.read(kernel.sim().now(), line, Tag(0));
            waits += u64::from(reply == ReadReply::Waits);
        }
        kernel.step();
        while let Some(event) = device.event() {
            assert!(matches!(event, FarEvent::Data(..)));
            (waits, came) = (waits - 1, came + 1);
        }
    }
    let front = device.metrics().front;
    let fetched = front.fetches * 4096;
    fetched as f64 / kernel.sim().now().0 as f64
}

#[test]
fn flash_throughput_equals_that_of_its_bottleneck() {
    // 16 buses that take 200 ns and 3,414 for a page: dies are many and fast enough.
    let dies = bandwidth(Profile::Default);
    let bus = 16.0 * 4096.0 / 3_614.0;
    assert!((0.9 * bus..=bus).contains(&dies), "{dies} of {bus} GB/s");
    // 16 queues of 3 µs a page, and 1 ns beside it.
    let queues = bandwidth(Profile::Paper);
    let reads = 16.0 * 4096.0 / 3_000.0;
    assert!(
        (0.9 * reads..=reads).contains(&queues),
        "{queues} of {reads} GB/s"
    );
}

#[test]
fn the_dram_holds_no_more_pages_than_it_has_room_for() {
    // Many pages are written at once, so that those that have to go wait for flash.
    let mut config = device(Profile::Default);
    config.drive.controller.write_buffer.0 = 64 * 4096;
    let kernel = Kernel::new();
    let mut device = ready(&kernel, &config, Precondition::Full);
    let pages = device.capacity().0 / 4096;
    let mut rng = Seed(4).stream("lines");
    for _ in 0..20_000 {
        let now = kernel.sim().now();
        let line = Line(rng.below(pages.min(8_000)) * 64);
        if device.write(now, line, None).is_none() {
            kernel.run_until(now + Ns::us(1));
        }
        while device.event().is_some() {}
    }
    // What is answered at once at this instant is in the DRAM.
    let now = kernel.sim().now();
    let at_hand = (0..pages.min(8_000)).filter(|page| {
        let reply = device.copy_read(now, Line(page * 64), Tag(0));
        matches!(reply, ReadReply::Data(..))
    });
    let room = config.dram.bytes.0 / 4096 + 64;
    let held = at_hand.count() as u64;
    assert!(held <= room, "{held} pages in the room of {room}");
    assert!(held > room / 2, "{held} pages in the room of {room}");
}

#[test]
fn algorithm_1_is_right_where_queues_are_served_in_order() {
    //= skybyte 3.1
    let config = device(Profile::Paper);
    let timing = config.drive.timing().unwrap();
    let kernel = Kernel::new();
    let mut device = ready(&kernel, &config, Precondition::Full);
    let pages = device.capacity().0 / 4096;
    let mut rng = Seed(3).stream("lines");
    let (mut judged, mut exact) = (0, 0);
    for round in 0..3_000 {
        kernel.run_until(kernel.sim().now() + Ns(rng.below(20_000)));
        let now = kernel.sim().now();
        // Pages that were written leave the cache and are programmed.
        let page = rng.below(pages);
        if device.write(now, Line(page * 64), None).is_none() {
            kernel.run();
        }
        // The queue as the fetch will find it.
        let looked = now + config.lookup.cache;
        kernel.run_until(looked);
        let page = rng.below(pages);
        let tag = Tag((round % 60_000) as u16);
        let load = device.drive().flash_load(page as u32);
        if device.read(looked, Line(page * 64), tag) != ReadReply::Waits {
            continue;
        }
        let before = device.metrics().front.coalesced;
        let time = loop {
            assert!(kernel.step(), "it comes");
            let mut events = std::iter::from_fn(|| device.event());
            if let Some(FarEvent::Data(_, at, _)) =
                events.find(|event| matches!(event, FarEvent::Data(got, ..) if *got == tag))
            {
                break at.since(looked + config.lookup.cache + Ns(46));
            }
        };
        let Some(load) = load.filter(|_| device.metrics().front.coalesced == before) else {
            continue;
        };
        let expected = estimate(&load, &timing, 4096, Queue::Channel).time;
        // What had begun is counted in full; the bus takes 1 ns each.
        let waits = load.channel;
        let bus = Ns(u64::from(waits.reads + 2 * waits.programs + 1));
        assert!(time <= expected + bus, "{time:?} for {load:?}");
        if waits.reads + waits.programs + waits.erases == 0 {
            assert_eq!(time, timing.read + Ns(1));
            exact += 1;
        }
        judged += 1;
    }
    assert!(judged > 1_000 && exact > 50, "{judged}, {exact}");
    let programs = device.metrics().flash_programs()[0].1;
    assert!(programs > 500, "{programs} pages were written back");
}
