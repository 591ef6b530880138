//! The TxTable: maps changed lines to transactions, and orders the transactions.
//!
//! A **handle** belongs to one transaction. A transaction is **open** while one of its handles is
//! open, and **closed** when the last handle ends. Once all transactions before it are durable, its
//! lines are **copied** and sent to the drive; it leaves the table when it has committed. Until it
//! is copied, a handle that touches one of its lines reopens it, so changes that accumulate during
//! the commits of others become one transaction. A transaction with file contents is copied when it
//! is closed. The table is a pure state machine: it neither waits nor writes.
//!
//! # Invariants
//!
//! - A line belongs to at most one transaction that is not copied: a transaction that touches a
//!   line of another one joins it. So a copy holds the changes of one transaction only.
//! - A transaction that touches a line of a copied one commits after it. Such edges lead only to
//!   copied transactions, which get no further edges, so there is no cycle.
//! - Handles that end in order become durable in that order: an ending handle joins the
//!   transactions in which earlier handles have ended in order, and follows those that are
//!   copied. Handles with file contents end out of order, because write-back has no place in the
//!   order of calls, unless their contents go through a journal.
//! - No new handle begins while a transaction is full, or is waited for and needs only its
//!   handles to end.
//! - The lines of all transactions and the reservations of open handles are together at most
//!   [`Limits::lines`].

mod check;
mod deferred;

use super::journal::{Copies, Copy, unite};
use super::owners::{Block, Owner};
use super::snapshot::{Image, Piece};
use crate::buffer::Buffer;
use crate::persist::Run;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Number of cache lines in a block.
pub const LINES: u64 = 64;

/// Limits of the work in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Most lines that are reserved or in transactions.
    pub(super) lines: u64,
    /// Number of handles with which a transaction is full.
    pub(super) handles: usize,
    /// Whether copies include the former contents of changed lines, for undo.
    pub(super) keeps_old: bool,
    /// Number of content blocks for the journal with which a transaction is full.
    pub(super) copies: usize,
}

/// Whether file contents that a transaction waits for have landed: they are on the
/// medium, or never will be.
pub(super) type Landing = Rc<Cell<bool>>;

#[derive(Default)]
struct Tx {
    /// All its handles, ended ones included.
    members: Vec<u64>,
    /// Number of open handles; the transaction is closed if it is 0.
    open: usize,
    /// Number of times that it was closed; tells a current [`Closing`] from an outdated one.
    closings: u64,
    /// Whether its commit waits for a force ([`TxTable::defer`]).
    deferred: bool,
    copied: bool,
    /// Whether one of its handles has ended in order.
    left: bool,
    /// Whether a task waits for it; it then takes no new handles, so that it closes soon.
    wanted: bool,
    blocks: Vec<u64>,
    lines: u64,
    /// File contents that go through the journal.
    copies: Copies,
    freed: Vec<Run>,
    /// Copied transactions that must commit before this one.
    after: BTreeSet<u64>,
    landings: Vec<Landing>,
}

struct Handle {
    tx: u64,
    reserved: u64,
}

/// A closed transaction. Its owner must send the transaction to the drive.
#[must_use = "nobody else brings it to the drive"]
pub(super) struct Closing {
    /// Number of the transaction in the table.
    pub(super) number: u64,
    /// Value of the transaction's `closings` at this closing.
    turn: u64,
    /// Lines of the transaction, if they were copied at the closing.
    pieces: Option<Vec<Piece>>,
}

/// Next step for the owner of a [`Closing`].
pub(super) enum Next {
    /// None: the transaction was reopened, and a later closing sends it.
    Leave,
    /// Wait: other transactions must commit, or file contents must land, first.
    Wait,
    /// Store these lines and write these contents to the journal.
    Store(Vec<Piece>, Copies),
}

/// Reason why no handle can begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Transactions must commit first.
    Wait,
    /// The handle needs more lines than [`Limits::lines`].
    TooLarge,
}

/// Counters of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) joins: u64,
    pub(super) reopened: u64,
    pub(super) follows: u64,
    pub(super) waits: u64,
}

/// Table of all handles and transactions that have not committed.
pub(super) struct TxTable {
    limits: Limits,
    next: u64,
    handles: BTreeMap<u64, Handle>,
    txs: BTreeMap<u64, Tx>,
    blocks: BTreeMap<u64, Block>,
    /// Handles that are not durable.
    pending: BTreeSet<u64>,
    /// Number of pending handles that never become durable, because a commit failed.
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

