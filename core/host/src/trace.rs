//! Trace of commands: the times of each command on its way, and the parts of its time in the drive.
//!
//! Invariants: tracing changes no time; the times of a command rise in the order of its fields.

use crate::device::{BlockDevice, QueuePair, Shared};
use crate::ledger::Who;
use ssd::{Command, Waited};
use std::cell::{Cell, RefCell};
use units::{Extent, Ns};

/// A command from its submission to its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedCommand {
    /// Name of the command, such as `read` or `append`.
    pub name: &'static str,
    /// Sectors of the command; none for a command without addresses.
    pub extent: Extent,
    /// Origin and purpose of the data.
    pub who: Who,
    /// Number of the queue pair.
    pub queue: u32,
    /// Begin of the submission: the command may wait for a slot of its queue.
    pub begin: Ns,
    /// Arrival at the drive, with its data.
    pub arrival: Ns,
    /// End of the execution in the drive.
    pub executed: Ns,
    /// End of the completion in the host.
    pub end: Ns,
    /// Parts of the time in the drive; `None` if the drive does not tell them apart.
    pub waited: Option<Waited>,
    /// Whether the command succeeded.
    pub is_ok: bool,
    /// Other commands between submission and completion at the end of this one.
    pub in_flight: u32,
    /// Pages of the drive's write buffer that hold data at the end of the command.
    pub buffered_pages: u32,
    /// Free superblocks of the drive, or free chunks, at the end of the command.
    pub free_superblocks: u32,
}

/// Commands that have not been taken.
#[derive(Default)]
pub(crate) struct Traces {
    is_on: Cell<bool>,
    in_flight: Cell<u32>,
    commands: RefCell<Vec<TracedCommand>>,
}

/// Trace of a command under way; empty on a device without a trace.
#[derive(Default)]
pub(crate) struct Tracing(Option<Box<TracedCommand>>);

impl BlockDevice {
    /// Starts to trace the commands of the device and its drive.
    pub fn start_trace(&self) {
        let traces = &self.shared.traces;
        traces.is_on.set(true);
        traces.in_flight.set(0);
        traces.commands.take();
        self.drive().start_trace();
    }

    /// Takes the commands that have ended since the last call, in the order of their ends.
    #[must_use]
    pub fn take_trace(&self) -> Vec<TracedCommand> {
        self.shared.traces.commands.take()
    }
}

impl QueuePair {
    /// Begins the trace of a command on `extent`.
    #[inline]
    pub(crate) fn trace(&self, name: &'static str, extent: Extent, who: Who) -> Tracing {
        match self.shared.traces.is_on.get() {
            true => self.begin_trace(name, extent, who),
            false => Tracing(None),
        }
    }

    /// Begins the trace of `command`.
    #[inline]
    pub(crate) fn trace_command(&self, command: Command, who: Who) -> Tracing {
        match command {
            Command::Read(extent) => self.trace("read", extent, who),
            Command::Write(extent, ..) => self.trace("write", extent, who),
            Command::Trim(extent) => self.trace("trim", extent, who),
            Command::Flush => self.trace("flush", Extent::default(), who),
        }
    }

    #[cold]
    fn begin_trace(&self, name: &'static str, extent: Extent, who: Who) -> Tracing {
        let traces = &self.shared.traces;
        traces.in_flight.update(|count| count + 1);
        let now = self.shared.sim.now();
        Tracing(Some(Box::new(TracedCommand {
            name,
            extent,
            who,
            queue: self.queue as u32,
            begin: now,
            arrival: now,
            executed: now,
            end: now,
            waited: None,
            is_ok: true,
            in_flight: 0,
            buffered_pages: 0,
            free_superblocks: 0,
        })))
    }
}

impl Tracing {
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Notes the arrival at the drive.
    #[inline]
    pub(crate) fn arrive(&mut self, at: Ns) {
        if let Some(command) = &mut self.0 {
            command.arrival = at;
        }
    }

    /// Notes the end of the execution, with its parts.
    #[inline]
    pub(crate) fn execute(&mut self, shared: &Shared) {
        if let Some(command) = &mut self.0 {
            command.executed = shared.sim.now();
            command.waited = shared.drive.take_waited();
        }
    }

    /// Ends the trace of a command that has completed.
    #[inline]
    pub(crate) fn end(&mut self, shared: &Shared, is_ok: bool) {
        if let Some(command) = self.0.take() {
            end(*command, shared, is_ok);
        }
    }
}

#[cold]
fn end(mut command: TracedCommand, shared: &Shared, is_ok: bool) {
    let (traces, drive) = (&shared.traces, &shared.drive);
    traces.in_flight.update(|count| count.saturating_sub(1));
    (command.end, command.is_ok) = (shared.sim.now(), is_ok);
    command.in_flight = traces.in_flight.get();
    command.buffered_pages = drive.buffered_pages();
    command.free_superblocks = drive.free_lines();
    traces.commands.borrow_mut().push(command);
}
