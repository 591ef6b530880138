//! How late answers are that are paced by the wall clock.
//!
//! Invariant: an answer is never early, so that lateness is what a client waits for beyond
//! the time of the model: from the instant at which its request was taken in to the one at
//! which its answer is there to be sent. What the system needs to bring a request here and
//! an answer there is not the drive's, and not in it.

use hdrhistogram::Histogram;
use units::Ns;

/// Two digits are kept of each value.
const DIGITS: u8 = 2;
/// Relative errors are counted in these.
const MILLIONTH: u64 = 1_000_000;
/// What is more counts as this: a quarter of an hour, or a million times the model's time.
const MOST: u64 = 1_000_000_000_000;

/// Answers by how late they were.
pub(crate) struct Lateness {
    late: Histogram<u64>,
    error: Histogram<u64>,
}

/// How late answers were until now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Late {
    /// Answers to requests that take time by the model.
    pub count: u64,
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
    pub(crate) fn new() -> Self {
        let empty = || Histogram::new_with_max(MOST, DIGITS).expect("these are possible");
        Self {
            late: empty(),
            error: empty(),
        }
    }

    /// Notes an answer to a request that takes `span` by the model. What takes no time there
    /// was no request to the drive.
    pub(crate) fn note(&mut self, span: Ns, late: Ns) {
        if span == Ns::ZERO {
            return;
        }
        self.late.saturating_record(late.0);
        let error = u128::from(late.0) * u128::from(MILLIONTH) / u128::from(span.0);
        let error = u64::try_from(error).unwrap_or(u64::MAX);
        self.error.saturating_record(error);
    }

    pub(crate) fn told(&self) -> Late {
        let late = |quantile| Ns(self.late.value_at_quantile(quantile));
        let error = |quantile| self.error.value_at_quantile(quantile) as f64 / MILLIONTH as f64;
        Late {
            count: self.late.len(),
            median: late(0.5),
            p99: late(0.99),
            most: Ns(self.late.max()),
            median_error: error(0.5),
            p99_error: error(0.99),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_lateness_over_what_the_model_says() {
        let mut lateness = Lateness::new();
        for late in 1..=100 {
            lateness.note(Ns::us(50), Ns::us(late));
        }
        lateness.note(Ns::ZERO, Ns::us(1_000));
        let told = lateness.told();
        assert_eq!(told.count, 100);
        let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.02;
        assert!(near(told.median.0 as f64, 50_000.0), "{told:?}");
        assert!(near(told.most.0 as f64, 100_000.0), "{told:?}");
        assert!(near(told.median_error, 1.0), "{told:?}");
        assert!(near(told.p99_error, 99.0 / 50.0), "{told:?}");
    }
}
