//! A paper's value, and the rule by which a measured value is judged.
//!
//! Invariant: the rule is defined here and nowhere else. A measured value `m` is compared with the
//! paper's `x`:
//!
//! - **A ratio** of two runs, or of a quantity whose neutral value is 1, such as write
//!   amplification: `m` is within a third of `x`, and `ln m` has the sign of `ln x` and between
//!   half and twice its size. For 1.31 that is 1.145 to 1.716, for 0.6 it is 0.4 to 0.775.
//! - **Similar** (`similar to X`): within a tenth of `X`. A ratio of 1 is judged in this way.
//! - **More and less** (`above A, at most B`, `below A, at least B`): beyond `A`, and no further
//!   than `B`. A ratio needs the second bound: that of the paper's text or figure if they give one,
//!   1.1 or 1/1.1 if the paper says "slightly", and 2 or 1/2 otherwise, since authors say so if
//!   they have measured a factor of two. Shares and times need none: 0, 1 or the paper's own limit
//!   ends them.
//! - **A range**: inside it, or as near to its nearer end as a single number would have to be.
//! - **An absolute value**, such as seconds, bytes or a share: within a third of `x`.
//! - **A counted value** (`exactly N`): equal.

use crate::human::{NOTHING, three};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Largest distance of a measured value from the paper's, as a share of the paper's.
pub const TOLERANCE: f64 = 1.0 / 3.0;

/// Largest distance between values that the paper calls similar, as a share of the paper's.
const SIMILAR: f64 = 0.1;

/// The value that a paper states, and the kind of statement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expectation {
    /// One number, within the tolerance.
    Value(f64),
    /// A number that the paper calls similar; 1 for the ratio of two similar values.
    Similar(f64),
    /// A range, from the first to the second number.
    Range(f64, f64),
    /// A counted value, from the first to the second number, without tolerance; both may be equal.
    Exactly(f64, f64),
    /// Above a number, without a second bound.
    Above(f64),
    /// Below a number, without a second bound.
    Below(f64),
    /// More than the first number and at most the second.
    More(f64, f64),
    /// Less than the first number and at least the second.
    Less(f64, f64),
    /// A statement that is no number a run could have.
    Other,
}

/// Parses a finite number above 0.
fn number(text: &str) -> Option<f64> {
    let number: f64 = text.trim().parse().ok()?;
    (number.is_finite() && number > 0.0).then_some(number)
}

/// Parses `A to B`, with A at most B.
fn range(text: &str) -> Option<(f64, f64)> {
    let (low, high) = text.split_once(" to ")?;
    let (low, high) = (number(low)?, number(high)?);
    (low <= high).then_some((low, high))
}

/// Parses `A`, or `A, LIMIT B`.
fn bounded(text: &str, limit: &str) -> Option<(f64, Option<f64>)> {
    let Some((bound, rest)) = text.split_once(',') else {
        return Some((number(text)?, None));
    };
    let end = number(rest.trim().strip_prefix(limit)?)?;
    Some((number(bound)?, Some(end)))
}

