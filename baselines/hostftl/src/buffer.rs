//! The buffer: versions newer than the table, waiting or being written.
//!
//! Invariants: at most one version of a sector waits, the newest. Versions in flight end in any
//! order, and one that ends behind a newer one changes nothing. A deallocation is a version without
//! contents, in flight from the start. An overtaken version becomes durable only with the newer
//! one, which inherits its oldest number. The buffer counts the versions for each oldest number, so
//! that a flush need not visit all.
//!
//! An exchange gives a version in flight to another sector, or makes the version obsolete. The
//! program continues with the address of the original sector; [`Buffer::owner`] returns the sector
//! that the block belongs to once the program has ended.

use host::RawMark;
use nand::Payload;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// A version that waits to be written.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) number: u64,
    pub(crate) payload: Payload,
    pub(crate) mark: RawMark,
}

/// A version in flight.
struct Flying {
    number: u64,
    /// Number of the oldest version that this one covers.
    since: u64,
    /// Contents; `None` for a deallocation.
    payload: Option<Payload>,
}

/// Versions of one sector that are newer than the table.
#[derive(Default)]
struct Newer {
    /// The waiting version, with the number of the oldest version that it covers.
    waiting: Option<(u64, Waiting)>,
    flying: Vec<Flying>,
    /// Number of the newest version in flight that the table has; 0 for none.
    applied: u64,
}

#[derive(Default)]
pub(crate) struct Buffer {
    sectors: BTreeMap<u32, Newer>,
    /// Versions with contents, waiting or in flight.
    held: u32,
    /// Deallocations in flight, in sectors.
    gone: u32,
    /// Numbers of deallocations in flight, with the sectors of each.
    trims: BTreeMap<u64, u32>,
    /// Oldest numbers covered, with the number of versions that cover each.
    sinces: BTreeMap<u64, u32>,
    /// Versions in flight that an exchange gave to another sector: that sector by version number.
    renamed: BTreeMap<u64, u32>,
}

impl Buffer {
    /// Number of versions with contents, waiting or in flight.
    pub(crate) const fn held(&self) -> u32 {
        self.held
    }

    /// Number of deallocated sectors that are not durable.
    pub(crate) const fn gone(&self) -> u32 {
        self.gone
    }

