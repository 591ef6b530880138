//! What is newer than the table: versions that wait or are being written.
//!
//! Invariants: of a sector at most one version waits, which is the newest; versions that are
//! on their way to flash end in any order, and one that ends behind a newer one changes
//! nothing. A deallocation is a version without contents that is on its way from the start.
//! What one stands for that was overtaken lasts only when the newer one does: it is handed on.
//! How many versions stand for each oldest one is counted, so that a flush need not look at all.
//!
//! An exchange gives a version in flight to another sector, or makes it obsolete. Its program
//! goes on with the address of the sector that the version was issued for; [`Buffer::owner`]
//! says which sector the block belongs to once the program has ended.

use host::RawMark;
use nand::Payload;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// A version that waits.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) number: u64,
    pub(crate) payload: Payload,
    pub(crate) mark: RawMark,
}

/// A version on its way.
struct Flying {
    number: u64,
    /// The number of the oldest version that it stands for.
    since: u64,
    /// None for a deallocation.
    payload: Option<Payload>,
}

/// What is newer than the table of one sector.
#[derive(Default)]
struct Newer {
    /// With the number of the oldest version that it stands for.
    waiting: Option<(u64, Waiting)>,
    flying: Vec<Flying>,
    /// The newest one that the table has.
    applied: u64,
}

#[derive(Default)]
pub(crate) struct Buffer {
    sectors: BTreeMap<u32, Newer>,
    /// Versions with contents, waiting or on their way.
    held: u32,
    /// Deallocations on their way.
    gone: u32,
    /// Numbers of these, and how many sectors each is of.
    trims: BTreeMap<u64, u32>,
    /// Numbers of the oldest versions that any stands for, and how many do.
    sinces: BTreeMap<u64, u32>,
    /// Numbers of versions in flight that an exchange gave to another sector, and that sector.
    renamed: BTreeMap<u64, u32>,
}

impl Buffer {
    /// Versions with contents in the buffer.
    pub(crate) const fn held(&self) -> u32 {
        self.held
    }

    /// Sectors of deallocations that are not durable.
    pub(crate) const fn gone(&self) -> u32 {
        self.gone
    }

    /// The number of the oldest version that is not durable.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.sinces.keys().next().copied()
    }

    /// The number of the oldest deallocation that is not durable.
    pub(crate) fn oldest_trim(&self) -> Option<u64> {
        self.trims.keys().next().copied()
    }

    /// One more version stands for what there is since this number.
    fn stand(&mut self, since: u64) {
        *self.sinces.entry(since).or_default() += 1;
    }

    /// One less does.
    fn fall(&mut self, since: u64) {
        count_down(&mut self.sinces, since);
    }

    /// The newest version of a sector, if it is not that of the table: its contents, none if
    /// it was deallocated.
    pub(crate) fn newest(&self, sector: u32) -> Option<Option<&Payload>> {
        let newer = self.sectors.get(&sector)?;
        if let Some((_, waiting)) = &newer.waiting {
            return Some(Some(&waiting.payload));
        }
        let newest = newer.flying.iter().max_by_key(|flying| flying.number)?;
        (newest.number > newer.applied).then_some(newest.payload.as_ref())
    }

    /// Whether any version of a sector waits or is on its way.
    pub(crate) fn has(&self, sector: u32) -> bool {
        self.sectors.contains_key(&sector)
    }

    /// Whether an exchange has to wait for this sector: a deallocation of it is in flight, or
    /// the table is being told where a version of it is.
    pub(crate) fn is_landing(&self, sector: u32) -> bool {
        let newer = self.sectors.get(&sector);
        newer.is_some_and(|newer| {
            let mut flying = newer.flying.iter();
            flying.any(|flying| flying.payload.is_none() || flying.number == newer.applied)
        })
    }

    /// The sector to which a version in flight belongs that was issued for `sector`; none if
    /// an exchange has made it obsolete.
    pub(crate) fn owner(&self, sector: u32, number: u64) -> Option<u32> {
        let sector = self.renamed.get(&number).copied().unwrap_or(sector);
        let flying = &self.sectors.get(&sector)?.flying;
        let found = flying.iter().any(|flying| flying.number == number);
        found.then_some(sector)
    }

    /// Sectors of which a version waits, and the numbers of these.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (u32, u64)> {
        let waits = |(&sector, newer): (&u32, &Newer)| {
            let (_, waiting) = newer.waiting.as_ref()?;
            Some((sector, waiting.number))
        };
        self.sectors.iter().filter_map(waits)
    }

    /// Drops all versions of a sector, which an exchange has overtaken; whether one waited.
    /// The programs of those in flight change nothing when they end.
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

    /// A version in flight is obsolete.
    fn drop_flying(&mut self, flying: &Flying) {
        self.held -= 1;
        self.renamed.remove(&flying.number);
        self.fall(flying.since);
    }

    /// Gives the newest version of sector `from` to `sector`, whose own are dropped, and drops
    /// all others of `from`; whether that version waits.
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

    /// Takes in a version; whether the sector has to be queued for it.
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

    /// Deallocates a sector.
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

    /// Whether a version of a sector waits.
    pub(crate) fn waits(&self, sector: u32) -> bool {
        let newer = self.sectors.get(&sector);
        newer.is_some_and(|newer| newer.waiting.is_some())
    }

    /// Sends the version that waits on its way; none if it was deallocated meanwhile.
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

    /// A version is on flash; whether the table is to have it.
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

    /// What a version has changed is durable.
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
            // The table says so already, but a power cut may take that back.
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

/// One less of this number.
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

    /// The newer one of two versions is on flash first, and its entry is not durable when
    /// the older one comes to its end.
    #[test]
    fn a_version_that_was_overtaken_lasts_no_sooner_than_the_newer_one() {
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

    /// As many as a large drive has: to look at each at each turn of a flush would take hours.
    #[test]
    fn many_deallocations_end_in_any_order() {
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
