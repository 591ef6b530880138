//! File operations a second of wall time on one core, in virtual time.
//!
//! `source` asks a generator alone, `memory` drives it over the file API with
//! calls that cost nothing and a file system in memory that forgets what it is
//! given, so that what is measured is generator, driver, cache and path walk.

use criterion::{BatchSize, Criterion, Throughput};
use sim::{Kernel, Seed};
use stack::files::{Drive, Origins, make_tree};
use std::hint::black_box;
use std::rc::Rc;
use units::{Bytes, GIB, Ns};
use vfs::mem::MemFs;
use vfs::{CacheConfig, CallCosts, Clock, Compute, Vfs};
use workload::files::{FileWorkload, Source, ThreadId, Turn};

/// Calls of one measurement.
const OPS: u64 = 200_000;

type Boxed = Box<dyn Source>;

fn opened(text: &str) -> Boxed {
    let workload = FileWorkload::parse(text).expect("a good description");
    workload.open(Seed(1)).expect("a good description")
}

/// A generator, each of whose calls answers at once.
fn source(c: &mut Criterion) {
    let mut group = c.benchmark_group("source");
    group.throughput(Throughput::Elements(OPS));
    let text = format!("varmail:files=10000,threads=1,ops={OPS}");
    group.bench_function("varmail", |b| {
        b.iter_batched(|| opened(&text), ask_all, BatchSize::LargeInput);
    });
    group.finish();
}

fn ask_all(mut source: Boxed) -> Boxed {
    let thread = ThreadId(0);
    let mut read = 0;
    while let Turn::Call { call, .. } = source.next(thread, Ns::ZERO) {
        // Every other read finds the end of its file.
        read = if call.name() == "pread" {
            4_096 - read
        } else {
            0
        };
        source.ended(thread, Ok(read));
        black_box(source.wake());
    }
    source
}

/// A mounted file system with the tree of a generator.
struct Ready {
    kernel: Kernel,
    vfs: Vfs<MemFs>,
    source: Boxed,
    origins: Origins,
}

fn ready(text: &str) -> Ready {
    let kernel = Kernel::new();
    let config = CacheConfig {
        costs: CallCosts::FREE,
        ..CacheConfig::default()
    };
    let body = MemFs::new(Bytes(64 * GIB));
    let vfs = Vfs::mount(
        &kernel.sim(),
        body,
        config,
        Clock::default(),
        Compute::free(),
    );
    let (mounted, source) = (vfs.clone(), opened(text));
    let (source, origins) = kernel.block_on(async move {
        let mut origins = Origins::default();
        let (setup, names) = (source.setup(), source.names());
        let made = make_tree(&mounted, setup, names, &mut origins).await;
        made.expect("there is room");
        (source, origins)
    });
    Ready {
        kernel,
        vfs,
        source,
        origins,
    }
}

fn run(ready: Ready) -> (Rc<Drive<MemFs, Boxed>>, Kernel) {
    let Ready {
        kernel,
        vfs,
        source,
        origins,
    } = ready;
    let sim = kernel.sim();
    let drive = Drive::start(&sim, &vfs, source, origins, false);
    let driven = Rc::clone(&drive);
    kernel.block_on(async move { driven.finish().await });
    assert_eq!(drive.meter().completed, OPS);
    (drive, kernel)
}

fn memory(c: &mut Criterion) {
    let mut group = c.benchmark_group("memory");
    group.throughput(Throughput::Elements(OPS));
    group.sample_size(10);
    for name in ["varmail", "fileserver", "webserver"] {
        let text = format!("{name}:files=10000,threads=12,size=16k,ops={OPS}");
        group.bench_function(name, |b| {
            b.iter_batched(|| ready(&text), run, BatchSize::PerIteration);
        });
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    source(&mut criterion);
    memory(&mut criterion);
    criterion.final_summary();
}
