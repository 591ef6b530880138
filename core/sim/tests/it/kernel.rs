//! Tests of event order, virtual time, power cuts and pacing.

use sim::{Cut, Elapsed, Kernel, Pacer, Seed, Sim, Timeline, join, join_all, timeout};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use units::Ns;

type Log = Rc<RefCell<Vec<(u64, u32)>>>;

async fn note(sim: Sim, log: Log, at: u64, name: u32) {
    sim.sleep_until(Ns(at)).await;
    log.borrow_mut().push((sim.now().0, name));
}

#[test]
fn equal_times_run_in_the_order_of_scheduling() {
    let (kernel, log) = (Kernel::new(), Log::default());
    for (name, at) in [(0, 20), (1, 10), (2, 20), (3, 10), (4, 20)] {
        let sim = kernel.sim();
        kernel
            .sim()
            .spawn_detached(note(sim, Rc::clone(&log), at, name));
    }
    kernel.run();
    assert_eq!(*log.borrow(), [(10, 1), (10, 3), (20, 0), (20, 2), (20, 4)]);
}

#[test]
fn woken_task_runs_after_events_already_due() {
    let (kernel, log) = (Kernel::new(), Log::default());
    let (sim, first) = (kernel.sim(), Rc::clone(&log));
    kernel.sim().spawn_detached(async move {
        sim.sleep_until(Ns(5)).await;
        let late = note(sim.clone(), Rc::clone(&first), 5, 9);
        sim.spawn_detached(late);
        first.borrow_mut().push((sim.now().0, 1));
    });
    kernel
        .sim()
        .spawn_detached(note(kernel.sim(), Rc::clone(&log), 5, 2));
    kernel.run();
    assert_eq!(*log.borrow(), [(5, 1), (5, 2), (5, 9)]);
}

#[test]
fn a_million_random_events_replay_from_their_seed() {
    fn fingerprint(seed: u64) -> (u64, u64) {
        let kernel = Kernel::new();
        let hash = Rc::new(Cell::new(0_u64));
        for task in 0..100_u64 {
            let (sim, hash) = (kernel.sim(), Rc::clone(&hash));
            let mut rng = Seed(seed).stream(&format!("task {task}"));
            kernel.sim().spawn_detached(async move {
                for _ in 0..10_000 {
                    sim.sleep(Ns(1 + rng.below(50))).await;
                    let mixed = hash.get().rotate_left(5) ^ sim.now().0 ^ task << 40;
                    hash.set(mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                }
            });
        }
        kernel.run();
        (hash.get(), kernel.sim().events())
    }
    let (hash, events) = fingerprint(1);
    assert_eq!((hash, events), fingerprint(1));
    assert_eq!(events, 1_000_100);
    assert_ne!(hash, fingerprint(2).0);
}

#[test]
fn cut_stops_before_its_event_and_returns_the_durable_state() {
    let written = |cut: u64| {
        let (kernel, done) = (Kernel::new(), Rc::new(Cell::new(0)));
        let (sim, counter) = (kernel.sim(), Rc::clone(&done));
        kernel.sim().spawn_detached(async move {
            for _ in 0..10 {
                sim.sleep(Ns(7)).await;
                counter.set(counter.get() + 1);
            }
        });
        kernel.run_to_cut(cut, || done.get())
    };
    // Event 0 starts the task; event n ends the n-th sleep.
    assert_eq!(written(0), Cut::Off(0));
    assert_eq!(written(1), Cut::Off(0));
    assert_eq!(written(5), Cut::Off(4));
    assert_eq!(written(10), Cut::Off(9));
    assert_eq!(written(11), Cut::AtRest);
}

#[test]
fn pacer_holds_events_back_and_may_return_early() {
    struct Steps {
        asked: Vec<u64>,
    }
    impl Pacer for Steps {
        fn wait_until(&mut self, time: Ns) -> Option<Ns> {
            self.asked.push(time.0);
            if time.0 > 100 {
                return None;
            }
            // Half of the way the first time, as if outside input had arrived.
            let again = self.asked.iter().filter(|&&t| t == time.0).count() > 1;
            Some(if again { time } else { Ns(time.0 / 2) })
        }
    }
    let (kernel, log) = (Kernel::new(), Log::default());
    for time in [100, 101] {
        let task = note(kernel.sim(), Rc::clone(&log), time, 1);
        kernel.sim().spawn_detached(task);
    }
    let mut pacer = Steps { asked: Vec::new() };
    kernel.run_paced(&mut pacer);
    assert_eq!(*log.borrow(), [(100, 1)]);
    assert!(pacer.asked.contains(&100));
    assert_eq!(
        kernel.sim().next_time(),
        Some(Ns(101)),
        "what it ended before"
    );
}

#[test]
fn key_of_an_ended_task_lets_no_event_run_past_the_limit() {
    struct Limit;
    impl Pacer for Limit {
        fn wait_until(&mut self, time: Ns) -> Option<Ns> {
            (time <= Ns(50)).then_some(time)
        }
    }
    let log = Log::default();
    for paced in [false, true] {
        let kernel = Kernel::new();
        let sim = kernel.sim();
        kernel.sim().spawn_detached(async move {
            let _ = timeout(&sim, Ns(50), sim.sleep(Ns(10))).await;
        });
        let late = note(kernel.sim(), Rc::clone(&log), 100, 1);
        kernel.sim().spawn_detached(late);
        match paced {
            true => kernel.run_paced(&mut Limit),
            false => kernel.run_until(Ns(50)),
        }
        assert!(log.borrow().is_empty(), "paced: {paced}");
        assert_eq!(kernel.sim().next_time(), Some(Ns(100)));
    }
}

#[test]
fn results_come_back_from_tasks_and_combinations() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let answer = kernel.block_on(async move {
        let slow = async |span: u64, value: u32| {
            sim.sleep(Ns(span)).await;
            value
        };
        let pair = join(slow(30, 1), slow(10, 2)).await;
        let all = join_all(vec![slow(5, 3), slow(50, 4), slow(1, 5)]).await;
        let task = sim.clone();
        let spawned = sim.spawn(async move {
            task.sleep(Ns(9)).await;
            6
        });
        (pair, all, spawned.await, sim.now())
    });
    assert_eq!(answer, ((1, 2), vec![3, 4, 5], 6, Ns(89)));
}

