//! Storage engine: records in a log-structured merge tree, as in `RocksDB` by default.
//!
//! A write goes to the log and to the memtable. A full memtable is written as a table of level 0
//! while the next one fills; writes wait if that one is full as well, or if level 0 has too many
//! tables. Another thread merges tables down the levels. A read examines every table that may have
//! its key, newest first, through Bloom filters that err once in a hundred; index and filter of a
//! table are read when it is opened, and stay in memory. Blocks are cached by the page cache only.
//! Log and tables carry `RocksDB`'s lifetime hints: the log short, level 0 and the first level
//! below medium, the next one long, deeper ones extreme.
//!
//! Left out: compression, slowing writes down before they stop, compaction with more than one
//! thread.

use super::Engine;
mod background;
mod read;

use super::clients::{Clients, Request, THINK, entry_bytes};
use super::commit::{Commit, Next};
use super::job::{Job, Slots, Todo};
use super::tables::{Compaction, L0_STOP, LEVELS, Shape, Table, Tables};
use super::{Lifetimes, Mix, Ycsb};
use crate::files::fileset::{DIR_MODE, FILE_MODE};
use crate::files::{
    Call, Entry, EntryKind, Errno, Fd, Hint, Name, Names, OpenFlags, Setup, Source, ThreadId, Turn,
};
use sim::Seed;
use std::collections::BTreeSet;
use units::Ns;

/// Change of state after the calls of a step.
#[derive(Clone, Debug)]
enum Effect {
    /// The database is open.
    Ready,
    /// The memtable is full; this log is that of the next one.
    Switched(Log),
    /// The group of writes is in the log.
    Written,
    /// The full memtable is now this table of level 0.
    Flushed(u32),
    Compacted(Compaction, Vec<u32>),
    /// The slot is unused.
    Free(Fd),
}

#[derive(Clone, Copy, Debug)]
struct Log {
    fd: Fd,
    path: Name,
}

/// Block of a table to read.
#[derive(Clone, Copy, Debug)]
struct Probe {
    table: u32,
    block: u64,
}

/// State of a client.
#[derive(Clone, Debug, Default)]
enum Phase {
    #[default]
    Idle,
    Begins(Request),
    /// Reads its blocks from this one on.
    Reads(usize),
    /// Writes to the log, or waits for the leader of its group.
    Commits,
}

#[derive(Clone, Debug, Default)]
struct Client {
    phase: Phase,
    probes: Vec<Probe>,
    /// Record to write after the reads.
    writes: Option<u32>,
}

/// State of the engine.
pub(super) struct Lsm {
    names: Names,
    setup: Setup,
    pub(super) clients: Clients,
    states: Vec<Client>,
    pub(super) tables: Tables,
    /// Keys in the memtable, and the bytes they take.
    mem: BTreeSet<u32>,
    mem_bytes: u64,
    /// Keys of the full memtable, and its log.
    full: Option<(BTreeSet<u32>, Log)>,
    flushing: bool,
    log: Log,
    manifest: Fd,
    commit: Commit<Effect>,
    /// Jobs of the flusher and of the compaction thread.
    jobs: [Job<Effect>; 2],
    ready: bool,
    slots: Slots,
    numbers: u32,
    entry: u64,
    memtable: u64,
    lifetimes: Lifetimes,
    /// Whether the key of a record is its number, and not a hash of it.
    ordered: bool,
}

impl Lsm {
    pub(super) fn new(ycsb: &Ycsb, seed: Seed) -> Self {
        let Engine::Lsm {
            memtable,
            table,
            base,
            multiplier,
            lifetimes,
            keep,
        } = ycsb.engine
        else {
            unreachable!("chosen by the engine");
        };
        let mut slots = Slots::default();
        let mut names = Names::default();
        let log = Log {
            fd: slots.take(),
            path: names.intern(b"db/000001.log"),
        };
        let mut lsm = Self {
            names,
            setup: Setup::default(),
            states: vec![Client::default(); ycsb.threads as usize],
            clients: Clients::new(ycsb, 2, seed),
            tables: Tables::new(Shape::new(ycsb.value, table, (base, multiplier)), keep),
            mem: BTreeSet::new(),
            mem_bytes: 0,
            full: None,
            flushing: false,
            log,
            manifest: slots.take(),
            commit: Commit::new(entry_bytes(ycsb.value), ycsb.sync),
            jobs: [Job::default(), Job::default()],
            ready: false,
            slots,
            numbers: 1,
            entry: entry_bytes(ycsb.value),
            memtable,
            lifetimes,
            ordered: matches!(ycsb.mix, Mix::Bench(_)),
        };
        let filled = !matches!(ycsb.mix, Mix::Bench(row) if row.fills());
        lsm.load(if filled { ycsb.records as u32 } else { 0 });
        lsm.begin();
        lsm
    }

