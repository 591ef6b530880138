//! Storage engine: records in a B-tree of pages that are written in place, behind a log.
//!
//! A leaf that is not in memory is read; a write changes its leaf in memory and appends to the log.
//! A dirty leaf is written in place when its frame is needed, a few at a time and only after its
//! log is durable, or at a checkpoint, which writes all dirty leaves in order, syncs the file and
//! empties the log. Two logs alternate, so that writes continue during a checkpoint; they wait if
//! the second log is full as well.
//!
//! Inner pages, a hundredth of the leaves, are always in memory. The first records lie in the
//! leaves in scattered order, as if by a hash; inserted records go to the right edge, like
//! ascending keys.

use super::Engine;
use super::Ycsb;
use super::clients::{Clients, Request, THINK, entry_bytes};
use super::commit::{Commit, Next};
use super::job::{Job, Todo};
use super::lsm::open;
use crate::files::fileset::{DIR_MODE, FILE_MODE};
use crate::files::{
    Call, Entry, EntryKind, Errno, Fd, Names, OpenFlags, Setup, Source, Target, ThreadId, Turn,
};
use sim::Seed;
use std::collections::{BTreeMap, BTreeSet};
use units::Ns;

/// Bytes of a page, as in `SQLite`; a leaf has several pages if a record is larger.
const PAGE: u64 = 4_096;
/// Dirty leaves that are written together when a frame is needed; our own choice.
const BATCH: usize = 16;
/// Descriptors of the data file and of the two logs.
const DATA: Fd = Fd(0);
const LOGS: [Fd; 2] = [Fd(1), Fd(2)];

/// Bytes of a leaf that holds records with values of `value` bytes.
pub(super) const fn leaf_bytes(value: u64) -> u64 {
    entry_bytes(value).div_ceil(PAGE) * PAGE
}

/// Change of state after the calls of a step.
#[derive(Clone, Copy, Debug)]
enum Effect {
    Ready,
    /// The group of writes is in the log.
    Written,
    /// All changes in this log are durable in the data file.
    Checkpointed(usize),
}

/// Frame of a leaf in memory.
#[derive(Clone, Copy, Debug)]
struct Frame {
    leaf: u32,
    dirty: bool,
    /// Whether the leaf was used since the clock's hand passed.
    used: bool,
}

#[derive(Clone, Debug, Default)]
enum Phase {
    #[default]
    Idle,
    Begins(Request),
    /// Needs this leaf, and this many after it.
    Wants(u32, u32),
    /// Makes the calls of its job, then needs the leaf.
    Works(u32, u32),
    /// Writes to the log, or waits for the leader of its group.
    Commits,
}

#[derive(Clone, Debug, Default)]
struct Client {
    phase: Phase,
    writes: Option<u32>,
    job: Job<Effect>,
}

/// State of the engine.
pub(super) struct BTree {
    names: Names,
    setup: Setup,
    clients: Clients,
    states: Vec<Client>,
    frames: Vec<Frame>,
    /// Frame index of each leaf in memory.
    places: BTreeMap<u32, usize>,
    dirty: BTreeSet<u32>,
    capacity: usize,
    hand: usize,
    commit: Commit<Effect>,
    /// Index of the active log, and the bytes in each log.
    log: usize,
    log_bytes: [u64; 2],
    /// Whether the active log holds writes that are not durable.
    log_dirty: bool,
    checkpointing: bool,
    job: Job<Effect>,
    ready: bool,
    /// Number of leaves in the file.
    leaves: u32,
    /// Number of records at the start, which are scattered.
    first: u32,
    per_leaf: u32,
    leaf: u64,
    checkpoint: u64,
    sync: bool,
}

impl BTree {
    pub(super) fn new(ycsb: &Ycsb, seed: Seed) -> Self {
        let Engine::BTree { cache, checkpoint } = ycsb.engine else {
            unreachable!("chosen by the engine");
        };
        let (entry, leaf) = (entry_bytes(ycsb.value), leaf_bytes(ycsb.value));
        let mut tree = Self {
            names: Names::default(),
            setup: Setup::default(),
            states: vec![Client::default(); ycsb.threads as usize],
            clients: Clients::new(ycsb, 1, seed),
            frames: Vec::new(),
            places: BTreeMap::new(),
            dirty: BTreeSet::new(),
            capacity: (cache / leaf) as usize,
            hand: 0,
            commit: Commit::new(entry, ycsb.sync),
            log: 0,
            log_bytes: [0; 2],
            log_dirty: false,
            checkpointing: false,
            job: Job::default(),
            ready: false,
            leaves: (ycsb.records as u32).div_ceil((leaf / entry) as u32),
            first: ycsb.records as u32,
            per_leaf: (leaf / entry) as u32,
            leaf,
            checkpoint,
            sync: ycsb.sync,
        };
        tree.begin();
        tree
    }

