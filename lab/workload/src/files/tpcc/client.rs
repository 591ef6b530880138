//! A connection, which runs one transaction after the other, step by step.
//!
//! Invariants: a step is made once its locks are held and files and log have room for it; its pages
//! are touched in order, each once it is in memory and no read or write of it is in progress.

use super::Commit;
use super::engine::{BINLOG, Effect, InnoDb, Work};
use super::lock::Lock;
use super::pool::{Io, Victim};
use super::redo::Turn as Want;
use super::schema::{EXTENT, PAGE, PageId, STATEMENT, SYSTEM};
use super::script::{Kind, Step, Terminal};
use super::store::Touch;
use crate::files::ycsb::job::Todo;
use crate::files::{Call, Fd, ThreadId, Turn};
use std::collections::VecDeque;
use units::Ns;

/// First doublewrite page for writes of single pages.
//= innodb 3
const SLOTS: u32 = 184;

/// State of a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Client {
    /// Transaction in progress, and its beginning.
    begun: Option<(Kind, Ns)>,
    steps: VecDeque<Step>,
    pub(super) touches: VecDeque<Touch>,
    job: Work,
    locks: Vec<Lock>,
    /// Dirty page that the connection writes to free its frame, and the log position that must be
    /// durable before.
    evicts: Option<(PageId, u64)>,
    /// File that the connection extends.
    pub(super) grows: Option<u8>,
    /// End of the transaction's records in the log, if it has changed anything (`u64::MAX` until
    /// its commit); then the end of its events in the binary log.
    pub(super) end: Option<u64>,
    logged: Option<u64>,
}

/// Outcome of a step.
enum Go {
    On,
    Wait,
    Pause,
    Over,
}

impl From<bool> for Go {
    fn from(on: bool) -> Self {
        if on { Self::On } else { Self::Wait }
    }
}

impl InnoDb {
    pub(super) fn client_turn(&mut self, thread: ThreadId) -> Turn {
        let index = thread.0 as usize;
        loop {
            if self.is_over() {
                return self.leave(thread);
            }
            if !self.ready {
                return self.parking.park(thread);
            }
            self.tick();
            match self.clients[index].job.next() {
                Some(Todo::Call(call)) => return Turn::now(call),
                Some(Todo::Effect(effect)) => {
                    self.apply(effect);
                    continue;
                }
                None => {}
            }
            let go = if let Some((page, to)) = self.clients[index].evicts {
                self.evict(thread, page, to)
            } else if let Some(&touch) = self.clients[index].touches.front() {
                self.touch(thread, touch)
            } else {
                self.step(thread)
            };
            match go {
                Go::On => {}
                Go::Wait => return self.parking.park(thread),
                Go::Pause => return Turn::Pause(STATEMENT),
                Go::Over => return self.leave(thread),
            }
        }
    }

    /// Ends the transaction in progress and begins another one.
    fn begin(&mut self, index: usize) -> Go {
        if let Some((kind, since)) = self.clients[index].begun.take() {
            self.finished.push((kind.name(), self.now.since(since)));
        }
        if self.is_closed() {
            return Go::Over;
        }
        self.left -= 1;
        self.clients[index].end = None;
        let rng = &mut self.rngs[index];
        let kind = Kind::draw(rng);
        let mut terminal = Terminal {
            rng,
            population: &self.store.population,
            binlog: self.tpcc.binlog,
        };
        self.clients[index].steps = terminal.script(kind).into();
        self.clients[index].begun = Some((kind, self.now));
        Go::On
    }