    /// Number of the newest handle or transaction; 0 before the first.
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

    /// Opens a handle, in a new transaction, that may change up to `blocks` blocks.
    ///
    /// # Errors
    /// [`Refusal`], if there is no room now or never.
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

    /// Orders a handle that is about to end behind all handles that ended in order before it.
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

    /// Merges two transactions that are not copied, at least one of them open; returns the
    /// number of the merged one.
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

    /// Extends the reservation of `handle` by `blocks` blocks. Returns false if there is no room
    /// or its transaction should close.
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

    /// Records that `handle` changes the lines `mask` of `buffer`; `new` marks a new block, which
    /// is stored whole. Joins or follows other transactions with these lines.
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

    /// Saves the contents of lines that are about to change for the first time in `tx`. Earlier
    /// changes of these lines are durable before the lines are stored again.
    fn keep_old(&mut self, tx: u64, buffer: &Buffer, added: u64) {
        let owners = &mut self
            .blocks
            .get_mut(&buffer.block)
            .expect("it is there")
            .owners;
        let owner = owners.iter_mut().find(|o| o.tx == tx).expect("it owns it");
        owner.keep_old(&buffer.bytes(), added);
    }

    /// Joins or follows the transactions that own lines of `mask`; returns the number of `tx`
    /// after the joins.
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

    /// Makes `tx` the owner of lines of a block in the table; returns the newly owned lines.
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

    /// Drops the lines of `block` from the transaction of `handle`, which joins or follows all
    /// other owners of the block first.
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

    /// Records that the transaction of `handle` frees `run`.
    pub(super) fn free(&mut self, handle: u64, run: Run) {
        let tx = self.handles[&handle].tx;
        self.tx(tx).freed.push(run);
    }

    /// Adds contents of a block that go through the journal with the transaction of `handle`.
    pub(super) fn log(&mut self, handle: u64, block: u64, copy: Copy) {
        let tx = self.handles[&handle].tx;
        self.tx(tx).copies.insert(block, copy);
    }

    /// Takes the runs freed by transactions that became durable since the last call.
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

    /// Makes the transaction of `handle` wait for file contents; the caller sets the returned
    /// flag when they have landed.
    pub(super) fn await_landing(&mut self, handle: u64) -> Landing {
        let landing = Landing::default();
        let tx = self.handles[&handle].tx;
        self.tx(tx).landings.push(Rc::clone(&landing));
        landing
    }

    /// Closes `handle` and adds `images` to its transaction. Returns the transaction if this was
    /// its last open handle: it is ready to commit.
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

    /// Closes a new transaction of file contents alone. Returns `None` and leaves `images`
    /// unchanged if there is no room.
    pub(super) fn contents(&mut self, images: &mut Vec<Image>) -> Option<Closing> {
        let lines: u64 = images.iter().map(Image::lines).sum();
        if !self.has_room(lines) {
            return None;
        }
        let tx = self.open_tx();
        self.tx(tx).open = 0;
        Some(self.close(tx, std::mem::take(images)))
    }

    /// Closes a transaction. With file contents it is copied here, so that later contents of the
    /// same lines, by bytes or by blocks, are ordered after it.
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

    /// Next step for the owner of `closing`; copies the lines if they can be stored.
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

    /// Copies the lines of a closed transaction. This is the only irreversible transition: a
    /// copied transaction is not reopened.
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

    /// Copies of all lines that the transaction has changed, by block. If the superblock is its
    /// only block and no other transaction owns lines of it, it is copied whole.
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

    /// Removes a copied transaction. If it is durable, the blocks that it freed may be reused; if
    /// not, its handles stay pending for ever.
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

    /// Whether a handle is durable. If not, its transaction is marked as waited for and takes no
    /// more handles.
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

    /// Copied transactions that have lines of these blocks.
    pub(super) fn copied_on(&self, run: Run) -> Vec<u64> {
        let blocks = self.blocks.range(run.start..run.start + run.len);
        let owners = blocks.flat_map(|(_, block)| &block.owners);
        owners.filter(|o| o.copied).map(|o| o.tx).collect()
    }
}
