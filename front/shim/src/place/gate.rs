//! Who is within this library: what a fork waits for, so that its child finds no lock that
//! somebody has who is not there, and by which a signal handler knows that it has come upon
//! its own thread in here.
//!
//! Invariants: locks of this library are taken within alone, or over the fork itself; a
//! thread that is within takes no part in what the gate is closed for. While a thread is
//! counted its handlers are told that it is within, and they never wait: they may have come
//! upon any instruction, and what they wait for may wait for whom they have come upon. No
//! thread writes to where another one does, unless they are many: being within costs two
//! exchanges. No handler leaves by a jump what it came upon in here. An allocator that holds a lock
//! of its own never waits here, for a fork waits for that lock: calls on what is no placed file do
//! not come within.

use super::image;
use crate::preload::{raw, start, thread};
use crate::sys;
use libc::pid_t;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, compiler_fence};

/// Places at which threads are counted.
const PLACES: usize = 64;

#[repr(align(64))]
struct Place(AtomicU32);

static WITHIN: [Place; PLACES] = [const { Place(AtomicU32::new(0)) }; PLACES];
static NEXT: AtomicU32 = AtomicU32::new(0);

/// 1 while somebody forks.
static CLOSED: AtomicU32 = AtomicU32::new(0);

/// Longest that somebody waits for a fork, ns. It may wait itself for a lock of the C library
/// that who waits here holds, as of all streams or of the allocator: nobody can tell, and a
/// fork that has waited for so long is let have a child that might find a lock of ours.
const PATIENCE: u64 = 2_000_000_000;

/// Longest that a fork keeps others out while it waits for those within, ns, before it lets go of
/// all and begins anew; twice as long each time.
const TURN: u64 = 50_000_000;

/// Whether this program has kept a place to jump to.
static JUMPS: AtomicBool = AtomicBool::new(false);

/// Signals whose handlers run in here all the same: those of a fault of this thread, which
/// cannot wait, and the two by which the C library stops threads.
const PRESSING: [libc::c_int; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    32,
    33,
];

/// Signals wait while this is there, if the program jumps. A handler that jumps out of a
/// call would leave locks, a lease and a gap in the ring behind, which nobody can put right:
/// to know that a frame is gone does not give back what it held. A thread jumps only to where
/// it has been, so programs that never kept such a place pay nothing for this, and others two
/// calls of the system for each of theirs on a placed file.
struct Signals(Option<u64>);

/// Changes which signals wait; gives those that did.
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

/// The program keeps a place to jump to, as it may.
pub(super) fn jumps() -> bool {
    JUMPS.store(true, Ordering::Relaxed);
    true
}

/// This thread is within as long as this is there.
pub(super) struct Within {
    /// They come once it is not there any more.
    _signals: Option<Signals>,
}

fn own() -> &'static AtomicU32 {
    let place = &thread::own().place;
    if place.get() == 0 {
        place.set(NEXT.fetch_add(1, Ordering::Relaxed) % PLACES as u32 + 1);
    }
    &WITHIN[place.get() as usize - 1].0
}

/// How deep this thread is within.
#[inline]
fn depth() -> u32 {
    thread::own().depth.get()
}

#[inline]
fn set_depth(depth: u32) {
    thread::own().depth.set(depth);
}

/// Does `work`, upon which no handler does anything with a placed file: it is told that it
/// has come upon its own thread in here. Nobody waits, and nobody is waited for.
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

/// Waits until this thread is let in.
#[cold]
fn waits() {
    let begin = raw::now();
    while !is_let_in(raw::now().saturating_sub(begin) > PATIENCE) {
        sys::wait(&CLOSED, 1, 20);
        if image::is_unseen() {
            // Who closed it is in another process.
            CLOSED.store(0, Ordering::SeqCst);
        }
    }
}

/// Has this thread within and counted, unless the gate is closed and it does not go in `all
/// the same`. A handler that comes in between is told that it is within.
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

