//! What the thread of a simulation listens to beside requests of other threads: files that
//! are read and written without waiting, such as sockets.
//!
//! Invariants: a source has its turn when its file is ready for what it waits for, and when
//! somebody has called it, and at no other time, but once if its other end is gone; a source
//! that leaves is dropped and has no turn again; whoever sends a request wakes the thread if it
//! sleeps, and makes no system call if it does not.

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

/// Files that are ready, as many as are looked at together.
const READY: usize = 64;
/// What an event of the waking file carries; sources have larger numbers.
const WAKE: u64 = 0;

/// What a source does after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It waits until its file can be read or written, or until it is called.
    Wait {
        /// Whether for bytes to read.
        read: bool,
        /// Whether for room to write.
        write: bool,
    },
    /// It is over.
    Leave,
}

/// A file of the outside with bytes for the simulation.
pub trait Source {
    /// The file, the same one always.
    fn file(&self) -> BorrowedFd<'_>;

    /// Takes in what has come and sends what waits, without waiting for either. If it has its
    /// turn because somebody has called it, nothing `has_come`, and if something has, that is
    /// another turn.
    fn turn(&self, has_come: bool) -> Next;
}

/// Wakes the thread.
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

    /// To be called after something was sent.
    pub(crate) fn wake(&self) {
        // Either this sees that the thread is about to sleep, or the thread what was sent.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::SeqCst) {
            // A counter that is full wakes as well.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }
}

/// The files of a reactor that is not on its thread yet.
pub(crate) struct Files {
    epoll: OwnedFd,
    wake: Arc<Wake>,
}

impl Files {
    /// # Errors
    /// If the system gives none.
    pub(crate) fn new() -> io::Result<Self> {
        let (epoll, wake) = (epoll::create(CreateFlags::CLOEXEC)?, Wake::new()?);
        // Each write is an edge: the counter need not be read.
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

/// A source, and what it waits for.
struct Entry {
    source: Rc<dyn Source>,
    caller: Rc<Caller>,
    read: bool,
    write: bool,
}

/// Has a source have a turn.
pub struct Caller {
    number: u64,
    called: Cell<bool>,
    reactor: Weak<Reactor>,
}

impl Caller {
    /// Once before the thread sleeps, however often this is called until then.
    pub fn call(&self) {
        if let (false, Some(reactor)) = (self.called.replace(true), self.reactor.upgrade()) {
            reactor.called.borrow_mut().push(self.number);
        }
    }
}

/// Knows the sources and gives them their turns.
pub(crate) struct Reactor {
    files: Files,
    sources: RefCell<BTreeMap<u64, Entry>>,
    /// The number of the last source.
    last: Cell<u64>,
    called: RefCell<Vec<u64>>,
    /// When what comes in a turn has come.
    arrived: Cell<Arrived>,
    /// When it was last seen what has come.
    looked: Cell<Ns>,
}

/// A wait that is shorter was none: what was waited for had come before.
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

    /// When what comes now has come.
    pub(crate) fn arrived(&self) -> Arrived {
        self.arrived.get()
    }

    /// Takes in the source that `make` makes, if it makes one.
    ///
    /// # Errors
    /// If the system takes no more; the source is dropped.
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

    /// Gives everyone who was called a turn, also who is called meanwhile; `before` is told of
    /// each.
    pub(crate) fn turn_called(&self, mut before: impl FnMut()) {
        loop {
            // Whoever has a turn may call others: nothing is borrowed meanwhile.
            let next = self.called.borrow_mut().pop();
            let Some(number) = next else { return };
            before();
            self.turn(number, |source| source.turn(false));
        }
    }

    /// Gives turns to whoever is ready, and has `now` told when that was: at once, or when
    /// someone is or the thread is woken, or after `patience`, if it is not for ever.
    fn listen(&self, patience: Option<Duration>, now: impl FnOnce() -> Ns) {
        let is_look = patience == Some(Duration::ZERO);
        let patience = patience.and_then(|patience| Timespec::try_from(patience).ok());
        let none = Event {
            flags: EventFlags::empty(),
            data: EventData::new_u64(WAKE),
        };
        let mut ready = [none; READY];
        let begun = Instant::now();
        // A signal is no reason to do anything.
        let count = epoll::wait(&self.files.epoll, &mut ready, patience.as_ref()).unwrap_or(0);
        let taken = now();
        // What is there at once may have come since the last look.
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

    /// Gives turns to who is ready at once, if there is anyone at all.
    pub(crate) fn look(&self, now: impl FnOnce() -> Ns) {
        if !self.sources.borrow().is_empty() {
            self.listen(Some(Duration::ZERO), now);
        }
    }

    /// Sleeps until somebody is ready or wakes the thread, or for `patience`. `is_idle` says
    /// once more whether there is nothing to do.
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
            // A file that cannot be taken out is closed soon.
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
            // Whose other end is gone is told so whatever it waits for: if it is for nothing, once
            // has to be enough.
            flags.set(EventFlags::ET, !read && !write);
            let data = EventData::new_u64(number);
            epoll::modify(&self.files.epoll, source.file(), data, flags)
                .expect("what is listened to can be listened to for something else");
        }
    }

    /// Drops every source.
    pub(crate) fn clear(&self) {
        let sources = std::mem::take(&mut *self.sources.borrow_mut());
        drop(sources);
    }
}
