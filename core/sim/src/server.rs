//! A server with a reorderable queue and suspendable jobs: a flash die.
//!
//! Invariants: at most one job is in service; jobs of one class begin and end in
//! the order of their arrival, despite suspensions in between; a lower class number
//! goes first, unless jobs have bypassed an older one [`Discipline::bypass_limit`]
//! times in a row; a suspended job competes with its class and its time of arrival.
//! A job's timer that no longer matches its end time is stale and ignored.

use crate::{Meter, Sim, TaskId};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use units::Ns;

/// Priority class of a job, 0 to 3; class 0 goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class(pub u8);

/// Number of priority classes.
const CLASSES: usize = 4;

/// The order in which a [`Server`] serves its queue, and its limits of suspension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Discipline {
    /// Number of times in a row that a job may be served before an older one of a
    /// later class. Zero is first come, first served over all classes.
    pub bypass_limit: u32,
    /// Number of times that one job may be suspended.
    pub suspend_limit: u32,
    /// Time that each suspension adds to the suspended job.
    pub suspend_cost: Ns,
}

impl Discipline {
    /// First come, first served, without suspension.
    pub const FIFO: Self = Self {
        bypass_limit: 0,
        suspend_limit: 0,
        suspend_cost: Ns::ZERO,
    };
}

/// One job for a [`Server`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// Priority class of the job.
    pub class: Class,
    /// Service time of the job, without waits and suspensions.
    pub span: Ns,
    /// Whether a job of an earlier class may suspend this one.
    pub suspendable: bool,
    /// The caller's name for the job, returned by [`Server::begun`].
    pub tag: u32,
}

#[derive(Clone, Copy)]
struct Job {
    task: TaskId,
    service: Service,
    arrival: u64,
    /// End of service while in service.
    ends: Ns,
    left: Ns,
    suspensions: u32,
    state: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Queued,
    Running,
    Suspended,
}

#[derive(Default)]
struct Queue {
    jobs: Vec<Job>,
    free: Vec<usize>,
    running: Option<usize>,
    suspended: Vec<usize>,
    waiting: [VecDeque<usize>; CLASSES],
    arrivals: u64,
    bypasses: u32,
}

/// A server of one job at a time, with a queue per class.
pub struct Server {
    discipline: Discipline,
    queue: RefCell<Queue>,
    meter: Meter,
}

impl Server {
    /// Creates an idle server.
    #[must_use]
    pub fn new(discipline: Discipline) -> Self {
        Self {
            discipline,
            queue: RefCell::default(),
            meter: Meter::default(),
        }
    }

    /// Queues `service` when first polled, and waits until it is done.
    #[inline]
    pub fn serve<'a>(&'a self, sim: &'a Sim, service: Service) -> Serve<'a> {
        Serve {
            server: self,
            sim,
            service,
            job: None,
        }
    }

    /// Tags of the jobs that have begun and not ended: first the job in service, then
    /// the suspended jobs.
    #[must_use]
    pub fn begun(&self) -> Vec<u32> {
        let queue = self.queue.borrow();
        let begun = queue.running.iter().chain(&queue.suspended);
        begun.map(|&job| queue.jobs[job].service.tag).collect()
    }

    /// Whether no job is in service or waiting.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.queue.borrow().running.is_none()
    }

    /// Busy time and jobs, counted on arrival; includes the cost of suspensions.
    #[must_use]
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    fn arrive(&self, sim: &Sim, service: Service) -> usize {
        let mut queue = self.queue.borrow_mut();
        let job = queue.admit(sim.current(), service);
        match queue.running {
            None => queue.start(sim, job),
            Some(running)
                if self.may_suspend(&queue.jobs[running], service.class)
                    && queue.would_be_first(service.class) =>
            {
                queue.suspend(sim, running, self.discipline.suspend_cost);
                self.meter.add(self.discipline.suspend_cost);
                queue.start(sim, job);
            }
            Some(_) => {
                let class = usize::from(service.class.0);
                queue.waiting[class].push_back(job);
            }
        }
        self.meter.add(service.span);
        job
    }

    fn may_suspend(&self, running: &Job, class: Class) -> bool {
        running.service.suspendable
            && class < running.service.class
            && running.suspensions < self.discipline.suspend_limit
    }

    /// Ends `job` and starts the next one.
    fn depart(&self, sim: &Sim, job: usize) {
        let mut queue = self.queue.borrow_mut();
        queue.running = None;
        queue.free.push(job);
        if let Some(next) = queue.next(self.discipline.bypass_limit) {
            queue.start(sim, next);
        }
    }
}

