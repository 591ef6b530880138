//! Requests of blocks as the judge of a drive knows them: what happened to each unit of
//! 4 KiB, and what it may hold after a cut.
//!
//! Invariants: requests that overlap are not under way at once, so that the versions of a
//! unit have one order. A version may be there that is as new as the last one that was
//! forced, or newer; nothing else may.

use crate::explore::Fault;
use std::ops::Range;

/// Faults that are told of one cut.
const TOLD: usize = 4;

/// What happened to one unit. Before its first version it holds zeros.
#[derive(Clone, Debug, Default)]
struct Unit {
    /// Patterns in the order in which they were written; zeros for a discard.
    versions: Vec<u64>,
    /// How many of them were answered, and how many are durable.
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

/// What happened to each unit.
#[derive(Clone, Debug, Default)]
pub struct Units(Vec<Unit>);

impl Units {
    /// So many units that hold zeros.
    #[must_use]
    pub fn new(units: usize) -> Self {
        Self(vec![Unit::default(); units])
    }

    fn of(&mut self, units: Range<usize>) -> impl Iterator<Item = &mut Unit> {
        self.0.get_mut(units).into_iter().flatten()
    }

    /// A write of `pattern` begins, or a discard if that is 0.
    pub fn begin(&mut self, units: Range<usize>, pattern: u64) {
        self.of(units).for_each(|unit| unit.versions.push(pattern));
    }

    /// The write that began last was answered; it is durable if it was `forced`.
    pub fn end(&mut self, units: Range<usize>, forced: bool) {
        for unit in self.of(units) {
            unit.answered = unit.versions.len() as u32;
            if forced {
                unit.forced = unit.answered;
            }
        }
    }

    /// What was answered by now, for a flush that begins.
    #[must_use]
    pub fn answered(&self) -> Vec<u32> {
        self.0.iter().map(|unit| unit.answered).collect()
    }

    /// A flush was answered that began when so much was `answered`.
    pub fn flushed(&mut self, answered: &[u32]) {
        for (unit, &answered) in self.0.iter_mut().zip(answered) {
            unit.forced = unit.forced.max(answered);
        }
    }

    /// What is wrong with what units show: a pattern each, or none for one that is mixed or
    /// cannot be read.
    #[must_use]
    pub fn judge(&self, shown: &[Option<u64>]) -> Vec<(Fault, String)> {
        let wrong = |(number, (unit, shown)): (usize, (&Unit, &Option<u64>))| match shown {
            None => Some((
                Fault::Corrupt,
                format!("unit {number} is mixed or cannot be read"),
            )),
            Some(shown) => unit.fault(*shown).map(|fault| {
                let (count, forced) = (unit.versions.len(), unit.forced);
                let what = format!(
                    "unit {number} shows {shown:#x}, where {forced} of its {count} versions were \
                     durable"
                );
                (fault, what)
            }),
        };
        let all = self.0.iter().zip(shown).enumerate();
        all.filter_map(wrong).take(TOLD).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_forced_is_the_oldest_that_may_be_there() {
        let mut units = Units::new(2);
        let faults = |units: &Units, shown: u64| {
            let found = units.judge(&[Some(shown), Some(0)]);
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
        let mixed = units.judge(&[None, Some(0)]);
        assert_eq!(mixed[0].0, Fault::Corrupt);
    }
}
