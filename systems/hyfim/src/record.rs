//! The bodies of records. Integers are little endian.
//!
//! Layout of an exchange:
//!
//! - partner, u64: position plus one of the record of changes in the same publication, or 0
//! - count, u32
//! - for each sector, four u32: sector, its old block, the spare sector, the new block. Blocks are
//!   stored plus one, 0 for none; numbers behind the blocks of the drive are slots of a write
//!   buffer in persistent memory
//!
//! Layout of changes:
//!
//! - count, u32
//! - for each change: first sector u32, sectors u32, offset of the generation u32 (2³²−1 for none),
//!   generation u64, parts u32; for each part: first byte u32, bytes u32, and those bytes

use host::PageChange;
use nand::UNIT;
use std::collections::BTreeMap;

/// The four addresses of an exchange: a sector with its old block, and a spare sector with the new
/// block.
//= hyfim 3.2
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quadruple {
    pub(crate) sector: u32,
    pub(crate) old: Option<u32>,
    pub(crate) spare: u32,
    pub(crate) new: Option<u32>,
}

/// A change of some bytes of a node.
//= hyfim 3.3
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// First sector of the node.
    pub(crate) sector: u32,
    /// Number of sectors of the node, at most [`MOST_SECTORS`].
    pub(crate) sectors: u32,
    /// Byte offset of the node's generation (eight bytes), and its expected value. Recovery skips a
    /// node with another generation: another node has taken the place. `None` for a block that has
    /// no generation and never moves.
    pub(crate) generation: Option<(u32, u64)>,
    /// New bytes, each part with its first byte in the node.
    pub(crate) parts: Vec<(u32, Vec<u8>)>,
}

/// Encodes the absence of a generation.
const NOWHERE: u32 = u32::MAX;

/// Bytes of the body of an exchange of `sectors` sectors.
pub(crate) const fn exchange_bytes(sectors: usize) -> usize {
    12 + 16 * sectors
}

pub(crate) fn put_quadruples(partner: Option<u64>, all: &[Quadruple]) -> Vec<u8> {
    let mut body = partner.map_or(0, |at| at + 1).to_le_bytes().to_vec();
    body.extend((all.len() as u32).to_le_bytes());
    for one in all {
        let block = |block: Option<u32>| block.map_or(0, |block| block + 1);
        for word in [one.sector, block(one.old), one.spare, block(one.new)] {
            body.extend(word.to_le_bytes());
        }
    }
    body
}

pub(crate) fn put_changes(all: &[Change]) -> Vec<u8> {
    let mut body = (all.len() as u32).to_le_bytes().to_vec();
    for change in all {
        let (at, generation) = change.generation.unwrap_or((NOWHERE, 0));
        for word in [change.sector, change.sectors, at] {
            body.extend(word.to_le_bytes());
        }
        body.extend(generation.to_le_bytes());
        body.extend((change.parts.len() as u32).to_le_bytes());
        for (first, bytes) in &change.parts {
            body.extend(first.to_le_bytes());
            body.extend((bytes.len() as u32).to_le_bytes());
            body.extend(bytes);
        }
    }
    body
}

/// A cursor over a body; its methods return `None` past the end.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        let bytes = self.bytes(4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        let bytes = self.bytes(8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }
}

/// Decodes the body of an exchange: partner and quadruples; `None` if it is malformed.
pub(crate) fn take_quadruples(body: &[u8]) -> Option<(Option<u64>, Vec<Quadruple>)> {
    let mut reader = Reader(body);
    let partner = reader.u64()?.checked_sub(1);
    let count = reader.u32()? as usize;
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(Quadruple {
            sector: reader.u32()?,
            old: reader.u32()?.checked_sub(1),
            spare: reader.u32()?,
            new: reader.u32()?.checked_sub(1),
        });
    }
    reader.0.is_empty().then_some((partner, all))
}

/// Decodes a body of changes; `None` if it is malformed.
pub(crate) fn take_changes(body: &[u8]) -> Option<Vec<Change>> {
    let mut reader = Reader(body);
    let count = reader.u32()? as usize;
    let mut all = Vec::new();
    for _ in 0..count {
        let (sector, sectors, at) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let generation = reader.u64()?;
        let parts = reader.u32()? as usize;
        let mut change = Change {
            sector,
            sectors,
            generation: (at != NOWHERE).then_some((at, generation)),
            parts: Vec::new(),
        };
        for _ in 0..parts {
            let (first, count) = (reader.u32()?, reader.u32()? as usize);
            change.parts.push((first, reader.bytes(count)?.to_vec()));
        }
        all.push(change);
    }
    reader.0.is_empty().then_some(all)
}

