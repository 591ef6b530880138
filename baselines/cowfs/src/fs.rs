//! A mounted file system: the state that all calls share.
//!
//! Invariants: each change is within an *operation*, and a commit takes its state while no
//! operation is open, so a commit is of one instant. A reader of a file's extents holds the turn of
//! the file or is within an operation. A caller that needs both takes the turn first. An operation
//! reserves the most node bytes that it may need, beside those of a commit, so the commit that
//! follows never runs out of space.

use crate::forced::Since;
use crate::forest::{Forest, Stop, Tree, Try};
use crate::format::inode::NODATASUM;
use crate::format::node::Expected;
use crate::format::superblock::Superblock;
use crate::format::{Key, NODE, NODE_BYTES, SECTOR, id, node};
use crate::nodes::{Dirt, Node};
use crate::persist::{Persist, Ticket, read_run};
use crate::space::{Ranges, Use};
use crate::staged::Staged;
use crate::sums::PatternSums;
use host::{BlockPort, Purpose, Who};
use nand::Payload;
use sim::{Permit, Semaphore, Sim};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::{Rc, Weak};
use units::{Ns, Origin, Refusals};
use vfs::{Errno, Inode, Result, StatFs, Timestamp};

/// Most operations that run at once.
const OPERATIONS: usize = 1 << 16;

/// Settings of a mounted file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) origin: Origin,
    pub(crate) interval: Ns,
    pub(crate) discard: bool,
    pub(crate) sums: bool,
    pub(crate) dup: bool,
    pub(crate) start: Timestamp,
}

/// All of a mounted file system.
pub(crate) struct Core<S: Persist> {
    pub(crate) sim: Sim,
    pub(crate) persist: S,
    pub(crate) settings: Settings,
    pub(crate) me: Weak<Self>,
    pub(crate) forest: Forest,
    pub(crate) superblock: RefCell<Superblock>,
    /// Superblock of the last commit.
    pub(crate) committed: RefCell<Superblock>,
    /// Trees that have an item of their root, by number; those of [`Forest`] are not among them.
    pub(crate) trees: RefCell<BTreeMap<u64, Rc<Tree>>>,
    /// One permit for each operation; a commit takes all of them while it takes its state.
    operations: Semaphore,
    /// Held while a commit publishes its state, until that is durable.
    pub(crate) publishing: Semaphore,
    /// Held while a chunk is allocated.
    pub(crate) chunking: Semaphore,
    /// Nodes that are being read, each with the turn that others wait for.
    reading: RefCell<BTreeMap<u64, Semaphore>>,
    /// Changes since the last commit, by which an fsync chooses between log and commit.
    pub(crate) since: RefCell<Since>,
    /// Inodes without a name that are in use, by tree.
    pub(crate) orphans: RefCell<BTreeSet<(u64, u64)>>,
    /// The next number of an inode, by tree.
    pub(crate) next_inode: RefCell<BTreeMap<u64, u64>>,
    /// Changes there were, and those of them that are durable.
    pub(crate) changes: Cell<u64>,
    pub(crate) settled: Cell<u64>,
    /// Whether a task waits for the interval of commits.
    armed: Cell<bool>,
    /// Something could not be written: nothing is written any more.
    pub(crate) failed: Cell<bool>,
    /// Contents that took the place of others, and whose sums are in the trees.
    pub(crate) replaced: RefCell<Vec<Ticket>>,
    /// Contents that take the place of others, and whose sums are not.
    pub(crate) staged: Rc<Staged>,
    /// Runs of pages that space is promised for, and those that begin a file.
    pub(crate) runs: Cell<(u64, u64)>,
    /// Limits that allocations have met.
    pub(crate) refusals: RefCell<Refusals>,
    pub(crate) sums: PatternSums,
    /// Commits, and forces that a log has made durable.
    pub(crate) counts: Cell<Counts>,
}

/// Commits, syncs and pages written since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Commits that became durable.
    pub(crate) commits: u64,
    /// Forces that the log was enough for.
    pub(crate) logged: u64,
    /// Forces that made a commit.
    pub(crate) forced_commits: u64,
    /// Pages of files that were written to new places.
    pub(crate) copied_pages: u64,
    /// Pages that were written in their place.
    pub(crate) replaced_pages: u64,
}

