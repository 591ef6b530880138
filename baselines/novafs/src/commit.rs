//! Commits: the protocol that makes changes durable.
//!
//! Invariants: a commit is planned, and its pages taken, before any store, so a failure for lack of
//! space leaves no trace; entries are durable before a tail leads to them; state in memory changes
//! after the medium.
//!
//! A change of one inode stores entries, makes them durable, and stores the first line of the inode
//! with the new tail. A change of several inodes first records their old first lines in the journal
//! of a core, then stores the new ones, and is committed once the journal header says so; otherwise
//! recovery restores the old lines.
//!
//! Journal lines carry the number of their transaction and the count of its lines, so they need no
//! pointers that would have to be made durable in between: a transaction with missing lines has not
//! stored anything else yet.
//= nova 4.4

use crate::alloc::Class;
use crate::entry::Entry;
use crate::format::{Anchor, Birth, LINE, LINE_BYTES, Line, PAGE_BYTES, journal, undo};
use crate::fs::{Node, NovaFs};
use crate::log::{Plan, fits};
use crate::pieces::Run;
use host::Purpose;
use vfs::Result;

/// The part of a commit that concerns one inode.
pub(crate) struct Step<'a> {
    pub(crate) node: &'a Node,
    pub(crate) entries: Vec<Entry>,
    /// State at creation, if the commit creates the inode.
    pub(crate) birth: Option<Birth>,
}

impl<'a> Step<'a> {
    pub(crate) const fn new(node: &'a Node, entries: Vec<Entry>) -> Self {
        Self {
            node,
            entries,
            birth: None,
        }
    }
}

/// A journal line with the old first line of an inode.
fn undo_line(anchor: &Anchor, number: u64, count: usize, index: usize) -> Line {
    let mut line = [0; LINE];
    undo::NUMBER.put(&mut line, number);
    undo::COUNT.put(&mut line, count as u32);
    undo::INDEX.put(&mut line, index as u32);
    undo::INO.put(&mut line, anchor.ino);
    undo::HEAD.put(&mut line, anchor.head);
    undo::TAIL.put(&mut line, anchor.tail);
    undo::GENERATION.put(&mut line, anchor.generation);
    undo::VALID.put(&mut line, u32::from(anchor.valid));
    line
}

/// The header of a journal whose last committed transaction is `done`.
pub(crate) fn journal_header(done: u64) -> Line {
    let mut line = [0; LINE];
    journal::MAGIC.put(&mut line, journal::MAGIC_VALUE);
    journal::DONE.put(&mut line, done);
    line
}

/// Contents of a journal.
pub(crate) struct Journal {
    /// Last transaction that may have lines in the journal.
    pub(crate) last: u64,
    /// Whether the journal records this transaction as committed.
    pub(crate) is_done: bool,
    /// First lines of inodes that recovery must restore.
    pub(crate) undo: Vec<Anchor>,
}

impl Journal {
    /// Parses the first lines of a journal; `None` if they are invalid.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut lines = bytes.chunks_exact(LINE);
        let header = lines.next()?;
        if journal::MAGIC.get(header) != journal::MAGIC_VALUE {
            return None;
        }
        let done = journal::DONE.get(header);
        // Leaves numbers for later transactions.
        let next = done.checked_add(1).filter(|next| *next < 1 << 63)?;
        let lines: Vec<&[u8]> = lines.take(undo::MOST as usize).collect();
        let current = |line: &&&[u8]| undo::NUMBER.get(line) == next;
        let count = lines
            .iter()
            .find(current)
            .map_or(0, |line| undo::COUNT.get(line));
        let mut undo = Vec::new();
        for (index, line) in (0..count.min(undo::MOST)).zip(&lines) {
            let whole =
                current(&line) && undo::COUNT.get(line) == count && undo::INDEX.get(line) == index;
            if whole {
                undo.push(Anchor {
                    valid: undo::VALID.get(line) == 1,
                    ino: undo::INO.get(line),
                    head: undo::HEAD.get(line),
                    tail: undo::TAIL.get(line),
                    generation: undo::GENERATION.get(line),
                });
            }
        }
        if undo.len() < count as usize {
            undo.clear();
        }
        let is_done = !lines.iter().any(|line| current(&line));
        let last = if is_done { done } else { next };
        Some(Self {
            last,
            is_done,
            undo,
        })
    }

    /// Bytes of a journal page that are used.
    pub(crate) const BYTES: usize = (undo::MOST as usize + 1) * LINE;
}

impl NovaFs {
    /// Commits `steps` atomically; each is of another inode, whose turn the caller holds. First
    /// cleans the logs that have to grow.
    pub(crate) async fn commit(&self, steps: Vec<Step<'_>>, class: Class) -> Result<()> {
        for step in &steps {
            self.make_room(step).await?;
        }
        let plans = self.plan(&steps, class)?;
        for (step, plan) in steps.iter().zip(&plans) {
            if let Some(birth) = &step.birth {
                let second = step.node.private.slot + LINE_BYTES;
                let who = self.who(Purpose::Inode);
                self.store(second, &birth.encode(), who).await?;
            }
            self.store_plan(plan).await?;
        }
        let anchors: Vec<Anchor> = steps
            .iter()
            .zip(&plans)
            .map(|(step, plan)| Anchor {
                valid: true,
                head: plan.head,
                tail: plan.tail,
                ..step.node.private.anchor.get()
            })
            .collect();
        match &steps[..] {
            [step] => {
                if !vfs::mutant::is("nova-tail-before-entries") {
                    self.verify().await?;
                }
                self.store_anchor(step.node, anchors[0]).await?;
                if !vfs::mutant::is("nova-tail-not-flushed") {
                    self.verify().await?;
                }
            }
            _ if vfs::mutant::is("nova-tails-without-journal") => {
                for (step, anchor) in steps.iter().zip(&anchors) {
                    self.verify().await?;
                    self.store_anchor(step.node, *anchor).await?;
                }
                self.verify().await?;
            }
            _ => self.commit_together(&steps, &anchors).await?,
        }
        for ((step, plan), anchor) in steps.into_iter().zip(plans).zip(anchors) {
            self.take_in(step, plan, anchor);
        }
        Ok(())
    }

