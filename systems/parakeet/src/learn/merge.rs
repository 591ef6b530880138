//! Merging of the tree's leaves into streams.
//!
//! Invariant: files with different manners of death ([`Manner`]) share no stream, unless there are
//! fewer streams than manners.

use super::Manner;

/// Summary of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    /// Mean lifetime, on the logarithmic scale.
    pub(super) life: u64,
    /// Amount of written data, in blocks.
    pub(super) weight: u64,
    /// Manner in which most of its data die.
    pub(super) manner: Manner,
}

#[derive(Clone, Debug)]
struct Cluster {
    point: Point,
    members: Vec<usize>,
}

/// The stream of each of `points`, numbered by lifetime; at most `max`, which counts as 1 if it is
/// 0. First, points less than `apart` from each other are merged, nearest first. Then, while there
/// are too many streams, the two whose merge increases the spread least are merged (Ward's method).
pub(super) fn merge(points: &[Point], apart: u64, max: usize) -> Vec<usize> {
    let cluster = |(at, &point): (usize, &Point)| Cluster {
        point,
        members: vec![at],
    };
    let mut all: Vec<Cluster> = points.iter().enumerate().map(cluster).collect();
    loop {
        all.sort_by_key(|one| (one.point.manner, one.point.life, one.members[0]));
        let near = pairs(&all, true)
            .filter(|&at| distance(&all, at) < apart)
            .min_by_key(|&at| (distance(&all, at), at));
        let next = near.or_else(|| {
            (all.len() > max.max(1)).then(|| {
                let same = pairs(&all, true).min_by_key(|&at| (cost(&all, at), at));
                same.or_else(|| pairs(&all, false).min_by_key(|&at| (cost(&all, at), at)))
            })?
        });
        let Some(at) = next else {
            break;
        };
        let other = all.remove(at + 1);
        join(&mut all[at], other);
    }
    all.sort_by_key(|one| (one.point.life, one.members[0]));
    let mut streams = vec![0; points.len()];
    for (stream, one) in all.iter().enumerate() {
        one.members.iter().for_each(|&at| streams[at] = stream);
    }
    streams
}

/// Indices of clusters whose next one exists and, if `same`, has the same manner.
fn pairs(all: &[Cluster], same: bool) -> impl Iterator<Item = usize> {
    (1..all.len())
        .filter(move |&at| !same || all[at - 1].point.manner == all[at].point.manner)
        .map(|at| at - 1)
}

fn distance(all: &[Cluster], at: usize) -> u64 {
    all[at].point.life.abs_diff(all[at + 1].point.life)
}

fn cost(all: &[Cluster], at: usize) -> u128 {
    let (a, b) = (
        u128::from(all[at].point.weight),
        u128::from(all[at + 1].point.weight),
    );
    let distance = u128::from(distance(all, at));
    (a * b * distance * distance)
        .checked_div(a + b)
        .unwrap_or(0)
}

fn join(into: &mut Cluster, other: Cluster) {
    let (a, b) = (into.point, other.point);
    let weight = a.weight.saturating_add(b.weight).max(1);
    let sum = u128::from(a.life) * u128::from(a.weight) + u128::from(b.life) * u128::from(b.weight);
    into.point = Point {
        life: u64::try_from(sum / u128::from(weight)).unwrap_or(a.life),
        weight,
        manner: if a.weight < b.weight {
            b.manner
        } else {
            a.manner
        },
    };
    into.members.extend(other.members);
    into.members.sort_unstable();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(all: &[(u64, u64, Manner)]) -> Vec<Point> {
        let point = |&(life, weight, manner): &(u64, u64, Manner)| Point {
            life,
            weight,
            manner,
        };
        all.iter().map(point).collect()
    }

    #[test]
    fn near_points_of_one_manner_are_merged() {
        let all = points(&[
            (10, 1, Manner::Whole),
            (12, 1, Manner::Whole),
            (11, 1, Manner::Scattered),
            (90, 1, Manner::Whole),
        ]);
        assert_eq!(merge(&all, 16, 9), [0, 0, 1, 2]);
        assert_eq!(merge(&all, 1, 9), [0, 2, 1, 3]);
        assert_eq!(merge(&all, 1, 2), [1, 1, 0, 1], "in place first of all");
        assert_eq!(merge(&all, 1, 1), [0; 4]);
        assert_eq!(merge(&[], 1, 0), [] as [usize; 0]);
    }

    #[test]
    fn light_points_are_merged_before_heavy_ones() {
        let all = points(&[
            (0, 1_000, Manner::Whole),
            (50, 1, Manner::Whole),
            (90, 1_000, Manner::Whole),
        ]);
        assert_eq!(merge(&all, 1, 2), [0, 1, 1]);
        let all = points(&[
            (0, 1_000, Manner::Whole),
            (50, 1_000, Manner::Whole),
            (90, 1, Manner::Whole),
            (140, 1, Manner::Whole),
        ]);
        assert_eq!(merge(&all, 1, 3), [0, 1, 2, 2]);
    }
}
