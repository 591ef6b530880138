//! What the kernels emit: all accesses are within the footprint, the order in which threads are
//! asked does not matter, and the total work does not depend on the number of threads.

use crate::drive::{Turns, all, touched};
use memsys::{Op, Program};
use programs::kernel::bc::Bc;
use programs::kernel::bfs::Bfs;
use programs::kernel::dlrm::Dlrm;
use programs::kernel::radix::Radix;
use programs::kernel::srad::Srad;
use programs::kernel::synthetic::{Numbers, Synthetic};
use programs::kernel::tpcc::{Size, Tpcc};
use programs::kernel::ycsb::{Letter, Ycsb};
use programs::{Graph, Shape, Threads};
use sim::Seed;

const NUMBERS: Numbers = Numbers {
    pages: 1000,
    writes_ppm: 300_000,
    misses_ppm: 7_000,
    lines: 11,
    theta: None,
    visits: 4000,
};

const NAMES: [&str; 8] = [
    "bfs",
    "bc",
    "radix",
    "srad",
    "ycsb",
    "tpcc",
    "dlrm",
    "synthetic",
];

fn make(name: &str, threads: u32) -> Threads {
    let seed = Seed(11);
    match name {
        "bfs" => Bfs::new(Graph::new(Shape::Uniform, 5000, 8, seed), 1, seed).program(threads),
        "bc" => Bc::new(Graph::new(Shape::Kronecker, 2048, 12, seed), 1, seed).program(threads),
        "radix" => Radix::new(30_000, threads, seed).program(),
        "srad" => Srad::new(64, 64, 1, seed).program(threads),
        "ycsb" => Ycsb::new(Letter::B, 400, 4000, threads, seed).program(threads),
        "tpcc" => {
            let size = Size {
                warehouses: 8,
                items: 200,
                customers: 40,
            };
            Tpcc::new(size, 3000, seed).program(threads)
        }
        "dlrm" => Dlrm::new(1000, 2000, 128, None, threads, seed).program(),
        _ => Synthetic::new(NUMBERS, seed).program(threads),
    }
}

#[test]
fn thread_operations_do_not_depend_on_asking_order() {
    for name in NAMES {
        let forth = all(make(name, 5), Turns::Forth);
        let back = all(make(name, 5), Turns::Back);
        assert!(forth == back, "{name}");
    }
}

#[test]
fn accesses_are_within_the_footprint() {
    for name in NAMES {
        let program = make(name, 3);
        let end = program.footprint().0;
        let ops = all(program, Turns::Forth);
        let touched: Vec<_> = ops.iter().flatten().filter_map(touched).collect();
        assert!(touched.len() > 10_000, "{name}");
        for (at, size) in touched {
            assert!(at >= 1 << 20 && at + size <= end, "{name} {at:#x}");
            assert!((1..=64).contains(&size), "{name}");
        }
    }
}

fn accesses(ops: &[Vec<Op>]) -> usize {
    ops.iter()
        .flatten()
        .filter(|op| touched(op).is_some())
        .count()
}

#[test]
fn total_work_does_not_depend_on_thread_count() {
    for name in NAMES {
        let one = accesses(&all(make(name, 1), Turns::Forth)) as f64;
        let many = accesses(&all(make(name, 8), Turns::Forth)) as f64;
        // Private counts and gradients are added up once per thread.
        let slack = if ["radix", "dlrm"].contains(&name) {
            0.25
        } else {
            0.01
        };
        assert!((many / one - 1.0).abs() < slack, "{name} {one} {many}");
    }
}

#[test]
fn measurement_begins_once_per_thread() {
    for name in NAMES {
        for (thread, ops) in all(make(name, 4), Turns::Forth).iter().enumerate() {
            let begins = ops.iter().filter(|op| **op == Op::Begin).count();
            assert_eq!(begins, 1, "{name} {thread}");
            let at = ops.iter().position(|op| *op == Op::Begin).unwrap();
            let before = ops[..at].len() as f64 / ops.len() as f64;
            assert!((0.05..0.8).contains(&before), "{name} {before}");
        }
    }
}

#[test]
fn dependences_point_to_loads() {
    for name in NAMES {
        for ops in all(make(name, 2), Turns::Forth) {
            let memory: Vec<&Op> = ops.iter().filter(|op| touched(op).is_some()).collect();
            for (at, op) in memory.iter().enumerate() {
                let (Op::Load { after, .. } | Op::Store { after, .. }) = op else {
                    continue;
                };
                if *after > 0 {
                    let from = memory[at - usize::from(*after)];
                    assert!(matches!(from, Op::Load { .. }), "{name} {at} {op:?}");
                }
            }
        }
    }
}

#[test]
fn the_synthetic_numbers_are_met() {
    let ops = all(make("synthetic", 4), Turns::Forth);
    let flat: Vec<&Op> = ops.iter().flatten().collect();
    let stores = flat
        .iter()
        .filter(|op| matches!(op, Op::Store { .. }))
        .count() as f64;
    let count = accesses(&ops) as f64;
    let compute: f64 = flat
        .iter()
        .map(|op| match op {
            Op::Compute(n) => f64::from(*n),
            _ => 0.0,
        })
        .sum();
    assert!((stores / count - 0.3).abs() < 0.01, "{stores} {count}");
    let misses = count / (count + compute) * 1000.0;
    assert!((misses - 7.0).abs() < 0.1, "{misses}");
    let mut lines: Vec<u64> = flat
        .iter()
        .filter_map(|op| touched(op))
        .map(|t| t.0 / 64)
        .collect();
    lines.sort_unstable();
    lines.dedup();
    let mut pages: Vec<u64> = lines.iter().map(|line| line / 64).collect();
    pages.dedup();
    assert_eq!(lines.len(), pages.len() * 11);
    assert!(pages.len() > 970, "{}", pages.len());
}
