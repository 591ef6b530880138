//! The TxTable: who changes which lines, in which transaction, and after whom.
//!
//! A **handle** belongs to one transaction. A transaction is **open** while one of
//! its handles is, and **closed** with the last of them. Once all that goes before it
//! is durable its lines are **copied**, and they go to the drive; it is gone from here
//! once it has committed. Until it is copied, whoever touches a line of it opens it
//! again: so all that piles up while others are on their way becomes one transaction.
//! One that takes contents of files along is copied as it is closed. This is a pure
//! state machine: it neither waits nor writes.
//!
//! # Invariants
//!
//! - A line belongs to at most one transaction that is not copied: who touches a line
//!   of another one joins it. So a copy holds what one transaction changed, and no
//!   other.
//! - A transaction that touches a line of a copied one commits after it. Such edges
//!   lead to copied transactions, which get no further edges: there is no circle.
//! - No handle is durable before one that ended earlier, if both ended in line: as it
//!   does that it joins transactions that somebody has left so, and follows those that
//!   are copied. Handles that bring contents end out of line, as write-back has no
//!   place among the calls of programs; but for those whose contents are in a journal.
//! - One that is full is opened no more by handles that begin; nor is one that
//!   somebody waits for, as soon as it waits for nothing but its handles.
//! - Lines of all transactions together are at most what was reserved for them, and
//!   that is at most [`Limits::lines`].

mod check;

use super::journal::{Copies, Copy, unite};
use super::owners::{Block, Owner};
use super::snapshot::{Image, Piece};
use crate::buffer::Buffer;
use crate::persist::Run;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Lines of a block.
pub const LINES: u64 = 64;

/// How much may be under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Lines reserved or in transactions.
    pub(super) lines: u64,
    /// Handles of one transaction.
    pub(super) handles: usize,
    /// Whether copies come with what the lines held before.
    pub(super) keeps_old: bool,
    /// Blocks of contents that a transaction has for the journal when it takes in no
    /// more handles.
    pub(super) copies: usize,
}

/// Whether file contents that a transaction waits for have landed: they are on the
/// medium, or never will be.
pub(super) type Landing = Rc<Cell<bool>>;

#[derive(Default)]
struct Tx {
    /// Its handles, those that have ended too.
    members: Vec<u64>,
    /// How many have not ended; closed without any.
    open: usize,
    /// How often it was closed.
    closings: u64,
    copied: bool,
    /// One of its handles has ended in line.
    left: bool,
    /// Somebody waits for it: no new handles, so that it closes soon.
    wanted: bool,
    blocks: Vec<u64>,
    lines: u64,
    /// Contents that go through the journal.
    copies: Copies,
    freed: Vec<Run>,
    /// Copied transactions that commit first.
    after: BTreeSet<u64>,
    landings: Vec<Landing>,
}

struct Handle {
    tx: u64,
    reserved: u64,
}

/// What whoever closed a transaction has in hand, to bring it to the drive.
#[must_use = "nobody else brings it to the drive"]
pub(super) struct Closing {
    /// Its number here.
    pub(super) number: u64,
    /// Which of its closings this was.
    turn: u64,
    /// Its lines, if they were copied.
    pieces: Option<Vec<Piece>>,
}

/// What is to be done about a closed transaction.
pub(super) enum Next {
    /// Nothing: others have opened it again, and will bring it.
    Leave,
    /// Something has to commit or to land first.
    Wait,
    /// These are its lines, to be stored now, and its contents for the journal.
    Store(Vec<Piece>, Copies),
}

/// Why there can be no handle now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Something has to commit first.
    Wait,
    /// It would never fit.
    TooLarge,
}

/// What the table has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) joins: u64,
    pub(super) reopened: u64,
    pub(super) follows: u64,
    pub(super) waits: u64,
}

