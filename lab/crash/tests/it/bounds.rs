//! A run that a failing medium would keep busy for ever ends at a bound, and so does a recovery.

use crash::{
    Bound, Bounds, Chronicle, Cut, Exploration, Leads, Points, Recovering, Subject, Verdict,
    explore,
};
use sim::{Kernel, Seed, Sim};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use units::Ns;
use vfs::{FileKind, Ino};

/// A workload without end. Each of its rounds is one event, fails a call and makes a file.
struct Endless {
    bounds: Bounds,
    /// Whether recovery ends.
    recovers: bool,
}

#[derive(Default)]
struct Live {
    failed: Rc<Cell<u64>>,
    history: Rc<RefCell<Chronicle>>,
}

struct Recovery {
    ends: bool,
}

async fn round(sim: &Sim) {
    sim.sleep(Ns(10)).await;
}

impl Subject for Endless {
    type Live = Live;
    type Left = ();
    type Recovering = Recovery;

    fn start(&self, kernel: &Kernel) -> Live {
        let live = Live::default();
        let (sim, failed) = (kernel.sim(), Rc::clone(&live.failed));
        let history = Rc::clone(&live.history);
        kernel.sim().spawn_detached(async move {
            for number in 10_u64.. {
                round(&sim).await;
                failed.set(failed.get() + 1);
                let name = number.to_string();
                let mut history = history.borrow_mut();
                let leads = Leads::New(FileKind::Regular, b"");
                let ticket = history.begin_names(&[(Ino(1), name.as_bytes(), leads)]);
                history.made(Ino(number), FileKind::Regular, b"");
                let change = (Ino(1), name.as_bytes(), Some(Ino(number)));
                history.end_names(ticket, &[change]);
            }
        });
        live
    }

    fn is_done(&self, _: &Live) -> bool {
        false
    }

    fn bounds(&self) -> Bounds {
        self.bounds
    }

    fn failed(&self, live: &Live) -> u64 {
        live.failed.get()
    }

    fn memory(&self, live: &Live) -> u64 {
        live.history.borrow().memory()
    }

    fn cut(&self, _: &Live) {}

    fn power_on(&self, kernel: &Kernel, (): ()) -> Recovery {
        let sim = kernel.sim();
        kernel.sim().spawn_detached(async move {
            loop {
                round(&sim).await;
            }
        });
        Recovery {
            ends: self.recovers,
        }
    }

    fn judge(&self, _: &Live, _: &Recovery, _: Cut) -> Verdict {
        Verdict::default()
    }
}

impl Recovering for Recovery {
    type Left = ();

    fn is_done(&self) -> bool {
        self.ends
    }

    fn cut(&self) {}
}

fn found(bounds: Bounds, recovers: bool) -> Exploration {
    let subject = Endless { bounds, recovers };
    explore(&subject, &Points::Some(4), Seed(1), &mut |_| ())
}

#[test]
fn run_ends_at_bound_of_events() {
    let bounds = Bounds {
        events: 500,
        ..Bounds::default()
    };
    let found = found(bounds, true);
    assert_eq!(found.bound, Some(Bound::Events(500)));
    assert_eq!((found.events, found.points), (500, 4));
    assert!(found.holds(), "a bound breaks no promise: {found:?}");
    assert_eq!(found.bound.unwrap().to_string(), "500 events");
}

#[test]
fn run_ends_at_bound_of_failed_calls() {
    let bounds = Bounds {
        failed: 70,
        ..Bounds::default()
    };
    let found = found(bounds, true);
    assert_eq!(found.bound, Some(Bound::Failed(70)));
    assert_eq!((found.failed_calls, found.points), (70, 4));
    let told = found.bound.unwrap().to_string();
    assert_eq!(told, "70 failed writes and forces");
}

#[test]
fn run_ends_at_bound_of_memory() {
    let bounds = Bounds {
        memory: 1 << 20,
        failed: u64::MAX,
        ..Bounds::default()
    };
    let found = found(bounds, true);
    assert_eq!(found.bound, Some(Bound::Memory(1 << 20)));
    assert_eq!(found.points, 4);
    // A round keeps a file, a name and a moment: some hundred bytes. So a bound of 1 MiB is met
    // after thousands of rounds, and at the first measurement after that.
    assert!((2_000..20_000).contains(&found.events), "{}", found.events);
    let again = self::found(bounds, true);
    assert_eq!(again.events, found.events);
    let told = found.bound.unwrap().to_string();
    assert_eq!(told, "1048576 bytes of recorded history");
}

#[test]
fn recovery_without_end_is_a_failure_at_the_bound_of_events() {
    let bounds = Bounds {
        events: 500,
        ..Bounds::default()
    };
    let found = found(bounds, false);
    assert_eq!(found.corrupt, found.points + found.recoveries);
    let what = &found.failures[0].what;
    assert_eq!(what, "recovery did not end within 500 events");
}
