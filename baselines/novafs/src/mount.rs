//! Mounting, after a clean end or a power cut alike: what was being committed is put
//! back, and what is free is found by walking all logs.
//!
//! Invariant: a page that two things lead to, a log that does not end, and an entry
//! that cannot be refuse the mount; nothing is stored before all logs were walked but
//! the first lines that a journal holds.
//= nova 4.6

use crate::alloc::Alloc;
use crate::commit::{Journal, journal_header};
use crate::format::{
    Anchor, Birth, Geometry, LINE, LINE_BYTES, PAGE, PAGE_BYTES, Page, ROOT, next_of_table, table,
};
use crate::fs::{Core, NovaFs, WalkError, walk};
use crate::log::{Walk, link_purpose};
use crate::pieces::Run;
use crate::state::State;
use host::{BytePort, Purpose, Who};
use sim::{Semaphore, Sim};
use ssd::ByteError;
use std::cell::{Cell, RefCell};
use units::Origin;
use vfs::FileKind;

/// How a file system is mounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MountOptions {
    /// Whom metadata are booked under.
    pub origin: Origin,
}

/// Why there is no file system.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MountError {
    /// It cannot be made.
    #[error("{pages} pages for {cores} cores: expected 1 to 64 cores and at least {least} pages")]
    Size {
        /// Pages of the medium.
        pages: u64,
        /// Cores that were asked for.
        cores: u64,
        /// Fewest pages for so many cores.
        least: u64,
    },
    /// The first line of the medium is no superblock.
    #[error("there is no superblock of this file system, or it is damaged")]
    Superblock,
    /// The file system is larger than its medium.
    #[error("the file system has {pages} pages, and the medium {found}")]
    Short {
        /// Pages of the file system.
        pages: u64,
        /// Pages of the medium.
        found: u64,
    },
    /// Something that was read cannot be.
    #[error("{0}")]
    Damaged(Damage),
    /// The medium failed.
    #[error(transparent)]
    Port(#[from] ByteError),
}

/// What cannot be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Damage {
    /// A page of an inode table.
    #[error("page {index} of the inode table of core {core} is damaged")]
    Table {
        /// Whose table.
        core: u64,
        /// Which page of it.
        index: u64,
    },
    /// A journal.
    #[error("the journal of core {core} is damaged")]
    Journal {
        /// Whose journal.
        core: u64,
    },
    /// An inode or its log.
    #[error("inode {ino} or its log is damaged")]
    Inode {
        /// Which one.
        ino: u64,
    },
    /// A page that something else has already.
    #[error("inode {ino} has a page that is in use already")]
    Shared {
        /// Which inode.
        ino: u64,
    },
    /// The root directory.
    #[error("there is no root directory")]
    Root,
}

/// Which pages are in use.
pub(crate) struct Usage {
    geometry: Geometry,
    used: Vec<bool>,
}

impl Usage {
    /// Only what is fixed.
    pub(crate) fn new(geometry: Geometry) -> Self {
        let fixed = geometry.pool() as usize;
        let mut used = vec![false; geometry.pages as usize];
        used[..fixed].fill(true);
        Self { geometry, used }
    }

    /// Takes `run` into use; false if it is, or lies elsewhere.
    #[must_use]
    pub(crate) fn claim(&mut self, run: Run) -> bool {
        if !self.geometry.has(run.start, run.len) {
            return false;
        }
        let pages = &mut self.used[run.start as usize..(run.start + run.len) as usize];
        let free = pages.iter().all(|used| !used);
        pages.fill(true);
        free
    }

    /// Takes all pages of an inode into use.
    #[must_use]
    pub(crate) fn claim_all(&mut self, state: &State) -> bool {
        let log = state.log.pages.iter().map(|&start| Run { start, len: 1 });
        let mut runs = state.runs().into_iter().chain(log);
        runs.all(|run| self.claim(run))
    }

    fn free_runs(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let free = (0..).zip(&self.used).filter(|(_, used)| !**used);
        for (page, _) in free {
            match runs.last_mut() {
                Some(run) if run.start + run.len == page => run.len += 1,
                _ => runs.push(Run {
                    start: page,
                    len: 1,
                }),
            }
        }
        runs
    }
}

/// The inode in a slot, if there is one in use, and what it is before its log; none
/// if it cannot be.
pub(crate) fn slot_of(
    geometry: Geometry,
    slot: &[u8],
    ino: u64,
) -> Option<Option<(FileKind, Walk)>> {
    let anchor = Anchor::decode(slot, ino)?;
    if !anchor.valid {
        return Some(None);
    }
    let birth = Birth::decode(&slot[LINE..])?;
    if ino == 0 || birth.generation != anchor.generation {
        return None;
    }
    let walk = Walk::new(geometry, anchor, State::born(&birth))?;
    Some(Some((birth.kind, walk)))
}

/// The slots of a page of an inode table, with their numbers.
pub(crate) fn slots(
    geometry: Geometry,
    core: u64,
    index: u64,
    page: &Page,
) -> impl Iterator<Item = (u64, &[u8])> {
    let slots = page.chunks_exact(table::SLOT).skip(1);
    (0..)
        .zip(slots)
        .map(move |(slot, bytes)| (geometry.ino(core, index, slot), bytes))
}

