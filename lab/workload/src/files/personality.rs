//! filebench's own workloads, scaled like those of the `ByteFS` paper.
//!
//! Sequences of operations, sizes and shares are those of filebench's scripts of the same names
//! (version 1.5). Numbers of threads are those of Table 5 of the paper, numbers of files a
//! hundredth, so that a run takes seconds.

//= filebench 1.5
use super::flow::{FlowOp, Mode, OpKind, Program, ThreadSpec};
use super::{Access, Amount, FilesetSpec};
use units::Ns;

/// Mean directory width of filebench's mail and proxy servers, far above any number of files: all
/// files lie in one directory.
const WIDE: u64 = 1_000_000;

/// Bytes of one request of a whole-file operation.
const WHOLE: u64 = 1 << 20;

/// Parameters of a personality.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) files: u32,
    pub(super) threads: u32,
    /// Threads that write back a database's pages.
    pub(super) writers: u32,
    /// Mean size of a file.
    pub(super) size: u64,
    /// Mean width of a directory; 0 for that of the script.
    pub(super) dirwidth: u64,
    /// Bytes of a small request: the bound on the length of an append, or a database's page.
    pub(super) iosize: u64,
    /// Writes between two syncs; 0 for none. For `create`: 1 to sync each file before it is closed.
    pub(super) fsync: u64,
    pub(super) ops: u64,
    pub(super) until: Option<Ns>,
}

/// Builder of a list of operations.
struct Ops {
    ops: Vec<FlowOp>,
}

impl Ops {
    const fn new() -> Self {
        Self { ops: Vec::new() }
    }

    /// Adds an operation on set `set` and descriptor `fd`.
    fn on(mut self, kind: OpKind, set: usize, fd: u32) -> Self {
        self.ops.push(FlowOp {
            fileset: Some(set),
            fd,
            iosize: Amount::Fixed(match kind {
                OpKind::ReadWholeFile | OpKind::WriteWholeFile => WHOLE,
                _ => 0,
            }),
            ..FlowOp::new(kind)
        });
        self
    }

    /// Sets the request size of the operation before.
    fn of(mut self, iosize: u64) -> Self {
        if let Some(op) = self.ops.last_mut() {
            op.iosize = Amount::Fixed(iosize);
        }
        self
    }

    /// Opens a file, reads all of it and closes it.
    fn read_one(self) -> Self {
        self.on(OpKind::OpenFile, 0, 1)
            .on(OpKind::ReadWholeFile, 0, 1)
            .on(OpKind::CloseFile, 0, 1)
    }

    fn threads(self, instances: u32) -> ThreadSpec {
        ThreadSpec {
            processes: 1,
            instances,
            ops: self.ops,
        }
    }
}

impl Settings {
    fn set(&self, name: &str, size: Amount, dirwidth: u64, prealloc: u64) -> FilesetSpec {
        FilesetSpec {
            dirwidth: if self.dirwidth > 0 {
                self.dirwidth
            } else {
                dirwidth
            },
            prealloc,
            ..FilesetSpec::new(name, self.files, size)
        }
    }

    fn program(&self, filesets: Vec<FilesetSpec>, threads: Vec<ThreadSpec>, mode: Mode) -> Program {
        Program {
            filesets,
            threads,
            mode,
            ops: if self.ops == 0 { u64::MAX } else { self.ops },
            until: self.until,
            rate: 0,
            notes: Vec::new(),
        }
    }
}

/// A mail server: each message is made, appended to and synced, or read.
pub(super) fn varmail(s: &Settings) -> Program {
    let ops = Ops::new()
        .on(OpKind::DeleteFile, 0, 0)
        .on(OpKind::CreateFile, 0, 1)
        .on(OpKind::AppendFileRand, 0, 1)
        .of(s.iosize)
        .on(OpKind::Fsync, 0, 1)
        .on(OpKind::CloseFile, 0, 1)
        .on(OpKind::OpenFile, 0, 1)
        .on(OpKind::ReadWholeFile, 0, 1)
        .on(OpKind::AppendFileRand, 0, 1)
        .of(s.iosize)
        .on(OpKind::Fsync, 0, 1)
        .on(OpKind::CloseFile, 0, 1)
        .read_one();
    let set = s.set("bigfileset", Amount::gamma(s.size), WIDE, 80);
    s.program(vec![set], vec![ops.threads(s.threads)], Mode::Timeout)
}

