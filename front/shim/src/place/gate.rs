//! Who is within this library: what a fork waits for, so that its child finds no lock that
//! somebody has who is not there, and by which a signal handler knows that it has come upon
//! its own thread in here.
//!
//! Invariants: locks of this library are taken within alone, or over the fork itself; a
//! thread that is within takes no part in what the gate is closed for. While a thread is
//! counted its handlers are told that it is within, and they never wait: they may have come
//! upon any instruction, and what they wait for may wait for whom they have come upon. No
//! thread writes to where another one does, unless they are many: being within costs two
//! exchanges. No handler leaves by a jump what it came upon in here.

use super::image;
use crate::preload::{raw, start};
use crate::sys;
use core::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

/// Places at which threads are counted.
const PLACES: usize = 64;

#[repr(align(64))]
struct Place(AtomicU32);

static WITHIN: [Place; PLACES] = [const { Place(AtomicU32::new(0)) }; PLACES];
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// 1 while somebody forks.
static CLOSED: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// How deep this thread is within.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static OWN: Cell<usize> = const { Cell::new(usize::MAX) };
    /// It is counted for certain: it may be while this is false, for as long as it comes and
    /// goes.
    static COUNTED: Cell<bool> = const { Cell::new(false) };
}

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

/// The program keeps a place to jump to.
pub(super) fn jumps() {
    JUMPS.store(true, Ordering::Relaxed);
}

/// This thread is within as long as this is there.
pub(super) struct Within {
    /// They come once it is not there any more.
    _signals: Option<Signals>,
}

fn own() -> &'static AtomicU32 {
    let mut own = OWN.get();
    if own == usize::MAX {
        own = NEXT.fetch_add(1, Ordering::Relaxed) % PLACES;
        OWN.set(own);
    }
    &WITHIN[own].0
}

#[inline]
pub(super) fn is_inside() -> bool {
    DEPTH.get() > 0
}

#[inline]
pub(super) fn enter() -> Within {
    let outer = !is_inside();
    let signals = outer.then(Signals::hold);
    if outer {
        while !is_let_in() {
            sys::wait(&CLOSED, 1, 20);
            if image::is_unseen() {
                // Who closed it is in another process.
                CLOSED.store(0, Ordering::SeqCst);
            }
        }
    } else {
        DEPTH.set(DEPTH.get() + 1);
    }
    Within { _signals: signals }
}

/// Has this thread within and counted, unless the gate is closed. A handler that comes in
/// between is told that it is within.
#[inline]
fn is_let_in() -> bool {
    let own = own();
    DEPTH.set(1);
    own.fetch_add(1, Ordering::SeqCst);
    let open = CLOSED.load(Ordering::SeqCst) == 0;
    if open {
        COUNTED.set(true);
    } else {
        own.fetch_sub(1, Ordering::SeqCst);
        DEPTH.set(0);
    }
    open
}

impl Drop for Within {
    #[inline]
    fn drop(&mut self) {
        let depth = DEPTH.get() - 1;
        if depth == 0 {
            COUNTED.set(false);
            own().fetch_sub(1, Ordering::AcqRel);
        }
        DEPTH.set(depth);
    }
}

/// Does `work` within, while no signal is delivered to this thread.
pub(super) fn quiet<T>(work: impl FnOnce() -> T) -> T {
    start::quiet(|| {
        let _within = enter();
        work()
    })
}

/// No other thread of this process is within: they were those of its parent.
pub(super) fn is_alone() {
    for place in &WITHIN {
        place.0.store(0, Ordering::SeqCst);
    }
    own().store(u32::from(is_inside()), Ordering::SeqCst);
    CLOSED.store(0, Ordering::SeqCst);
}

/// Does `work` while no other thread is within, nor comes in. None if this is done by a handler
/// that has come upon its thread in here, and somebody else has closed the gate, or it is not
/// known whether the thread is counted.
pub(super) fn still<T>(work: impl FnOnce() -> T) -> Option<T> {
    // A handler may fork upon its own thread in here. One that comes upon this thread from
    // now on is told that it is in here, and so is what the program does when it forks.
    let _signals = Signals::hold();
    let (inside, counted) = (is_inside(), COUNTED.get());
    if inside && !counted {
        return None;
    }
    DEPTH.set(DEPTH.get() + 1);
    let done = closes(!inside).then(|| {
        let mine = u32::from(counted);
        let within = || -> u32 {
            let each = WITHIN.iter().map(|place| place.0.load(Ordering::SeqCst));
            each.sum()
        };
        while within() > mine {
            sys::yields();
        }
        let done = work();
        CLOSED.store(0, Ordering::SeqCst);
        sys::wake(&CLOSED);
        done
    });
    DEPTH.set(DEPTH.get() - 1);
    done
}

/// Closes the gate, for which it waits if it `may`; whether it has.
fn closes(may: bool) -> bool {
    let (relaxed, acquire) = (Ordering::Relaxed, Ordering::SeqCst);
    while CLOSED.compare_exchange(0, 1, acquire, relaxed).is_err() {
        if !may {
            return false;
        }
        sys::yields();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
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
            for round in 0..200 {
                let own = (round % 2 == 0).then(enter);
                let done = still(|| {
                    for _ in 0..20 {
                        assert_eq!(inside.load(Ordering::SeqCst), 0);
                    }
                    assert!(is_inside(), "what is done there is told so");
                });
                assert!(done.is_some());
                drop(own);
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(!is_inside());
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
        let (ends, ended) = std::sync::mpsc::channel();
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
            scope.spawn(move || {
                for _ in 0..3000 {
                    still(|| ());
                }
                ends.send(()).unwrap();
            });
            if ended
                .recv_timeout(std::time::Duration::from_secs(60))
                .is_err()
            {
                // The threads wait for each other for ever.
                eprintln!("a handler and a fork wait for each other");
                std::process::abort();
            }
            stop.store(true, Ordering::SeqCst);
        });
    }

    #[test]
    fn of_two_that_are_within_one_is_told_that_it_cannot() {
        let _alone = alone();
        let (first, second) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _within = enter();
                first.store(true, Ordering::SeqCst);
                while CLOSED.load(Ordering::SeqCst) == 0 {
                    sys::yields();
                }
                assert!(still(|| ()).is_none(), "the other one waits for this one");
                second.store(true, Ordering::SeqCst);
            });
            scope.spawn(|| {
                let _within = enter();
                while !first.load(Ordering::SeqCst) {
                    sys::yields();
                }
                assert!(still(|| second.load(Ordering::SeqCst)) == Some(true));
            });
        });
    }
}