/// The table.
pub(super) struct TxTable {
    limits: Limits,
    next: u64,
    handles: BTreeMap<u64, Handle>,
    txs: BTreeMap<u64, Tx>,
    blocks: BTreeMap<u64, Block>,
    /// Handles that are not durable.
    pending: BTreeSet<u64>,
    /// Those of them that never will be.
    lost: usize,
    reserved: u64,
    lines: u64,
    freed: Vec<Run>,
    counts: Counts,
}

impl TxTable {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            next: 1,
            handles: BTreeMap::new(),
            txs: BTreeMap::new(),
            blocks: BTreeMap::new(),
            pending: BTreeSet::new(),
            lost: 0,
            reserved: 0,
            lines: 0,
            freed: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// The last handle that was opened; 0 before the first.
    pub(super) const fn newest(&self) -> u64 {
        self.next - 1
    }

    pub(super) const fn counts(&self) -> Counts {
        self.counts
    }

    fn has_room(&self, lines: u64) -> bool {
        self.reserved + self.lines + lines <= self.limits.lines
    }

    fn is_gated(&self) -> bool {
        let ready = |tx: &Tx| !tx.after.iter().any(|before| self.txs.contains_key(before));
        let gated = |tx: &Tx| {
            let full = tx.members.len() >= self.limits.handles;
            let full = full || tx.copies.len() >= self.limits.copies;
            full || tx.wanted && tx.open > 0 && ready(tx)
        };
        self.txs.values().any(|tx| !tx.copied && gated(tx))
    }

    /// Opens a handle for up to `blocks` blocks.
    pub(super) fn begin(&mut self, blocks: usize) -> Result<u64, Refusal> {
        let lines = blocks as u64 * LINES;
        if lines > self.limits.lines {
            return Err(Refusal::TooLarge);
        }
        if self.is_gated() || !self.has_room(lines) {
            self.counts.waits += 1;
            return Err(Refusal::Wait);
        }
        let number = self.open_tx();
        self.reserved += lines;
        let handle = Handle {
            tx: number,
            reserved: lines,
        };
        self.handles.insert(number, handle);
        Ok(number)
    }

    fn open_tx(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        self.pending.insert(number);
        let tx = Tx {
            members: vec![number],
            open: 1,
            ..Tx::default()
        };
        self.txs.insert(number, tx);
        number
    }

    /// Puts a handle that is about to end behind all that ended in line before it.
    pub(super) fn queue_up(&mut self, number: u64) {
        let own = self.handles[&number].tx;
        let left = self.txs.iter().filter(|(at, tx)| tx.left && **at != own);
        let left: Vec<(u64, bool)> = left.map(|(&at, tx)| (at, tx.copied)).collect();
        for (other, copied) in left {
            let tx = self.handles[&number].tx;
            if copied {
                self.follow(tx, other);
            } else {
                self.join(tx, other);
            }
        }
        let tx = self.handles[&number].tx;
        self.tx(tx).left = true;
    }

    fn follow(&mut self, tx: u64, other: u64) {
        let new = self.tx(tx).after.insert(other);
        self.counts.follows += u64::from(new);
    }

    fn tx(&mut self, number: u64) -> &mut Tx {
        self.txs.get_mut(&number).expect("it has not committed")
    }

    /// Makes one of two transactions that are not copied, of which one is open.
    fn join(&mut self, a: u64, b: u64) -> u64 {
        let blocks = |tx| self.txs[&tx].blocks.len();
        let (to, from) = if blocks(a) >= blocks(b) {
            (a, b)
        } else {
            (b, a)
        };
        let gone = self.txs.remove(&from).expect("it is open");
        for &block in &gone.blocks {
            let owners = &mut self.blocks.get_mut(&block).expect("it is owned").owners;
            let moved = owners.iter().position(|o| o.tx == from).expect("its owner");
            let moved = owners.swap_remove(moved);
            if let Some(owner) = owners.iter_mut().find(|o| o.tx == to) {
                owner.take_over(moved);
            } else {
                owners.push(Owner { tx: to, ..moved });
                self.txs
                    .get_mut(&to)
                    .expect("it is there")
                    .blocks
                    .push(block);
            }
        }
        for member in &gone.members {
            if let Some(handle) = self.handles.get_mut(member) {
                handle.tx = to;
            }
        }
        let tx = self.tx(to);
        let reopened = tx.open == 0 || gone.open == 0;
        tx.members.extend(gone.members);
        tx.open += gone.open;
        tx.left |= gone.left;
        tx.wanted |= gone.wanted;
        tx.lines += gone.lines;
        unite(&mut tx.copies, gone.copies);
        tx.freed.extend(gone.freed);
        tx.after.extend(gone.after);
        tx.landings.extend(gone.landings);
        self.counts.joins += 1;
        self.counts.reopened += u64::from(reopened);
        to
    }

