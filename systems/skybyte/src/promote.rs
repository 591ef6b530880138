//! Promotion policy: access counts and an adaptive threshold pick the pages worth moving to
//! the host.
//!
//! Invariants: a page is reported hot at most once an epoch; the threshold stays between 1
//! and its configured maximum; only accesses to cached pages count.
//!
//! The policy is that of `flatflash`, which the paper follows without giving numbers; the
//! numbers are those of the paper's public simulator. The simulator compares a ratio of
//! integers that is always 0, so its threshold never moves.

use crate::config::PromotionConfig;

/// Promoted shares of all accesses at which the threshold moves, in quarters: 1/4 and 3/4.
const LOW: u64 = 1;
const HIGH: u64 = 3;
const WHOLE: u64 = 4;

pub(crate) struct Promotion {
    config: PromotionConfig,
    threshold: u16,
    epoch: u8,
    /// Accesses to the cache in this epoch.
    accesses: u32,
    /// Accesses of this epoch's hot pages up to the instant they were reported.
    promoted: u64,
}

impl Promotion {
    pub(crate) fn new(config: PromotionConfig) -> Self {
        Self {
            config,
            threshold: config.threshold,
            epoch: 1,
            accesses: 0,
            promoted: 0,
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.config.enabled
    }

    /// Current threshold: a page with more accesses than this is hot.
    pub(crate) fn threshold(&self) -> u16 {
        self.threshold
    }

    /// Counts an access to a cached page. Returns true if the page is to be reported hot.
    //= skybyte 3.3
    #[inline]
    pub(crate) fn access(&mut self, (count, told): (&mut u16, &mut u8)) -> bool {
        *count = count.saturating_add(1);
        self.accesses += 1;
        let hot = *count > self.threshold && *told != self.epoch;
        if hot {
            *told = self.epoch;
            self.promoted += u64::from(*count);
            *count = 0;
        }
        if self.accesses >= self.config.epoch {
            self.adapt();
        }
        hot
    }

    /// Ends an epoch. A small promoted share raises the threshold, so fewer pages move; a
    /// large share lowers it.
    fn adapt(&mut self) {
        let (promoted, all) = (self.promoted * WHOLE, u64::from(self.accesses));
        if self.config.adapts && promoted <= all * LOW {
            self.threshold = (self.threshold + 1).min(self.config.threshold);
        } else if self.config.adapts && promoted >= all * HIGH {
            self.threshold = (self.threshold - 1).max(1);
        }
        (self.accesses, self.promoted) = (0, 0);
        self.epoch = self.epoch.checked_add(1).unwrap_or(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_hot_past_the_threshold_and_told_of_once_an_epoch() {
        let mut promotion = Promotion::new(PromotionConfig {
            enabled: true,
            threshold: 7,
            epoch: 100,
            adapts: false,
        });
        let (mut count, mut told) = (0, 0);
        let hot: Vec<usize> = (1..=200)
            .filter(|_| promotion.access((&mut count, &mut told)))
            .collect();
        assert_eq!(hot, [8, 101], "in the second epoch its count had gone on");
    }

    #[test]
    fn the_threshold_follows_how_much_leaves() {
        let config = PromotionConfig {
            enabled: true,
            threshold: 7,
            epoch: 80,
            adapts: true,
        };
        let mut promotion = Promotion::new(config);
        // Ten pages, each reported after eight accesses: the promoted share is 1.
        for _ in 0..10 {
            let (mut count, mut told) = (0, 0);
            (0..8).for_each(|_| {
                promotion.access((&mut count, &mut told));
            });
        }
        assert_eq!(promotion.threshold(), 6);
        // Pages with one access each: none is promoted.
        for _ in 0..160 {
            promotion.access((&mut 0, &mut 0));
        }
        assert_eq!(promotion.threshold(), 7, "and no more than the largest");
    }
}
