//! Statistics of lifetimes, some of which are censored.

use super::lives::Span;
use crate::scale::STEPS;

/// Median lifetime: the shortest time after which at most half of the weight is alive, by the
/// estimator of Kaplan and Meier; `None` if more than half was alive as far as was seen.
///
/// A file that was alive at the end counts as at risk until then, and not further.
//= kaplan1958 2
#[must_use]
pub fn median(spans: &[(Span, u64)]) -> Option<u64> {
    let mut spans: Vec<_> = spans.to_vec();
    // At equal times deaths come first, as files alive at that time were at risk then.
    spans.sort_unstable_by_key(|(span, weight)| (span.steps, !span.whole, *weight));
    let mut risk: u128 = spans.iter().map(|(_, weight)| u128::from(*weight)).sum();
    let one = 1_u128 << 32;
    let mut alive = one;
    for (span, weight) in spans {
        let weight = u128::from(weight);
        if span.whole && risk > 0 {
            alive = alive * (risk - weight) / risk;
            if alive * 2 <= one {
                return Some(span.steps);
            }
        }
        risk -= weight;
    }
    None
}

/// Lifetime to assume: the actual one for dead files, twice the seen one for others. If a file is
/// seen at a random point of its life, the rest of its life exceeds its age with probability one
/// half.
#[must_use]
pub(crate) fn taken(span: Span) -> u64 {
    span.steps + if span.whole { 0 } else { STEPS }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(all: &[(u64, bool)]) -> Vec<(Span, u64)> {
        let span = |&(steps, whole): &(u64, bool)| (Span { steps, whole }, 1);
        all.iter().map(span).collect()
    }

    //= kaplan1958 2
    #[test]
    fn files_that_are_alive_make_the_median_later() {
        let dead = [(1, true), (2, true), (3, true), (4, true)];
        assert_eq!(median(&spans(&dead)), Some(2));
        // The survival is 3/4 after the first; the second is censored; the third makes it 3/4 ×
        // 1/2.
        let lost = [(1, true), (2, false), (3, true), (4, true)];
        assert_eq!(median(&spans(&lost)), Some(3));
        let alive = [(1, true), (2, false), (3, false), (4, false)];
        assert_eq!(median(&spans(&alive)), None);
        assert_eq!(median(&spans(&[])), None);
        assert_eq!(median(&spans(&[(7, true)])), Some(7));
    }

    #[test]
    fn weight_counts_like_equal_files() {
        let mut weighed = spans(&[(1, true), (5, true)]);
        weighed[0].1 = 3;
        assert_eq!(median(&weighed), Some(1));
        weighed[1].1 = 4;
        assert_eq!(median(&weighed), Some(5));
    }
}
