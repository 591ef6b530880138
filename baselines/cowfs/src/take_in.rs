//! Take-in of written contents: the file gets their pieces and sums, and the next batch the
//! tickets of replaced contents.
//!
//! Invariant: a replacement is taken in only while its extent is unshared, so contents of a
//! snapshot never change, whenever it was made.

use crate::format::SECTOR_BYTES;
use crate::format::extent::Part;
use crate::fs::{Core, File};
use crate::persist::{Persist, Ticket};
use crate::pieces::piece_key;
use crate::staged::Stage;
use nand::Payload;
use vfs::{DirtyPage, Result};

/// Items that taking in one piece changes: neighbours, the piece, its sums and the inode.
pub(crate) const PIECE_ITEMS: u64 = 6;

/// Items that copying the sums of one piece counts as: two leaves, of which one is split.
const SUM_ITEMS: u64 = 3;

/// Contents that were written to the port and that the file does not refer to yet.
pub(crate) struct Written {
    /// Byte offset in the file.
    pub(crate) at: u64,
    /// Part of an extent that holds the contents.
    pub(crate) part: Part,
    /// One sum per sector; empty for a file without sums.
    pub(crate) sums: Vec<u32>,
    /// Whether the extent was allocated for these contents and has no references yet.
    pub(crate) new: bool,
    /// Whether the file has this piece already, so that at most its sums change.
    pub(crate) stays: bool,
    /// Set if the strategy has replaced written contents ([`Persist::replace`]).
    pub(crate) replaced: Option<Replaced>,
}

/// Contents that replaced others at their address.
pub(crate) struct Replaced {
    /// The strategy's number for the replacement.
    pub(crate) ticket: Ticket,
    pub(crate) contents: Vec<Payload>,
    /// Keeps the range staged until its new sums are in the trees or it is withdrawn.
    pub(crate) _stage: Stage,
}

impl Written {
    /// Items that may need new nodes when the file takes these contents in. A piece that stays
    /// changes only its sums, which need no new nodes unless changed nodes may be `copied`.
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
    /// Takes `written` into the file in one or more operations, and grows the file on the medium
    /// to at least `end`. On an error, extents and tickets that are left are given back.
    pub(crate) async fn take_in(
        &self,
        file: &File,
        mut written: Vec<Written>,
        end: u64,
    ) -> Result<()> {
        while !written.is_empty() {
            // Nodes that a piece may change: a leaf of sums, the node above, the inode's leaf.
            let copied = self.forest.may_copy(3 * written.len());
            // Where nodes are short, one piece at a time needs the least.
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

    /// Takes in contents that one operation has room for. Returns false, with nothing changed, if
    /// the extent of a replacement has become shared.
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

    /// Whether `one` may be taken in: a replacement only while its extent is unshared. A snapshot
    /// or another file may have come to share it since [`Persist::replace`].
    async fn may_replace(&self, file: &File, one: &Written) -> Result<bool> {
        Ok(one.replaced.is_none() || self.is_own(file, one.at, one.part).await?)
    }

    /// Withdraws replacements of extents that have become shared, and writes their contents to new
    /// extents.
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
            // The new reference comes first: the cut below may remove the old one.
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

/// Maximum items that one take-in operation changes.
const MOST_ITEMS: u64 = 24;

/// Number of leading entries of `written` that one operation takes in, at least one: their items
/// add up to at most `most`. Replacements need none, and go together, unless nodes are `copied`.
fn some_of(written: &[Written], copied: bool, most: u64) -> usize {
    let mut items = 0;
    let fits = |one: &&Written| {
        items += one.items(copied);
        items <= most
    };
    written.iter().take_while(fits).count().max(1)
}