/// A file system in the format of Btrfs, over the strategy `S`.
pub struct CowFs<S: Persist> {
    pub(crate) core: Rc<Core<S>>,
}

/// State that this body keeps with each inode in memory.
pub struct Private {
    /// The tree that it is in.
    pub(crate) tree: Rc<Tree>,
    /// Object number of the inode in `tree`.
    pub(crate) number: u64,
    pub(crate) generation: u64,
    pub(crate) flags: Cell<u64>,
    pub(crate) sequence: Cell<u64>,
    /// Bytes of its extents.
    pub(crate) nbytes: Cell<u64>,
    /// Its size on the medium: what was written back.
    pub(crate) disk_size: Cell<u64>,
    /// Held by a change of the places of the file's pages, and by a read that needs them stable.
    pub(crate) turn: Semaphore,
    /// Pages that space is promised for.
    pub(crate) promised: RefCell<Ranges>,
    /// The number of the next entry of a directory; 0 if it was not looked for.
    pub(crate) next_index: Cell<u64>,
}

impl Private {
    /// Whether contents of the file have checksums.
    pub(crate) fn has_sums(&self) -> bool {
        self.flags.get() & NODATASUM == 0
    }
}

/// An inode in memory.
pub(crate) type File = Inode<Private>;

/// An operation that may change something.
pub(crate) struct Operation<'a, S: Persist> {
    core: &'a Core<S>,
    _permit: Permit,
    held: u64,
}

impl<S: Persist> Drop for Operation<'_, S> {
    fn drop(&mut self) {
        self.core.forest.space.borrow_mut().let_go(self.held);
    }
}

/// The way an inode of a tree is numbered in the file API, which has one number for
/// each: subvolumes by the highest bits.
pub(crate) fn ino_of(tree: u64, number: u64) -> vfs::Ino {
    let tree = if tree == id::FS_TREE { 0 } else { tree };
    vfs::Ino(tree << TREE_SHIFT | number)
}

/// The tree and the number of an inode of the file API.
pub(crate) fn place_of(ino: vfs::Ino) -> (u64, u64) {
    let tree = ino.0 >> TREE_SHIFT;
    let tree = if tree == 0 { id::FS_TREE } else { tree };
    (tree, ino.0 & LAST_INODE)
}

/// Origin and purpose that the ledger books the contents of `file` under.
pub(crate) fn owner_of(file: &File) -> Who {
    Who {
        origin: file.origin.get(),
        purpose: Purpose::Data,
    }
}

impl<S: Persist> Core<S> {
    pub(crate) fn new(
        sim: &Sim,
        persist: S,
        settings: Settings,
        forest: Forest,
        superblock: Superblock,
    ) -> Rc<Self> {
        Rc::new_cyclic(|me| Self {
            sim: sim.clone(),
            persist,
            settings,
            me: me.clone(),
            forest,
            trees: RefCell::default(),
            operations: Semaphore::new(sim, OPERATIONS),
            publishing: Semaphore::new(sim, 1),
            chunking: Semaphore::new(sim, 1),
            reading: RefCell::default(),
            since: RefCell::default(),
            orphans: RefCell::default(),
            next_inode: RefCell::default(),
            changes: Cell::new(0),
            settled: Cell::new(0),
            armed: Cell::new(false),
            failed: Cell::new(false),
            replaced: RefCell::default(),
            staged: Staged::new(sim),
            runs: Cell::default(),
            refusals: RefCell::default(),
            sums: PatternSums::new(),
            committed: RefCell::new(superblock.clone()),
            superblock: RefCell::new(superblock),
            counts: Cell::default(),
        })
    }

    pub(crate) const fn who(&self, purpose: Purpose) -> Who {
        Who {
            origin: self.settings.origin,
            purpose,
        }
    }

    /// Current time of day.
    pub(crate) fn now(&self) -> Timestamp {
        let nanos = u64::from(self.settings.start.nanos) + self.sim.now().0;
        Timestamp {
            secs: self.settings.start.secs + (nanos / 1_000_000_000) as i64,
            nanos: (nanos % 1_000_000_000) as u32,
        }
    }

