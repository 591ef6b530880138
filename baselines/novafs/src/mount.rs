//! Mounting, after an unmount or a power cut alike: an unfinished commit is undone, and a walk of
//! all logs finds the free space.
//!
//! Invariants: a page with two owners, a log without end, or an invalid entry makes the mount fail;
//! before all logs were walked, nothing is stored but the first lines that a journal restores.
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
use host::{BlockPort, ByteDisk, BytePort, Purpose, Who};
use sim::{Boxed, Semaphore, Sim};
use ssd::ByteError;
use std::cell::{Cell, RefCell};
use units::Origin;
use vfs::{AnyBody, FileKind};

/// Options of a mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MountOptions {
    /// Origin to which metadata are attributed.
    pub origin: Origin,
}

/// Error of a mount or of `mkfs`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MountError {
    /// The medium is too small or too large, or the number of cores is out of range.
    #[error("{pages} pages for {cores} cores: expected 1 to 64 cores and at least {least} pages")]
    Size {
        /// Pages of the medium.
        pages: u64,
        /// Number of cores requested.
        cores: u64,
        /// Least number of pages for these cores.
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
    /// A structure on the medium is damaged.
    #[error("{0}")]
    Damaged(Damage),
    /// The port below the file system failed.
    #[error(transparent)]
    Port(#[from] ByteError),
}

/// A damaged structure on the medium, and its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Damage {
    /// A page of an inode table is invalid.
    #[error("page {index} of the inode table of core {core} is damaged")]
    Table {
        /// Core that owns the table.
        core: u64,
        /// Index of the page in the table.
        index: u64,
    },
    /// The journal of a core is invalid.
    #[error("the journal of core {core} is damaged")]
    Journal {
        /// Core that owns the journal.
        core: u64,
    },
    /// An inode or its log.
    #[error("inode {ino} or its log is damaged")]
    Inode {
        /// Inode number of the file.
        ino: u64,
    },
    /// A page of this inode has another owner, too.
    #[error("inode {ino} has a page that is in use already")]
    Shared {
        /// Inode number of the second owner.
        ino: u64,
    },
    /// The root directory is missing.
    #[error("there is no root directory")]
    Root,
}

/// Map of the pages in use, built during the walk.
pub(crate) struct Usage {
    geometry: Geometry,
    used: Vec<bool>,
}

impl Usage {
    /// Only the fixed pages are in use.
    pub(crate) fn new(geometry: Geometry) -> Self {
        let fixed = geometry.pool() as usize;
        let mut used = vec![false; geometry.pages as usize];
        used[..fixed].fill(true);
        Self { geometry, used }
    }

    /// Marks `run` as used; returns false if a page is used already or out of bounds.
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

    /// Marks all pages of an inode as used.
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

/// Decodes a slot into the kind of its inode and the start of a walk of its log: `Some(None)` if
/// the slot is free, `None` if it is invalid.
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

/// The slots of a page of an inode table, with their inode numbers.
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

impl From<NovaFs> for AnyBody {
    fn from(body: NovaFs) -> Self {
        Self::new(body)
    }
}

impl NovaFs {
    /// Mounts the file system on `port` after recovery.
    ///
    /// # Errors
    /// A missing or damaged file system, or an error of the port.
    pub fn mount(
        sim: &Sim,
        port: &impl BytePort,
        options: MountOptions,
    ) -> Boxed<'static, Result<Self, MountError>> {
        Self::boxed(sim.clone(), ByteDisk::from(port), options)
    }

    fn boxed(
        sim: Sim,
        port: ByteDisk,
        options: MountOptions,
    ) -> Boxed<'static, Result<Self, MountError>> {
        Box::pin(async move { Self::open(&sim, port, options).await })
    }

    async fn open(sim: &Sim, port: ByteDisk, options: MountOptions) -> Result<Self, MountError> {
        let mut line = [0; LINE];
        let who = Who {
            origin: options.origin,
            purpose: Purpose::Superblock,
        };
        let found = port.capacity().0 / PAGE_BYTES;
        // The drive must recover its own log before the first store.
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

    /// Reads the chain of pages of a core's inode table.
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

    /// Restores the first lines of an unfinished transaction from the journal of `core`.
    async fn undo(&self, core: u64) -> Result<(), MountError> {
        let at = self.geometry.journal(core) * PAGE_BYTES;
        let mut bytes = [0; Journal::BYTES];
        let who = self.who(Purpose::Journal);
        self.port.load(at, &mut bytes, who).await?;
        let damage = || MountError::Damaged(Damage::Journal { core });
        let journal = Journal::decode(&bytes).ok_or_else(damage)?;
        let undone = match vfs::mutant::is("nova-recovery-without-undo") {
            true => &[],
            false => &journal.undo[..],
        };
        for anchor in undone {
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

    /// Walks the logs of all inodes, and frees the inodes without a name.
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

    /// Decodes the inode in a slot; records a free one in the allocator.
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