    /// Puts `records` into the last level, sorted, as after a load and a full compaction.
    fn load(&mut self, records: u32) {
        let mut keys: Vec<u32> = (0..records).map(|record| self.key_of(record)).collect();
        keys.sort_unstable();
        let dir = self.names.intern(b"db");
        self.put(dir, EntryKind::Directory);
        let manifest = self.names.intern(b"db/MANIFEST-000000");
        self.put(manifest, EntryKind::File { size: 0 });
        for keys in keys.chunks(self.tables.shape.keys_per_table()) {
            let number = self.make(keys.to_vec());
            self.tables.levels[LEVELS - 1].push(number);
            let Table { path, bytes, .. } = self.tables.all[&number];
            self.put(path, EntryKind::File { size: bytes });
        }
    }

    fn put(&mut self, path: Name, kind: EntryKind) {
        let mode = match kind {
            EntryKind::Directory => DIR_MODE,
            _ => FILE_MODE,
        };
        self.setup.entries.push(Entry { path, kind, mode });
    }

    /// Sets the flusher's first job: open the log, the manifest and all tables.
    fn begin(&mut self) {
        let mut job = Job::default();
        let append = OpenFlags::WRITE.and(OpenFlags::APPEND);
        let manifest = self.names.intern(b"db/MANIFEST-000000");
        job.call(open(self.manifest, manifest, append));
        job.call(open(
            self.log.fd,
            self.log.path,
            append.and(OpenFlags::CREATE),
        ));
        self.hint(&mut job, self.log.fd, Hint::Short);
        for table in self.tables.all.values() {
            background::open_table(&mut job, table, self.tables.shape);
        }
        job.effect(Effect::Ready);
        self.jobs[0] = job;
    }

    /// Creates a table with these keys, in no level yet; returns its number.
    fn make(&mut self, keys: Vec<u32>) -> u32 {
        self.numbers += 1;
        let number = self.numbers;
        let path = self.names.intern(format!("db/{number:06}.sst").as_bytes());
        let shape = self.tables.shape;
        let table = Table {
            path,
            fd: self.slots.take(),
            bytes: shape.data(keys.len()) + shape.meta(keys.len()),
            readers: 0,
            keys,
        };
        self.tables.all.insert(number, table);
        number
    }

    /// Thread number of the flusher (0) or the compaction thread (1).
    fn helper(&self, which: usize) -> ThreadId {
        ThreadId(self.clients.count() + which as u32)
    }

    fn client_turn(&mut self, thread: ThreadId, now: Ns) -> Turn {
        let index = thread.0 as usize;
        if !self.ready {
            return self.clients.parking.park(thread);
        }
        loop {
            match std::mem::take(&mut self.states[index].phase) {
                Phase::Idle => match self.clients.request(thread.0, now) {
                    Some(request) => {
                        self.states[index].phase = Phase::Begins(request);
                        return Turn::Pause(THINK);
                    }
                    None => return self.clients.leave(thread),
                },
                Phase::Begins(request) => self.start(index, request),
                Phase::Reads(at) => match self.probe(index, at) {
                    Some(turn) => return turn,
                    None => self.read_done(thread),
                },
                Phase::Commits => {
                    self.states[index].phase = Phase::Commits;
                    match self.commit.next(thread, self.has_room()) {
                        Next::Parks => return self.clients.parking.park(thread),
                        Next::Leads => self.write_group(),
                        Next::Does(Todo::Call(call)) => return Turn::now(call),
                        Next::Does(Todo::Effect(effect)) => self.apply(effect),
                        Next::Leaves => self.states[index].phase = Phase::Idle,
                    }
                }
            }
        }
    }

    fn start(&mut self, index: usize, request: Request) {
        self.states[index].phase = Phase::Reads(0);
        self.states[index].writes = None;
        match request {
            Request::Read(record) => self.find(index, self.key_of(record)),
            Request::Modify(record) => {
                self.find(index, self.key_of(record));
                self.states[index].writes = Some(record);
            }
            Request::Update(record) | Request::Insert(record) => {
                self.states[index].writes = Some(record);
            }
            Request::Scan(record, length) => self.scan(index, self.key_of(record), length),
        }
        for at in 0..self.states[index].probes.len() {
            self.count_reader(index, at, true);
        }
    }

