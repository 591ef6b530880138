//! Operations under way, as records that events of dies and channels advance.
//!
//! A read is in its die, then on its channel; a program waits for a page register of its die, is
//! on the channel, then in the die; an erase is on the channel, then in the die. The servers give
//! back the number of a record at the end of each service, and the end of the last one reports
//! the result, within the same event.
//!
//! Invariants: a record is in at most one queue, that of a server or of a die's registers; it
//! exists from its submission until its result has been reported or fetched.

use crate::device::{Nand, Priority};
use crate::geometry::Row;
use crate::load::Kind;
use crate::media::NandError;
use crate::registers::{NONE, Registers};
use crate::trace::Place;
use sim::{Actor, Discipline, Server, Service, TaskId, Timer};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use units::Ns;

/// Receiver of the result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// A task that goes on within the event of the end.
    Task(TaskId),
    /// The firmware ([`Nand::serve`]), with its number for the operation.
    Firmware(u32),
    /// None: the future that waited was dropped.
    Dropped,
}

/// Firmware that starts operations without a task for each.
pub trait Firmware {
    /// Handles the end of operation `number`. The kernel polls the returned task within the same
    /// event.
    fn ended(&self, number: u32, result: Result<(), NandError>) -> Option<TaskId>;
}

#[derive(Clone, Copy)]
pub(crate) enum Doing {
    /// The number of the record is free.
    Nothing,
    Read {
        /// Bytes on the channel; `None` if the data stay in the page register.
        bytes: Option<u32>,
        priority: Priority,
        /// Number of passes that have failed.
        failed: u32,
        correct: bool,
    },
    Program {
        /// Pages in each plane.
        pages: u32,
        /// Whether the data come over the channel into a page register.
        from_channel: bool,
    },
    Erase,
    Ended(Result<(), NandError>),
}

#[derive(Clone, Copy)]
pub(crate) struct Operation {
    pub(crate) row: Row,
    pub(crate) doing: Doing,
    pub(crate) report: Report,
    /// Next read that waits for the same sensing, or [`NONE`].
    pub(crate) follower: u32,
}

impl Operation {
    /// Makes the data of a submitted program come from the page registers.
    pub(crate) fn keep_in_die(&mut self) {
        if let Doing::Program { from_channel, .. } = &mut self.doing {
            *from_channel = false;
        }
    }
}

/// Page registers of a die for programs: one for that in the array, one for the next transfer.
const REGISTERS: u32 = 2;

pub(crate) struct Die {
    pub(crate) array: Server,
    channel: u32,
    /// Registers that no program uses.
    free: u32,
    pub(crate) registers: Registers,
    /// Programs that wait for a register.
    waiting: VecDeque<u32>,
}

/// Dies, channels and the operations in them.
pub(crate) struct Queues {
    pub(crate) operations: Vec<Operation>,
    free: Vec<u32>,
    pub(crate) dies: Vec<Die>,
    pub(crate) channels: Vec<Server>,
    /// Programs that have just been given a register, and the timer of their events.
    granted: VecDeque<u32>,
    grants: Timer,
}

impl Queues {
    /// Idle servers. Timers are numbered: dies, channels, grants of registers.
    pub(crate) fn new(
        dies: u32,
        channels: u32,
        (array, bus): (Discipline, Discipline),
        timer: impl Fn(u32) -> Timer,
    ) -> Self {
        let die = |number| Die {
            array: Server::new(array, timer(number)),
            channel: number % channels,
            free: REGISTERS,
            registers: Registers::new(number),
            waiting: VecDeque::new(),
        };
        let channel = |number| Server::new(bus, timer(dies + number));
        Self {
            operations: Vec::new(),
            free: Vec::new(),
            dies: (0..dies).map(die).collect(),
            channels: (0..channels).map(channel).collect(),
            granted: VecDeque::new(),
            grants: timer(dies + channels),
        }
    }

    pub(crate) fn add(&mut self, row: Row, doing: Doing, report: Report) -> u32 {
        let operation = Operation {
            row,
            doing,
            report,
            follower: NONE,
        };
        if let Some(number) = self.free.pop() {
            self.operations[number as usize] = operation;
            return number;
        }
        self.operations.push(operation);
        self.operations.len() as u32 - 1
    }

    fn release(&mut self, number: u32) {
        self.operations[number as usize].doing = Doing::Nothing;
        self.free.push(number);
    }

    /// Whether a program of an earlier page of one of the same blocks is in progress.
    fn has_earlier(&self, than: Row) -> bool {
        self.operations.iter().any(|operation| {
            let row = operation.row;
            matches!(operation.doing, Doing::Program { .. })
                && row.die == than.die
                && row.page < than.page
                && row
                    .blocks()
                    .any(|block| than.blocks().any(|other| other == block))
        })
    }

