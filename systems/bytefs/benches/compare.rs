//! Speed of comparing two pages line by line; the paper reports 14 GB/s.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use bytefs::changed_lines;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nand::UNIT;
use std::hint::black_box;

fn compare(c: &mut Criterion) {
    let mut group = c.benchmark_group("compare");
    let old = Box::new([7; UNIT]);
    let mut new = old.clone();
    (new[100], new[3_000]) = (1, 2);
    group.throughput(Throughput::Bytes(UNIT as u64));
    group.bench_function("page", |b| {
        b.iter(|| changed_lines(black_box(&old), black_box(&new)));
    });
    // 1,024 pages and their duplicates, 8 MiB: more than the caches near a core hold.
    let old = vec![[7; UNIT]; 1_024];
    let mut new = old.clone();
    new.iter_mut().for_each(|page| page[1_000] = 1);
    group.throughput(Throughput::Bytes((old.len() * UNIT) as u64));
    group.bench_function("pages", |b| {
        b.iter(|| {
            let pairs = old.iter().zip(&new);
            pairs.fold(0, |all, (old, new)| all ^ changed_lines(old, new))
        });
    });
    group.finish();
}

criterion_group!(benches, compare);
criterion_main!(benches);
