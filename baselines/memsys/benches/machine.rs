//! How many instructions and accesses a second of wall time the machine runs.
//!
//! Of each kind of program: instructions, then operations of memory, a second.
//!
//! Where the simulating processor's instructions go, of each access, as Valgrind's callgrind
//! counts them in 128,000 accesses at random in DRAM, which miss every cache and translation:
//!
//! | what | instructions |
//! | --- | ---: |
//! | translation: both TLBs, the walk's look into the caches and its DRAM | 550 |
//! | the line: two looks into three levels, 240 each, as half find no register at first | 480 |
//! | putting it into three levels, with what has to leave them | 450 |
//! | DRAM, notes of pages, registers | 380 |
//! | asking 2.7 times whether a register is free | 380 |
//! | what a core does next | 400 |
//! | retiring it, and waking who waits for it | 210 |
//! | its place among what is asked for later | 180 |
//! | taking it up 2.7 times: from the program, after its walk, when a register is free | 390 |
//! | whose turn it is, the start, and the store buffer's part of a quarter of them | 890 |
//! | all | 4,310 |
//!
//! Behind the link it is 4,400, of chains 4,440, and 2,240 where lines are walked in order.
//! Nothing of it is an event of the kernel, a search in a map, or memory that is allocated.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use memsys::{
    Config, DramConfig, Machine, NodeConfig, Op, Place, PlainDram, Program, TakeAll, TimeOnly,
};
use sim::{Kernel, Rng, Seed};
use std::hint::black_box;
use units::{Bytes, GIB, KIB, MIB, Ns};

/// Threads that load and store at random, or in order.
struct Walk {
    rngs: Vec<Rng>,
    at: Vec<u64>,
    left: Vec<u64>,
    footprint: u64,
    compute: u32,
    after: u16,
    random: bool,
}

const THREADS: u64 = 8;
const EACH: u64 = 60_000;

impl Walk {
    fn new(footprint: u64, compute: u32, random: bool, after: u16) -> Self {
        let threads = THREADS as usize;
        Self {
            rngs: (0..THREADS).map(|n| Seed(n).stream("walk")).collect(),
            at: (0..THREADS).map(|n| n * footprint / THREADS).collect(),
            left: vec![EACH; threads],
            footprint,
            compute,
            after,
            random,
        }
    }
}

impl Program for Walk {
    fn threads(&self) -> u32 {
        THREADS as u32
    }

    fn footprint(&self) -> Bytes {
        Bytes(self.footprint)
    }

    fn next(&mut self, thread: u32, ops: &mut Vec<Op>) -> bool {
        let thread = thread as usize;
        let count = self.left[thread].min(200);
        self.left[thread] -= count;
        for _ in 0..count {
            let rng = &mut self.rngs[thread];
            let at = if self.random {
                rng.below(self.footprint / 8) * 8
            } else {
                self.at[thread] = (self.at[thread] + 8) % self.footprint;
                self.at[thread]
            };
            ops.push(Op::Compute(self.compute));
            let (size, after) = (8, self.after);
            ops.push(if rng.chance(1, 4) {
                Op::Store { at, size, after }
            } else {
                Op::Load { at, size, after }
            });
        }
        count > 0
    }
}

fn run(program: Walk, place: Place) -> u64 {
    let config = Config {
        place,
        nodes: vec![NodeConfig { memory: Bytes(GIB) }],
        ..Config::default()
    };
    let kernel = Kernel::new();
    let far = PlainDram::new(&DramConfig::LPDDR4_3200, Ns(49)).expect("a device");
    let machine = Machine::new(&config, &kernel, far, program, TimeOnly, TakeAll);
    let metrics = machine.expect("a machine").run().expect("an end");
    metrics.instructions
}

fn machine(c: &mut Criterion) {
    for (name, footprint, compute, random, after, place) in [
        ("compute-bound", 128 * KIB, 20, false, 0, Place::Local),
        ("streaming", 256 * MIB, 2, false, 0, Place::Local),
        ("random in DRAM", 256 * MIB, 2, true, 0, Place::Local),
        ("random behind the link", 256 * MIB, 2, true, 0, Place::Far),
        ("chains behind the link", 256 * MIB, 2, true, 1, Place::Far),
    ] {
        let accesses = THREADS * EACH;
        let instructions = accesses * (u64::from(compute) + 1);
        let units = [("instructions", instructions), ("accesses", accesses)];
        for (unit, count) in units {
            let mut group = c.benchmark_group(name);
            group
                .throughput(Throughput::Elements(count))
                .sample_size(10);
            group.bench_function(BenchmarkId::new("wall", unit), |b| {
                b.iter(|| black_box(run(Walk::new(footprint, compute, random, after), place)));
            });
            group.finish();
        }
    }
}

criterion_group!(benches, machine);
criterion_main!(benches);
