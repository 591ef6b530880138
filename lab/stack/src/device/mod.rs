//! A drive that its caller steps: commands in, time on, completions out.
//!
//! ```
//! use stack::device::{Command, Device};
//! use units::Ns;
//!
//! let device = Device::from_toml("preset = \"block\"\ncapacity = \"64MiB\"")?;
//! let id = device.submit(Ns::us(5), Command::write(0, 8))?;
//! while device.in_flight() > 0 {
//!     device.step()?;
//! }
//! let done = device.completion().expect("the write has completed");
//! assert_eq!((done.id, done.submitted), (id, Ns::us(5)));
//! assert_eq!(device.counters().host_write_bytes, 4096);
//! # Ok::<(), stack::device::DeviceError>(())
//! ```
//!
//! The host of the drive, its queues, cores and link, is simulated as in a run: a latency includes
//! them. Commands have an extent and no contents, so a caller keeps its data itself.
//!
//! Invariants:
//! - Completions are a function of the setup and of the calls: the same submissions between the
//!   same steps give the same completions, at the same times.
//! - No call runs an event later than the caller asked for, and none goes back in time.
//! - A command that fails to be submitted changes nothing.
//! - The workload of a run, submitted by a caller as the run does, gives the record of that run.

mod command;
mod counters;
mod error;
mod flight;
mod setup;

pub use command::{Command, Completion};
pub use counters::Counters;
pub use error::DeviceError;
pub use setup::setup;

use crate::attached::Attached;
use crate::hosts::Memory;
use crate::plan::Plan;
use crate::run::{self, Before};
use crate::sight::{LONGEST, WINDOW_EVENTS};
use crate::steady::Windows;
use flight::Flight;
use host::BlockDevice;
use report::record::Run;
use sim::Kernel;
use ssd::DriveMedia;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use units::{Ns, Origin};

/// The clock of one host, and the drives that share it.
struct Clock {
    kernel: Kernel,
    /// Commands in flight of all drives.
    in_flight: Rc<Cell<u64>>,
    /// Time of the last event that a caller has run; `None` before the first one.
    ran_at: Cell<Option<Ns>>,
    /// Number of events before the next check for the end of a window.
    next_window: Cell<u64>,
    seats: RefCell<Vec<Weak<Seat>>>,
}

/// A drive at its clock.
struct Seat {
    flight: Rc<Flight>,
    windows: Windows,
}

/// A drive behind a host, which its caller steps. Drives made by [`Device::beside`] share a clock.
pub struct Device {
    clock: Rc<Clock>,
    seat: Rc<Seat>,
    plan: Plan,
    before: Before,
    origin: Ns,
    is_off: Cell<bool>,
}

impl Clock {
    fn now(&self) -> Ns {
        self.kernel.sim().now()
    }

    /// Time of the next event. Commands in flight without any event wait for a watchdog of the
    /// kernel, which is called now.
    fn next(&self) -> Option<Ns> {
        let next = self.kernel.sim().next_time();
        next.or_else(|| (self.in_flight.get() > 0).then(|| self.now()))
    }

    /// Runs the next event up to and including `limit`. Returns false if there is none.
    fn step_to(&self, limit: Ns) -> Result<bool, DeviceError> {
        let sim = self.kernel.sim();
        if sim.events() >= self.next_window.get() {
            self.next_window.set(self.next_window.get() + WINDOW_EVENTS);
            let seats = self.seats.borrow();
            let seats = seats.iter().filter_map(Weak::upgrade);
            seats.for_each(|seat| seat.windows.look(seat.flight.device()));
        }
        if self.kernel.step_to(limit) {
            self.ran_at.set(Some(sim.now()));
            return Ok(true);
        }
        match (sim.next_time(), self.in_flight.get()) {
            (None, in_flight) if in_flight > 0 => Err(DeviceError::Stalled { in_flight }),
            _ => Ok(false),
        }
    }

