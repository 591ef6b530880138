//! Folding of streams onto a limited number of targets.
//!
//! Invariants: with at least one target every stream has one or more, all in range. With as many
//! targets as streams no two streams share one. Streams that share are neighbours in the order of
//! lifetimes. Among all such folds the cheapest is chosen; a stream costs its share times its
//! distance in lifetime from those it is put with.

use crate::directive::{Directive, Grouping, Life, Stream, StreamId};
use std::fmt;

/// Assignment of targets to streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fold {
    /// First target and number of targets of each stream.
    slots: Vec<(u32, u32)>,
    names: Vec<String>,
    /// Whether each stream has several groups; others have no use for a second target.
    groups: Vec<bool>,
    targets: u32,
}

/// Information of directives that a translation loses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// There is no target, so nothing is told apart.
    All,
    /// The named streams share a target.
    Shared(Vec<String>),
    /// The groups of a stream share a limited number of targets.
    Groups {
        /// Name of the stream.
        stream: String,
        /// Number of its targets.
        targets: u32,
    },
    /// Files that no rule names share a target with streams.
    Unnamed,
    /// Several streams are told to have the same lifetime class.
    Class {
        /// Word for the class.
        class: &'static str,
        /// Names of the streams.
        streams: Vec<String>,
    },
    /// A stream gets a longer class than another one that lives longer.
    Order {
        /// Name of the stream.
        stream: String,
        /// Name of the longer-lived stream.
        below: String,
    },
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("there is no target: nothing is told apart"),
            Self::Shared(names) => write!(f, "{} share a target", names.join(", ")),
            Self::Groups { stream, targets: 1 } => {
                write!(f, "the groups of {stream} are not told apart")
            }
            Self::Groups { stream, targets } => {
                write!(f, "the groups of {stream} take turns on {targets} targets")
            }
            Self::Unnamed => f.write_str("files that no rule names share a target with streams"),
            Self::Class { class, streams } => {
                write!(f, "{} are all told to be {class}", streams.join(", "))
            }
            Self::Order { stream, below } => {
                write!(
                    f,
                    "{stream} is told to live longer than {below}, which it does not"
                )
            }
        }
    }
}

impl Fold {
    /// The cheapest fold of `streams` onto `targets` targets.
    #[must_use]
    pub fn new(streams: &[Stream], targets: u32) -> Self {
        let order = by_life(streams);
        let parts = usize::try_from(targets).unwrap_or(usize::MAX);
        let parts = parts.min(streams.len());
        let mut slots = vec![(0, 0); streams.len()];
        if parts > 0 {
            let cuts = cheapest(&points(streams, &order), parts);
            let zones = spread(streams, &order, &cuts, targets);
            let mut first = 0;
            for (part, range) in cuts.windows(2).enumerate() {
                for &stream in &order[range[0]..range[1]] {
                    slots[stream] = (first, zones[part]);
                }
                first += zones[part];
            }
        }
        Self {
            slots,
            names: streams.iter().map(|stream| stream.name.clone()).collect(),
            groups: streams
                .iter()
                .map(|s| s.grouping != Grouping::One)
                .collect(),
            targets,
        }
    }

    /// The target of `directive`; `None` without targets, or if the stream does not exist.
    #[must_use]
    pub fn target(&self, directive: Directive) -> Option<u32> {
        let (first, count) = self.targets_of(directive.stream)?;
        let turn = directive.group % u64::from(count);
        Some(first + u32::try_from(turn).unwrap_or(0))
    }

    /// First target of `stream` and number of its targets; `None` if it has none.
    #[must_use]
    pub fn targets_of(&self, stream: StreamId) -> Option<(u32, u32)> {
        let slot = self.slots.get(usize::from(stream.0)).copied();
        slot.filter(|&(_, count)| count > 0)
    }

    /// First target and number of targets of each stream, in the order of the streams.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, u32)> {
        self.slots.iter().copied().filter(|&(_, count)| count > 0)
    }

    /// Every loss of the fold, shared streams first.
    #[must_use]
    pub fn lost(&self) -> Vec<Loss> {
        if self.targets == 0 {
            return if self.slots.is_empty() {
                vec![]
            } else {
                vec![Loss::All]
            };
        }
        let mut lost = Vec::new();
        let mut firsts: Vec<u32> = self.slots.iter().map(|&(first, _)| first).collect();
        firsts.sort_unstable();
        firsts.dedup();
        for first in firsts {
            let on = |at: &usize| self.slots[*at].0 == first;
            let names: Vec<String> = (0..self.slots.len())
                .filter(on)
                .map(|at| self.names[at].clone())
                .collect();
            if names.len() > 1 {
                lost.push(Loss::Shared(names));
            }
        }
        for (at, &(_, targets)) in self.slots.iter().enumerate() {
            if self.groups[at] {
                let stream = self.names[at].clone();
                lost.push(Loss::Groups { stream, targets });
            }
        }
        lost
    }
}