    /// Gives a register back, and grants it to the program that has waited longest.
    fn put_register(&mut self, die: u32) {
        let die = &mut self.dies[die as usize];
        match die.waiting.pop_front() {
            None => die.free += 1,
            Some(next) => {
                self.granted.push_back(next);
                self.grants.set_now();
            }
        }
    }
}

impl Nand {
    /// Starts a read as [`Nand::read`] does, and reports its end.
    ///
    /// # Errors
    /// [`NandError::NoSuchRow`]; nothing is reported then.
    #[inline]
    pub fn start_read(
        &self,
        row: Row,
        bytes: u32,
        priority: Priority,
        report: Report,
    ) -> Result<(), NandError> {
        self.geometry().check(&row)?;
        self.begin_read(row, Some(bytes), priority, report);
        Ok(())
    }

    #[inline]
    pub(crate) fn begin_read(
        &self,
        row: Row,
        bytes: Option<u32>,
        priority: Priority,
        report: Report,
    ) -> u32 {
        let doing = Doing::Read {
            bytes,
            priority,
            failed: 0,
            correct: true,
        };
        self.loads().begin(row.die, doing.kind());
        let queues = &mut *self.queues.borrow_mut();
        let number = queues.add(row, doing, report);
        self.trace(number, row, &doing);
        if !self.registers.get() || !self.joins_registers(queues, number) {
            self.to_array(queues, number);
        }
        number
    }

    pub(crate) fn begin_program(&self, number: u32, report: Report) {
        let queues = &mut *self.queues.borrow_mut();
        let operation = &mut queues.operations[number as usize];
        operation.report = report;
        let Operation { row, doing, .. } = *operation;
        self.trace(number, row, &doing);
        self.loads().begin(row.die, doing.kind());
        let die = &mut queues.dies[row.die as usize];
        die.registers.empty();
        match doing {
            Doing::Program {
                from_channel: false,
                ..
            } => self.to_array(queues, number),
            _ if die.free == 0 => die.waiting.push_back(number),
            _ => {
                die.free -= 1;
                self.to_channel(queues, number);
            }
        }
    }

    pub(crate) fn begin_erase(&self, row: Row, report: Report) -> u32 {
        self.loads().begin(row.die, Kind::Erase);
        let queues = &mut *self.queues.borrow_mut();
        let number = queues.add(row, Doing::Erase, report);
        self.trace(number, row, &Doing::Erase);
        self.to_channel(queues, number);
        number
    }

    #[inline]
    pub(crate) fn to_array(&self, queues: &mut Queues, number: u32) {
        let operation = &queues.operations[number as usize];
        let service = self.in_array(&operation.doing);
        let place = Place::Die(operation.row.die);
        let die = &mut queues.dies[operation.row.die as usize];
        die.registers.empty();
        self.tracer().arrive(place, &mut die.array, number, service);
    }

    #[inline]
    pub(crate) fn to_channel(&self, queues: &mut Queues, number: u32) {
        let operation = &queues.operations[number as usize];
        let channel = queues.dies[operation.row.die as usize].channel;
        let (bytes, priority) = match operation.doing {
            Doing::Read {
                bytes, priority, ..
            } => (u64::from(bytes.unwrap_or(0)), priority),
            Doing::Program { pages, .. } => {
                let pages = pages * operation.row.planes.count_ones();
                let bytes = u64::from(pages) * u64::from(self.geometry().page_bytes);
                (bytes, Priority::Normal)
            }
            _ => (0, Priority::Erase),
        };
        let service = Service {
            class: priority.class(),
            span: self.timing().command + self.bus.span(bytes),
            suspendable: priority != Priority::Read,
        };
        let server = &mut queues.channels[channel as usize];
        self.tracer()
            .arrive(Place::Channel(channel), server, number, service);
    }

    /// The use of the array by an operation. Uses without the channel include its command cycles.
    fn in_array(&self, doing: &Doing) -> Service {
        let timing = self.timing();
        let (priority, span) = match *doing {
            Doing::Read {
                bytes: Some(_),
                priority,
                ..
            } => (priority, timing.read),
            Doing::Read { priority, .. } => {
                let pages = u64::from(self.geometry().pages_per_program);
                (priority, Ns(timing.command.0 + timing.read.0 * pages))
            }
            Doing::Program {
                from_channel: true, ..
            } => (Priority::Normal, timing.program),
            Doing::Program { .. } => (Priority::Normal, timing.command + timing.program),
            _ => (Priority::Erase, timing.erase),
        };
        Service {
            class: priority.class(),
            span,
            suspendable: !matches!(doing, Doing::Read { .. }),
        }
    }

    /// Advances an operation that leaves the array. Returns its result if that was the last step.
    #[inline]
    fn leave_array(&self, queues: &mut Queues, number: u32) -> Option<Result<(), NandError>> {
        let Operation { row, doing, .. } = queues.operations[number as usize];
        match doing {
            Doing::Read { .. } => self.sensed(queues, number),
            Doing::Program {
                pages,
                from_channel,
            } => {
                if from_channel {
                    queues.put_register(row.die);
                }
                debug_assert!(!queues.has_earlier(row), "programs of a block run in order");
                Some(self.end_program(row, pages))
            }
            _ => Some(self.end_erase(row)),
        }
    }

