//! Threads of the server: connections, the page cleaner and its writers.
//!
//! Invariant: a waiting thread is in one of the wait lists, and is woken when that list is emptied.

use super::cleaner::Cleaner;
use super::client::Client;
use super::lock::Locks;
use super::pool::Pool;
use super::redo::{Redo, Stream};
use super::schema::{Cardinality, PAGE, PageId, SYSTEM, Table};
use super::store::Store;
use super::{Commit, Tpcc};
use crate::files::fileset::{DIR_MODE, FILE_MODE};
use crate::files::source::Parking;
use crate::files::ycsb::job::Job;
use crate::files::{
    Call, Entry, EntryKind, Errno, Fd, Name, Names, OpenFlags, Setup, Source, ThreadId, Turn,
};
use sim::{Rng, Seed};
use std::collections::BTreeMap;
use units::Ns;

/// Threads that write pages for the cleaner (`innodb_write_io_threads`).
//= mysql 14.15
pub(super) const WRITERS: u32 = 4;
/// Descriptors of the two log files and of the binary log, after those of the files of pages.
pub(super) const LOGS: [Fd; 2] = [Fd(10), Fd(11)];
pub(super) const BINLOG: Fd = Fd(12);

/// Change of state after the calls of a step.
#[derive(Clone, Copy, Debug)]
pub(super) enum Effect {
    Ready,
    Loaded(PageId),
    /// The log is written up to this position; whether it is durable as well.
    Logged(u64, bool),
    Binlogged(u64),
    /// A page written by a connection is durable in its place; its doublewrite slot is free.
    Placed(PageId, usize),
    Grown(u8, u32),
    Checkpointed(u64),
}

pub(super) type Work = Job<Effect>;

/// State of the server.
pub(super) struct InnoDb {
    names: Names,
    setup: Setup,
    pub(super) tpcc: Tpcc,
    pub(super) store: Store,
    pub(super) pool: Pool,
    pub(super) redo: Redo,
    pub(super) binlog: Stream,
    pub(super) locks: Locks,
    pub(super) clients: Vec<Client>,
    pub(super) rngs: Vec<Rng>,
    pub(super) cleaner: Cleaner,
    pub(super) parking: Parking,
    /// Threads that wait for a page, for a file to grow, for any frame, and for room in the log.
    pub(super) for_page: BTreeMap<PageId, Vec<ThreadId>>,
    pub(super) for_growth: Vec<ThreadId>,
    pub(super) for_frame: Vec<ThreadId>,
    pub(super) for_log: Vec<ThreadId>,
    /// Whether each doublewrite slot for single pages is in use.
    pub(super) slots: [bool; 8],
    pub(super) now: Ns,
    pub(super) ready: bool,
    /// Transactions that may still begin.
    pub(super) left: u64,
    gone: u32,
    pub(super) finished: Vec<(&'static str, Ns)>,
    /// Bytes that the call in progress of each thread must move.
    expected: Vec<u64>,
    failure: Option<String>,
}

impl InnoDb {
    pub(super) fn new(tpcc: &Tpcc, seed: Seed) -> Self {
        let of = Cardinality::new(tpcc.warehouses, tpcc.scale);
        let threads = tpcc.threads + 1 + WRITERS;
        let rngs = (0..tpcc.threads).map(|i| seed.child(u64::from(i)).stream("tpcc"));
        let mut engine = Self {
            names: Names::default(),
            setup: Setup::default(),
            tpcc: *tpcc,
            store: Store::new(of, tpcc.threads, seed),
            pool: Pool::new(tpcc.cache),
            redo: Redo::new(tpcc.log),
            binlog: Stream::default(),
            locks: Locks::default(),
            clients: vec![Client::default(); tpcc.threads as usize],
            rngs: rngs.collect(),
            cleaner: Cleaner::default(),
            parking: Parking::new(threads),
            for_page: BTreeMap::new(),
            for_growth: Vec::new(),
            for_frame: Vec::new(),
            for_log: Vec::new(),
            slots: [false; 8],
            now: Ns::ZERO,
            ready: false,
            left: tpcc.ops,
            gone: 0,
            finished: Vec::new(),
            expected: vec![0; threads as usize],
            failure: None,
        };
        engine.lay_out();
        engine
    }

