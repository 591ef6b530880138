//! The power goes at every event of a run.

use crate::support::{Driver, read_back, small};
use sim::{Cut, Kernel, Seed};
use skybyte::{CxlSsd, DeviceConfig, Profile};

/// Runs until just before event `event`, cuts, recovers, reads back; false if the run has
/// fewer events.
fn survives(config: &DeviceConfig, seed: u64, steps: u32, event: u64) -> bool {
    let kernel = Kernel::new();
    let driver = Driver::new(&kernel.sim(), config, seed, 300);
    let (device, world) = (driver.device.clone(), driver.world.clone());
    kernel.sim().spawn_detached(async move {
        driver.work(steps).await;
    });
    let Cut::Off(media) = kernel.run_to_cut(event, || device.at_power_cut()) else {
        return false;
    };
    // Once more, cut short again.
    let again = Kernel::new();
    let device = CxlSsd::ready(&again.sim(), config, media.clone(), Seed(seed)).unwrap();
    let media = match again.run_to_cut(event % 97, || device.at_power_cut()) {
        Cut::Off(media) => media,
        Cut::AtRest => device.at_power_cut(),
    };
    let kernel = Kernel::new();
    let (sim, config) = (kernel.sim(), config.clone());
    kernel.block_on(async move {
        let device = CxlSsd::power_on(&sim, &config, media, Seed(seed)).await;
        let mut device = device.unwrap();
        let lines: Vec<u64> = world.borrow().written().collect();
        for line in lines {
            let data = read_back(&sim, &mut device, line).await;
            assert_eq!(
                data,
                Some(world.borrow().newest(line)),
                "line {line}, event {event}"
            );
        }
        device.check();
    });
    true
}

#[test]
fn accepted_write_survives_a_power_cut_at_any_event() {
    for design in ["base-cssd", "skybyte-cp", "skybyte-w", "skybyte-full"] {
        let config = small(design, Profile::Default);
        let events = (0..).take_while(|&event| survives(&config, 5, 350, event));
        assert!(events.count() > 500, "{design}");
    }
}

#[test]
fn accepted_write_survives_power_cuts_of_long_runs() {
    for (design, seed) in [("base-cssd", 1), ("skybyte-w", 2), ("skybyte-full", 3)] {
        for profile in Profile::ALL {
            let config = small(design, profile);
            let cuts = (0..40).map(|at| at * 211);
            let survived = cuts.filter(|&event| survives(&config, seed, 4_000, event));
            assert!(survived.count() > 20, "{design} {}", profile.name());
        }
    }
}

#[test]
fn media_of_another_configuration_are_refused() {
    let config = small("skybyte-w", Profile::Default);
    let kernel = Kernel::new();
    let driver = Driver::new(&kernel.sim(), &config, 1, 300);
    let driver = kernel.block_on(driver.work(300));
    let media = driver.device.at_power_cut();
    let mut other = config.clone();
    other.log.bytes.0 *= 2;
    other.dram.bytes.0 += other.log.bytes.0;
    let refused = CxlSsd::ready(&kernel.sim(), &other, media, Seed(1));
    let error = refused.err().expect("the log has another size").to_string();
    assert!(
        error.contains("a log of a device of another configuration"),
        "{error}"
    );
}
