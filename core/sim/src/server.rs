//! A server with a reorderable queue and suspendable jobs: a flash die.
//!
//! Invariants: at most one job is in service; jobs of one class begin and end in
//! the order of their arrival, despite suspensions in between; a lower class number
//! goes first, unless jobs have bypassed an older one [`Discipline::bypass_limit`]
//! times in a row; a suspended job competes with its class and its time of arrival.
//! An event of the server's timer that is not the last one set is stale and ignored.

use crate::{Meter, Timer};
use std::collections::VecDeque;
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
}

/// A job with the caller's number for it.
#[derive(Clone, Copy)]
struct Job {
    number: u32,
    class: Class,
    suspendable: bool,
    suspensions: u32,
    arrival: u64,
    left: Ns,
}

/// A server of one job at a time, with a queue per class. The caller passes the events of its
/// timer to [`Server::depart`].
pub struct Server {
    discipline: Discipline,
    timer: Timer,
    /// Sequence number of the event that ends the running job.
    due: u64,
    running: Option<Job>,
    /// End of the running job.
    ends: Ns,
    suspended: Vec<Job>,
    waiting: [VecDeque<Job>; CLASSES],
    /// One bit for each class with waiting jobs.
    occupied: u8,
    arrivals: u64,
    bypasses: u32,
    meter: Meter,
}

impl Server {
    /// Creates an idle server whose services end at events of `timer`.
    #[must_use]
    pub fn new(discipline: Discipline, timer: Timer) -> Self {
        Self {
            discipline,
            timer,
            due: 0,
            running: None,
            ends: Ns::ZERO,
            suspended: Vec::new(),
            waiting: Default::default(),
            occupied: 0,
            arrivals: 0,
            bypasses: 0,
            meter: Meter::default(),
        }
    }

    /// Adds job `number`, which begins at once if the server is idle or may suspend its job.
    #[inline]
    pub fn arrive(&mut self, number: u32, service: Service) {
        let job = Job {
            number,
            class: service.class,
            suspendable: service.suspendable,
            suspensions: 0,
            arrival: self.arrivals,
            left: service.span,
        };
        self.arrivals += 1;
        self.meter.add(service.span);
        match self.running {
            None => self.start(job),
            Some(running)
                if self.may_suspend(&running, service.class)
                    && self.would_be_first(service.class) =>
            {
                self.suspend(running);
                self.start(job);
            }
            Some(_) => {
                self.occupied |= 1 << job.class.0;
                self.waiting[usize::from(job.class.0)].push_back(job);
            }
        }
    }

    /// Ends the running job at event `sequence` of the timer, and starts the next one. Returns the
    /// number of the ended job; `None` if the event is stale.
    #[inline]
    pub fn depart(&mut self, sequence: u64) -> Option<u32> {
        if sequence != self.due {
            return None;
        }
        let ended = self.running.take()?;
        if let Some(next) = self.next() {
            self.start(next);
        }
        Some(ended.number)
    }

    /// Whether job `number` has begun and not ended: it is in service or suspended.
    #[must_use]
    pub fn has_begun(&self, number: u32) -> bool {
        let mut begun = self.running.iter().chain(&self.suspended);
        begun.any(|job| job.number == number)
    }

    /// Present time by the clock of the timer.
    #[must_use]
    pub fn now(&self) -> Ns {
        self.timer.now()
    }

    /// Number of the job in service, and the begin of that service; `None` if the server is idle.
    #[must_use]
    pub fn in_service(&self) -> Option<(u32, Ns)> {
        let running = self.running.as_ref()?;
        Some((running.number, self.ends.since(running.left)))
    }

    /// Whether no job is in service or waiting.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.running.is_none()
    }

    /// Busy time and jobs, counted on arrival; includes the cost of suspensions.
    #[must_use]
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    fn may_suspend(&self, running: &Job, class: Class) -> bool {
        running.suspendable
            && class < running.class
            && running.suspensions < self.discipline.suspend_limit
    }

    #[inline]
    fn start(&mut self, job: Job) {
        self.ends = self.timer.now() + job.left;
        self.due = self.timer.set(self.ends);
        self.running = Some(job);
    }

    /// Whether no job of this class or an earlier one waits or is suspended: a job may
    /// bypass later classes, never its own.
    fn would_be_first(&self, class: Class) -> bool {
        let mut suspended = self.suspended.iter();
        self.occupied & ((2 << class.0) - 1) == 0 && suspended.all(|job| job.class > class)
    }

    fn suspend(&mut self, mut job: Job) {
        let cost = self.discipline.suspend_cost;
        self.meter.add(cost);
        job.left = self.ends.since(self.timer.now()) + cost;
        job.suspensions += 1;
        self.suspended.push(job);
    }

    /// Removes the job to serve next from its queue or from the suspended jobs.
    #[inline]
    fn next(&mut self) -> Option<Job> {
        let classes = self.occupied;
        if !self.suspended.is_empty() || classes & classes.wrapping_sub(1) != 0 {
            return self.choose();
        }
        // The common case: at most one class has candidates.
        self.bypasses = 0;
        match classes {
            0 => None,
            _ => self.take(Class(classes.trailing_zeros() as u8)),
        }
    }

    /// Removes the first waiting job of a class.
    fn take(&mut self, class: Class) -> Option<Job> {
        let queue = &mut self.waiting[usize::from(class.0)];
        let job = queue.pop_front();
        self.occupied &= !(u8::from(queue.is_empty()) << class.0);
        job
    }

    /// As [`Server::next`], among several candidates.
    fn choose(&mut self) -> Option<Job> {
        let first = self.candidates().min_by_key(|c| (c.class, c.arrival))?;
        let oldest = self.candidates().min_by_key(|c| c.arrival)?;
        let bypasses = first.arrival != oldest.arrival;
        let chosen = if bypasses && self.bypasses >= self.discipline.bypass_limit {
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
            None => self.take(chosen.class),
        }
    }

    /// The suspended jobs and the heads of the queues.
    fn candidates(&self) -> impl Iterator<Item = Candidate> {
        let suspended = self.suspended.iter().enumerate();
        let suspended = suspended.map(|(position, job)| (job, Some(position)));
        let heads = self.waiting.iter().filter_map(|w| w.front());
        let heads = heads.map(|job| (job, None));
        suspended.chain(heads).map(|(job, suspended)| Candidate {
            class: job.class,
            arrival: job.arrival,
            suspended,
        })
    }
}

/// A job that may be served next.
#[derive(Clone, Copy)]
struct Candidate {
    class: Class,
    arrival: u64,
    /// Index in `Server::suspended`; None for the head of a queue.
    suspended: Option<usize>,
}
