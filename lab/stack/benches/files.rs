//! Benchmark: file calls per second of wall time on one core, in virtual time.
//!
//! An operation is a call: open, read, append, sync, close, delete, stat. A step of a generator
//! without a call, such as an append of no bytes, does not count. A file that is read as a whole
//! takes two reads, as with filebench, the second of which finds the end of the file; filebench
//! counts the two as one, so the 15 calls of varmail's loop are 13 of its operations.
//!
//! - `source` runs a generator alone.
//! - `memory` drives it over the file API with calls that cost nothing, on a file system in memory
//!   that discards data: this measures generator, driver, cache and path walk.
//! - `ext4@block` is the whole path of `flashloom run`: ext4 and its journal, host, drive and
//!   flash, with all their costs in virtual time. The drive, the file system and the tree are made
//!   before the clock starts. `metadata` creates, closes, stats and deletes empty files; `replay`
//!   reads the calls of varmail from a trace.
//! - `f2fs@block` and `persimmon@zns` do the same with log-structured file systems, whose drive
//!   keeps every page ever written until a section is cleaned.

use criterion::{BatchSize, Criterion, Throughput};
use extfs::ext4::{Options, format, mount};
use extfs::jbd2::Jbd2;
use extfs::{BLOCK, ExtFs, MkfsOptions};
use host::{BlockDevice, BlockPort, Disk, HostConfig, ZonedDevice};
use lfs::{LfsFs, OnDrive};
use mimalloc::MiMalloc;
use persimmon::Appended;
use sim::{Kernel, Seed, Sim};
use ssd::Precondition;
use stack::drive::resolve;
use stack::files::{Drive, Origins, make_tree};
use std::hint::black_box;
use std::io::Cursor;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use units::{Bytes, GIB, Ns, Origin};
use vfs::mem::MemFs;
use vfs::{Body, CacheConfig, CallCosts, Clock, Compute, Vfs};
use workload::files::flow::{Flow, FlowOp, Mode, OpKind, Program, ThreadSpec};
use workload::files::replay::{self, Replay};
use workload::files::trace::{About, FileTrace, Writer};
use workload::files::{
    Amount, Call, Errno, Event, Fd, FileWorkload, FilesetSpec, Name, Names, Setup, Source, Step,
    Thread, ThreadId, Turn,
};

/// The allocator that the `flashloom` program uses.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Number of calls in one measurement.
const OPS: u64 = 200_000;
/// Number of threads of a workload.
const THREADS: u32 = 12;

type Boxed = Box<dyn Source>;
type Ext4 = ExtFs<Jbd2>;

fn opened(text: &str) -> Boxed {
    let workload = FileWorkload::parse(text).expect("a good description");
    workload.open(Seed(1)).expect("a good description")
}

/// Benchmarks a generator whose calls all succeed at once.
fn source(c: &mut Criterion) {
    let mut group = c.benchmark_group("source");
    group.throughput(Throughput::Elements(OPS));
    let text = format!("varmail:files=10000,threads=1,ops={OPS}");
    group.bench_function("varmail", |b| {
        b.iter_batched(|| opened(&text), ask_all, BatchSize::LargeInput);
    });
    group.finish();
}

fn ask_all(mut source: Boxed) -> Boxed {
    let thread = ThreadId(0);
    let mut read = 0;
    while let Turn::Call { call, .. } = source.next(thread, Ns::ZERO) {
        // Every other read is at the end of its file.
        read = if call.name() == "pread" {
            4_096 - read
        } else {
            0
        };
        source.ended(thread, Ok(read));
        black_box(source.wake());
    }
    source
}

/// A mounted file system with the tree that its source needs.
struct Ready<B: Body> {
    kernel: Kernel,
    vfs: Vfs<B>,
    source: Boxed,
    origins: Origins,
}

impl<B: Body> Ready<B> {
    fn new(kernel: Kernel, vfs: &Vfs<B>, source: Boxed) -> Self {
        let mounted = vfs.clone();
        let (source, origins) = kernel.block_on(async move {
            let mut origins = Origins::default();
            let (setup, names) = (source.setup(), source.names());
            let made = make_tree(&mounted, setup, names, &mut origins).await;
            made.expect("there is room");
            (source, origins)
        });
        Self {
            kernel,
            vfs: vfs.clone(),
            source,
            origins,
        }
    }

    /// Makes all calls of the source.
    fn run(self) -> (Rc<Drive<B, Boxed>>, Kernel) {
        let sim = self.kernel.sim();
        let drive = Drive::start(&sim, &self.vfs, self.source, self.origins, false);
        let driven = Rc::clone(&drive);
        self.kernel.block_on(async move { driven.finish().await });
        assert_eq!(drive.meter().completed, OPS);
        (drive, self.kernel)
    }
}

fn in_memory(source: Boxed) -> Ready<MemFs> {
    let kernel = Kernel::new();
    let config = CacheConfig {
        costs: CallCosts::FREE,
        ..CacheConfig::default()
    };
    let body = MemFs::new(Bytes(64 * GIB));
    let (clock, compute) = (Clock::default(), Compute::free());
    let vfs = Vfs::mount(&kernel.sim(), body, config, clock, compute);
    Ready::new(kernel, &vfs, source)
}