/// A file server: whole files are written, appended to, read, deleted.
pub(super) fn fileserver(s: &Settings) -> Program {
    let ops = Ops::new()
        .on(OpKind::CreateFile, 0, 1)
        .on(OpKind::WriteWholeFile, 0, 1)
        .on(OpKind::CloseFile, 0, 1)
        .on(OpKind::OpenFile, 0, 1)
        .on(OpKind::AppendFileRand, 0, 1)
        .of(s.iosize)
        .on(OpKind::CloseFile, 0, 1)
        .read_one()
        .on(OpKind::DeleteFile, 0, 0)
        .on(OpKind::StatFile, 0, 0);
    let set = s.set("bigfileset", Amount::gamma(s.size), 20, 80);
    s.program(vec![set], vec![ops.threads(s.threads)], Mode::Timeout)
}

/// A proxy: one file is replaced, five are read.
pub(super) fn webproxy(s: &Settings) -> Program {
    let ops = Ops::new()
        .on(OpKind::DeleteFile, 0, 0)
        .on(OpKind::CreateFile, 0, 1)
        .on(OpKind::AppendFileRand, 0, 1)
        .of(s.iosize)
        .on(OpKind::CloseFile, 0, 1);
    let ops = (0..5).fold(ops, |ops, _| ops.read_one());
    let set = s.set("bigfileset", Amount::Fixed(s.size), WIDE, 80);
    s.program(vec![set], vec![ops.threads(s.threads)], Mode::Timeout)
}

/// A web server: ten files are read, then the log grows.
pub(super) fn webserver(s: &Settings) -> Program {
    let ops = (0..10).fold(Ops::new(), |ops, _| ops.read_one());
    let ops = ops.on(OpKind::AppendFileRand, 1, 2).of(s.iosize);
    let set = FilesetSpec {
        access: Access::ReadOnly,
        ..s.set("bigfileset", Amount::gamma(s.size), 20, 100)
    };
    let log = FilesetSpec {
        entries: 1,
        ..s.set("logfiles", Amount::gamma(s.size), 20, 100)
    };
    s.program(vec![set, log], vec![ops.threads(s.threads)], Mode::Timeout)
}

/// Turns of the loop in which a shadow process and a writer of pages compute.
const SHADOW_HOG: u64 = 200_000;
const WRITER_HOG: u64 = 10_000;
/// Bytes of a write to the log, and of the log.
const LOG_WRITE: u64 = 256 << 10;
const LOG_SIZE: u64 = 10 << 20;

/// A database: many processes read pages and compute; every read posts tokens to the writers of
/// pages and of the log, which write in batches.
pub(super) fn oltp(s: &Settings) -> Program {
    let threads = |processes, ops| ThreadSpec {
        processes,
        instances: 1,
        ops,
    };
    let data = s.set("datafiles", Amount::Fixed(s.size), 1_024, 100);
    let logfile = FilesetSpec {
        entries: 1,
        ..s.set("logfile", Amount::Fixed(LOG_SIZE), 1_024, 100)
    };
    let log = vec![
        aio_write(1, LOG_WRITE, 1, false),
        FlowOp::new(OpKind::AioWait),
        tokens(OpKind::SemBlock, "lg-block", 3_200, 1_000),
    ];
    let writer = vec![
        aio_write(0, s.iosize, 100, true),
        tokens(OpKind::Hog, "dbwr-hog", WRITER_HOG, 0),
        tokens(OpKind::SemBlock, "dbwr-block", 1_000, 2_000),
        FlowOp::new(OpKind::AioWait),
    ];
    let read = FlowOp {
        fileset: Some(0),
        iosize: Amount::Fixed(s.iosize),
        opennext: true,
        random: true,
        ..FlowOp::new(OpKind::Read)
    };
    let shadow = vec![
        read,
        tokens(OpKind::Hog, "shadowhog", SHADOW_HOG, 0),
        post("lg-block"),
        post("dbwr-block"),
    ];
    let all = vec![
        threads(1, log),
        threads(s.writers, writer),
        threads(s.threads, shadow),
    ];
    s.program(vec![data, logfile], all, Mode::Timeout)
}

fn aio_write(set: usize, iosize: u64, iters: u64, opennext: bool) -> FlowOp {
    FlowOp {
        fileset: Some(set),
        iosize: Amount::Fixed(iosize),
        iters: Amount::Fixed(iters),
        opennext,
        random: true,
        dsync: true,
        ..FlowOp::new(OpKind::AioWrite)
    }
}

fn tokens(kind: OpKind, name: &str, value: u64, highwater: u64) -> FlowOp {
    FlowOp {
        name: name.to_owned(),
        value: Amount::Fixed(value),
        highwater,
        ..FlowOp::new(kind)
    }
}

