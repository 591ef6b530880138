//! How late answers are that are paced by the wall clock.
//!
//! Invariant: an answer is never early, so that lateness is what a client waits for beyond
//! the time of the model: from the instant at which its request was there to be taken in to
//! the one at which the system is given its answer, or another thread is that sends it; of
//! several that are given together, the last one's. A request that comes while the thread is
//! busy waits, which is in it: since it was sent, or since the last look at its socket, which
//! may be too much and never too little. What the system needs to bring a request here, and an
//! answer to who waits for it, is not the drive's, and not in it.
//!
//! Numbers and sums are those since power-on; how they are distributed is that of the last
//! [`WINDOW`] at least, and two of them at most.

use crate::pacer::{Pace, WallClock};
use crate::thread::Arrived;
use hdrhistogram::Histogram;
use std::cell::RefCell;
use std::time::Instant;
use units::Ns;

/// Two digits are kept of each value.
const DIGITS: u8 = 2;
/// Relative errors are counted in these.
const MILLIONTH: u64 = 1_000_000;
/// What is more counts as this: a quarter of an hour, or a million times the model's time.
const MOST: u64 = 1_000_000_000_000;

/// What is told of is not older than two of these: a minute, so that what is seen now is what
/// happens now.
const WINDOW: Ns = Ns::ms(60_000);

/// Answers of a time, by how late they were.
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

/// Answers by how late they were.
struct Lateness {
    /// Those of this window, and of the one before.
    now: Noted,
    before: Noted,
    /// When this window began.
    since: Ns,
    count: u64,
    sum: Ns,
}

/// How late answers were until now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Late {
    /// Answers to requests that take time by the model.
    pub count: u64,
    /// How late all of them were together.
    pub sum: Ns,
    /// Half of them were not later.
    pub median: Ns,
    /// Of a hundred, 99 were not later.
    pub p99: Ns,
    /// The latest.
    pub most: Ns,
    /// Half of them were not later in relation to what the model says that they take.
    pub median_error: f64,
    /// Of a hundred, 99.
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

    /// Notes an answer that is there `now` to a request that takes `span` by the model. What
    /// takes no time there was no request to the drive.
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

/// Notes how late answers are, where they are paced.
pub(crate) struct Watch {
    clock: WallClock,
    noted: Option<RefCell<Lateness>>,
    /// Answers that are there and not given yet.
    ready: RefCell<Vec<Ready>>,
}

/// An answer by the model.
struct Ready {
    /// When it was due.
    due: Ns,
    /// What it took.
    span: Ns,
    /// How long its request had waited before it began.
    waited: Ns,
}

impl Watch {
    pub(crate) fn new(pace: Pace, clock: WallClock) -> Self {
        let is_paced = pace == Pace::Wall;
        Self {
            clock,
            noted: is_paced.then(|| RefCell::new(Lateness::new())),
            ready: RefCell::default(),
        }
    }

    /// Takes an answer, by the model at `due`, to a request that began at `begun` and came as
    /// `arrived` says.
    pub(crate) fn note(&self, arrived: Arrived, begun: Ns, due: Ns) {
        if self.noted.is_some() {
            self.ready.borrow_mut().push(Ready {
                due,
                span: Ns(due.0 - begun.0),
                waited: Ns(arrived.taken.0.saturating_sub(arrived.asked.0)),
            });
        }
    }

    /// The time, if it is needed to note answers that are about to be given.
    pub(crate) fn about_to_give(&self) -> Option<Ns> {
        (!self.ready.borrow().is_empty()).then(|| self.clock.now())
    }

    /// Notes how late the answers are that were there and have been given since `when`.
    pub(crate) fn given(&self, when: Ns) {
        let mut ready = self.ready.borrow_mut();
        let Some(noted) = &self.noted else { return };
        let mut noted = noted.borrow_mut();
        for Ready { due, span, waited } in ready.drain(..) {
            let late = Ns(when.0.saturating_sub(due.0) + waited.0);
            noted.note(when, span, late);
        }
    }

    /// What is noted until now; none if nothing paces.
    pub(crate) fn told(&self) -> Option<Late> {
        self.noted.as_ref().map(|noted| noted.borrow().told())
    }

    /// The virtual time that belonged to a moment.
    pub(crate) fn at(&self, moment: Instant) -> Ns {
        self.clock.at(moment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_lateness_over_what_the_model_says() {
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
    fn what_is_told_is_of_the_last_minutes_and_sums_of_all() {
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
