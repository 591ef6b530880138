//! Having a file have what was written: pieces, sums, and tickets of what was replaced.
//!
//! Invariant: what takes the place of other contents is taken in only while the file alone
//! has these; so nothing of a snapshot changes, whenever it was made.

use crate::format::SECTOR_BYTES;
use crate::format::extent::Part;
use crate::fs::{Core, File};
use crate::persist::{Persist, Ticket};
use crate::pieces::piece_key;
use crate::staged::Stage;
use nand::Payload;
use vfs::{DirtyPage, Result};

/// Items that a piece of a file changes: those around it, itself, its sums, the inode.
pub(crate) const PIECE_ITEMS: u64 = 6;

/// Items that its sums are at most: those of two leaves, of which one is split.
const SUM_ITEMS: u64 = 3;

/// Contents that were written, and are not the file's yet.
pub(crate) struct Written {
    /// Where in the file.
    pub(crate) at: u64,
    /// Where on the medium.
    pub(crate) part: Part,
    /// Sums of its sectors; none without sums.
    pub(crate) sums: Vec<u32>,
    /// Whether its extent is nothing that anybody leads to before the file has it.
    pub(crate) new: bool,
    /// Whether the file has it there already, and but its sums may have changed.
    pub(crate) stays: bool,
    /// What took the place of other contents.
    pub(crate) replaced: Option<Replaced>,
}

/// Contents that took the place of others.
pub(crate) struct Replaced {
    /// What the strategy calls them.
    pub(crate) ticket: Ticket,
    pub(crate) contents: Vec<Payload>,
    /// Held until the sums are in the trees, or what was there before is there again.
    pub(crate) _stage: Stage,
}

impl Written {
    /// Items that are changed, and may need new nodes, once the file has it. What stays has
    /// new sums alone, in nodes that are changed in their place unless they are `copied`.
    const fn items(&self, copied: bool) -> u64 {
        match (self.stays, copied && !self.sums.is_empty()) {
            (true, false) => 0,
            (true, true) => SUM_ITEMS,
            (false, _) => PIECE_ITEMS,
        }
    }

    fn ticket(&self) -> Option<Ticket> {
        self.replaced.as_ref().map(|replaced| replaced.ticket)
    }
}

impl<S: Persist> Core<S> {
    /// Has the file have what was written, up to `end`. What it cannot have is free again.
    pub(crate) async fn take_in(
        &self,
        file: &File,
        mut written: Vec<Written>,
        end: u64,
    ) -> Result<()> {
        while !written.is_empty() {
            // Leaves of sums, each with what is above it, and the inode.
            let copied = self.forest.may_copy(3 * written.len());
            // One at a time takes less room, of which there may be no more.
            let most = match self.has_room(MOST_ITEMS, true) {
                true => MOST_ITEMS,
                false => PIECE_ITEMS,
            };
            let mut rest = written.split_off(some_of(&written, copied, most));
            let end = match (rest.is_empty(), written.last()) {
                (false, Some(last)) => end.min(last.at + last.part.bytes),
                _ => end,
            };
            let done = match self.take_in_some(file, (&written, copied), end).await {
                Ok(true) => Ok(()),
                Ok(false) => {
                    let copied = self.copy_shared(file, &mut written).await;
                    written.append(&mut rest);
                    if copied.is_ok() {
                        continue;
                    }
                    copied
                }
                Err(errno) => Err(errno),
            };
            if done.is_err() {
                let left = written.iter().chain(&rest).filter_map(Written::ticket);
                left.for_each(|ticket| self.persist.forget(ticket));
                let mut space = self.forest.space.borrow_mut();
                for one in written.iter().chain(&rest).filter(|one| one.new) {
                    space.give_back(one.part.bytenr, one.part.len);
                }
                return done;
            }
            written = rest;
        }
        Ok(())
    }

    /// The same of some that one operation has room for; false, and nothing done, if somebody
    /// shares by now what was to be replaced.
    async fn take_in_some(
        &self,
        file: &File,
        (some, copied): (&[Written], bool),
        end: u64,
    ) -> Result<bool> {
        let items: u64 = some.iter().map(|one| one.items(copied)).sum();
        let _operation = self.operate_to_free(items.max(PIECE_ITEMS)).await?;
        for one in some {
            if !self.may_replace(file, one).await? {
                return Ok(false);
            }
        }
        for one in some {
            let done = self.take_in_one(file, one).await;
            self.noted(done)?;
        }
        self.grew(file, end).await?;
        Ok(true)
    }

    /// Whether the file alone has what was to be replaced, if anything was. A snapshot, or
    /// another file, may have come to share it since the new contents were handed over.
    async fn may_replace(&self, file: &File, one: &Written) -> Result<bool> {
        Ok(one.replaced.is_none() || self.is_own(file, one.at, one.part).await?)
    }

    /// Writes to new extents what took the place of contents that somebody shares.
    async fn copy_shared(&self, file: &File, written: &mut Vec<Written>) -> Result<()> {
        let mut done = Ok(());
        for one in std::mem::take(written) {
            let kept = match done {
                Ok(()) => self.may_replace(file, &one).await,
                Err(_) => Ok(true),
            };
            let (Some(replaced), Ok(false)) = (&one.replaced, kept) else {
                done = done.and(kept.map(drop));
                written.push(one);
                continue;
            };
            let indices = one.at / SECTOR_BYTES..;
            let page = |(index, now): (u64, &Payload)| DirtyPage {
                index,
                now: now.clone(),
                before: None,
            };
            let pages: Vec<DirtyPage> = indices.zip(&replaced.contents).map(page).collect();
            let run: Vec<&DirtyPage> = pages.iter().collect();
            self.persist.forget(replaced.ticket);
            done = self.write_anew(file, &run, written).await;
        }
        done
    }

    async fn take_in_one(&self, file: &File, one: &Written) -> Result<()> {
        let forest = &self.forest;
        let (tree, number) = (&file.private.tree, file.private.number);
        let span = one.at..one.at + one.part.bytes;
        let place = one.part.bytenr + one.part.offset;
        self.replaced.borrow_mut().extend(one.ticket());
        if !one.stays {
            let part = Part {
                generation: forest.transid.get(),
                ..one.part
            };
            let by = part.owner(tree.id, number, one.at);
            if one.new {
                forest.refs.borrow_mut().make(part.bytenr, part.len, None);
            }
            // Held while the file has it neither here nor there.
            forest
                .refs
                .borrow_mut()
                .add(part.bytenr, part.len, None, by, 1);
            let cut = self.cut(tree, number, span.clone()).await?;
            let key = piece_key(number, one.at);
            let item = part.item();
            self.with(|| forest.insert(tree, key, &item)).await?;
            let nbytes = file.private.nbytes.get();
            file.private
                .nbytes
                .set((nbytes + part.bytes).saturating_sub(cut));
        }
        if !one.sums.is_empty() {
            self.put_sums(&forest.csums, place, &one.sums).await?;
        }
        if !one.stays || !one.sums.is_empty() {
            self.since.borrow_mut().wrote(file, span);
        } else {
            self.since.borrow_mut().rewrote(file);
        }
        Ok(())
    }
}

/// Items that one operation changes for what was written, at most.
const MOST_ITEMS: u64 = 24;

/// How many of the first that were written one operation takes in. What stays where it was
/// goes together, unless its sums need new nodes: one replacement.
fn some_of(written: &[Written], copied: bool, most: u64) -> usize {
    let mut items = 0;
    let fits = |one: &&Written| {
        items += one.items(copied);
        items <= most
    };
    written.iter().take_while(fits).count().max(1)
}
