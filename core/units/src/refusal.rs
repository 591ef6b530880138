//! Refused allocations: the exhausted limit, and the holders of its resources.
//!
//! Invariants: the free amount and the holders' amounts never exceed the total, by
//! construction; a log keeps one entry for each limit, however often it was met. Limits
//! are string literals of the code, so a log stays small.

use crate::{Ns, Origin};
use std::borrow::Cow;
use std::fmt;

/// A refused allocation. All amounts are in the unit of the limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoSpace {
    /// Name of the exhausted resource: `blocks`, `inodes`, `open zones`.
    pub limit: &'static str,
    /// Amount that the allocation requested.
    pub asked: u64,
    /// Total amount of the resource, free or held.
    pub total: u64,
    /// Free amount, including the reserve.
    pub free: u64,
    /// Part of the free amount that the requester may not use.
    pub reserve: u64,
    /// Known holders of the rest, each with an amount above zero.
    pub held_by: Vec<Holder>,
}

/// A holder of a part of the exhausted resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Name of the holder: `files`, `zone 3`.
    pub who: Cow<'static, str>,
    /// Origin for which the amount is held; the default where it is not known.
    pub origin: Origin,
    /// Amount held, in the unit of the limit.
    pub amount: u64,
}

impl NoSpace {
    /// A refusal of `asked` units of `limit`, with `free` of `total` units free, no reserve
    /// and no known holders. A `total` below `free` is raised to it.
    #[must_use]
    pub fn new(limit: &'static str, asked: u64, free: u64, total: u64) -> Self {
        Self {
            limit,
            asked,
            total: total.max(free),
            free,
            reserve: 0,
            held_by: Vec::new(),
        }
    }

    /// Sets the reserve to `reserve`, at most the free amount.
    #[must_use]
    pub fn keeping(self, reserve: u64) -> Self {
        let reserve = reserve.min(self.free);
        Self { reserve, ..self }
    }

    /// Adds a holder of `amount`, at most the amount without a known holder: counts on a
    /// damaged medium need not agree.
    #[must_use]
    pub fn held(self, who: impl Into<Cow<'static, str>>, amount: u64) -> Self {
        self.held_for(who, Origin::default(), amount)
    }

    /// Like [`Self::held`], with the origin for which the amount is held.
    #[must_use]
    pub fn held_for(
        mut self,
        who: impl Into<Cow<'static, str>>,
        origin: Origin,
        amount: u64,
    ) -> Self {
        let (who, amount) = (who.into(), amount.min(self.unnamed()));
        if amount > 0 {
            self.held_by.push(Holder {
                who,
                origin,
                amount,
            });
        }
        self
    }

    /// Adds a holder of the whole amount that has no known holder yet.
    #[must_use]
    pub fn rest(self, who: impl Into<Cow<'static, str>>) -> Self {
        let amount = self.unnamed();
        self.held(who, amount)
    }

    /// Amount of the first holder of that name, or 0.
    #[must_use]
    pub fn held_by(&self, who: &str) -> u64 {
        let mut holders = self.held_by.iter();
        holders.find(|h| h.who == who).map_or(0, |h| h.amount)
    }

    /// Amount that is not free and has no known holder.
    fn unnamed(&self) -> u64 {
        let held: u64 = self.held_by.iter().map(|holder| holder.amount).sum();
        self.total - self.free - held
    }
}

/// One sentence: the requested, free and reserved amounts, and the holders.
impl fmt::Display for NoSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            limit,
            asked,
            total,
            free,
            reserve,
            held_by,
        } = self;
        write!(f, "{limit}: {asked} asked for, {free} of {total} free")?;
        if *reserve > 0 {
            write!(f, ", {reserve} of them kept in reserve")?;
        }
        for (index, Holder { who, amount, .. }) in held_by.iter().enumerate() {
            let before = if index == 0 { "; held by " } else { ", " };
            write!(f, "{before}{who} ({amount})")?;
        }
        Ok(())
    }
}

/// The refusals for one limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Number of refused allocations.
    pub times: u64,
    /// Virtual time of the first refusal.
    pub first_at: Ns,
    /// The first refusal in full.
    pub first: NoSpace,
}