    fn begin(&mut self) {
        let size = u64::from(self.leaves) * self.leaf;
        let dir = self.names.intern(b"db");
        self.setup.entries.push(Entry {
            path: dir,
            kind: EntryKind::Directory,
            mode: DIR_MODE,
        });
        let both = OpenFlags::READ.and(OpenFlags::WRITE);
        let files: [(Fd, &[u8], u64, OpenFlags); 3] = [
            (DATA, b"db/data", size, both),
            (LOGS[0], b"db/log-0", 0, both.and(OpenFlags::APPEND)),
            (LOGS[1], b"db/log-1", 0, both.and(OpenFlags::APPEND)),
        ];
        for (fd, path, size, flags) in files {
            let path = self.names.intern(path);
            self.setup.entries.push(Entry {
                path,
                kind: EntryKind::File { size },
                mode: FILE_MODE,
            });
            self.job.call(open(fd, path, flags));
        }
        self.job.effect(Effect::Ready);
    }

    /// Leaf of a record. The first records are scattered by a permutation.
    fn leaf_of(&self, record: u32) -> u32 {
        let mut place = record;
        if record < self.first {
            // Walk the cycle of a permutation of a power of two until it lands among the first
            // records.
            let mask = self.first.next_power_of_two() - 1;
            loop {
                place = scatter(place, mask);
                if place < self.first {
                    break;
                }
            }
        }
        place / self.per_leaf
    }

