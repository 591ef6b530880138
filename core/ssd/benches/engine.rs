//! Host commands a second of wall time on one core, at the drive's own interface.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use sim::{Kernel, Seed};
use ssd::{Content, Drive, DriveConfig, DriveMedia, Precondition, Preset};
use std::hint::black_box;
use units::{Bytes, Extent, Origin, Placement};

const OPS: u64 = 1_000_000;

/// A drive in its steady state under power, with workers ready to issue commands.
struct Ready {
    kernel: Kernel,
    drive: Drive,
}

impl Ready {
    /// Spawns `depth` workers that together issue `OPS` uniform random 4 KiB commands.
    fn new(config: &DriveConfig, media: DriveMedia, depth: u64, write: bool) -> Self {
        let kernel = Kernel::new();
        let drive = Drive::ready(&kernel.sim(), config, media, Seed(1)).expect("a good drive");
        let pages = config.capacity.0 / 4096;
        for worker in 0..depth {
            let (drive, mut rng) = (drive.clone(), Seed(1).stream(&format!("worker {worker}")));
            kernel.sim().spawn_detached(async move {
                for _ in 0..OPS / depth {
                    let extent = Extent::new(rng.below(pages) * 8, 8);
                    let done = if write {
                        let (placement, origin) = (Placement(0), Origin(0));
                        let write = drive.write(extent, Content::Nothing, placement, origin, false);
                        write.await
                    } else {
                        drive.read(extent, &mut ()).await
                    };
                    done.expect("no fault is injected");
                }
            });
        }
        Self { kernel, drive }
    }

    /// Runs to the end. The returned state is dropped outside the measured time.
    fn run(self) -> (u64, Drive) {
        self.kernel.run();
        (self.kernel.sim().events(), self.drive)
    }
}

/// The `block` preset with `spare` percent of flash beyond its capacity.
fn drive(spare: u64) -> DriveConfig {
    let mut config = (Preset::named("block").expect("a preset").config)();
    let flash = config.geometry.bytes() - config.geometry.bytes() / 200;
    config.capacity = Bytes(flash * 100 / (100 + spare) / 4096 * 4096);
    config
}

fn engine(c: &mut Criterion) {
    let mut group = c.benchmark_group("engine");
    group.throughput(Throughput::Elements(OPS)).sample_size(10);
    let cases = [
        ("random_reads", Precondition::Full, 17, 64, false),
        (
            "random_writes/7_percent_spare",
            Precondition::Aged,
            7,
            64,
            true,
        ),
        (
            "random_writes/17_percent_spare",
            Precondition::Aged,
            17,
            64,
            true,
        ),
        (
            "random_writes/28_percent_spare",
            Precondition::Aged,
            28,
            64,
            true,
        ),
    ];
    for (name, past, spare, depth, write) in cases {
        let config = drive(spare);
        let media = past.media(&config, Seed(1)).expect("a good drive");
        let ready = || Ready::new(&config, media.clone(), depth, write);
        group.bench_function(name, |b| {
            b.iter_batched(ready, |r| black_box(r.run()), BatchSize::PerIteration);
        });
    }
    group.finish();
}

/// Power-on of a drive of a terabyte that nothing has touched since its past.
fn start(c: &mut Criterion) {
    let mut group = c.benchmark_group("start");
    let config = (Preset::named("block").expect("a preset").config)();
    let config = config.resized(Bytes(1_000_000_000_000 / 4096 * 4096));
    for past in Precondition::ALL {
        group.sample_size(10).bench_function(past.name(), |b| {
            b.iter(|| {
                let media = past.media(&config, Seed(1)).expect("a good drive");
                let sim = Kernel::new().sim();
                Drive::ready(&sim, &config, media, Seed(1)).expect("a good drive")
            });
        });
    }
    group.finish();
}

criterion_group!(benches, engine, start);
criterion_main!(benches);
