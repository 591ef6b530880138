//! The gate: counts the threads inside this library. A fork waits until no thread is inside, so
//! that the child finds no lock held by a thread that it does not have; and a signal handler learns
//! whether it interrupted its own thread in here.
//!
//! Invariants:
//! - Locks of this library are taken only inside the gate, or over the fork itself.
//! - A thread that is inside is not held up by a closed gate when it enters again.
//! - While a thread is counted its handlers are refused, and they never wait: they may have
//!   interrupted any instruction, and might wait for the thread that they interrupted.
//! - Threads count at places of their own cache lines, shared only if there are more threads than
//!   places. Entering and leaving cost two atomic exchanges.
//! - No handler jumps out of a call that it interrupted in here.
//! - An allocator that holds its own lock never waits here, as a fork waits for that lock: calls on
//!   files that are not placed do not enter.

use super::image;
use crate::preload::{raw, start, thread};
use crate::sys;
use libc::pid_t;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, compiler_fence};

/// Number of counters; threads are assigned to them in turn.
const PLACES: usize = 64;

#[repr(align(64))]
struct Place(AtomicU32);

static WITHIN: [Place; PLACES] = [const { Place(AtomicU32::new(0)) }; PLACES];
static NEXT: AtomicU32 = AtomicU32::new(0);

/// 1 while a thread forks, else 0.
static CLOSED: AtomicU32 = AtomicU32::new(0);

/// Longest time in ns that a thread waits for a fork. The fork may itself wait for a lock of the C
/// library that the waiting thread holds, such as that of all streams or of the allocator. This
/// cannot be detected; after this time the thread enters, at the risk that the child finds one of
/// our locks held.
const PATIENCE: u64 = 2_000_000_000;

/// Time in ns of a fork's first attempt to close the gate. After it, the fork opens the gate,
/// releases all its locks and tries again with twice the time.
const TURN: u64 = 50_000_000;

/// Whether this program has ever saved a jump target (`setjmp`).
static JUMPS: AtomicBool = AtomicBool::new(false);

/// Signals that are never blocked: faults of this thread, which cannot wait, and the two by which
/// the C library stops threads.
const PRESSING: [libc::c_int; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    32,
    33,
];

/// Guard: blocks signals while it lives, if the program jumps. A handler that jumps out of a call
/// would leave locks, a lease and a gap in the ring behind, and nothing could repair that. A thread
/// jumps only to a target that it saved, so programs that never save one pay nothing for this, and
/// others two system calls for each call on a placed file.
struct Signals(Option<u64>);

/// Sets the signal mask of this thread; returns the previous one.
fn mask(set: u64) -> u64 {
    let mut before = 0_u64;
    let (to, from) = (&raw const set as usize, &raw mut before as usize);
    let how = libc::SIG_SETMASK as usize;
    raw::call(libc::SYS_rt_sigprocmask, [how, to, from, 8, 0, 0]);
    before
}

impl Signals {
    #[inline]
    fn hold() -> Self {
        let pressing = || PRESSING.iter().fold(0, |set, it| set | 1_u64 << (it - 1));
        Self(JUMPS.load(Ordering::Relaxed).then(|| mask(!pressing())))
    }
}

impl Drop for Signals {
    #[inline]
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            mask(before);
        }
    }
}

/// Notes that the program saves a jump target; always returns `true`.
pub(super) fn jumps() -> bool {
    JUMPS.store(true, Ordering::Relaxed);
    true
}

/// Guard: this thread is inside the gate while it lives.
pub(super) struct Within {
    /// Restores the signal mask, after the thread has left the gate.
    _signals: Option<Signals>,
}

fn own() -> &'static AtomicU32 {
    let place = &thread::own().place;
    if place.get() == 0 {
        place.set(NEXT.fetch_add(1, Ordering::Relaxed) % PLACES as u32 + 1);
    }
    &WITHIN[place.get() as usize - 1].0
}

/// Nesting depth of this thread in the gate; 0 is outside.
#[inline]
fn depth() -> u32 {
    thread::own().depth.get()
}

#[inline]
fn set_depth(depth: u32) {
    thread::own().depth.set(depth);
}

/// Runs `work` with this thread marked as inside, so that calls of signal handlers on placed files
/// are refused. It does not pass the gate: it never waits, and no fork waits for it.
#[inline]
pub(super) fn undisturbed<T>(work: impl FnOnce() -> T) -> T {
    set_depth(depth() + 1);
    compiler_fence(Ordering::SeqCst);
    let done = work();
    compiler_fence(Ordering::SeqCst);
    set_depth(depth() - 1);
    done
}

