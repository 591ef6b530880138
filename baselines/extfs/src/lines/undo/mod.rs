//! Undo journal of cache lines: the former contents of lines go to a journal, then the lines are
//! changed in place.
//!
//! It serves drives without transactions in their firmware. A transaction takes these steps; each
//! begins when the one before is durable:
//!
//! 1. records of the former contents of its lines are stored to the journal (`format`), and new
//!    blocks, which are not referenced yet, in place;
//! 2. the lines are stored in place;
//! 3. the mark of its commit is stored. **The end of the verification that follows is
//!    the durable point.**
//!
//! Posted stores may arrive or not, each line for itself; so each step ends with a
//! verification, three a transaction. A transaction of one line is atomic as it is, and
//! takes none of this: the family does not ask for it.
//!
//! # Invariants
//!
//! - No line is stored in place before the records of all lines of its transaction are
//!   durable, and a line is stored for one transaction at a time.
//! - A record is stored over others only if their transactions are done (`ring`).
//! - From before the first record until after the last, the superblock of the journal claims that
//!   there may be something to undo (`claim`). The claim makes other implementations refuse the
//!   file system, which they would otherwise use half-changed.
//! - A change of the superblock alone, as the flag of ext4 at mount and unmount that a
//!   journal has to be replayed, is written as a block, which is atomic. Where others go
//!   with it, as the head of the list of orphans does, a cut leaves lines of it of
//!   different times, and so a wrong checksum; recovery finds the journal without that.
//! - Records are void after a clean unmount, whatever is done to the file system next.
//= bytefs 5.1
//= pmfs 1

mod area;
mod claim;
mod format;
mod recover;
mod ring;
#[cfg(test)]
mod tests;

pub use recover::Undone;

use super::config::LineOptions;
use super::durable::Durable;
use super::journal::CommitEntry;
use super::medium::{Medium, broken, failed};
use super::persist::Lines;
use super::snapshot::Piece;
use super::table::LINES;
use crate::ext4::{self, Ext4Error};
use crate::fs::ExtFs;
use crate::geometry::MountError;
use crate::mkfs::MkfsOptions;
use crate::mount::MountOptions;
use area::Area;
use claim::Claim;
use format::{Line, PAYLOAD, Record, head};
use host::{ByteDisk, BytePort, Purpose};
use recover::{Opened, open};
use ring::{Refusal, Ring, Ticket};
use sim::{Boxed, Semaphore, Signal, Sim};
use std::cell::{Cell, RefCell};
use vfs::{AnyBody, Errno, Result};

/// Changes persist as lines, over an undo journal.
pub type UndoLines = Lines<Undo>;

/// Undo journal of a mounted file system.
pub struct Undo {
    sim: Sim,
    area: Area,
    claim: Claim,
    epoch: Cell<u64>,
    ring: RefCell<Ring>,
    /// Held by the task that waits for room, so that tasks get room in order.
    turn: Semaphore,
    /// Notified when a transaction is done or has failed.
    progress: Signal,
    failed: Cell<bool>,
}

/// Records that `lines` adjacent lines take.
const fn records_of(lines: u64) -> u64 {
    (lines * 64).div_ceil(PAYLOAD as u64)
}

/// Default options for a file system of `blocks` blocks: inodes of 128 bytes, and the journal
/// size that `mkfs` chooses.
#[must_use]
pub fn mkfs_options(blocks: u64) -> MkfsOptions {
    MkfsOptions {
        inode_size: 128,
        ..MkfsOptions::new(blocks)
    }
}

impl From<ExtFs<UndoLines>> for AnyBody {
    fn from(body: ExtFs<UndoLines>) -> Self {
        Self::new(body)
    }
}

/// Creates a file system with a journal on `port`.
///
/// # Errors
/// If the options are invalid or ask for no journal, or if the drive fails.
pub async fn format(
    port: &impl BytePort,
    options: &MkfsOptions,
) -> std::result::Result<(), Ext4Error> {
    if options.journal_blocks.is_none() {
        return Err(Ext4Error::NoJournal);
    }
    ext4::format(port, options).await
}

