//! Reading of block traces from memory, requests a second of wall time on one core.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sim::Seed;
use std::hint::black_box;
use std::io::Cursor;
use std::sync::Arc;
use units::{Extent, Ns, Placement};
use workload::trace::{Format, Options, Trace, write};
use workload::{Labels, Op, Purpose, Request};

const REQUESTS: u64 = 500_000;

/// Requests of five origins in turns, most of them at random addresses, 20 µs apart.
fn requests() -> (Labels, Vec<Request>) {
    let mut labels = Labels::default();
    let origins = [
        labels.intern("db_bench"),
        labels.intern("db_bench"),
        labels.intern("kworker/u8:2"),
        labels.intern_as("db_bench", Purpose::Metadata),
        labels.intern_as("jbd2/sda1-8", Purpose::Journal),
    ];
    let mut rng = Seed(1).stream("trace");
    let mut at = 1_000_000;
    let mut end = 0;
    let mut one = |_| {
        at += rng.below(40_000);
        let sectors = 8 << rng.below(5) as u32;
        let start = match rng.below(4) {
            0 => end,
            _ => rng.below(1 << 27) * 8,
        };
        end = start + u64::from(sectors);
        let op = match rng.below(3) {
            0 => Op::Read,
            _ => Op::Write,
        };
        Request {
            at: Ns(at),
            op,
            extent: Extent::new(start, sectors),
            placement: Placement(0),
            origin: origins[rng.below(5) as usize],
            fua: false,
        }
    };
    let requests = (0..REQUESTS).map(&mut one).collect();
    (labels, requests)
}

fn reading(c: &mut Criterion) {
    let (labels, requests) = requests();
    let mut group = c.benchmark_group("trace");
    group.throughput(Throughput::Elements(REQUESTS));
    group.sample_size(20);
    let formats = Format::ALL.into_iter();
    for format in formats {
        let mut text = Vec::new();
        if write(format, &labels, requests.iter().copied(), &mut text).is_err() {
            continue;
        }
        let text: Arc<[u8]> = text.into();
        group.bench_function(format.name(), |b| {
            b.iter(|| {
                let contents = Cursor::new(Arc::clone(&text));
                let trace = Trace::from_reader("t", contents, Some(format), Options::default());
                let trace = trace.expect("it was written");
                let sum = trace.map(|request| request.expect("it is valid").extent.start.0);
                black_box(sum.fold(0, u64::wrapping_add))
            });
        });
    }
    group.finish();
}

criterion_group!(benches, reading);
criterion_main!(benches);
