//! The explorer finds a broken promise, and only a broken one.

use crash::{Cut, Exploration, Failure, Fault, Points, Progress, Recovering, Subject, Verdict};
use crash::{explore, explore_while};
use sim::{Kernel, Seed, Sim};
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;
use units::Ns;

/// Two counters that shall stay equal, written one after the other. With a
/// journal of one entry a cut between the two is mended.
#[derive(Clone, Copy, Default, PartialEq)]
struct Left {
    journal: Option<u32>,
    counters: [u32; 2],
}

struct Counters {
    journaled: bool,
    /// Whether recovery forgets the journal before it has written both.
    hasty: bool,
    /// Whether a round is promised three events before anything of it is on the medium.
    early: bool,
    rounds: u32,
}

struct Live {
    medium: Rc<RefCell<Left>>,
    promised: Rc<RefCell<u32>>,
    rounds: u32,
}

struct Recovery {
    medium: Rc<RefCell<Left>>,
    done: Rc<RefCell<bool>>,
}

async fn set(sim: &Sim, medium: &RefCell<Left>, change: impl FnOnce(&mut Left)) {
    sim.sleep(Ns(10)).await;
    change(&mut medium.borrow_mut());
}

impl Subject for Counters {
    type Live = Live;
    type Left = Left;
    type Recovering = Recovery;

    fn start(&self, kernel: &Kernel) -> Live {
        let live = Live {
            medium: Rc::default(),
            promised: Rc::default(),
            rounds: self.rounds,
        };
        let (sim, medium) = (kernel.sim(), Rc::clone(&live.medium));
        let (promised, rounds) = (Rc::clone(&live.promised), self.rounds);
        let (journaled, early) = (self.journaled, self.early);
        kernel.sim().spawn_detached(async move {
            for round in 1..=rounds {
                if early {
                    *promised.borrow_mut() = round;
                    sim.sleep(Ns(10)).await;
                    sim.sleep(Ns(10)).await;
                }
                if journaled {
                    set(&sim, &medium, |m| m.journal = Some(round)).await;
                }
                set(&sim, &medium, |m| m.counters[0] = round).await;
                set(&sim, &medium, |m| m.counters[1] = round).await;
                *promised.borrow_mut() = round;
            }
        });
        live
    }

    fn is_done(&self, live: &Live) -> bool {
        *live.promised.borrow() == live.rounds
    }

    fn cut(&self, live: &Live) -> Left {
        *live.medium.borrow()
    }

    fn power_on(&self, kernel: &Kernel, left: Left) -> Recovery {
        let recovery = Recovery {
            medium: Rc::new(RefCell::new(left)),
            done: Rc::default(),
        };
        let (sim, hasty) = (kernel.sim(), self.hasty);
        let (medium, done) = (Rc::clone(&recovery.medium), Rc::clone(&recovery.done));
        kernel.sim().spawn_detached(async move {
            if let Some(round) = left.journal {
                if hasty {
                    set(&sim, &medium, |m| m.journal = None).await;
                }
                set(&sim, &medium, |m| m.counters[0] = round).await;
                set(&sim, &medium, |m| m.counters[1] = round).await;
            }
            *done.borrow_mut() = true;
        });
        recovery
    }

    fn judge(&self, live: &Live, recovered: &Recovery, _: Cut) -> Verdict {
        let [a, b] = recovered.medium.borrow().counters;
        let mut verdict = Verdict::default();
        if a != b {
            let what = format!("{a} and {b}");
            verdict.faults.push((Fault::Corrupt, what));
        }
        if b < *live.promised.borrow() {
            verdict.faults.push((Fault::Lost, format!("{b}")));
        }
        verdict
    }
}

impl Recovering for Recovery {
    type Left = Left;

    fn is_done(&self) -> bool {
        *self.done.borrow()
    }

    fn cut(&self) -> Left {
        *self.medium.borrow()
    }
}

fn found(journaled: bool, hasty: bool, points: &Points) -> Exploration {
    let subject = Counters {
        journaled,
        hasty,
        early: false,
        rounds: 40,
    };
    explore(&subject, points, Seed(1), &mut |_| ())
}

#[test]
fn a_journal_survives_every_cut() {
    let found = found(true, false, &Points::All);
    assert!(found.holds(), "{found:?}");
    assert_eq!(found.points, found.events + 1);
    assert!(found.recoveries > 10);
}

#[test]
fn without_a_journal_the_cuts_between_two_writes_are_found() {
    let found = found(false, false, &Points::All);
    let undisturbed = found.failures.iter().filter(|f| f.cut.recovery.is_none());
    assert_eq!((found.lost, undisturbed.count()), (0, 40));
    let again = Points::One(found.failures[3].cut);
    let again = self::found(false, false, &again);
    assert_eq!(again.failures, found_at(&found, again.failures[0].cut));
}

fn found_at(found: &Exploration, cut: Cut) -> Vec<crash::Failure> {
    let at = found.failures.iter().filter(|f| f.cut == cut);
    at.cloned().collect()
}

#[test]
fn a_recovery_that_forgets_too_early_is_found_by_cutting_it() {
    let found = found(true, true, &Points::All);
    assert!(!found.holds());
    assert!(found.failures.iter().all(|f| f.cut.recovery.is_some()));
    let one = found.failures[0].cut;
    let again = self::found(true, true, &Points::One(one));
    assert_eq!(again.failures[0], found.failures[0]);
}

#[test]
fn progress_reaches_its_end() {
    let subject = Counters {
        journaled: true,
        hasty: false,
        early: false,
        rounds: 40,
    };
    let mut last = Progress::default();
    explore(&subject, &Points::Some(9), Seed(1), &mut |p| last = p);
    assert_eq!((last.points, last.of), (9, 9));
}

#[test]
fn who_hears_of_progress_can_stop_it() {
    let subject = Counters {
        journaled: true,
        hasty: false,
        early: false,
        rounds: 40,
    };
    let stopped = explore_while(&subject, &Points::All, Seed(1), &mut |p| match p.points {
        3 => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    assert_eq!(stopped.points, 3);
}

/// Fails if a cut is not judged by its own promises because another one left the same state.
#[test]
fn cuts_that_leave_equal_states_share_a_recovery_but_no_verdict() {
    let subject = Counters {
        journaled: true,
        hasty: false,
        early: true,
        rounds: 20,
    };
    let found = explore(&subject, &Points::All, Seed(1), &mut |_| ());
    let undisturbed = |failure: &&Failure| failure.cut.recovery.is_none();
    let lost: Vec<u64> = found
        .failures
        .iter()
        .filter(undisturbed)
        .map(|f| f.cut.event)
        .collect();
    // Three cuts come after a promise and before its journal; the run ends at the last promise.
    assert_eq!(lost.len(), 3 * 19 + 1, "{lost:?}");
    assert_eq!(lost[..6], [1, 2, 3, 6, 7, 8]);
    assert_eq!(found.corrupt, 0);
    // States of the medium: none, and three of each round but the last.
    assert!(
        found.recovered > 3 * 19 && found.recovered < found.points,
        "{found:?}"
    );
    for failure in found.failures.iter().filter(undisturbed) {
        let again = explore(&subject, &Points::One(failure.cut), Seed(1), &mut |_| ());
        assert_eq!(again.failures, std::slice::from_ref(failure));
    }
}
