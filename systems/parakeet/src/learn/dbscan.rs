//! Clusters of files by their open flags and modes, as the dissertation finds them.
//!
//! Invariants: labels are numbered in the order in which clusters are first met, from 0;
//! files of equal flags and modes have equal labels.

use crate::flags::Flags;
use std::collections::BTreeMap;

/// How the log of a recording, which prints flags and mode as binary digits, is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// The digits as a decimal number, which is what a reader of the printed table makes of
    /// them. Neighbours at a distance of 4.54 are then equal numbers, and numbers of more
    /// than 53 bits are equal to their neighbours: with `O_CLOEXEC` set, which makes 20
    /// digits, writing alone (1) and reading and writing (10) can not be told apart.
    #[default]
    Decimal,
    /// The number that was printed. Then 4.54 is as much as the access mode, or a bit of
    /// the permissions, and keeps all flags apart.
    Integer,
}

impl Reading {
    /// `number` as a coordinate.
    fn coordinate(self, number: u32) -> f64 {
        match self {
            Self::Integer => f64::from(number),
            Self::Decimal => {
                let bits = (0..u32::BITS).rev();
                let digit = |bit: u32| u128::from(number >> bit & 1);
                bits.fold(0, |digits: u128, bit| digits * 10 + digit(bit)) as f64
            }
        }
    }
}

/// What DBSCAN is told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// How near neighbours are.
    pub eps: f64,
    /// How many make a cluster, with the one itself.
    pub min_samples: usize,
}

impl Default for Params {
    //= dissertation 6.3.2
    fn default() -> Self {
        Self {
            eps: 4.54,
            min_samples: 4,
        }
    }
}

/// The cluster of each file, by its flags and mode; `None` for noise.
///
/// The algorithm is the one of Ester et al. in the form of scikit-learn: points are visited
/// in their order, a point with enough neighbours begins a cluster if it is in none, and
/// takes in everything that is reached through such points. Equal points are one here, with
/// a weight, so that it takes the square of the different ones.
//= ester1996 4.1
//= dissertation 6.3.2
#[must_use]
pub fn clusters(opens: &[(Flags, u32)], reading: Reading, params: Params) -> Vec<Option<u32>> {
    let mut places: BTreeMap<(Flags, u32), usize> = BTreeMap::new();
    let mut points: Vec<(f64, f64, usize)> = Vec::new();
    let mut point_of = Vec::with_capacity(opens.len());
    for &(flags, mode) in opens {
        let place = *places.entry((flags, mode)).or_insert_with(|| {
            let point = (reading.coordinate(flags.0), reading.coordinate(mode), 0);
            points.push(point);
            points.len() - 1
        });
        points[place].2 += 1;
        point_of.push(place);
    }
    let labels = label(&points, params);
    point_of.into_iter().map(|place| labels[place]).collect()
}

fn label(points: &[(f64, f64, usize)], params: Params) -> Vec<Option<u32>> {
    let near = |a: usize| {
        let (x, y, _) = points[a];
        let within = move |&b: &usize| {
            let (dx, dy) = (points[b].0 - x, points[b].1 - y);
            (dx * dx + dy * dy).sqrt() <= params.eps
        };
        (0..points.len()).filter(within)
    };
    let is_core = |a: usize| near(a).map(|b| points[b].2).sum::<usize>() >= params.min_samples;
    let mut labels = vec![None; points.len()];
    let mut next = 0;
    for start in 0..points.len() {
        if labels[start].is_some() || !is_core(start) {
            continue;
        }
        labels[start] = Some(next);
        let mut reached = vec![start];
        while let Some(at) = reached.pop() {
            if !is_core(at) {
                continue;
            }
            for neighbour in near(at) {
                if labels[neighbour].is_none() {
                    labels[neighbour] = Some(next);
                    reached.push(neighbour);
                }
            }
        }
        next += 1;
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: Flags = Flags(0b1000_0000_0010_0100_0001);
    const LOCK: Flags = Flags(0b1000_0000_0000_0100_0010);
    const SST: Flags = Flags(0b1000_0100_0010_0100_0001);
    const MODE: u32 = 0b1_1010_0100;

    /// The recording of Figures 6.5 and 6.6: its first and last rows as printed, and logs
    /// and tables in turns between them.
    fn published() -> Vec<(&'static str, Flags, u32)> {
        let mut rows = vec![
            ("LOG", LOG, 0),
            ("LOCK", LOCK, 1),
            ("LOG", LOG, 0),
            ("LOCK", LOCK, 1),
            ("000000.dbtmp", LOG, 0),
        ];
        rows.extend([("LOCK", LOCK, 1), ("LOCK", LOCK, 1), ("000004.log", LOG, 0)]);
        for _ in 0..224 {
            rows.extend([(".log", LOG, 0), (".sst", SST, 2)]);
        }
        rows
    }

    //= dissertation 6.3.2
    #[test]
    fn the_published_recording_has_three_clusters() {
        let rows = published();
        assert_eq!(rows.len(), 456);
        let opens: Vec<_> = rows.iter().map(|&(_, flags, _)| (flags, MODE)).collect();
        let expected: Vec<_> = rows.iter().map(|&(_, _, label)| Some(label)).collect();
        for reading in [Reading::Decimal, Reading::Integer] {
            assert_eq!(
                clusters(&opens, reading, Params::default()),
                expected,
                "{reading:?}"
            );
        }
    }

    #[test]
    fn three_of_a_kind_are_noise() {
        let mut opens = vec![(LOG, MODE); 3];
        opens.extend([(SST, MODE); 4]);
        let labels = clusters(&opens, Reading::Decimal, Params::default());
        assert_eq!(labels[..3], [None; 3]);
        assert_eq!(labels[3..], [Some(0); 4]);
    }

    //= dissertation 6.3.2
    #[test]
    fn the_readings_differ_in_what_is_near() {
        let both = |a: (Flags, u32), b: (Flags, u32)| {
            let opens = [vec![a; 4], vec![b; 4]].concat();
            [Reading::Decimal, Reading::Integer].map(|reading| {
                let labels = clusters(&opens, reading, Params::default());
                labels[0] == labels[7]
            })
        };
        // A bit of the permissions: 4 as a number, 100 in digits.
        assert_eq!(both((LOG, 0o644), (LOG, 0o640)), [false, true]);
        // The access, with and without the twenty digits of O_CLOEXEC.
        let (write, both_ways) = (Flags(LOG.0 | 1), Flags(LOG.0 ^ 0b11));
        assert_eq!(both((write, MODE), (both_ways, MODE)), [true, true]);
        let short = |flags: Flags| (Flags(flags.0 & !Flags::CLOEXEC.0), MODE);
        assert_eq!(both(short(write), short(both_ways)), [false, true]);
        assert_eq!(both((LOG, MODE), (SST, MODE)), [false, false]);
    }

    #[test]
    fn a_chain_of_neighbours_is_one_cluster_and_its_ends_belong_to_it() {
        // Seven at each of two places 4 apart, and one beside each: reached, and no core.
        let at = |mode: u32, count: usize| vec![(Flags(0), mode); count];
        let opens = [at(0, 1), at(4, 3), at(8, 3), at(12, 1), at(100, 1)].concat();
        let labels = clusters(&opens, Reading::Integer, Params::default());
        assert_eq!(labels[..8], [Some(0); 8]);
        assert_eq!(labels[8], None);
    }
}