impl Change {
    /// Converts `change`, of pages from `sector` on; `None` if a part reaches outside its contents.
    pub(crate) fn of(sector: u32, change: &PageChange) -> Option<Self> {
        let sectors = u32::try_from(change.contents.len()).ok()?;
        let parts = change.parts.iter().map(|part| {
            let mut bytes = vec![0; part.len()];
            let mut at = part.start;
            while at < part.end {
                let end = part.end.min((at / UNIT + 1) * UNIT);
                let out = &mut bytes[at - part.start..end - part.start];
                let payload = change.contents.get(at / UNIT)?;
                payload.copy_to(at % UNIT, out).then_some(())?;
                at = end;
            }
            Some((u32::try_from(part.start).ok()?, bytes))
        });
        Some(Self {
            sector,
            sectors,
            generation: change.stamp,
            parts: parts.collect::<Option<_>>()?,
        })
    }

    /// Whether one part covers sector number `sector` of the node completely.
    pub(crate) fn has_all(&self, sector: usize) -> bool {
        let (from, to) = (sector * UNIT, (sector + 1) * UNIT);
        let has = |(first, bytes): &(u32, Vec<u8>)| {
            *first as usize <= from && *first as usize + bytes.len() >= to
        };
        self.parts.iter().any(has)
    }

    /// Whether the change is nonempty and lies within its node, and the node within a drive of
    /// `sectors`.
    fn fits(&self, sectors: u32) -> bool {
        let bytes = u64::from(self.sectors) * UNIT as u64;
        let within = |first: u32, count: usize| u64::from(first) + count as u64 <= bytes;
        let end = self.sector.checked_add(self.sectors);
        end.is_some_and(|end| end <= sectors)
            && self.sectors <= MOST_SECTORS
            && self.generation.is_none_or(|(at, _)| within(at, 8))
            && !self.parts.is_empty()
            && self
                .parts
                .iter()
                .all(|(first, bytes)| !bytes.is_empty() && within(*first, bytes.len()))
    }
}

/// First sector of a change that does not fit its node, overlaps an earlier one, or exceeds a drive
/// of `sectors`; `None` if all fit. Since nodes do not overlap and each change is nonempty, redo of
/// a record reads and writes no more than the drive, however many changes the record has.
pub(crate) fn misfit(all: &[Change], sectors: u32) -> Option<u32> {
    let mut ends = BTreeMap::new();
    let misfits = |change: &&Change| {
        let end = change.sector.saturating_add(change.sectors);
        let before = ends.range(..end).next_back();
        let overlaps = before.is_some_and(|(_, &last)| last > change.sector);
        ends.insert(change.sector, end);
        overlaps || !change.fits(sectors)
    };
    all.iter().find(misfits).map(|change| change.sector)
}

/// Most sectors of a node: 64 KiB, the largest node of Btrfs.
const MOST_SECTORS: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_round_trip_and_reject_other_lengths() {
        let quadruples: Vec<Quadruple> = (0..5)
            .map(|n| Quadruple {
                sector: n,
                old: (n % 2 == 0).then_some(n + 7),
                spare: n + 100,
                new: Some(n),
            })
            .collect();
        let changes = vec![
            Change {
                sector: 3,
                sectors: 4,
                generation: Some((80, 9)),
                parts: vec![(0, vec![1; 32]), (100, vec![2; 3])],
            },
            Change {
                sector: 16,
                sectors: 1,
                generation: None,
                parts: vec![],
            },
        ];
        let (a, b) = (put_quadruples(Some(6), &quadruples), put_changes(&changes));
        assert_eq!(take_quadruples(&a), Some((Some(6), quadruples)));
        assert_eq!(take_changes(&b), Some(changes));
        for end in 0..a.len() {
            assert_eq!(take_quadruples(&a[..end]), None);
        }
        for end in 0..b.len() {
            assert_eq!(take_changes(&b[..end]), None);
        }
        assert_eq!(take_quadruples(&[a, vec![0]].concat()), None);
        assert_eq!(take_changes(&[b, vec![0]].concat()), None);
    }

    #[test]
    fn empty_and_overlapping_changes_are_rejected() {
        let change = |sector, parts: &[usize]| Change {
            sector,
            sectors: 4,
            generation: None,
            parts: parts.iter().map(|&count| (0, vec![1; count])).collect(),
        };
        let one = || change(8, &[1]);
        let first_misfit = |all: &[Change]| misfit(all, 100);
        assert_eq!(
            first_misfit(&[one(), change(12, &[1]), change(4, &[2])]),
            None
        );
        for wrong in [
            change(20, &[]),
            change(20, &[1, 0]),
            change(20, &[4 * UNIT + 1]),
            change(97, &[1]),
            change(u32::MAX, &[1]),
            one(),
            change(5, &[1]),
            change(11, &[1]),
        ] {
            let sector = wrong.sector;
            assert_eq!(first_misfit(&[one(), wrong]), Some(sector));
        }
    }
}
