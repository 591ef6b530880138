//! Lateness of answers that the wall clock paces.
//!
//! Invariant: an answer is never early. Lateness is the time that a client waits beyond the time of
//! the model: from the arrival of the request until its answer is handed to the system, or to the
//! thread that sends it; for answers given together, until the last one is. It includes the wait of
//! a request for a busy thread, counted from when the request was sent, or from the last look at
//! its socket, which may be too much and is never too little. It excludes the time that the system
//! needs to deliver the request and the answer.
//!
//! Counts and sums cover the time since power-on; distributions cover between one and two times the
//! last [`WINDOW`].

use crate::pacer::{Pace, WallClock};
use crate::thread::Arrived;
use hdrhistogram::Histogram;
use std::cell::RefCell;
use std::time::Instant;
use units::Ns;

/// Significant digits that the histograms keep.
const DIGITS: u8 = 2;
/// Unit of relative errors in the histograms: one millionth.
const MILLIONTH: u64 = 1_000_000;
/// Largest value of the histograms; greater values are clamped. In nanoseconds a quarter of an
/// hour, in millionths a million times the model's time.
const MOST: u64 = 1_000_000_000_000;

/// Length of a window, one minute: reports cover at most two, so that they show recent answers.
const WINDOW: Ns = Ns::ms(60_000);

/// Histograms of one window: lateness in nanoseconds, and relative error in millionths.
#[derive(Clone)]
struct Noted {
    late: Histogram<u64>,
    error: Histogram<u64>,
}

impl Noted {
    fn new() -> Self {
        let empty = || Histogram::new_with_max(MOST, DIGITS).expect("these are possible");
        Self {
            late: empty(),
            error: empty(),
        }
    }
}

/// Lateness of all answers: two windows of histograms, and totals.
struct Lateness {
    /// The current window and the one before.
    now: Noted,
    before: Noted,
    /// Start of the current window.
    since: Ns,
    count: u64,
    sum: Ns,
}

/// Lateness of the answers until now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Late {
    /// Answers to requests that take time by the model, since power-on.
    pub count: u64,
    /// Sum of the lateness of all these answers.
    pub sum: Ns,
    /// Median lateness over the last one to two minutes.
    pub median: Ns,
    /// 99th percentile of the lateness over the last one to two minutes.
    pub p99: Ns,
    /// Maximum lateness over the last one to two minutes.
    pub most: Ns,
    /// Median of lateness divided by the model's time of the request.
    pub median_error: f64,
    /// 99th percentile of lateness divided by the model's time of the request.
    pub p99_error: f64,
}

impl Lateness {
    fn new() -> Self {
        Self {
            now: Noted::new(),
            before: Noted::new(),
            since: Ns::ZERO,
            count: 0,
            sum: Ns::ZERO,
        }
    }

    /// Notes an answer at `now` that is `late`, to a request that takes `span` by the model.
    /// Ignores requests of zero time: they did not use the drive.
    fn note(&mut self, now: Ns, span: Ns, late: Ns) {
        if span == Ns::ZERO {
            return;
        }
        let age = now.0.saturating_sub(self.since.0);
        if age >= WINDOW.0 {
            self.before = std::mem::replace(&mut self.now, Noted::new());
            if age >= 2 * WINDOW.0 {
                self.before = Noted::new();
            }
            self.since = now;
        }
        self.count += 1;
        self.sum.0 = self.sum.0.saturating_add(late.0);
        self.now.late.saturating_record(late.0);
        let error = u128::from(late.0) * u128::from(MILLIONTH) / u128::from(span.0);
        let error = u64::try_from(error).unwrap_or(u64::MAX);
        self.now.error.saturating_record(error);
    }

    fn told(&self) -> Late {
        let mut all = self.now.clone();
        all.late += &self.before.late;
        all.error += &self.before.error;
        let late = |quantile| Ns(all.late.value_at_quantile(quantile));
        let error = |quantile| all.error.value_at_quantile(quantile) as f64 / MILLIONTH as f64;
        Late {
            count: self.count,
            sum: self.sum,
            median: late(0.5),
            p99: late(0.99),
            most: Ns(all.late.max()),
            median_error: error(0.5),
            p99_error: error(0.99),
        }
    }
}

