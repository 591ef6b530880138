//! Programs, row reads and copies of the firmware, as records instead of tasks.
//!
//! The first event of a job starts its flash operation, at the instant of its creation and after
//! everything already due then; a copy has no such event and starts at once. The end of that operation completes the job within the same event.
//! A job that has to wait then goes on as a task of the same number, also within that event: a
//! failed program, or a copy whose map page may be on flash.
//!
//! Invariant: a job has a number of the kernel and a place in the table from its creation to its
//! completion, and one flash operation after its first event.

use crate::collect::Copying;
use crate::drive::{Core, IoError};
use crate::read::RowRead;
use crate::state::Issue;
use nand::{Firmware, NandError, Payload, Priority, Report, Ticket};
use sim::{Actor, ActorId, Promise, TaskId};
use std::cell::RefCell;
use std::rc::Rc;

/// An activity of the firmware with one flash operation.
pub(crate) enum Work {
    /// A program that has been submitted, with the sequence number of its first try. The first
    /// event takes the ticket.
    Program {
        issue: Issue,
        first: u64,
        ticket: Option<Ticket>,
    },
    /// One of several rows that a command reads.
    Row(RowRead, Promise<Result<(), IoError>>),
    /// A row whose valid pages are relocated.
    Copy(Copying),
}

struct Job {
    id: TaskId,
    /// Whether the flash operation has started. A wake for an ended task of the same number calls
    /// the job again, in vain.
    begun: bool,
    work: Work,
}

/// The table of jobs, and memory for reuse.
pub(crate) struct Jobs {
    actor: ActorId,
    jobs: RefCell<Vec<Option<Job>>>,
    free: RefCell<Vec<u32>>,
    /// Empty lists of the slots of completed programs and of the pages of copied rows.
    lists: RefCell<Vec<Vec<u32>>>,
    pub(crate) unit: RefCell<Unit>,
    /// Memory for the names of the pages of a copied row; empty between uses.
    pub(crate) names: RefCell<Vec<(u32, u16)>>,
    /// Memory for the rows of a read; empty between uses.
    pub(crate) rows: RefCell<Vec<RowRead>>,
}

/// Spare words and contents of the unit that is being submitted.
#[derive(Default)]
pub(crate) struct Unit {
    pub(crate) words: Vec<u32>,
    pub(crate) payload: Vec<Payload>,
}

impl Jobs {
    pub(crate) fn new(actor: ActorId) -> Self {
        Self {
            actor,
            jobs: RefCell::default(),
            free: RefCell::default(),
            lists: RefCell::default(),
            unit: RefCell::default(),
            names: RefCell::default(),
            rows: RefCell::default(),
        }
    }

    /// An empty list of slots.
    pub(crate) fn list(&self) -> Vec<u32> {
        self.lists.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes back a list of slots. Lists without memory, those of summaries, would pile up.
    pub(crate) fn recycle(&self, mut list: Vec<u32>) {
        if list.capacity() > 0 {
            list.clear();
            self.lists.borrow_mut().push(list);
        }
    }
}

impl Core {
    /// Creates a job that starts at an event of this instant. Jobs start in the order of their
    /// creation.
    pub(crate) fn start_job(&self, work: Work) {
        self.add_job(work, false);
    }

    /// Creates a copy and starts its read at once.
    pub(crate) fn start_copy(&self, copy: Copying) {
        let (row, bytes, priority) = self.begin_copy(&copy);
        let report = Report::Firmware(self.add_job(Work::Copy(copy), true));
        let started = self.nand.start_read(row, bytes, priority, report);
        started.expect("a line has its rows on flash");
    }

    fn add_job(&self, work: Work, begun: bool) -> u32 {
        let mut jobs = self.jobs.jobs.borrow_mut();
        let number = self.jobs.free.borrow_mut().pop().unwrap_or_else(|| {
            jobs.push(None);
            jobs.len() as u32 - 1
        });
        let id = match begun {
            true => self.sim.add_record(self.jobs.actor, number),
            false => self.sim.start_record(self.jobs.actor, number),
        };
        jobs[number as usize] = Some(Job { id, begun, work });
        number
    }

    /// The firmware, for futures that outlive the caller.
    pub(crate) fn this(&self) -> Rc<Self> {
        self.me.upgrade().expect("the firmware runs")
    }
}

impl Actor for Core {
    fn event(&self, number: u32, _: u64) -> Option<TaskId> {
        let report = Report::Firmware(number);
        let mut jobs = self.jobs.jobs.borrow_mut();
        let job = jobs[number as usize].as_mut()?;
        if std::mem::replace(&mut job.begun, true) {
            return None;
        }
        let (row, bytes, priority) = match &mut job.work {
            Work::Program { ticket, .. } => {
                let ticket = ticket.take().expect("a program starts once");
                self.nand.start_program(ticket, report);
                return None;
            }
            Work::Row(read, _) => (read.row, read.bytes, Priority::Read),
            Work::Copy(_) => unreachable!("a copy starts at its creation"),
        };
        let started = self.nand.start_read(row, bytes, priority, report);
        started.expect("the map points to rows of the flash");
        None
    }
}

impl Firmware for Core {
    fn ended(&self, number: u32, result: Result<(), NandError>) -> Option<TaskId> {
        let job = self.jobs.jobs.borrow_mut()[number as usize].take();
        let Job { id, work, .. } = job.expect("a job ends once");
        self.jobs.free.borrow_mut().push(number);
        match work {
            Work::Program { issue, first, .. } if result.is_err() => {
                let core = self.this();
                let retry = async move { core.retry(issue, first).await };
                self.sim.turn_into_task(id, retry);
                return Some(id);
            }
            Work::Program { issue, first, .. } => self.complete(issue, first),
            Work::Row(read, end) => end.keep(self.row_ended((read.line, read.page), result)),
            Work::Copy(copy) if self.map_cache.is_some() => {
                let core = self.this();
                let rest = async move { core.copy_with_map(copy, result).await };
                self.sim.turn_into_task(id, rest);
                return Some(id);
            }
            Work::Copy(copy) => self.end_copy(copy, result),
        }
        self.sim.end_record(id);
        None
    }
}