/// A log of refused allocations: per limit, the first refusal in full and a count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    met: Vec<Refused>,
    last: Option<NoSpace>,
}

impl Refusals {
    /// Logs a refusal for `limit` at `now`. Calls `why` only if the last refusal was for
    /// another limit.
    pub fn note(&mut self, now: Ns, limit: &'static str, why: impl FnOnce() -> NoSpace) {
        if self.last.as_ref().is_none_or(|last| last.limit != limit) {
            let why = why();
            debug_assert_eq!(
                why.limit, limit,
                "a refusal is of the limit that it is noted as"
            );
            self.last = Some(why);
        }
        let found = self.met.iter_mut().find(|met| met.first.limit == limit);
        match (found, &self.last) {
            (Some(met), _) => met.times += 1,
            (None, Some(first)) => self.met.push(Refused {
                times: 1,
                first_at: now,
                first: first.clone(),
            }),
            (None, None) => {}
        }
    }

    /// Removes one refusal for `limit` from the count: the allocation will be retried.
    pub fn take_back(&mut self, limit: &'static str) {
        let is_it = |met: &Refused| met.first.limit == limit;
        self.last.take_if(|last| last.limit == limit);
        if let Some(at) = self.met.iter().position(is_it) {
            self.met[at].times -= 1;
            self.met.retain(|met| met.times > 0);
        }
    }

    /// Refusals per limit, in the order of the first refusals.
    #[must_use]
    pub fn met(&self) -> &[Refused] {
        &self.met
    }

    /// The last refusal, as of the first in its run of refusals for the same limit. None if
    /// there was none, or if it was taken back.
    #[must_use]
    pub const fn last(&self) -> Option<&NoSpace> {
        self.last.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks() -> NoSpace {
        let full = NoSpace::new("blocks", 9, 8, 100).keeping(5);
        full.held("journal", 10).held("nobody", 0).rest("files")
    }

    #[test]
    fn free_and_held_amounts_add_up_to_the_total() {
        let sum = |full: &NoSpace| full.held_by.iter().map(|h| h.amount).sum::<u64>() + full.free;
        assert_eq!(sum(&blocks()), 100);
        assert_eq!(blocks().held_by.len(), 2, "who holds nothing is not named");
        let damaged = NoSpace::new("blocks", 1, 8, 4)
            .keeping(99)
            .held("files", u64::MAX);
        assert_eq!((damaged.total, damaged.reserve, sum(&damaged)), (8, 8, 8));
        let much = NoSpace::new("blocks", 1, 0, 4)
            .held("files", 9)
            .rest("others");
        assert_eq!((much.held_by.len(), sum(&much)), (1, 4));
    }

    #[test]
    fn display_is_one_sentence() {
        assert_eq!(
            blocks().to_string(),
            "blocks: 9 asked for, 8 of 100 free, 5 of them kept in reserve; held by journal \
             (10), files (82)"
        );
        let none = NoSpace::new("inodes", 1, 0, 0).to_string();
        assert_eq!(none, "inodes: 1 asked for, 0 of 0 free");
    }

    #[test]
    fn log_keeps_the_first_refusal_per_limit_and_counts_the_rest() {
        let mut log = Refusals::default();
        let inodes = || NoSpace::new("inodes", 1, 0, 7).rest("files");
        let never = || unreachable!("it is the limit that was met before");
        log.note(Ns(5), "blocks", blocks);
        log.note(Ns(6), "blocks", never);
        log.note(Ns(7), "inodes", inodes);
        assert_eq!(log.last(), Some(&inodes()));
        let later = || NoSpace::new("blocks", 1, 0, 100).rest("files");
        log.note(Ns(8), "blocks", later);
        assert_eq!(log.last(), Some(&later()), "the limit has changed");
        let met: Vec<_> = log
            .met()
            .iter()
            .map(|met| (met.times, met.first_at))
            .collect();
        assert_eq!(met, [(3, Ns(5)), (1, Ns(7))]);
        assert_eq!(log.met()[0].first, blocks());
        log.take_back("inodes");
        log.take_back("blocks");
        let met: Vec<_> = log.met().iter().map(|met| met.times).collect();
        assert_eq!((met, log.last()), (vec![2], None));
    }
}