/// Lifetimes of streams on one scale: by their expected lifetimes (in sixteenths of a power of two
/// of ns) if all have one, else by their classes. A stream without a class counts as medium then.
pub(crate) fn lives(streams: &[Stream]) -> Vec<u64> {
    let expected: Option<Vec<u64>> = streams
        .iter()
        .map(|stream| Some(crate::scale::log2(stream.expect?.0)))
        .collect();
    // A class is taken as a factor of 16; our choice, which matters only in relation to shares.
    let class = |stream: &Stream| stream.life.unwrap_or(Life::Medium) as u64 * 64;
    expected.unwrap_or_else(|| streams.iter().map(class).collect())
}

/// Indices of the streams in the order of their lifetimes.
fn by_life(streams: &[Stream]) -> Vec<usize> {
    let lives = lives(streams);
    let mut order: Vec<usize> = (0..streams.len()).collect();
    order.sort_by_key(|&at| (lives[at], at));
    order
}

/// Points (life, share) of the streams, in `order`.
fn points(streams: &[Stream], order: &[usize]) -> Vec<(u64, u64)> {
    let lives = lives(streams);
    let point = |&at: &usize| (lives[at], u64::from(streams[at].share));
    order.iter().map(point).collect()
}

/// Bounds of the cheapest division of `points` (life, share), ordered by life, into `parts` ranges;
/// `parts` is from 1 to the number of points. Among equal costs the last range is as long as
/// possible.
pub(crate) fn cheapest(points: &[(u64, u64)], parts: usize) -> Vec<usize> {
    let len = points.len();
    // best[k][end]: cost of the first `end` points in k + 1 parts, and start of the last part.
    let mut best: Vec<Vec<(u64, usize)>> = Vec::with_capacity(parts);
    let first = (0..=len).map(|end| (cost(&points[..end]), 0)).collect();
    best.push(first);
    for k in 1..parts {
        let mut row = vec![(u64::MAX, 0); len + 1];
        for end in k + 1..=len {
            row[end] = (k..end)
                .map(|begin| {
                    (
                        best[k - 1][begin]
                            .0
                            .saturating_add(cost(&points[begin..end])),
                        begin,
                    )
                })
                .min()
                .unwrap_or((u64::MAX, 0));
        }
        best.push(row);
    }
    let mut cuts = vec![len];
    for k in (0..parts).rev() {
        cuts.push(best[k][*cuts.last().unwrap_or(&0)].1);
    }
    cuts.reverse();
    cuts
}

/// Cost of putting `points` together: the sum of share times distance from the median.
fn cost(points: &[(u64, u64)]) -> u64 {
    let whole: u64 = points.iter().map(|(_, share)| share).sum();
    let mut below = 0;
    let median = points.iter().find(|(_, share)| {
        below += share;
        2 * below >= whole
    });
    let Some(&(median, _)) = median else {
        return 0;
    };
    let distance = |&(life, share): &(u64, u64)| life.abs_diff(median).saturating_mul(share);
    points.iter().map(distance).fold(0, u64::saturating_add)
}

