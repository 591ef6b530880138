//! Host commands to zones a second of wall time on one core, at the drive's own interface.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use sim::{Kernel, Seed};
use ssd::{Content, Drive, DriveMedia, Preset, ZoneAction};
use std::hint::black_box;
use units::{Extent, Origin};

const OPS: u64 = 500_000;
/// 512-byte sectors of a command: 4 KiB.
const SECTORS: u32 = 8;

/// A drive with 14 workers. Each worker writes a zone of its own from its start, again and again,
/// or reads data that it wrote before.
fn ready(read: bool) -> Kernel {
    let config = (Preset::named("zns").expect("a preset").config)();
    let kernel = Kernel::new();
    let media = DriveMedia::new(&config, Seed(1)).expect("a good drive");
    let drive = Drive::ready(&kernel.sim(), &config, media, Seed(1)).expect("a good drive");
    let zones = drive.zones().expect("a zoned drive").clone();
    let limits = zones.limits();
    let commands = limits.capacity / u64::from(SECTORS);
    for worker in 0..14 {
        let (zones, mut rng) = (zones.clone(), Seed(1).stream(&format!("worker {worker}")));
        kernel.sim().spawn_detached(async move {
            let start = worker * limits.size;
            if read {
                let whole = Extent::new(start, limits.capacity as u32);
                let filled = zones.write(whole, Content::Nothing, Origin(0), false).await;
                filled.expect("no fault is injected");
            }
            for turn in 0..OPS / 14 {
                if read {
                    let at = start + rng.below(commands) * u64::from(SECTORS);
                    let read = zones.read(Extent::new(at, SECTORS), &mut ()).await;
                    read.expect("no fault is injected");
                    continue;
                }
                let at = turn % commands;
                if at == 0 {
                    let reset = zones.manage(worker as u32, ZoneAction::Reset).await;
                    reset.expect("no fault is injected");
                }
                let extent = Extent::new(start + at * u64::from(SECTORS), SECTORS);
                let write = zones
                    .write(extent, Content::Nothing, Origin(0), false)
                    .await;
                write.expect("no fault is injected");
            }
        });
    }
    kernel
}

fn zones(c: &mut Criterion) {
    let mut group = c.benchmark_group("zones");
    group.throughput(Throughput::Elements(OPS)).sample_size(10);
    for (name, read) in [("sequential_writes", false), ("random_reads", true)] {
        group.bench_function(name, |b| {
            let run = |kernel: Kernel| {
                kernel.run();
                black_box(kernel)
            };
            b.iter_batched(|| ready(read), run, BatchSize::PerIteration);
        });
    }
    group.finish();
}

criterion_group!(benches, zones);
criterion_main!(benches);
