//! File workloads on a file system in memory.

use sim::{Kernel, Seed};
use stack::files::{Drive, Mismatch, Origins, make_tree, tag};
use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::rc::Rc;
use units::{Bytes, MIB, Ns};
use vfs::mem::MemFs;
use vfs::{Access, CacheConfig, Clock, Compute, Process, Vfs};
use workload::files::replay::{Options, Pace, Recorded, Replay};
use workload::files::trace::{About, TextWriter};
use workload::files::{
    Call, Entry, EntryKind, Errno, Event, Fd, FileWorkload, Lock, Mode, Names, OpenFlags,
    RenameHow, Source, Step, Target, Thread, ThreadId,
};
use workload::shipped::Asked;

fn mount(kernel: &Kernel) -> Vfs<MemFs> {
    let (config, clock) = (CacheConfig::default(), Clock::default());
    let body = MemFs::new(Bytes(4_096 * MIB));
    Vfs::mount(&kernel.sim(), body, config, clock, Compute::unlimited())
}

/// Makes the tree of `source`, then runs the source to its end.
fn drive<S: Source + 'static>(source: S) -> Driven<S> {
    let kernel = Kernel::new();
    let vfs = mount(&kernel);
    let (sim, mounted) = (kernel.sim(), vfs.clone());
    let drive = kernel.block_on(async move {
        let mut origins = Origins::default();
        let (setup, names) = (source.setup(), source.names());
        make_tree(&mounted, setup, names, &mut origins)
            .await
            .unwrap();
        let drive = Drive::start(&sim, &mounted, source, origins, false);
        drive.finish().await;
        drive
    });
    (drive, vfs, kernel)
}

/// A finished run, with its file system and kernel.
type Driven<S> = (Rc<Drive<MemFs, S>>, Vfs<MemFs>, Kernel);

fn generated(text: &str) -> Driven<Box<dyn Source>> {
    let workload = FileWorkload::parse(text).unwrap_or_else(|e| panic!("{e}"));
    drive(workload.open(Seed(1)).unwrap())
}

#[test]
fn generators_run_without_a_failed_call() {
    for text in [
        "varmail:files=200,threads=4,ops=5000",
        "fileserver:files=50,threads=3,ops=2000",
        "webproxy:files=100,threads=3,ops=3000",
        "webserver:files=100,threads=3,ops=3000",
        "oltp:files=2,threads=10,size=1m,ops=3000",
        "create:files=300,threads=3,fsync=yes",
        "delete:files=300,threads=3",
        "mkdir:files=300,threads=3",
        "rmdir:files=300,threads=3",
        "overwrite:size=1m,threads=2,direct=yes,fsync=8,ops=500",
        "append:threads=2,ops=500",
        "ycsb-a:records=3000,threads=3,ops=4000,memtable=64k,table=64k,base=256k",
        "ycsb-e:records=3000,threads=3,ops=500,engine=btree,cache=256k,checkpoint=64k",
        "ycsb-f:records=3000,threads=3,ops=2000,engine=btree,sync=yes,cache=256k,checkpoint=64k",
    ] {
        let (drive, vfs, _) = generated(text);
        let meter = drive.meter();
        assert_eq!(meter.errors, BTreeMap::new(), "{text}");
        assert!(meter.completed > 100, "{text}: {}", meter.completed);
        assert!(drive.is_done() && drive.in_flight() == 0);
        assert!(
            meter.read + meter.written > 0 || text.contains("dir") || text.starts_with("delete")
        );
        vfs.check();
    }
}