/// Does `work` within, while no signal is delivered to this thread.
pub(super) fn quiet<T>(work: impl FnOnce() -> T) -> T {
    start::quiet(|| {
        let _within = enter();
        work()
    })
}

/// Nobody is counted who was on the way in or out when this process was forked.
fn forgets_others() {
    for place in &WITHIN {
        place.0.store(0, Ordering::SeqCst);
    }
}

/// No other thread of this process is within: they were those of its parent.
pub(super) fn is_alone() {
    forgets_others();
    own().store(u32::from(is_inside()), Ordering::SeqCst);
    CLOSED.store(0, Ordering::SeqCst);
}

/// Forks by `work` while no other thread is within, nor comes in before [`PATIENCE`] is over, and
/// while this thread has what `first` gives, which is given up again and again for as long as
/// somebody is within: he may wait for it. If the program keeps places to jump to, no handler comes
/// before all of it is over; else one is told that it is within. Not to be called within: what a
/// handler has come upon holds what `work` would wait for.
pub(super) fn still<L>(first: impl Fn() -> L, work: impl FnOnce(L) -> pid_t) -> pid_t {
    let _signals = Signals::hold();
    // A handler that comes upon this thread from now on is told that it is in here, and so is
    // what the program does when it forks.
    set_depth(depth() + 1);
    let mut turn = TURN;
    let had = loop {
        let had = first();
        if closes(turn) {
            break had;
        }
        drop(had);
        sys::wait(&AtomicU32::new(0), 0, 1);
        // Somebody who forces files, and then others who do, may each be within for long.
        turn = turn.saturating_mul(2);
    };
    let me = raw::id(libc::SYS_getpid);
    let child = work(had);
    if is_child(child, me) {
        forgets_others();
    }
    opens();
    set_depth(depth() - 1);
    child
}

/// Whether this is a child of the process `me`, which its fork has answered so. `daemon` may fail
/// in one, and one that begins a namespace may have its parent's number.
pub(super) fn is_child(answer: pid_t, me: u32) -> bool {
    answer == 0 || raw::id(libc::SYS_getpid) != me
}

/// Closes the gate; false, and open, if somebody stays within for so many ns.
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

    /// There is one gate, so one test of it at a time.
    fn alone() -> MutexGuard<'static, ()> {
        static ONE: Mutex<()> = Mutex::new(());
        ONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[test]
    fn nobody_else_is_within_while_all_is_still() {
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

    /// Does `work`, and ends all if it takes for ever: its threads wait for each other.
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

    /// Comes in as a placed call does.
    extern "C" fn handles(_: libc::c_int) {
        if !is_inside() {
            drop(enter());
        }
    }

    #[test]
    fn handlers_keep_nobody_waiting_for_whom_they_come_upon() {
        let _alone = alone();
        // SAFETY: the handler takes no lock and allocates nothing.
        unsafe { libc::signal(libc::SIGUSR2, handles as *const () as libc::sighandler_t) };
        let (stop, senders) = (AtomicBool::new(false), AtomicU32::new(2));
        in_time(|| {
            std::thread::scope(|scope| {
                let (stop, senders) = (&stop, &senders);
                for _ in 0..2 {
                    let (says, said) = std::sync::mpsc::channel();
                    scope.spawn(move || {
                        // SAFETY: it asks for the thread's own name.
                        says.send(unsafe { libc::pthread_self() }).unwrap();
                        while senders.load(Ordering::SeqCst) > 0 {
                            drop(enter());
                        }
                    });
                    let who = said.recv().unwrap();
                    scope.spawn(move || {
                        while !stop.load(Ordering::SeqCst) {
                            // SAFETY: the thread goes on until nobody sends to it.
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
    fn what_a_fork_needs_it_gives_up_to_who_is_within_and_waits_for_it() {
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
    fn a_fork_has_its_turn_among_many_who_are_within_for_long() {
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
    fn nobody_waits_for_ever_for_a_fork_that_waits_for_whom_it_keeps_out() {
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
                // As a fork does that needs a lock which the other one has.
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
