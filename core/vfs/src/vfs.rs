//! The mounted file system: the state that its calls share, and the cache of inodes.
//!
//! Invariants: `nodes` holds an inode exactly while it is in memory. While an inode is being loaded
//! or evicted its entry is `Busy`, so two tasks never hold two copies of it. `unused` queues
//! candidates for eviction, oldest first.

use crate::body::Body;
use crate::clock::{Clock, Compute};
use crate::config::CacheConfig;
use crate::errno::{Errno, Result};
use crate::failure::Failures;
use crate::file::OpenFile;
use crate::inode::Inode;
use crate::locks::Waits;
use crate::node::Node;
use crate::observe::Observer;
use crate::pool::{CacheStats, Pool};
use crate::radix::Radix;
use crate::types::{Attr, FileKind, Ino, PAGE, Timestamp};
use sim::{RwLock, Signal, Sim};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::rc::{Rc, Weak};
use units::Ns;

/// A mounted file system. Clones share it.
pub struct Vfs<B: Body> {
    pub(crate) core: Rc<Core<B>>,
}

impl<B: Body> Clone for Vfs<B> {
    fn clone(&self) -> Self {
        let core = Rc::clone(&self.core);
        Self { core }
    }
}

pub(crate) type NodeOf<B> = Node<<B as Body>::Private>;
type Shared<B> = Rc<NodeOf<B>>;

/// An entry of an eviction queue: an inode and its ticket. The entry is valid only while the inode
/// still has this ticket, since the number may belong to another file by then.
pub(crate) type Turn = (Ino, u64);

enum Entry<P> {
    Ready(Rc<Node<P>>),
    Busy(Rc<Signal>),
}

pub(crate) struct Core<B: Body> {
    /// Weak reference to the core, for the tasks that it spawns.
    pub(crate) me: Weak<Self>,
    pub(crate) sim: Sim,
    pub(crate) body: B,
    pub(crate) config: CacheConfig,
    pub(crate) clock: Clock,
    pub(crate) compute: Compute,
    nodes: RefCell<Radix<Entry<B::Private>>>,
    resident: Cell<usize>,
    unused: RefCell<VecDeque<Turn>>,
    tickets: Cell<u64>,
    /// Unlinked inodes that a call still used when their last reference was dropped.
    orphans: RefCell<Vec<Ino>>,
    pub(crate) pool: RefCell<Pool>,
    pub(crate) stats: Cell<CacheStats>,
    pub(crate) dirty: Cell<u64>,
    pub(crate) writing: Cell<u64>,
    /// Dirty inodes, ordered by the time since which they have been dirty.
    pub(crate) dirty_nodes: RefCell<BTreeSet<(Ns, Ino)>>,
    pub(crate) next_batch: Cell<u64>,
    pub(crate) flusher: crate::writeback::Flusher,
    /// Notified whenever the number of dirty or written pages falls.
    pub(crate) progress: Signal,
    /// Write-back failures of all files of the mount.
    pub(crate) failures: Failures,
    /// Calls of `sync` or `syncfs` in progress.
    pub(crate) forces: Cell<u32>,
    pub(crate) files: RefCell<Vec<Slot<B>>>,
    pub(crate) free_files: RefCell<Vec<u32>>,
    /// Held exclusively by a rename between two directories.
    pub(crate) moves: RwLock,
    pub(crate) name_count: Cell<usize>,
    pub(crate) named: RefCell<VecDeque<Turn>>,
    pub(crate) waits: Waits,
    processes: Cell<u64>,
    pub(crate) observer: RefCell<Option<Rc<dyn Observer>>>,
}

/// A slot of the table of open files; `generation` tells a stale handle from a live one.
pub(crate) struct Slot<B: Body> {
    pub(crate) generation: u32,
    pub(crate) file: Option<Rc<OpenFile<B::Private>>>,
}

