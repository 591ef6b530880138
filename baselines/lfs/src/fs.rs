//! A mounted file system: what all verbs share.
//!
//! Invariants: a verb that changes or reads anything is within an *operation*, as is the
//! relocation of each segment, and a checkpoint within none; so a checkpoint is of one
//! instant. Locks are taken in this order: the cleaner, an operation, the turn of a file.

use crate::dir::DirCache;
use crate::format::nat::NatEntry;
use crate::format::node;
use crate::format::summary::Owner;
use crate::format::superblock::Geometry;
use crate::nat::Nat;
use crate::nodes::{NodeBuf, NodeCache};
use crate::persist::{Log, MainArea, Persist};
use crate::segments::{Given, Segments};
use host::{Purpose, Who};
use sim::{Permit, Semaphore, Sim};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::{Rc, Weak};
use units::{Ns, Origin, Refusals};
use vfs::{Errno, FileKind, Inode, LogStats, Result, StatFs};

/// Permits of [`Core::operations`]: most operations in progress at once; a checkpoint takes all.
const OPERATIONS: usize = 1 << 16;

/// Settings of a mount, from its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) origin: Origin,
    pub(crate) interval: Ns,
    pub(crate) cleaning: Ns,
    pub(crate) discard: bool,
    pub(crate) read_only: bool,
}

/// Totals that a checkpoint records in its head, and blocks promised in memory only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) user_blocks: u64,
    pub(crate) valid_blocks: u64,
    pub(crate) nodes: u32,
    pub(crate) inodes: u32,
    pub(crate) reserved_segments: u32,
    pub(crate) overprovision: u32,
    /// Blocks promised to files whose contents are in their inodes, one a file.
    pub(crate) promised: u64,
}

/// Changes since the last checkpoint that decide whether a force can write the nodes of a file
/// alone.
#[derive(Debug, Default)]
pub(crate) struct Since {
    /// Blocks that were valid at the checkpoint, and that were taken since: recovery
    /// needs all of them at once.
    pub(crate) valid: u64,
    pub(crate) taken: u64,
    /// Inodes made since the checkpoint; true for those that were forced with their name.
    pub(crate) made: BTreeMap<u32, bool>,
    /// Inodes with a change that their nodes do not show: a force of them is a checkpoint.
    pub(crate) whole: BTreeSet<u32>,
    /// Inodes with nodes written without a mark after their last marked node.
    pub(crate) unmarked: BTreeSet<u32>,
    /// Whether a directory has lost a name.
    pub(crate) dirs_moved: bool,
    /// Whether nodes were written that those before them do not lead to.
    pub(crate) chain_broken: bool,
}

impl Since {
    /// State right after a checkpoint with `counts`: no change yet.
    pub(crate) fn after(counts: Counts) -> Self {
        Self {
            valid: counts.valid_blocks,
            ..Self::default()
        }
    }
}

