//! Nodes in memory, and the ways from inodes to pages.
//!
//! Invariants: a node is in memory at most once, and a dirty or referenced node stays; a node
//! read from the medium was checked: its footer has the requested number, and an inode is one
//! that the format can have.

use crate::format::nat::NatEntry;
use crate::format::path::{self, Step, Way};
use crate::format::{Block, NEW_ADDR, node};
use crate::fs::{Core, damaged};
use crate::persist::{MainArea, Persist};
use host::Purpose;
use nand::Payload;
use sim::{Semaphore, Sim};
use std::cell::{Cell, OnceCell, Ref, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use vfs::{Errno, Result};

/// Nodes in memory before clean ones are let go: 64 MiB, a choice of ours.
const MOST: usize = 16_384;

/// A node in memory.
pub(crate) struct NodeBuf {
    pub(crate) nid: u32,
    pub(crate) ino: u32,
    bytes: RefCell<Box<Block>>,
    pub(crate) dirty: Cell<bool>,
    turn: OnceCell<Semaphore>,
}

impl NodeBuf {
    pub(crate) fn new(bytes: Box<Block>) -> Self {
        Self {
            nid: node::NID.get(&bytes[..]),
            ino: node::INO.get(&bytes[..]),
            bytes: RefCell::new(bytes),
            dirty: Cell::new(false),
            turn: OnceCell::new(),
        }
    }

    /// Lock of an inode, held while addresses of the file's pages are read or changed.
    pub(crate) fn turn(&self, sim: &Sim) -> &Semaphore {
        self.turn.get_or_init(|| Semaphore::new(sim, 1))
    }

    /// Bytes of the node; the borrow must not be held across an await.
    pub(crate) fn bytes(&self) -> Ref<'_, Block> {
        Ref::map(self.bytes.borrow(), |bytes| &**bytes)
    }

    /// Changes its bytes; the caller makes it dirty.
    pub(crate) fn edit<T>(&self, edit: impl FnOnce(&mut Block) -> T) -> T {
        edit(&mut self.bytes.borrow_mut())
    }

    /// Address `at` of the node, 0 if it has none.
    pub(crate) fn addr(&self, at: usize) -> u32 {
        node::addr(&self.bytes(), at)
    }
}

/// All nodes in memory.
#[derive(Default)]
pub(crate) struct NodeCache {
    nodes: BTreeMap<u32, Rc<NodeBuf>>,
    /// Dirty ones: the inode and the node.
    pub(crate) dirty: BTreeSet<(u32, u32)>,
    /// Nodes in memory before clean ones are looked for again.
    limit: usize,
}

impl NodeCache {
    /// The node of this number, if it is in memory.
    pub(crate) fn get(&self, nid: u32) -> Option<Rc<NodeBuf>> {
        self.nodes.get(&nid).cloned()
    }

    /// Puts a node in; one that is there stays. Gives the one that is there then.
    pub(crate) fn insert(&mut self, buf: NodeBuf) -> Rc<NodeBuf> {
        if self.nodes.len() > self.limit.max(MOST) {
            self.nodes
                .retain(|_, buf| buf.dirty.get() || Rc::strong_count(buf) > 1);
            self.limit = self.nodes.len() + MOST / 8;
        }
        let entry = self.nodes.entry(buf.nid);
        Rc::clone(entry.or_insert_with(|| Rc::new(buf)))
    }

    /// Drops a node from memory, dirty or not.
    pub(crate) fn remove(&mut self, nid: u32) {
        if let Some(buf) = self.nodes.remove(&nid) {
            self.dirty.remove(&(buf.ino, nid));
        }
    }

    /// Dirty nodes of a file.
    pub(crate) fn dirty_of(&self, ino: u32) -> Vec<Rc<NodeBuf>> {
        let range = self.dirty.range((ino, 0)..=(ino, u32::MAX));
        range.filter_map(|(_, nid)| self.get(*nid)).collect()
    }
}

