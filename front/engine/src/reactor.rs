//! Event loop of the engine's thread: polls files such as sockets, beside the requests of other
//! threads.
//!
//! Invariants: a source gets a turn when its file is ready for the events it waits for, or after a
//! call of its [`Caller`]; a source that waits for nothing gets one turn when its peer closes. A
//! source that leaves is dropped and gets no further turn. A sender wakes the thread if it sleeps,
//! and makes no system call otherwise.

use crate::thread::Arrived;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::{Duration, Instant};
use units::Ns;

/// Most events that one poll returns.
const READY: usize = 64;
/// Event data of the wake-up file; sources have larger numbers.
const WAKE: u64 = 0;

/// Result of a turn of a [`Source`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Waits until the file is ready or the source is called.
    Wait {
        /// Wait until the file is readable.
        read: bool,
        /// Wait until the file is writable.
        write: bool,
    },
    /// Removes and drops the source.
    Leave,
}

/// A non-blocking file that the engine's thread polls, such as a socket.
pub trait Source {
    /// File to poll; must be the same one in each call.
    fn file(&self) -> BorrowedFd<'_>;

    /// Reads and writes without blocking. `has_come` is true for a turn after a poll event, and
    /// false for a turn after [`Caller::call`]; an event then causes a turn of its own.
    fn turn(&self, has_come: bool) -> Next;
}

/// Wakes the engine's thread through an eventfd.
pub(crate) struct Wake {
    event: OwnedFd,
    asleep: AtomicBool,
}

impl Wake {
    fn new() -> io::Result<Self> {
        Ok(Self {
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            asleep: AtomicBool::new(false),
        })
    }

    /// Wakes the thread if it sleeps. Call this after sending a request.
    pub(crate) fn wake(&self) {
        // Either this load sees that the thread is about to sleep, or the thread sees the request.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::SeqCst) {
            // A write to a full counter fails, but the thread is woken by the earlier ones.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }
}

/// Epoll and wake-up files of a reactor, created before its thread starts.
pub(crate) struct Files {
    epoll: OwnedFd,
    wake: Arc<Wake>,
}

impl Files {
    /// # Errors
    /// If the files cannot be created.
    pub(crate) fn new() -> io::Result<Self> {
        let (epoll, wake) = (epoll::create(CreateFlags::CLOEXEC)?, Wake::new()?);
        // Edge-triggered: each write is an event, so that the counter need not be read.
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, &wake.event, EventData::new_u64(WAKE), flags)?;
        Ok(Self {
            epoll,
            wake: Arc::new(wake),
        })
    }

    pub(crate) fn wake(&self) -> Arc<Wake> {
        Arc::clone(&self.wake)
    }
}

/// A source and the events that it waits for.
struct Entry {
    source: Rc<dyn Source>,
    caller: Rc<Caller>,
    read: bool,
    write: bool,
}

/// Requests a turn of one source.
pub struct Caller {
    number: u64,
    called: Cell<bool>,
    reactor: Weak<Reactor>,
}

impl Caller {
    /// Queues one turn before the thread sleeps next; repeated calls until then have no effect.
    pub fn call(&self) {
        if let (false, Some(reactor)) = (self.called.replace(true), self.reactor.upgrade()) {
            reactor.called.borrow_mut().push(self.number);
        }
    }
}

/// Owns the sources and gives them their turns.
pub(crate) struct Reactor {
    files: Files,
    sources: RefCell<BTreeMap<u64, Entry>>,
    /// Number of the last source that was added.
    last: Cell<u64>,
    called: RefCell<Vec<u64>>,
    /// Arrival of the requests of the current turn.
    arrived: Cell<Arrived>,
    /// Time of the last poll.
    looked: Cell<Ns>,
}

/// A poll that returns faster did not wait: its events had happened before.
const NO_WAIT: Duration = Duration::from_micros(10);

impl Reactor {
    pub(crate) fn new(files: Files) -> Rc<Self> {
        Rc::new(Self {
            files,
            sources: RefCell::default(),
            last: Cell::new(WAKE),
            called: RefCell::default(),
            arrived: Cell::new(Arrived {
                taken: Ns::ZERO,
                asked: Ns::ZERO,
            }),
            looked: Cell::new(Ns::ZERO),
        })
    }

    /// Arrival of the requests of the current turn.
    pub(crate) fn arrived(&self) -> Arrived {
        self.arrived.get()
    }

