//! Commands of a stepped drive under way, as records of the kernel.
//!
//! Invariants: a slot serves one command at a time; a command that names no queue pair takes that of
//! the number which has been free longest, chosen as the command before it begins, as the workers of
//! an open replay do.

use crate::attached::Attached;
use crate::device::command::{Command, Completion};
use crate::device::error::DeviceError;
use crate::meter::Meter;
use crate::replay::{IN_FLIGHT, Service, Target};
use crate::run::{Served, served};
use host::{BlockDevice, BlockPort, QueuePair, Who};
use sim::{Actor, ActorId, Sim, TaskId};
use ssd::IoError;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::task::Poll;
use units::{Ns, Origin, SECTOR};
use workload::{Labels, Op};

/// Largest number of commands in flight, which bounds memory.
const MOST: u64 = 4 * IN_FLIGHT as u64;

/// State of a slot.
enum Stage {
    Idle,
    /// Its command begins at the time of its submission.
    Coming,
    Served(Service),
}

/// A place for a command in flight.
struct Slot {
    task: TaskId,
    stage: Stage,
    id: u64,
    command: Command,
    submitted: Ns,
    queue: QueuePair,
    /// The number that it gives back at its end; `None` if the command names its queue.
    turn: Option<u32>,
    request: host::Request,
    /// Changes that it makes durable, if it is a flush.
    covers: u64,
    /// Address that an append has got.
    address: Rc<Cell<Option<u64>>>,
}

/// Numbers of queue pairs for commands that name none.
struct Turns {
    next: u32,
    count: u32,
    idle: VecDeque<u32>,
}

impl Turns {
    fn take(&mut self) -> u32 {
        let taken = self.next;
        self.next = self.idle.pop_front().unwrap_or(self.count);
        self.count = self.count.max(self.next + 1);
        taken
    }
}

/// The mutable state of a drive's commands.
struct Work {
    slots: Vec<Slot>,
    free: Vec<u32>,
    turns: Turns,
    done: VecDeque<Completion>,
    meter: Meter,
    labels: Labels,
    submitted: u64,
    /// Commands in flight that change the drive.
    changing: u64,
    /// Number of changing commands that have begun.
    changes: u64,
    /// Changing commands that a flush has made durable.
    flushed: u64,
}

/// All commands of one drive.
pub(super) struct Flight {
    sim: Sim,
    actor: ActorId,
    port: Attached,
    target: Target,
    origin: Ns,
    /// Commands in flight of all drives of the clock.
    of_clock: Rc<Cell<u64>>,
    in_flight: Cell<u64>,
    work: RefCell<Work>,
}

impl Flight {
    pub(super) fn new(sim: &Sim, port: Attached, of_clock: Rc<Cell<u64>>) -> Rc<Self> {
        Rc::new_cyclic(|me: &Weak<Self>| Self {
            actor: sim.enroll(me.clone()),
            target: Target::new(sim, &port),
            port,
            origin: sim.now(),
            sim: sim.clone(),
            of_clock,
            in_flight: Cell::default(),
            work: RefCell::new(Work {
                slots: Vec::new(),
                free: Vec::new(),
                turns: Turns {
                    next: 0,
                    count: 1,
                    idle: VecDeque::new(),
                },
                done: VecDeque::new(),
                meter: Meter::new(false),
                labels: Labels::default(),
                submitted: 0,
                changing: 0,
                changes: 0,
                flushed: 0,
            }),
        })
    }

    pub(super) const fn device(&self) -> &BlockDevice {
        self.port.device()
    }

    pub(super) const fn port(&self) -> &Attached {
        &self.port
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight.get()
    }

    pub(super) fn completion(&self) -> Option<Completion> {
        self.work.borrow_mut().done.pop_front()
    }

    /// Whether no flush has covered the last command that changed the drive.
    pub(super) fn has_unflushed(&self) -> bool {
        let work = self.work.borrow();
        work.flushed < work.changes
    }

    pub(super) fn served(&self) -> Served {
        let work = self.work.borrow();
        served(&work.meter, &work.labels)
    }

    /// The origin called `name`, a new one if none is.
    pub(super) fn origin(&self, name: &str) -> Origin {
        self.work.borrow_mut().labels.intern(name)
    }