    /// Lists the files in the setup, and queues their opens for the cleaner.
    fn lay_out(&mut self) {
        for path in ["mysql", "mysql/tpcc"] {
            self.entry(path, EntryKind::Directory);
        }
        let both = OpenFlags::READ.and(OpenFlags::WRITE);
        let pages = match self.tpcc.direct {
            true => both.and(OpenFlags::DIRECT),
            false => both,
        };
        let mut files = vec![("mysql/ibdata1".to_owned(), u32::from(SYSTEM), pages)];
        files.extend(Table::ALL.map(|table| {
            let path = format!("mysql/tpcc/{}.ibd", table.name());
            (path, u32::from(table.space()), pages)
        }));
        // Only files of pages are opened past the page cache.
        //= mysql 14.15
        let logs = [0, 1].map(|file| (format!("mysql/ib_logfile{file}"), LOGS[file].0, both));
        files.extend(logs);
        if self.tpcc.binlog {
            let append = OpenFlags::WRITE.and(OpenFlags::APPEND);
            files.push(("mysql/binlog.000001".to_owned(), BINLOG.0, append));
        }
        for (path, fd, flags) in files {
            let size = match self.store.spaces.get(fd as usize) {
                Some(space) => u64::from(space.pages) * PAGE,
                None if Fd(fd) == BINLOG => 0,
                None => self.redo.file(),
            };
            let path = self.entry(&path, EntryKind::File { size });
            self.cleaner.job.call(Call::Open {
                fd: Fd(fd),
                path,
                flags,
                mode: FILE_MODE,
            });
        }
        self.cleaner.job.effect(Effect::Ready);
    }

    fn entry(&mut self, path: &str, kind: EntryKind) -> Name {
        let path = self.names.intern(path.as_bytes());
        let mode = match kind {
            EntryKind::Directory => DIR_MODE,
            _ => FILE_MODE,
        };
        self.setup.entries.push(Entry { path, kind, mode });
        path
    }

    pub(super) const fn cleaner_thread(&self) -> ThreadId {
        ThreadId(self.tpcc.threads)
    }

    /// Whether the run is over: all connections have ended, or a call failed.
    pub(super) const fn is_over(&self) -> bool {
        self.gone == self.tpcc.threads || self.failure.is_some()
    }

    /// Whether no further transaction may begin.
    pub(super) fn is_closed(&self) -> bool {
        let late = self.tpcc.until.is_some_and(|until| self.now >= until);
        late || self.left == 0
    }

    /// Ends a connection. After the last one the other threads may end.
    pub(super) fn leave(&mut self, thread: ThreadId) -> Turn {
        self.gone += 1;
        if self.is_over() {
            self.parking.wake_all();
        }
        self.parking.done(thread)
    }

    pub(super) fn wake_page(&mut self, page: PageId) {
        self.wake_list(|engine| engine.for_page.remove(&page).unwrap_or_default());
        self.wake_list(|engine| std::mem::take(&mut engine.for_frame));
    }

    /// Wakes the threads that `list` returns, in their order.
    pub(super) fn wake_list(&mut self, list: impl Fn(&mut Self) -> Vec<ThreadId>) {
        // `Parking` returns the thread woken last first.
        let threads = list(self);
        threads.into_iter().rev().for_each(|t| self.parking.wake(t));
    }

    pub(super) fn wake_cleaner(&mut self) {
        let cleaner = self.cleaner_thread();
        self.parking.wake(cleaner);
    }

