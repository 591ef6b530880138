//! The axes of figures, and their labelled ticks.
//!
//! Invariant: the scale of an axis begins and ends on a tick, or at the given range for kinds whose
//! range is fixed.

use crate::human;
use crate::plot::scale::Scale;
use crate::plot::ticks::{decades, nice};

/// The quantity on an axis, and its scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Plain numbers, on a linear scale from zero.
    Number,
    /// Bytes, on a linear scale from zero.
    Bytes,
    /// Nanoseconds, on a linear scale from zero.
    Time,
    /// Nanoseconds, on a logarithmic scale.
    LogTime,
    /// Ratios, on a logarithmic scale with 1 in the middle.
    Ratio,
    /// Shares from 0 to 1, on a linear scale.
    Share,
    /// Shares of slower requests, on a logarithmic scale from 1 down to 10⁻⁵, labelled as
    /// percentiles.
    Tail,
}

/// One axis of a figure.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Label of the axis, a few words.
    pub label: String,
    /// Quantity and scale of the axis.
    pub kind: Kind,
    /// The smallest value shown, for logarithmic axes.
    pub low: f64,
    /// The largest value shown.
    pub high: f64,
}

/// The smallest share on an axis of [`Kind::Tail`].
pub const TAIL_FLOOR: f64 = 1e-5;

impl Axis {
    /// An axis that covers the positive, finite `values`.
    pub fn new(label: &str, kind: Kind, values: impl Iterator<Item = f64>) -> Self {
        let positive = |x: &f64| x.is_finite() && *x > 0.0;
        let (low, high) = values
            .filter(positive)
            .fold((f64::INFINITY, 0.0_f64), |(l, h), x| (l.min(x), h.max(x)));
        let (low, high) = if high > 0.0 { (low, high) } else { (1.0, 1.0) };
        let label = label.to_owned();
        Self {
            label,
            kind,
            low,
            high,
        }
    }

    /// The scale, and about `most` ticks with their labels.
    pub(crate) fn layout(&self, most: usize) -> (Scale, Vec<(f64, String)>) {
        match self.kind {
            Kind::Number => self.linear(1.0, "", most),
            Kind::Bytes => {
                let (size, unit) = human::bytes_unit(self.high);
                self.linear(size, unit, most)
            }
            Kind::Time => {
                let (size, unit) = human::time_unit(self.high);
                self.linear(size, unit, most)
            }
            Kind::LogTime => self.log(most),
            Kind::Ratio => self.ratios(),
            Kind::Share => share(most),
            Kind::Tail => tail(),
        }
    }

    fn linear(&self, size: f64, unit: &str, most: usize) -> (Scale, Vec<(f64, String)>) {
        let values = nice(0.0, self.high / size, most);
        let high = values[values.len() - 1] * size;
        let label = |v: &f64| format!("{} {unit}", short(*v)).trim_end().to_owned();
        let ticks = values.iter().map(|v| (v * size, label(v))).collect();
        (Scale::Linear { low: 0.0, high }, ticks)
    }

    fn log(&self, most: usize) -> (Scale, Vec<(f64, String)>) {
        let values = decades(self.low, self.high);
        let (low, high) = (values[0], values[values.len() - 1]);
        let every = values.len().div_ceil(most.max(2) + 1).max(1);
        let tick = |v: &f64| (*v, human::trimmed(&human::time(*v)));
        let ticks = values.iter().step_by(every).map(tick).collect();
        (Scale::Log { low, high }, ticks)
    }

    /// Ticks of a ratio axis: 1 in the middle, and round ratios within the range on both sides.
    fn ratios(&self) -> (Scale, Vec<(f64, String)>) {
        let steps: &[f64] = match self.high {
            high if high < 5.0 => &[1.0, 1.5, 2.0, 3.0, 4.0],
            high if high < 50.0 => &[1.0, 2.0, 5.0, 10.0, 20.0],
            _ => &[1.0, 10.0, 100.0, 1000.0],
        };
        let within = steps.iter().filter(|step| **step <= self.high * 1.001);
        let below = within.clone().rev().map(|step| 1.0 / step);
        let all = below.chain(within.skip(1).copied());
        let tick = |ratio: f64| (ratio, format!("{}×", human::trimmed(&human::factor(ratio))));
        let (low, high) = (self.low, self.high);
        (Scale::Log { low, high }, all.map(tick).collect())
    }
}

fn short(value: f64) -> String {
    match value {
        v if v >= 1000.0 => human::trimmed(&human::count(v.round())),
        v if v.fract() == 0.0 => format!("{v:.0}"),
        v => human::trimmed(&format!("{v:.3}")),
    }
}

fn share(most: usize) -> (Scale, Vec<(f64, String)>) {
    let values = nice(0.0, 100.0, most);
    let tick = |v: &f64| (v / 100.0, format!("{v:.0} %"));
    (
        Scale::Linear {
            low: 0.0,
            high: 1.0,
        },
        values.iter().map(tick).collect(),
    )
}

fn tail() -> (Scale, Vec<(f64, String)>) {
    let labels = ["p99.999", "p99.99", "p99.9", "p99", "p90", "p0"];
    let ticks = labels.iter().zip(-5..);
    let scale = Scale::Log {
        low: TAIL_FLOOR,
        high: 1.0,
    };
    (
        scale,
        ticks
            .map(|(l, e)| (10f64.powi(e), (*l).to_owned()))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(kind: Kind, values: &[f64]) -> Vec<String> {
        let axis = Axis::new("", kind, values.iter().copied());
        axis.layout(5).1.into_iter().map(|t| t.1).collect()
    }

    #[test]
    fn bytes_are_labelled_in_one_binary_unit() {
        let gib = 1_073_741_824.0;
        assert_eq!(
            labels(Kind::Bytes, &[3.7 * gib]),
            ["0 GiB", "1 GiB", "2 GiB", "3 GiB", "4 GiB"]
        );
        assert_eq!(
            labels(Kind::Bytes, &[]),
            ["0 B", "0.2 B", "0.4 B", "0.6 B", "0.8 B", "1 B"]
        );
    }

    #[test]
    fn latencies_are_labelled_by_decade() {
        assert_eq!(
            labels(Kind::LogTime, &[7e3, 2e6]),
            ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms"]
        );
    }

    #[test]
    fn non_finite_values_do_not_affect_the_axis() {
        let axis = Axis::new("", Kind::Number, [f64::NAN, f64::INFINITY, 4.0].into_iter());
        assert_eq!((axis.low, axis.high), (4.0, 4.0));
    }
}
