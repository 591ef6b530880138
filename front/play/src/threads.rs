//! The threads of a workload as threads of the system.
//!
//! Invariants:
//! - The source is used under one lock, and no call is made under that lock.
//! - A thread parks on [`Turn::Park`] until the source wakes it; if all live threads are parked,
//!   playing fails with [`Failure::StandsStill`].
//! - After a stop, each thread finishes its current call and makes no other.

use crate::open::OpenFiles;
use crate::outcome::{Asked, Outcome, Tally};
use crate::player::Player;
use crate::{Failure, Place};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};
use units::Ns;
use workload::files::{Errno, Source, ThreadId, Turn};

/// Stack size of a thread in bytes; small, because its buffers are on the heap.
const STACK: usize = 256 << 10;

/// Longest pause without think times. A source may repeat pauses until a point in time is
/// reached, so they are shortened rather than left out.
const LET_GO: Ns = Ns::us(100);

/// Timing options of [`play`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether threads keep the think times and pauses of the workload; otherwise each continues at
    /// once.
    pub think: bool,
}

/// Plays `source` in `place` to its end or until `stop` is set. The tree that the source expects
/// must exist ([`crate::prepare`]). The outcome covers the calls made until then.
///
/// # Errors
/// If the source ends early, if all its threads wait for each other, or if the system cannot
/// start a thread.
pub fn play(
    place: &Place,
    source: &mut dyn Source,
    options: Options,
    stop: &AtomicBool,
) -> Result<Outcome, Failure> {
    let stage = Stage {
        place,
        stop,
        open: OpenFiles::default(),
        options,
        began: Instant::now(),
        state: Mutex::new(State::new(source)),
    };
    thread::scope(|scope| stage.settle(scope, &mut stage.lock()));
    stage.outcome()
}

/// State shared by the threads.
struct Stage<'a> {
    place: &'a Place,
    stop: &'a AtomicBool,
    open: OpenFiles,
    options: Options,
    began: Instant,
    state: Mutex<State<'a>>,
}

struct State<'a> {
    source: &'a mut dyn Source,
    /// Threads, indexed by [`ThreadId`].
    threads: Vec<Member>,
    /// Threads that are neither parked nor done.
    active: u32,
    /// Whether playing ends early.
    over: bool,
    failure: Option<Failure>,
    tally: Tally,
}

/// Parking state of a thread; other threads wake it through `bell`.
#[derive(Default)]
struct Member {
    parked: bool,
    bell: Arc<Condvar>,
}

impl<'a> Stage<'a> {
    fn lock(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the threads that the source has added since the last call, and releases parked
    /// threads that it wakes.
    fn settle<'s>(&'s self, scope: &'s Scope<'s, '_>, state: &mut State<'a>) {
        while (state.threads.len() as u32) < state.source.threads() && !state.over {
            let id = ThreadId(state.threads.len() as u32);
            let builder = thread::Builder::new().stack_size(STACK);
            match builder.spawn_scoped(scope, move || self.run(scope, id)) {
                Ok(_) => state.join(),
                Err(error) => {
                    let given = state.threads.len();
                    state.fail(Failure::Threads { given, error });
                }
            }
        }
        state.wake();
    }

    /// Body of a thread: fetches turns from the source and plays them until the thread is done
    /// or playing ends.
    fn run<'s>(&'s self, scope: &'s Scope<'s, '_>, id: ThreadId) {
        let mut player = Player::new(self.place, &self.open, id.0);
        let mut tally = Tally::default();
        let mut state = self.lock();
        while !state.over {
            if self.stop.load(Ordering::Relaxed) {
                state.end();
                break;
            }
            let now = Ns(self.began.elapsed().as_nanos() as u64);
            let turn = state.source.next(id, now);
            self.settle(scope, &mut state);
            state = match turn {
                Turn::Done => break,
                Turn::Park => park(state, id),
                Turn::Pause(time) => {
                    drop(state);
                    self.pause(time);
                    self.lock()
                }
                Turn::Call {
                    think,
                    late,
                    call,
                    expect,
                } => {
                    player.strings.take(&call, state.source.names());
                    drop(state);
                    let asked = Asked {
                        thread: id,
                        call: &call,
                        expect,
                    };
                    let result = self.call(&mut player, &mut tally, (think, late), &asked);
                    let mut state = self.lock();
                    state.source.ended(id, result);
                    state
                }
            };
            self.settle(scope, &mut state);
        }
        state.active -= 1;
        state.notice_stillness();
        state.tally.add(tally);
    }

    /// Sleeps for the think time, plays one call, and counts it with its latency, lateness included.
    fn call(
        &self,
        player: &mut Player<'_>,
        tally: &mut Tally,
        (think, late): (Ns, Ns),
        asked: &Asked<'_>,
    ) -> Result<u64, Errno> {
        if self.options.think && think > Ns::ZERO {
            thread::sleep(Duration::from_nanos(think.0));
        }
        let began = Instant::now();
        let answer = player.play(asked.call);
        let took = began.elapsed() + Duration::from_nanos(late.0);
        let paths = [player.strings.first(), player.strings.second()];
        tally.count(asked, answer, took, paths)
    }

    /// Sleeps for `time`; without think times at most [`LET_GO`], so that other threads run.
    fn pause(&self, time: Ns) {
        let time = match self.options.think {
            true => time,
            false => time.min(LET_GO),
        };
        thread::sleep(Duration::from_nanos(time.0));
    }

    fn outcome(self) -> Result<Outcome, Failure> {
        let elapsed = self.began.elapsed();
        let state = self
            .state
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(failure) = state.source.failure() {
            return Err(Failure::Source(failure));
        }
        if let Some(failure) = state.failure {
            return Err(failure);
        }
        let mut outcome = state.tally.outcome(state.threads.len() as u32, elapsed);
        outcome.notes.extend(state.source.notes());
        Ok(outcome)
    }
}

/// Blocks thread `id` until the source wakes it or playing ends.
fn park<'s, 'a>(mut state: MutexGuard<'s, State<'a>>, id: ThreadId) -> MutexGuard<'s, State<'a>> {
    let index = id.0 as usize;
    let bell = Arc::clone(&state.threads[index].bell);
    state.threads[index].parked = true;
    state.active -= 1;
    state.wake();
    state.notice_stillness();
    while state.threads[index].parked {
        state = bell.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
    state
}

impl<'a> State<'a> {
    fn new(source: &'a mut dyn Source) -> Self {
        Self {
            source,
            threads: Vec::new(),
            active: 0,
            over: false,
            failure: None,
            tally: Tally::default(),
        }
    }

    /// Registers a started thread.
    fn join(&mut self) {
        self.threads.push(Member::default());
        self.active += 1;
    }

    /// Releases the threads that the source wakes.
    fn wake(&mut self) {
        while let Some(id) = self.source.wake() {
            self.release(id.0 as usize);
        }
    }

    fn release(&mut self, index: usize) {
        let member = &mut self.threads[index];
        if std::mem::replace(&mut member.parked, false) {
            self.active += 1;
            member.bell.notify_one();
        }
    }

    fn fail(&mut self, failure: Failure) {
        self.failure = Some(failure);
        self.end();
    }

    /// Ends playing early; releases parked threads so that they end as well.
    fn end(&mut self) {
        self.over = true;
        (0..self.threads.len()).for_each(|index| self.release(index));
    }

    /// Fails with [`Failure::StandsStill`] if threads are left and all of them are parked.
    fn notice_stillness(&mut self) {
        if self.active == 0 && self.threads.iter().any(|member| member.parked) {
            self.fail(Failure::StandsStill);
        }
    }
}