    /// Does what is done at once, and brings nodes to memory that it needs.
    pub(crate) async fn with<T>(&self, mut work: impl FnMut() -> Try<T>) -> Result<T> {
        loop {
            match work() {
                Ok(done) => return Ok(done),
                Err(Stop::Errno(errno)) => return Err(errno),
                Err(Stop::Load(expected)) => self.load(expected).await?,
            }
        }
    }

    /// Reads a node into the cache, or waits for a read of it that is under way. The caller then
    /// walks again: the node and the pointer to it may have changed since. A read thus never
    /// replaces a newer version of the node.
    async fn load(&self, expected: Expected) -> Result<()> {
        let at = expected.bytenr;
        let under_way = self.reading.borrow().get(&at).cloned();
        if let Some(turn) = under_way {
            turn.acquire(1).await;
            return Ok(());
        }
        let turn = Semaphore::new(&self.sim, 1);
        self.reading.borrow_mut().insert(at, turn.clone());
        let _turn = turn.acquire(1).await;
        let loaded = self.load_alone(&expected).await;
        self.reading.borrow_mut().remove(&at);
        loaded
    }

    async fn load_alone(&self, expected: &Expected) -> Result<()> {
        let read = self.read_node(expected).await?;
        // Its place may be another node's by now, that is not on the medium yet.
        if self.forest.nodes.borrow().find(expected).is_none() {
            let made = Rc::new(Node::new(expected.bytenr, read, Dirt::Clean));
            self.forest.nodes.borrow_mut().insert(made);
        }
        Ok(())
    }

    /// Reads a node and verifies it: the second copy if the first is damaged.
    async fn read_node(&self, expected: &Expected) -> Result<Box<node::Bytes>> {
        if !expected.bytenr.is_multiple_of(SECTOR as u64) {
            return Err(Errno::EUCLEAN);
        }
        let places = self.places(expected.bytenr, NODE_BYTES)?;
        let fsid = self.forest.identity.get().fsid;
        let who = self.who(Purpose::Metadata);
        for place in places {
            let mut parts = vec![Payload::Zero; NODE / SECTOR];
            let read = read_run(self.persist.port(), place, &mut parts, who).await;
            let mut bytes = node::blank();
            let out = bytes.chunks_exact_mut(SECTOR);
            let whole = parts
                .iter()
                .zip(out)
                .all(|(part, out)| part.copy_to(0, out));
            if read.is_ok() && whole && node::verify(&bytes, expected, &fsid).is_ok() {
                return Ok(bytes);
            }
        }
        Err(Errno::EIO)
    }

    /// Device addresses of the copies of a range.
    pub(crate) fn places(&self, start: u64, len: u64) -> Result<Vec<u64>> {
        let space = self.forest.space.borrow();
        match space.place(start) {
            Some((copies, skip, room)) if room >= len => {
                Ok(copies.iter().map(|copy| copy + skip).collect())
            }
            _ => Err(Errno::EUCLEAN),
        }
    }

    /// Begins an operation that reads only.
    pub(crate) async fn look(&self) -> Permit {
        self.operations.acquire(1).await
    }

    /// Waits until there is no operation, and lets none begin.
    pub(crate) async fn alone(&self) -> Permit {
        self.operations.acquire(OPERATIONS).await
    }