    /// Number of the oldest version that is not durable.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.sinces.keys().next().copied()
    }

    /// Number of the oldest deallocation that is not durable.
    pub(crate) fn oldest_trim(&self) -> Option<u64> {
        self.trims.keys().next().copied()
    }

    /// Counts a version that covers numbers from `since` on.
    fn stand(&mut self, since: u64) {
        *self.sinces.entry(since).or_default() += 1;
    }

    /// Uncounts a version that covered numbers from `since` on.
    fn fall(&mut self, since: u64) {
        count_down(&mut self.sinces, since);
    }

    /// Newest version of a sector if it is not in the table: its contents, or `Some(None)` for a
    /// deallocation.
    pub(crate) fn newest(&self, sector: u32) -> Option<Option<&Payload>> {
        let newer = self.sectors.get(&sector)?;
        if let Some((_, waiting)) = &newer.waiting {
            return Some(Some(&waiting.payload));
        }
        let newest = newer.flying.iter().max_by_key(|flying| flying.number)?;
        (newest.number > newer.applied).then_some(newest.payload.as_ref())
    }

    /// Whether any version of a sector waits or is in flight.
    pub(crate) fn has(&self, sector: u32) -> bool {
        self.sectors.contains_key(&sector)
    }

    /// Whether an exchange of a sector has to wait: a deallocation is in flight, or a version is
    /// being entered into the table.
    pub(crate) fn is_landing(&self, sector: u32) -> bool {
        let newer = self.sectors.get(&sector);
        newer.is_some_and(|newer| {
            let mut flying = newer.flying.iter();
            flying.any(|flying| flying.payload.is_none() || flying.number == newer.applied)
        })
    }

    /// Sector that owns a version in flight issued for `sector`; `None` if an exchange made the
    /// version obsolete.
    pub(crate) fn owner(&self, sector: u32, number: u64) -> Option<u32> {
        let sector = self.renamed.get(&number).copied().unwrap_or(sector);
        let flying = &self.sectors.get(&sector)?.flying;
        let found = flying.iter().any(|flying| flying.number == number);
        found.then_some(sector)
    }

    /// Sectors with a waiting version, and its number.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (u32, u64)> {
        let waits = |(&sector, newer): (&u32, &Newer)| {
            let (_, waiting) = newer.waiting.as_ref()?;
            Some((sector, waiting.number))
        };
        self.sectors.iter().filter_map(waits)
    }

    /// Drops all versions of a sector that an exchange has overtaken; returns whether one waited.
    /// Programs in flight change nothing when they end.
    pub(crate) fn forget(&mut self, sector: u32) -> bool {
        debug_assert!(!self.is_landing(sector), "sector {sector} is not pinned");
        let Some(newer) = self.sectors.remove(&sector) else {
            return false;
        };
        newer
            .flying
            .iter()
            .for_each(|flying| self.drop_flying(flying));
        if let Some((since, _)) = &newer.waiting {
            self.held -= 1;
            self.fall(*since);
        }
        newer.waiting.is_some()
    }

    /// Uncounts a version in flight that became obsolete.
    fn drop_flying(&mut self, flying: &Flying) {
        self.held -= 1;
        self.renamed.remove(&flying.number);
        self.fall(flying.since);
    }

    /// Gives the newest version of sector `from` to `sector`, and drops all other versions of both;
    /// returns whether that version waits.
    pub(crate) fn rename(&mut self, from: u32, sector: u32) -> bool {
        self.forget(sector);
        let Some(mut newer) = self.sectors.remove(&from) else {
            return false;
        };
        let waits = newer.waiting.is_some();
        newer.flying.sort_by_key(|flying| flying.number);
        let newest = if waits { None } else { newer.flying.pop() };
        newer
            .flying
            .iter()
            .for_each(|flying| self.drop_flying(flying));
        if let Some(flying) = &newest {
            self.renamed.insert(flying.number, sector);
        }
        newer.flying = newest.into_iter().collect();
        newer.applied = 0;
        self.sectors.insert(sector, newer);
        waits
    }

    /// Adds a version, and replaces one that waits; returns whether the caller must queue the
    /// sector.
    pub(crate) fn write(&mut self, sector: u32, waiting: Waiting) -> bool {
        let newer = self.sectors.entry(sector).or_default();
        let before = newer.waiting.take();
        let since = before.as_ref().map_or(waiting.number, |(since, _)| *since);
        newer.waiting = Some((since, waiting));
        if before.is_none() {
            self.held += 1;
            self.stand(since);
        }
        before.is_none()
    }

    /// Adds a deallocation of a sector, and drops a version that waits.
    pub(crate) fn trim(&mut self, sector: u32, number: u64) {
        let newer = self.sectors.entry(sector).or_default();
        let before = newer.waiting.take();
        let since = before.as_ref().map_or(number, |(since, _)| *since);
        newer.flying.push(Flying {
            number,
            since,
            payload: None,
        });
        self.gone += 1;
        *self.trims.entry(number).or_default() += 1;
        match before {
            Some(_) => self.held -= 1,
            None => self.stand(since),
        }
    }

    /// Whether a version of the sector waits to be written.
    pub(crate) fn waits(&self, sector: u32) -> bool {
        let newer = self.sectors.get(&sector);
        newer.is_some_and(|newer| newer.waiting.is_some())
    }

    /// Moves the waiting version to flight; `None` if it was deallocated meanwhile.
    pub(crate) fn issue(&mut self, sector: u32) -> Option<Waiting> {
        let newer = self.sectors.get_mut(&sector)?;
        let (since, waiting) = newer.waiting.take()?;
        newer.flying.push(Flying {
            number: waiting.number,
            since,
            payload: Some(waiting.payload.clone()),
        });
        Some(waiting)
    }

    /// Ends the program of a version; returns whether the table must be updated.
    pub(crate) fn end(&mut self, sector: u32, number: u64) -> bool {
        let Some(newer) = self.sectors.get_mut(&sector) else {
            return false;
        };
        let flying = newer.flying.iter().any(|flying| flying.number == number);
        let applies = flying && newer.applied < number;
        if applies {
            newer.applied = number;
        }
        applies
    }

    /// Ends a version whose table update is durable, or that was overtaken.
    pub(crate) fn settle(&mut self, sector: u32, number: u64) {
        let Some(newer) = self.sectors.get_mut(&sector) else {
            return;
        };
        let found = newer
            .flying
            .iter()
            .position(|flying| flying.number == number);
        let Some(found) = found else { return };
        let ended = newer.flying.remove(found);
        self.renamed.remove(&number);
        let applied = newer.applied;
        let mut handed = None;
        if applied > number {
            let mut newer = newer.flying.iter_mut();
            // The newer entry is in the table, but a cut may still take it back.
            if let Some(newer) = newer.find(|flying| flying.number == applied) {
                handed = Some((newer.since, newer.since.min(ended.since)));
                newer.since = newer.since.min(ended.since);
            }
        }
        if newer.flying.is_empty() && newer.waiting.is_none() {
            self.sectors.remove(&sector);
        }
        match ended.payload {
            Some(_) => self.held -= 1,
            None => {
                self.gone -= 1;
                count_down(&mut self.trims, number);
            }
        }
        self.fall(ended.since);
        if let Some((before, since)) = handed {
            self.fall(before);
            self.stand(since);
        }
    }

    /// Panics if an invariant does not hold.
    pub(crate) fn check(&self) {
        let (mut held, mut gone, mut sinces) = (0, 0, BTreeMap::new());
        let mut trims = BTreeMap::new();
        for (sector, newer) in &self.sectors {
            let with = newer
                .flying
                .iter()
                .filter(|flying| flying.payload.is_some());
            let with = with.count();
            held += with as u32 + u32::from(newer.waiting.is_some());
            gone += (newer.flying.len() - with) as u32;
            for trim in newer.flying.iter().filter(|f| f.payload.is_none()) {
                *trims.entry(trim.number).or_default() += 1;
            }
            let waiting = newer.waiting.iter().map(|(since, _)| *since);
            for since in waiting.chain(newer.flying.iter().map(|flying| flying.since)) {
                *sinces.entry(since).or_default() += 1;
            }
            let idle = newer.flying.is_empty() && newer.waiting.is_none();
            assert!(!idle, "sector {sector} has nothing newer");
            if let Some((_, waiting)) = &newer.waiting {
                let last = newer.flying.iter().map(|flying| flying.number).max();
                assert!(last < Some(waiting.number), "sector {sector} goes back");
            }
        }
        assert_eq!((held, gone), (self.held, self.gone));
        assert_eq!(sinces, self.sinces);
        assert_eq!(trims, self.trims);
        for (&number, &sector) in &self.renamed {
            let owner = self.owner(sector, number);
            assert_eq!(owner, Some(sector), "version {number} has landed");
        }
    }
}

