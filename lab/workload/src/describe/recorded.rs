//! A trace as a workload, read once or several times in a row.
//!
//! Invariants: a pass begins at the time of the last request of the pass before it; a file is read
//! again for each pass, so that the memory of a stream does not depend on their number; an origin
//! has the same number in all passes.

use super::stream::fold;
use crate::request::{Labels, Request};
use crate::trace::{Format, Notes, Options, Trace, TraceError};
use std::path::PathBuf;
use units::{Bytes, Ns, SECTOR};

/// Trace, and the treatment of its requests.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    pub(super) path: PathBuf,
    pub(super) format: Option<Format>,
    pub(super) options: Options,
    /// Whether requests past the end of the drive are folded back onto it.
    pub(super) wrap: bool,
    /// Passes over the trace, at least 1.
    pub(super) repeat: u64,
}

/// Requests of all passes over a trace.
pub(super) struct Passes {
    recorded: Recorded,
    trace: Box<Trace>,
    /// Capacity in sectors, onto which requests are folded; `u64::MAX` to fold none.
    room: u64,
    /// Passes that follow the present one.
    left: u64,
    /// Start of the present pass, and time of its last request so far.
    start: Ns,
    last: Ns,
    /// Whether the present pass has had a request.
    begun: bool,
    /// Whether an error has ended the trace.
    ended: bool,
    /// Deviations in the passes before.
    before: Notes,
    /// Requests folded in all passes.
    wrapped: u64,
}

impl Recorded {
    /// The requests on a drive of `capacity`.
    pub(super) fn open(&self, capacity: Bytes) -> Result<Passes, TraceError> {
        Ok(Passes {
            trace: Box::new(Trace::open(&self.path, self.format, self.options)?),
            room: match self.wrap {
                true => capacity.0 / SECTOR,
                false => u64::MAX,
            },
            left: self.repeat - 1,
            recorded: self.clone(),
            start: Ns::ZERO,
            last: Ns::ZERO,
            begun: false,
            ended: false,
            before: Notes::default(),
            wrapped: 0,
        })
    }
}

impl Passes {
    /// Names of the origins that requests carry, as far as the trace has been read.
    pub(super) fn labels(&self) -> &Labels {
        self.trace.labels()
    }

    /// Deviations from the trace in all passes so far.
    pub(super) fn notes(&self) -> Notes {
        Notes {
            wrapped: self.wrapped,
            ..self.trace.notes().after(&self.before)
        }
    }

    /// Begins the next pass; `false` if there is none. A trace without requests is read once.
    fn begin(&mut self) -> Result<bool, TraceError> {
        let is_first = self.left + 1 == self.recorded.repeat;
        if !self.begun && !is_first {
            return Err(TraceError::Unfit {
                name: self.recorded.path.display().to_string(),
                expected: "a trace that can be read again".to_owned(),
                found: "a later pass without a request".to_owned(),
            });
        }
        if self.left == 0 || !self.begun {
            return Ok(false);
        }
        let Recorded { path, options, .. } = &self.recorded;
        let again = Trace::open(path, Some(self.trace.format()), *options)?;
        self.before = self.trace.notes().after(&self.before);
        *self.trace = again.continuing(&self.trace);
        (self.start, self.begun) = (self.last, false);
        self.left -= 1;
        Ok(true)
    }

    /// `request` of the present pass as the drive gets it.
    fn placed(&mut self, request: Request) -> Result<Request, TraceError> {
        let Some(at) = self.start.0.checked_add(request.at.0) else {
            return Err(TraceError::Unfit {
                name: self.recorded.path.display().to_string(),
                expected: "passes that end before 2^64 ns, which is 584 years".to_owned(),
                found: format!("repeat={}", self.recorded.repeat),
            });
        };
        (self.last, self.begun) = (Ns(at), true);
        let extent = fold(request.extent, self.room);
        self.wrapped += u64::from(extent != request.extent);
        Ok(Request {
            at: Ns(at),
            extent,
            ..request
        })
    }
}

impl Iterator for Passes {
    type Item = Result<Request, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            let read = match self.trace.next() {
                Some(read) => read.and_then(|request| self.placed(request)),
                None => match self.begin() {
                    Ok(true) => continue,
                    Ok(false) => return None,
                    Err(error) => Err(error),
                },
            };
            self.ended = read.is_err();
            return Some(read);
        }
        None
    }
}