    /// Refuses `call` while a command is in flight.
    fn check_idle(&self, call: &'static str) -> Result<(), DeviceError> {
        match self.in_flight.get() {
            0 => Ok(()),
            in_flight => Err(DeviceError::InFlight { call, in_flight }),
        }
    }
}

impl Device {
    /// The drive of `plan`, in the state that the plan's precondition describes, at time 0. The
    /// stack of the plan has the host `raw`; its workload is not run.
    ///
    /// # Errors
    /// If the drive cannot be built.
    pub fn new(plan: &Plan) -> Result<Self, DeviceError> {
        Self::with(plan, run::media(plan)?)
    }

    /// The drive that a TOML document describes: see [`setup()`].
    ///
    /// # Errors
    /// The line and the expectation there, or the reason for which the drive cannot be built.
    pub fn from_toml(text: &str) -> Result<Self, DeviceError> {
        Self::new(&setup(text)?)
    }

    /// Another drive at the host of this one: it has queues and a link of its own, and shares the
    /// processor cores and the clock. A step or an advance of either runs the events of both. The
    /// host settings of `plan` do not apply.
    ///
    /// # Errors
    /// As [`Device::new`], and if a command is in flight.
    pub fn beside(&self, plan: &Plan) -> Result<Self, DeviceError> {
        self.clock.check_idle("beside")?;
        let plan = Plan {
            host: self.plan.host,
            ..plan.clone()
        };
        let drive = run::powered(&plan, run::media(&plan)?, &self.clock.kernel)?;
        let device = self.seat.flight.device().beside(drive);
        Self::at(Rc::clone(&self.clock), plan, &device)
    }

    /// An independent copy of this drive, at time 0 of a clock of its own. The copy is this drive
    /// after a power cycle: it has the same contents, mapping and wear, an empty cache of the
    /// mapping, and counters at 0.
    ///
    /// # Errors
    /// If a command is in flight, or if a volatile write cache may hold data, so that the copy would
    /// lack them: a flush comes first.
    pub fn fork(&self) -> Result<Self, DeviceError> {
        self.check_on()?;
        self.clock.check_idle("fork")?;
        let flight = &self.seat.flight;
        let drive = flight.device().drive();
        let is_kept = !drive.has_volatile_cache()
            || (drive.config().controller.power_loss_protection && !flight.port().is_mapped());
        if flight.has_unflushed() && !is_kept {
            return Err(DeviceError::Unflushed);
        }
        Self::with(&self.plan, drive.at_power_cut())
    }

    fn with(plan: &Plan, media: DriveMedia) -> Result<Self, DeviceError> {
        if plan.stack.host != "raw" {
            return Err(DeviceError::Host(plan.stack.to_string()));
        }
        let kernel = Kernel::new();
        let device = run::attach(plan, media, &kernel)?;
        let clock = Clock {
            kernel,
            in_flight: Rc::default(),
            ran_at: Cell::default(),
            next_window: Cell::default(),
            seats: RefCell::default(),
        };
        Self::at(Rc::new(clock), plan.clone(), &device)
    }

    fn at(clock: Rc<Clock>, plan: Plan, device: &BlockDevice) -> Result<Self, DeviceError> {
        let sim = clock.kernel.sim();
        let port = Attached::of(&sim, device, &plan.stack, Memory::NONE)?;
        let windows = Windows::new(device);
        run::open(&clock.kernel, &plan, &port)?;
        let (before, origin) = (Before::now(&port), sim.now());
        let seat = Rc::new(Seat {
            flight: Flight::new(&sim, port, Rc::clone(&clock.in_flight)),
            windows,
        });
        if clock.seats.borrow().is_empty() {
            clock.next_window.set(sim.events());
        }
        clock.seats.borrow_mut().push(Rc::downgrade(&seat));
        Ok(Self {
            clock,
            seat,
            plan,
            before,
            origin,
            is_off: Cell::default(),
        })
    }

    /// The current time of the clock. A new drive starts at 0, except if its mapping had to be
    /// mounted.
    #[must_use]
    pub fn now(&self) -> Ns {
        self.clock.now()
    }