/// Decrements the count of `number`, and removes it at zero.
fn count_down(counts: &mut BTreeMap<u64, u32>, number: u64) {
    if let Entry::Occupied(mut count) = counts.entry(number) {
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::Who;
    use ssd::Cause;

    fn version(number: u64) -> Waiting {
        Waiting {
            number,
            payload: Payload::Fill(number),
            mark: RawMark {
                cause: Cause::Host,
                who: Who::default(),
            },
        }
    }

    /// The newer version ends first, and its entry is not durable yet when the older one ends.
    #[test]
    fn overtaken_version_is_durable_only_with_the_newer_one() {
        let mut buffer = Buffer::default();
        for number in [5, 6] {
            buffer.write(9, version(number));
            assert!(buffer.issue(9).is_some());
        }
        assert!(buffer.end(9, 6));
        assert!(!buffer.end(9, 5));
        buffer.settle(9, 5);
        assert_eq!(buffer.oldest(), Some(5));
        buffer.check();
        buffer.settle(9, 6);
        assert_eq!(buffer.oldest(), None);
    }

    /// As many as on a large drive: a scan at each turn of a flush would take hours.
    #[test]
    fn many_deallocations_end_fast_in_any_order() {
        let mut buffer = Buffer::default();
        let all = 1_u32 << 17;
        (0..all).for_each(|sector| buffer.trim(sector, u64::from(sector)));
        assert_eq!(buffer.gone(), all);
        for sector in (0..all).rev() {
            assert_eq!(buffer.oldest(), Some(0));
            buffer.settle(sector, u64::from(sector));
        }
        assert_eq!((buffer.oldest(), buffer.gone()), (None, 0));
        buffer.check();
    }
}