    /// Adds the source that `make` returns, and queues a first turn of it.
    ///
    /// # Errors
    /// If `make` fails, or if the file cannot be polled; the source is dropped then.
    pub(crate) fn attach<S: Source + 'static>(
        self: &Rc<Self>,
        make: impl FnOnce(Rc<Caller>) -> io::Result<Rc<S>>,
    ) -> io::Result<Rc<S>> {
        let number = self.last.get() + 1;
        self.last.set(number);
        let caller = Rc::new(Caller {
            number,
            called: Cell::new(false),
            reactor: Rc::downgrade(self),
        });
        let source = make(Rc::clone(&caller))?;
        let (epoll, data) = (&self.files.epoll, EventData::new_u64(number));
        epoll::add(epoll, source.file(), data, EventFlags::IN)?;
        let entry = Entry {
            source: Rc::clone(&source) as Rc<dyn Source>,
            caller: Rc::clone(&caller),
            read: true,
            write: false,
        };
        self.sources.borrow_mut().insert(number, entry);
        caller.call();
        Ok(source)
    }

    /// Gives a turn to each called source, including those called meanwhile; runs `before` ahead of
    /// each turn.
    pub(crate) fn turn_called(&self, mut before: impl FnMut()) {
        loop {
            // A turn may call other sources: no borrow is held during it.
            let next = self.called.borrow_mut().pop();
            let Some(number) = next else { return };
            before();
            self.turn(number, |source| source.turn(false));
        }
    }

    /// Polls for up to `patience` (none: without limit) and gives a turn to each ready source.
    /// `now` reads the clock when the poll returns.
    fn listen(&self, patience: Option<Duration>, now: impl FnOnce() -> Ns) {
        let is_look = patience == Some(Duration::ZERO);
        let patience = patience.and_then(|patience| Timespec::try_from(patience).ok());
        let none = Event {
            flags: EventFlags::empty(),
            data: EventData::new_u64(WAKE),
        };
        let mut ready = [none; READY];
        let begun = Instant::now();
        // An interrupted poll counts as one without events.
        let count = epoll::wait(&self.files.epoll, &mut ready, patience.as_ref()).unwrap_or(0);
        let taken = now();
        // Events that a poll returns at once may have happened since the last poll.
        let asked = match is_look || begun.elapsed() < NO_WAIT {
            true => self.looked.get().min(taken),
            false => taken,
        };
        self.arrived.set(Arrived { taken, asked });
        self.looked.set(taken);
        for event in &ready[..count] {
            self.turn(event.data.u64(), |source| source.turn(true));
        }
    }

    /// Gives a turn to each ready source without waiting; no system call if there is no source.
    pub(crate) fn look(&self, now: impl FnOnce() -> Ns) {
        if !self.sources.borrow().is_empty() {
            self.listen(Some(Duration::ZERO), now);
        }
    }

    /// Sleeps until a source is ready, the thread is woken or `patience` has passed. Does not sleep
    /// if `is_idle` returns false, which is checked after the thread is marked asleep.
    pub(crate) fn sleep(
        &self,
        patience: Option<Duration>,
        now: impl FnOnce() -> Ns,
        is_idle: impl FnOnce() -> bool,
    ) {
        let asleep = &self.files.wake.asleep;
        asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if is_idle() {
            self.listen(patience, now);
        }
        asleep.store(false, Ordering::SeqCst);
    }

    fn turn(&self, number: u64, act: impl FnOnce(&dyn Source) -> Next) {
        let found = self.sources.borrow().get(&number).map(|entry| {
            entry.caller.called.set(false);
            Rc::clone(&entry.source)
        });
        let Some(source) = found else { return };
        let next = act(&*source);
        let mut sources = self.sources.borrow_mut();
        let Some(entry) = sources.get_mut(&number) else {
            return;
        };
        let Next::Wait { read, write } = next else {
            // An error is harmless: the file is about to be closed.
            let _ = epoll::delete(&self.files.epoll, source.file());
            let left = sources.remove(&number);
            drop(sources);
            drop(left);
            return;
        };
        if (entry.read, entry.write) != (read, write) {
            (entry.read, entry.write) = (read, write);
            let mut flags = EventFlags::empty();
            flags.set(EventFlags::IN, read);
            flags.set(EventFlags::OUT, write);
            // The kernel always reports a closed peer. A source that waits for nothing gets this
            // event once, by edge triggering, instead of in every poll.
            flags.set(EventFlags::ET, !read && !write);
            let data = EventData::new_u64(number);
            epoll::modify(&self.files.epoll, source.file(), data, flags)
                .expect("what is listened to can be listened to for something else");
        }
    }

    /// Drops every source; their files are not polled any more.
    pub(crate) fn clear(&self) {
        let sources = std::mem::take(&mut *self.sources.borrow_mut());
        drop(sources);
    }
}
