//! Events per second of the kernel on one core.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use sim::{Class, Discipline, Kernel, Server, Service, Sim, Timeline};
use std::hint::black_box;
use std::rc::Rc;
use units::Ns;

const EVENTS: u64 = 2_000_000;

/// `tasks` sleepers with spans that never coincide, `EVENTS` events in all.
fn sleepers(tasks: u64) -> u64 {
    let kernel = Kernel::new();
    for task in 0..tasks {
        let sim = kernel.sim();
        kernel.sim().spawn_detached(async move {
            for _ in 0..EVENTS / tasks {
                sim.sleep(Ns(1_000 + task)).await;
            }
        });
    }
    kernel.run();
    kernel.sim().events()
}

/// `depth` tasks that read: each read occupies a die, then its channel, and takes two
/// timed events.
fn die_and_channel(depth: u64) -> u64 {
    struct Parts {
        dies: Vec<Server>,
        channels: Vec<Timeline>,
    }
    let kernel = Kernel::new();
    let parts = Rc::new(Parts {
        dies: (0..64).map(|_| Server::new(Discipline::FIFO)).collect(),
        channels: (0..8).map(|_| Timeline::default()).collect(),
    });
    async fn read(sim: &Sim, parts: &Parts, die: usize) {
        let service = Service {
            class: Class(0),
            span: Ns(40_000),
            suspendable: false,
            tag: 0,
        };
        parts.dies[die].serve(sim, service).await;
        parts.channels[die % 8].serve(sim, Ns(3_414)).await;
    }
    for task in 0..depth {
        let (sim, parts) = (kernel.sim(), Rc::clone(&parts));
        kernel.sim().spawn_detached(async move {
            for n in 0..EVENTS / 2 / depth {
                read(&sim, &parts, ((task * 31 + n * 17) % 64) as usize).await;
            }
        });
    }
    kernel.run();
    kernel.sim().events()
}

fn kernel(c: &mut Criterion) {
    let mut group = c.benchmark_group("kernel");
    group
        .throughput(Throughput::Elements(EVENTS))
        .sample_size(10);
    for tasks in [32, 256, 4096] {
        group.bench_function(BenchmarkId::new("timed_events", tasks), |b| {
            b.iter(|| black_box(sleepers(tasks)));
        });
    }
    group.bench_function("die_and_channel_events", |b| {
        b.iter(|| black_box(die_and_channel(256)));
    });
    group.finish();
}

criterion_group!(benches, kernel);
criterion_main!(benches);
