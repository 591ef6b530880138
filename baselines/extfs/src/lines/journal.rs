//! Journal of file contents, for mounts that keep contents atomic over a power cut.
//!
//! Contents that a handle writes by blocks are kept with its transaction. Before the transaction
//! is stored, the copies are written to the journal. The line that makes them valid is a line of
//! the transaction and commits with it. Then a task writes the copies home (checkpoint).
//!
//! # Invariants
//!
//! - A block in the journal that is not home yet is read from memory, and no line of it is
//!   stored, because a replay would overwrite the line.
//! - Blocks that were freed are handed out again only once no record has copies of
//!   them that a replay would bring home.
//! - Transactions with records go to the drive one at a time, so records lie in the
//!   order in which they commit.

use super::core::Core;
use super::durable::Durable;
use super::medium::failed;
use super::snapshot::Piece;
use crate::jbd2::{
    Area, JournalError, LogPiece, Place, Recovery, Seal, write_durably, write_pieces,
};
use crate::persist::Run;
use host::{Disk, Purpose, Who};
use nand::Payload;
use sim::Signal;
use ssd::IoError;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use units::{Origin, Placement};
use vfs::{Errno, Result};

/// Contents of a block, as a transaction has them.
#[derive(Clone)]
pub(super) struct Copy {
    payload: Payload,
    /// Which one of all that there were.
    version: u64,
    to: Placement,
    who: Who,
}

/// Copies by the block that they are of.
pub(super) type Copies = BTreeMap<u64, Copy>;

/// Puts copies of a transaction to those of another one, of each block the newer.
pub(super) fn unite(copies: &mut Copies, others: Copies) {
    for (block, copy) in others {
        let newer = copies.get(&block).is_none_or(|c| c.version < copy.version);
        if newer {
            copies.insert(block, copy);
        }
    }
}

/// A record that has committed.
struct Record {
    place: Place,
    copies: Copies,
}

struct State {
    area: Area,
    /// Contents that are not home for good, as they are now.
    newest: Copies,
    versions: u64,
    /// Records that have committed and are not on their way home.
    waiting: Vec<Record>,
    homing: bool,
    /// Freed runs with copies that a replay may still write home.
    held: Vec<Run>,
}

/// The journal of contents.
pub struct DataJournal {
    state: RefCell<State>,
    /// Seconds since 1970 when the clock stood at zero; records bear the time.
    epoch: u64,
    /// Notified when records have been written home.
    homed: Signal,
    /// The newest handle that has brought contents.
    upto: Cell<u64>,
    /// Whether contents go through it; else it is only replayed.
    in_use: bool,
}

/// The line of a transaction that makes its record in the journal valid.
pub struct CommitEntry {
    place: Place,
    seal: Seal,
}

impl CommitEntry {
    /// The line for transaction `id` of the drive; 0 for drives without transaction identifiers.
    #[must_use]
    pub fn piece(&self, id: u32) -> Piece {
        let (block, line) = self.seal.line(id);
        Piece::of_line(block, Purpose::Journal, &line)
    }
}

impl DataJournal {
    /// Replays the journal in `runs`, and opens it; contents go through it if `in_use`.
    /// `epoch` is the second since 1970 at which the clock stood at zero.
    ///
    /// # Errors
    /// If the journal is invalid or the drive fails.
    pub async fn open(
        port: &Disk,
        runs: &[Run],
        (to, origin): (Placement, Origin),
        (in_use, epoch): (bool, u64),
    ) -> std::result::Result<(Self, Recovery), JournalError> {
        let (area, recovery) = Area::open(port, runs, to, origin).await?;
        let state = State {
            area,
            newest: Copies::new(),
            versions: 0,
            waiting: Vec::new(),
            homing: false,
            held: Vec::new(),
        };
        let journal = Self {
            state: RefCell::new(state),
            epoch,
            homed: Signal::default(),
            upto: Cell::default(),
            in_use,
        };
        if in_use {
            journal.write_superblock(port, true).await?;
        }
        Ok((journal, recovery))
    }

    /// Whether contents go through it.
    pub(super) const fn in_use(&self) -> bool {
        self.in_use
    }