/// The set-up of [`stack::run()`] for the file system that `made` makes, on a fresh drive of
/// `preset`.
fn on<B: Body>(
    preset: &str,
    source: Boxed,
    made: impl AsyncFnOnce(&Sim, &BlockDevice) -> B + 'static,
) -> Ready<B> {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let mut config = resolve(preset, None).expect("it is a preset");
    config.flash.keep_contents = true;
    let media = Precondition::Fresh.media(&config, Seed(1));
    let drive = ssd::Drive::ready(&sim, &config, media.expect("it fits"), Seed(1));
    let drive = drive.expect("it can be built");
    let device = BlockDevice::new(&sim, HostConfig::default(), drive).expect("it can be");
    let compute = Compute::of(&device);
    let clock = sim.clone();
    let body = kernel.block_on(async move { made(&clock, &device).await });
    let config = CacheConfig::default();
    let vfs = Vfs::mount(&sim, body, config, Clock::default(), compute);
    Ready::new(kernel, &vfs, source)
}

async fn ext4(sim: &Sim, device: &BlockDevice) -> Ext4 {
    let now = Clock::default().at(Ns::ZERO);
    let layout = MkfsOptions {
        now,
        ..MkfsOptions::new(device.capacity().0 / BLOCK as u64)
    };
    format(device, &layout).await.expect("there is room");
    let options = Options {
        placed: true,
        start: now,
        origin: Origin(1),
        ..Options::default()
    };
    mount(sim, device, options).await.expect("it was made").0
}

fn on_ext4(source: Boxed) -> Ready<Ext4> {
    on("block", source, ext4)
}

/// Mounts F2FS with the options of its stack.
async fn f2fs(sim: &Sim, device: &BlockDevice) -> LfsFs<OnDrive> {
    let layout = lfs::MkfsOptions::new(device.capacity().0 / lfs::BLOCK as u64);
    let made = lfs::format_drive(sim, &Disk::from(device), None, &layout).await;
    made.expect("there is room");
    let mounted = lfs::mount_drive(sim, Disk::from(device), None, log_structured()).await;
    mounted.expect("it was made").0
}

/// Mounts Persimmon with the options of its stack.
async fn persimmon(sim: &Sim, device: &BlockDevice) -> LfsFs<Appended> {
    let zones = ZonedDevice::new(device).expect("it is of zones");
    let made = persimmon::format(sim, &zones, &persimmon::MkfsOptions::default()).await;
    made.expect("there is room");
    let options = persimmon::Options {
        body: log_structured(),
        ..persimmon::Options::default()
    };
    let mounted = persimmon::mount(sim, &zones, options).await;
    mounted.expect("it was made").0
}

fn log_structured() -> lfs::MountOptions {
    lfs::MountOptions {
        placed: true,
        origin: Origin(1),
        ..lfs::MountOptions::default()
    }
}

/// A workload that creates, closes, stats and deletes empty files.
fn metadata() -> Boxed {
    let kinds = [
        OpKind::CreateFile,
        OpKind::CloseFile,
        OpKind::StatFile,
        OpKind::DeleteFile,
    ];
    let op = |kind| FlowOp {
        fileset: Some(0),
        ..FlowOp::new(kind)
    };
    let files = FilesetSpec {
        prealloc: 50,
        ..FilesetSpec::new("files", 10_000, Amount::Fixed(0))
    };
    let threads = ThreadSpec {
        processes: 1,
        instances: THREADS,
        ops: kinds.map(op).to_vec(),
    };
    let program = Program {
        filesets: vec![files],
        threads: vec![threads],
        mode: Mode::Timeout,
        ops: OPS,
        until: None,
        rate: 0,
        notes: Vec::new(),
    };
    Box::new(Flow::new(program, Seed(1)).expect("it has threads"))
}

/// The calls of a run with their results, for a trace.
#[derive(Default)]
struct Noted {
    events: Vec<Event>,
    /// Index of the current event of each thread.
    last: Vec<usize>,
    /// The slot in the trace of each open file; a new file gets the lowest free one.
    slots: Vec<Option<Fd>>,
}

impl Noted {
    fn slot(&mut self, fd: Fd) -> Fd {
        let place = self.slots.iter().position(|slot| *slot == Some(fd));
        Fd(place.expect("it is open") as u32)
    }

    fn open(&mut self, fd: Fd) -> Fd {
        let free = self.slots.iter().position(Option::is_none);
        let place = free.unwrap_or(self.slots.len());
        self.slots.resize(self.slots.len().max(place + 1), None);
        self.slots[place] = Some(fd);
        Fd(place as u32)
    }

    /// `call` with its descriptor replaced by the slot in the trace.
    fn in_slots(&mut self, mut call: Call) -> Call {
        match &mut call {
            Call::Open { fd, .. } => *fd = self.open(*fd),
            Call::Close { fd } => {
                let slot = self.slot(*fd);
                self.slots[slot.0 as usize] = None;
                *fd = slot;
            }
            Call::Pread { fd, .. } | Call::Pwrite { fd, .. } | Call::Fsync { fd } => {
                *fd = self.slot(*fd);
            }
            _ => {}
        }
        call
    }

