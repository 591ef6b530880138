//! Wall time of warm calls over a file system in memory.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sim::Kernel;
use std::hint::black_box;
use units::{Bytes, MIB};
use vfs::mem::MemFs;
use vfs::{
    Access, CacheConfig, CallCosts, Clock, Compute, Fd, OpenFlags, PAGE, Process, Source, Vfs,
};

const CALLS: u64 = 10_000;

type Program = Process<MemFs>;

/// Runs `calls` over a fresh mount; with nonzero costs each call takes an event.
fn run<F: Future<Output = ()> + 'static>(costs: CallCosts, calls: impl FnOnce(Program) -> F) {
    let kernel = Kernel::new();
    let config = CacheConfig {
        costs,
        ..CacheConfig::default()
    };
    let (body, clock) = (MemFs::new(Bytes(64 * MIB)), Clock::default());
    let vfs = Vfs::mount(&kernel.sim(), body, config, clock, Compute::unlimited());
    kernel.block_on(calls(Process::new(&vfs, Access::root())));
}

async fn make(process: &Program, path: &[u8], len: u64) -> Fd {
    let flags = OpenFlags::BOTH | OpenFlags::CREATE;
    let fd = process.open(path, flags, 0o600).await.unwrap();
    let source = Source::Fill { pattern: 1, len };
    process.pwrite(fd, 0, source).await.unwrap();
    fd
}

async fn create_write_close_unlink(process: Program) {
    process.mkdir(b"/dir", 0o700).await.unwrap();
    for _ in 0..CALLS {
        let fd = make(&process, b"/dir/file", 4 * PAGE).await;
        process.close(fd).await.unwrap();
        process.unlink(b"/dir/file").await.unwrap();
    }
}

async fn open_stat_write_read_close(process: Program) {
    let fd = make(&process, b"/file", 16 * PAGE).await;
    let bytes = vec![7; 4 * PAGE as usize];
    let mut out = vec![0; 4 * PAGE as usize];
    process.close(fd).await.unwrap();
    for _ in 0..CALLS {
        let fd = process.open(b"/file", OpenFlags::BOTH, 0).await.unwrap();
        black_box(process.stat(b"/file").await.unwrap());
        let source = Source::Bytes(&bytes);
        process.pwrite(fd, 0, source).await.unwrap();
        let sink = &mut out.as_mut_slice();
        process.pread(fd, 0, 4 * PAGE, sink).await.unwrap();
        process.close(fd).await.unwrap();
    }
}

async fn stat_by_path(process: Program) {
    for dir in ["/a", "/a/b", "/a/b/c"] {
        process.mkdir(dir.as_bytes(), 0o700).await.unwrap();
    }
    make(&process, b"/a/b/c/file", 0).await;
    for _ in 0..CALLS {
        black_box(process.stat(b"/a/b/c/file").await.unwrap());
    }
}

async fn read_pages(process: Program) {
    let fd = make(&process, b"/file", 1024 * PAGE).await;
    for call in 0..CALLS {
        let page = call * 17 % 1024;
        let read = process.pread(fd, page * PAGE, PAGE, &mut ()).await;
        black_box(read.unwrap());
    }
}

async fn write_pages(process: Program) {
    let fd = make(&process, b"/file", 1024 * PAGE).await;
    let source = Source::Fill {
        pattern: 3,
        len: PAGE,
    };
    for call in 0..CALLS {
        let page = call * 17 % 1024;
        process.pwrite(fd, page * PAGE, source).await.unwrap();
    }
}

fn calls(c: &mut Criterion) {
    let mut group = c.benchmark_group("warm");
    group.throughput(Throughput::Elements(CALLS));
    group.sample_size(20);
    for (name, costs) in [("free", CallCosts::FREE), ("paid", CallCosts::default())] {
        group.bench_function(format!("create+write 16K+close+unlink/{name}"), |b| {
            b.iter(|| run(costs, create_write_close_unlink));
        });
        group.bench_function(format!("open+stat+write+read 16K+close/{name}"), |b| {
            b.iter(|| run(costs, open_stat_write_read_close));
        });
        group.bench_function(format!("stat of 4 names/{name}"), |b| {
            b.iter(|| run(costs, stat_by_path));
        });
        group.bench_function(format!("read 4K/{name}"), |b| {
            b.iter(|| run(costs, read_pages));
        });
        group.bench_function(format!("write 4K/{name}"), |b| {
            b.iter(|| run(costs, write_pages));
        });
    }
    group.finish();
}

criterion_group!(benches, calls);
criterion_main!(benches);
