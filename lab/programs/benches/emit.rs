//! Operations per second that the kernels emit on one core.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use memsys::{Op, Program};
use programs::kernel::{bc::Bc, bfs::Bfs, dlrm::Dlrm, radix::Radix, srad::Srad};
use programs::kernel::{tpcc, ycsb};
use programs::{Graph, Shape, Threads};
use sim::Seed;
use std::hint::black_box;

const SEED: Seed = Seed(1);
const THREADS: u32 = 8;

/// Runs a program to its end; returns the number of its operations.
fn drain(mut program: Threads) -> u64 {
    let mut ops: Vec<Op> = Vec::new();
    let mut count = 0;
    let mut ended = [false; THREADS as usize];
    let mut waits = [false; THREADS as usize];
    while ended.iter().any(|e| !e) {
        for thread in 0..THREADS as usize {
            if !ended[thread] && !waits[thread] {
                ops.clear();
                ended[thread] = !program.next(thread as u32, &mut ops);
                waits[thread] = ops.last() == Some(&Op::Meet);
                count += black_box(&ops).len() as u64;
            }
        }
        if (0..THREADS as usize).all(|t| ended[t] || waits[t]) {
            waits.fill(false);
        }
    }
    count
}

fn make(name: &str) -> Threads {
    let graph = |shape, degree| Graph::new(shape, 1 << 17, degree, SEED);
    match name {
        "bfs" => Bfs::new(graph(Shape::Uniform, 8), 1, SEED).program(THREADS),
        "bc" => Bc::new(graph(Shape::Kronecker, 16), 1, SEED).program(THREADS),
        "radix" => Radix::new(1 << 20, THREADS, SEED).program(),
        "srad" => Srad::new(512, 512, 1, SEED).program(THREADS),
        "ycsb" => {
            let ycsb = ycsb::Ycsb::new(ycsb::Letter::B, 32_768, 100_000, THREADS, SEED);
            ycsb.program(THREADS)
        }
        "tpcc" => tpcc::Tpcc::new(tpcc::Size::of(64 << 20), 20_000, SEED).program(THREADS),
        _ => Dlrm::new(50_000, 4_000, 128, None, THREADS, SEED).program(),
    }
}

fn emit(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("emit");
    group.sample_size(10);
    for name in ["bfs", "bc", "radix", "srad", "ycsb", "tpcc", "dlrm"] {
        group.throughput(Throughput::Elements(drain(make(name))));
        group.bench_function(name, |b| {
            b.iter_with_setup(|| make(name), drain);
        });
    }
    group.finish();
}

criterion_group!(benches, emit);
criterion_main!(benches);