    fn step(&mut self, thread: ThreadId) -> Go {
        let index = thread.0 as usize;
        let Some(step) = self.clients[index].steps.pop_front() else {
            return self.begin(index);
        };
        let go = match &step {
            Step::Lock(lock) => {
                let mine = self.locks.take(*lock, thread);
                if mine && !self.clients[index].locks.contains(lock) {
                    self.clients[index].locks.push(*lock);
                }
                mine.into()
            }
            Step::Harden => self.harden(thread),
            Step::Log => self.log(thread),
            Step::Release => {
                for lock in std::mem::take(&mut self.clients[index].locks) {
                    if let Some(next) = self.locks.release(lock) {
                        self.parking.wake(next);
                    }
                }
                Go::On
            }
            other => self.make(thread, other),
        };
        // A step that had to wait, or queued calls, is tried again.
        let again = matches!(go, Go::Wait) || !self.clients[index].job.is_empty();
        if again {
            self.clients[index].steps.push_front(step);
        }
        go
    }

    /// Makes a step that touches pages, once files and log have room for its changes.
    fn make(&mut self, thread: ThreadId, step: &Step) -> Go {
        let index = thread.0 as usize;
        if let Some(space) = self.store.needs_room(step) {
            return self.grow(thread, space);
        }
        let changes = !matches!(
            step,
            Step::Read(_) | Step::LastOrder(..) | Step::Deliver(_) | Step::Recent(_)
        );
        if changes && self.must_stall() {
            self.for_log.push(thread);
            self.wake_cleaner();
            return Go::Wait;
        }
        let (touches, then) = self.store.step(index, step);
        let client = &mut self.clients[index];
        if touches.iter().any(|touch| touch.redo > 0) {
            // The end is known once all records are written.
            client.end = Some(u64::MAX);
        }
        client.touches.extend(touches);
        for step in then.into_iter().rev() {
            client.steps.push_front(step);
        }
        match step {
            Step::Read(_) | Step::Update(..) | Step::InsertOrder(..) => Go::Pause,
            Step::InsertOpen(_) | Step::InsertLine(_) | Step::InsertHistory => Go::Pause,
            _ => Go::On,
        }
    }

    /// Extends a file, or waits for the connection that does. New pages are written as zeros.
    //= mysql 14.12
    fn grow(&mut self, thread: ThreadId, space: u8) -> Go {
        let file = &mut self.store.spaces[usize::from(space)];
        if std::mem::replace(&mut file.grows, true) {
            self.for_growth.push(thread);
            return Go::Wait;
        }
        let (at, pages, fd) = (u64::from(file.pages) * PAGE, file.growth(), fd_of(space));
        let (bytes, chunk) = (u64::from(pages) * PAGE, u64::from(EXTENT) * PAGE);
        let client = &mut self.clients[thread.0 as usize];
        let call = |at, len| Call::Pwrite { fd, at, len };
        client.job.chunks(at, bytes, chunk, call);
        client.job.call(Call::Fsync { fd });
        client.job.effect(Effect::Grown(space, pages));
        client.grows = Some(space);
        Go::On
    }

    fn touch(&mut self, thread: ThreadId, touch: Touch) -> Go {
        let Touch { page, redo } = touch;
        match self.pool.io(page) {
            None => return self.fetch(thread, page),
            Some(Io::Reading) => return self.wait_for(thread, page),
            Some(Io::Writing) if redo > 0 => return self.wait_for(thread, page),
            Some(Io::None | Io::Writing) => {}
        }
        self.pool.touch(page, self.now);
        if redo > 0 {
            let (start, end) = self.redo.append(redo);
            self.pool.change(page, start, end);
            self.store.fresh.remove(&page);
        }
        self.clients[thread.0 as usize].touches.pop_front();
        Go::On
    }

    fn wait_for(&mut self, thread: ThreadId, page: PageId) -> Go {
        self.for_page.entry(page).or_default().push(thread);
        Go::Wait
    }

