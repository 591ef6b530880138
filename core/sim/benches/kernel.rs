//! Events per second of the kernel on one core.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use sim::{Actor, Class, Discipline, Kernel, Server, Service, TaskId};
use std::cell::{Cell, RefCell};
use std::hint::black_box;
use std::rc::{Rc, Weak};
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

const DIES: u32 = 64;
const CHANNELS: u32 = 8;

/// Dies, then channels; a job is a number of a reader, which reads again at its end.
struct Parts {
    servers: RefCell<Vec<Server>>,
    left: Cell<u64>,
}

impl Parts {
    fn serve(&self, server: u32, reader: u32, span: u64) {
        let service = Service {
            class: Class(0),
            span: Ns(span),
            suspendable: false,
        };
        self.servers.borrow_mut()[server as usize].arrive(reader, service);
    }
}

impl Actor for Parts {
    fn event(&self, server: u32, sequence: u64) -> Option<TaskId> {
        let ended = self.servers.borrow_mut()[server as usize].depart(sequence);
        let reader = ended?;
        if server < DIES {
            self.serve(DIES + server % CHANNELS, reader, 3_414);
        } else if self.left.get() > 0 {
            self.left.set(self.left.get() - 1);
            self.serve(
                (reader * 31 + self.left.get() as u32 * 17) % DIES,
                reader,
                40_000,
            );
        }
        None
    }
}

/// `depth` readers: each read occupies a die, then its channel, and takes two events.
fn die_and_channel(depth: u32) -> u64 {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let parts = Rc::new_cyclic(|parts: &Weak<Parts>| {
        let actor = sim.enroll(parts.clone());
        let server = |number| Server::new(Discipline::FIFO, sim.timer(actor, number));
        Parts {
            servers: RefCell::new((0..DIES + CHANNELS).map(server).collect()),
            left: Cell::new(EVENTS / 2 - u64::from(depth)),
        }
    });
    for reader in 0..depth {
        parts.serve(reader % DIES, reader, 40_000);
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
