//! A log-structured drive with several write points and greedy reclaim.
//!
//! Two parts of an open unit do not count as used: slots not yet written, and slots that are
//! invalid. Real drives have thousands of units, so their few open ones are negligible beside the
//! spare; a model with dozens of units would otherwise penalize every target in use.
//!
//! Invariants: each valid block has one slot, and each valid slot one block. A unit is free, open
//! at one write point, or closed. Before each write the used slots are fewer than the room; after
//! it they exceed the room at most by the invalid slots of open units that were closed.

use super::{Amplification, Device};
use crate::event::FileKey;
use std::collections::BTreeMap;

type Block = (FileKey, u64);

pub(super) struct Drive {
    unit: usize,
    /// The block in each slot; `None` if the slot is not valid.
    slots: Vec<Option<Block>>,
    /// Number of valid slots in each unit.
    valid: Vec<u32>,
    closed: Vec<bool>,
    free: Vec<usize>,
    /// Open unit and its next slot, for each target and, last, for relocated blocks.
    heads: Vec<Option<(usize, usize)>>,
    places: BTreeMap<FileKey, BTreeMap<u64, usize>>,
    /// Number of used slots: all of closed units and the valid ones of open units; and its maximum.
    held: usize,
    room: usize,
    count: Amplification,
}

impl Drive {
    /// A drive for at most `most` valid blocks.
    ///
    /// Its room is `most` × (100 + spare) / 100. When the room is full there are more used slots
    /// than valid ones, so some closed unit has an invalid slot; reclaiming that unit frees room.
    pub(super) fn new(device: &Device, most: u64) -> Self {
        let unit = device.unit.max(1) as usize;
        let heads = device.targets.clamp(1, 1 << 12) as usize + 1;
        let room = (most + 1) * (100 + u64::from(device.spare.clamp(1, 1000))) / 100 + 1;
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let units = room.div_ceil(unit) + 2 * heads + 2;
        Self {
            unit,
            slots: vec![None; units * unit],
            valid: vec![0; units],
            closed: vec![false; units],
            free: (0..units).rev().collect(),
            heads: vec![None; heads],
            places: BTreeMap::new(),
            held: 0,
            room,
            count: Amplification::default(),
        }
    }

    pub(super) const fn count(&self) -> Amplification {
        self.count
    }

    /// Writes a block of a file to `target`; targets beyond the last are the last.
    pub(super) fn write(&mut self, file: FileKey, at: u64, target: u32) {
        let old = self.places.get(&file).and_then(|places| places.get(&at));
        if let Some(&old) = old {
            self.invalidate(old);
        }
        while self.held >= self.room {
            self.reclaim();
        }
        let last = self.heads.len() - 2;
        self.append(target.min(last as u32) as usize, (file, at));
        self.count.host += 1;
    }

    /// Drops the blocks of a file from index `from` on.
    pub(super) fn cut(&mut self, file: FileKey, from: u64) {
        let Some(places) = self.places.get_mut(&file) else {
            return;
        };
        let dead = places.split_off(&from);
        if places.is_empty() {
            self.places.remove(&file);
        }
        dead.into_values().for_each(|slot| self.invalidate(slot));
    }

    fn invalidate(&mut self, slot: usize) {
        self.slots[slot] = None;
        let unit = slot / self.unit;
        self.valid[unit] -= 1;
        self.held -= usize::from(!self.closed[unit]);
    }

    fn append(&mut self, head: usize, block: Block) {
        let (unit, next) = match self.heads[head] {
            Some(open) => open,
            None => {
                let free = self.free.pop();
                let unit = free.expect("there are units for all that is ever held");
                (unit, 0)
            }
        };
        let slot = unit * self.unit + next;
        self.slots[slot] = Some(block);
        self.valid[unit] += 1;
        self.held += 1;
        self.places
            .entry(block.0)
            .or_default()
            .insert(block.1, slot);
        self.heads[head] = Some((unit, next + 1));
        if next + 1 == self.unit {
            self.heads[head] = None;
            self.closed[unit] = true;
            self.held += self.unit - self.valid[unit] as usize;
        }
    }