/// Recovers the file system on `port` and mounts it with an undo journal; also returns the undone
/// work. `lines` configures transactions; transactions too large for the journal are split.
///
/// # Errors
/// If the file system is invalid or the drive fails.
pub fn mount(
    sim: &Sim,
    port: &impl BytePort,
    lines: LineOptions,
    mounting: MountOptions,
) -> Boxed<'static, std::result::Result<(ExtFs<UndoLines>, Undone), MountError>> {
    mount_disk(sim.clone(), ByteDisk::from(port), lines, mounting)
}

fn mount_disk(
    sim: Sim,
    port: ByteDisk,
    lines: LineOptions,
    mounting: MountOptions,
) -> Boxed<'static, std::result::Result<(ExtFs<UndoLines>, Undone), MountError>> {
    Box::pin(async move { mount_on(&sim, &port, lines, mounting).await })
}

async fn mount_on(
    sim: &Sim,
    port: &ByteDisk,
    lines: LineOptions,
    mounting: MountOptions,
) -> std::result::Result<(ExtFs<UndoLines>, Undone), MountError> {
    lines.check()?;
    // Nothing may be stored before a log of the drive has been recovered, once, and
    // there are logs without transactions.
    port.recover_once().await.map_err(broken)?;
    let opened = open(port, lines.origin).await?;
    let undone = opened.undone;
    let undo = Undo::new(sim, opened);
    let lines = LineOptions {
        open_lines: lines.open_lines.min(lines_in(undo.area.slots())),
        ..lines
    };
    let mounting = MountOptions {
        journal_blocks: undo.area.blocks(),
        ..mounting
    };
    let strategy = Lines::new(sim, port, lines, undo);
    match ExtFs::mount(sim, strategy.clone(), mounting).await {
        Ok(body) => Ok((body, undone)),
        Err(error) => {
            // Others may know how to repair it, and can if nothing is left to undo.
            let _ = strategy.durable().retire(strategy.medium()).await;
            Err(error)
        }
    }
}

/// Lines of transactions that so many slots have room for: each line may be apart from
/// the others, and a commit takes a record.
const fn lines_in(slots: u64) -> u64 {
    slots / (2 * records_of(1))
}

/// The largest handle of the body, of 79 blocks, fits any journal.
const _: () = assert!(lines_in(area::LEAST_SLOTS) >= 79 * LINES);

impl Undo {
    fn new(sim: &Sim, opened: Opened) -> Self {
        Self {
            sim: sim.clone(),
            ring: RefCell::new(Ring::new(opened.area.slots(), u32::MAX)),
            area: opened.area,
            claim: opened.claim,
            epoch: Cell::new(opened.epoch),
            turn: Semaphore::new(sim, 1),
            progress: Signal::default(),
            failed: Cell::default(),
        }
    }

    /// Waits for `count` slots.
    async fn take(&self, medium: &Medium, count: u64) -> Result<Ticket> {
        let _turn = self.turn.acquire(1).await;
        loop {
            if self.failed.get() {
                return Err(Errno::EIO);
            }
            let taken = self.ring.borrow_mut().take(count);
            match taken {
                Ok(ticket) => return Ok(ticket),
                Err(Refusal::Wait) => {
                    medium.count(|m| m.journal_waits += 1);
                    self.progress.wait(&self.sim).await;
                }
                Err(Refusal::UsedUp) => self.renew(medium).await?,
            }
        }
    }

    /// Begins a new epoch, while nothing is under way: all records are void.
    async fn renew(&self, medium: &Medium) -> Result<()> {
        let epoch = self.epoch.get().wrapping_add(1);
        store(medium, self.area.head(), &head(epoch)).await?;
        medium.verify().await?;
        self.epoch.set(epoch);
        self.ring.borrow_mut().renew();
        Ok(())
    }