    fn count_reader(&mut self, index: usize, at: usize, begins: bool) {
        let table = self.states[index].probes[at].table;
        let table = self
            .tables
            .all
            .get_mut(&table)
            .expect("its readers keep it");
        match begins {
            true => table.readers += 1,
            false => table.readers -= 1,
        }
    }

    fn has_room(&self) -> bool {
        let full = self.mem_bytes >= self.memtable && self.full.is_some();
        let merges = self.tables.keep.is_none();
        !full && (!merges || self.tables.levels[0].len() < L0_STOP)
    }

    /// Adds a lifetime hint for a file, unless hints are off.
    fn hint(&self, job: &mut Job<Effect>, fd: Fd, life: Hint) {
        if self.lifetimes != Lifetimes::Unsaid {
            job.call(Call::Hint { fd, life });
        }
    }

    /// Writes the group that a client leads, to a new log if the memtable is full.
    fn write_group(&mut self) {
        let mut job = Job::default();
        let mut fd = self.log.fd;
        if self.mem_bytes >= self.memtable {
            self.numbers += 1;
            let path = format!("db/{:06}.log", self.numbers);
            let log = Log {
                fd: self.slots.take(),
                path: self.names.intern(path.as_bytes()),
            };
            let flags = OpenFlags::WRITE.and(OpenFlags::APPEND);
            job.call(open(log.fd, log.path, flags.and(OpenFlags::CREATE)));
            self.hint(&mut job, log.fd, Hint::Short);
            job.effect(Effect::Switched(log));
            fd = log.fd;
        }
        self.commit.write(job, fd, Effect::Written);
    }

    fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Ready => {
                self.ready = true;
                self.clients.parking.wake_all();
            }
            Effect::Switched(log) => {
                let old = std::mem::replace(&mut self.log, log);
                self.full = Some((std::mem::take(&mut self.mem), old));
                self.mem_bytes = 0;
                self.clients.parking.wake(self.helper(0));
            }
            Effect::Written => self.group_written(),
            Effect::Flushed(table) => {
                self.tables.levels[0].insert(0, table);
                (self.full, self.flushing) = (None, false);
                self.unstall();
            }
            Effect::Compacted(compaction, outputs) => {
                self.tables.replace(&compaction, &outputs);
                self.unstall();
            }
            Effect::Free(fd) => self.slots.put(fd),
        }
    }

    /// Key of a record.
    const fn key_of(&self, record: u32) -> u32 {
        match self.ordered {
            true => record,
            false => scattered(record),
        }
    }

    fn unstall(&mut self) {
        self.clients.parking.wake(self.helper(1));
        self.commit.unstall(&mut self.clients.parking);
    }

    fn group_written(&mut self) {
        for (_, record) in self.commit.written(&mut self.clients.parking) {
            self.mem.insert(self.key_of(record));
            self.mem_bytes += self.entry;
        }
    }
}

/// Key of a YCSB record, which hashes its number, so that neighbours in time are not neighbours in
/// the tree. No two records have equal keys.
const fn scattered(record: u32) -> u32 {
    let mut key = record;
    key = (key ^ (key >> 16)).wrapping_mul(0x7feb_352d);
    key = (key ^ (key >> 15)).wrapping_mul(0x846c_a68b);
    key ^ (key >> 16)
}

pub(in crate::files::ycsb) const fn open(fd: Fd, path: Name, flags: OpenFlags) -> Call {
    Call::Open {
        fd,
        path,
        flags,
        mode: FILE_MODE,
    }
}

impl Source for Lsm {
    fn names(&self) -> &Names {
        &self.names
    }

    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn threads(&self) -> u32 {
        self.clients.count() + 2
    }

    fn process(&self, _: ThreadId) -> u32 {
        0
    }

    fn next(&mut self, thread: ThreadId, now: Ns) -> Turn {
        self.clients.parking.asks(thread);
        match thread.0.checked_sub(self.clients.count()) {
            None => self.client_turn(thread, now),
            Some(which) => self.helper_turn(which as usize),
        }
    }

    fn ended(&mut self, _: ThreadId, result: Result<u64, Errno>) {
        self.clients.landed(result);
    }

    fn wake(&mut self) -> Option<ThreadId> {
        self.clients.parking.next_woken()
    }

    fn finished(&mut self) -> Option<(&'static str, Ns)> {
        self.clients.finished.pop()
    }

    fn failure(&self) -> Option<String> {
        self.clients.failure.clone()
    }
}