    /// Says on the medium where the journal starts; nowhere, once it is left.
    async fn write_superblock(
        &self,
        port: &Disk,
        starts: bool,
    ) -> std::result::Result<(), IoError> {
        let (block, to) = {
            let area = &mut self.state.borrow_mut().area;
            (area.superblock(starts), area.to())
        };
        write_durably(port, block, to).await
    }

    /// Copies of one transaction beyond which it takes in no more handles.
    pub(super) fn largest(&self) -> usize {
        self.state.borrow().area.largest()
    }

    /// The newest handle that has brought contents.
    pub(super) const fn upto(&self) -> u64 {
        self.upto.get()
    }

    /// A handle has brought contents.
    pub(super) fn brought(&self, handle: u64) {
        self.upto.set(self.upto.get().max(handle));
    }

    /// Takes contents of `block` in.
    pub(super) fn note(&self, block: u64, payload: Payload, (to, who): (Placement, Who)) -> Copy {
        let mut state = self.state.borrow_mut();
        state.versions += 1;
        let copy = Copy {
            payload,
            version: state.versions,
            to,
            who,
        };
        state.newest.insert(block, copy.clone());
        copy
    }

    /// Whether any of these blocks has contents that are not home.
    pub(super) fn has(&self, run: Run) -> bool {
        let state = self.state.borrow();
        let mut newer = state.newest.range(run.start..run.start + run.len);
        newer.next().is_some()
    }

    /// Contents of these blocks that are not home.
    pub(super) fn newer(&self, run: Run) -> Vec<(u64, Payload)> {
        let state = self.state.borrow();
        let newer = state.newest.range(run.start..run.start + run.len);
        newer
            .map(|(&at, copy)| (at, copy.payload.clone()))
            .collect()
    }

    /// Returns the freed runs that may be reused; runs with copies in the journal are held back.
    pub(super) fn release(&self, freed: Vec<Run>) -> Vec<Run> {
        let mut all = std::mem::take(&mut self.state.borrow_mut().held);
        all.extend(freed);
        let (held, free) = all.into_iter().partition(|&run| self.has(run));
        self.state.borrow_mut().held = held;
        free
    }

    /// Drops contents that were written home without the journal.
    fn forget(&self, copies: &Copies) {
        let newest = &mut self.state.borrow_mut().newest;
        for (block, copy) in copies {
            if newest.get(block).map(|newest| newest.version) == Some(copy.version) {
                newest.remove(block);
            }
        }
    }

    fn is_homing(&self) -> bool {
        let state = self.state.borrow();
        state.homing || !state.waiting.is_empty()
    }
}

/// Blocks that are written where they belong, those that lie together at once.
fn home_writes(copies: &Copies) -> Vec<LogPiece> {
    let mut pieces: Vec<LogPiece> = Vec::new();
    for (&block, copy) in copies {
        match pieces.last_mut() {
            Some(last)
                if last.start + last.payloads.len() as u64 == block
                    && (last.placement, last.who) == (copy.to, copy.who)
                    && last.payloads.len() < super::core::COMMAND_BLOCKS =>
            {
                last.payloads.push(copy.payload.clone());
            }
            _ => pieces.push(LogPiece {
                start: block,
                payloads: vec![copy.payload.clone()],
                placement: copy.to,
                who: copy.who,
            }),
        }
    }
    pieces
}

impl<D: Durable> Core<D> {
    /// Writes the copies of a transaction to the journal, and those beyond its largest record
    /// directly home. Returns the line that makes the record valid, and the journaled copies.
    //= bytefs 4.6
    pub(super) async fn write_record(
        self: &Rc<Self>,
        journal: &DataJournal,
        mut copies: Copies,
    ) -> Result<(CommitEntry, Copies)> {
        let largest = journal.largest();
        if copies.len() > largest {
            let last = *copies.keys().nth(largest).expect("there are more");
            let rest = copies.split_off(&last);
            self.write_around(journal, &rest).await?;
        }
        while !journal.state.borrow().area.has_room(copies.len()) {
            self.wait_for_homes(journal).await?;
        }
        let list: Vec<(u64, Payload)> = copies
            .iter()
            .map(|(&at, copy)| (at, copy.payload.clone()))
            .collect();
        let (place, pieces) = {
            let area = &mut journal.state.borrow_mut().area;
            let place = area.place(list.len());
            (place, area.record(place, &list))
        };
        let written = write_pieces(&self.medium.blocks, &pieces).await;
        self.written.set(self.written.get() + 1);
        written.map_err(failed)?;
        self.medium.count(|m| {
            m.records += 1;
            m.journaled_pages += list.len() as u64;
        });
        Ok((self.entry(journal, place), copies))
    }