/// State of a mounted file system, shared by its verbs and background tasks.
pub(crate) struct Core<P: Persist> {
    pub(crate) sim: Sim,
    pub(crate) persist: P,
    pub(crate) geometry: Geometry,
    pub(crate) settings: Settings,
    pub(crate) me: Weak<Self>,
    /// Held by operations, one each, and by a checkpoint, all.
    operations: Semaphore,
    /// Held while a force writes nodes of a file: each node leads to the next, so an earlier
    /// one must be written first.
    pub(crate) chain: Semaphore,
    pub(crate) segments: RefCell<Segments>,
    pub(crate) nat: RefCell<Nat>,
    pub(crate) nodes: RefCell<NodeCache>,
    pub(crate) dirs: RefCell<DirCache>,
    pub(crate) counts: Cell<Counts>,
    pub(crate) orphans: RefCell<BTreeSet<u32>>,
    /// The version of the last checkpoint.
    pub(crate) version: Cell<u64>,
    /// Checkpoint stamp that nodes written now carry in their footers.
    pub(crate) stamp: Cell<u64>,
    /// Time that the file system was mounted before this mount, in seconds.
    pub(crate) elapsed: u64,
    /// Changes since the mount; `settled` is this count at the last checkpoint.
    pub(crate) changes: Cell<u64>,
    pub(crate) settled: Cell<u64>,
    /// Changes since the last checkpoint that restrict forces.
    pub(crate) since: RefCell<Since>,
    /// Whether a task waits to make the periodic checkpoint.
    pub(crate) armed: Cell<bool>,
    /// Held while a section is cleaned; acquired before an operation.
    pub(crate) cleaner: Semaphore,
    /// Whether a task waits to clean in the background.
    pub(crate) clean_armed: Cell<bool>,
    /// Time at which the last changing operation began.
    pub(crate) begun: Cell<Ns>,
    /// Counters of the logs and of cleaning, for reports.
    pub(crate) stats: Cell<LogStats>,
    /// Whether a write has failed: after that, nothing is written any more.
    pub(crate) failed: Cell<bool>,
    /// Whether a mount brings back what was forced.
    pub(crate) recovering: Cell<bool>,
    pub(crate) generation: Cell<u32>,
    /// Limits that allocations have met.
    pub(crate) refusals: RefCell<Refusals>,
}

/// A file system in the format of F2FS, over the strategy `P`.
pub struct LfsFs<P: Persist> {
    pub(crate) core: Rc<Core<P>>,
}

/// State that this file system attaches to each inode in memory.
pub struct Private {
    /// Node of the inode, held so that it stays in memory.
    pub(crate) buf: Rc<NodeBuf>,
    /// File size on the medium, in bytes: it grows as pages are written back.
    pub(crate) disk_size: Cell<u64>,
    /// Held while the addresses of its pages are read or changed.
    pub(crate) turn: Semaphore,
    /// Whether a block is promised for when its contents outgrow the inode.
    pub(crate) promised: Cell<bool>,
}

/// An inode of the VFS with the state of this file system.
pub(crate) type File = Inode<Private>;

/// Maps `None`, the result of decoding damaged bytes, to `EUCLEAN`.
pub(crate) fn damaged<T>(value: Option<T>) -> Result<T> {
    value.ok_or(Errno::EUCLEAN)
}

/// Whether an inode is a directory.
pub(crate) fn is_dir(file: &File) -> bool {
    file.attr.get().kind == FileKind::Directory
}

/// The number of an inode in the format.
pub(crate) fn number(file: &File) -> u32 {
    file.private.buf.nid
}

/// Inputs of [`Core::new`], as a mount has read them.
pub(crate) struct Parts<P> {
    pub(crate) persist: P,
    pub(crate) geometry: Geometry,
    pub(crate) settings: Settings,
    pub(crate) segments: Segments,
    pub(crate) nat: Nat,
    pub(crate) counts: Counts,
    pub(crate) orphans: BTreeSet<u32>,
    pub(crate) version: u64,
    pub(crate) stamp: u64,
    pub(crate) elapsed: u64,
}

/// Origin and purpose under which I/O of the contents of `file` is booked.
pub(crate) fn owner_of(file: &File) -> Who {
    Who {
        origin: file.origin.get(),
        purpose: Purpose::Data,
    }
}

/// Shows the blocks of a file in its attributes.
pub(crate) fn show_blocks(file: &File) {
    let blocks = node::BLOCKS.get(&file.private.buf.bytes()[..]);
    file.update(|attr| attr.sectors = blocks.saturating_mul(8));
}

