//! Positions of grid lines.
//!
//! Invariant: ticks ascend, lie on round numbers, and are finitely many.

/// Round values (1, 2 or 5 times a power of ten) that cover `low` to `high`
/// in at most `most` steps; the first is at or below `low`, the last at or above `high`.
#[must_use]
pub fn nice(low: f64, high: f64, most: usize) -> Vec<f64> {
    let span = high - low;
    if !span.is_finite() || span <= 0.0 {
        return vec![low, low + 1.0];
    }
    let step = step(span / most.max(1) as f64);
    // Slightly inside the range, so that rounding of 0.3 / 0.1 does not add a fourth step.
    let (first, last) = ((low / step + 1e-9).floor(), (high / step - 1e-9).ceil());
    let count = (last - first) as usize;
    (0..=count).map(|i| (first + i as f64) * step).collect()
}

/// The least number of the form 1, 2 or 5 times a power of ten that is at least `rough`.
fn step(rough: f64) -> f64 {
    let power = 10f64.powf(rough.log10().floor());
    let round = [1.0, 2.0, 5.0].iter().map(|m| m * power);
    round
        .into_iter()
        .find(|s| *s >= rough * (1.0 - 1e-9))
        .unwrap_or(10.0 * power)
}

/// Powers of ten that cover `low` to `high`, which are both positive.
#[must_use]
pub fn decades(low: f64, high: f64) -> Vec<f64> {
    let exponent = |value: f64| value.clamp(1e-300, 1e300).log10();
    let first = (exponent(low) + 1e-9).floor() as i32;
    let last = (exponent(high) - 1e-9).ceil() as i32;
    (first..=last.max(first + 1))
        .map(|e| 10f64.powi(e))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_ticks_are_round_and_cover_the_range() {
        assert_eq!(nice(0.0, 10.0, 5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(nice(0.0, 97.0, 5), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(nice(0.0, 0.3, 3).len(), 4);
        assert_eq!(nice(13.0, 17.0, 4), [13.0, 14.0, 15.0, 16.0, 17.0]);
    }

    #[test]
    fn steps_never_exceed_the_requested_count() {
        for high in [0.001, 0.7, 1.0, 3.0, 9.99, 1234.5, 1e18] {
            let ticks = nice(0.0, high, 6);
            assert!(ticks.len() <= 8, "{high}: {ticks:?}");
            assert!(
                ticks[ticks.len() - 1] >= high * 0.999_999,
                "{high}: {ticks:?}"
            );
        }
    }

    #[test]
    fn an_empty_range_still_has_an_axis() {
        assert_eq!(nice(5.0, 5.0, 4), [5.0, 6.0]);
        assert_eq!(nice(0.0, f64::NAN, 4), [0.0, 1.0]);
    }

    #[test]
    fn decades_cover_the_range() {
        assert_eq!(decades(2e3, 3e5), [1e3, 1e4, 1e5, 1e6]);
        assert_eq!(decades(1e3, 1e6), [1e3, 1e4, 1e5, 1e6]);
        assert_eq!(decades(1e3, 1e3), [1e3, 1e4]);
        assert!(decades(0.0, u64::MAX as f64).len() < 400);
    }
}