    fn entry(&self, journal: &DataJournal, place: Place) -> CommitEntry {
        let now = self.sim.now().0;
        let seconds = journal.epoch.saturating_add(now / 1_000_000_000);
        let time = (seconds, (now % 1_000_000_000) as u32);
        let seal = journal.state.borrow().area.seal(place, time);
        CommitEntry { place, seal }
    }

    /// Contents that no journal takes: where they belong, before the transaction
    /// commits, as in the ordered mode. Nothing older may come home over them.
    async fn write_around(self: &Rc<Self>, journal: &DataJournal, copies: &Copies) -> Result<()> {
        while journal.is_homing() {
            self.wait_for_homes(journal).await?;
        }
        let written = write_pieces(&self.medium.blocks, &home_writes(copies)).await;
        self.written.set(self.written.get() + 1);
        self.medium.count(|m| m.block_pages += copies.len() as u64);
        journal.forget(copies);
        written.map_err(failed)
    }

    /// The record has committed: its copies may go home.
    pub(super) fn committed(
        self: &Rc<Self>,
        journal: &DataJournal,
        entry: &CommitEntry,
        copies: Copies,
    ) {
        let place = entry.place;
        let mut state = journal.state.borrow_mut();
        state.waiting.push(Record { place, copies });
        if !std::mem::replace(&mut state.homing, true) {
            let core = Rc::clone(self);
            self.sim.spawn_detached(async move {
                if core.bring_home().await.is_err() {
                    core.abort();
                }
            });
        }
    }

    async fn wait_for_homes(&self, journal: &DataJournal) -> Result<()> {
        if self.aborted.get() {
            return Err(Errno::EIO);
        }
        journal.homed.wait(&self.sim).await;
        Ok(())
    }

    /// The journal, if contents go through it.
    pub(super) fn journal(&self) -> Option<&DataJournal> {
        self.journal.as_ref().filter(|journal| journal.in_use())
    }

    /// Waits until all that has committed is home.
    pub(super) async fn drain(&self) -> Result<()> {
        while let Some(journal) = self.journal()
            && journal.is_homing()
        {
            self.wait_for_homes(journal).await?;
        }
        Ok(())
    }

    /// Nothing is in the journal any more.
    pub(super) async fn leave_journal(&self) -> Result<()> {
        let Some(journal) = self.journal() else {
            return Ok(());
        };
        let written = journal.write_superblock(&self.medium.blocks, false).await;
        written.map_err(failed)
    }

    /// Brings records home while there are any.
    async fn bring_home(&self) -> Result<()> {
        let Some(journal) = self.journal() else {
            return Ok(());
        };
        loop {
            let records = std::mem::take(&mut journal.state.borrow_mut().waiting);
            let Some(last) = records.last().map(|record| record.place) else {
                break;
            };
            let brought = self.home(journal, records, last).await;
            if brought.is_err() {
                self.abort();
            }
            journal.homed.notify(&self.sim);
            brought?;
        }
        journal.state.borrow_mut().homing = false;
        journal.homed.notify(&self.sim);
        self.progress.notify(&self.sim);
        Ok(())
    }

    /// One round: all home, then the journal starts behind them, then others may have the blocks.
    async fn home(&self, journal: &DataJournal, records: Vec<Record>, last: Place) -> Result<()> {
        let mut copies = Copies::new();
        for record in records {
            copies.extend(record.copies);
        }
        let written = write_pieces(&self.medium.blocks, &home_writes(&copies)).await;
        self.written.set(self.written.get() + 1);
        written.map_err(failed)?;
        self.flush().await?;
        journal.state.borrow_mut().area.retire(last);
        let written = journal.write_superblock(&self.medium.blocks, true).await;
        written.map_err(failed)?;
        self.medium.count(|m| m.homed_pages += copies.len() as u64);
        journal.forget(&copies);
        Ok(())
    }
}
