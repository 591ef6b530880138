//! What a paper says of a value, and whether what was measured is that.
//!
//! Invariant: what a paper counts by arithmetic has no tolerance; what it has measured on
//! another machine has [`TOLERANCE`].

use crate::human::{NOTHING, three};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How far a measured value may be from the paper's, as a share of the paper's.
pub const TOLERANCE: f64 = 1.0 / 3.0;

/// How far from 1 a ratio of a paper has to be to say that something is better or worse.
const EVEN: f64 = 0.05;

/// What a paper says of a value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expectation {
    /// A number.
    Value(f64),
    /// Between two numbers.
    Range(f64, f64),
    /// Between two numbers, which may be one, and no further: what follows by counting.
    Exactly(f64, f64),
    /// More than a number: a trend.
    Above(f64),
    /// Less than a number: a trend.
    Below(f64),
    /// Something else than a number that a run could have.
    Other,
}

/// A number that a paper may have.
fn number(text: &str) -> Option<f64> {
    let number: f64 = text.trim().parse().ok()?;
    (number.is_finite() && number > 0.0).then_some(number)
}

/// `A to B`, in that order.
fn range(text: &str) -> Option<(f64, f64)> {
    let (low, high) = text.split_once(" to ")?;
    let (low, high) = (number(low)?, number(high)?);
    (low <= high).then_some((low, high))
}

impl Expectation {
    /// What `text` says: `2.5`, `1.2 to 1.5`, `exactly 512`, `exactly 1 to 4`, `above 1` or
    /// `below 1`.
    ///
    /// # Errors
    /// Says what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let read = if let Some(bound) = text.strip_prefix("above ") {
            number(bound).map(Self::Above)
        } else if let Some(bound) = text.strip_prefix("below ") {
            number(bound).map(Self::Below)
        } else if let Some(count) = text.strip_prefix("exactly ") {
            let count = range(count).or_else(|| number(count).map(|x| (x, x)));
            count.map(|(low, high)| Self::Exactly(low, high))
        } else if text.contains(" to ") {
            range(text).map(|(low, high)| Self::Range(low, high))
        } else {
            number(text).map(Self::Value)
        };
        read.ok_or_else(|| {
            format!(
                "expected a number above 0, A to B, exactly A, exactly A to B, above A or \
                 below A, found {text:?}"
            )
        })
    }

    /// The paper's number.
    #[must_use]
    pub const fn paper(self) -> Option<f64> {
        match self {
            Self::Value(x)
            | Self::Range(x, _)
            | Self::Exactly(x, _)
            | Self::Above(x)
            | Self::Below(x) => Some(x),
            Self::Other => None,
        }
    }

    /// How far a ratio to it may be from 1.
    #[must_use]
    pub const fn tolerance(self) -> f64 {
        match self {
            Self::Value(_) | Self::Range(..) => TOLERANCE,
            Self::Exactly(..) | Self::Above(_) | Self::Below(_) | Self::Other => 0.0,
        }
    }

    /// `measured` over the paper's number, and over the nearer end of a range.
    #[must_use]
    pub fn ratio(self, measured: f64) -> Option<f64> {
        match self {
            Self::Value(x) | Self::Above(x) | Self::Below(x) => Some(measured / x),
            Self::Range(low, high) | Self::Exactly(low, high) => {
                Some(measured / measured.clamp(low, high))
            }
            Self::Other => None,
        }
    }

    /// Whether it is a number or a range, whose ratio tells how far a measured value is.
    #[must_use]
    pub const fn is_a_size(self) -> bool {
        matches!(self, Self::Value(_) | Self::Range(..) | Self::Exactly(..))
    }

    /// Whether `measured` is as expected, within the tolerance.
    #[must_use]
    pub fn holds(self, measured: f64) -> bool {
        match self {
            Self::Above(x) => measured > x,
            Self::Below(x) => measured < x,
            Self::Value(x) => within(measured, x),
            Self::Range(low, high) => within(measured, measured.clamp(low, high)),
            Self::Exactly(low, high) => (low..=high).contains(&measured),
            Self::Other => false,
        }
    }

    /// Whether the paper's ratio says that one of two is better, by more than 5 %, and
    /// `measured` does not.
    #[must_use]
    pub fn is_contradicted_by(self, measured: f64) -> bool {
        let (low, high) = match self {
            Self::Value(x) => (x, x),
            Self::Range(low, high) => (low, high),
            Self::Exactly(..) | Self::Above(_) | Self::Below(_) | Self::Other => return false,
        };
        (low > 1.0 + EVEN && measured <= 1.0) || (high < 1.0 - EVEN && measured >= 1.0)
    }

    /// `number` with as many digits as a value that is expected so needs: all of a count.
    #[must_use]
    pub fn digits(self, number: f64) -> String {
        match self {
            Self::Exactly(..) => number.to_string(),
            _ => three(number),
        }
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Value(x) => f.write_str(&three(x)),
            Self::Range(low, high) => write!(f, "{} to {}", three(low), three(high)),
            Self::Exactly(low, high) if low < high => write!(f, "= {low} to {high}"),
            Self::Exactly(count, _) => write!(f, "= {count}"),
            Self::Above(x) => write!(f, "> {}", three(x)),
            Self::Below(x) => write!(f, "< {}", three(x)),
            Self::Other => f.write_str(NOTHING),
        }
    }
}