impl<P: BytePort> NovaFs<P> {
    /// Mounts the file system on `port`, and recovers it.
    ///
    /// # Errors
    /// If there is none, or it is damaged, or the medium fails.
    pub async fn mount(sim: &Sim, port: P, options: MountOptions) -> Result<Self, MountError> {
        let mut line = [0; LINE];
        let who = Who {
            origin: options.origin,
            purpose: Purpose::Superblock,
        };
        let found = port.capacity().0 / PAGE_BYTES;
        // Nothing may be stored before a log of the drive has been recovered.
        port.recover_once().await?;
        port.load(0, &mut line, who).await?;
        let geometry = Geometry::decode(&line).ok_or(MountError::Superblock)?;
        let pages = geometry.pages;
        if pages > found {
            return Err(MountError::Short { pages, found });
        }
        let core = |_| Core {
            turn: Semaphore::new(sim, 1),
            done: Cell::new(0),
        };
        let fs = Self {
            sim: sim.clone(),
            port,
            geometry,
            origin: options.origin,
            alloc: RefCell::new(Alloc::new(geometry)),
            cores: (0..geometry.cores).map(core).collect(),
            failed: Cell::new(false),
            cleaning: Cell::default(),
            refusals: RefCell::default(),
        };
        let mut usage = Usage::new(geometry);
        for core in 0..geometry.cores {
            fs.find_table(core, &mut usage).await?;
        }
        for core in 0..geometry.cores {
            fs.undo(core).await?;
        }
        fs.find_inodes(&mut usage).await?;
        fs.give(usage.free_runs());
        Ok(fs)
    }

    /// Follows the pages of a core's inode table.
    async fn find_table(&self, core: u64, usage: &mut Usage) -> Result<(), MountError> {
        let (mut page, mut index) = (self.geometry.table(core), 0);
        let who = self.who(Purpose::Inode);
        while page != 0 {
            let damage = MountError::Damaged(Damage::Table { core, index });
            let fixed = index == 0;
            if !fixed
                && !usage.claim(Run {
                    start: page,
                    len: 1,
                })
            {
                return Err(damage);
            }
            self.alloc.borrow_mut().add_table(core as usize, page);
            let mut line = [0; LINE];
            self.port.load(page * PAGE_BYTES, &mut line, who).await?;
            page = next_of_table(&line, core, index).ok_or(damage)?;
            index += 1;
        }
        Ok(())
    }

    /// Puts back what the journal of `core` holds of a transaction that is not done.
    async fn undo(&self, core: u64) -> Result<(), MountError> {
        let at = self.geometry.journal(core) * PAGE_BYTES;
        let mut bytes = [0; Journal::BYTES];
        let who = self.who(Purpose::Journal);
        self.port.load(at, &mut bytes, who).await?;
        let damage = || MountError::Damaged(Damage::Journal { core });
        let journal = Journal::decode(&bytes).ok_or_else(damage)?;
        for anchor in &journal.undo {
            let slot = self.alloc.borrow().slot(anchor.ino).ok_or_else(damage)?;
            let who = self.who(Purpose::Inode);
            self.port.store(slot, &anchor.encode(), 0, who).await?;
        }
        if !journal.is_done {
            self.port.verify().await?;
            let header = journal_header(journal.last);
            self.port.store(at, &header, 0, who).await?;
            self.port.verify().await?;
        }
        self.cores[core as usize].done.set(journal.last);
        Ok(())
    }

    /// Walks the logs of all inodes, and drops those without a name.
    async fn find_inodes(&self, usage: &mut Usage) -> Result<(), MountError> {
        let mut orphans = Vec::new();
        let mut root = false;
        for core in 0..self.geometry.cores {
            let pages = self.alloc.borrow().table(core as usize).to_vec();
            for (index, page) in (0..).zip(pages) {
                let mut bytes = [0; PAGE];
                let who = self.who(Purpose::Inode);
                self.port.load(page * PAGE_BYTES, &mut bytes, who).await?;
                for (ino, slot) in slots(self.geometry, core, index, &bytes) {
                    let Some(state) = self.find_inode(ino, slot).await? else {
                        continue;
                    };
                    root |= ino == ROOT.0 && state.is_dir();
                    if state.attr.nlink == 0 {
                        orphans.push((ino, Anchor::decode(slot, ino)));
                        continue;
                    }
                    if !usage.claim_all(&state) {
                        return Err(MountError::Damaged(Damage::Shared { ino }));
                    }
                    self.alloc.borrow_mut().inodes += 1;
                }
            }
        }
        if !root {
            return Err(MountError::Damaged(Damage::Root));
        }
        self.drop_orphans(orphans).await
    }

    /// The inode in a slot; a free one is noted as free.
    async fn find_inode(&self, ino: u64, slot: &[u8]) -> Result<Option<State>, MountError> {
        let damage = MountError::Damaged(Damage::Inode { ino });
        let found = slot_of(self.geometry, slot, ino).ok_or(damage.clone())?;
        let Some((kind, log)) = found else {
            if ino != 0 {
                self.alloc.borrow_mut().add_ino(ino);
            }
            return Ok(None);
        };
        let who = self.who(link_purpose(kind));
        match walk(&self.port, log, who).await {
            Ok(state) => Ok(Some(state)),
            Err(WalkError::Damaged) => Err(damage),
            Err(WalkError::Port(error)) => Err(error.into()),
        }
    }

    async fn drop_orphans(&self, orphans: Vec<(u64, Option<Anchor>)>) -> Result<(), MountError> {
        if orphans.is_empty() {
            return Ok(());
        }
        let who = self.who(Purpose::Inode);
        for (ino, anchor) in orphans {
            let free = Anchor {
                valid: false,
                head: 0,
                tail: 0,
                ..anchor.unwrap_or_default()
            };
            let slot = self.alloc.borrow().slot(ino);
            let slot = slot.ok_or(MountError::Damaged(Damage::Inode { ino }))?;
            self.port.store(slot, &free.encode(), 0, who).await?;
            self.alloc.borrow_mut().add_ino(ino);
        }
        self.port.verify().await?;
        Ok(())
    }
}

const _: () = assert!(LINE_BYTES * 2 == table::SLOT as u64);