#[inline]
pub(super) fn is_inside() -> bool {
    depth() > 0
}

#[inline]
pub(super) fn enter() -> Within {
    let outer = !is_inside();
    let signals = outer.then(Signals::hold);
    if !outer {
        set_depth(depth() + 1);
    } else if !is_let_in(false) {
        waits();
    }
    Within { _signals: signals }
}

/// Waits until the gate lets this thread in.
#[cold]
fn waits() {
    let begin = raw::now();
    while !is_let_in(raw::now().saturating_sub(begin) > PATIENCE) {
        sys::wait(&CLOSED, 1, 20);
        if image::is_unseen() {
            // The thread that closed the gate is in the parent process.
            CLOSED.store(0, Ordering::SeqCst);
        }
    }
}

/// Counts this thread as inside, unless the gate is closed and it must not enter `all_the_same`. A
/// handler that interrupts this finds its thread inside.
#[inline]
fn is_let_in(all_the_same: bool) -> bool {
    let own = own();
    set_depth(1);
    own.fetch_add(1, Ordering::SeqCst);
    let goes_in = all_the_same || CLOSED.load(Ordering::SeqCst) == 0;
    if !goes_in {
        own.fetch_sub(1, Ordering::SeqCst);
        set_depth(0);
    }
    goes_in
}

impl Drop for Within {
    #[inline]
    fn drop(&mut self) {
        let depth = depth() - 1;
        if depth == 0 {
            own().fetch_sub(1, Ordering::AcqRel);
        }
        set_depth(depth);
    }
}

/// Runs `work` inside the gate with signals blocked on this thread.
pub(super) fn quiet<T>(work: impl FnOnce() -> T) -> T {
    start::quiet(|| {
        let _within = enter();
        work()
    })
}

/// Resets all counters in a child: threads that were inside belong to the parent.
fn reset_in_child() {
    for place in &WITHIN {
        place.0.store(0, Ordering::SeqCst);
    }
}

/// Resets the gate in a child process, in which this thread is the only one.
pub(super) fn is_alone() {
    reset_in_child();
    own().store(u32::from(is_inside()), Ordering::SeqCst);
    CLOSED.store(0, Ordering::SeqCst);
}

/// Forks by `work` while no other thread is inside; none enters before [`PATIENCE`] is over.
/// `first` takes the locks that the fork needs. They are released again after each failed attempt
/// to close the gate, as a thread inside may wait for them. If the program saves jump targets, all
/// signals are blocked until the end; else handlers are refused. Must not be called inside: the
/// code that a handler interrupted may hold a lock that `work` needs.
pub(super) fn still<L>(first: impl Fn() -> L, work: impl FnOnce(L) -> pid_t) -> pid_t {
    let _signals = Signals::hold();
    // From here on, handlers that interrupt this thread, and fork handlers of the program, find it
    // inside and are refused.
    set_depth(depth() + 1);
    let mut turn = TURN;
    let had = loop {
        let had = first();
        if closes(turn) {
            break had;
        }
        drop(had);
        sys::wait(&AtomicU32::new(0), 0, 1);
        // Threads may stay inside for long, one after the other, while they sync files.
        turn = turn.saturating_mul(2);
    };
    let me = raw::id(libc::SYS_getpid);
    let child = work(had);
    if is_child(child, me) {
        reset_in_child();
    }
    opens();
    set_depth(depth() - 1);
    child
}

/// Whether this is the child of the process `me`, in which a fork returned `answer`. `daemon` may
/// fail in the child, and the child of a new PID namespace may have the number of its parent.
pub(super) fn is_child(answer: pid_t, me: u32) -> bool {
    answer == 0 || raw::id(libc::SYS_getpid) != me
}

/// Closes the gate and returns `true`; opens it again and returns `false` if a thread stays inside
/// for longer than `turn` ns.
fn closes(turn: u64) -> bool {
    let begin = raw::now();
    let waits = || raw::now().saturating_sub(begin) < turn;
    let (one, other) = (Ordering::SeqCst, Ordering::Relaxed);
    while CLOSED.compare_exchange(0, 1, one, other).is_err() {
        if !waits() {
            return false;
        }
        sys::yields();
    }
    let is_within = |place: &Place| place.0.load(Ordering::SeqCst) > 0;
    while WITHIN.iter().any(is_within) {
        if !waits() {
            opens();
            return false;
        }
        sys::yields();
    }
    true
}

