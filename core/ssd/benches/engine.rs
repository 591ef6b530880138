//! Host commands a second of wall time on one core, at the drive's own interface.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use sim::{Kernel, Seed};
use ssd::{Content, Drive, DriveConfig, DriveMedia, Precondition, Preset};
use std::hint::black_box;
use units::{Bytes, Extent, Origin, Placement, SECTOR};

const OPS: u64 = 300_000;
const DEPTH: u64 = 64;
const GIB: u64 = 1 << 30;

/// Random requests to a drive.
struct Case {
    name: &'static str,
    config: DriveConfig,
    past: Precondition,
    /// Bytes of a request, and percentage of reads.
    bytes: u64,
    reads: u64,
}

/// A drive under power, with workers ready to issue commands.
struct Ready {
    kernel: Kernel,
    drive: Drive,
}

impl Ready {
    /// Spawns workers that together issue `OPS` uniform random commands.
    fn new(case: &Case, media: DriveMedia) -> Self {
        let kernel = Kernel::new();
        let drive = Drive::ready(&kernel.sim(), &case.config, media, Seed(1));
        let drive = drive.expect("a good drive");
        let (places, reads) = (case.config.capacity.0 / case.bytes, case.reads);
        let sectors = (case.bytes / SECTOR) as u32;
        for worker in 0..DEPTH {
            let (drive, mut rng) = (drive.clone(), Seed(1).stream(&format!("worker {worker}")));
            kernel.sim().spawn_detached(async move {
                for _ in 0..OPS / DEPTH {
                    let extent = Extent::new(rng.below(places) * u64::from(sectors), sectors);
                    let done = if rng.below(100) >= reads {
                        let (placement, origin) = (Placement(0), Origin(0));
                        let write = drive.write(extent, Content::Nothing, placement, origin, false);
                        write.await
                    } else {
                        drive.read(extent, &mut ()).await
                    };
                    done.expect("no fault is injected");
                }
            });
        }
        Self { kernel, drive }
    }

    /// Runs to the end. The returned state is dropped outside the measured time.
    fn run(self) -> (u64, Drive) {
        self.kernel.run();
        (self.kernel.sim().events(), self.drive)
    }
}

fn preset(name: &str) -> DriveConfig {
    (Preset::named(name).expect("a preset").config)()
}

/// The `block` preset with `spare` percent of flash beyond its capacity.
fn drive(spare: u64) -> DriveConfig {
    let mut config = preset("block");
    let flash = config.geometry.bytes() - config.geometry.bytes() / 200;
    config.capacity = Bytes(flash * 100 / (100 + spare) / 4096 * 4096);
    config
}

/// [`drive()`] with 28 percent of spare flash, `gib` GiB large, that maps units of `unit` bytes.
fn sized(gib: u64, unit: u64) -> DriveConfig {
    let mut config = drive(28);
    config.mapping.unit = Bytes(unit);
    config.capacity = Bytes(config.capacity.0 / unit * unit);
    config.resized(Bytes(gib * GIB))
}

/// Reads, the mixture of a database, writes by spare flash, and writes by size of the drive.
fn cases() -> Vec<Case> {
    use Precondition::{Aged, Full};
    let case = |name, config, past, bytes, reads| Case {
        name,
        config,
        past,
        bytes,
        reads,
    };
    vec![
        case("random_reads", drive(17), Full, 4096, 100),
        case("70_percent_reads_of_8_KiB", drive(17), Full, 8192, 70),
        case("random_writes/7_percent_spare", drive(7), Aged, 4096, 0),
        case("random_writes/17_percent_spare", drive(17), Aged, 4096, 0),
        case("random_writes/28_percent_spare", drive(28), Aged, 4096, 0),
        case("random_writes/4_GiB", sized(4, 4096), Aged, 4096, 0),
        case("random_writes/16_GiB", sized(16, 4096), Aged, 4096, 0),
        case("random_writes/1_TiB", sized(1024, 4096), Aged, 4096, 0),
        case(
            "random_writes/16_TiB",
            sized(16 << 10, 16384),
            Aged,
            16384,
            0,
        ),
        case("random_writes/61_TB", preset("6600-ion"), Aged, 16384, 0),
    ]
}

/// Requests a second; events a request and bytes of memory are printed.
fn engine(c: &mut Criterion) {
    let mut group = c.benchmark_group("engine");
    group.throughput(Throughput::Elements(OPS)).sample_size(10);
    for case in cases() {
        let media = case.past.media(&case.config, Seed(1));
        let media = media.expect("a good drive");
        let (events, drive) = Ready::new(&case, media.clone()).run();
        let (map, flash) = drive.memory();
        println!(
            "{}: {:.2} events a request, {} of memory",
            case.name,
            events as f64 / OPS as f64,
            Bytes((map + flash) as u64)
        );
        drop(drive);
        let ready = || Ready::new(&case, media.clone());
        group.bench_function(case.name, |b| {
            b.iter_batched(ready, |r| black_box(r.run()), BatchSize::PerIteration);
        });
    }
    group.finish();
}

/// Power-on of a drive of a terabyte that nothing has touched since its past.
fn start(c: &mut Criterion) {
    let mut group = c.benchmark_group("start");
    let config = preset("block").resized(Bytes(1_000_000_000_000 / 4096 * 4096));
    for past in Precondition::ALL {
        group.sample_size(10).bench_function(past.name(), |b| {
            b.iter(|| {
                let media = past.media(&config, Seed(1)).expect("a good drive");
                let sim = Kernel::new().sim();
                Drive::ready(&sim, &config, media, Seed(1)).expect("a good drive")
            });
        });
    }
    group.finish();
}

criterion_group!(benches, engine, start);
criterion_main!(benches);