impl Expectation {
    /// Parses `2.5`, `similar to 1`, `1.2 to 1.5`, `exactly 512`, `exactly 1 to 4`, `above 1`,
    /// `above 1, at most 2`, `below 1` or `below 1, at least 0.5`.
    ///
    /// # Errors
    /// If `text` has another form; the error lists the forms.
    pub fn parse(text: &str) -> Result<Self, String> {
        let read = if let Some(bounds) = text.strip_prefix("above ") {
            bounded(bounds, "at most ").and_then(|bounds| match bounds {
                (low, None) => Some(Self::Above(low)),
                (low, Some(most)) => (low < most).then_some(Self::More(low, most)),
            })
        } else if let Some(bounds) = text.strip_prefix("below ") {
            bounded(bounds, "at least ").and_then(|bounds| match bounds {
                (high, None) => Some(Self::Below(high)),
                (high, Some(least)) => (least < high).then_some(Self::Less(high, least)),
            })
        } else if let Some(same) = text.strip_prefix("similar to ") {
            number(same).map(Self::Similar)
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
                "expected a number above 0, A to B, similar to A, exactly A, exactly A to B, \
                 above A, above A, at most B, below A, or below A, at least B, found {text:?}"
            )
        })
    }

    /// The lack of an expectation that makes it unfit for a ratio: a trend without a second bound,
    /// or 1 without the word "similar". `None` if it is fit.
    #[must_use]
    pub fn lacks_as_ratio(self) -> Option<&'static str> {
        match self {
            Self::Above(_) => Some("a ratio needs a second bound: above A, at most B"),
            Self::Below(_) => Some("a ratio needs a second bound: below A, at least B"),
            Self::Value(1.0) => Some("a ratio of 1 says: similar to 1"),
            _ => None,
        }
    }

    /// The paper's number: the lower end of a range, the bound of a trend; `None` for
    /// [`Self::Other`].
    #[must_use]
    pub const fn paper(self) -> Option<f64> {
        match self {
            Self::Value(x)
            | Self::Similar(x)
            | Self::Range(x, _)
            | Self::Exactly(x, _)
            | Self::Above(x)
            | Self::Below(x)
            | Self::More(x, _)
            | Self::Less(x, _) => Some(x),
            Self::Other => None,
        }
    }

    /// Largest distance of the ratio to it from 1; 0 if the rule is another one.
    #[must_use]
    pub const fn tolerance(self) -> f64 {
        match self {
            Self::Value(_) | Self::Range(..) => TOLERANCE,
            Self::Similar(_) => SIMILAR,
            _ => 0.0,
        }
    }

    /// `measured` over the paper's number; for a range over the nearest value in it.
    #[must_use]
    pub fn ratio(self, measured: f64) -> Option<f64> {
        match self {
            Self::Range(low, high) | Self::Exactly(low, high) => {
                Some(measured / measured.clamp(low, high))
            }
            other => other.paper().map(|x| measured / x),
        }
    }

    /// Whether it is a number or a range, whose ratio measures the distance of a value.
    #[must_use]
    pub const fn is_a_size(self) -> bool {
        matches!(
            self,
            Self::Value(_) | Self::Similar(_) | Self::Range(..) | Self::Exactly(..)
        )
    }

    /// Whether `measured` meets the expectation by the rule of this module. `as_ratio`: 1 is the
    /// neutral value.
    #[must_use]
    pub fn holds(self, measured: f64, as_ratio: bool) -> bool {
        let near = |x| {
            if as_ratio {
                of_effect(measured, x)
            } else {
                within(measured, x)
            }
        };
        match self {
            Self::Above(x) => measured > x,
            Self::Below(x) => measured < x,
            Self::More(x, most) => measured > x && measured <= most,
            Self::Less(x, least) => measured < x && measured >= least,
            Self::Value(x) => near(x),
            Self::Similar(x) => similar(measured, x),
            Self::Range(low, high) => {
                let end = measured.clamp(low, high);
                measured == end || near(end)
            }
            Self::Exactly(low, high) => (low..=high).contains(&measured),
            Self::Other => false,
        }
    }

    /// `number` with all digits if the expectation is a count, else with three.
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
            Self::Similar(x) => write!(f, "≈ {}", three(x)),
            Self::Range(low, high) => write!(f, "{} to {}", three(low), three(high)),
            Self::Exactly(low, high) if low < high => write!(f, "= {low} to {high}"),
            Self::Exactly(count, _) => write!(f, "= {count}"),
            Self::Above(x) => write!(f, "> {}", three(x)),
            Self::Below(x) => write!(f, "< {}", three(x)),
            Self::More(x, most) => write!(f, "> {}, ≤ {}", three(x), three(most)),
            Self::Less(x, least) => write!(f, "< {}, ≥ {}", three(x), three(least)),
            Self::Other => f.write_str(NOTHING),
        }
    }
}

/// Whether `measured` is within the tolerance of `x`. A third of a number has no exact
/// double, so three distances are compared with the number.
fn within(measured: f64, x: f64) -> bool {
    3.0 * (measured - x).abs() <= x
}

/// Whether `measured` is within a tenth of `x`.
fn similar(measured: f64, x: f64) -> bool {
    10.0 * (measured - x).abs() <= x
}