fn opens() {
    CLOSED.store(0, Ordering::SeqCst);
    sys::wake(&CLOSED);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::RecvTimeoutError;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// Lock of the tests: there is one gate, so they run one at a time.
    fn alone() -> MutexGuard<'static, ()> {
        static ONE: Mutex<()> = Mutex::new(());
        ONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[test]
    fn no_other_thread_is_inside_during_a_fork() {
        let _alone = alone();
        let (inside, stop) = (AtomicU32::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let _within = enter();
                        let _deeper = enter();
                        assert!(is_inside());
                        inside.fetch_add(1, Ordering::SeqCst);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
            for _ in 0..200 {
                still(nothing, |()| {
                    for _ in 0..20 {
                        assert_eq!(inside.load(Ordering::SeqCst), 0);
                    }
                    assert!(is_inside(), "what is done there is told so");
                    1
                });
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(!is_inside());
    }

    fn nothing() {}

    /// Runs `work`, and aborts after a minute, as its threads then wait for each other.
    fn in_time(work: impl FnOnce()) {
        let (ends, ended) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let minute = std::time::Duration::from_secs(60);
                if ended.recv_timeout(minute) == Err(RecvTimeoutError::Timeout) {
                    eprintln!("threads wait for each other");
                    std::process::abort();
                }
            });
            work();
            drop(ends);
        });
    }

    /// A signal handler that enters the gate as a placed call does.
    extern "C" fn handles(_: libc::c_int) {
        if !is_inside() {
            drop(enter());
        }
    }

    #[test]
    fn signal_handlers_that_enter_do_not_deadlock_with_forks() {
        let _alone = alone();
        // SAFETY: the handler takes no lock and does not allocate.
        unsafe { libc::signal(libc::SIGUSR2, handles as *const () as libc::sighandler_t) };
        let (stop, senders) = (AtomicBool::new(false), AtomicU32::new(2));
        in_time(|| {
            std::thread::scope(|scope| {
                let (stop, senders) = (&stop, &senders);
                for _ in 0..2 {
                    let (says, said) = std::sync::mpsc::channel();
                    scope.spawn(move || {
                        // SAFETY: the call has no arguments.
                        says.send(unsafe { libc::pthread_self() }).unwrap();
                        while senders.load(Ordering::SeqCst) > 0 {
                            drop(enter());
                        }
                    });
                    let who = said.recv().unwrap();
                    scope.spawn(move || {
                        while !stop.load(Ordering::SeqCst) {
                            // SAFETY: the thread runs until all senders have stopped.
                            unsafe { libc::pthread_kill(who, libc::SIGUSR2) };
                        }
                        senders.fetch_sub(1, Ordering::SeqCst);
                    });
                }
                for _ in 0..3000 {
                    still(nothing, |()| 1);
                }
                stop.store(true, Ordering::SeqCst);
            });
        });
    }

    #[test]
    fn fork_releases_its_locks_to_a_thread_inside_that_waits_for_them() {
        let _alone = alone();
        let (needed, within) = (Mutex::new(()), AtomicBool::new(false));
        in_time(|| {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let _within = enter();
                    within.store(true, Ordering::SeqCst);
                    while CLOSED.load(Ordering::SeqCst) == 0 {
                        sys::yields();
                    }
                    drop(needed.lock().unwrap());
                });
                while !within.load(Ordering::SeqCst) {
                    sys::yields();
                }
                still(|| needed.lock().unwrap(), |_needed| 1);
            });
        });
    }

    #[test]
    fn fork_succeeds_among_threads_that_stay_inside_for_long() {
        let _alone = alone();
        let stop = AtomicBool::new(false);
        in_time(|| {
            std::thread::scope(|scope| {
                for turn in 0..3 {
                    let stop = &stop;
                    scope.spawn(move || {
                        std::thread::sleep(std::time::Duration::from_millis(turn * 70));
                        while !stop.load(Ordering::SeqCst) {
                            let _within = enter();
                            std::thread::sleep(std::time::Duration::from_millis(200));
                        }
                    });
                }
                std::thread::sleep(std::time::Duration::from_millis(150));
                still(nothing, |()| 1);
                stop.store(true, Ordering::SeqCst);
            });
        });
    }

    #[test]
    fn thread_enters_after_the_limit_if_the_fork_waits_for_it() {
        let _alone = alone();
        let came = AtomicBool::new(false);
        in_time(|| {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while CLOSED.load(Ordering::SeqCst) == 0 {
                        sys::yields();
                    }
                    drop(enter());
                    came.store(true, Ordering::SeqCst);
                });
                // Like a fork that needs a lock which the other thread holds.
                still(nothing, |()| {
                    while !came.load(Ordering::SeqCst) {
                        sys::yields();
                    }
                    1
                });
            });
        });
        assert_eq!(CLOSED.load(Ordering::SeqCst), 0, "it is open again");
    }
}