    /// Cleans the log of a step that does not fit into its last page.
    async fn make_room(&self, step: &Step<'_>) -> Result<()> {
        let lines: usize = step.entries.iter().map(Entry::lines).sum();
        let tail = step.node.private.anchor.get().tail;
        if tail != 0 && !fits(tail, (lines * LINE) as u64) {
            self.clean(step.node).await?;
        }
        Ok(())
    }

    /// Plans all steps; takes no pages if one of them fails.
    fn plan(&self, steps: &[Step<'_>], class: Class) -> Result<Vec<Plan>> {
        let core = self.core();
        let mut taken = Vec::new();
        let mut page = || {
            let page = self.alloc.borrow_mut().take_page(core, class)?;
            taken.push(page);
            Some(page)
        };
        let plans: Option<Vec<Plan>> = steps
            .iter()
            .map(|step| {
                let anchor = step.node.private.anchor.get();
                let kind = step.node.attr.get().kind;
                Plan::new(&anchor, kind, &step.entries, &mut page)
            })
            .collect();
        plans.ok_or_else(|| {
            let asked = taken.len() as u64 + 1;
            self.give(taken.into_iter().map(|start| Run { start, len: 1 }));
            self.refuse_pages(asked, class)
        })
    }

    /// Stores the entries of a plan, which nothing leads to yet.
    pub(crate) async fn store_plan(&self, plan: &Plan) -> Result<()> {
        for (at, bytes, purpose) in &plan.stores {
            self.store(*at, bytes, self.who(*purpose)).await?;
        }
        Ok(())
    }

    /// Stores the first line of an inode; the caller records it in memory afterwards.
    pub(crate) async fn store_anchor(&self, node: &Node, anchor: Anchor) -> Result<()> {
        let who = self.who(Purpose::Inode);
        self.store(node.private.slot, &anchor.encode(), who).await
    }

    async fn commit_together(&self, steps: &[Step<'_>], anchors: &[Anchor]) -> Result<()> {
        assert!(
            steps.len() <= undo::MOST as usize,
            "the journal has lines for them"
        );
        let index = self.core();
        let core = &self.cores[index];
        let _turn = core.turn.acquire(1).await;
        let (number, who) = (core.done.get() + 1, self.who(Purpose::Journal));
        let at = self.geometry.journal(index as u64) * PAGE_BYTES;
        let olds = steps.iter().enumerate();
        let lines: Vec<u8> = olds
            .flat_map(|(n, step)| {
                undo_line(&step.node.private.anchor.get(), number, steps.len(), n)
            })
            .collect();
        self.store(at + LINE_BYTES, &lines, who).await?;
        if !vfs::mutant::is("nova-tails-before-journal") {
            self.verify().await?;
        }
        for (step, anchor) in steps.iter().zip(anchors) {
            self.store_anchor(step.node, *anchor).await?;
        }
        if !vfs::mutant::is("nova-journal-done-before-tails") {
            self.verify().await?;
        }
        self.store(at, &journal_header(number), who).await?;
        if !vfs::mutant::is("nova-journal-not-flushed") {
            self.verify().await?;
        }
        core.done.set(number);
        Ok(())
    }

    /// Applies a durable step to the state in memory, and frees replaced pages.
    fn take_in(&self, step: Step<'_>, plan: Plan, anchor: Anchor) {
        let private = &step.node.private;
        let mut state = private.state.borrow_mut();
        let mut freed = Vec::new();
        state.log.pages.extend(plan.pages);
        for (at, entry) in plan.places.into_iter().zip(step.entries) {
            let applied = state.apply(at, entry, &mut freed);
            applied.expect("an entry of ours fits the inode");
        }
        private.anchor.set(anchor);
        let sectors = state.attr.sectors;
        step.node.update(|attr| attr.sectors = sectors);
        drop(state);
        self.give(freed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal(done: u64, lines: &[Line]) -> Vec<u8> {
        let mut bytes = journal_header(done).to_vec();
        bytes.extend(lines.concat());
        bytes.resize(Journal::BYTES, 0xEE);
        bytes
    }

    #[test]
    fn only_a_whole_transaction_that_is_not_done_is_undone() {
        let anchors = [7, 8].map(|ino| Anchor {
            valid: true,
            ino,
            head: 3,
            tail: 3 * PAGE_BYTES + 64,
            generation: 1,
        });
        let [first, second] = [0, 1].map(|n| undo_line(&anchors[n], 5, 2, n));
        let undo = |done, lines: &[Line]| Journal::decode(&journal(done, lines)).unwrap().undo;
        assert_eq!(undo(4, &[first, second]), anchors);
        assert_eq!(undo(5, &[first, second]), [], "it is done");
        assert_eq!(undo(4, &[first]), [], "a line is missing");
        // The number is not reused: a later transaction could leave that line behind.
        let begun = Journal::decode(&journal(4, &[first])).unwrap();
        assert_eq!((begun.last, begun.is_done), (5, false));
        let older = undo_line(&anchors[1], 4, 2, 1);
        assert_eq!(undo(4, &[first, older]), [], "a line is of another one");
        assert!(Journal::decode(&[0; Journal::BYTES]).is_none());
        assert!(Journal::decode(&journal(u64::MAX, &[])).is_none());
    }
}
