//! The mounted file system: what its calls share.
//!
//! Invariants: an inode is in `nodes` exactly while it is in memory, and being
//! loaded or let go it is there as `Busy`, so two tasks never have two copies of
//! it; `unused` holds inodes that nobody outside refers to, oldest first.

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

/// A place in a line: an inode and its ticket. It counts only while the inode has
/// this ticket, as the number may be another file's by now.
pub(crate) type Turn = (Ino, u64);

enum Entry<P> {
    Ready(Rc<Node<P>>),
    Busy(Rc<Signal>),
}

pub(crate) struct Core<B: Body> {
    /// Itself, for the tasks that it starts.
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
    /// Unlinked inodes that were still held when their last reference went.
    orphans: RefCell<Vec<Ino>>,
    pub(crate) pool: RefCell<Pool>,
    pub(crate) stats: Cell<CacheStats>,
    pub(crate) dirty: Cell<u64>,
    pub(crate) writing: Cell<u64>,
    /// Dirty inodes by the time since when.
    pub(crate) dirty_nodes: RefCell<BTreeSet<(Ns, Ino)>>,
    pub(crate) next_batch: Cell<u64>,
    pub(crate) flusher: crate::writeback::Flusher,
    /// Write-back went on.
    pub(crate) progress: Signal,
    /// Write-back of any file failed.
    pub(crate) failures: Failures,
    /// How many calls are making everything durable.
    pub(crate) forces: Cell<u32>,
    pub(crate) files: RefCell<Vec<Slot<B>>>,
    pub(crate) free_files: RefCell<Vec<u32>>,
    /// Held while a directory moves to another one.
    pub(crate) moves: RwLock,
    pub(crate) name_count: Cell<usize>,
    pub(crate) named: RefCell<VecDeque<Turn>>,
    pub(crate) waits: Waits,
    processes: Cell<u64>,
    pub(crate) observer: RefCell<Option<Rc<dyn Observer>>>,
}

/// A place for an open file.
pub(crate) struct Slot<B: Body> {
    pub(crate) generation: u32,
    pub(crate) file: Option<Rc<OpenFile<B::Private>>>,
}

impl<B: Body> Vfs<B> {
    /// Takes `body` into use. `compute` gives calls their processor time.
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

    /// The file system below.
    #[must_use]
    pub fn body(&self) -> &B {
        &self.core.body
    }

    /// The kernel that it runs on.
    #[must_use]
    pub fn sim(&self) -> &Sim {
        &self.core.sim
    }

    /// The root directory.
    #[must_use]
    pub fn root(&self) -> Ino {
        self.core.body.root()
    }