/// Result of a search for the address of a page.
pub(crate) enum Found {
    /// In this node, as its address of this number.
    At(Rc<NodeBuf>, usize),
    /// Nowhere; the pages before this one are not either.
    Gap(u64),
}

/// Pages below a step that is not there, and how many of them come before the page.
fn below(way: &Way, step: usize) -> (u64, u64) {
    let (each, mut pages, mut before) = (node::PER_NODE as u64, 1, 0);
    let after = way.steps()[step + 1..].iter().rev().map(|step| step.at);
    for at in std::iter::once(way.at).chain(after) {
        before += at as u64 * pages;
        pages *= each;
    }
    (pages, before)
}

/// The node that was read where `entry` leads.
///
/// # Errors
/// `EUCLEAN` if it is not the node that it should be; `EIO`.
pub(crate) fn checked_node(nid: u32, entry: NatEntry, payload: &Payload) -> Result<Box<Block>> {
    let mut bytes = crate::format::blank();
    if !payload.copy_to(0, &mut bytes[..]) {
        return Err(Errno::EIO);
    }
    let says = (node::NID.get(&bytes[..]), node::INO.get(&bytes[..]));
    let sound =
        says == (nid, entry.ino) && (!node::is_inode(&bytes) || node::is_sound_inode(&bytes));
    damaged(sound.then_some(bytes))
}

impl<P: Persist> Core<P> {
    /// A node has changed.
    pub(crate) fn soil(&self, buf: &NodeBuf) {
        if !buf.dirty.replace(true) {
            self.nodes.borrow_mut().dirty.insert((buf.ino, buf.nid));
        }
        self.note_change();
    }

    /// A node from the medium.
    ///
    /// # Errors
    /// `EUCLEAN` if it is not the node that it should be; `EIO`.
    async fn read_node(&self, nid: u32, entry: NatEntry) -> Result<Box<Block>> {
        if !self.geometry.is_main(entry.addr) {
            return Err(Errno::EUCLEAN);
        }
        let mut payload = [Payload::Zero];
        let purpose = if nid == entry.ino {
            Purpose::Inode
        } else {
            Purpose::Pointer
        };
        let read = self
            .persist
            .main()
            .read(entry.addr, &mut payload, self.who(purpose));
        read.await?;
        checked_node(nid, entry, &payload[0])
    }

    /// The node of this number.
    ///
    /// # Errors
    /// `ENOENT` if the number is free; `EUCLEAN`, `EIO`.
    pub(crate) async fn node(&self, nid: u32) -> Result<Rc<NodeBuf>> {
        let known = self.nodes.borrow().get(nid);
        if let Some(buf) = known {
            return Ok(buf);
        }
        let entry = self.nat_entry(nid).await?;
        if entry.addr == 0 {
            return Err(Errno::ENOENT);
        }
        let bytes = self.read_node(nid, entry).await?;
        Ok(self.nodes.borrow_mut().insert(NodeBuf::new(bytes)))
    }

    /// The node at `step` below a node of the file `ino`.
    async fn child(&self, nid: u32, ino: u32, step: Step) -> Result<Rc<NodeBuf>> {
        let found = self.node(nid).await;
        let buf = found.map_err(|e| {
            if e == Errno::ENOENT {
                Errno::EUCLEAN
            } else {
                e
            }
        })?;
        let fits = buf.ino == ino && node::offset_of(&buf.bytes()) == step.offset;
        damaged((fits && nid != ino).then_some(buf))
    }

    /// Makes a node of the file of `inode`, which has this place in it.
    pub(crate) async fn make_node(&self, inode: &NodeBuf, offset: u32) -> Result<Rc<NodeBuf>> {
        let nid = self.take_nid().await?;
        if let Err(error) = self.take_block() {
            self.nat.borrow_mut().give_back(nid);
            return Err(error);
        }
        let buf = self.add_node(node::fresh(nid, inode.ino, offset));
        self.add_blocks(inode, 1);
        Ok(buf)
    }

