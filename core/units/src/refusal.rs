//! Why there was no space: the limit that an allocation met, and who holds it.
//!
//! Invariants: what is free and what holders have add up to the total, by construction;
//! a log keeps one entry for each limit, however often it was met, and limits are words
//! of the code, so that it stays small.

use crate::{Ns, Origin};
use std::borrow::Cow;
use std::fmt;

/// An allocation that was refused. Amounts are in what the limit is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoSpace {
    /// What there was too little of: `blocks`, `inodes`, `open zones`.
    pub limit: &'static str,
    /// How much was asked for.
    pub asked: u64,
    /// How much there is.
    pub total: u64,
    /// How much nobody holds.
    pub free: u64,
    /// How much of what is free is kept from the one who asked.
    pub reserve: u64,
    /// Who holds the rest, those who hold nothing left out.
    pub held_by: Vec<Holder>,
}

/// Who holds some of what there is too little of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// It, in words: `files`, `zone 3`.
    pub who: Cow<'static, str>,
    /// On whose behalf, where that is known.
    pub origin: Origin,
    /// How much it holds.
    pub amount: u64,
}

impl NoSpace {
    /// `asked` of the `total` of `limit` were asked for, of which `free` are free and
    /// nobody is known to hold the rest.
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

    /// The same, with `reserve` of what is free kept from the one who asked.
    #[must_use]
    pub fn keeping(self, reserve: u64) -> Self {
        let reserve = reserve.min(self.free);
        Self { reserve, ..self }
    }

    /// The same, with `amount` of the rest held by `who`; no more than there is, since
    /// counts on a damaged medium need not agree.
    #[must_use]
    pub fn held(self, who: impl Into<Cow<'static, str>>, amount: u64) -> Self {
        self.held_for(who, Origin::default(), amount)
    }

    /// The same as [`Self::held`], on behalf of `origin`.
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

    /// The same, with all of the rest held by `who`.
    #[must_use]
    pub fn rest(self, who: impl Into<Cow<'static, str>>) -> Self {
        let amount = self.unnamed();
        self.held(who, amount)
    }

    /// How much `who` is known to hold.
    #[must_use]
    pub fn held_by(&self, who: &str) -> u64 {
        let mut holders = self.held_by.iter();
        holders.find(|h| h.who == who).map_or(0, |h| h.amount)
    }

    /// How much is not free and not known to be held by anybody.
    fn unnamed(&self) -> u64 {
        let held: u64 = self.held_by.iter().map(|holder| holder.amount).sum();
        self.total - self.free - held
    }
}

/// One sentence: what was asked for, what is there, and who has it.
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

/// A limit that was met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// How often.
    pub times: u64,
    /// When for the first time.
    pub first_at: Ns,
    /// What it was like then.
    pub first: NoSpace,
}

/// Limits that were met, each with the first time in full and how often.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    met: Vec<Refused>,
    last: Option<NoSpace>,
}

impl Refusals {
    /// Notes that `limit` was met at `now`. `why` is asked where it was not the limit
    /// that was met before.
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

    /// Takes back that `limit` was met: what was refused is tried again.
    pub fn take_back(&mut self, limit: &'static str) {
        let is_it = |met: &Refused| met.first.limit == limit;
        self.last.take_if(|last| last.limit == limit);
        if let Some(at) = self.met.iter().position(is_it) {
            self.met[at].times -= 1;
            self.met.retain(|met| met.times > 0);
        }
    }

    /// Limits that were met, the first one first.
    #[must_use]
    pub fn met(&self) -> &[Refused] {
        &self.met
    }

    /// What it was like when the limit was met first that was met last.
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
    fn what_is_free_and_what_is_held_add_up() {
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
    fn it_says_so_in_a_sentence() {
        assert_eq!(
            blocks().to_string(),
            "blocks: 9 asked for, 8 of 100 free, 5 of them kept in reserve; held by journal \
             (10), files (82)"
        );
        let none = NoSpace::new("inodes", 1, 0, 0).to_string();
        assert_eq!(none, "inodes: 1 asked for, 0 of 0 free");
    }

    #[test]
    fn a_log_keeps_the_first_of_each_limit_and_counts_the_rest() {
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