    /// Asks for `blocks` more.
    pub(super) fn extend(&mut self, handle: u64, blocks: usize) -> bool {
        let lines = blocks as u64 * LINES;
        let wanted = self.txs[&self.handles[&handle].tx].wanted;
        let may = !wanted && self.has_room(lines);
        if may {
            self.reserved += lines;
            self.handles.get_mut(&handle).expect("it is open").reserved += lines;
        }
        may
    }

    /// Notes that `handle` changes lines of `buffer`; all of them, if it is `new`.
    pub(super) fn touch(&mut self, handle: u64, buffer: &Rc<Buffer>, mask: u64, new: bool) {
        let tx = self.handles[&handle].tx;
        if let Some(block) = self.blocks.get(&buffer.block) {
            let own = |o: &Owner| o.tx == tx && o.mask & mask == mask && (o.new || !new);
            if block.owners.iter().any(own) {
                return;
            }
        }
        let tx = self.meet(tx, buffer.block, mask);
        let block = self.blocks.entry(buffer.block).or_insert_with(|| Block {
            buffer: None,
            owners: Vec::new(),
        });
        block.buffer = Some(Rc::clone(buffer));
        let added = self.own(tx, buffer.block, (mask, new));
        if self.limits.keeps_old && !new {
            self.keep_old(tx, buffer, added);
        }
    }

    /// Keeps what lines hold that are about to change for the first time in `tx`. All
    /// that changed them before is durable by the time that they are stored.
    fn keep_old(&mut self, tx: u64, buffer: &Buffer, added: u64) {
        let owners = &mut self
            .blocks
            .get_mut(&buffer.block)
            .expect("it is there")
            .owners;
        let owner = owners.iter_mut().find(|o| o.tx == tx).expect("it owns it");
        owner.keep_old(&buffer.bytes(), added);
    }

    /// Joins or follows whoever has lines of `mask`; gives what `tx` is then.
    fn meet(&mut self, tx: u64, block: u64, mask: u64) -> u64 {
        let Some(entry) = self.blocks.get(&block) else {
            return tx;
        };
        let others = entry.owners.iter();
        let others = others.filter(|o| o.tx != tx && o.mask & mask != 0);
        let others: Vec<(u64, bool)> = others.map(|o| (o.tx, o.copied)).collect();
        let mut tx = tx;
        for (other, copied) in others {
            if copied {
                self.follow(tx, other);
            } else {
                tx = self.join(tx, other);
            }
        }
        tx
    }

    /// Makes lines of a block, which is in the table, those of `tx`; those that were
    /// not.
    fn own(&mut self, tx: u64, block: u64, (mask, new): (u64, bool)) -> u64 {
        let owners = &mut self.blocks.get_mut(&block).expect("it is there").owners;
        let added = if let Some(owner) = owners.iter_mut().find(|o| o.tx == tx) {
            let added = mask & !owner.mask;
            owner.mask |= mask;
            owner.new |= new;
            added
        } else {
            owners.push(Owner {
                tx,
                mask,
                new,
                copied: false,
                old: None,
            });
            self.tx(tx).blocks.push(block);
            mask
        };
        let lines = u64::from(added.count_ones());
        self.tx(tx).lines += lines;
        self.lines += lines;
        added
    }