    /// What the cache has done so far.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        CacheStats {
            cached: self.core.pool.borrow().used as u64,
            dirty: self.core.dirty.get(),
            writing: self.core.writing.get(),
            ..self.core.stats.get()
        }
    }

    /// Gives back `times` references that `lookup`, `create` and their like gave.
    pub async fn forget(&self, ino: Ino, times: u64) {
        if let Some(node) = self.core.ready(ino) {
            node.lookups.set(node.lookups.get().saturating_sub(times));
            self.core.put(node).await;
        }
    }

    /// Drops every clean page, every name, and every inode that is not in use.
    ///
    /// # Errors
    /// `EIO`.
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

    /// Writes everything back and leaves the medium clean. Files that are still
    /// open must not be used any more.
    ///
    /// # Errors
    /// `EIO`, `ENOSPC` if something could not be written back.
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
    /// If one does not.
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
    /// What files are stamped with.
    #[inline]
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.at(self.sim.now())
    }

    /// The attributes of an inode as they are told: times as the medium keeps them.
    #[inline]
    pub(crate) fn told(&self, node: &NodeOf<B>) -> Attr {
        let (attr, grain) = (node.attr(), self.body.time_grain());
        Attr {
            atime: attr.atime.at_grain(grain),
            mtime: attr.mtime.at_grain(grain),
            ctime: attr.ctime.at_grain(grain),
            ..attr
        }
    }

    /// The number of a new process, from 1.
    pub(crate) fn next_process(&self) -> u64 {
        self.processes.set(self.processes.get() + 1);
        self.processes.get()
    }

    /// Pays for a call.
    #[inline]
    pub(crate) async fn pay(&self, span: Ns) {
        self.compute.pay(&self.sim, span).await;
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut CacheStats)) {
        let mut stats = self.stats.get();
        change(&mut stats);
        self.stats.set(stats);
    }

    /// An inode that is in memory.
    #[inline]
    pub(crate) fn ready(&self, ino: Ino) -> Option<Shared<B>> {
        match self.nodes.borrow().get(ino.0) {
            Some(Entry::Ready(node)) => Some(Rc::clone(node)),
            _ => None,
        }
    }

    /// An inode, from the medium if it is not in memory.
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

    /// Takes in an inode that the body has just made.
    pub(crate) async fn adopt(&self, made: Inode<B::Private>) -> Result<Shared<B>> {
        let ino = made.ino;
        // The number may still be on its way out after its last file; and who
        // waited for that with an old name in hand may have loaded the new one.
        if let Some(node) = self.claim(ino).await {
            return Ok(node);
        }
        self.seat(ino, Ok(Node::new(&self.sim, made)))
    }

    /// Waits until nobody loads or lets go of `ino`; then gives it if it is in
    /// memory, or marks it as busy for the caller to seat.
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

    /// Ends what `claim` began.
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

    /// Takes inodes that are not in memory any more out of the lines.
    fn tidy(&self) {
        let has = |ino, of: fn(&NodeOf<B>) -> u64| self.ready(ino).map(|node| of(&node));
        let mut unused = self.unused.borrow_mut();
        unused.retain(|&(ino, ticket)| has(ino, |node| node.queued.get()) == Some(ticket));
        let mut named = self.named.borrow_mut();
        named.retain(|&(ino, ticket)| has(ino, |dir| dir.names_queued.get()) == Some(ticket));
    }

    /// A number that no turn had before.
    pub(crate) fn ticket(&self) -> u64 {
        self.tickets.set(self.tickets.get() + 1);
        self.tickets.get()
    }

    /// Puts `node` at the end of the line of those to be let go, if it is not in
    /// it.
    fn queue(&self, node: &NodeOf<B>) {
        if node.queued.get() == 0 {
            node.queued.set(self.ticket());
            let turn = (node.ino(), node.queued.get());
            self.unused.borrow_mut().push_back(turn);
        }
    }

    /// The inode whose turn it is, if the turn counts; it has none then.
    fn called(&self, (ino, ticket): Turn) -> Option<Shared<B>> {
        let node = self.ready(ino)?;
        if node.queued.get() != ticket {
            return None;
        }
        node.queued.set(0);
        Some(node)
    }

    /// Is called when a reference to `node` has gone: frees it if it has no name
    /// left, and keeps the number of inodes in memory within its limit.
    pub(crate) async fn put(&self, node: Shared<B>) {
        if !self.put_at_once(&node) {
            // Boxed, as what is rare shall not make every future large.
            Box::pin(self.put_slowly(node)).await;
        }
    }

    /// Does that if there is nothing to wait for.
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

    /// Tries again to free what was still held.
    async fn retry_orphans(&self) {
        let orphans = std::mem::take(&mut *self.orphans.borrow_mut());
        for ino in orphans {
            let Some(node) = self.ready(ino) else {
                continue;
            };
            self.let_orphan_go(node).await;
        }
    }

    /// Frees an inode without a name. One that is open or referred to comes here
    /// again when that ends; one that a call just uses is kept in mind.
    async fn let_orphan_go(&self, node: Shared<B>) {
        let ino = node.ino();
        let kept = node.opens.get() > 0 || node.lookups.get() > 0;
        // The number may be that of another file by now.
        let named = node.attr().nlink > 0;
        if !kept && !named && self.let_go(node).await == Ok(false) {
            self.orphans.borrow_mut().push(ino);
        }
    }

    /// Lets the inodes go that have been unused for longest.
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
            // What cannot be let go now has its turn again.
            let _ = self.let_go_or_queue(node).await;
        }
    }

    /// Lets `node` go, or puts it at the end of the line.
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

    /// Lets `node` go from memory if nobody uses it: false if somebody does, or
    /// if it has a name and pages that are not on the medium yet.
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

    /// A directory, or the reason why it is none.
    pub(crate) async fn directory(&self, ino: Ino) -> Result<Shared<B>> {
        let node = self.node(ino).await?;
        if node.attr().kind == FileKind::Directory {
            return Ok(node);
        }
        Err(Errno::ENOTDIR)
    }
}
