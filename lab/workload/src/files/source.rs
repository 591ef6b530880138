//! Sources of calls, asked for one call of one thread at a time.
//!
//! A generator's next call depends on the effects of other calls meanwhile: the files that exist,
//! the files that are open, the tables that were compacted. So the driver requests one call of one
//! thread at the virtual time at which that thread is ready, and hands back the result.
//!
//! Invariants:
//! - Between [`Source::next`] that returns a call and [`Source::ended`] the driver makes no other
//!   request for the thread.
//! - A thread that parks is returned by [`Source::wake`] once it can continue.
//! - The calls are a function of the description, the seed and the order of the requests, so they
//!   are equal in each run on one file system.

use super::{Call, Errno, Names, Setup, ThreadId};
use units::Ns;

/// Next action of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Think, then make a call.
    Call {
        /// Think time before the call.
        think: Ns,
        /// Time since the call was due, which its latency includes; 0 unless the workload fixes the
        /// times of its calls.
        late: Ns,
        /// Call to make.
        call: Call,
        /// Recorded result of the call; `None` if there is no recording.
        expect: Option<Result<u64, Errno>>,
    },
    /// Pause for this long, then request the next turn.
    Pause(Ns),
    /// Wait until [`Source::wake`] returns the thread.
    Park,
    /// End: the thread makes no more calls.
    Done,
}

impl Turn {
    /// A call without think time and without a recorded result.
    #[must_use]
    pub const fn now(call: Call) -> Self {
        Self::Call {
            think: Ns::ZERO,
            late: Ns::ZERO,
            call,
            expect: None,
        }
    }
}

/// Generator or recording, as the driver sees it. It is `Send`, since playing its calls as system
/// calls takes several threads.
pub trait Source: Send {
    /// Strings of the calls. A recording may add some while it is read.
    fn names(&self) -> &Names;

    /// Tree that must exist before the first call.
    fn setup(&self) -> &Setup;

    /// Number of threads met so far; they are numbered from 0.
    fn threads(&self) -> u32;

    /// Process of `thread`: threads of one process share record locks.
    fn process(&self, thread: ThreadId) -> u32 {
        thread.0
    }

    /// Next turn of `thread`, which is ready at `now`.
    fn next(&mut self, thread: ThreadId, now: Ns) -> Turn;

    /// Hands back the `result` of `thread`'s call: bytes moved, entries of a directory read, an
    /// offset for a seek, else 0.
    fn ended(&mut self, thread: ThreadId, result: Result<u64, Errno>);

    /// A parked thread that can continue, returned once.
    fn wake(&mut self) -> Option<ThreadId>;

    /// Names of the workloads side by side that the source consists of; empty for a single
    /// workload.
    fn members(&self) -> &[String] {
        &[]
    }

    /// Index into [`Source::members`] of the workload of `thread`; 0 if there are none.
    fn member(&self, _: ThreadId) -> usize {
        0
    }

    /// An operation that ended in the last [`Source::next`], returned once: its kind and its
    /// duration. Only sources whose operations make several calls, such as storage engines, return
    /// any. It belongs to the member whose thread's turn was last.
    fn finished(&mut self) -> Option<(&'static str, Ns)> {
        None
    }

    /// Deviations of the calls from the description or the recording, one sentence each.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Reason of an early end, as a sentence, if there was one.
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

/// Parked, woken and finished threads of a source.
#[derive(Clone, Debug, Default)]
pub(super) struct Parking {
    /// State of each thread, by its number.
    state: Vec<State>,
    /// Threads that are neither parked nor done.
    active: u32,
    /// Threads woken and not yet returned to the driver.
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

    /// Adds an active thread.
    pub(super) fn add(&mut self) {
        self.state.push(State::Active);
        self.active += 1;
    }

    /// Marks `thread` active, since the driver requests its turn.
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

    /// Wakes all parked threads.
    pub(super) fn wake_all(&mut self) {
        for thread in 0..self.state.len() as u32 {
            self.wake(ThreadId(thread));
        }
    }

    /// Whether no thread is active, so that none can wake another.
    pub(super) const fn is_still(&self) -> bool {
        self.active == 0
    }

    /// Takes a woken thread, for [`Source::wake`].
    pub(super) fn next_woken(&mut self) -> Option<ThreadId> {
        self.woken.pop()
    }

    fn set(&mut self, thread: ThreadId, state: State) {
        let before = std::mem::replace(&mut self.state[thread.0 as usize], state);
        self.active -= u32::from(before == State::Active);
        self.active += u32::from(state == State::Active);
    }
}