/// Two recordings, whose threads and strings appear as they are read, and a store.
#[test]
fn members_beside_each_other_are_counted_apart() {
    let recording = "sqlite:think=no,ops=4000";
    let store = "ycsb-a:records=300,ops=500,threads=2";
    let told = format!("a={recording} & b={recording} & {store}");
    let asked = Asked::new(&told).unwrap();
    let (both, _vfs, _kernel) = generated(&asked.text);
    let alone = Asked::new(recording).unwrap();
    let (alone, ..) = generated(&alone.text);
    let (both, alone) = (both.meter(), alone.meter());
    assert_eq!(both.mismatches, BTreeMap::new());
    assert_eq!(alone.mismatches, BTreeMap::new());
    assert!(both.errors.is_empty(), "{:?}", both.errors);
    let (told, own) = (both.latencies(), alone.latencies());
    assert!(own.by_op.len() > 4, "{:?}", own.by_op.keys());
    for (kind, latency) in &own.by_op {
        for member in ["a", "b"] {
            let beside = &told.by_op[&format!("{member} {kind}")];
            assert_eq!(beside.count, latency.count, "{member} {kind}");
        }
    }
    let counts = told.by_op.values().map(|latency| latency.count);
    assert_eq!(
        (counts.sum::<u64>(), both.completed),
        (told.all.count, told.all.count)
    );
    let of_kind = told
        .by_op
        .iter()
        .filter(|(kind, _)| kind.ends_with(" pread"));
    let sum = of_kind.map(|(_, latency)| latency.count).sum::<u64>();
    assert!(sum > own.by_op["pread"].count);
    assert_eq!(both.count("pread"), sum);
}

#[test]
fn calls_are_counted_by_kind() {
    let (drive, _, kernel) = generated("create:files=100,threads=4");
    let meter = drive.meter();
    for kind in ["open", "pwrite", "close"] {
        assert_eq!(meter.count(kind), 100, "{kind}");
        let latency = &meter.latencies().by_op[kind];
        assert!(latency.p50 > 0 && latency.count == 100);
    }
    assert_eq!((meter.completed, meter.written), (300, 100 * 4_096));
    assert!(meter.last > Ns::ZERO && meter.last <= kernel.sim().now());
}

#[test]
fn data_pattern_depends_on_file_offset_and_version_not_on_thread() {
    let contents = |threads: u32| {
        let text = format!("create:files=30,threads={threads}");
        let (_, vfs, kernel) = generated(&text);
        kernel.block_on(async move {
            let process = Process::new(&vfs, Access::default());
            let mut all = Vec::new();
            for file in 1..=30 {
                let path = format!("bigfileset/00000001/{file:08}");
                let flags = vfs::OpenFlags::READ;
                if let Ok(fd) = process.open(path.as_bytes(), flags, 0).await {
                    all.push(process.read_bytes(fd, 0, 8_192).await.unwrap());
                }
            }
            all
        })
    };
    let (one, seven) = (contents(1), contents(7));
    assert!(!one.is_empty() && one.iter().all(|bytes| bytes.len() == 4_096));
    assert_eq!(one, seven);
    assert!(one.windows(2).all(|pair| pair[0] != pair[1]));
    let name = workload::files::Name(5);
    let tags = [
        tag(name, 0, 1),
        tag(name, 0, 2),
        tag(name, 8, 1),
        tag(workload::files::Name(6), 0, 1),
    ];
    assert!((1..4).all(|i| !tags[..i].contains(&tags[i])));
}

/// A recording written by hand.
#[derive(Default)]
struct Tape {
    recorded: Recorded,
}

impl Tape {
    fn name(&mut self, path: &str) -> workload::files::Name {
        self.recorded.names.intern(path.as_bytes())
    }

    /// Adds `call` of `thread`, from `at` to `end`, in microseconds.
    fn at(&mut self, thread: u32, at: u64, end: u64, call: Call, result: Result<u64, Errno>) {
        let events = &self.recorded.events;
        let before = events.iter().rev().find(|e| e.step.thread.0 == thread);
        let free = before.map_or(Ns::ZERO, Event::end);
        let begin = Ns(at * 1_000);
        self.recorded.events.push_back(Event {
            step: Step {
                thread: ThreadId(thread),
                think: begin.since(free),
                call,
            },
            at: begin,
            took: Ns((end - at) * 1_000),
            result,
        });
    }

    fn open(&mut self, fd: u32, path: &str, flags: OpenFlags) -> Call {
        Call::Open {
            fd: Fd(fd),
            path: self.name(path),
            flags,
            mode: Mode(0o644),
        }
    }

    fn run(&self, options: Options) -> Rc<Drive<MemFs, Replay<Recorded>>> {
        drive(Replay::new(self.recorded.clone(), options)).0
    }
}

const EVERY: [Options; 4] = [
    Options {
        pace: Pace::Think,
        order_data: true,
        hints: true,
        ops: None,
    },
    Options {
        pace: Pace::Peak,
        order_data: true,
        hints: true,
        ops: None,
    },
    Options {
        pace: Pace::Think,
        order_data: false,
        hints: true,
        ops: None,
    },
    Options {
        pace: Pace::Peak,
        order_data: false,
        hints: true,
        ops: None,
    },
];