impl<P: Persist> Core<P> {
    pub(crate) fn new(sim: &Sim, parts: Parts<P>) -> Rc<Self> {
        Rc::new_cyclic(|me| Self {
            sim: sim.clone(),
            persist: parts.persist,
            geometry: parts.geometry,
            settings: parts.settings,
            me: me.clone(),
            operations: Semaphore::new(sim, OPERATIONS),
            chain: Semaphore::new(sim, 1),
            segments: RefCell::new(parts.segments),
            nat: RefCell::new(parts.nat),
            nodes: RefCell::default(),
            dirs: RefCell::default(),
            counts: Cell::new(parts.counts),
            orphans: RefCell::new(parts.orphans),
            version: Cell::new(parts.version),
            stamp: Cell::new(parts.stamp),
            elapsed: parts.elapsed,
            changes: Cell::new(0),
            settled: Cell::new(0),
            since: RefCell::new(Since::after(parts.counts)),
            armed: Cell::new(false),
            cleaner: Semaphore::new(sim, 1),
            clean_armed: Cell::new(false),
            begun: Cell::new(Ns::ZERO),
            stats: Cell::default(),
            failed: Cell::new(false),
            recovering: Cell::default(),
            generation: Cell::new(parts.version as u32),
            refusals: RefCell::default(),
        })
    }

    /// Begins an operation that reads only.
    pub(crate) async fn look(&self) -> Permit {
        self.operations.acquire(1).await
    }

    /// Begins an operation that may change something, once there is room for what it makes dirty.
    pub(crate) async fn operate(&self) -> Result<Permit> {
        self.make_room().await?;
        let permit = self.operations.acquire(1).await;
        self.ensure_sound()?;
        self.begun.set(self.sim.now());
        Ok(permit)
    }

    /// Waits until there is no operation, and lets none begin.
    pub(crate) async fn alone(&self) -> Permit {
        self.operations.acquire(OPERATIONS).await
    }

    /// Fails with `EROFS` after a failed write or on a read-only mount.
    pub(crate) fn ensure_sound(&self) -> Result<()> {
        if self.failed.get() || self.settings.read_only {
            return Err(Errno::EROFS);
        }
        Ok(())
    }

    /// Passes `done` on; an error marks the file system as failed, and nothing is written after.
    pub(crate) fn noted<T>(&self, done: Result<T>) -> Result<T> {
        if done.is_err() {
            self.failed.set(true);
        }
        done
    }

    /// Counts a change for the next checkpoint; arms the periodic checkpoint and cleaning.
    pub(crate) fn note_change(&self) {
        self.changes.set(self.changes.get() + 1);
        self.arm();
        self.arm_cleaning();
    }

    /// Time that the file system was mounted, in seconds.
    pub(crate) fn elapsed(&self) -> u64 {
        self.elapsed + self.sim.now().0 / 1_000_000_000
    }