    /// Drops what the transaction of `handle` has of `block`, after all others that
    /// have something of it.
    pub(super) fn forget(&mut self, handle: u64, block: u64) {
        let tx = self.meet(self.handles[&handle].tx, block, u64::MAX);
        let Some(entry) = self.blocks.get_mut(&block) else {
            return;
        };
        let Some(at) = entry.owners.iter().position(|o| o.tx == tx) else {
            return;
        };
        let lines = u64::from(entry.owners.swap_remove(at).mask.count_ones());
        if entry.owners.is_empty() {
            self.blocks.remove(&block);
        }
        self.lines -= lines;
        let tx = self.tx(tx);
        tx.lines -= lines;
        tx.blocks.retain(|&b| b != block);
    }

    /// Notes that the transaction of `handle` frees `run`.
    pub(super) fn free(&mut self, handle: u64, run: Run) {
        let tx = self.handles[&handle].tx;
        self.tx(tx).freed.push(run);
    }

    /// Notes contents of a block that go through the journal with the transaction of
    /// `handle`.
    pub(super) fn log(&mut self, handle: u64, block: u64, copy: Copy) {
        let tx = self.handles[&handle].tx;
        self.tx(tx).copies.insert(block, copy);
    }

    /// What was freed and is durable since the last call.
    pub(super) fn freed(&mut self) -> Vec<Run> {
        std::mem::take(&mut self.freed)
    }

    /// Whether there is room for `lines` of contents with the end of `handle`.
    pub(super) fn takes_in(&self, handle: u64, lines: u64) -> bool {
        let others = self.reserved - self.handles[&handle].reserved;
        others + self.lines + lines <= self.limits.lines
    }

    /// Whether `handle` is the last open one of its transaction.
    pub(super) fn is_last(&self, handle: u64) -> bool {
        self.txs[&self.handles[&handle].tx].open == 1
    }

    /// Has the transaction of `handle` wait for contents.
    pub(super) fn await_landing(&mut self, handle: u64) -> Landing {
        let landing = Landing::default();
        let tx = self.handles[&handle].tx;
        self.tx(tx).landings.push(Rc::clone(&landing));
        landing
    }

    /// Closes a handle, with contents of files that go along; its transaction, if
    /// it was the last one.
    pub(super) fn end(&mut self, handle: u64, images: Vec<Image>) -> Option<Closing> {
        let Handle { tx, reserved } = self.handles.remove(&handle).expect("it is open");
        self.reserved -= reserved;
        let entry = self.tx(tx);
        entry.open -= 1;
        if entry.open > 0 {
            debug_assert!(images.is_empty(), "contents go with the last handle");
            return None;
        }
        Some(self.close(tx, images))
    }

    /// A transaction of contents alone, closed at once. If there is no room they are
    /// left where they are.
    pub(super) fn contents(&mut self, images: &mut Vec<Image>) -> Option<Closing> {
        let lines: u64 = images.iter().map(Image::lines).sum();
        if !self.has_room(lines) {
            return None;
        }
        let tx = self.open_tx();
        self.tx(tx).open = 0;
        Some(self.close(tx, std::mem::take(images)))
    }

    /// Closes a transaction. With contents it is copied here: later contents of the
    /// same lines, by bytes or by blocks, then come after it.
    fn close(&mut self, number: u64, images: Vec<Image>) -> Closing {
        let tx = self.tx(number);
        tx.closings += 1;
        let turn = tx.closings;
        let pieces = (!images.is_empty()).then(|| self.copy(number, images));
        Closing {
            number,
            turn,
            pieces,
        }
    }

    /// What is to be done next by who closed a transaction.
    pub(super) fn next(&mut self, closing: &mut Closing) -> Next {
        let Some(tx) = self.txs.get(&closing.number) else {
            return Next::Leave;
        };
        if tx.open > 0 || tx.closings != closing.turn {
            return Next::Leave;
        }
        let commits_first = tx.after.iter().any(|&before| self.is_pending(before));
        if commits_first || tx.landings.iter().any(|landing| !landing.get()) {
            return Next::Wait;
        }
        let pieces = closing.pieces.take();
        let pieces = pieces.unwrap_or_else(|| self.copy(closing.number, Vec::new()));
        let copies = std::mem::take(&mut self.tx(closing.number).copies);
        Next::Store(pieces, copies)
    }