    /// Relocates the valid blocks of the closed unit with the fewest of them (the first among
    /// equals), and frees the unit.
    fn reclaim(&mut self) {
        let closed = (0..self.valid.len()).filter(|&unit| self.closed[unit]);
        let victim = closed.min_by_key(|&unit| (self.valid[unit], unit));
        let victim = victim.expect("open units hold less than the room");
        self.closed[victim] = false;
        let first = victim * self.unit;
        let moving: Vec<Block> = self.slots[first..first + self.unit]
            .iter()
            .copied()
            .flatten()
            .collect();
        self.slots[first..first + self.unit].fill(None);
        self.valid[victim] = 0;
        self.held -= self.unit;
        let own = self.heads.len() - 1;
        for block in moving {
            self.append(own, block);
            self.count.moved += 1;
        }
        self.free.insert(0, victim);
    }

    /// Checks the invariants of the drive.
    #[cfg(test)]
    fn check(&self) {
        let valid = |unit: usize| {
            self.slots[unit * self.unit..(unit + 1) * self.unit]
                .iter()
                .flatten()
                .count()
        };
        for unit in 0..self.valid.len() {
            assert_eq!(valid(unit), self.valid[unit] as usize);
            let open = self
                .heads
                .iter()
                .flatten()
                .filter(|(own, _)| *own == unit)
                .count();
            let free = self.free.iter().filter(|own| **own == unit).count();
            assert_eq!(
                open + free + usize::from(self.closed[unit]),
                1,
                "unit {unit}"
            );
        }
        assert!(self.held <= self.room + self.heads.len() * self.unit);
        let units = || 0..self.valid.len();
        let full = units().filter(|&unit| self.closed[unit]).count() * self.unit;
        let open = units().filter(|&unit| !self.closed[unit]);
        let open: usize = open.map(|unit| self.valid[unit] as usize).sum();
        assert_eq!(self.held, full + open);
        let placed: usize = self.places.values().map(BTreeMap::len).sum();
        assert_eq!(placed, self.slots.iter().flatten().count());
        for (file, places) in &self.places {
            for (at, slot) in places {
                assert_eq!(self.slots[*slot], Some((*file, *at)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn random_writes_and_cuts_keep_the_invariants(
            calls in prop::collection::vec((0_u64..4, 0_u64..30, 0_u32..4, 0_u8..8), 1..600),
            unit in 1_u32..9,
        ) {
            let device = Device { block: 1, unit, spare: 1, targets: 3 };
            let mut drive = Drive::new(&device, 4 * 30);
            let mut model: BTreeSet<(u64, u64)> = BTreeSet::new();
            let mut writes = 0;
            for (file, at, target, kind) in calls {
                if kind == 0 {
                    drive.cut(FileKey(file), at);
                    model.retain(|&(other, block)| other != file || block < at);
                } else {
                    drive.write(FileKey(file), at, target);
                    model.insert((file, at));
                    writes += 1;
                }
                drive.check();
            }
            let held: BTreeSet<(u64, u64)> = drive.places.iter()
                .flat_map(|(file, places)| places.keys().map(|at| (file.0, *at)))
                .collect();
            prop_assert_eq!(held, model);
            prop_assert_eq!(drive.count().host, writes);
        }

        #[test]
        fn a_full_drive_at_the_least_spare_can_always_reclaim(
            blocks in prop::collection::vec(0_u64..200, 2_000),
            unit in 1_u32..40,
        ) {
            let device = Device { block: 1, unit, spare: 1, targets: 1 };
            let mut drive = Drive::new(&device, 200);
            (0..200).for_each(|at| drive.write(FileKey(0), at, 0));
            for at in blocks {
                drive.write(FileKey(0), at, 0);
            }
            drive.check();
        }
    }
}
