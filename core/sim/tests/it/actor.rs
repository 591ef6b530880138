//! Tests of actors: their order among tasks, their numbers and their ends.

use sim::{Actor, ActorId, Cut, Kernel, Semaphore, Sim, TaskId};
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use units::Ns;

/// Notes its events; a record ends at its first event, as a task if it is odd.
struct Notes {
    sim: Sim,
    id: ActorId,
    log: Rc<RefCell<Vec<(u64, u32)>>>,
    records: RefCell<Vec<TaskId>>,
}

/// Records from this number on are those of [`Notes::records`].
const RECORDS: u32 = 100;

impl Notes {
    fn new(kernel: &Kernel) -> Rc<Self> {
        let sim = kernel.sim();
        Rc::new_cyclic(|notes: &Weak<Self>| Self {
            id: sim.enroll(notes.clone()),
            sim,
            log: Rc::default(),
            records: RefCell::default(),
        })
    }

    fn start(&self) -> TaskId {
        let record = RECORDS + self.records.borrow().len() as u32;
        let id = self.sim.start_record(self.id, record);
        self.records.borrow_mut().push(id);
        id
    }
}

impl Actor for Notes {
    fn event(&self, number: u32, _: u64) -> Option<TaskId> {
        self.log.borrow_mut().push((self.sim.now().0, number));
        let record = number.checked_sub(RECORDS)?;
        let id = self.records.borrow()[record as usize];
        if record.is_multiple_of(2) {
            self.sim.end_record(id);
            return None;
        }
        let (sim, log) = (self.sim.clone(), Rc::clone(&self.log));
        self.sim.turn_into_task(id, async move {
            log.borrow_mut().push((sim.now().0, 0));
            assert_eq!(sim.current(), id, "the number stays");
        });
        Some(id)
    }
}

#[test]
fn events_of_actors_and_tasks_run_in_the_order_of_scheduling() {
    let kernel = Kernel::new();
    let (notes, sim) = (Notes::new(&kernel), kernel.sim());
    let timer = sim.timer(notes.id, 1);
    timer.set(Ns(10));
    let (log, inner) = (Rc::clone(&notes.log), sim.clone());
    sim.spawn_detached(async move {
        inner.sleep_until(Ns(10)).await;
        log.borrow_mut().push((inner.now().0, 2));
    });
    kernel.run_until(Ns(1));
    let later = timer.set(Ns(10));
    assert_eq!(timer.set(Ns(5)), later + 1);
    timer.set_now();
    kernel.run();
    let expected = [(1, 1), (5, 1), (10, 1), (10, 2), (10, 1)];
    assert_eq!(*notes.log.borrow(), expected);
    assert_eq!(sim.events(), 6, "the task began at an event of its own");
}

#[test]
fn records_take_the_numbers_that_tasks_would_take() {
    let kernel = Kernel::new();
    let (notes, sim) = (Notes::new(&kernel), kernel.sim());
    let ids = [notes.start(), notes.start(), notes.start()];
    assert_eq!(ids.map(TaskId::index), [0, 1, 2]);
    let (inner, seen) = (sim.clone(), Rc::clone(&notes.log));
    sim.spawn_detached(async move {
        seen.borrow_mut().push((0, inner.current().index() as u32));
    });
    kernel.run();
    let expected = [(0, 100), (0, 101), (0, 0), (0, 102), (0, 3)];
    assert_eq!(*notes.log.borrow(), expected);
    assert_eq!(
        sim.events(),
        4,
        "a record goes on as a task within its event"
    );
    // The numbers come back in the order of the ends, the last one first.
    let again = [notes.start(), notes.start(), notes.start(), notes.start()];
    assert_eq!(again.map(TaskId::index), [3, 2, 1, 0]);
}

