//! The rule by which a quantity is steady.

/// Number of rounds that are looked at, and averaged.
pub const ROUNDS: usize = 5;
/// Rounds after which a test ends without a steady state.
pub const MOST_ROUNDS: usize = 25;

/// Largest difference of two rounds, as a share of the average.
const RANGE: f64 = 0.2;
/// Largest rise or fall of the fitted line over the rounds, as a share of the average.
const SLOPE: f64 = 0.1;

/// Whether the last [`ROUNDS`] values of `tracked` are steady: they differ by at most 20 % of their
/// average, and the line of least squares through them rises or falls by at most 10 % of it from
/// the first round to the last.
//= pts 1
#[must_use]
pub fn is_steady(tracked: &[f64]) -> bool {
    let Some(first) = tracked.len().checked_sub(ROUNDS) else {
        return false;
    };
    let last = &tracked[first..];
    let average = last.iter().sum::<f64>() / ROUNDS as f64;
    let most = last.iter().copied().fold(f64::MIN, f64::max);
    let least = last.iter().copied().fold(f64::MAX, f64::min);
    let middle = (ROUNDS - 1) as f64 / 2.0;
    let (mut of_both, mut of_rounds) = (0.0, 0.0);
    for (round, value) in last.iter().enumerate() {
        let from_middle = round as f64 - middle;
        of_both += from_middle * (value - average);
        of_rounds += from_middle * from_middle;
    }
    let rise = of_both / of_rounds * (ROUNDS - 1) as f64;
    most - least <= RANGE * average && rise.abs() <= SLOPE * average
}

#[cfg(test)]
mod tests {
    use super::is_steady;

    #[test]
    fn range_and_slope_both_limit_the_last_five_rounds() {
        assert!(!is_steady(&[100.0; 4]));
        assert!(is_steady(&[100.0; 5]));
        assert!(is_steady(&[900.0, 100.0, 100.0, 100.0, 100.0, 100.0]));
        // A range of 20 % without a slope, and a little more.
        assert!(is_steady(&[100.0, 90.0, 110.0, 90.0, 110.0]));
        assert!(!is_steady(&[100.0, 89.0, 110.0, 90.0, 111.0]));
        // A slope of 10 %, and a little more.
        assert!(is_steady(&[95.0, 97.5, 100.0, 102.5, 105.0]));
        assert!(!is_steady(&[94.0, 97.0, 100.0, 103.0, 106.0]));
        assert!(!is_steady(&[f64::NAN; 5]));
    }
}
