//! Which pages are worth moving to the host: counts of accesses, and a threshold that
//! adapts.
//!
//! Invariants: a page is told of at most once an epoch; the threshold stays between one
//! and the largest; only pages in the cache are counted.
//!
//! The counts are those of FlatFlash, which the paper names as the policy it follows
//! without giving its numbers; those are of the paper's public simulator. That compares
//! a ratio of integers, which stays 0 there, so that its threshold never moves.

use crate::config::PromotionConfig;

/// Shares at which the threshold moves, in quarters: a quarter and three quarters.
const LOW: u64 = 1;
const HIGH: u64 = 3;
const WHOLE: u64 = 4;

pub(crate) struct Promotion {
    config: PromotionConfig,
    threshold: u16,
    epoch: u8,
    /// Accesses of this epoch.
    accesses: u32,
    /// Of these, accesses that the pages had which were told of.
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

    /// Accesses beyond which a page is hot.
    pub(crate) fn threshold(&self) -> u16 {
        self.threshold
    }

    /// Counts an access to a page of the cache; whether the host is to be told of it.
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

    /// Ends an epoch: few accesses were to pages that left, so fewer pages are to leave;
    /// most were, so more may.
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
        // Ten pages, each told of after eight accesses: all that there was left.
        for _ in 0..10 {
            let (mut count, mut told) = (0, 0);
            (0..8).for_each(|_| {
                promotion.access((&mut count, &mut told));
            });
        }
        assert_eq!(promotion.threshold(), 6);
        // Pages that are asked for once each: none leaves.
        for _ in 0..160 {
            promotion.access((&mut 0, &mut 0));
        }
        assert_eq!(promotion.threshold(), 7, "and no more than the largest");
    }
}