/// Number of targets of each part: one each; the rest is divided in proportion to written data by
/// d'Hondt's rule.
fn spread(streams: &[Stream], order: &[usize], cuts: &[usize], targets: u32) -> Vec<u32> {
    let share = |range: &[usize]| -> u64 {
        let parts = order[range[0]..range[1]].iter();
        let grouped = parts.filter(|&&at| streams[at].grouping != Grouping::One);
        grouped.map(|&at| u64::from(streams[at].share)).sum()
    };
    let shares: Vec<u64> = cuts.windows(2).map(share).collect();
    let mut zones = vec![1; shares.len()];
    // More targets than this are useless, and a drive may claim any number.
    let most = u32::from(u16::MAX);
    let whole: u64 = shares.iter().sum();
    let used = u32::try_from(shares.len()).unwrap_or(most);
    for _ in used..targets.min(most) {
        let next = (0..shares.len()).max_by(|&a, &b| {
            let (left, right) = (
                shares[a] * u64::from(zones[b]),
                shares[b] * u64::from(zones[a]),
            );
            left.cmp(&right).then(b.cmp(&a))
        });
        match next {
            Some(part) if whole > 0 => zones[part] += 1,
            _ => break,
        }
    }
    zones
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use units::Ns;

    fn stream(expect: u64, share: u32, grouping: Grouping) -> Stream {
        Stream {
            expect: Some(Ns(expect)),
            share,
            grouping,
            ..Stream::new(format!("{expect}"))
        }
    }

    fn any_streams() -> impl Strategy<Value = Vec<Stream>> {
        let one = (1_u64..1 << 40, 1_u32..100, any::<bool>()).prop_map(|(expect, share, one)| {
            let grouping = if one { Grouping::One } else { Grouping::File };
            stream(expect, share, grouping)
        });
        prop::collection::vec(one, 1..9)
    }

    /// The cost of the cheapest division, found by exhaustive search.
    fn tried(points: &[(u64, u64)], parts: usize) -> u64 {
        if parts == 1 {
            return cost(points);
        }
        (1..=points.len() + 1 - parts)
            .map(|cut| cost(&points[..cut]) + tried(&points[cut..], parts - 1))
            .min()
            .unwrap()
    }

    proptest! {
        #[test]
        fn random_streams_get_gapless_targets_in_order_of_lifetime(streams in any_streams()) {
            let order = by_life(&streams);
            for targets in 1..=streams.len() as u32 + 5 {
                let fold = Fold::new(&streams, targets);
                let slots: Vec<_> = fold.all().collect();
                prop_assert_eq!(slots.len(), streams.len());
                prop_assert!(slots.iter().all(|(first, count)| first + count <= targets));
                // Neighbours in lifetime have the same or the next targets, without gaps.
                let mut next = 0;
                let mut before = (0, 0);
                for &at in &order {
                    if slots[at] != before {
                        prop_assert_eq!(slots[at].0, next);
                        next += slots[at].1;
                        before = slots[at];
                    }
                }
                let mut distinct = slots.clone();
                distinct.sort_unstable();
                distinct.dedup();
                prop_assert_eq!(distinct.len(), streams.len().min(targets as usize));
                for (at, stream) in streams.iter().enumerate() {
                    let alone = slots.iter().filter(|slot| **slot == slots[at]).count() == 1;
                    if stream.grouping == Grouping::One && alone {
                        prop_assert_eq!(slots[at].1, 1, "a second target would be wasted");
                    }
                }
                let shared = fold.lost().iter().any(|loss| matches!(loss, Loss::Shared(_)));
                prop_assert_eq!(shared, (targets as usize) < streams.len());
            }
        }

        #[test]
        fn cheapest_division_agrees_with_exhaustive_search(streams in any_streams(), parts in 1_usize..8) {
            let parts = parts.min(streams.len());
            let points = points(&streams, &by_life(&streams));
            let cuts = cheapest(&points, parts);
            let found: u64 = cuts.windows(2).map(|w| cost(&points[w[0]..w[1]])).sum();
            prop_assert_eq!(found, tried(&points, parts));
        }
    }

    #[test]
    fn spare_targets_go_to_the_streams_that_write_most() {
        let streams = [
            stream(10, 60, Grouping::File),
            stream(1_000, 30, Grouping::File),
            stream(100_000, 10, Grouping::One),
        ];
        let counts = |targets| -> Vec<u32> {
            Fold::new(&streams, targets)
                .all()
                .map(|(_, count)| count)
                .collect()
        };
        assert_eq!(counts(3), [1, 1, 1]);
        assert_eq!(counts(4), [2, 1, 1]);
        assert_eq!(
            counts(5),
            [3, 1, 1],
            "30 a target is as much as the other has"
        );
        assert_eq!(counts(9), [5, 3, 1]);
    }

    #[test]
    fn losses_are_listed() {
        let streams = [
            stream(10, 1, Grouping::One),
            stream(20, 1, Grouping::File),
            stream(100_000, 1, Grouping::One),
        ];
        let lost = |targets| -> Vec<String> {
            let lost = Fold::new(&streams, targets).lost();
            lost.iter().map(ToString::to_string).collect()
        };
        assert_eq!(lost(0), ["there is no target: nothing is told apart"]);
        assert_eq!(
            lost(2),
            [
                "10, 20 share a target",
                "the groups of 20 are not told apart"
            ]
        );
        assert_eq!(lost(3), ["the groups of 20 are not told apart"]);
        assert_eq!(lost(5), ["the groups of 20 take turns on 3 targets"]);
        assert_eq!(Fold::new(&[], 0).lost(), []);
    }

    #[test]
    fn absurd_number_of_targets_is_capped() {
        let fold = Fold::new(&[stream(10, 1, Grouping::File)], u32::MAX);
        assert_eq!(fold.targets_of(StreamId(0)), Some((0, 65_535)));
    }
}