impl<B: Body> Vfs<B> {
    /// Mounts `body` under a page cache set up by `config`. `clock` stamps files; `compute` charges
    /// calls for their processor time.
    #[must_use]
    pub fn mount(sim: &Sim, body: B, config: CacheConfig, clock: Clock, compute: Compute) -> Self {
        let pages = (config.memory.0 / PAGE).max(64) as usize;
        let core = Rc::new_cyclic(|me| Core {
            me: Weak::clone(me),
            sim: sim.clone(),
            body,
            config,
            clock,
            compute,
            nodes: RefCell::default(),
            resident: Cell::new(0),
            unused: RefCell::default(),
            tickets: Cell::new(0),
            orphans: RefCell::default(),
            pool: RefCell::new(Pool::new(pages)),
            stats: Cell::default(),
            dirty: Cell::new(0),
            writing: Cell::new(0),
            dirty_nodes: RefCell::default(),
            next_batch: Cell::new(0),
            flusher: crate::writeback::Flusher::default(),
            progress: Signal::default(),
            failures: Failures::default(),
            forces: Cell::new(0),
            files: RefCell::default(),
            free_files: RefCell::default(),
            moves: RwLock::new(sim),
            name_count: Cell::new(0),
            named: RefCell::default(),
            waits: Waits::default(),
            processes: Cell::new(0),
            observer: RefCell::default(),
        });
        Self { core }
    }

    /// The file system below the cache.
    #[must_use]
    pub fn body(&self) -> &B {
        &self.core.body
    }

    /// The simulation kernel on which the mount runs.
    #[must_use]
    pub fn sim(&self) -> &Sim {
        &self.core.sim
    }

    /// Inode number of the root directory.
    #[must_use]
    pub fn root(&self) -> Ino {
        self.core.body.root()
    }

    /// Counters of the page cache since the mount, with the present numbers of cached, dirty and
    /// writing pages.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        CacheStats {
            cached: self.core.pool.borrow().used as u64,
            dirty: self.core.dirty.get(),
            writing: self.core.writing.get(),
            ..self.core.stats.get()
        }
    }

    /// Drops `times` references to `ino` that `lookup`, `create` and similar calls returned.
    pub async fn forget(&self, ino: Ino, times: u64) {
        if let Some(node) = self.core.ready(ino) {
            node.lookups.set(node.lookups.get().saturating_sub(times));
            self.core.put(node).await;
        }
    }

    /// Drops every clean page, every cached name, and every inode that is not in use.
    ///
    /// # Errors
    /// `EIO` if an inode could not be evicted.
    pub async fn drop_caches(&self) -> Result<()> {
        self.core.drop_clean_pages();
        self.core.drop_names();
        let unused = std::mem::take(&mut *self.core.unused.borrow_mut());
        for turn in unused {
            if let Some(node) = self.core.called(turn) {
                self.core.let_go_or_queue(node).await?;
            }
        }
        Ok(())
    }

    /// Writes all dirty state back and leaves the medium clean. Files that are still open must not
    /// be used afterwards.
    ///
    /// # Errors
    /// `EIO` or `ENOSPC` if a write-back failed.
    pub async fn unmount(&self) -> Result<()> {
        self.core.sync_all().await?;
        self.drop_caches().await?;
        self.core.retry_orphans().await;
        self.core.flusher.stop(&self.core.sim);
        self.core.body.unmount().await
    }

    /// Panics unless the invariants of the cache hold.
    ///
    /// # Panics
    /// If an invariant is violated.
    pub fn check(&self) {
        let (used, dirty, writing) = self.core.pool.borrow().count();
        assert_eq!(used, self.core.pool.borrow().used, "frames in use");
        assert_eq!(dirty, self.core.dirty.get(), "dirty frames");
        assert_eq!(writing, self.core.writing.get(), "frames under write-back");
        let (mut pages, mut tagged, mut key) = (0, 0, 0);
        let nodes = self.core.nodes.borrow();
        while let Some((ino, entry)) = nodes.next(key) {
            key = ino + 1;
            if let Entry::Ready(node) = entry {
                let (all, dirty) = self.core.check_pages(node);
                (pages, tagged) = (pages + all, tagged + dirty);
            }
        }
        assert_eq!(pages, used, "every frame belongs to an inode in memory");
        assert_eq!(tagged, dirty, "every dirty frame is tagged");
    }
}

