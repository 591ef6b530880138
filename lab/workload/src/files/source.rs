//! Where calls come from, one thread at a time.
//!
//! What a generator does next depends on what the others have done meanwhile:
//! which files there are, who has one open, what has been compacted. So a
//! source is asked for one call of one thread at the virtual time at which the
//! thread is ready, and is told what the call answered.
//!
//! Invariants:
//! - Between [`Source::next`], which gives a call, and [`Source::ended`] the
//!   thread asks for nothing else.
//! - A thread that parks is given by [`Source::wake`] once it should ask again.
//! - The calls are a function of the description, the seed and the order in
//!   which threads ask, so on one file system they are the same each time.

use super::{Call, Errno, Names, Setup, ThreadId};
use units::Ns;

/// What a thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It thinks, then makes a call.
    Call {
        /// How long it thinks.
        think: Ns,
        /// What it asks for.
        call: Call,
        /// What a recording says that the call answers; none if nobody knows.
        expect: Option<Result<u64, Errno>>,
    },
    /// It does something else for a while, then asks again.
    Pause(Ns),
    /// It waits until [`Source::wake`] gives it.
    Park,
    /// It has nothing more to do.
    Done,
}

impl Turn {
    /// A call at once, of which nobody knows the answer.
    #[must_use]
    pub const fn now(call: Call) -> Self {
        Self::Call {
            think: Ns::ZERO,
            call,
            expect: None,
        }
    }
}

/// A generator or a recording, as the driver sees it. It can be sent to another
/// thread, since playing it as system calls takes several.
pub trait Source: Send {
    /// The strings of its calls. A recording may add some as it is read.
    fn names(&self) -> &Names;

    /// What must be there before the first call.
    fn setup(&self) -> &Setup;

    /// Threads that have been met so far, numbered from 0.
    fn threads(&self) -> u32;

    /// The process of `thread`: threads of one process share its locks.
    fn process(&self, thread: ThreadId) -> u32 {
        thread.0
    }

    /// What `thread`, which is ready at `now`, does next.
    fn next(&mut self, thread: ThreadId, now: Ns) -> Turn;

    /// The call of `thread` answered `result`: bytes for what moves bytes,
    /// entries for a read of a directory, an offset for a seek, else 0.
    fn ended(&mut self, thread: ThreadId, result: Result<u64, Errno>);

    /// A parked thread that should ask again, each once.
    fn wake(&mut self) -> Option<ThreadId>;

    /// The workloads beside each other that it is made of, by name; none if it is one.
    fn members(&self) -> &[String] {
        &[]
    }

    /// Which of [`Source::members`] `thread` is of; 0 if there are none.
    fn member(&self, _: ThreadId) -> usize {
        0
    }

    /// An operation that [`Source::next`] has found to have ended, each once: its kind, and
    /// how long it took. Only of what makes several calls for one, as a storage engine.
    /// It is one of the member whose thread was asked last.
    fn finished(&mut self) -> Option<(&'static str, Ns)> {
        None
    }

    /// What was not taken over as it stands, in sentences.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Why it came to an early end, in a sentence, if it did.
    fn failure(&self) -> Option<String> {
        None
    }
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn names(&self) -> &Names {
        (**self).names()
    }

    fn setup(&self) -> &Setup {
        (**self).setup()
    }

    fn threads(&self) -> u32 {
        (**self).threads()
    }

    fn process(&self, thread: ThreadId) -> u32 {
        (**self).process(thread)
    }

    fn members(&self) -> &[String] {
        (**self).members()
    }

    fn member(&self, thread: ThreadId) -> usize {
        (**self).member(thread)
    }

    fn next(&mut self, thread: ThreadId, now: Ns) -> Turn {
        (**self).next(thread, now)
    }

    fn ended(&mut self, thread: ThreadId, result: Result<u64, Errno>) {
        (**self).ended(thread, result);
    }

    fn wake(&mut self) -> Option<ThreadId> {
        (**self).wake()
    }

    fn finished(&mut self) -> Option<(&'static str, Ns)> {
        (**self).finished()
    }

    fn notes(&self) -> Vec<String> {
        (**self).notes()
    }

    fn failure(&self) -> Option<String> {
        (**self).failure()
    }
}

/// Threads that wait for something, and those that no longer do.
#[derive(Clone, Debug, Default)]
pub(super) struct Parking {
    /// What each thread does, by its number.
    state: Vec<State>,
    /// Threads that are neither parked nor done.
    active: u32,
    /// Woken, not yet given to the driver.
    woken: Vec<ThreadId>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Active,
    Parked,
    Done,
}

impl Parking {
    pub(super) fn new(threads: u32) -> Self {
        Self {
            state: vec![State::Active; threads as usize],
            active: threads,
            woken: Vec::new(),
        }
    }

    /// Adds a thread, which is active.
    pub(super) fn add(&mut self) {
        self.state.push(State::Active);
        self.active += 1;
    }

    /// `thread` asks for its next turn.
    pub(super) fn asks(&mut self, thread: ThreadId) {
        self.set(thread, State::Active);
    }

    pub(super) fn park(&mut self, thread: ThreadId) -> Turn {
        self.set(thread, State::Parked);
        Turn::Park
    }

    pub(super) fn done(&mut self, thread: ThreadId) -> Turn {
        self.set(thread, State::Done);
        Turn::Done
    }

    /// Wakes `thread` if it is parked.
    pub(super) fn wake(&mut self, thread: ThreadId) {
        if self.state[thread.0 as usize] == State::Parked {
            self.set(thread, State::Active);
            self.woken.push(thread);
        }
    }

    /// Wakes all that are parked.
    pub(super) fn wake_all(&mut self) {
        for thread in 0..self.state.len() as u32 {
            self.wake(ThreadId(thread));
        }
    }

    /// Whether no thread will ever do anything again by itself.
    pub(super) const fn is_still(&self) -> bool {
        self.active == 0
    }

    /// For [`Source::wake`].
    pub(super) fn next_woken(&mut self) -> Option<ThreadId> {
        self.woken.pop()
    }

    fn set(&mut self, thread: ThreadId, state: State) {
        let before = std::mem::replace(&mut self.state[thread.0 as usize], state);
        self.active -= u32::from(before == State::Active);
        self.active += u32::from(state == State::Active);
    }
}
