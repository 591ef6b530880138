//! Logarithms and powers in fixed point.
//!
//! The floating-point functions of the standard library differ between machines,
//! and a draw that depends on their last bit would make runs differ. The functions
//! here use integers throughout; their error is below 2⁻²⁷ of the result.

/// One in the fixed point of logarithms: 32 bits after the point.
pub const LOG_ONE: u64 = 1 << 32;

/// One in the fixed point of powers: 62 bits after the point.
pub const POWER_ONE: u64 = 1 << 62;

/// ln 2 with 32 bits after the point.
const LN_2: u64 = 2_977_044_472;

/// The binary logarithm of `x` with 32 bits after the point: each squaring of
/// the mantissa yields one bit.
///
/// # Panics
/// If `x` is 0.
#[must_use]
pub fn log2(x: u64) -> u64 {
    let whole = x.ilog2();
    let mut mantissa = x << (63 - whole);
    let mut log = u64::from(whole);
    for _ in 0..32 {
        let square = (u128::from(mantissa) * u128::from(mantissa)) >> 63;
        let carry = (square >> 64) as u64;
        mantissa = (square >> carry) as u64;
        log = log << 1 | carry;
    }
    log
}

/// 2⁻¹ᐟ², 2⁻¹ᐟ⁴, 2⁻¹ᐟ⁸ and so on, with 62 bits after the point.
const ROOTS: [u64; 32] = {
    let mut roots = [0; 32];
    let mut root = POWER_ONE / 2;
    let mut i = 0;
    while i < 32 {
        root = ((root as u128) << 62).isqrt() as u64;
        roots[i] = root;
        i += 1;
    }
    roots
};

/// 2 to the power of minus `x`. `x` has 32 bits after the point, the result 62;
/// results too small for that are 0.
#[must_use]
pub fn exp2_negative(x: u64) -> u64 {
    let bits = (0..32).filter(|i| x & (1 << (31 - i)) != 0);
    let power = bits.fold(POWER_ONE, |power, i| {
        ((u128::from(power) * u128::from(ROOTS[i])) >> 62) as u64
    });
    u32::try_from(x >> 32)
        .ok()
        .and_then(|n| power.checked_shr(n))
        .unwrap_or(0)
}

/// A draw from the exponential distribution with mean `mean`, by inversion of 64
/// random bits.
#[must_use]
pub fn exponential(bits: u64, mean: u64) -> u64 {
    // -ln(u) for u in (0, 1]: zero bits count as one.
    let log = 64 * LOG_ONE - log2(bits.max(1));
    let ln = (u128::from(log) * u128::from(LN_2)) >> 32;
    ((u128::from(mean) * ln) >> 32) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_and_logarithms_agree_with_the_library() {
        for x in [1_u64, 2, 3, 10, 1000, 123_456_789, u64::MAX] {
            let ours = log2(x) as f64 / LOG_ONE as f64;
            assert!((ours - (x as f64).log2()).abs() < 1e-8, "{x}: {ours}");
        }
        for x in [0.0_f64, 0.5, 1.0, 1.75, 13.37, 40.0] {
            let ours = exp2_negative((x * LOG_ONE as f64) as u64) as f64 / POWER_ONE as f64;
            let relative = ours / (-x).exp2() - 1.0;
            assert!(relative.abs() < 1e-6, "{x}: {relative}");
        }
        assert_eq!(exp2_negative(64 * LOG_ONE), 0);
        assert_eq!(exp2_negative(u64::MAX), 0);
    }

    #[test]
    fn exponential_draws_have_their_mean() {
        let mut rng = crate::Seed(3).stream("fixed");
        let sum: u64 = (0..100_000)
            .map(|_| exponential(rng.next_u64(), 1_000))
            .sum();
        // Five standard errors of an exponential's mean.
        assert!(sum.abs_diff(100_000_000) < 1_600_000, "{sum}");
        assert_eq!(exponential(u64::MAX, 1_000), 0);
    }
}