    pub(super) fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Ready => {
                self.ready = true;
                self.parking.wake_all();
            }
            Effect::Loaded(page) => {
                self.pool.loaded(page);
                self.wake_page(page);
            }
            Effect::Logged(to, durable) => {
                self.wake_list(|engine| engine.redo.stream.ended(to, durable));
            }
            Effect::Binlogged(to) => self.wake_list(|engine| engine.binlog.ended(to, true)),
            Effect::Placed(page, slot) => {
                self.slots[slot] = false;
                self.pool.written(page);
                self.wake_page(page);
                self.wake_cleaner();
            }
            Effect::Grown(space, pages) => {
                let touch = self.store.grown(space, pages);
                let first = self.clients.iter_mut().find(|c| c.grows == Some(space));
                if let Some(client) = first {
                    client.grows = None;
                    client.touches.push_back(touch);
                }
                self.wake_list(|engine| std::mem::take(&mut engine.for_growth));
            }
            Effect::Checkpointed(to) => {
                self.redo.checkpoint = to;
                self.redo.checkpoints += 1;
                self.unstall();
            }
        }
    }

    /// Whether changes must wait for pages to be written and for a checkpoint.
    pub(super) fn must_stall(&self) -> bool {
        self.redo.is_nearly_full(self.pool.oldest())
    }

    pub(super) fn unstall(&mut self) {
        if !self.must_stall() {
            self.wake_list(|engine| std::mem::take(&mut engine.for_log));
        }
    }

    /// Calls that write the log to its files, and sync them if `durable`.
    pub(super) fn log_job(&mut self, durable: bool) -> Work {
        let mut job = Work::default();
        let to = self.redo.stream.end;
        let pieces = self.redo.pieces();
        for &(file, at, len) in &pieces {
            let fd = LOGS[file];
            job.call(Call::Pwrite { fd, at, len });
        }
        if durable {
            // The other file may hold log that was written and not made durable.
            let all = self.redo.stream.written != self.redo.stream.durable;
            for (file, &fd) in LOGS.iter().enumerate() {
                if all || pieces.iter().any(|piece| piece.0 == file) {
                    job.call(Call::Fsync { fd });
                }
            }
        }
        job.effect(Effect::Logged(to, durable));
        job
    }

    /// Whether each commit makes its log durable.
    pub(super) fn commits_durably(&self) -> bool {
        self.tpcc.commit == Commit::Durable
    }
}

impl Source for InnoDb {
    fn names(&self) -> &Names {
        &self.names
    }

    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn threads(&self) -> u32 {
        self.tpcc.threads + 1 + WRITERS
    }

    fn process(&self, _: ThreadId) -> u32 {
        0
    }

    fn next(&mut self, thread: ThreadId, now: Ns) -> Turn {
        self.now = now;
        self.parking.asks(thread);
        let turn = match thread.0.checked_sub(self.tpcc.threads) {
            None => self.client_turn(thread),
            Some(0) => self.cleaner_turn(),
            Some(writer) => self.writer_turn(thread, writer as usize - 1),
        };
        if let Turn::Call { call, .. } = turn {
            self.expected[thread.0 as usize] = match call {
                Call::Pread { len, .. } | Call::Pwrite { len, .. } | Call::Write { len, .. } => len,
                _ => 0,
            };
        }
        turn
    }

    fn ended(&mut self, thread: ThreadId, result: Result<u64, Errno>) {
        let expected = self.expected[thread.0 as usize];
        let why = match result {
            Ok(count) if count < expected => format!("moved {count} of {expected} bytes"),
            Ok(_) => return,
            Err(errno) => format!("failed with {errno}"),
        };
        let why = format!("a call of the database server {why}");
        self.failure.get_or_insert(why);
        self.parking.wake_all();
    }

    fn wake(&mut self) -> Option<ThreadId> {
        self.parking.next_woken()
    }

    fn finished(&mut self) -> Option<(&'static str, Ns)> {
        self.finished.pop()
    }

    fn failure(&self) -> Option<String> {
        self.failure.clone()
    }
}
