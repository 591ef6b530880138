//! The dissertation's clustering of files by open flags and modes.
//!
//! Invariants: clusters are numbered from 0 in the order of their first point. Files with equal
//! flags and modes have equal labels.

use super::shape::{extension, shape, split};
use crate::event::{Call, Event, FileKey, Opening};
use crate::flags::Flags;
use std::collections::{BTreeMap, BTreeSet};

/// Interpretation of a recording's log, which prints flags and mode as binary digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// The digits are read as a decimal number, which a naive reader of the printed table gets.
    /// Points within 4.54 of each other are then equal, and numbers of more than 53 bits equal
    /// their neighbours: with `O_CLOEXEC` set, which makes 20 digits, write-only (1) and read-write
    /// (10) cannot be told apart.
    #[default]
    Decimal,
    /// The digits are read as the number that was printed. Then 4.54 covers the access mode or one
    /// bit of the permissions, and tells all flags apart.
    Integer,
}

impl Reading {
    /// The coordinate of a point for `number`.
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

/// Parameters of the clustering by DBSCAN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// Maximum distance of neighbours.
    pub eps: f64,
    /// Minimum number of neighbours of a core point, itself included.
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
/// The algorithm is that of Ester et al. in the form of scikit-learn: points are visited in order;
/// a core point in no cluster starts one, which takes in all points reachable through core points.
/// Equal points are merged into one with a weight, so the cost is quadratic in the number of
/// different ones.
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

/// Clusters of a recording, as a placement for any recording.
#[derive(Clone, Debug)]
pub struct Clusters {
    /// Labels by flags and mode; noise has none.
    labels: BTreeMap<(Flags, u32), u32>,
    names: Vec<BTreeSet<String>>,
    files: BTreeMap<FileKey, u32>,
}

impl Clusters {
    /// Clusters of all opens among `events`.
    #[must_use]
    pub fn of<'a>(events: impl Iterator<Item = Event<'a>>, reading: Reading) -> Self {
        let opening = |event: Event<'a>| match event.call {
            Call::Open(opening) => Some(opening),
            _ => None,
        };
        let opens: Vec<Opening<'_>> = events.filter_map(opening).collect();
        let points: Vec<_> = opens.iter().map(|open| (open.flags, open.mode)).collect();
        let found = clusters(&points, reading, Params::default());
        let (mut labels, mut names) = (BTreeMap::new(), Vec::new());
        for (open, label) in opens.iter().zip(found) {
            let Some(label) = label else { continue };
            labels.insert((open.flags, open.mode), label);
            let count = names.len().max(label as usize + 1);
            names.resize_with(count, BTreeSet::new);
            names[label as usize].insert(kind(open.path));
        }
        Self {
            labels,
            names,
            files: BTreeMap::new(),
        }
    }

    /// Kinds of files in each cluster, in the order of cluster numbers.
    pub fn kinds(&self) -> impl Iterator<Item = &BTreeSet<String>> {
        self.names.iter()
    }

    /// Target for the data of the event's file: its cluster's number plus one, by the file's first
    /// open for writing; 0 if it is unknown.
    pub fn tell(&mut self, event: &Event<'_>) -> u32 {
        match event.call {
            Call::Open(open) if open.flags.writes() => {
                if let Some(label) = self.labels.get(&(open.flags, open.mode)) {
                    self.files.entry(event.file).or_insert(label + 1);
                }
            }
            Call::Gone => {
                self.files.remove(&event.file);
            }
            _ => {}
        }
        self.files.get(&event.file).copied().unwrap_or_default()
    }
}