fn new_file() -> OpenFlags {
    OpenFlags::WRITE.and(OpenFlags::CREATE)
}

/// One thread makes directories and files, which others use and remove at once.
fn relay() -> Tape {
    let mut tape = Tape::default();
    for round in 0..40_u64 {
        let (t, dir) = (round * 1_000, format!("d{round}"));
        let (file, moved) = (format!("{dir}/f"), format!("{dir}/g"));
        // The maker is slow; the others are ready long before.
        let path = tape.name(&dir);
        let mode = Mode(0o755);
        tape.at(0, t, t + 10, Call::Mkdir { path, mode }, Ok(0));
        pass_on(&mut tape, t, &file);
        let (from, to) = (tape.name(&file), tape.name(&moved));
        let how = RenameHow::Replace;
        tape.at(2, t + 600, t + 610, Call::Rename { from, to, how }, Ok(0));
        let stat = |name| Call::Stat {
            of: Target::Path(name),
        };
        tape.at(1, t + 700, t + 701, stat(to), Ok(0));
        tape.at(3, t + 702, t + 703, stat(from), Err(Errno(2)));
        tape.at(3, t + 750, t + 751, Call::Unlink { path: to }, Ok(0));
        tape.at(4, t + 800, t + 801, Call::Rmdir { path }, Ok(0));
    }
    tape
}

/// Thread 0 makes `file` and writes to it, then thread 1 reads it.
fn pass_on(tape: &mut Tape, t: u64, file: &str) {
    let (mine, theirs) = (Fd(0), Fd(1));
    let open = tape.open(0, file, new_file());
    tape.at(0, t + 400, t + 410, open, Ok(0));
    let (at, len) = (0, 5_000);
    let write = Call::Pwrite { fd: mine, at, len };
    tape.at(0, t + 411, t + 412, write, Ok(len));
    tape.at(0, t + 413, t + 414, Call::Close { fd: mine }, Ok(0));
    let open = tape.open(1, file, OpenFlags::READ);
    tape.at(1, t + 500, t + 501, open, Ok(0));
    let (at, len) = (4_096, 4_096);
    let read = Call::Pread {
        fd: theirs,
        at,
        len,
    };
    tape.at(1, t + 502, t + 503, read, Ok(904));
    tape.at(1, t + 504, t + 505, Call::Close { fd: theirs }, Ok(0));
}

#[test]
fn file_made_by_one_thread_is_found_by_another() {
    let tape = relay();
    for options in EVERY {
        let drive = tape.run(options);
        let meter = drive.meter();
        let wrong = meter.mismatches.iter().filter(|(m, _)| match m {
            // Contents are in order only with that option.
            Mismatch::Fewer(_) => options.order_data,
            _ => true,
        });
        assert_eq!(wrong.count(), 0, "{options:?}: {:?}", meter.mismatches);
        assert_eq!(meter.errors.len(), 0);
        assert_eq!(meter.completed, 12 * 40);
        let paced = meter.last > Ns(39_000_000);
        assert_eq!(paced, options.pace == Pace::Think, "{:?}", meter.last);
    }
}

#[test]
fn a_slot_is_shared_and_taken_again_in_its_order() {
    let mut tape = Tape::default();
    for round in 0..20_u64 {
        let t = round * 100;
        let open = tape.open(0, &format!("f{round}"), new_file());
        tape.at(0, t, t + 1, open, Ok(0));
        // Another thread writes at its offset, and a third one closes it.
        tape.at(
            1,
            t + 10,
            t + 11,
            Call::Write {
                fd: Fd(0),
                len: 100,
            },
            Ok(100),
        );
        tape.at(
            2,
            t + 20,
            t + 21,
            Call::Write {
                fd: Fd(0),
                len: 100,
            },
            Ok(100),
        );
        tape.at(3, t + 30, t + 31, Call::Close { fd: Fd(0) }, Ok(0));
    }
    for options in EVERY {
        let drive = tape.run(options);
        assert_eq!(drive.meter().mismatches, BTreeMap::new());
        assert_eq!(drive.meter().written, 20 * 200);
    }
}

