//! Scales: from values to positions.
//!
//! Invariant: a position is between 0 and 1 and finite, whatever the value.

/// A range of values on a linear or logarithmic scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// Equal distances are equal differences.
    Linear {
        /// The value at position 0.
        low: f64,
        /// The value at position 1.
        high: f64,
    },
    /// Equal distances are equal ratios.
    Log {
        /// The value at position 0, positive.
        low: f64,
        /// The value at position 1.
        high: f64,
    },
}

impl Scale {
    /// The position of `value`, clamped to the range; 0 if it is not finite.
    #[must_use]
    pub fn at(self, value: f64) -> f64 {
        let position = match self {
            Self::Linear { low, high } => (value - low) / (high - low),
            Self::Log { low, high } => {
                (value.max(f64::MIN_POSITIVE) / low).ln() / (high / low).ln()
            }
        };
        match position.is_finite() {
            true => position.clamp(0.0, 1.0),
            false => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_scale_is_proportional_and_clamped() {
        let scale = Scale::Linear {
            low: 10.0,
            high: 20.0,
        };
        assert_eq!(scale.at(10.0), 0.0);
        assert_eq!(scale.at(15.0), 0.5);
        assert_eq!(scale.at(99.0), 1.0);
        assert_eq!(scale.at(-99.0), 0.0);
    }

    #[test]
    fn a_log_scale_maps_ratios() {
        let scale = Scale::Log {
            low: 1.0,
            high: 1e4,
        };
        assert!((scale.at(100.0) - 0.5).abs() < 1e-12);
        assert_eq!(scale.at(0.0), 0.0);
        assert_eq!(scale.at(1e9), 1.0);
    }

    #[test]
    fn a_scale_without_extent_stays_finite() {
        assert_eq!(
            Scale::Linear {
                low: 3.0,
                high: 3.0
            }
            .at(3.0),
            0.0
        );
        assert_eq!(
            Scale::Log {
                low: 3.0,
                high: 3.0
            }
            .at(3.0),
            0.0
        );
    }
}