    /// Sectors that commands may address.
    pub(super) fn sectors(&self) -> u64 {
        let capacity = match self.port.is_mapped() {
            true => self.port.capacity(),
            false => self.device().drive().config().capacity,
        };
        capacity.0 / SECTOR
    }

    /// Places `command` in a slot, whose record the caller calls at `time`. Returns the number of
    /// the command and the record.
    pub(super) fn submit(&self, time: Ns, command: Command) -> Result<(u64, TaskId), DeviceError> {
        let has_zones = self.device().drive().zones().is_some();
        command.check(self.sectors(), has_zones)?;
        if self.in_flight.get() == MOST {
            return Err(DeviceError::TooMany { most: MOST });
        }
        let work = &mut *self.work.borrow_mut();
        let (found, known) = (command.origin.0, work.labels.names().len());
        if usize::from(found) >= known {
            let op = command.op.name();
            return Err(DeviceError::Origin { op, found, known });
        }
        let number = match work.free.pop() {
            Some(number) => number,
            None => self.add_slot(&mut work.slots),
        };
        let slot = &mut work.slots[number as usize];
        slot.stage = Stage::Coming;
        (slot.id, slot.command, slot.submitted) = (work.submitted, command, time);
        work.submitted += 1;
        self.in_flight.set(self.in_flight.get() + 1);
        self.of_clock.set(self.of_clock.get() + 1);
        Ok((slot.id, slot.task))
    }

    fn add_slot(&self, slots: &mut Vec<Slot>) -> u32 {
        let number = u32::try_from(slots.len()).expect("bounded by MOST");
        slots.push(Slot {
            task: self.sim.add_record(self.actor, number),
            stage: Stage::Idle,
            id: 0,
            command: Command::flush(),
            submitted: Ns::ZERO,
            queue: self.device().queue(0),
            turn: None,
            request: host::Request::new(ssd::Command::Flush, Who::default()),
            covers: 0,
            address: Rc::default(),
        });
        number
    }

    fn begin(&self, work: &mut Work, number: usize) {
        let slot = &mut work.slots[number];
        let command = slot.command;
        slot.turn = command.queue.is_none().then(|| work.turns.take());
        let queue = slot.turn.or(command.queue).unwrap_or_default();
        slot.queue = self.device().queue(queue as usize);
        slot.address.set(None);
        if command.changes() {
            work.changes += 1;
            work.changing += 1;
        }
        let covers = command.op == Op::Flush && work.changing == 0;
        slot.covers = if covers { work.changes } else { 0 };
        let request = command.request();
        let who = Who {
            origin: request.origin,
            ..Who::default()
        };
        slot.stage = Stage::Served(match command.op {
            Op::Append => self.target.append(request, who, &slot.address),
            _ => self.target.begin(&request, who, &mut slot.request),
        });
    }

    fn end(&self, work: &mut Work, number: u32, result: Result<(), IoError>) {
        let now = self.sim.now();
        let slot = &mut work.slots[number as usize];
        slot.stage = Stage::Idle;
        if result.is_ok() {
            work.flushed = work.flushed.max(slot.covers);
        }
        work.changing -= u64::from(slot.command.changes());
        work.turns.idle.extend(slot.turn);
        work.done.push_back(Completion {
            id: slot.id,
            submitted: slot.submitted,
            completed: now,
            result,
            address: slot.address.take(),
        });
        let latency = now.since(slot.submitted);
        work.meter
            .add(slot.command.op, latency, now.since(self.origin), result);
        work.free.push(number);
        self.in_flight.set(self.in_flight.get() - 1);
        self.of_clock.set(self.of_clock.get() - 1);
    }
}

impl Actor for Flight {
    fn event(&self, number: u32, _: u64) -> Option<TaskId> {
        let work = &mut *self.work.borrow_mut();
        let at = number as usize;
        if let Stage::Coming = work.slots[at].stage {
            if self.sim.now() < work.slots[at].submitted {
                return None;
            }
            self.begin(work, at);
        }
        let slot = &mut work.slots[at];
        let Stage::Served(service) = &mut slot.stage else {
            return None;
        };
        if let Poll::Ready(result) = service.advance(&slot.queue, &mut slot.request) {
            self.end(work, number, result);
        }
        None
    }
}