    /// Leaves the blocks of the journal to others, unless something may have to be
    /// undone; nothing is recorded any more.
    async fn retire(&self, medium: &Medium) -> Result<()> {
        if self.failed.replace(true) || !self.ring.borrow().is_idle() {
            return Err(Errno::EIO);
        }
        self.renew(medium).await?;
        let set = self.claim.set(&medium.blocks, false).await;
        set.map_err(failed)
    }

    /// Stores `lines` to the slots of `ticket` from number `first` on.
    async fn record(
        &self,
        medium: &Medium,
        ticket: Ticket,
        first: u64,
        lines: &[Line],
    ) -> Result<()> {
        let slot = (ticket.slot + first) % self.area.slots();
        for (at, part) in self.area.places(slot, lines.len() as u64) {
            store(medium, at, lines[part].as_flattened()).await?;
        }
        medium.count(|m| m.journal_lines += lines.len() as u64);
        Ok(())
    }

    /// Encoded records of the former contents of the lines of `pieces`.
    fn records(&self, ticket: Ticket, pieces: &[&Piece]) -> Vec<Line> {
        let mut lines = Vec::new();
        for (at, old) in olds(pieces) {
            for (at, old) in (at..).step_by(PAYLOAD).zip(old.chunks(PAYLOAD)) {
                let record = Record {
                    tx: ticket.tx,
                    back: ticket.back,
                    at,
                    old,
                };
                lines.push(record.encode(self.epoch.get()));
            }
        }
        lines
    }

    async fn bring(&self, medium: &Medium, pieces: &[&Piece]) -> Result<()> {
        let count = olds(pieces).map(|(_, old)| records_of(old.len() as u64 / 64));
        let count = count.sum::<u64>();
        let ticket = self.take(medium, count + 1).await?;
        let records = self.records(ticket, pieces);
        debug_assert_eq!(records.len() as u64, count);
        self.record(medium, ticket, 0, &records).await?;
        let (new, changed): (Vec<&Piece>, Vec<&Piece>) = pieces.iter().partition(|p| p.new);
        for piece in new {
            medium.store(piece, 0).await.map_err(broken)?;
        }
        if !vfs::mutant::is("pmfs-lines-before-records") {
            medium.verify().await?;
        }
        for piece in changed {
            medium.store(piece, 0).await.map_err(broken)?;
        }
        if !vfs::mutant::is("pmfs-commit-before-lines") {
            medium.verify().await?;
        }
        let mark = Record {
            tx: ticket.tx,
            back: ticket.back,
            at: 0,
            old: &[],
        };
        let mark = [mark.encode(self.epoch.get())];
        self.record(medium, ticket, count, &mark).await?;
        if !vfs::mutant::is("pmfs-commit-not-flushed") {
            medium.verify().await?;
        }
        medium.count(|m| m.commits += 1);
        self.ring.borrow_mut().give(ticket);
        Ok(())
    }
}

/// Former contents to record for `pieces`: address and bytes of runs of lines. New blocks need no
/// record.
fn olds<'a>(pieces: &'a [&Piece]) -> impl Iterator<Item = (u64, &'a [u8])> {
    let old = pieces.iter().filter(|piece| !piece.new);
    old.flat_map(|piece| piece.old())
}

async fn store(medium: &Medium, at: u64, bytes: &[u8]) -> Result<()> {
    let who = medium.who(Purpose::Journal);
    let stored = medium.port().store(at, bytes, 0, who).await;
    stored.map_err(broken)
}

impl Durable for Undo {
    const UNDOES: bool = true;

    async fn persist(
        &self,
        medium: &Medium,
        pieces: &[&Piece],
        entry: Option<&CommitEntry>,
    ) -> Result<()> {
        debug_assert!(entry.is_none(), "the journal of blocks is this one");
        let brought = self.bring(medium, pieces).await;
        if brought.is_err() {
            self.failed.set(true);
        }
        self.progress.notify(&self.sim);
        brought
    }

    async fn leave(&self, medium: &Medium) -> Result<()> {
        self.retire(medium).await
    }
}