#[test]
fn timeout_ends_a_future_that_takes_longer() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let ends = kernel.block_on(async move {
        let in_time = timeout(&sim, Ns(10), sim.sleep(Ns(10))).await;
        let late = timeout(&sim, Ns(10), sim.sleep(Ns(11))).await;
        (in_time, late, sim.now())
    });
    assert_eq!(ends, (Ok(()), Err(Elapsed), Ns(20)));
}

#[test]
#[should_panic(expected = "deadlock")]
fn root_that_can_never_resume_panics_as_a_deadlock() {
    let kernel = Kernel::new();
    kernel.block_on(std::future::pending::<()>());
}

#[test]
fn a_timeline_serves_first_come_first_served() {
    let line = Timeline::default();
    assert_eq!(line.reserve(Ns(0), Ns(10)), Ns(10));
    assert_eq!(line.reserve(Ns(3), Ns(10)), Ns(20));
    assert_eq!(line.reserve(Ns(50), Ns(10)), Ns(60));
    assert_eq!(line.meter().busy(), Ns(30));
}

#[test]
fn an_observer_shifts_no_number_and_no_order() {
    let order = |observed: bool| {
        let kernel = Kernel::new();
        let (sim, seen) = (kernel.sim(), Rc::new(RefCell::new(Vec::new())));
        if observed {
            let clock = kernel.sim();
            sim.spawn_observer(async move {
                for _ in 0..50 {
                    clock.sleep(Ns(1)).await;
                }
            });
        }
        for name in 0..4 {
            let (task, seen) = (sim.clone(), Rc::clone(&seen));
            sim.spawn_detached(async move {
                for _ in 0..5 {
                    task.sleep(Ns(7)).await;
                    let born = Rc::clone(&seen);
                    let child = task.clone();
                    task.spawn_detached(async move {
                        born.borrow_mut()
                            .push((name, child.current().index(), child.now()));
                    });
                }
            });
        }
        kernel.run();
        let events = kernel.sim().events();
        (seen.take(), events)
    };
    let (alone, watched) = (order(false), order(true));
    assert_eq!(alone.0, watched.0);
    assert_eq!(watched.1, alone.1 + 51);
}

/// Without the watchdog the task would wait for ever, and `block_on` would panic.
#[test]
fn watchdog_is_asked_at_rest_and_ends_a_deadlock() {
    let kernel = Kernel::new();
    let (sim, room) = (kernel.sim(), Rc::new(sim::Signal::default()));
    let (gave_up, asked) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
    let (watched, given, counted) = (Rc::clone(&room), Rc::clone(&gave_up), Rc::clone(&asked));
    let waker = sim.clone();
    sim.add_watchdog(move || {
        counted.set(counted.get() + 1);
        let is_first = !given.replace(true);
        if is_first {
            watched.notify(&waker);
        }
        is_first
    });
    let result = kernel.block_on(async move {
        sim.sleep(Ns(5)).await;
        while !gave_up.get() {
            room.wait(&sim).await;
        }
        sim.now()
    });
    assert_eq!(result, Ns(5), "a watchdog takes no time");
    assert_eq!(asked.get(), 1, "it is asked at rest only");
    assert!(!kernel.step());
    assert_eq!(asked.get(), 2);
}
