//! Time of cores: 4,096 ticks a nanosecond.
//!
//! A slot of a core that starts four instructions a cycle at 4 GHz is 256 ticks, and
//! a clock of DDR5-4800 is 1,707, a fiftieth of a percent off. A number holds 52 days. The
//! clock of a machine ends when the times of its cores add up to half of that, so no sum of
//! their counters overflows.

use std::ops::{Add, AddAssign, Sub, SubAssign};
use units::Ns;

/// A point of virtual time, or a span of it, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tick(pub u64);

impl Tick {
    /// Ticks in a nanosecond.
    pub const PER_NS: u64 = 4_096;
    /// Zero ticks: the start of time, or an empty span.
    pub const ZERO: Self = Self(0);
    /// Later than every other time: stands for "not known yet".
    pub const NEVER: Self = Self(u64::MAX);

    /// Last instant of the clock of a machine with `cores` cores.
    #[must_use]
    pub const fn last(cores: u64) -> Self {
        Self(u64::MAX / 2 / cores)
    }

    /// Converts `time` to ticks.
    #[inline]
    #[must_use]
    pub const fn of(time: Ns) -> Self {
        Self(time.0.saturating_mul(Self::PER_NS))
    }

    /// The first whole nanosecond that is not earlier.
    #[inline]
    #[must_use]
    pub const fn ns_up(self) -> Ns {
        Ns(self.0.div_ceil(Self::PER_NS))
    }

    /// Whole nanoseconds, rounded down.
    #[inline]
    #[must_use]
    pub const fn ns(self) -> Ns {
        Ns(self.0 / Self::PER_NS)
    }

    /// The time since `earlier`, or zero if `earlier` is later.
    #[inline]
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// The span multiplied by `times`.
    #[inline]
    #[must_use]
    pub const fn times(self, times: u64) -> Self {
        Self(self.0 * times)
    }

    /// Duration of `count` periods at `hertz`, rounded to the nearest tick.
    #[must_use]
    pub const fn cycles(count: u64, hertz: u64) -> Self {
        let ticks = count as u128 * Self::PER_NS as u128 * 1_000_000_000;
        Self(((ticks + hertz as u128 / 2) / hertz as u128) as u64)
    }

    /// Duration of a transfer of `bytes` at `bytes_per_second`, rounded to the nearest tick.
    #[must_use]
    pub const fn transfer(bytes: u64, bytes_per_second: u64) -> Self {
        Self::cycles(bytes, bytes_per_second)
    }
}

impl Add for Tick {
    type Output = Self;
    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Tick {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Tick {
    type Output = Self;
    #[inline]
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl SubAssign for Tick {
    #[inline]
    fn sub_assign(&mut self, other: Self) {
        self.0 -= other.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_become_ticks() {
        assert_eq!(Tick::cycles(1, 4_000_000_000), Tick(1_024));
        assert_eq!(Tick::cycles(3, 2_400_000_000), Tick(5_120));
        assert_eq!(Tick::transfer(64, 32_000_000_000), Tick::of(Ns(2)));
        assert_eq!((Tick(4_097).ns(), Tick(4_097).ns_up()), (Ns(1), Ns(2)));
    }
}
