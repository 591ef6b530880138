//! Tests of service times, order and suspension.

use sim::{Actor, Class, Discipline, Kernel, Server, Service, TaskId};
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use units::Ns;

const READ: Class = Class(0);
const PROGRAM: Class = Class(1);

/// A server on its own, and the end time of each job by number.
struct Desk {
    sim: sim::Sim,
    server: RefCell<Server>,
    ends: RefCell<Vec<u64>>,
}

impl Desk {
    fn new(kernel: &Kernel, discipline: Discipline, jobs: usize) -> Rc<Self> {
        let sim = kernel.sim();
        Rc::new_cyclic(|desk: &Weak<Self>| {
            let timer = sim.timer(sim.enroll(desk.clone()), 0);
            Self {
                server: RefCell::new(Server::new(discipline, timer)),
                ends: RefCell::new(vec![0; jobs]),
                sim,
            }
        })
    }
}

impl Actor for Desk {
    fn event(&self, _: u32, sequence: u64) -> Option<TaskId> {
        if let Some(job) = self.server.borrow_mut().depart(sequence) {
            self.ends.borrow_mut()[job as usize] = self.sim.now().0;
        }
        None
    }
}

/// Runs jobs (arrival, class, span) and returns their end times in the order of `jobs`;
/// programs are suspendable.
fn ends(discipline: Discipline, jobs: &[(u64, Class, u64)]) -> Vec<u64> {
    run(discipline, jobs, |class| class == PROGRAM)
}

/// Like [`ends`], but every job except a read is suspendable.
fn ends_all_suspendable(discipline: Discipline, jobs: &[(u64, Class, u64)]) -> Vec<u64> {
    run(discipline, jobs, |class| class != READ)
}

fn run(
    discipline: Discipline,
    jobs: &[(u64, Class, u64)],
    suspendable: fn(Class) -> bool,
) -> Vec<u64> {
    let kernel = Kernel::new();
    let desk = Desk::new(&kernel, discipline, jobs.len());
    for (job, &(at, class, span)) in (0..).zip(jobs) {
        let (sim, desk) = (kernel.sim(), Rc::clone(&desk));
        kernel.sim().spawn_detached(async move {
            sim.sleep_until(Ns(at)).await;
            let service = Service {
                class,
                span: Ns(span),
                suspendable: suspendable(class),
            };
            desk.server.borrow_mut().arrive(job, service);
        });
    }
    kernel.run();
    assert!(desk.server.borrow().is_idle());
    desk.ends.take()
}

#[test]
fn fifo_serves_in_order_of_arrival() {
    let jobs = [(0, PROGRAM, 100), (1, PROGRAM, 100), (2, READ, 10)];
    assert_eq!(ends(Discipline::FIFO, &jobs), [100, 200, 210]);
}

#[test]
fn reads_go_first_up_to_the_bypass_limit() {
    let reads_first = Discipline {
        bypass_limit: 2,
        ..Discipline::FIFO
    };
    let jobs = [
        (0, PROGRAM, 100),
        (1, PROGRAM, 100),
        (2, READ, 10),
        (3, READ, 10),
        (4, READ, 10),
    ];
    // Two reads pass the waiting program, the third one does not.
    assert_eq!(ends(reads_first, &jobs), [100, 220, 110, 120, 230]);
}

#[test]
fn suspended_program_takes_its_rest_and_the_suspension_cost() {
    let suspending = Discipline {
        bypass_limit: 10,
        suspend_limit: 1,
        suspend_cost: Ns(7),
    };
    let jobs = [(0, PROGRAM, 100), (40, READ, 10), (60, READ, 10)];
    // The program has 60 + 7 left at 40, resumes at 50 and may not be suspended
    // a second time: the read of 60 waits until 117.
    assert_eq!(ends(suspending, &jobs), [117, 50, 127]);
}

#[test]
fn nested_suspensions_resume_in_turn() {
    let suspending = Discipline {
        bypass_limit: 10,
        suspend_limit: 4,
        suspend_cost: Ns(0),
    };
    let jobs = [
        (0, Class(2), 100),
        (10, PROGRAM, 100),
        (20, READ, 10),
        (25, READ, 10),
    ];
    // Class 2 is not suspendable in this set-up; only programs are.
    assert_eq!(ends(suspending, &jobs), [100, 220, 110, 120]);
}

#[test]
fn busy_time_is_the_sum_of_the_spans() {
    let kernel = Kernel::new();
    let desk = Desk::new(&kernel, Discipline::FIFO, 5);
    for job in 0..5 {
        let service = Service {
            class: READ,
            span: Ns(30),
            suspendable: false,
        };
        desk.server.borrow_mut().arrive(job, service);
    }
    kernel.run();
    assert_eq!(desk.server.borrow().meter().busy(), Ns(150));
    assert_eq!(kernel.sim().now(), Ns(150));
}

#[test]
fn jobs_of_one_class_end_in_order_of_arrival_despite_suspensions() {
    let mut rng = sim::Seed(4).stream("jobs");
    for round in 0..300 {
        let discipline = Discipline {
            bypass_limit: (round % 4) as u32,
            suspend_limit: (round % 3) as u32,
            suspend_cost: Ns(3),
        };
        let mut at = 0;
        let jobs: Vec<_> = (0..60)
            .map(|_| {
                at += rng.below(40);
                let class = rng.below(3) as u8;
                (at, Class(class), [10, 50, 90][usize::from(class)])
            })
            .collect();
        let ends = ends_all_suspendable(discipline, &jobs);
        for class in 0..3 {
            let of_class = jobs
                .iter()
                .zip(&ends)
                .filter(|(job, _)| job.1 == Class(class));
            let ends: Vec<_> = of_class.map(|(_, &end)| end).collect();
            assert!(ends.is_sorted(), "round {round}, class {class}: {ends:?}");
        }
    }
}