#[test]
fn replay_at_fixed_times_counts_lateness_as_latency() {
    let mut tape = Tape::default();
    for call in 0..100_u64 {
        let open = tape.open(0, &format!("f{call}"), new_file());
        tape.at(0, call * 1_000, call * 1_000 + 1, open, Ok(0));
        let (begin, end) = (call * 1_000 + 500, call * 1_000 + 501);
        tape.at(0, begin, end, Call::Close { fd: Fd(0) }, Ok(0));
    }
    let at = |speed| Options {
        pace: Pace::Arrivals(speed),
        ..EVERY[0]
    };
    let run = |options| {
        let drive = tape.run(options);
        let meter = drive.meter();
        assert_eq!(meter.completed, 200);
        (meter.last, meter.latencies().all.mean)
    };
    let (peak, own) = run(EVERY[1]);
    let (doubled, mean) = run(at(2_000_000));
    // The last call is due half-way, and no call is late.
    assert_eq!(doubled.0 / 1_000_000, 99_500 / 2 / 1_000);
    assert_eq!(mean, own);
    // All calls are due at once, so that each waits for all before it.
    let (last, late) = run(at(u64::MAX));
    assert_eq!(last, peak);
    assert!(late > own * 90.0, "{late} {own}");
}

#[test]
fn locks_are_granted_in_the_recorded_order_and_never_deadlock() {
    let mut tape = Tape::default();
    let lock = |fd, lock, wait| Call::Flock {
        fd: Fd(fd),
        lock,
        wait,
    };
    for fd in 0..2 {
        let open = tape.open(fd, "l", new_file());
        tape.at(fd, u64::from(fd), u64::from(fd) + 1, open, Ok(0));
    }
    for round in 0..50_u64 {
        let t = 10 + round * 100;
        // Each thread waits until the other one releases the lock.
        tape.at(0, t, t + 1, lock(0, Lock::Exclusive, true), Ok(0));
        tape.at(1, t + 10, t + 31, lock(1, Lock::Exclusive, true), Ok(0));
        tape.at(0, t + 30, t + 31, lock(0, Lock::Unlock, false), Ok(0));
        tape.at(1, t + 40, t + 41, lock(1, Lock::Unlock, false), Ok(0));
    }
    for options in EVERY {
        let drive = tape.run(options);
        assert_eq!(drive.meter().mismatches, BTreeMap::new());
        assert_eq!(drive.meter().count("flock"), 200);
    }
}

#[test]
fn answers_that_differ_are_counted() {
    let mut tape = Tape::default();
    let kind = EntryKind::File { size: 100 };
    let (path, mode) = (tape.name("there"), Mode(0o644));
    tape.recorded.setup.entries.push(Entry { path, kind, mode });
    let missing = tape.open(0, "missing", OpenFlags::READ);
    tape.at(0, 0, 1, missing, Err(Errno(2)));
    let denied = tape.open(0, "missing", OpenFlags::READ);
    tape.at(0, 2, 3, denied, Err(Errno(13)));
    let there = tape.open(0, "there", OpenFlags::READ);
    tape.at(0, 4, 5, there, Err(Errno(2)));
    // The slot is in use, contrary to the recording.
    let again = tape.open(1, "there", OpenFlags::READ);
    tape.at(0, 6, 7, again, Ok(0));
    tape.at(
        0,
        8,
        9,
        Call::Pread {
            fd: Fd(1),
            at: 0,
            len: 4_096,
        },
        Ok(4_096),
    );
    tape.at(
        0,
        10,
        11,
        Call::Pread {
            fd: Fd(1),
            at: 50,
            len: 10,
        },
        Ok(5),
    );
    tape.at(0, 12, 13, Call::Fsync { fd: Fd(9) }, Ok(0));
    let drive = tape.run(Options::default());
    let named: BTreeMap<String, u64> = drive
        .meter()
        .mismatches
        .iter()
        .map(|(m, &n)| (m.name(), n))
        .collect();
    let expected = [
        ("open failed with ENOENT", 1),
        ("open did not fail with ENOENT", 1),
        ("pread moved fewer", 1),
        ("pread moved more", 1),
        ("fsync failed with EBADF", 1),
    ];
    assert_eq!(named, expected.map(|(name, n)| (name.to_owned(), n)).into());
    assert_eq!(drive.meter().errors.len(), 1);
}

