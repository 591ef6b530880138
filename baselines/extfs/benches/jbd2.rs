//! Benchmarks of a handle and of a forced commit, over a port that takes no time.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use extfs::jbd2::{self, Jbd2, JournalConfig};
use extfs::{Persist, Run};
use host::{BlockPort, Computing, Purpose, Who};
use nand::Payload;
use sim::Kernel;
use ssd::{Content, IoError, Sink};
use std::sync::Arc;
use units::{Bytes, Extent, Ns, Placement};

const LOG: u32 = 16_384;

/// A port that holds the superblock of a new journal and drops all writes.
#[derive(Clone)]
struct Nothing {
    superblock: Payload,
}

impl BlockPort for Nothing {
    fn capacity(&self) -> Bytes {
        Bytes(1 << 30)
    }

    fn handles(&self) -> u16 {
        1
    }

    async fn read(&self, extent: Extent, sink: &mut impl Sink, _: Who) -> Result<(), IoError> {
        if extent.start.0 == 0 {
            sink.take(0, nand::UNIT, &self.superblock, 0);
        }
        Ok(())
    }

    async fn write(
        &self,
        _: Extent,
        _: Content<'_>,
        _: Placement,
        _: Who,
        _: bool,
    ) -> Result<(), IoError> {
        Ok(())
    }

    async fn trim(&self, _: Extent) -> Result<(), IoError> {
        Ok(())
    }

    async fn flush(&self) -> Result<(), IoError> {
        Ok(())
    }

    fn compute(&self, _: Ns) -> Computing {
        Computing::Until(Ns::ZERO)
    }
}

async fn open(sim: &sim::Sim) -> Jbd2 {
    let superblock = Payload::Bytes(Arc::new(*jbd2::format(LOG, [0; 16])));
    let runs = vec![Run {
        start: 0,
        len: u64::from(LOG),
    }];
    let opened = Jbd2::open(sim, &Nothing { superblock }, JournalConfig::new(runs)).await;
    opened.expect("the journal is new").0
}

/// `handles` handles that change one of 1,000 blocks each, and a commit after each `every` of them.
fn changes(handles: usize, every: usize) {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    kernel.block_on(async move {
        let journal = open(&sim).await;
        let mut buffers = Vec::new();
        for block in 0..1000 {
            let buffer = journal.read(u64::from(LOG) + block, Purpose::Inode).await;
            buffers.push(buffer.expect("the disk has this block"));
        }
        for round in 0..handles {
            let tx = journal.begin(1).await.expect("the journal is open");
            let buffer = &buffers[round * 7 % buffers.len()];
            journal.write(&tx, buffer, 0, &round.to_le_bytes());
            let id = journal.end(tx).await.expect("a handle just ends");
            if round % every == every - 1 {
                journal.force(id).await.expect("the disk is sound");
            }
        }
    });
}

fn handles(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("jbd2");
    group.sample_size(10);
    group.throughput(Throughput::Elements(1_000_000));
    group.bench_function("handles", |b| b.iter(|| changes(1_000_000, usize::MAX)));
    group.throughput(Throughput::Elements(50_000));
    group.bench_function("forced commits", |b| b.iter(|| changes(50_000, 1)));
    group.finish();
}

criterion_group!(benches, handles);
criterion_main!(benches);