/// Whether `measured` has the effect of the ratio `x`: the same direction, and between half and
/// twice its size.
fn of_effect(measured: f64, x: f64) -> bool {
    if x == 1.0 {
        return similar(measured, x);
    }
    let effect = measured.ln() / x.ln();
    within(measured, x) && (0.5..=2.0).contains(&effect)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(text: &str, x: f64, as_ratio: bool) -> bool {
        Expectation::parse(text).unwrap().holds(x, as_ratio)
    }

    #[test]
    fn absolute_value_holds_within_a_third() {
        let holds = |text: &str, x: f64| holds(text, x, false);
        assert!(holds("3", 2.0) && holds("3", 4.0));
        assert!(!holds("3", 1.99) && !holds("3", 4.01));
        assert!(holds("1.2 to 1.5", 1.3) && holds("1.2 to 1.5", 0.81));
        assert!(!holds("1.2 to 1.5", 0.79) && !holds("1.2 to 1.5", 2.01));
        assert!(holds("above 1", 1.001) && !holds("above 1", 1.0));
        assert!(holds("below 1", 0.999) && !holds("below 1", 1.0));
    }

    /// Fails if nearness alone decides: 1.0008 is within a third of 1.31.
    #[test]
    fn ratio_holds_from_half_to_twice_the_effect() {
        let holds = |text: &str, x: f64| holds(text, x, true);
        assert!(!holds("1.31", 1.144) && holds("1.31", 1.145));
        assert!(holds("1.31", 1.716) && !holds("1.31", 1.717));
        assert!(!holds("1.31", 1.0008) && !holds("1.31", 0.99));
        assert!(!holds("0.6", 0.399) && holds("0.6", 0.4));
        assert!(holds("0.6", 0.7745) && !holds("0.6", 0.775));
        // A third of a large effect is less than half of it.
        assert!(holds("6", 4.0) && !holds("6", 3.99) && holds("6", 8.0) && !holds("6", 8.01));
        assert!(!holds("1.31", 0.0) && !holds("1.31", -1.0) && !holds("0.6", f64::NAN));
    }

    #[test]
    fn ratio_outside_a_range_is_judged_by_its_nearer_end() {
        let holds = |x: f64| holds("1.2 to 1.5", x, true);
        assert!(holds(1.2) && holds(1.5) && holds(1.1) && holds(1.99));
        assert!(!holds(1.09) && !holds(2.01) && !holds(0.9));
    }

    #[test]
    fn similar_holds_within_a_tenth() {
        for as_ratio in [false, true] {
            let holds = |text: &str, x: f64| holds(text, x, as_ratio);
            assert!(holds("similar to 1", 0.901) && holds("similar to 1", 1.099));
            assert!(!holds("similar to 1", 0.899) && !holds("similar to 1", 1.101));
            assert!(holds("similar to 0.986", 0.9) && !holds("similar to 0.986", 0.88));
        }
        assert!(holds("1", 1.09, true) && !holds("1", 1.11, true) && holds("1", 1.3, false));
    }

    #[test]
    fn trend_with_a_second_bound_goes_no_further() {
        let holds = |text: &str, x: f64| holds(text, x, true);
        assert!(holds("above 1, at most 2", 1.001) && holds("above 1, at most 2", 2.0));
        assert!(!holds("above 1, at most 2", 1.0) && !holds("above 1, at most 2", 2.001));
        assert!(holds("below 1, at least 0.5", 0.5) && holds("below 1, at least 0.5", 0.999));
        assert!(!holds("below 1, at least 0.5", 0.499) && !holds("below 1, at least 0.5", 1.0));
        let lacks = |text: &str| Expectation::parse(text).unwrap().lacks_as_ratio();
        assert!(lacks("above 1").is_some() && lacks("below 1").is_some() && lacks("1").is_some());
        assert_eq!(lacks("above 1, at most 2"), None);
        assert_eq!((lacks("similar to 1"), lacks("1.5")), (None, None));
    }

    #[test]
    fn expectation_that_says_nothing_is_rejected() {
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
            "similar to",
            "above 2, at most 1",
            "above 1, at least 0.5",
            "below 1, at least 2",
            "below 1, at most",
        ];
        for wrong in wrong {
            assert!(Expectation::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn counted_value_has_no_tolerance() {
        let one = Expectation::parse("exactly 262144").unwrap();
        let holds = |x: f64| one.holds(x, false);
        assert!(holds(262_144.0) && !holds(262_143.0) && !holds(262_145.0));
        assert_eq!(
            (one.to_string(), one.digits(262_143.0)),
            ("= 262144".to_owned(), "262143".to_owned())
        );
        let some = Expectation::parse("exactly 16000 to 16384").unwrap();
        let holds = |x: f64| some.holds(x, false);
        assert!(holds(16_000.0) && holds(16_384.0) && !holds(15_999.0));
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