/// A post of one token to `target` that waits until the target has room.
fn post(target: &str) -> FlowOp {
    FlowOp {
        value: Amount::Fixed(1),
        blocking: true,
        target: Some(target.to_owned()),
        ..FlowOp::new(OpKind::SemPost)
    }
}

/// Mean directory width of the scripts that only create or delete. Those scripts end all threads
/// with the first thread that finds nothing to do; here each thread goes on until it finds nothing,
/// so that all files are done.
const MICRO_WIDTH: u64 = 100;

/// Makes files until all are there.
pub(super) fn create(s: &Settings) -> Program {
    let mut ops = Ops::new()
        .on(OpKind::CreateFile, 0, 1)
        .on(OpKind::WriteWholeFile, 0, 1);
    if s.fsync > 0 {
        ops = ops.on(OpKind::Fsync, 0, 1);
    }
    let ops = ops.on(OpKind::CloseFile, 0, 1);
    let set = s.set("bigfileset", Amount::Fixed(s.size), MICRO_WIDTH, 0);
    s.program(vec![set], vec![ops.threads(s.threads)], Mode::AllDone)
}

/// Deletes files until none is left.
pub(super) fn delete(s: &Settings) -> Program {
    let ops = Ops::new().on(OpKind::DeleteFile, 0, 0);
    let set = s.set("bigfileset", Amount::Fixed(s.size), MICRO_WIDTH, 100);
    s.program(vec![set], vec![ops.threads(s.threads)], Mode::AllDone)
}

/// Makes directories until all are there.
pub(super) fn mkdir(s: &Settings) -> Program {
    directories(s, OpKind::MakeDir, 0)
}

/// Removes directories until none is left.
pub(super) fn rmdir(s: &Settings) -> Program {
    directories(s, OpKind::RemoveDir, 100)
}

fn directories(s: &Settings, kind: OpKind, prealloc: u64) -> Program {
    let ops = Ops::new().on(kind, 0, 0);
    let set = FilesetSpec {
        leafdirs: s.files,
        entries: 0,
        ..s.set("bigfileset", Amount::Fixed(0), MICRO_WIDTH, prealloc)
    };
    s.program(vec![set], vec![ops.threads(s.threads)], Mode::AllDone)
}

/// Kind of the accesses of [`accesses`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Calls {
    /// Kind of the calls that are no reads by `read`: writes, reads or appends.
    pub(super) kind: OpKind,
    /// Hundredths of the calls that are reads, whatever the kind.
    pub(super) read: u64,
    /// Whether calls go to random places, instead of in order.
    pub(super) random: bool,
    /// Whether the files are opened past the page cache.
    pub(super) direct: bool,
}

/// Threads with one file each that read or write it: at random or in order over existing data, or
/// at the end of an empty file. The `sizes` take turns: each for `fsync` writes and a sync, or for
/// one call, or for the fewest reads and writes that have the wanted shares.
pub(super) fn accesses(s: &Settings, access: Calls, sizes: &[u64]) -> Program {
    let Calls { kind, read, .. } = access;
    let step = gcd(read, 100 - read.min(100)).max(1);
    let turns = match read {
        0 => vec![(kind, s.fsync.max(1))],
        _ => vec![(OpKind::Read, read / step), (kind, (100 - read) / step)],
    };
    let mut ops = Vec::new();
    for &size in sizes {
        let turns = turns.iter().filter(|(_, calls)| *calls > 0);
        ops.extend(turns.map(|&(kind, calls)| FlowOp {
            fileset: Some(0),
            fd: 1,
            iosize: Amount::Fixed(size),
            iters: Amount::Fixed(calls),
            random: access.random,
            direct: access.direct,
            workingset: s.size,
            ..FlowOp::new(kind)
        }));
        if s.fsync > 0 {
            let fd = 1;
            ops.push(FlowOp {
                fd,
                ..FlowOp::new(OpKind::Fsync)
            });
        }
    }
    let threads = ThreadSpec {
        processes: 1,
        instances: s.threads,
        ops,
    };
    let size = match kind {
        OpKind::AppendFile => 0,
        _ => s.size,
    };
    let set = FilesetSpec {
        entries: s.threads,
        ..s.set("files", Amount::Fixed(size), WIDE, 100)
    };
    s.program(vec![set], vec![threads], Mode::Timeout)
}

/// Greatest common divisor.
const fn gcd(a: u64, b: u64) -> u64 {
    match b {
        0 => a,
        _ => gcd(b, a % b),
    }
}
