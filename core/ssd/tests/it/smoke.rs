//! A drive at work.

use sim::{Kernel, Seed};
use ssd::{Content, Drive, Precondition, Preset};
use units::{Extent, Origin, Placement};

#[test]
fn smoke() {
    for past in Precondition::ALL {
        let kernel = Kernel::new();
        let config = (Preset::named("block").unwrap().config)();
        let media = past.media(&config, Seed(1)).unwrap();
        let drive = Drive::ready(&kernel.sim(), &config, media, Seed(1)).unwrap();
        drive.check();
        let pages = config.capacity.0 / 4096;
        for worker in 0..64 {
            let drive = drive.clone();
            let mut rng = Seed(1).stream(&format!("worker {worker}"));
            kernel.sim().spawn_detached(async move {
                for _ in 0..40000 {
                    let extent = Extent::new(rng.below(pages) * 8, 8);
                    drive
                        .write(extent, Content::Nothing, Placement(0), Origin(0), false)
                        .await
                        .unwrap();
                }
            });
        }
        kernel.run();
        drive.check();
        let ledger = drive.ledger();
        for cause in ssd::Cause::ALL {
            eprintln!("{past:?} {}: {}", cause.name(), ledger.by_cause(cause));
        }
        eprintln!(
            "{:?} {:?} waf {}",
            kernel.sim().now(),
            ledger.lines_collected,
            ledger.programmed_pages() as f64 / 2560000.0
        );
        eprintln!(
            "events {} memory {:?}",
            kernel.sim().events(),
            drive.memory()
        );
    }
}
