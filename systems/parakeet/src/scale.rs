//! Lifetimes on a logarithmic scale, in integers.

/// Number of steps for each power of two.
pub(crate) const STEPS: u64 = 16;

/// 16 × log2 of `value`, rounded down and interpolated linearly between powers of two (at most 1.4
/// steps too low); 0 for 0 and 1.
pub(crate) fn log2(value: u64) -> u64 {
    let Some(whole) = value.checked_ilog2() else {
        return 0;
    };
    let rest = value ^ (1 << whole);
    let part = (u128::from(rest) << 4) >> whole;
    u64::from(whole) * STEPS + u64::try_from(part).unwrap_or(0)
}

/// The smallest value whose [`log2`] is at least `steps`; `u64::MAX` beyond the scale.
pub(crate) fn exp2(steps: u64) -> u64 {
    let (whole, part) = (steps / STEPS, steps % STEPS);
    if whole >= 64 {
        return u64::MAX;
    }
    let value = ((u128::from(STEPS + part)) << whole).div_ceil(u128::from(STEPS));
    u64::try_from(value).unwrap_or(u64::MAX)
}

/// Rounds `value` down to two significant digits; at least 1.
pub(crate) fn round(value: u64) -> u64 {
    let mut unit = 1_u64;
    while value / unit >= 100 {
        unit *= 10;
    }
    (value / unit * unit).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp2_inverts_log2() {
        assert_eq!(
            (log2(0), log2(1), log2(2), log2(3), log2(4)),
            (0, 0, 16, 24, 32)
        );
        assert_eq!(log2(u64::MAX), 64 * 16 - 1);
        for steps in 64..64 * STEPS {
            assert_eq!(log2(exp2(steps)), steps);
            assert!(log2(exp2(steps) - 1) < steps);
        }
        assert_eq!(exp2(u64::MAX), u64::MAX);
        for value in (1..100_000).step_by(7) {
            let exact = (value as f64).log2() * 16.0;
            let off = exact - log2(value) as f64;
            assert!((0.0..2.4).contains(&off), "{value}: {off}");
        }
    }

    #[test]
    fn two_digits_are_kept() {
        let rounded = [0, 7, 99, 101, 12_345, u64::MAX].map(round);
        assert_eq!(rounded, [1, 7, 99, 100, 12_000, 18_000_000_000_000_000_000]);
    }
}
