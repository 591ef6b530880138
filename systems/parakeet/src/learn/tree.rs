//! Decision tree: splits files by attributes known before they are written.
//!
//! Invariants: leaves form a decision list: a file belongs to the first leaf whose tests all hold,
//! and every file belongs to one. A test is only made if it separates lifetimes or manners of
//! death: see [`Growth`].

use super::shape::{shape, split};
use super::{FileLife, Manner};
use crate::directive::Hint;
use crate::flags::{self, Flags};
use crate::scale::STEPS;
use std::collections::BTreeMap;

/// A file in the tree.
pub(super) struct Case<'f> {
    pub(super) file: &'f FileLife,
    /// Assumed lifetime, on the logarithmic scale.
    pub(super) life: u64,
    /// Amount of data that it wrote, in blocks of 4 KiB.
    pub(super) weight: u64,
}

/// A test on a file's attributes at its opening, or on its hint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Test {
    Hint(Hint),
    Flag(&'static str),
    Thread(String),
    Program(String),
    Folder(String),
    Mode(u32),
}

/// Files that are not split further, and the tests that they passed.
pub(super) struct Leaf {
    pub(super) tests: Vec<Test>,
    pub(super) cases: Vec<usize>,
}

/// Conditions of a test: it leaves `min_files` on both sides, their means (see [`place`]) are at
/// least `apart` steps from each other, and the squared difference is nine times that expected by
/// chance (three standard deviations of Student's t). Among such tests the one that reduces the
/// spread most is chosen, weighted by written data.
#[derive(Clone, Copy)]
pub(super) struct Growth {
    pub(super) min_files: usize,
    pub(super) apart: u64,
    pub(super) depth: usize,
}

/// Maximum number of values of one attribute; with more, a test would single out files.
const MAX_VALUES: usize = 64;

/// Distance in steps of files with different manners of death: equal to that of lifetimes that
/// differ by a factor of 16.
const OTHER: i128 = 4 * STEPS as i128;

/// Coordinates of a file: its lifetime, and two axes for its manner of death.
type Place = [i128; 3];

fn place(life: u64, manner: Manner) -> Place {
    let beside = |other| if manner == other { OTHER } else { 0 };
    [
        i128::from(life),
        beside(Manner::InOrder),
        beside(Manner::Scattered),
    ]
}

/// Sums over files, from which mean and spread are computed.
#[derive(Clone, Copy, Default)]
struct Sums {
    files: usize,
    weight: i128,
    first: Place,
    second: i128,
}

impl Sums {
    /// Adds a file. Weights below 2^20 and fewer than 2^32 files keep all products below 2^127.
    fn add(&mut self, place: Place, weight: u64) {
        let weight = i128::from(weight.clamp(1, 1 << 20));
        self.files += 1;
        self.weight += weight;
        for (sum, at) in self.first.iter_mut().zip(place) {
            *sum += weight * at;
            self.second += weight * at * at;
        }
    }

    fn without(self, part: Self) -> Self {
        let mut first = self.first;
        first
            .iter_mut()
            .zip(part.first)
            .for_each(|(sum, at)| *sum -= at);
        Self {
            files: self.files - part.files,
            weight: self.weight - part.weight,
            first,
            second: self.second - part.second,
        }
    }

    /// Sum of squared distances from the mean, rounded up.
    fn spread(self) -> i128 {
        let around = |sum: i128| (sum * sum).checked_div(self.weight).unwrap_or(0);
        self.second - self.first.into_iter().map(around).sum::<i128>()
    }

    fn mean(self) -> Place {
        self.first
            .map(|sum| sum.checked_div(self.weight).unwrap_or(0))
    }

    /// Squared distance of two means.
    fn apart(self, other: Self) -> u128 {
        let each = self.mean().into_iter().zip(other.mean());
        each.map(|(a, b)| a.abs_diff(b).pow(2)).sum()
    }
}

/// The leaves of `all`; where they overlap, those with more tests come first.
pub(super) fn grow(cases: &[Case<'_>], all: Vec<usize>, growth: Growth) -> Vec<Leaf> {
    let mut leaves = Vec::new();
    split_up(cases, all, Vec::new(), growth, &mut leaves);
    leaves
}

fn split_up(
    cases: &[Case<'_>],
    all: Vec<usize>,
    tests: Vec<Test>,
    growth: Growth,
    leaves: &mut Vec<Leaf>,
) {
    let found = if tests.len() < growth.depth {
        best(cases, &all, growth)
    } else {
        None
    };
    let Some(test) = found else {
        leaves.push(Leaf { tests, cases: all });
        return;
    };
    let (yes, no): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|&at| holds(&test, cases[at].file));
    let mut more = tests.clone();
    more.push(test);
    split_up(cases, yes, more, growth, leaves);
    // Each round leaves fewer files, so the recursion ends; the rest may be split again.
    split_up(cases, no, tests, growth, leaves);
}

fn best(cases: &[Case<'_>], all: &[usize], growth: Growth) -> Option<Test> {
    let mut sums: BTreeMap<Test, Sums> = BTreeMap::new();
    let mut whole = Sums::default();
    for &at in all {
        let Case { file, life, weight } = cases[at];
        let at = place(life, file.manner());
        whole.add(at, weight);
        for test in of(file) {
            sums.entry(test).or_default().add(at, weight);
        }
    }
    let too_many = |test: &Test| {
        let kind = std::mem::discriminant(test);
        let same = sums
            .keys()
            .filter(|other| std::mem::discriminant(*other) == kind);
        same.count() > MAX_VALUES
    };
    let gain = |part: Sums| {
        let rest = whole.without(part);
        let few = part.files.min(rest.files);
        let after = part.spread() + rest.spread();
        let gain = whole.spread() - after;
        let degrees = whole.files.saturating_sub(2) as i128;
        let certain = gain.saturating_mul(degrees) >= after.saturating_mul(9);
        let apart = part.apart(rest) >= u128::from(growth.apart).pow(2);
        let good = few >= growth.min_files && apart && certain;
        good.then_some(gain)
    };
    let good = sums
        .iter()
        .filter_map(|(test, &part)| Some((gain(part)?, test)));
    let good = good.filter(|(_, test)| !too_many(test));
    // Among equal gains the first test in their order is chosen.
    let best = good.max_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(a.1)));
    best.map(|(_, test)| test.clone())
}

/// Every test that a file passes.
fn of(file: &FileLife) -> Vec<Test> {
    let (folder, _) = split(&file.path);
    let mut tests = vec![Test::Mode(file.mode)];
    if !folder.is_empty() {
        tests.push(Test::Folder(shape(folder)));
    }
    if file.hint != Hint::NotSet {
        tests.push(Test::Hint(file.hint));
    }
    if !file.thread.is_empty() {
        tests.push(Test::Thread(shape(&file.thread)));
    }
    if !file.program.is_empty() {
        tests.push(Test::Program(shape(split(&file.program).1)));
    }
    let set = |word: &&'static str| file.flags.is(word) == Some(true);
    tests.extend(flags::words().filter(set).map(Test::Flag));
    tests
}

fn holds(test: &Test, file: &FileLife) -> bool {
    match test {
        Test::Hint(hint) => file.hint == *hint,
        Test::Flag(word) => Flags::is(file.flags, word) == Some(true),
        Test::Thread(name) => shape(&file.thread) == *name,
        Test::Program(name) => shape(split(&file.program).1) == *name,
        Test::Folder(name) => shape(split(&file.path).0) == *name,
        Test::Mode(mode) => file.mode == *mode,
    }
}