/// A name as in the dissertation's figure: its extension, or else the name without its numbers.
fn kind(path: &[u8]) -> String {
    let (_, name) = split(path);
    extension(name).map_or_else(|| shape(name), |extension| format!(".{extension}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Ns;

    const LOG: Flags = Flags(0b1000_0000_0010_0100_0001);
    const LOCK: Flags = Flags(0b1000_0000_0000_0100_0010);
    const SST: Flags = Flags(0b1000_0100_0010_0100_0001);
    const MODE: u32 = 0b1_1010_0100;

    /// The recording of Figures 6.5 and 6.6: its first and last rows as printed, with logs and
    /// tables alternating in between.
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

    //= dissertation 6.3.2
    #[test]
    fn clusters_have_kinds_and_place_files() {
        let rows = published();
        let event = |file: u64, call| Event {
            at: Ns(0),
            thread: 0,
            file: FileKey(file),
            call,
        };
        let open = |file: usize, path: &'static str, flags| {
            let opening = Opening {
                path: path.as_bytes(),
                flags,
                mode: MODE,
                ..Opening::default()
            };
            event(file as u64, Call::Open(opening))
        };
        let events = rows.iter().enumerate();
        let events = events.map(|(n, &(name, flags, _))| open(n, name, flags));
        let mut found = Clusters::of(events, Reading::Decimal);
        let kinds: Vec<Vec<&str>> = found
            .kinds()
            .map(|kinds| kinds.iter().map(String::as_str).collect())
            .collect();
        assert_eq!(kinds[0], [".dbtmp", ".log", "LOG"]);
        assert_eq!(kinds[1..], [vec!["LOCK"], vec![".sst"]]);
        // In another recording, the first open for writing decides until the file is gone.
        assert_eq!(found.tell(&open(7, "9.sst", SST)), 3);
        assert_eq!(found.tell(&open(7, "9.sst", LOG)), 3);
        assert_eq!(found.tell(&event(7, Call::Sync)), 3);
        assert_eq!(found.tell(&event(7, Call::Gone)), 0);
        assert_eq!(found.tell(&open(7, "9.log", Flags::READ)), 0);
        assert_eq!(found.tell(&open(7, "9.log", LOG)), 1);
        assert_eq!(found.tell(&open(8, "x", Flags::READ_WRITE)), 0);
    }

    #[test]
    fn three_equal_points_are_noise() {
        let mut opens = vec![(LOG, MODE); 3];
        opens.extend([(SST, MODE); 4]);
        let labels = clusters(&opens, Reading::Decimal, Params::default());
        assert_eq!(labels[..3], [None; 3]);
        assert_eq!(labels[3..], [Some(0); 4]);
    }

    //= dissertation 6.3.2
    #[test]
    fn readings_differ_in_the_neighbours_of_a_point() {
        let both = |a: (Flags, u32), b: (Flags, u32)| {
            let opens = [vec![a; 4], vec![b; 4]].concat();
            [Reading::Decimal, Reading::Integer].map(|reading| {
                let labels = clusters(&opens, reading, Params::default());
                labels[0] == labels[7]
            })
        };
        // One bit of the permissions differs: by 4 as a number, by 100 as decimal digits.
        assert_eq!(both((LOG, 0o644), (LOG, 0o640)), [false, true]);
        // The access mode differs, with and without the twenty digits of O_CLOEXEC.
        let (write, both_ways) = (Flags(LOG.0 | 1), Flags(LOG.0 ^ 0b11));
        assert_eq!(both((write, MODE), (both_ways, MODE)), [true, true]);
        let short = |flags: Flags| (Flags(flags.0 & !Flags::CLOEXEC.0), MODE);
        assert_eq!(both(short(write), short(both_ways)), [false, true]);
        assert_eq!(both((LOG, MODE), (SST, MODE)), [false, false]);
    }

    #[test]
    fn a_chain_of_neighbours_is_one_cluster_and_its_ends_belong_to_it() {
        // Two core points 4 apart, and one border point beside each of them.
        let at = |mode: u32, count: usize| vec![(Flags(0), mode); count];
        let opens = [at(0, 1), at(4, 3), at(8, 3), at(12, 1), at(100, 1)].concat();
        let labels = clusters(&opens, Reading::Integer, Params::default());
        assert_eq!(labels[..8], [Some(0); 8]);
        assert_eq!(labels[8], None);
    }
}