/// Measures lateness if answers are paced.
pub(crate) struct Watch {
    clock: WallClock,
    noted: Option<RefCell<Lateness>>,
    /// Answers that the model has completed and that are not sent yet.
    ready: RefCell<Vec<Ready>>,
}

/// A completed answer that is not sent yet.
struct Ready {
    /// Time at which the model completed the request.
    due: Ns,
    /// Time that the request took by the model.
    span: Ns,
    /// Time that the request waited before it began.
    waited: Ns,
}

impl Watch {
    pub(crate) fn new(pace: Pace, clock: WallClock) -> Self {
        Self {
            clock,
            noted: pace.is_paced().then(|| RefCell::new(Lateness::new())),
            ready: RefCell::default(),
        }
    }

    /// Queues the answer to a request that arrived as `arrived`, began at `begun` and was completed
    /// by the model at `due`.
    pub(crate) fn note(&self, arrived: Arrived, begun: Ns, due: Ns) {
        if self.noted.is_some() {
            self.ready.borrow_mut().push(Ready {
                due,
                span: Ns(due.0 - begun.0),
                waited: Ns(arrived.taken.0.saturating_sub(arrived.asked.0)),
            });
        }
    }

    /// Returns the time if answers are waiting to be sent.
    pub(crate) fn about_to_give(&self) -> Option<Ns> {
        (!self.ready.borrow().is_empty()).then(|| self.clock.now())
    }

    /// Notes the lateness of all queued answers, sent at `when`.
    pub(crate) fn given(&self, when: Ns) {
        let mut ready = self.ready.borrow_mut();
        let Some(noted) = &self.noted else { return };
        let mut noted = noted.borrow_mut();
        for Ready { due, span, waited } in ready.drain(..) {
            let late = Ns(when.0.saturating_sub(due.0) + waited.0);
            noted.note(when, span, late);
        }
    }

    /// Returns the lateness until now; none if answers are not paced.
    pub(crate) fn told(&self) -> Option<Late> {
        self.noted.as_ref().map(|noted| noted.borrow().told())
    }

    /// Virtual time at `moment`.
    pub(crate) fn at(&self, moment: Instant) -> Ns {
        self.clock.at(moment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_error_is_lateness_over_model_time() {
        let mut lateness = Lateness::new();
        for late in 1..=100 {
            lateness.note(Ns::us(7), Ns::us(50), Ns::us(late));
        }
        lateness.note(Ns::us(7), Ns::ZERO, Ns::us(1_000));
        let told = lateness.told();
        assert_eq!((told.count, told.sum), (100, Ns::us(5_050)));
        let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.02;
        assert!(near(told.median.0 as f64, 50_000.0), "{told:?}");
        assert!(near(told.most.0 as f64, 100_000.0), "{told:?}");
        assert!(near(told.median_error, 1.0), "{told:?}");
        assert!(near(told.p99_error, 99.0 / 50.0), "{told:?}");
    }

    #[test]
    fn distributions_cover_two_windows_and_sums_cover_all() {
        let mut lateness = Lateness::new();
        let mut most = |minute: u64, late: u64| {
            lateness.note(Ns(minute * WINDOW.0), Ns::us(50), Ns::us(late));
            let told = lateness.told();
            (told.count, told.sum, told.most.0 > 500_000)
        };
        assert_eq!(most(0, 1_000), (1, Ns::us(1_000), true));
        assert_eq!(most(1, 1), (2, Ns::us(1_001), true));
        assert_eq!(most(2, 1), (3, Ns::us(1_002), false));
        assert_eq!(most(3, 900), (4, Ns::us(1_902), true));
        assert_eq!(most(9, 1), (5, Ns::us(1_903), false), "after a long pause");
    }
}