    /// Capacity in sectors of 512 bytes: those that commands may address.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        self.seat.flight.sectors()
    }

    /// Time of the next event of the clock; `None` at rest. Only some events complete a command.
    #[must_use]
    pub fn next_event(&self) -> Option<Ns> {
        self.clock.next()
    }

    /// Number of commands submitted and not completed.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.seat.flight.in_flight()
    }

    /// The origin of commands called `name`, such as a tenant or a process, by which the record
    /// divides the traffic. From the 256th name on, all share one.
    pub fn origin(&self, name: &str) -> Origin {
        self.seat.flight.origin(name)
    }

    /// Submits `command` at `time` and returns its number: 0 for the first one of the drive.
    ///
    /// Commands of one instant begin in the order of their submission. A submission for the instant
    /// of the event that a call of [`Device::step`] has just run is a part of this event, as if a
    /// thread of the host had gone on: it begins before all other events of this instant.
    ///
    /// # Errors
    /// If `time` is in the past or after a year, if the drive has no such command or sectors, if the
    /// command has too many sectors, or if too many commands are in flight.
    pub fn submit(&self, time: Ns, command: Command) -> Result<u64, DeviceError> {
        self.check_on()?;
        self.check_time(time)?;
        let (id, task) = self.seat.flight.submit(time, command)?;
        match self.clock.ran_at.get() == Some(time) && time == self.now() {
            true => self.clock.kernel.continue_with(task),
            false => self.clock.kernel.sim().call_at(time, task),
        }
        Ok(id)
    }

    /// Runs the next event. Returns false if the drives are at rest.
    ///
    /// # Errors
    /// If commands are in flight and no event is left: the flash has no free space.
    pub fn step(&self) -> Result<bool, DeviceError> {
        self.clock.step_to(LONGEST)
    }

    /// Runs all events up to and including `time`, and sets the clock to it.
    ///
    /// # Errors
    /// If `time` is in the past or after a year; as [`Device::step`].
    pub fn advance(&self, time: Ns) -> Result<(), DeviceError> {
        self.check_time(time)?;
        while self.clock.next().is_some_and(|next| next <= time) && self.clock.step_to(time)? {}
        self.clock.kernel.run_until(time);
        Ok(())
    }

    /// Takes the earliest completion that was not taken yet.
    #[must_use]
    pub fn completion(&self) -> Option<Completion> {
        self.seat.flight.completion()
    }

    /// Traffic and work since the drive was made.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters::since(&self.before, self.seat.flight.device())
    }

    /// Ends the drive: it writes out its buffers and powers off. Returns the record of all commands
    /// as that of a run called `workload`, without wall time and memory.
    ///
    /// # Errors
    /// If a command is in flight, or the drive is off already.
    pub fn finish(&self, workload: &str) -> Result<Run, DeviceError> {
        self.check_on()?;
        self.clock.check_idle("finish")?;
        self.is_off.set(true);
        let Seat { flight, windows } = &*self.seat;
        let (device, kernel) = (flight.device(), &self.clock.kernel);
        windows.look(device);
        let at = (
            self.before.clone(),
            device,
            Vec::new(),
            kernel.sim().events(),
        );
        let served = flight.served();
        let text = workload.to_owned();
        let mut outcome = run::outcome(&self.plan, text, Vec::new(), served, at, windows);
        outcome.placing = Some(workload::Placing::Own);
        let ended = run::concluded(kernel, flight.port(), outcome, self.origin);
        let (mut run, _) = ended?;
        run.cautions = report::caution::of(&run);
        Ok(run)
    }

    fn check_on(&self) -> Result<(), DeviceError> {
        match self.is_off.get() {
            true => Err(DeviceError::Off),
            false => Ok(()),
        }
    }

    fn check_time(&self, time: Ns) -> Result<(), DeviceError> {
        let now = self.now();
        match time {
            _ if time < now => Err(DeviceError::Past { time, now }),
            _ if time > LONGEST => Err(DeviceError::TooLate { time }),
            _ => Ok(()),
        }
    }
}