#[test]
fn cut_stops_before_the_event_of_an_actor() {
    let kernel = Kernel::new();
    let notes = Notes::new(&kernel);
    let timer = kernel.sim().timer(notes.id, 7);
    let _: Vec<u64> = (1..4).map(|at| timer.set(Ns(at))).collect();
    let cut = kernel.run_to_cut(2, || notes.log.borrow().len());
    assert_eq!(cut, Cut::Off(2));
}

#[test]
fn events_of_ended_records_and_dropped_actors_do_not_count() {
    let kernel = Kernel::new();
    let (notes, sim) = (Notes::new(&kernel), kernel.sim());
    let ended = notes.start();
    sim.wake(ended);
    kernel.run();
    assert_eq!(sim.events(), 1);
    let timer = sim.timer(notes.id, 7);
    notes.start();
    timer.set(Ns(9));
    drop(notes);
    kernel.run();
    assert_eq!((sim.events(), sim.now()), (1, Ns(0)));
}

/// A record that waits for a time and then for a permit, and notes when it has each.
struct Waiter {
    sim: Sim,
    turn: Semaphore,
    stage: Cell<u32>,
    ticket: Cell<Option<u64>>,
    log: Rc<RefCell<Vec<(u64, u32)>>>,
}

impl Actor for Waiter {
    fn event(&self, number: u32, _: u64) -> Option<TaskId> {
        let note = || {
            let entry = (self.sim.now().0, self.stage.get());
            self.log.borrow_mut().push(entry);
        };
        match self.stage.get() {
            0 => {
                assert!(!self.sim.alarm(Ns::ZERO), "it is not in the future");
                assert!(self.sim.alarm(Ns(5)));
            }
            1 => {
                note();
                self.ticket.set(self.turn.join(1));
                assert!(self.ticket.get().is_some(), "a task has the permit");
            }
            _ => {
                assert!(self.turn.collect(self.ticket.get()?));
                note();
                self.sim.end_record(self.sim.current());
            }
        }
        assert_eq!(number, 3);
        self.stage.set(self.stage.get() + 1);
        None
    }
}

#[test]
fn records_wait_for_times_and_permits() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let waiter = Rc::new(Waiter {
        sim: sim.clone(),
        turn: Semaphore::new(&sim, 1),
        stage: Cell::default(),
        ticket: Cell::default(),
        log: Rc::default(),
    });
    let (clock, turn) = (sim.clone(), waiter.turn.clone());
    sim.spawn_detached(async move {
        let _permit = turn.acquire(1).await;
        clock.sleep(Ns(9)).await;
    });
    let weak: Weak<dyn Actor> = Rc::downgrade(&waiter) as _;
    let actor = sim.enroll(weak);
    sim.start_record(actor, 3);
    kernel.run();
    assert_eq!(*waiter.log.borrow(), [(5, 1), (9, 2)]);
    assert_eq!(waiter.turn.free(), 0, "the record keeps its permit");
}

#[test]
fn a_ticket_that_leaves_gives_its_place_or_its_permits_back() {
    let kernel = Kernel::new();
    let turn = Semaphore::new(&kernel.sim(), 1);
    assert_eq!(turn.join(1), None);
    let (first, second) = (turn.join(1), turn.join(1));
    let (first, second) = first.zip(second).expect("the permit is taken");
    turn.leave(first);
    turn.put(1);
    assert!(!turn.collect(first));
    turn.leave(second);
    assert_eq!(turn.free(), 1);
}

#[test]
fn continued_record_runs_before_the_rest_of_the_instant_and_is_no_event() {
    let kernel = Kernel::new();
    let notes = Notes::new(&kernel);
    notes.start();
    notes.start();
    let last = notes.start();
    assert!(kernel.step());
    kernel.continue_with(last);
    assert_eq!(kernel.sim().events(), 1);
    kernel.run();
    let numbers: Vec<u32> = notes.log.borrow().iter().map(|note| note.1).collect();
    assert_eq!(numbers, [RECORDS, RECORDS + 2, RECORDS + 1, 0]);
    assert_eq!(
        kernel.sim().events(),
        2,
        "the event of the last one is in vain"
    );
}