    /// Begins an operation that changes up to so many items.
    ///
    /// # Errors
    /// `ENOSPC` if nodes have no space; `EROFS`, `EIO`.
    pub(crate) async fn operate(&self, items: u64) -> Result<Operation<'_, S>> {
        self.operate_with(items, false).await
    }

    /// The same of one that frees space: it may use what is kept for commits.
    pub(crate) async fn operate_to_free(&self, items: u64) -> Result<Operation<'_, S>> {
        self.operate_with(items, true).await
    }

    async fn operate_with(&self, items: u64, frees: bool) -> Result<Operation<'_, S>> {
        let held = items * self.cost_of_item();
        let mut commits = 0;
        loop {
            self.ensure_sound()?;
            if self.wants_commit() {
                self.commit().await?;
            }
            if self.holds(held, frees) {
                break;
            }
            if self.add_chunk(Use::Nodes).await? {
                continue;
            }
            if commits == COMMITS || !self.commit_frees() {
                return Err(self.refuse_nodes(held));
            }
            commits += 1;
            self.commit().await?;
        }
        self.begin(held).await
    }

    /// Begins an operation that fails without a commit if there is no room, for a caller that a
    /// commit would wait for: the replay of a log.
    pub(crate) async fn operate_uncommitted(&self, items: u64) -> Result<Operation<'_, S>> {
        let held = items * self.cost_of_item();
        self.ensure_sound()?;
        while !self.holds(held, true) {
            if !self.add_chunk(Use::Nodes).await? {
                return Err(self.refuse_nodes(held));
            }
        }
        self.begin(held).await
    }

    /// Begins an operation that so many bytes of nodes are held for.
    async fn begin(&self, held: u64) -> Result<Operation<'_, S>> {
        let permit = self.operations.acquire(1).await;
        let operation = Operation {
            core: self,
            _permit: permit,
            held,
        };
        self.ensure_sound()?;
        Ok(operation)
    }

    /// Whether a commit may free anything, also one that is on its way.
    pub(crate) fn commit_frees(&self) -> bool {
        self.forest.space.borrow().has_pinned() || self.forest.refs.borrow().steps() > 0
    }

    /// Whether `items` items could be changed now. Reserves nothing.
    pub(crate) fn has_room(&self, items: u64, frees: bool) -> bool {
        let (bytes, debt) = (items * self.cost_of_item(), self.debt());
        let debt = if frees { debt / 2 } else { debt };
        let space = self.forest.space.borrow();
        space.free(Use::Nodes) >= space.held() + bytes + debt
    }

    /// Whether a commit has room for what it settles, with so many references more.
    pub(crate) fn has_room_to_settle(&self, more: u64) -> bool {
        let debt = self.debt_of(self.forest.refs.borrow().steps() as u64 + more);
        let space = self.forest.space.borrow();
        space.free(Use::Nodes) >= space.held() + debt
    }

    fn holds(&self, bytes: u64, frees: bool) -> bool {
        let debt = self.debt();
        let debt = if frees { debt / 2 } else { debt };
        self.forest.space.borrow_mut().hold(bytes, debt)
    }

    /// Bytes of nodes that a change of an item may need: a copy of each node on the way to
    /// it, and as many for splits.
    fn cost_of_item(&self) -> u64 {
        let trees = self.trees.borrow();
        let levels = trees.values().map(|tree| tree.start.get().level).max();
        (2 * (u64::from(levels.unwrap_or(0)) + 1) + 1) * NODE_BYTES
    }

    /// Bytes of nodes that the next commit may need at most, of what has changed so far:
    /// ways to items of extents and sums, as far as there are so many nodes.
    pub(crate) fn debt(&self) -> u64 {
        self.debt_of(self.forest.refs.borrow().steps() as u64)
    }

    /// The same of so many references that have changed.
    fn debt_of(&self, changes: u64) -> u64 {
        let forest = &self.forest;
        let ways = |tree: &Tree| {
            let levels = u64::from(tree.start.get().level) + 1;
            (changes * levels * NODE_BYTES).min(tree.bytes_used.get())
        };
        let new = (changes / 64 + self.nodes_of_promises()) * NODE_BYTES;
        ways(&forest.extents) + ways(&forest.csums) + 2 * new + COMMIT_NODES * NODE_BYTES
    }

    /// Nodes that the pages that space is promised for may need once they are written: a leaf has
    /// room for the items of some 48 pieces, with those of their extents, of six files whose
    /// contents lie in an item, or of the sums of 4,000 pages; and may be half full.
    fn nodes_of_promises(&self) -> u64 {
        let (runs, heads) = self.runs.get();
        let pages = self.forest.space.borrow().promised() / SECTOR as u64;
        runs / 24 + heads / 3 + pages / 2_000
    }

    /// Whether so much has changed that a commit shall not wait.
    fn wants_commit(&self) -> bool {
        let nodes = self.forest.nodes.borrow().dirty() as u64;
        nodes * NODE_BYTES > DIRTY_MOST || self.forest.refs.borrow().steps() > CHANGES_MOST
    }

    /// Whether anything can still be written.
    pub(crate) fn ensure_sound(&self) -> Result<()> {
        if self.failed.get() {
            return Err(Errno::EROFS);
        }
        Ok(())
    }

    /// Notes a failure that leaves a transaction half done: nothing is written after it.
    pub(crate) fn noted<T>(&self, done: Result<T>) -> Result<T> {
        if done.is_err() {
            self.failed.set(true);
        }
        done
    }

    /// Something has changed that a commit makes durable.
    pub(crate) fn note_change(&self) {
        self.changes.set(self.changes.get() + 1);
        self.arm();
    }

    /// Has a commit made of its own accord once the present changes have waited for long.
    fn arm(&self) {
        if self.armed.replace(true) {
            return;
        }
        let (me, sim, interval) = (self.me.clone(), self.sim.clone(), self.settings.interval);
        self.sim.spawn_detached(async move {
            sim.sleep(interval).await;
            let Some(core) = me.upgrade() else { return };
            core.armed.set(false);
            if core.settled.get() < core.changes.get() && !core.failed.get() {
                // A failure makes the file system read-only; the next fsync reports it.
                let _ = core.commit().await;
            }
        });
    }

    pub(crate) fn tally(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    /// A tree of files, or any other that has an item of its root.
    pub(crate) fn tree(&self, number: u64) -> Option<Rc<Tree>> {
        self.trees.borrow().get(&number).cloned()
    }

    /// The number that the next inode of a tree gets.
    pub(crate) async fn take_inode(&self, tree: &Rc<Tree>) -> Result<u64> {
        let known = self.next_inode.borrow().get(&tree.id).copied();
        let next = match known {
            Some(next) => next,
            None => {
                let last = Key::new(id::LAST_FREE, u8::MAX, u64::MAX);
                let last = self.with(|| self.forest.last_until(tree, last, |key, _| key.object));
                last.await?.unwrap_or(id::FIRST_FREE).max(id::FIRST_FREE) + 1
            }
        };
        if next > LAST_INODE {
            return Err(self.refuse_inode());
        }
        // Another one may have looked meanwhile.
        let mut numbers = self.next_inode.borrow_mut();
        let next = numbers
            .get(&tree.id)
            .map_or(next, |known| (*known).max(next));
        numbers.insert(tree.id, next + 1);
        Ok(next)
    }

    /// Capacity and free space of the file system.
    pub(crate) fn fullness(&self) -> StatFs {
        let space = self.forest.space.borrow();
        let total = self.superblock.borrow().total_bytes;
        let used = space.used(Use::Nodes) + space.used(Use::System);
        let nodes = if self.settings.dup { 2 * used } else { used };
        let used = nodes + space.used(Use::Data);
        let free = space.free(Use::Data) + space.unallocated();
        let available = free.saturating_sub(space.promised());
        let blocks = |bytes: u64| bytes / SECTOR as u64;
        StatFs {
            block_size: SECTOR as u32,
            blocks: blocks(total),
            blocks_free: blocks(total.saturating_sub(used)),
            blocks_available: blocks(available),
            files: 0,
            files_free: 0,
            name_max: 255,
        }
    }

    /// Lets a discard follow what has become free, if the drive is to know.
    pub(crate) async fn discard(&self, freed: &Ranges) {
        if !self.settings.discard {
            return;
        }
        for (start, len) in freed.iter() {
            let Ok(places) = self.places(start, len) else {
                continue;
            };
            for place in places {
                let sectors = (len / SECTOR as u64) as usize;
                // Advice that fails changes nothing.
                let _ = self
                    .persist
                    .port()
                    .trim(crate::persist::extent(place, sectors))
                    .await;
            }
        }
    }
}

/// Most commits of an operation that finds no room: the first may free only nodes, and the second
/// frees what the first settled.
pub(crate) const COMMITS: u32 = 2;
/// The last number of an inode: numbers of subvolumes are above.
const LAST_INODE: u64 = (1 << TREE_SHIFT) - 1;
/// The last number of a subvolume that those of inodes have room for.
pub(crate) const LAST_TREE: u64 = (1 << (64 - TREE_SHIFT)) - 1;
/// Position of the subvolume's number in an inode number, in bits.
const TREE_SHIFT: u32 = 44;
/// Nodes that a commit may need besides those of extents and sums: of the trees of roots,
/// chunks and the device.
const COMMIT_NODES: u64 = 24;
/// Bytes of nodes that are changed before a commit: as many as Linux lets be dirty before
/// it writes them back.
const DIRTY_MOST: u64 = 32 << 20;
/// Changed extents before a commit, a choice of ours: they are settled in one go.
const CHANGES_MOST: usize = 1 << 16;
