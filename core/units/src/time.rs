//! Virtual time in nanoseconds.

use crate::parse::{ParseError, Text, quantity};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

/// A point of virtual time, or a span of it, in nanoseconds. Parsed from
/// `1500`, `40us`, `1.5ms`, `2s`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(try_from = "Text", into = "u64")]
pub struct Ns(pub u64);

impl TryFrom<Text> for Ns {
    type Error = ParseError;
    fn try_from(text: Text) -> Result<Self, ParseError> {
        match text {
            Text::Number(ns) => Ok(Self(ns)),
            Text::Words(words) => words.parse(),
        }
    }
}

impl From<Ns> for u64 {
    fn from(time: Ns) -> Self {
        time.0
    }
}

impl Ns {
    /// A span of zero, or the start of the simulation.
    pub const ZERO: Self = Self(0);

    /// A span of `n` microseconds.
    #[must_use]
    pub const fn us(n: u64) -> Self {
        Self(n * 1_000)
    }

    /// A span of `n` milliseconds.
    #[must_use]
    pub const fn ms(n: u64) -> Self {
        Self(n * 1_000_000)
    }

    /// A span of `n` seconds.
    #[must_use]
    pub const fn secs(n: u64) -> Self {
        Self(n * 1_000_000_000)
    }

    /// The span since `earlier`, or zero if `earlier` is later than `self`.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// This span times `numerator` over `denominator`, rounded down; the longest span if it is
    /// longer.
    ///
    /// # Panics
    /// If `denominator` is 0.
    #[must_use]
    pub fn scaled(self, numerator: u64, denominator: u64) -> Self {
        let scaled = u128::from(self.0) * u128::from(numerator) / u128::from(denominator);
        Self(u64::try_from(scaled).unwrap_or(u64::MAX))
    }

    /// Time to transfer `bytes` at `bytes_per_second`, rounded up to a nanosecond.
    ///
    /// # Panics
    /// If `bytes_per_second` is 0.
    #[must_use]
    pub const fn transfer(bytes: u64, bytes_per_second: u64) -> Self {
        let ns = (bytes as u128 * 1_000_000_000).div_ceil(bytes_per_second as u128);
        Self(ns as u64)
    }
}

/// A rate in bytes per second with its reciprocal, for the hot path: spans without a division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    bytes_per_second: u64,
    /// 2⁶⁴ over the rate, rounded down; one less for a power of two.
    reciprocal: u64,
}

impl Rate {
    /// The rate of `bytes_per_second`.
    ///
    /// # Panics
    /// If `bytes_per_second` is 0.
    #[must_use]
    pub const fn new(bytes_per_second: u64) -> Self {
        Self {
            bytes_per_second,
            reciprocal: u64::MAX / bytes_per_second,
        }
    }

    /// The same time as [`Ns::transfer`] returns.
    #[inline]
    #[must_use]
    pub const fn span(self, bytes: u64) -> Ns {
        let Some(scaled) = bytes.checked_mul(1_000_000_000) else {
            return Ns::transfer(bytes, self.bytes_per_second);
        };
        // The error of the reciprocal times `scaled` is below 1, so the quotient is exact or one
        // too small.
        let quotient = ((scaled as u128 * self.reciprocal as u128) >> 64) as u64;
        let rest = scaled - quotient * self.bytes_per_second;
        let more = if rest > self.bytes_per_second {
            2
        } else {
            (rest > 0) as u64
        };
        Ns(quotient + more)
    }
}

impl Add for Ns {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Ns {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Ns {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl FromStr for Ns {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        quantity(text, "a time such as 1500ns, 40us, 1.5ms or 2s", unit).map(Self)
    }
}

fn unit(suffix: &str) -> Option<u64> {
    Some(match suffix {
        "" | "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return None,
    })
}

impl fmt::Display for Ns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scale, name) = match self.0 {
            0..1_000 => return f.pad(&format!("{} ns", self.0)),
            1_000..1_000_000 => (1_000, "µs"),
            1_000_000..1_000_000_000 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        };
        let hundredths = (u128::from(self.0) * 100 + scale / 2) / scale;
        let (whole, part) = (hundredths / 100, hundredths % 100);
        f.pad(&format!("{whole}.{part:02} {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_unit() {
        assert_eq!("40us".parse(), Ok(Ns(40_000)));
        assert_eq!("1.5ms".parse(), Ok(Ns(1_500_000)));
        assert_eq!("7".parse(), Ok(Ns(7)));
        assert!("fast".parse::<Ns>().is_err());
    }

    #[test]
    fn a_transfer_rounds_up() {
        assert_eq!(Ns::transfer(4096, 1_200_000_000), Ns(3414));
        assert_eq!(Ns::transfer(0, 1), Ns(0));
    }

    #[test]
    fn rate_agrees_with_the_division() {
        let mut random = 1_u64;
        let mut draw = || {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            random >> (random >> 58)
        };
        let rates: Vec<u64> = (0..500).map(|_| draw().max(1)).collect();
        let rates = rates
            .into_iter()
            .chain([1, 2, 3, 1 << 40, 1_200_000_000, u64::MAX]);
        for rate in rates {
            let exact = [
                0,
                1,
                rate,
                2 * (rate / 2),
                u64::MAX / 1_000_000_000,
                u64::MAX / 1_000_000_000 + 1,
            ];
            let random: Vec<u64> = (0..200).map(|_| draw() >> 16).collect();
            for bytes in random.into_iter().chain(exact) {
                let (span, divided) = (Rate::new(rate).span(bytes), Ns::transfer(bytes, rate));
                assert_eq!(span, divided, "{bytes} bytes at {rate}");
            }
        }
    }

    #[test]
    fn printing_picks_the_unit() {
        assert_eq!(Ns(999).to_string(), "999 ns");
        assert_eq!(Ns(40_000).to_string(), "40.00 µs");
        assert_eq!(Ns(1_234_567_890).to_string(), "1.23 s");
    }
}
