//! Loads and stores of the workloads simulated per second of wall time on one core, including
//! kernels, caches, drive and operating system.
//!
//! An access is a load or a store that a thread of the workload executes, whichever level holds its
//! line; a squashed access counts once, when it completes. The workloads are those with the most
//! misses in the paper's Table I, at `--scale small`, with their warm-up.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use machine::{Setup, Witness, run_program};
use programs::{Workload, characterise};
use sim::Seed;
use skybyte::Profile;
use std::hint::black_box;

fn workloads(criterion: &mut Criterion) {
    for design in ["dram-only", "base-cssd", "skybyte-full"] {
        let mut group = criterion.benchmark_group(design);
        group.sample_size(10);
        for name in ["bfs", "bc", "ycsb"] {
            let workload = Workload::parse(&format!("{name}:section=2000000")).expect("a preset");
            let setup = Setup::new(design, Profile::Default, workload, 1).expect("a design");
            let program = || setup.workload.program(Seed(1)).expect("a kernel");
            let found = characterise(&mut *program());
            group.throughput(Throughput::Elements(found.loads + found.stores));
            group.bench_function(name, |b| {
                b.iter_with_setup(program, |program| {
                    black_box(run_program(&setup, program, Witness::NOBODY)).expect("an end")
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, workloads);
criterion_main!(benches);