    /// Draws whether a pass of a read failed, and repeats it as often as the faults allow.
    #[inline]
    fn sensed(&self, queues: &mut Queues, number: u32) -> Option<Result<(), NandError>> {
        let retry = self.needs_retry();
        let operation = &mut queues.operations[number as usize];
        let planes = operation.row.planes.count_ones();
        let Doing::Read {
            bytes,
            failed,
            correct,
            ..
        } = &mut operation.doing
        else {
            unreachable!("a read is sensed");
        };
        if bytes.is_none() && *failed == 0 {
            let pages = self.geometry().pages_per_program;
            self.count(|c| c.read_pages += u64::from(pages * planes));
        }
        if retry && *failed < self.faults.read_passes {
            *failed += 1;
            self.count(|c| c.read_retries += 1);
            self.to_array(queues, number);
            return None;
        }
        if retry {
            *correct = false;
            self.count(|c| c.uncorrectable += 1);
        }
        if bytes.is_none() {
            let failed = Err(NandError::Uncorrectable);
            return Some(if retry { failed } else { Ok(()) });
        }
        self.to_channel(queues, number);
        if self.registers.get() {
            self.keep_sensed(queues, number, !retry);
        }
        None
    }

    /// As [`Nand::leave_array`], for the channel.
    #[inline]
    fn leave_channel(&self, queues: &mut Queues, number: u32) -> Option<Result<(), NandError>> {
        let operation = &queues.operations[number as usize];
        match operation.doing {
            Doing::Read { correct, .. } => Some(self.end_read(operation.row, correct)),
            _ => {
                self.to_array(queues, number);
                None
            }
        }
    }
}

impl Actor for Nand {
    fn event(&self, number: u32, sequence: u64) -> Option<TaskId> {
        let mut queues = self.queues.borrow_mut();
        let channel = (number as usize).checked_sub(queues.dies.len());
        let (ended, result) = match channel {
            None => {
                let array = &mut queues.dies[number as usize].array;
                let ended = self.tracer().depart(Place::Die(number), array, sequence)?;
                (ended, self.leave_array(&mut queues, ended)?)
            }
            Some(channel) if channel < queues.channels.len() => {
                let place = Place::Channel(channel as u32);
                let ended = self
                    .tracer()
                    .depart(place, &mut queues.channels[channel], sequence)?;
                (ended, self.leave_channel(&mut queues, ended)?)
            }
            Some(_) => {
                let granted = queues.granted.pop_front()?;
                self.to_channel(&mut queues, granted);
                return None;
            }
        };
        let operation = &mut queues.operations[ended as usize];
        self.loads().end(operation.row.die, operation.doing.kind());
        operation.doing = Doing::Ended(result);
        match operation.report {
            Report::Task(task) => Some(task),
            Report::Dropped => {
                queues.release(ended);
                None
            }
            Report::Firmware(number) => {
                queues.release(ended);
                drop(queues);
                self.firmware.get()?.upgrade()?.ended(number, result)
            }
        }
    }
}

impl Doing {
    fn kind(&self) -> Kind {
        match self {
            Self::Read { bytes: Some(_), .. } => Kind::Read,
            Self::Erase => Kind::Erase,
            _ => Kind::Program,
        }
    }
}

/// A read that reports to the task or record that has started it.
#[must_use = "the result of a read must be taken"]
#[derive(Debug)]
pub struct Reading(pub(crate) u32);

impl Nand {
    /// Takes the result of a read; `None` before its end.
    #[inline]
    pub fn take_end(&self, reading: &Reading) -> Option<Result<(), NandError>> {
        let mut queues = self.queues.borrow_mut();
        let Doing::Ended(result) = queues.operations[reading.0 as usize].doing else {
            return None;
        };
        queues.release(reading.0);
        Some(result)
    }

    /// Lets a read go on whose result was not taken and will not be.
    pub fn abandon(&self, reading: &Reading) {
        let mut queues = self.queues.borrow_mut();
        match &mut queues.operations[reading.0 as usize] {
            Operation {
                doing: Doing::Ended(_),
                ..
            } => queues.release(reading.0),
            operation => operation.report = Report::Dropped,
        }
    }
}

/// Future of the end of an operation that reports to the current task. An operation whose future
/// is dropped goes on.
pub(crate) struct End<'a> {
    pub(crate) nand: &'a Nand,
    pub(crate) operation: Reading,
    pub(crate) taken: bool,
}

impl Future for End<'_> {
    type Output = Result<(), NandError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(result) = self.nand.take_end(&self.operation) else {
            return Poll::Pending;
        };
        self.taken = true;
        Poll::Ready(result)
    }
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        if !self.taken {
            self.nand.abandon(&self.operation);
        }
    }
}
