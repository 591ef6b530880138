//! The index of a full log of 256 MB: time of a look-up, and bytes of device DRAM.
//!
//! `bytefs` 4.3 measured 89 ns a look-up on an embedded processor and 21 MB. Both depend on the
//! distribution of the lines. Here they are uniform over 32 GB, or as a file system writes its
//! structures: a few lines each of pages of which some are much in use.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sim::{Rng, Seed};
use ssd::wlog::{Index, LINES, Log, LogSizes, SkipIndex, Write};
use std::hint::black_box;

const SIZES: LogSizes = LogSizes {
    log: 256 << 20,
    commits: 2 << 20,
    keep_contents: false,
};
const PAGES: u64 = (32 << 30) / 4096;
const LOOKUPS: u64 = 100_000;

type Draw = fn(&mut Rng) -> (u32, u8, u8);

fn all_over(rng: &mut Rng) -> (u32, u8, u8) {
    (rng.below(PAGES) as u32, rng.below(64) as u8, 1)
}

/// Pages by a power law over 1 GiB of structures, 1 to 5 lines each time.
fn structures(rng: &mut Rng) -> (u32, u8, u8) {
    let hot = rng.below(18);
    let page = rng.below(1 << hot);
    let line = rng.below(u64::from(LINES) - 5);
    (page as u32, line as u8, rng.below(5) as u8 + 1)
}

fn filled(draw: Draw) -> Log<SkipIndex> {
    let (mut log, mut rng) = (Log::new(SIZES), Seed(1).stream("fill"));
    loop {
        let (page, line, lines) = draw(&mut rng);
        let write = Write {
            page,
            line,
            lines,
            tx: 0,
            tag: 0,
            bytes: &[],
        };
        if log.store(&write).is_err() {
            return log;
        }
    }
}

fn lookups(c: &mut Criterion) {
    let mut group = c.benchmark_group("lookup in a full log");
    group
        .sample_size(10)
        .throughput(Throughput::Elements(LOOKUPS));
    for (name, draw) in [("all over", all_over as Draw), ("structures", structures)] {
        let log = filled(draw);
        let (pages, bytes) = (log.index().pages(), log.index().memory());
        println!(
            "{name}: {} slots, {pages} pages, index of {bytes} B",
            log.fill().1
        );
        let mut rng = Seed(2).stream("lookups");
        let wanted: Vec<_> = (0..LOOKUPS).map(|_| draw(&mut rng)).collect();
        group.bench_function(name, |b| {
            b.iter(|| {
                let lines = wanted.iter().map(|&(page, line, _)| log.load(page, line));
                black_box(lines.filter(Option::is_some).count())
            });
        });
    }
    group.finish();
}

criterion_group!(benches, lookups);
criterion_main!(benches);