/// Whether `measured` is within the tolerance of `x`. A third of a number has no exact
/// double, so three distances are compared with the number.
fn within(measured: f64, x: f64) -> bool {
    3.0 * (measured - x).abs() <= x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expectations_are_read_and_judged() {
        let holds = |text: &str, x: f64| Expectation::parse(text).unwrap().holds(x);
        assert!(holds("3", 2.0) && holds("3", 4.0));
        assert!(!holds("3", 1.99) && !holds("3", 4.01));
        assert!(holds("1.2 to 1.5", 1.3) && holds("1.2 to 1.5", 0.81));
        assert!(!holds("1.2 to 1.5", 0.79) && !holds("1.2 to 1.5", 2.01));
        assert!(holds("above 1", 1.001) && !holds("above 1", 1.0));
        assert!(holds("below 1", 0.999) && !holds("below 1", 1.0));
    }

    #[test]
    fn what_is_better_has_to_be_better() {
        let turned = |text: &str, x: f64| {
            let expected = Expectation::parse(text).unwrap();
            expected.is_contradicted_by(x)
        };
        assert!(turned("1.1", 0.92) && turned("0.8", 1.06) && turned("1.2 to 1.5", 1.0));
        // As good as even there.
        assert!(!turned("1.04", 0.9) && !turned("0.96 to 1.5", 0.9));
        // The same way.
        assert!(!turned("1.1", 1.01) && !turned("0.8", 0.1));
        // A trend has its bound, and a count compares nothing.
        assert!(!turned("above 2", 0.5) && !turned("exactly 2", 0.5));
    }

    #[test]
    fn expectations_are_refused_that_say_nothing() {
        let wrong = [
            "",
            "0",
            "-1",
            "2 to 1",
            "nan",
            "inf",
            "above",
            "about 3",
            "exactly",
            "exactly 0",
            "exactly 3 to 2",
        ];
        for wrong in wrong {
            assert!(Expectation::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_is_counted_has_no_tolerance() {
        let one = Expectation::parse("exactly 262144").unwrap();
        assert!(one.holds(262_144.0) && !one.holds(262_143.0) && !one.holds(262_145.0));
        assert_eq!(
            (one.to_string(), one.digits(262_143.0)),
            ("= 262144".to_owned(), "262143".to_owned())
        );
        let some = Expectation::parse("exactly 16000 to 16384").unwrap();
        assert!(some.holds(16_000.0) && some.holds(16_384.0) && !some.holds(15_999.0));
        assert_eq!(some.tolerance(), 0.0);
        assert!(some.ratio(8_000.0).unwrap() == 0.5);
    }

    #[test]
    fn a_ratio_is_to_the_nearer_end_of_a_range() {
        let range = Expectation::Range(2.0, 4.0);
        let ratios = [1.0, 3.0, 8.0].map(|x| range.ratio(x).unwrap());
        assert_eq!(ratios, [0.5, 1.0, 2.0]);
    }
}