    fn helper(&self) -> ThreadId {
        ThreadId(self.clients.count())
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
                Phase::Wants(leaf, more) => self.want(thread, leaf, more),
                Phase::Works(leaf, more) => match self.states[index].job.next() {
                    Some(Todo::Call(call)) => {
                        self.states[index].phase = Phase::Works(leaf, more);
                        return Turn::now(call);
                    }
                    _ => self.states[index].phase = Phase::Wants(leaf, more),
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
        let (record, length, writes) = match request {
            Request::Read(record) => (record, 1, false),
            Request::Scan(record, length) => (record, length, false),
            Request::Update(record) | Request::Insert(record) | Request::Modify(record) => {
                (record, 1, true)
            }
        };
        let leaves = length.div_ceil(self.per_leaf);
        self.states[index].writes = writes.then_some(record);
        self.states[index].phase = Phase::Wants(self.leaf_of(record), leaves - 1);
    }

    /// Advances to the next leaf if `leaf` is in memory, else reads it into a frame, which may
    /// require write-backs.
    fn want(&mut self, thread: ThreadId, leaf: u32, more: u32) {
        let index = thread.0 as usize;
        if let Some(&frame) = self.places.get(&leaf) {
            self.frames[frame].used = true;
            self.states[index].phase = Phase::Idle;
            if more > 0 && leaf < self.last_leaf() {
                self.states[index].phase = Phase::Wants(leaf + 1, more - 1);
            } else if let Some(record) = self.states[index].writes.take() {
                self.commit.join(thread, record);
                self.states[index].phase = Phase::Commits;
            }
            return;
        }
        let mut job = Job::default();
        self.place(leaf, &mut job);
        // A leaf past the end of the file is new and not read.
        if leaf < self.leaves {
            let len = self.leaf;
            job.call(Call::Pread {
                fd: DATA,
                at: u64::from(leaf) * len,
                len,
            });
        }
        self.states[index].job = job;
        self.states[index].phase = Phase::Works(leaf, more);
    }

    const fn last_leaf(&self) -> u32 {
        (self.clients.records - 1) / self.per_leaf
    }

    /// Gives `leaf` a frame. If the victim's leaf is dirty, `job` writes it back with some others,
    /// after the log.
    fn place(&mut self, leaf: u32, job: &mut Job<Effect>) {
        let frame = Frame {
            leaf,
            dirty: false,
            used: true,
        };
        if self.frames.len() < self.capacity {
            self.places.insert(leaf, self.frames.len());
            self.frames.push(frame);
            return;
        }
        let victim = self.victim();
        let old = std::mem::replace(&mut self.frames[victim], frame);
        self.places.remove(&old.leaf);
        self.places.insert(leaf, victim);
        if old.dirty {
            self.dirty.remove(&old.leaf);
            self.write_back(old.leaf, job);
        }
    }

    /// Frame that the clock's hand finds unused since it passed last.
    fn victim(&mut self) -> usize {
        loop {
            self.hand = (self.hand + 1) % self.frames.len();
            let frame = &mut self.frames[self.hand];
            if !std::mem::take(&mut frame.used) {
                return self.hand;
            }
        }
    }

    /// Writes back `leaf` and the dirty leaves that the hand meets next.
    fn write_back(&mut self, leaf: u32, job: &mut Job<Effect>) {
        if std::mem::take(&mut self.log_dirty) {
            job.call(Call::Fdatasync { fd: LOGS[self.log] });
        }
        let mut leaves = vec![leaf];
        for step in 1..=4 * BATCH {
            let at = (self.hand + step) % self.frames.len();
            let frame = &mut self.frames[at];
            if leaves.len() < BATCH && frame.dirty && !frame.used {
                frame.dirty = false;
                self.dirty.remove(&frame.leaf);
                leaves.push(frame.leaf);
            }
        }
        leaves.sort_unstable();
        for leaf in leaves {
            job.call(self.write_leaf(leaf));
        }
    }

    fn write_leaf(&mut self, leaf: u32) -> Call {
        self.leaves = self.leaves.max(leaf + 1);
        Call::Pwrite {
            fd: DATA,
            at: u64::from(leaf) * self.leaf,
            len: self.leaf,
        }
    }

    /// Whether the active log has room; if not, writes wait for the checkpoint.
    const fn has_room(&self) -> bool {
        !self.checkpointing || self.log_bytes[self.log] < self.checkpoint
    }

    /// Writes the group that a client leads to the active log.
    fn write_group(&mut self) {
        let fd = LOGS[self.log];
        let len = self.commit.write(Job::default(), fd, Effect::Written);
        self.log_bytes[self.log] += len;
        self.log_dirty = !self.sync;
    }

    fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Ready => {
                self.ready = true;
                self.clients.parking.wake_all();
            }
            Effect::Written => self.group_written(),
            Effect::Checkpointed(log) => {
                self.log_bytes[log] = 0;
                self.checkpointing = false;
                self.commit.unstall(&mut self.clients.parking);
            }
        }
    }

    fn group_written(&mut self) {
        for (_, record) in self.commit.written(&mut self.clients.parking) {
            self.soil(self.leaf_of(record));
        }
        if self.log_bytes[self.log] >= self.checkpoint {
            self.clients.parking.wake(self.helper());
        }
    }

    /// Marks a leaf dirty. If it has lost its frame meanwhile, it gets the frame of a clean leaf,
    /// without being read again.
    fn soil(&mut self, leaf: u32) {
        if let Some(&frame) = self.places.get(&leaf) {
            self.frames[frame].dirty = true;
            self.dirty.insert(leaf);
            return;
        }
        let clean = self.frames.iter().position(|frame| !frame.dirty);
        if let Some(at) = clean {
            self.places.remove(&self.frames[at].leaf);
            self.places.insert(leaf, at);
            self.frames[at] = Frame {
                leaf,
                dirty: true,
                used: true,
            };
            self.dirty.insert(leaf);
        }
    }

    fn helper_turn(&mut self) -> Turn {
        let thread = self.helper();
        loop {
            if self.clients.are_gone() {
                return self.clients.parking.done(thread);
            }
            match self.job.next() {
                Some(Todo::Call(call)) => return Turn::now(call),
                Some(Todo::Effect(effect)) => self.apply(effect),
                None if self.ready && self.log_bytes[self.log] >= self.checkpoint => {
                    self.begin_checkpoint();
                }
                None => return self.clients.parking.park(thread),
            }
        }
    }

    /// Switches to the other log, makes the old one durable, then writes every dirty leaf in order,
    /// syncs, and empties the old log.
    fn begin_checkpoint(&mut self) {
        let old = self.log;
        self.log = 1 - old;
        self.checkpointing = true;
        self.log_dirty = false;
        let mut job = Job::default();
        job.call(Call::Fdatasync { fd: LOGS[old] });
        for leaf in std::mem::take(&mut self.dirty) {
            if let Some(&frame) = self.places.get(&leaf) {
                self.frames[frame].dirty = false;
            }
            job.call(self.write_leaf(leaf));
        }
        job.call(Call::Fdatasync { fd: DATA });
        let of = Target::Open(LOGS[old]);
        job.call(Call::Truncate { of, len: 0 });
        job.call(Call::Fdatasync { fd: LOGS[old] });
        job.effect(Effect::Checkpointed(old));
        self.job = job;
    }
}

/// Permutation of the numbers up to `mask`, which is a power of two less one.
const fn scatter(number: u32, mask: u32) -> u32 {
    let mut x = number;
    x = x.wrapping_mul(0x9e37_79b1) & mask;
    x ^= x >> (mask.count_ones() / 2 + 1);
    x = x.wrapping_mul(0x85eb_ca6b) & mask;
    x
}

impl Source for BTree {
    fn names(&self) -> &Names {
        &self.names
    }

    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn threads(&self) -> u32 {
        self.clients.count() + 1
    }

    fn process(&self, _: ThreadId) -> u32 {
        0
    }

    fn next(&mut self, thread: ThreadId, now: Ns) -> Turn {
        self.clients.parking.asks(thread);
        match thread.0 < self.clients.count() {
            true => self.client_turn(thread, now),
            false => self.helper_turn(),
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
