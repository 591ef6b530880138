//! Trace of a run: each command as a row of a table, and the work of dies, channels and firmware as
//! events of a viewer.
//!
//! Invariants: a run is the same with and without a trace; a trace begins with the first request of
//! the run and ends with the last, and its times are relative to that begin; memory does not grow
//! with the run.

mod events;
mod requests;

use crate::sight::Sight;
use events::Events;
use requests::Requests;
use std::io::{self, Write};
use units::Ns;

/// Writers of the traces of one run.
pub struct Tracer<W> {
    requests: Option<Requests<W>>,
    events: Option<Events<W>>,
    /// Begin of the run; `None` before its first sight.
    origin: Option<Ns>,
}

impl<W: Write> Tracer<W> {
    /// A tracer that writes the commands to `requests` as CSV, and the events to `events` as JSON in
    /// the trace event format.
    #[must_use]
    pub fn new(requests: Option<W>, events: Option<W>) -> Self {
        Self {
            requests: requests.map(Requests::new),
            events: events.map(Events::new),
            origin: None,
        }
    }

    /// Writes the commands and events since the last sight of the run; starts the trace at the first
    /// sight.
    ///
    /// # Errors
    /// If a writer fails.
    pub fn see(&mut self, sight: &Sight<'_>) -> io::Result<()> {
        let device = sight.device();
        let Some(origin) = self.origin else {
            device.start_trace();
            self.origin = Some(sight.origin());
            if let Some(requests) = &mut self.requests {
                requests.begin()?;
            }
            return match &mut self.events {
                Some(events) => events.begin(device.drive()),
                None => Ok(()),
            };
        };
        let (commands, trace) = (device.take_trace(), device.drive().take_trace());
        if let Some(requests) = &mut self.requests {
            requests.write(&commands, origin)?;
        }
        match &mut self.events {
            Some(events) => events.write((&commands, &trace), device.drive(), origin),
            None => Ok(()),
        }
    }

    /// Ends the traces, and returns their writers.
    ///
    /// # Errors
    /// If a writer fails.
    pub fn finish(self) -> io::Result<(Option<W>, Option<W>)> {
        let events = self.events.map(Events::finish).transpose()?;
        Ok((self.requests.map(Requests::finish), events))
    }
}
