//! Cleaning of logs.
//!
//! A log is cleaned when it needs another page. Fast cleaning unlinks pages that hold only dead
//! entries, each by storing the link before it. If less than half of the rest is live, thorough
//! cleaning writes the state of the inode into a new log, and one store of the inode's first line
//! switches to it.
//!
//! Invariant: a log describes the same state with or without any subset of the pages that fast
//! cleaning unlinks.
//= nova 4.5

use crate::alloc::Class;
use crate::format::{Anchor, log_trailer};
use crate::fs::{Node, NovaFs};
use crate::log::{LINES, Plan, link_purpose, trailer_of};
use crate::pieces::Run;
use crate::state::State;
use vfs::Result;

/// Counters of cleaning since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaning {
    /// Pages that fast cleaning unlinked.
    pub unlinked: u64,
    /// Logs rewritten by thorough cleaning.
    pub rewritten: u64,
    /// Pages that thorough cleaning gained.
    pub gained: u64,
}

fn single(start: u64) -> Run {
    Run { start, len: 1 }
}

impl NovaFs {
    /// Counters of cleaning since the mount.
    #[must_use]
    pub fn cleaning(&self) -> Cleaning {
        self.cleaning.get()
    }

    /// Cleans the log of `node`; the caller holds its turn.
    pub(crate) async fn clean(&self, node: &Node) -> Result<()> {
        self.unlink_dead(node).await?;
        if node.private.state.borrow().log.is_mostly_dead() {
            self.rewrite(node).await?;
        }
        Ok(())
    }

    async fn unlink_dead(&self, node: &Node) -> Result<()> {
        let (pages, dead) = {
            let log = &node.private.state.borrow().log;
            let is_dead = |page: &u64| log.is_dead(*page);
            (
                log.pages.clone(),
                log.pages
                    .iter()
                    .copied()
                    .filter(is_dead)
                    .collect::<Vec<_>>(),
            )
        };
        if dead.is_empty() {
            return Ok(());
        }
        let who = self.who(link_purpose(node.attr.get().kind));
        // A live page that a dead one follows leads to the next live one.
        let (mut live, mut left) = (Vec::new(), dead.iter().peekable());
        let mut gap = false;
        for page in pages {
            if left.next_if_eq(&&page).is_some() {
                gap = true;
                continue;
            }
            if let Some(&before) = live.last().filter(|_| gap) {
                let line = log_trailer(node.ino.0, page);
                self.store(trailer_of(before), &line, who).await?;
            }
            gap = false;
            live.push(page);
        }
        let mut anchor = node.private.anchor.get();
        if anchor.head != live[0] {
            anchor.head = live[0];
            self.store_anchor(node, anchor).await?;
        }
        self.verify().await?;
        node.private.anchor.set(anchor);
        node.private.state.borrow_mut().log.pages = live;
        self.count(|cleaning| cleaning.unlinked += dead.len() as u64);
        self.give(dead.into_iter().map(single));
        Ok(())
    }

    /// Rewrites the log of `node` if that makes it half as long; without free pages the log stays
    /// as it is.
    async fn rewrite(&self, node: &Node) -> Result<()> {
        let (entries, mut state, old) = {
            let state = node.private.state.borrow();
            let new = State::like(state.attr, state.parent);
            (state.compact(), new, state.log.pages.clone())
        };
        let lines: usize = entries.iter().map(crate::entry::Entry::lines).sum();
        if lines as u64 * 2 > old.len() as u64 * LINES {
            return Ok(());
        }
        let core = self.core();
        let mut taken = Vec::new();
        let empty = Anchor {
            head: 0,
            tail: 0,
            ..node.private.anchor.get()
        };
        let plan = Plan::new(&empty, node.attr.get().kind, &entries, || {
            let page = self.alloc.borrow_mut().take_page(core, Class::Upkeep)?;
            taken.push(page);
            Some(page)
        });
        let Some(plan) = plan else {
            self.give(taken.into_iter().map(single));
            return Ok(());
        };
        self.store_plan(&plan).await?;
        self.verify().await?;
        let anchor = Anchor {
            head: plan.head,
            tail: plan.tail,
            ..empty
        };
        self.store_anchor(node, anchor).await?;
        self.verify().await?;
        state.log.pages = plan.pages;
        for (at, entry) in plan.places.into_iter().zip(entries) {
            let applied = state.apply(at, entry, &mut Vec::new());
            applied.expect("what was in memory fits the inode");
        }
        let gained = old.len().saturating_sub(state.log.pages.len()) as u64;
        node.private.anchor.set(anchor);
        node.private.state.replace(state);
        self.count(|cleaning| {
            cleaning.rewritten += 1;
            cleaning.gained += gained;
        });
        self.give(old.into_iter().map(single));
        Ok(())
    }

    fn count(&self, change: impl FnOnce(&mut Cleaning)) {
        let mut cleaning = self.cleaning.get();
        change(&mut cleaning);
        self.cleaning.set(cleaning);
    }
}
