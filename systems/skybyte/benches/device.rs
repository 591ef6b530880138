//! Accesses a second of wall time on one core, at the device's own port.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use memsys::{Far, Line, ReadReply, Tag};
use sim::{Kernel, Seed};
use skybyte::{CxlSsd, Design, DeviceMedia, Prefetch, Profile};
use ssd::Precondition;
use std::hint::black_box;
use units::Ns;

const ACCESSES: u64 = 1_000_000;

struct Rig {
    kernel: Kernel,
    device: CxlSsd,
    lines: Vec<Line>,
}

/// A device of an eighth of the paper's sizes, of which `pages` are in the cache and are
/// asked for at random.
fn rig(design: &str, pages: u64) -> Rig {
    let mut config = Profile::Default.device(Design::named(design).expect("in the table"));
    config.cache.prefetch = Prefetch::None;
    let config = config.scaled(8);
    let kernel = Kernel::new();
    let media = DeviceMedia::new(&config, Precondition::Full, Seed(1)).expect("a good device");
    let mut device = CxlSsd::ready(&kernel.sim(), &config, media, Seed(1)).expect("as before");
    for page in 0..pages {
        device.read(kernel.sim().now(), Line(page * 64), Tag(0));
        if page % 512 == 0 {
            kernel.run();
        }
    }
    kernel.run();
    while device.event().is_some() {}
    let mut rng = Seed(2).stream("lines");
    let lines = (0..ACCESSES).map(|_| Line(rng.below(pages * 64))).collect();
    Rig {
        kernel,
        device,
        lines,
    }
}

fn read_all(rig: &mut Rig) -> u64 {
    let mut now = rig.kernel.sim().now();
    let mut sum = 0;
    for &line in &rig.lines {
        now += Ns(10);
        if let ReadReply::Data(at, _) = rig.device.read(now, line, Tag(0)) {
            sum += at.0;
        }
    }
    sum
}

fn hits(c: &mut Criterion) {
    let mut group = c.benchmark_group("device");
    let throughput = Throughput::Elements(ACCESSES);
    group.throughput(throughput).sample_size(10);
    for (design, pages) in [
        ("base-cssd", 4_096),
        ("skybyte-full", 4_096),
        ("skybyte-full", 12_000),
    ] {
        let mut rig = rig(design, pages);
        group.bench_function(format!("cache hits, {design}, {pages} pages"), |b| {
            b.iter(|| black_box(read_all(&mut rig)));
        });
        let front = rig.device.metrics().front;
        println!("{} of {} reads were hits", front.cache_hits, front.reads);
    }
    group.finish();
}

/// Writes to the log of which some go on to compaction, and reads of what they wrote.
fn log(c: &mut Criterion) {
    let mut group = c.benchmark_group("log");
    let throughput = Throughput::Elements(ACCESSES);
    group.throughput(throughput).sample_size(10);
    let mut rig = rig("skybyte-w", 4_096);
    let mut rng = Seed(3).stream("writes");
    let pages = rig.device.capacity().0 / 4096;
    // More lines than the cache knows, fewer than a half of the log takes.
    let lines: Vec<Line> = (0..50_000)
        .map(|_| Line((4_096 + rng.below(pages - 4_096)) * 64 + rng.below(64)))
        .collect();
    for &line in &lines {
        let now = rig.kernel.sim().now();
        rig.device.write(now, line, None).expect("there is room");
    }
    rig.lines = (0..ACCESSES)
        .map(|_| lines[rng.below(50_000) as usize])
        .collect();
    group.bench_function("hits", |b| b.iter(|| black_box(read_all(&mut rig))));
    let front = rig.device.metrics().front;
    println!(
        "{} of {} reads were hits of the log",
        front.log_hits, front.reads
    );
    group.bench_function("writes, compacted", |b| {
        b.iter_batched(
            || Seed(4).stream("lines"),
            |mut rng| {
                for _ in 0..ACCESSES {
                    let line = Line(rng.below(1 << 14));
                    let now = rig.kernel.sim().now();
                    if rig.device.write(now, line, None).is_none() {
                        rig.kernel.run();
                        while rig.device.event().is_some() {}
                    }
                }
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, hits, log);
criterion_main!(benches);
