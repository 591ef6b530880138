//! State of kinds of files, and of single files.

use super::super::shape::{extension, shape, split};
use crate::directive::{Directive, Hint};
use units::Ns;

/// Number of lifetime buckets: powers of two of nanoseconds.
pub(super) const BUCKETS: usize = 64;
/// Number of lifetimes that a kind needs for an expectation; our choice.
pub(super) const ENOUGH: u32 = 8;
/// Number of lifetimes at which older ones are halved, so that a kind may change; our choice.
pub(super) const FADE: u32 = 256;
/// Number of kinds that a file belongs to, from the most specific to the most general.
pub(super) const LEVELS: usize = 5;

/// Histogram of the lifetimes of a kind.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) counts: [u32; BUCKETS],
    pub(super) total: u32,
    pub(super) used: u64,
}

impl Seen {
    pub(super) fn median(&self) -> Option<u8> {
        let mut below = 0;
        let at = self.counts.iter().position(|count| {
            below += count;
            below * 2 >= self.total
        })?;
        (self.total >= ENOUGH).then_some(at as u8)
    }

    pub(super) fn note(&mut self, bucket: u8) {
        if self.total >= FADE {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.total = self.counts.iter().sum();
        }
        self.counts[usize::from(bucket)] += 1;
        self.total += 1;
    }

    pub(super) fn take_back(&mut self, bucket: u8) {
        let count = &mut self.counts[usize::from(bucket)];
        if *count > 0 {
            *count -= 1;
            self.total -= 1;
        }
    }
}

/// Attributes that determine a file's kinds, as hashes, so that no names are stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traits {
    pub(super) folder: u64,
    pub(super) shape: u64,
    pub(super) extension: u64,
    pub(super) thread: u64,
    pub(super) hint: Hint,
}

impl Traits {
    pub(super) fn kinds(&self) -> [u64; LEVELS] {
        let hint = self.hint as u64;
        [
            hash(&[1, self.folder, self.shape, hint, self.thread]),
            hash(&[2, self.shape, hint]),
            hash(&[3, self.shape]),
            hash(&[4, self.extension]),
            hash(&[5]),
        ]
    }

    pub(super) fn name(&mut self, path: &[u8]) {
        let (folder, name) = split(path);
        self.folder = bytes(shape(folder).as_bytes());
        self.shape = bytes(shape(name).as_bytes());
        self.extension = extension(name).map_or(0, |end| bytes(end.as_bytes()));
    }
}

/// FNV-1a hash: cheap, and equal on every machine.
pub(super) fn bytes(text: &[u8]) -> u64 {
    text.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

pub(super) fn hash(numbers: &[u64]) -> u64 {
    let all: Vec<u8> = numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    bytes(&all)
}

#[derive(Clone, Debug)]
pub(super) struct Live {
    pub(super) order: u64,
    pub(super) traits: Traits,
    /// Time of the first write since the file was created or emptied.
    pub(super) born: Option<Ns>,
    pub(super) size: u64,
    pub(super) written: u64,
    pub(super) replaced: u64,
    pub(super) expected: Option<u8>,
    /// Bucket of a provisional note, made while the file is alive.
    pub(super) noted: Option<u8>,
    pub(super) due: Option<Ns>,
    pub(super) directive: Directive,
}

impl Live {
    pub(super) fn in_place(&self) -> bool {
        self.replaced > 0 && self.replaced >= self.written / 2
    }

    /// Bucket of the lifetime of its data, as seen until `now`.
    pub(super) fn bucket(&self, now: Ns) -> u8 {
        let age = now.since(self.born.unwrap_or(now)).0.max(1);
        let life = if self.in_place() {
            let stay = u128::from(age) * u128::from(self.size) / u128::from(self.replaced);
            u64::try_from(stay).unwrap_or(age).clamp(1, age)
        } else {
            age
        };
        life.ilog2() as u8
    }
}