impl Queue {
    fn admit(&mut self, task: TaskId, service: Service) -> usize {
        let job = Job {
            task,
            service,
            arrival: self.arrivals,
            ends: Ns::ZERO,
            left: service.span,
            suspensions: 0,
            state: Phase::Queued,
        };
        self.arrivals += 1;
        if let Some(slot) = self.free.pop() {
            self.jobs[slot] = job;
            return slot;
        }
        self.jobs.push(job);
        self.jobs.len() - 1
    }

    fn start(&mut self, sim: &Sim, index: usize) {
        let job = &mut self.jobs[index];
        job.ends = sim.now() + job.left;
        job.state = Phase::Running;
        sim.schedule(job.ends, job.task);
        self.running = Some(index);
    }

    /// Whether no job of this class or an earlier one waits or is suspended: a job may
    /// bypass later classes, never its own.
    fn would_be_first(&self, class: Class) -> bool {
        let earlier = &self.waiting[..=usize::from(class.0)];
        let mut suspended = self.suspended.iter();
        earlier.iter().all(VecDeque::is_empty)
            && suspended.all(|&job| self.jobs[job].service.class > class)
    }

    fn suspend(&mut self, sim: &Sim, index: usize, cost: Ns) {
        let job = &mut self.jobs[index];
        job.left = job.ends.since(sim.now()) + cost;
        job.suspensions += 1;
        job.state = Phase::Suspended;
        self.suspended.push(index);
    }

    /// Removes the job to serve next from its queue or from the suspended jobs.
    fn next(&mut self, bypass_limit: u32) -> Option<usize> {
        let occupied = self.waiting.iter().filter(|w| !w.is_empty()).count();
        if self.suspended.is_empty() && occupied <= 1 {
            // The common case: at most one candidate.
            self.bypasses = 0;
            return self.waiting.iter_mut().find_map(VecDeque::pop_front);
        }
        let first = self.candidates().min_by_key(|c| (c.class, c.arrival))?;
        let oldest = self.candidates().min_by_key(|c| c.arrival)?;
        let bypasses = first.arrival != oldest.arrival;
        let chosen = if bypasses && self.bypasses >= bypass_limit {
            oldest
        } else {
            first
        };
        self.bypasses = if chosen.arrival == oldest.arrival {
            0
        } else {
            self.bypasses + 1
        };
        match chosen.suspended {
            Some(position) => Some(self.suspended.remove(position)),
            None => self.waiting[usize::from(chosen.class.0)].pop_front(),
        }
    }

    /// The suspended jobs and the heads of the queues.
    fn candidates(&self) -> impl Iterator<Item = Candidate> {
        let suspended = self.suspended.iter().enumerate();
        let suspended = suspended.map(|(position, &job)| (job, Some(position)));
        let heads = self.waiting.iter().filter_map(|w| w.front());
        let heads = heads.map(|&job| (job, None));
        suspended.chain(heads).map(|(job, suspended)| Candidate {
            class: self.jobs[job].service.class,
            arrival: self.jobs[job].arrival,
            suspended,
        })
    }
}

/// A job that may be served next.
#[derive(Clone, Copy)]
struct Candidate {
    class: Class,
    arrival: u64,
    /// Index in `Queue::suspended`; None for the head of a queue.
    suspended: Option<usize>,
}

/// Future returned by [`Server::serve`].
pub struct Serve<'a> {
    server: &'a Server,
    sim: &'a Sim,
    service: Service,
    job: Option<usize>,
}

impl Future for Serve<'_> {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let Some(index) = self.job else {
            self.job = Some(self.server.arrive(self.sim, self.service));
            return Poll::Pending;
        };
        let done = {
            let job = &self.server.queue.borrow().jobs[index];
            job.state == Phase::Running && self.sim.now() >= job.ends
        };
        if !done {
            return Poll::Pending;
        }
        self.server.depart(self.sim, index);
        Poll::Ready(())
    }
}
