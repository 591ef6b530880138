//! Random accesses against a flat memory.

use crate::support::{run, small};
use proptest::prelude::*;
use skybyte::{DESIGNS, Prefetch, Profile, Replacement};

/// Pages that are written: most of the device, so that garbage is collected.
const PAGES: u64 = 1_200;

#[test]
fn every_design_is_a_memory() {
    for profile in Profile::ALL {
        for design in DESIGNS.iter().filter(|design| design.drive) {
            let config = small(design.name, profile);
            let (device, _) = run(&config, 1, PAGES, 6_000);
            let metrics = device.metrics();
            let front = metrics.front;
            let what = format!("{} {}: {front:?}", design.name, profile.name());
            assert!(front.cache_hits > 50 && front.misses > 500, "{what}");
            assert!(front.dropped_pages > 20, "{what}");
            assert_eq!(front.delays > 0, design.switches, "{what}");
            assert_eq!(front.log_hits > 20, design.log, "{what}");
            assert_eq!(front.compactions > 20, design.log, "{what}");
            assert_eq!(front.evictions > 500, !design.log, "{what}");
            let counted = design.migration == skybyte::Migration::Counted;
            assert!(counted || front.hot == 0, "{what}");
            let collected = metrics.drive.lines_collected;
            assert!(collected > 10, "{collected} lines collected, {what}");
        }
    }
}

#[test]
fn a_run_repeats_itself() {
    for design in ["base-cssd", "skybyte-full"] {
        let config = small(design, Profile::Default);
        let (first, told) = run(&config, 3, PAGES, 3_000);
        let (second, again) = run(&config, 3, PAGES, 3_000);
        assert_eq!(told, again);
        assert_eq!(first.metrics(), second.metrics());
    }
}

#[test]
fn contents_change_no_time() {
    let mut config = small("skybyte-wp", Profile::Default);
    let with = times(&config);
    config.drive.flash.keep_contents = false;
    assert_eq!(with, times(&config));
}

/// Times of the answers to 3,000 random accesses, one line each.
fn times(config: &skybyte::DeviceConfig) -> Vec<String> {
    use memsys::{Far, FarEvent, Line, ReadReply, Tag};
    let kernel = sim::Kernel::new();
    let media = skybyte::DeviceMedia::new(config, ssd::Precondition::Full, sim::Seed(1)).unwrap();
    let mut device = skybyte::CxlSsd::ready(&kernel.sim(), config, media, sim::Seed(1)).unwrap();
    let mut rng = sim::Seed(1).stream("accesses");
    let mut times = Vec::new();
    for _ in 0..3_000 {
        kernel.run_until(kernel.sim().now() + units::Ns(rng.below(2_000)));
        let (now, line) = (kernel.sim().now(), Line(rng.below(PAGES * 64)));
        if rng.chance(1, 2) {
            times.push(format!("{:?}", device.write(now, line, None)));
        } else {
            times.push(match device.read(now, line, Tag(1)) {
                ReadReply::Data(at, _) => format!("{at:?}"),
                other => format!("{other:?}"),
            });
        }
        while let Some(event) = device.event() {
            times.push(match event {
                FarEvent::Data(tag, at, _) => format!("{tag:?} {at:?}"),
                other => format!("{other:?}"),
            });
        }
    }
    times
}

fn prefetch() -> impl Strategy<Value = Prefetch> {
    prop_oneof![
        Just(Prefetch::None),
        (1_u32..4).prop_map(|pages| Prefetch::Next { pages }),
        (1_u32..4, 1_u32..20).prop_map(|(pages, largest)| Prefetch::BestOffset { pages, largest }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn any_device_is_a_memory(
        seed in any::<u64>(),
        design in 0..DESIGNS.len() - 1,
        profile in 0..Profile::ALL.len(),
        prefetch in prefetch(),
        (ways, sets) in (1_u32..=16, 1_u32..5),
        window in 0_u32..17,
        clean_write_back in any::<bool>(),
        (mshrs, in_work) in (1_u32..20, 1_u32..20),
        half in 8_u64..200,
        reads_first in any::<bool>(),
        pages in 4_u64..PAGES,
    ) {
        let mut config = small(DESIGNS[design].name, Profile::ALL[profile]);
        config.cache.prefetch = prefetch;
        config.cache.ways = ways;
        config.cache.mshrs = mshrs;
        config.cache.clean_write_back = clean_write_back;
        config.cache.replacement = match window {
            0 => Replacement::Lru,
            window => Replacement::Cflru { window },
        };
        config.drive.flash.reads_first = reads_first;
        let mut dram = u64::from(ways * sets) * 4096;
        if config.has_log() {
            config.log.pages_in_work = in_work;
            config.log.bytes.0 = 2 * half * u64::from(config.log.entry_bytes);
            dram += config.log.bytes.0;
        }
        config.dram.bytes.0 = dram;
        run(&config, seed, pages, 1_500);
    }
}