    /// Gives `page` a frame and reads it, unless nothing has been written to it yet. A dirty victim
    /// is written before its frame is reused.
    fn fetch(&mut self, thread: ThreadId, page: PageId) -> Go {
        if !self.pool.has_room() {
            match self.pool.victim() {
                Some(Victim::Clean(other)) => self.pool.remove(other),
                Some(Victim::Dirty(other)) if self.slots.contains(&false) => {
                    let to = self.pool.begin_write(other);
                    self.clients[thread.0 as usize].evicts = Some((other, to));
                    self.cleaner.tail = true;
                    self.wake_cleaner();
                    return Go::On;
                }
                _ => {
                    self.for_frame.push(thread);
                    return Go::Wait;
                }
            }
        }
        if self.store.fresh.contains(&page) {
            self.pool.insert(page, Io::None, self.now);
            return Go::On;
        }
        self.pool.insert(page, Io::Reading, self.now);
        let job = &mut self.clients[thread.0 as usize].job;
        job.call(Call::Pread {
            fd: fd_of(page.space),
            at: page.offset(),
            len: PAGE,
        });
        job.effect(Effect::Loaded(page));
        Go::On
    }

    /// Writes one dirty page: first its log, then its copy in the doublewrite buffer, then the
    /// page.
    //= innodb 3
    fn evict(&mut self, thread: ThreadId, page: PageId, to: u64) -> Go {
        let index = thread.0 as usize;
        match self.redo.stream.want(thread, to, false) {
            Want::Wait => return Go::Wait,
            Want::Lead => {
                self.clients[index].job = self.log_job(true);
                return Go::On;
            }
            Want::Nothing => {}
        }
        let Some(slot) = self.slots.iter().position(|used| !used) else {
            self.for_frame.push(thread);
            return Go::Wait;
        };
        self.slots[slot] = true;
        let (fd, at, len) = (fd_of(page.space), page.offset(), PAGE);
        let mut job = Work::default();
        if self.tpcc.doublewrite {
            let fd = fd_of(SYSTEM);
            let at = u64::from(SLOTS + slot as u32) * PAGE;
            job.call(Call::Pwrite { fd, at, len });
            job.call(Call::Fsync { fd });
        }
        job.call(Call::Pwrite { fd, at, len });
        job.call(Call::Fsync { fd });
        job.effect(Effect::Placed(page, slot));
        self.clients[index].job = job;
        self.clients[index].evicts = None;
        Go::On
    }

    /// Waits until the transaction's log is as durable as the commit mode demands.
    fn harden(&mut self, thread: ThreadId) -> Go {
        let index = thread.0 as usize;
        let all = self.redo.stream.end;
        let Some(end) = self.clients[index].end.as_mut() else {
            return Go::On;
        };
        *end = all.min(*end);
        let (to, durable) = (*end, self.commits_durably());
        if self.tpcc.commit == Commit::Later {
            return Go::On;
        }
        match self.redo.stream.want(thread, to, !durable) {
            Want::Wait => Go::Wait,
            Want::Lead => {
                self.clients[index].job = self.log_job(durable);
                Go::On
            }
            Want::Nothing => Go::On,
        }
    }

    /// Waits until the transaction is durable in the binary log (`sync_binlog=1`).
    //= mysql 16.4
    fn log(&mut self, thread: ThreadId) -> Go {
        let index = thread.0 as usize;
        let events = self.store.take_events(index);
        if events > 0 {
            self.binlog.end += events;
            self.clients[index].logged = Some(self.binlog.end);
        }
        let Some(to) = self.clients[index].logged else {
            return Go::On;
        };
        match self.binlog.want(thread, to, false) {
            Want::Wait => Go::Wait,
            Want::Lead => {
                let (fd, end) = (BINLOG, self.binlog.end);
                let len = end - self.binlog.written;
                let job = &mut self.clients[index].job;
                job.call(Call::Write { fd, len });
                job.call(Call::Fdatasync { fd });
                job.effect(Effect::Binlogged(end));
                Go::On
            }
            Want::Nothing => {
                self.clients[index].logged = None;
                Go::On
            }
        }
    }
}

/// Descriptor of the file of pages `space`.
pub(super) const fn fd_of(space: u8) -> Fd {
    Fd(space as u32)
}