#[test]
fn random_recordings_end_whatever_they_hold() {
    for seed in 0..30 {
        let mut rng = Seed(seed).stream("tape");
        let mut tape = Tape::default();
        for at in 0..3_000_u64 {
            let thread = rng.below(9) as u32;
            let (fd, path) = (
                Fd(rng.below(6) as u32),
                format!("a{}/b{}", rng.below(3), rng.below(4)),
            );
            let name = tape.name(if rng.chance(1, 3) { &path[..2] } else { &path });
            let call = match rng.below(12) {
                0 => Call::Mkdir {
                    path: name,
                    mode: Mode(0o755),
                },
                1 => Call::Rmdir { path: name },
                2 => Call::Unlink { path: name },
                3 => Call::Rename {
                    from: name,
                    to: tape.name("a1/b1"),
                    how: RenameHow::Replace,
                },
                4 | 5 => tape.open(fd.0, &path, new_file()),
                6 => Call::Close { fd },
                7 => Call::Pwrite {
                    fd,
                    at: rng.below(9_000),
                    len: rng.below(9_000),
                },
                8 => Call::Flock {
                    fd,
                    lock: Lock::Exclusive,
                    wait: true,
                },
                9 => Call::Truncate {
                    of: Target::Open(fd),
                    len: rng.below(9_000),
                },
                10 => Call::Write { fd, len: 7 },
                _ => Call::Fsync { fd },
            };
            let result = if rng.chance(1, 4) {
                Err(Errno(2))
            } else {
                Ok(0)
            };
            tape.at(thread, at * 10, at * 10 + rng.below(40), call, result);
        }
        let begun = tape.recorded.events.len() as u64;
        for options in EVERY {
            let drive = tape.run(options);
            let meter = drive.meter();
            let failed: u64 = meter.errors.values().sum();
            assert_eq!(meter.completed + failed, begun);
        }
    }
}

#[test]
fn a_recording_larger_than_the_window_is_made_in_bounded_memory() {
    let mut events = VecDeque::new();
    let mut names = Names::default();
    let path = names.intern(b"f");
    let count = 3 * workload::files::replay::WINDOW as u64;
    for at in 0..count {
        // One thread makes its first call at the beginning and its last one at the end.
        let thread = ThreadId(if at == 0 || at == count - 1 { 1 } else { 0 });
        let call = Call::Stat {
            of: Target::Path(path),
        };
        let step = Step {
            thread,
            think: Ns::ZERO,
            call,
        };
        events.push_back(Event {
            step,
            at: Ns(at),
            took: Ns(1),
            result: Err(Errno(2)),
        });
    }
    let recorded = Recorded {
        names,
        events,
        ..Recorded::default()
    };
    let (drive, _, _) = drive(Replay::new(
        recorded,
        Options {
            pace: Pace::Peak,
            order_data: true,
            hints: true,
            ops: None,
        },
    ));
    let meter = drive.meter();
    assert_eq!(
        (meter.completed, &meter.mismatches),
        (count, &BTreeMap::new())
    );
}

#[test]
fn a_trace_in_a_file_is_a_workload() {
    let tape = relay();
    let Recorded {
        names,
        setup,
        events,
        ..
    } = &tape.recorded;
    let about = About {
        notes: vec![b"it lacks something".to_vec()],
        ..About::default()
    };
    let mut writer = TextWriter::new(Vec::new(), &about, setup, names).unwrap();
    let mut strings = names.clone();
    for thread in 0..5 {
        let program = strings.intern(b"maker");
        let thread = Thread {
            process: thread / 2,
            pid: thread,
            tid: thread,
            parent: None,
            born: Ns::ZERO,
            program,
        };
        writer.thread(&thread, &strings).unwrap();
    }
    for event in events {
        writer.event(event, names).unwrap();
    }
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&writer.finish().unwrap()).unwrap();
    let text = format!("{}:think=no", file.path().display());
    let (drive, _, _) = generated(&text);
    let meter = drive.meter();
    assert_eq!(meter.mismatches, BTreeMap::new());
    assert_eq!(meter.completed, events.len() as u64);
    let (drive, _, _) = generated(&format!("{text},ops=7"));
    let meter = drive.meter();
    assert_eq!((meter.completed, &meter.mismatches), (7, &BTreeMap::new()));
    let refused = workload::Workload::parse(&text).unwrap_err().to_string();
    assert!(refused.contains("is a file workload"), "{refused}");
}
