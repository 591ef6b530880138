//! The judge of a drive under block requests: versions of each unit of 4 KiB.
//!
//! Invariants: requests that overlap are never in flight at once, so the versions of a unit
//! have one order. After a cut a unit shows the last forced version or a newer one.

use crate::explore::Fault;
use std::ops::Range;

/// Most faults that are reported of one cut.
const TOLD: usize = 4;

/// Contents of a unit after recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// One pattern fills the unit; 0 stands for zeros.
    Pattern(u64),
    /// Several patterns.
    Mixed,
    /// The medium lost the unit.
    Lost,
}

/// Versions of one unit. Before its first version a unit holds zeros.
#[derive(Clone, Debug, Default)]
struct Unit {
    /// Patterns in the order in which they were written; zeros for a discard.
    versions: Vec<u64>,
    /// Number of versions that were acknowledged, and number that are durable.
    answered: u32,
    forced: u32,
}

impl Unit {
    fn fault(&self, shown: u64) -> Option<Fault> {
        let floor = (self.forced as usize).checked_sub(1);
        let later = &self.versions[floor.unwrap_or(0)..];
        if later.contains(&shown) || floor.is_none() && shown == 0 {
            return None;
        }
        let was_there = shown == 0 || self.versions.contains(&shown);
        Some(if was_there {
            Fault::Lost
        } else {
            Fault::Corrupt
        })
    }
}

/// Versions of every unit of a drive.
#[derive(Clone, Debug, Default)]
pub struct Units(Vec<Unit>);

impl Units {
    /// A drive of so many units that hold zeros.
    #[must_use]
    pub fn new(units: usize) -> Self {
        Self(vec![Unit::default(); units])
    }

    /// Bytes of all recorded versions.
    #[must_use]
    pub fn memory(&self) -> u64 {
        let versions: usize = self.0.iter().map(|unit| unit.versions.len()).sum();
        (versions * size_of::<u64>() + self.0.len() * size_of::<Unit>()) as u64
    }

    fn of(&mut self, units: Range<usize>) -> impl Iterator<Item = &mut Unit> {
        self.0.get_mut(units).into_iter().flatten()
    }

    /// Records that a write of `pattern` begins; pattern 0 is a discard.
    pub fn begin(&mut self, units: Range<usize>, pattern: u64) {
        self.of(units).for_each(|unit| unit.versions.push(pattern));
    }

    /// Records that the last write of `units` was acknowledged; `forced` makes it durable.
    pub fn end(&mut self, units: Range<usize>, forced: bool) {
        for unit in self.of(units) {
            unit.answered = unit.versions.len() as u32;
            if forced {
                unit.forced = unit.answered;
            }
        }
    }

    /// Number of acknowledged versions of each unit, for a flush that begins now.
    #[must_use]
    pub fn answered(&self) -> Vec<u32> {
        self.0.iter().map(|unit| unit.answered).collect()
    }

    /// Records that a flush was acknowledged that began when `answered` was taken.
    pub fn flushed(&mut self, answered: &[u32]) {
        for (unit, &answered) in self.0.iter_mut().zip(answered) {
            unit.forced = unit.forced.max(answered);
        }
    }

    /// Faults of the contents that units show after recovery.
    #[must_use]
    pub fn judge(&self, shown: &[Contents]) -> Vec<(Fault, String)> {
        let wrong = |(number, (unit, shown)): (usize, (&Unit, &Contents))| match *shown {
            Contents::Lost => Some((Fault::Media, format!("unit {number} cannot be read"))),
            Contents::Mixed => Some((Fault::Corrupt, format!("unit {number} is mixed"))),
            Contents::Pattern(shown) => unit.fault(shown).map(|fault| {
                let (count, forced) = (unit.versions.len(), unit.forced);
                let what = format!(
                    "unit {number} shows {shown:#x}, where {forced} of its {count} versions were \
                     durable"
                );
                (fault, what)
            }),
        };
        let all = self.0.iter().zip(shown).enumerate();
        // Lost units are many on a bad medium, and must not hide a defect.
        let (lost, broken): (Vec<_>, Vec<_>) = all
            .filter_map(wrong)
            .partition(|wrong| wrong.0 == Fault::Media);
        let broken = broken.into_iter().take(TOLD);
        broken.chain(lost.into_iter().take(TOLD)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_forced_is_the_oldest_that_may_be_there() {
        let mut units = Units::new(2);
        let faults = |units: &Units, shown: u64| {
            let found = units.judge(&[shown, 0].map(Contents::Pattern));
            found.first().map(|(fault, _)| *fault)
        };
        units.begin(0..1, 7);
        assert_eq!([0, 7].map(|p| faults(&units, p)), [None; 2]);
        assert_eq!(faults(&units, 8), Some(Fault::Corrupt));
        let early = units.answered();
        units.end(0..1, false);
        let late = units.answered();
        units.begin(0..1, 8);
        units.flushed(&early);
        assert_eq!([0, 7, 8].map(|p| faults(&units, p)), [None; 3]);
        units.flushed(&late);
        assert_eq!([7, 8].map(|p| faults(&units, p)), [None; 2]);
        assert_eq!(faults(&units, 0), Some(Fault::Lost));
        units.end(0..1, true);
        assert_eq!([0, 7].map(|p| faults(&units, p)), [Some(Fault::Lost); 2]);
        let mixed = units.judge(&[Contents::Mixed, Contents::Lost]);
        assert_eq!(mixed.len(), 2);
        assert_eq!(mixed[0].0, Fault::Corrupt);
        assert_eq!(mixed[1].0, Fault::Media);
    }
}