    pub(crate) const fn who(&self, purpose: Purpose) -> Who {
        Who {
            origin: self.settings.origin,
            purpose,
        }
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    /// Blocks that files may have: not those whose flash has failed. In recovery all count:
    /// what was forced was within them then.
    pub(crate) fn usable_blocks(&self) -> u64 {
        let lost = match self.recovering.get() {
            true => 0,
            false => self.segments.borrow().lost_blocks(),
        };
        self.counts.get().user_blocks.saturating_sub(lost)
    }

    /// Collects sections whose flash has failed, which take no more writes.
    pub(crate) fn look_for_lost(&self) {
        for section in 0..self.geometry.sections() {
            let first = section * self.geometry.segs_per_sec;
            if self.persist.main().is_lost(self.geometry.addr_of(first, 0)) {
                self.segments.borrow_mut().lose(section);
            }
        }
    }

    /// Gives out the next place of a log, whose section can be written.
    pub(crate) fn give(&self, log: Log, owner: Owner) -> Result<Given> {
        let mut segments = self.segments.borrow_mut();
        let mut given = None;
        loop {
            let next = segments.next_of(log);
            if !self.persist.main().is_lost(next) {
                given = segments.give(log, owner, self.elapsed());
                break;
            }
            let section = segments.section_of(self.geometry.place_of(next).0);
            segments.lose(section);
            // What was written there leads to what nobody will write.
            self.since.borrow_mut().chain_broken |= log == Log::WarmNode;
            if segments.renew(log).is_none() {
                break;
            }
        }
        drop(segments);
        given.ok_or_else(|| self.refuse_section())
    }

    /// Accounts for a block of a file, which nothing was written to yet.
    pub(crate) fn take_block(&self) -> Result<()> {
        let counts = self.counts.get();
        if counts.valid_blocks + counts.promised >= self.usable_blocks() {
            return Err(self.refuse_block());
        }
        self.count(|counts| counts.valid_blocks += 1);
        self.since.borrow_mut().taken += 1;
        Ok(())
    }

    /// Gives back an accounted block, and frees `addr` if it is in the main area (0 and
    /// `NEW_ADDR` are not: nothing was written).
    pub(crate) fn give_block(&self, addr: u32) {
        self.count(|counts| counts.valid_blocks = counts.valid_blocks.saturating_sub(1));
        if self.geometry.is_main(addr) {
            self.segments.borrow_mut().free_block(addr);
        }
    }

    /// Adds `change` to the number of blocks in the node of an inode.
    pub(crate) fn add_blocks(&self, inode: &NodeBuf, change: i64) {
        inode.edit(|bytes| {
            let blocks = node::BLOCKS.get(bytes).saturating_add_signed(change);
            node::BLOCKS.put(bytes, blocks);
        });
        self.soil(inode);
    }

    /// Writes attributes into the node of an inode.
    pub(crate) fn store_inode(&self, file: &File) {
        let (attr, size) = (file.attr.get(), file.private.disk_size.get());
        file.private.buf.edit(|bytes| {
            node::set_attr(bytes, &attr);
            node::SIZE.put(
                bytes,
                if attr.kind == FileKind::Regular {
                    size
                } else {
                    attr.size
                },
            );
        });
        self.soil(&file.private.buf);
        show_blocks(file);
    }

    /// The part of an inode that this body keeps.
    pub(crate) fn private(&self, buf: Rc<NodeBuf>) -> Private {
        let size = node::SIZE.get(&buf.bytes()[..]);
        Private {
            turn: buf.turn(&self.sim).clone(),
            buf,
            disk_size: Cell::new(size),
            promised: Cell::new(false),
        }
    }

    /// Notes a change of inode `ino` that its nodes do not show: only a checkpoint makes the
    /// change durable.
    pub(crate) fn need_whole(&self, ino: u32) {
        self.since.borrow_mut().whole.insert(ino);
    }

    /// Counters of the logs since the mount, and memory of the tables now.
    pub(crate) fn log_stats(&self) -> LogStats {
        let tables = self.segments.borrow().memory() + self.nat.borrow().memory();
        LogStats {
            memory: tables as u64 + self.persist.memory(),
            metadata: self.persist.cleaned(),
            ..self.stats.get()
        }
    }

    pub(crate) fn tally(&self, change: impl FnOnce(&mut LogStats)) {
        let mut stats = self.stats.get();
        change(&mut stats);
        self.stats.set(stats);
    }

    /// Used and free blocks and inodes, for `statfs`.
    pub(crate) fn fullness(&self) -> StatFs {
        let counts = self.counts.get();
        let used = counts.valid_blocks + counts.promised;
        let free = self.usable_blocks().saturating_sub(used);
        let nids = u64::from(self.geometry.nids());
        let files_free = (nids - u64::from(counts.nodes).min(nids)).min(free);
        StatFs {
            block_size: crate::BLOCK as u32,
            blocks: counts.user_blocks,
            blocks_free: free,
            blocks_available: free,
            files: files_free + u64::from(counts.inodes),
            files_free,
            name_max: 255,
        }
    }

    /// Address of node `nid`.
    ///
    /// # Errors
    /// `EUCLEAN` if there cannot be such a node; `EIO`.
    pub(crate) async fn nat_entry(&self, nid: u32) -> Result<NatEntry> {
        if nid >= self.geometry.nids() {
            return Err(Errno::EUCLEAN);
        }
        let index = Nat::block_of(nid);
        self.load_nat(index).await?;
        damaged(self.nat.borrow().get(nid))
    }
}