    /// A new node comes to memory, whose number and block were taken.
    pub(crate) fn add_node(&self, bytes: Box<Block>) -> Rc<NodeBuf> {
        let buf = self.nodes.borrow_mut().insert(NodeBuf::new(bytes));
        let mut nat = self.nat.borrow_mut();
        let version = nat.get(buf.nid).unwrap_or_default().version;
        let entry = NatEntry {
            version,
            ino: buf.ino,
            addr: NEW_ADDR,
        };
        nat.set(buf.nid, entry);
        drop(nat);
        self.count(|counts| counts.nodes += 1);
        self.soil(&buf);
        buf
    }

    /// Frees a node and its number.
    pub(crate) async fn free_node(&self, nid: u32) -> Result<()> {
        let entry = self.nat_entry(nid).await?;
        self.nodes.borrow_mut().remove(nid);
        self.nat.borrow_mut().free(nid);
        self.give_block(entry.addr);
        self.count(|counts| counts.nodes = counts.nodes.saturating_sub(1));
        self.note_change();
        Ok(())
    }

    /// The way to a page of the file of `inode`.
    fn way(inode: &NodeBuf, page: u64) -> Result<Way> {
        path::way(page, node::addrs(&inode.bytes())).ok_or(Errno::EFBIG)
    }

    /// Finds the node and slot that hold the address of page `page`, or the first page after
    /// the gap if a node on the way is missing.
    pub(crate) async fn find(&self, inode: &Rc<NodeBuf>, page: u64) -> Result<Found> {
        let way = Self::way(inode, page)?;
        let mut buf = Rc::clone(inode);
        for (depth, step) in way.steps().iter().enumerate() {
            let nid = node::nid(&buf.bytes(), step.at);
            if nid == 0 {
                let (pages, before) = below(&way, depth);
                return Ok(Found::Gap(page - before + pages));
            }
            buf = self.child(nid, inode.ino, *step).await?;
        }
        Ok(Found::At(buf, way.at))
    }

    /// Finds the node and slot of page `page` like [`Core::find`], and makes missing nodes.
    pub(crate) async fn find_or_make(
        &self,
        inode: &Rc<NodeBuf>,
        page: u64,
    ) -> Result<(Rc<NodeBuf>, usize)> {
        let way = Self::way(inode, page)?;
        let mut buf = Rc::clone(inode);
        for step in way.steps() {
            let nid = node::nid(&buf.bytes(), step.at);
            buf = if nid == 0 {
                let made = self.make_node(inode, step.offset).await?;
                buf.edit(|bytes| node::set_nid(bytes, step.at, made.nid));
                self.soil(&buf);
                made
            } else {
                self.child(nid, inode.ino, *step).await?
            };
        }
        Ok((buf, way.at))
    }

    /// Parent of the node that holds the address of `page`, and the slot of that node in it.
    /// `None` if the inode holds the address, or if a node is missing and `make` is false.
    pub(crate) async fn parent_of(
        &self,
        inode: &Rc<NodeBuf>,
        page: u64,
        make: bool,
    ) -> Result<Option<(Rc<NodeBuf>, usize)>> {
        let way = Self::way(inode, page)?;
        let Some((last, above)) = way.steps().split_last() else {
            return Ok(None);
        };
        let mut buf = Rc::clone(inode);
        for step in above {
            let nid = node::nid(&buf.bytes(), step.at);
            buf = match nid {
                0 if !make => return Ok(None),
                0 => {
                    let made = self.make_node(inode, step.offset).await?;
                    buf.edit(|bytes| node::set_nid(bytes, step.at, made.nid));
                    self.soil(&buf);
                    made
                }
                nid => self.child(nid, inode.ino, *step).await?,
            };
        }
        Ok(Some((buf, last.at)))
    }

    /// The address of a page; 0 if it has none.
    pub(crate) async fn addr_of(&self, inode: &Rc<NodeBuf>, page: u64) -> Result<u32> {
        let found = self.find(inode, page).await?;
        let addr = match found {
            Found::At(buf, at) => buf.addr(at),
            Found::Gap(_) => 0,
        };
        let known = addr == 0 || addr == NEW_ADDR || self.geometry.is_main(addr);
        damaged(known.then_some(addr))
    }