impl<B: Body> Core<B> {
    /// Timestamp for changes made at this instant.
    #[inline]
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.at(self.sim.now())
    }

    /// Attributes of an inode as callers see them: times as the medium can hold them.
    #[inline]
    pub(crate) fn told(&self, node: &NodeOf<B>) -> Attr {
        let (attr, times) = (node.attr(), self.body.times());
        Attr {
            atime: times.hold(attr.atime),
            mtime: times.hold(attr.mtime),
            ctime: times.hold(attr.ctime),
            ..attr
        }
    }

    /// The number of a new process, from 1.
    pub(crate) fn next_process(&self) -> u64 {
        self.processes.set(self.processes.get() + 1);
        self.processes.get()
    }

    /// Charges the current task `span` of processor time.
    #[inline]
    pub(crate) async fn pay(&self, span: Ns) {
        self.compute.pay(&self.sim, span).await;
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut CacheStats)) {
        let mut stats = self.stats.get();
        change(&mut stats);
        self.stats.set(stats);
    }

    /// The inode, if it is in memory and neither being loaded nor evicted.
    #[inline]
    pub(crate) fn ready(&self, ino: Ino) -> Option<Shared<B>> {
        match self.nodes.borrow().get(ino.0) {
            Some(Entry::Ready(node)) => Some(Rc::clone(node)),
            _ => None,
        }
    }

    /// Returns an inode, loaded from the medium if it is not in memory.
    pub(crate) async fn node(&self, ino: Ino) -> Result<Shared<B>> {
        if let Some(node) = self.ready(ino) {
            return Ok(node);
        }
        if let Some(node) = self.claim(ino).await {
            return Ok(node);
        }
        let loaded = self.body.load(ino).await;
        let node = self.seat(ino, loaded.map(|inode| Node::new(&self.sim, inode)))?;
        self.shrink().await;
        Ok(node)
    }

    /// Caches an inode that the body has just created.
    pub(crate) async fn adopt(&self, made: Inode<B::Private>) -> Result<Shared<B>> {
        let ino = made.ino;
        // An evicted inode may still be holding this number as busy. A task that waited for that
        // eviction with an old name may have loaded the new inode first.
        if let Some(node) = self.claim(ino).await {
            return Ok(node);
        }
        self.seat(ino, Ok(Node::new(&self.sim, made)))
    }

    /// Waits until `ino` is neither being loaded nor evicted. Returns the inode if it is in memory,
    /// or marks the number busy; the caller must then call `seat`.
    async fn claim(&self, ino: Ino) -> Option<Shared<B>> {
        loop {
            let busy = match self.nodes.borrow().get(ino.0) {
                Some(Entry::Ready(node)) => return Some(Rc::clone(node)),
                Some(Entry::Busy(signal)) => Some(Rc::clone(signal)),
                None => None,
            };
            let Some(signal) = busy else { break };
            signal.wait(&self.sim).await;
        }
        let busy = Entry::Busy(Rc::default());
        self.nodes.borrow_mut().insert(ino.0, busy);
        None
    }

    /// Replaces the busy mark of `claim` by the loaded inode, or removes it on error, and wakes
    /// waiters.
    fn seat(&self, ino: Ino, outcome: Result<Shared<B>>) -> Result<Shared<B>> {
        let mut nodes = self.nodes.borrow_mut();
        let busy = nodes.remove(ino.0);
        if let Ok(node) = &outcome {
            nodes.insert(ino.0, Entry::Ready(Rc::clone(node)));
            self.resident.set(self.resident.get() + 1);
            self.queue(node);
        }
        drop(nodes);
        if let Some(Entry::Busy(signal)) = busy {
            signal.notify(&self.sim);
        }
        let most = 2 * self.resident.get() + 64;
        if self.unused.borrow().len().max(self.named.borrow().len()) > most {
            self.tidy();
        }
        outcome
    }

    /// Removes stale turns from both eviction queues.
    fn tidy(&self) {
        let has = |ino, of: fn(&NodeOf<B>) -> u64| self.ready(ino).map(|node| of(&node));
        let mut unused = self.unused.borrow_mut();
        unused.retain(|&(ino, ticket)| has(ino, |node| node.queued.get()) == Some(ticket));
        let mut named = self.named.borrow_mut();
        named.retain(|&(ino, ticket)| has(ino, |dir| dir.names_queued.get()) == Some(ticket));
    }

    /// A ticket that no turn had before.
    pub(crate) fn ticket(&self) -> u64 {
        self.tickets.set(self.tickets.get() + 1);
        self.tickets.get()
    }

    /// Appends `node` to the eviction queue, unless it is queued already.
    fn queue(&self, node: &NodeOf<B>) {
        if node.queued.get() == 0 {
            node.queued.set(self.ticket());
            let turn = (node.ino(), node.queued.get());
            self.unused.borrow_mut().push_back(turn);
        }
    }

    /// The inode of a turn that is still valid; takes the inode off the queue.
    fn called(&self, (ino, ticket): Turn) -> Option<Shared<B>> {
        let node = self.ready(ino)?;
        if node.queued.get() != ticket {
            return None;
        }
        node.queued.set(0);
        Some(node)
    }

    /// Called after a reference to `node` was dropped: frees the inode if it has no name left, and
    /// keeps the number of inodes in memory within its limit.
    pub(crate) async fn put(&self, node: Shared<B>) {
        if !self.put_at_once(&node) {
            // Boxed: the rare path must not enlarge every future.
            Box::pin(self.put_slowly(node)).await;
        }
    }

    /// Fast path of `put`, taken if no inode has to be evicted; returns whether it was taken.
    fn put_at_once(&self, node: &NodeOf<B>) -> bool {
        let crowded = self.resident.get() > self.config.inodes as usize;
        let simple = node.attr().nlink > 0 && self.orphans.borrow().is_empty() && !crowded;
        if simple {
            self.queue(node);
        }
        simple
    }

    async fn put_slowly(&self, node: Shared<B>) {
        if node.attr().nlink == 0 {
            self.let_orphan_go(node).await;
        } else {
            self.queue(&node);
        }
        if !self.orphans.borrow().is_empty() {
            self.retry_orphans().await;
        }
        self.shrink().await;
    }

    /// Retries the eviction of orphans that were in use.
    async fn retry_orphans(&self) {
        let orphans = std::mem::take(&mut *self.orphans.borrow_mut());
        for ino in orphans {
            let Some(node) = self.ready(ino) else {
                continue;
            };
            self.let_orphan_go(node).await;
        }
    }

    /// Evicts, and so frees, an inode without a name. An inode that is open or referred to is freed
    /// by a later `put`; one that a call is using is kept in `orphans`.
    async fn let_orphan_go(&self, node: Shared<B>) {
        let ino = node.ino();
        let kept = node.opens.get() > 0 || node.lookups.get() > 0;
        // The number may be that of another file by now.
        let named = node.attr().nlink > 0;
        if !kept && !named && self.let_go(node).await == Ok(false) {
            self.orphans.borrow_mut().push(ino);
        }
    }

    /// Evicts the inodes that have been unused for longest, up to 16 turns a call.
    async fn shrink(&self) {
        for _ in 0..16 {
            if self.resident.get() <= self.config.inodes as usize {
                return;
            }
            let Some(turn) = self.unused.borrow_mut().pop_front() else {
                return;
            };
            let Some(node) = self.called(turn) else {
                continue;
            };
            if node.opens.get() > 0 || node.lookups.get() > 0 {
                continue;
            }
            if node.dirty.get() > 0 {
                self.flusher.kick(&self.sim);
            }
            // An inode that could not be evicted now is queued again.
            let _ = self.let_go_or_queue(node).await;
        }
    }

    /// Evicts `node`, or queues it again.
    async fn let_go_or_queue(&self, node: Shared<B>) -> Result<()> {
        let ino = node.ino();
        let outcome = self.let_go(node).await;
        if outcome != Ok(true)
            && let Some(node) = self.ready(ino)
        {
            self.queue(&node);
        }
        outcome.map(drop)
    }

    /// Evicts `node` if it is unused. Returns false if it is in use, or has a name and dirty pages.
    async fn let_go(&self, node: Shared<B>) -> Result<bool> {
        let ino = node.ino();
        let held = Rc::strong_count(&node) > 2 || node.opens.get() > 0 || node.lookups.get() > 0;
        let worthless = node.attr().nlink == 0;
        let pending = node.dirty.get() > 0 && !worthless;
        if held || pending || self.is_busy(&node) || ino == self.body.root() {
            return Ok(false);
        }
        let signal = Rc::new(Signal::default());
        let busy = Entry::Busy(Rc::clone(&signal));
        self.nodes.borrow_mut().insert(ino.0, busy);
        self.resident.set(self.resident.get() - 1);
        self.forget_pages(&node, 0);
        self.forget_names(&node);
        let result = self.body.evict(&node.inode).await;
        self.nodes.borrow_mut().remove(ino.0);
        signal.notify(&self.sim);
        result.map(|()| true)
    }

    /// The inode of a directory, or `ENOTDIR`.
    pub(crate) async fn directory(&self, ino: Ino) -> Result<Shared<B>> {
        let node = self.node(ino).await?;
        if node.attr().kind == FileKind::Directory {
            return Ok(node);
        }
        Err(Errno::ENOTDIR)
    }
}
