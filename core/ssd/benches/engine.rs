//! Host commands a second of wall time on one core, at the drive's own port.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use sim::{Kernel, Seed};
use ssd::{Content, Drive, DriveMedia, Precondition, Preset};
use std::hint::black_box;
use units::{Extent, Origin, Placement};

const OPS: u64 = 1_000_000;
const DEPTH: u64 = 256;

/// Runs `OPS` uniform random 4 KiB commands.
fn run(media: DriveMedia, write: bool) -> u64 {
    let kernel = Kernel::new();
    let config = (Preset::named("block").expect("a preset").config)();
    let drive = Drive::ready(&kernel.sim(), &config, media, Seed(1)).expect("a good preset");
    let pages = config.capacity.0 / 4096;
    for worker in 0..DEPTH {
        let drive = drive.clone();
        let mut rng = Seed(1).stream(&format!("worker {worker}"));
        kernel.sim().spawn_detached(async move {
            for _ in 0..OPS / DEPTH {
                let extent = Extent::new(rng.below(pages) * 8, 8);
                let done = if write {
                    let (placement, origin) = (Placement(0), Origin(0));
                    drive
                        .write(extent, Content::Nothing, placement, origin, false)
                        .await
                } else {
                    drive.read(extent, &mut ()).await
                };
                done.expect("no fault is injected");
            }
        });
    }
    kernel.run();
    kernel.sim().events()
}

fn engine(c: &mut Criterion) {
    let config = (Preset::named("block").expect("a preset").config)();
    let aged = Precondition::Aged
        .media(&config, Seed(1))
        .expect("a good preset");
    let full = Precondition::Full
        .media(&config, Seed(1))
        .expect("a good preset");
    let mut group = c.benchmark_group("engine");
    group.throughput(Throughput::Elements(OPS)).sample_size(10);
    group.bench_function("random_writes_with_gc", |b| {
        b.iter_batched(
            || aged.clone(),
            |m| black_box(run(m, true)),
            BatchSize::PerIteration,
        );
    });
    group.bench_function("random_reads", |b| {
        b.iter_batched(
            || full.clone(),
            |m| black_box(run(m, false)),
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, engine);
criterion_main!(benches);