    /// Frees the pages of `pages`, but for the nodes that lead to them.
    pub(crate) async fn free_pages(
        &self,
        inode: &Rc<NodeBuf>,
        pages: std::ops::Range<u64>,
    ) -> Result<()> {
        let mut page = pages.start;
        while page < pages.end && page * 4096 < path::SIZE_MAX {
            match self.find(inode, page).await? {
                Found::Gap(next) => page = next,
                Found::At(buf, at) => {
                    let here = node::addrs(&buf.bytes()) - at;
                    let here = (pages.end - page).min(here as u64);
                    let freed = self.free_addrs(&buf, at..at + here as usize);
                    self.add_blocks(inode, -freed);
                    page += here;
                }
            }
        }
        Ok(())
    }

    /// Frees the blocks at the addresses `range` of a node; returns their number.
    pub(crate) fn free_addrs(&self, buf: &NodeBuf, range: std::ops::Range<usize>) -> i64 {
        let mut freed = 0;
        for at in range {
            let addr = buf.addr(at);
            if addr != 0 {
                self.give_block(addr);
                buf.edit(|bytes| node::set_addr(bytes, at, 0));
                freed += 1;
            }
        }
        if freed > 0 {
            self.soil(buf);
        }
        freed
    }

    /// Frees all pages from `from` on, and nodes that lead to nothing else.
    pub(crate) async fn cut_pages(&self, inode: &Rc<NodeBuf>, from: u64) -> Result<()> {
        self.free_pages(inode, from..u64::MAX).await?;
        let mut page = from;
        while page * 4096 < path::SIZE_MAX {
            match self.find(inode, page).await? {
                Found::Gap(next) => page = next,
                Found::At(buf, at) => {
                    page += (node::addrs(&buf.bytes()) - at) as u64;
                    if at == 0 && buf.nid != inode.nid {
                        let parent = self.parent_of(inode, page - 1, false).await?;
                        let (parent, slot) = damaged(parent)?;
                        self.drop_child(inode, &parent, slot).await?;
                    }
                }
            }
        }
        for slot in 2..5 {
            let nid = node::nid(&inode.bytes(), slot);
            if nid != 0 {
                self.drop_empty(inode, slot, nid).await?;
            }
        }
        Ok(())
    }

    /// Frees the node that number `slot` of `parent` leads to.
    async fn drop_child(&self, inode: &NodeBuf, parent: &NodeBuf, slot: usize) -> Result<()> {
        let nid = node::nid(&parent.bytes(), slot);
        self.free_node(nid).await?;
        // Recovery adds nodes, and takes none away.
        self.need_whole(inode.nid);
        parent.edit(|bytes| node::set_nid(bytes, slot, 0));
        self.soil(parent);
        self.add_blocks(inode, -1);
        Ok(())
    }

    /// Frees the indirect node at `slot` of an inode if it leads to nothing, and those
    /// below it that do.
    async fn drop_empty(&self, inode: &Rc<NodeBuf>, slot: usize, nid: u32) -> Result<()> {
        let buf = self.node(nid).await?;
        damaged((buf.ino == inode.ino && nid != inode.ino).then_some(()))?;
        let leads = |buf: &NodeBuf| {
            let bytes = buf.bytes();
            let slots = (0..node::PER_NODE).filter(|&slot| node::nid(&bytes, slot) != 0);
            slots.collect::<Vec<_>>()
        };
        if slot == 4 {
            for below in leads(&buf) {
                let child = node::nid(&buf.bytes(), below);
                let child = self.node(child).await?;
                if leads(&child).is_empty() {
                    self.drop_child(inode, &buf, below).await?;
                }
            }
        }
        if leads(&buf).is_empty() {
            self.drop_child(inode, inode, slot).await?;
        }
        Ok(())
    }
}