    /// The one transition that nothing leads back from: copies the lines of a closed
    /// transaction.
    fn copy(&mut self, number: u64, images: Vec<Image>) -> Vec<Piece> {
        let mut pieces = self.copy_buffers(number);
        for image in images {
            self.meet(number, image.block, image.mask);
            self.blocks.entry(image.block).or_insert_with(|| Block {
                buffer: None,
                owners: Vec::new(),
            });
            self.own(number, image.block, (image.mask, false));
            pieces.push(Piece::of_image(&image));
        }
        let tx = self.tx(number);
        tx.copied = true;
        for block in tx.blocks.clone() {
            let owners = &mut self.blocks.get_mut(&block).expect("it is owned").owners;
            let own = owners.iter_mut().filter(|o| o.tx == number);
            own.for_each(|o| o.copied = true);
        }
        pieces
    }

    /// Copies of all that the transaction has changed, by block. The superblock, if
    /// nobody else has a part of it and it is all there is, is copied whole.
    fn copy_buffers(&mut self, number: u64) -> Vec<Piece> {
        let tx = self.tx(number);
        tx.blocks.sort_unstable();
        let blocks = tx.blocks.clone();
        if blocks == [0] && self.blocks[&0].owners.len() == 1 {
            self.own(number, 0, (u64::MAX, false));
        }
        let piece = |block: &u64| {
            let Block { buffer, owners } = &self.blocks[block];
            let owner = owners.iter().find(|o| o.tx == number)?;
            let old = owner.old.as_deref();
            Some(Piece::of_buffer(
                buffer.as_ref()?,
                owner.mask,
                owner.new,
                old,
            ))
        };
        blocks.iter().filter_map(piece).collect()
    }

    /// Forgets a closed transaction. What it freed may be used again if it is
    /// durable.
    pub(super) fn done(&mut self, number: u64, durable: bool) {
        let tx = self.txs.remove(&number).expect("it was closed");
        for block in &tx.blocks {
            let entry = self.blocks.get_mut(block).expect("it is owned");
            entry.owners.retain(|o| o.tx != number);
            if entry.owners.is_empty() {
                self.blocks.remove(block);
            }
        }
        self.lines -= tx.lines;
        if !durable {
            self.lost += tx.members.len();
            return;
        }
        for member in &tx.members {
            self.pending.remove(member);
        }
        self.freed.extend(tx.freed);
    }

    /// Whether a handle is durable. If it is not, its transaction takes in no more
    /// handles.
    pub(super) fn is_durable(&mut self, handle: u64) -> bool {
        let durable = !self.pending.contains(&handle);
        if !durable {
            let open = self.txs.values_mut().filter(|tx| !tx.copied);
            open.filter(|tx| tx.members.contains(&handle))
                .for_each(|tx| tx.wanted = true);
        }
        durable
    }

    /// Whether a copied transaction has not committed.
    pub(super) fn is_pending(&self, number: u64) -> bool {
        self.txs.contains_key(&number)
    }

    /// Whether a handle up to `upto` is not durable. Its transaction takes in no
    /// more handles.
    pub(super) fn want(&mut self, upto: u64) -> bool {
        let pending = self.pending.first().is_some_and(|&first| first <= upto);
        if pending {
            let open = self.txs.values_mut().filter(|tx| !tx.copied);
            open.filter(|tx| tx.members.iter().any(|&m| m <= upto))
                .for_each(|tx| tx.wanted = true);
        }
        pending
    }

    /// Copied transactions that have lines of these blocks.
    pub(super) fn copied_on(&self, run: Run) -> Vec<u64> {
        let blocks = self.blocks.range(run.start..run.start + run.len);
        let owners = blocks.flat_map(|(_, block)| &block.owners);
        owners.filter(|o| o.copied).map(|o| o.tx).collect()
    }
}
