//! A trace as a workload, read once or several times in a row.
//!
//! Invariants: a pass begins at the time of the last request of the pass before it; a file is read
//! again for each pass, so that the memory of a stream does not depend on their number; an origin
//! has the same number in all passes.

use super::fitted::{Fit, Places};
use crate::request::{Labels, Request};
use crate::trace::{Format, Notes, Options, Trace, TraceError};
use std::path::PathBuf;
use units::{Bytes, Ns};

/// Trace, and the treatment of its requests.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    pub(super) path: PathBuf,
    pub(super) format: Option<Format>,
    pub(super) options: Options,
    pub(super) fit: Fit,
    /// Factor by which times pass faster, in millionths.
    pub(super) speed: u64,
    /// Passes over the trace, at least 1.
    pub(super) repeat: u64,
}

/// Requests of all passes over a trace.
pub(super) struct Passes {
    recorded: Recorded,
    trace: Box<Trace>,
    places: Places,
    capacity: Bytes,
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
}

impl Recorded {
    /// The requests on a drive of `capacity`.
    pub(super) fn open(&self, capacity: Bytes) -> Result<Passes, TraceError> {
        Ok(Passes {
            trace: Box::new(Trace::open(&self.path, self.format, self.options)?),
            places: Places::new(self.fit.clone(), capacity),
            capacity,
            left: self.repeat - 1,
            recorded: self.clone(),
            start: Ns::ZERO,
            last: Ns::ZERO,
            begun: false,
            ended: false,
            before: Notes::default(),
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
        let of = &self.places.notes;
        let read = self.trace.notes().after(&self.before);
        Notes {
            wrapped: of.wrapped,
            outside: of.outside,
            cut: of.cut,
            divided: of.divided,
            skipped: read.skipped + of.skipped,
            ..read
        }
    }

    /// Begins the next pass; `false` if there is none. A trace without requests is read once.
    fn begin(&mut self) -> Result<bool, TraceError> {
        let is_first = self.left + 1 == self.recorded.repeat;
        if !self.begun && !is_first {
            let found = "a later pass without a request".to_owned();
            return Err(self.unfit("a trace that can be read again", found));
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

    /// `request` of the present pass at its time in all passes; `None` if it is left out.
    fn timed(&mut self, request: Request) -> Result<Option<Request>, TraceError> {
        let Recorded { speed, repeat, .. } = self.recorded;
        let passed = match speed {
            NORMAL => Some(request.at.0),
            speed => scaled(request.at.0, speed),
        };
        let Some(at) = passed.and_then(|at| self.start.0.checked_add(at)) else {
            let expected = "passes that end before 2^64 ns, which is 584 years";
            let found = match passed {
                Some(_) => format!("repeat={repeat}"),
                None => format!("speed={}", speed as f64 / NORMAL as f64),
            };
            return Err(self.unfit(expected, found));
        };
        (self.last, self.begun) = (Ns(at), true);
        let at = Ns(at);
        Ok(self.places.begin(Request { at, ..request }))
    }

    /// `request` at its place on the drive; `None` if it is left out.
    fn placed(&mut self, request: Request) -> Result<Option<Request>, TraceError> {
        self.places.place(request).map_err(|full| {
            let expected = format!(
                "a trace that uses at most the {} of the drive in pieces of 64 KiB",
                self.capacity
            );
            self.unfit(&expected, format!("more than {}", full.used))
        })
    }

    fn unfit(&self, expected: &str, found: String) -> TraceError {
        TraceError::Unfit {
            name: self.recorded.path.display().to_string(),
            expected: expected.to_owned(),
            found,
        }
    }
}

/// Factor of times that pass as recorded, in millionths.
const NORMAL: u64 = 1_000_000;

/// `at` if times pass faster by `speed` millionths; `None` if it ends past 2^64.
fn scaled(at: u64, speed: u64) -> Option<u64> {
    let slower = u128::from(at) * u128::from(NORMAL) / u128::from(speed);
    u64::try_from(slower).ok()
}

impl Iterator for Passes {
    type Item = Result<Request, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            let read = match self.places.rest() {
                Some(rest) => self.placed(rest),
                None => match self.trace.next() {
                    Some(read) => match read.and_then(|request| self.timed(request)) {
                        Ok(Some(request)) => self.placed(request),
                        left_out => left_out,
                    },
                    None => match self.begin() {
                        Ok(true) => continue,
                        Ok(false) => return None,
                        Err(error) => Err(error),
                    },
                },
            };
            self.ended = read.is_err();
            if let Some(read) = read.transpose() {
                return Some(read);
            }
        }
        None
    }
}