    fn call(&mut self, thread: ThreadId, at: Ns, call: Call) {
        self.last[thread.0 as usize] = self.events.len();
        let call = self.in_slots(call);
        self.events.push(Event {
            step: Step {
                thread,
                think: Ns::ZERO,
                call,
            },
            at,
            took: Ns::ZERO,
            result: Ok(0),
        });
    }

    /// Writes all recorded events as a trace.
    fn trace(&self, setup: &Setup, names: &Names) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new(), &About::default(), setup, names).expect("memory");
        for thread in 0..self.last.len() as u32 {
            let thread = Thread {
                process: 0,
                pid: 1,
                tid: thread + 1,
                parent: (thread > 0).then_some(ThreadId(0)),
                born: Ns::ZERO,
                program: Name(0),
            };
            writer.thread(&thread, names).expect("memory");
        }
        for event in &self.events {
            writer.event(event, names).expect("memory");
        }
        writer.finish().expect("memory")
    }
}

/// A source that records its calls.
struct Tap {
    source: Boxed,
    noted: Arc<Mutex<Noted>>,
}

impl Source for Tap {
    fn names(&self) -> &Names {
        self.source.names()
    }

    fn setup(&self) -> &Setup {
        self.source.setup()
    }

    fn threads(&self) -> u32 {
        self.source.threads()
    }

    fn next(&mut self, thread: ThreadId, now: Ns) -> Turn {
        let turn = self.source.next(thread, now);
        if let Turn::Call { call, .. } = turn {
            self.noted
                .lock()
                .expect("one thread")
                .call(thread, now, call);
        }
        turn
    }

    fn ended(&mut self, thread: ThreadId, result: Result<u64, Errno>) {
        let mut noted = self.noted.lock().expect("one thread");
        let last = noted.last[thread.0 as usize];
        noted.events[last].result = result;
        self.source.ended(thread, result);
    }

    fn wake(&mut self) -> Option<ThreadId> {
        self.source.wake()
    }
}

/// A trace of the calls of the workload `text` on ext4.
fn recorded(text: &str) -> Vec<u8> {
    let noted = Arc::new(Mutex::new(Noted {
        last: vec![0; THREADS as usize],
        ..Noted::default()
    }));
    let source = opened(text);
    let (setup, names) = (source.setup().clone(), source.names().clone());
    let tap = Tap {
        source,
        noted: Arc::clone(&noted),
    };
    drop(on_ext4(Box::new(tap)).run());
    let noted = noted.lock().expect("one thread");
    noted.trace(&setup, &names)
}

fn replayed(trace: &[u8]) -> Boxed {
    let trace = FileTrace::from_reader("varmail", Cursor::new(trace.to_vec()));
    let options = replay::Options::default();
    Box::new(Replay::new(trace.expect("it was just written"), options))
}

fn text(name: &str) -> String {
    format!("{name}:files=10000,threads={THREADS},size=16k,ops={OPS}")
}

fn memory(c: &mut Criterion) {
    let mut group = c.benchmark_group("memory");
    group.throughput(Throughput::Elements(OPS));
    group.sample_size(10);
    for name in ["varmail", "fileserver", "webserver"] {
        let ready = || in_memory(opened(&text(name)));
        group.bench_function(name, |b| {
            b.iter_batched(ready, Ready::run, BatchSize::PerIteration);
        });
    }
    group.finish();
}

fn whole(c: &mut Criterion) {
    let mut group = c.benchmark_group("ext4@block");
    group.throughput(Throughput::Elements(OPS));
    group.sample_size(10);
    let trace = recorded(&text("varmail"));
    let sources: [(&str, &dyn Fn() -> Boxed); 4] = [
        ("varmail", &|| opened(&text("varmail"))),
        ("fileserver", &|| opened(&text("fileserver"))),
        ("metadata", &metadata),
        ("replay", &|| replayed(&trace)),
    ];
    for (name, source) in sources {
        group.bench_function(name, |b| {
            b.iter_batched(|| on_ext4(source()), Ready::run, BatchSize::PerIteration);
        });
    }
    group.finish();
}

/// Benchmarks two generators on a log-structured file system.
fn logs<B: Body>(c: &mut Criterion, name: &str, ready: fn(Boxed) -> Ready<B>) {
    let mut group = c.benchmark_group(name);
    group.throughput(Throughput::Elements(OPS));
    group.sample_size(10);
    for name in ["varmail", "fileserver"] {
        let ready = || ready(opened(&text(name)));
        group.bench_function(name, |b| {
            b.iter_batched(ready, Ready::run, BatchSize::PerIteration);
        });
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    source(&mut criterion);
    memory(&mut criterion);
    whole(&mut criterion);
    logs(&mut criterion, "f2fs@block", |source| {
        on("block", source, f2fs)
    });
    logs(&mut criterion, "persimmon@zns", |source| {
        on("zns", source, persimmon)
    });
    criterion.final_summary();
}
