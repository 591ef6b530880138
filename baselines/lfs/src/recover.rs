//! Rolling forward: a mount recovers files that were forced since the last checkpoint, from the
//! chain of nodes in the log of file nodes. Each node of the chain holds the address of the next.
//!
//! # The order
//!
//! The chain is read to its end. For each inode the newest state of its nodes counts, up to
//! its last mark. Before anything is written, all blocks of the chain and the data blocks of
//! the nodes that count are held, and the numbers of new nodes are taken. All logs move to
//! other segments, so that a power cut during recovery finds the same chain. Files are
//! recovered in the order of their last marks; then the mount makes a checkpoint.
//!
//! # Names
//!
//! A file that the checkpoint does not know is recovered with the name of its first force.
//! A file that has this name at the checkpoint loses it, and is freed with its last name: it
//! had lost the name before the force, and a rename to another name was not forced.
//!
//! Invariants: a chain has no more nodes than the medium has blocks; a recovered node leads
//! only to blocks of the main area that nothing else uses.

use crate::format::node;
use crate::format::path;
use crate::format::summary::Owner;
use crate::format::{Block, NEW_ADDR, blank};
use crate::fs::{Core, File, damaged};
use crate::nodes::NodeBuf;
use crate::persist::{Log, MainArea, Persist};
use host::Purpose;
use nand::Payload;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use vfs::{Errno, FileKind, Result};

/// A node of the chain, as read from block `addr` of the main area.
struct Link {
    addr: u32,
    bytes: Box<Block>,
}

/// Nodes of a file in the chain up to its last mark.
#[derive(Default)]
struct Marked<'a> {
    /// Index of the last mark in the chain.
    last: usize,
    /// The last state of the inode that carries the mark of a new file: its name counts.
    named: Option<&'a Link>,
    /// The newest state of each node, by node number.
    newest: BTreeMap<u32, &'a Link>,
}

/// Result of rolling forward.
#[derive(Debug, Default)]
pub(crate) struct Rolled {
    /// Inodes that were rolled forward.
    pub(crate) files: u64,
    /// Nodes of the chain that count, those of files that were not recovered included.
    pub(crate) nodes: u64,
    /// Sections that lack data of nodes of the chain. Their write pointers show which forces are
    /// incomplete, so they must not be written, reset or finished before the next checkpoint.
    pub(crate) torn: BTreeSet<u32>,
}

/// Counts of a mount's recovery; all 0 after a clean unmount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Inodes that were rolled forward.
    pub files: u64,
    /// Nodes of the chain that count: the newest state of each, up to the last mark of its
    /// inode. Includes nodes of new files that have no usable name and are dropped.
    pub nodes: u64,
    /// Inodes without a name that were freed; 0 on a read-only mount.
    pub orphans: u64,
}

impl<P: Persist> Core<P> {
    /// Frees the inodes that had no name at the last checkpoint; returns their number.
    ///
    /// # Errors
    /// `EUCLEAN` if the list of the checkpoint has a number that is not an inode's; `EIO`.
    pub(crate) async fn free_orphans(&self) -> Result<u64> {
        let orphans: Vec<u32> = self.orphans.borrow().iter().copied().collect();
        for ino in &orphans {
            let buf = self.node(*ino).await;
            let buf = buf.map_err(|e| {
                if e == Errno::ENOENT {
                    Errno::EUCLEAN
                } else {
                    e
                }
            })?;
            damaged((buf.ino == *ino && *ino > 3).then_some(()))?;
            self.delete_node(&buf).await?;
        }
        Ok(orphans.len() as u64)
    }

    /// Reads the chain: the nodes written to the log of file nodes since the last checkpoint,
    /// in the order of their writes. Ends at the first block that cannot be read or carries
    /// another stamp.
    async fn chain_of_nodes(&self) -> Result<Vec<Link>> {
        let mut addr = {
            let at = self.segments.borrow().logs[Log::WarmNode as usize].at;
            self.geometry.addr_of(at.segment, u32::from(at.at))
        };
        let (mut links, mut met) = (Vec::new(), BTreeSet::new());
        while self.geometry.is_main(addr) && met.insert(addr) {
            let mut payload = [Payload::Zero];
            let who = self.who(Purpose::Inode);
            // A block whose write the power cut off cannot be read.
            if self
                .persist
                .main()
                .read(addr, &mut payload, who)
                .await
                .is_err()
            {
                break;
            }
            let mut bytes = blank();
            if !payload[0].copy_to(0, &mut bytes[..]) {
                break;
            }
            if node::STAMP.get(&bytes[..]) != self.stamp.get() {
                break;
            }
            let next = node::NEXT.get(&bytes[..]);
            links.push(Link { addr, bytes });
            addr = next;
        }
        Ok(links)
    }

    /// Whether the medium has all data blocks that the node leads to; true where
    /// [`MainArea::has`] cannot tell.
    fn is_whole(&self, link: &Link) -> bool {
        let mut addrs = data_of(&link.bytes).into_iter();
        addrs.all(|addr| !self.geometry.is_main(addr) || self.persist.main().has(addr))
    }

    /// Rolls forward: reads the chain, holds its blocks and recovers its files.
    ///
    /// # Errors
    /// `EUCLEAN` if the chain contradicts the tables; `ENOSPC` if a log finds no segment or a
    /// file no block; `EIO`.
    pub(crate) async fn roll_forward(&self) -> Result<Rolled> {
        let links = self.chain_of_nodes().await?;
        let mut marked: BTreeMap<u32, Marked<'_>> = BTreeMap::new();
        // Inode and node numbers of nodes whose newest state lacks data on the medium. A mark
        // of an inode with such a node belongs to a force that did not complete.
        let mut torn: BTreeSet<(u32, u32)> = BTreeSet::new();
        for (at, link) in links.iter().enumerate() {
            let flag = node::FLAG.get(&link.bytes[..]);
            let ino = node::INO.get(&link.bytes[..]);
            let node = (ino, node::NID.get(&link.bytes[..]));
            if self.is_whole(link) {
                torn.remove(&node);
            } else {
                torn.insert(node);
            }
            let is_sound = torn.range((ino, 0)..=(ino, u32::MAX)).next().is_none();
            if flag & node::FSYNC != 0 && is_sound {
                let marked = marked.entry(ino).or_default();
                marked.last = at;
                if flag & node::DENTRY != 0 && node::is_inode(&link.bytes) {
                    marked.named = Some(link);
                }
            }
        }
        // The newest state of each node, up to the last mark of its inode.
        for (at, link) in links.iter().enumerate() {
            let ino = node::INO.get(&link.bytes[..]);
            let nid = node::NID.get(&link.bytes[..]);
            if let Some(marked) = marked.get_mut(&ino).filter(|marked| at <= marked.last) {
                marked.newest.insert(nid, link);
            }
        }
        let torn = self.hold_torn(&links);
        if marked.is_empty() && torn.is_empty() {
            return Ok(Rolled::default());
        }
        self.hold_all(&links, &marked).await?;
        for log in Log::ALL {
            self.go_elsewhere(log)?;
        }
        let nodes = marked.values().map(|marked| marked.newest.len() as u64);
        let nodes = nodes.sum();
        let mut in_order: Vec<_> = marked.into_iter().collect();
        in_order.sort_by_key(|(_, marked)| marked.last);
        let mut files = 0;
        for (ino, marked) in in_order {
            files += u64::from(self.recover_file(ino, &marked).await?);
        }
        Ok(Rolled { files, nodes, torn })
    }

    /// Moves the write point of `log` as [`renew`](crate::segments::Segments::renew) does.
    ///
    /// # Errors
    /// `ENOSPC` if no segment is left for the log.
    pub(crate) fn go_elsewhere(&self, log: Log) -> Result<()> {
        let chosen = self.segments.borrow_mut().renew(log);
        chosen.ok_or_else(|| self.refuse_section())
    }

    /// Holds all data blocks of nodes that lack some of them, so that a recovery after this
    /// one finds the same state; returns their sections.
    fn hold_torn(&self, links: &[Link]) -> BTreeSet<u32> {
        let mut torn = BTreeSet::new();
        for link in links.iter().filter(|link| !self.is_whole(link)) {
            let addrs = data_of(&link.bytes).into_iter();
            for addr in addrs.filter(|addr| self.geometry.is_main(*addr)) {
                let mut segments = self.segments.borrow_mut();
                segments.hold(addr);
                torn.insert(segments.section_of(self.geometry.place_of(addr).0));
            }
        }
        torn
    }

    /// Holds the blocks of the chain and the data blocks of the nodes that count, and takes
    /// the numbers of those that the checkpoint does not know.
    async fn hold_all(&self, links: &[Link], marked: &BTreeMap<u32, Marked<'_>>) -> Result<()> {
        let newest = || marked.values().flat_map(|marked| &marked.newest);
        for (&nid, _) in newest() {
            if self.nat_entry(nid).await?.addr == 0 {
                self.nat.borrow_mut().claim(nid);
            }
        }
        let mut segments = self.segments.borrow_mut();
        links.iter().for_each(|link| segments.hold(link.addr));
        for (_, link) in newest() {
            for addr in data_of(&link.bytes) {
                if self.geometry.is_main(addr) {
                    segments.hold(addr);
                }
            }
        }
        Ok(())
    }

    /// Brings file `ino` to the state of its last force. Returns false if the file is new and
    /// has no usable name.
    async fn recover_file(&self, ino: u32, marked: &Marked<'_>) -> Result<bool> {
        damaged((3..self.geometry.nids()).contains(&ino).then_some(()))?;
        let known = self.nat_entry(ino).await?.addr != 0;
        if !known {
            // The file was created after the checkpoint, and so was its name.
            return self.recover_new(ino, marked).await;
        }
        let inode = self.node(ino).await?;
        let names = node::LINKS.get(&inode.bytes()[..]);
        for link in marked.newest.values() {
            if vfs::mutant::is("f2fs-roll-forward-skips-known-files") {
                break;
            }
            self.recover_node(&inode, &link.bytes).await?;
        }
        // Recovery changes no names of a known file, so its link count stays.
        inode.edit(|bytes| node::LINKS.put(bytes, names));
        Ok(true)
    }

    /// Recovers a file that the checkpoint does not know, under the name in its marked inode.
    /// Returns false if no inode of the chain carries the mark of a new file, or the name
    /// cannot be used.
    async fn recover_new(&self, ino: u32, marked: &Marked<'_>) -> Result<bool> {
        let (Some(named), Some(newest)) = (marked.named, marked.newest.get(&ino)) else {
            return Ok(false);
        };
        if !node::is_sound_inode(&newest.bytes) {
            return Err(Errno::EUCLEAN);
        }
        self.take_block()?;
        let mut bytes = newest.bytes.clone();
        for at in 0..node::addrs(&bytes) {
            if !has_other_meaning(&bytes) {
                node::set_addr(&mut bytes, at, 0);
            }
        }
        (0..5).for_each(|at| node::set_nid(&mut bytes, at, 0));
        node::XATTR_NID.put(&mut bytes[..], 0);
        node::LINKS.put(&mut bytes[..], 1);
        node::BLOCKS.put(&mut bytes[..], 1);
        let offset = node::offset_of(&bytes);
        node::FLAG.put(&mut bytes[..], offset << 3);
        let inode = self.add_node(bytes);
        self.count(|counts| counts.inodes += 1);
        for link in marked.newest.values() {
            self.recover_node(&inode, &link.bytes).await?;
        }
        inode.edit(|bytes| node::LINKS.put(bytes, 1));
        let parent = node::PARENT.get(&named.bytes[..]);
        self.recover_name(&inode, parent, node::name(&named.bytes))
            .await
    }

    /// Enters a recovered file as `name` in directory `parent`; an entry of this name then leads
    /// to the file. Frees the file and returns false if the directory cannot be loaded, the
    /// name is not valid or the file is a directory.
    async fn recover_name(&self, inode: &Rc<NodeBuf>, parent: u32, name: &[u8]) -> Result<bool> {
        let kind = damaged(FileKind::of_mode(node::MODE.get(&inode.bytes()[..])))?;
        let dir = self.load_inode(vfs::Ino(u64::from(parent))).await;
        let usable = !name.is_empty() && !name.contains(&b'/') && name != b"." && name != b"..";
        let Ok(dir) = dir else {
            self.delete_node(inode).await?;
            return Ok(false);
        };
        if !crate::fs::is_dir(&dir) || !usable || kind == FileKind::Directory {
            self.delete_node(inode).await?;
            return Ok(false);
        }
        match self.find_name(&dir, name).await? {
            Some(lead) if lead.ino == inode.ino => {}
            Some(lead) => {
                let old = self.node(lead.ino).await?;
                self.turn_name(&dir, &lead, inode.ino, kind).await?;
                self.drop_old(&dir, &old).await?;
            }
            None => self.add_name(&dir, name, inode.ino, kind).await?,
        }
        self.store_inode(&dir);
        Ok(true)
    }

    /// Drops a link of `old`, whose name in `dir` is gone; the last link frees it. A directory
    /// must be empty: its entries could not be found again.
    async fn drop_old(&self, dir: &File, old: &Rc<NodeBuf>) -> Result<()> {
        let was_dir = FileKind::of_mode(node::MODE.get(&old.bytes()[..]));
        let links = if was_dir == Some(FileKind::Directory) {
            let old = self.load_inode(vfs::Ino(u64::from(old.nid))).await?;
            damaged(self.is_empty(&old).await?.then_some(()))?;
            dir.update(|attr| attr.nlink = attr.nlink.saturating_sub(1));
            0
        } else {
            node::LINKS.get(&old.bytes()[..]).saturating_sub(1)
        };
        old.edit(|bytes| node::LINKS.put(bytes, links));
        self.soil(old);
        if links == 0 {
            self.delete_node(old).await?;
        }
        Ok(())
    }

    /// Applies `new`, a node of the chain, to the file of `inode`.
    ///
    /// # Errors
    /// `EUCLEAN` if another node has its place in the file, or its number another file.
    async fn recover_node(&self, inode: &Rc<NodeBuf>, new: &Block) -> Result<()> {
        let nid = node::NID.get(new);
        if nid == inode.nid {
            return self.recover_inode(inode, new).await;
        }
        damaged((4..self.geometry.nids()).contains(&nid).then_some(()))?;
        let offset = node::offset_of(new);
        if offset == node::XATTR_OFFSET {
            let buf = self.claim_node(inode, new).await?;
            buf.edit(|bytes| bytes[..node::NID.at].copy_from_slice(&new[..node::NID.at]));
            self.soil(&buf);
            inode.edit(|bytes| node::XATTR_NID.put(bytes, nid));
            self.soil(inode);
            return Ok(());
        }
        let addrs = node::addrs(&inode.bytes());
        let first = damaged(path::first_page(offset, addrs).filter(|_| offset > 0))?;
        let parent = self.parent_of(inode, first, true).await?;
        let (parent, slot) = damaged(parent)?;
        let here = node::nid(&parent.bytes(), slot);
        if here != 0 && here != nid {
            return Err(Errno::EUCLEAN);
        }
        let buf = self.claim_node(inode, new).await?;
        damaged((node::offset_of(&buf.bytes()) == offset).then_some(()))?;
        parent.edit(|bytes| node::set_nid(bytes, slot, nid));
        self.soil(&parent);
        self.take_addrs(inode, &buf, new).await
    }

    /// Returns the node that has the number of `new`; makes an empty one if the number is free.
    ///
    /// # Errors
    /// `EUCLEAN` if the node belongs to another file; `ENOSPC` if no block is left for it.
    async fn claim_node(&self, inode: &NodeBuf, new: &Block) -> Result<Rc<NodeBuf>> {
        let nid = node::NID.get(new);
        let entry = self.nat_entry(nid).await?;
        if entry.addr != 0 {
            let buf = self.node(nid).await?;
            return damaged((buf.ino == inode.ino).then_some(buf));
        }
        self.take_block()?;
        self.nat.borrow_mut().claim(nid);
        let buf = self.add_node(node::fresh(nid, inode.ino, node::offset_of(new)));
        self.add_blocks(inode, 1);
        Ok(buf)
    }

    /// Applies `new`, an inode of the chain, to `inode`. The pointers to other nodes stay:
    /// [`Self::recover_node`] sets them as it applies those nodes.
    async fn recover_inode(&self, inode: &Rc<NodeBuf>, new: &Block) -> Result<()> {
        let same_kind =
            node::MODE.get(new) & 0o170_000 == node::MODE.get(&inode.bytes()[..]) & 0o170_000;
        damaged((node::is_sound_inode(new) && same_kind).then_some(()))?;
        let (nids, xattrs) = {
            let bytes = inode.bytes();
            let nids = [0, 1, 2, 3, 4].map(|at| node::nid(&bytes, at));
            (nids, node::XATTR_NID.get(&bytes[..]))
        };
        let old_inline = has_other_meaning(&inode.bytes());
        let new_inline = has_other_meaning(new);
        if new_inline && !old_inline {
            let all = node::addrs(&inode.bytes());
            let freed = self.free_addrs(inode, 0..all);
            self.add_blocks(inode, -freed);
        }
        if !new_inline && old_inline {
            inode.edit(node::drop_inline);
        }
        if !new_inline {
            self.take_addrs(inode, inode, new).await?;
        }
        inode.edit(|bytes| {
            let blocks = node::BLOCKS.get(bytes);
            bytes[..node::NID.at].copy_from_slice(&new[..node::NID.at]);
            node::BLOCKS.put(bytes, blocks);
            node::XATTR_NID.put(bytes, xattrs);
            nids.iter()
                .enumerate()
                .for_each(|(at, nid)| node::set_nid(bytes, at, *nid));
        });
        self.soil(inode);
        Ok(())
    }

    /// Replaces the addresses in `buf` by those of its newer state `new`: frees the blocks that
    /// `new` lacks and marks those it adds as valid.
    ///
    /// # Errors
    /// `EUCLEAN` if an added block is outside the main area or in use; `ENOSPC`; `EIO`.
    async fn take_addrs(&self, inode: &NodeBuf, buf: &NodeBuf, new: &Block) -> Result<()> {
        let version = self.nat_entry(buf.nid).await?.version;
        let count = node::addrs(&buf.bytes());
        damaged((count == node::addrs(new)).then_some(()))?;
        for at in 0..count {
            let (old, addr) = (buf.addr(at), node::addr(new, at));
            if old == addr {
                continue;
            }
            if old != 0 {
                let freed = self.free_addrs(buf, at..at + 1);
                self.add_blocks(inode, -freed);
            }
            if addr == 0 {
                continue;
            }
            self.take_block()?;
            if addr != NEW_ADDR {
                damaged(self.geometry.is_main(addr).then_some(()))?;
                let taken = self.segments.borrow().is_valid(addr);
                damaged((!taken).then_some(()))?;
                let owner = Owner {
                    nid: buf.nid,
                    version,
                    at: at as u16,
                };
                self.own(addr, owner).await?;
            }
            buf.edit(|bytes| node::set_addr(bytes, at, addr));
            self.add_blocks(inode, 1);
        }
        self.soil(buf);
        Ok(())
    }

    /// Marks the block at `addr` as valid, and notes `owner` in the summary of its segment.
    async fn own(&self, addr: u32, owner: Owner) -> Result<()> {
        let (segment, at) = self.geometry.place_of(addr);
        let time = self.elapsed();
        self.segments.borrow_mut().adopt(addr, time);
        let current = self.segments.borrow().is_current(segment);
        if current {
            let mut segments = self.segments.borrow_mut();
            let log = segments
                .logs
                .iter_mut()
                .find(|log| log.at.segment == segment);
            if let Some(log) = log {
                log.owners[at as usize] = owner;
            }
            return Ok(());
        }
        let mut owners = self.owners_of(segment).await?;
        owners[at as usize] = owner;
        self.segments
            .borrow_mut()
            .filled
            .insert(segment, (owners, false));
        Ok(())
    }
}

/// Whether the address area of an inode holds something else: the number of a device, or
/// inline data or directory entries.
fn has_other_meaning(inode: &Block) -> bool {
    let kind = FileKind::of_mode(node::MODE.get(inode));
    let device = matches!(kind, Some(FileKind::BlockDevice | FileKind::CharDevice));
    device || node::has(inode, node::HAS_DATA | node::HAS_DENTRY)
}

/// Data addresses in a node of the chain, with 0 for holes; empty if the node has none.
fn data_of(bytes: &Block) -> Vec<u32> {
    let offset = node::offset_of(bytes);
    if offset == node::XATTR_OFFSET || node::is_inode(bytes) && has_other_meaning(bytes) {
        return Vec::new();
    }
    (0..node::addrs(bytes))
        .map(|at| node::addr(bytes, at))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BLOCK, MkfsOptions, MountOptions, mkfs, mount};
    use host::RamDisk;
    use sim::Kernel;
    use vfs::{Access, Body};

    /// Adds a file to `image` that was created, written and forced after the last checkpoint, as
    /// Linux leaves it: its inode is in the log of file nodes, with both marks and its name.
    fn chain(image: &mut [u8]) {
        let block = |at: u32| at as usize * BLOCK..(at as usize + 1) * BLOCK;
        let (geometry, head) = {
            let first: &Block = image[block(0)].try_into().unwrap();
            let geometry = crate::format::superblock::Geometry::decode(first, 16_384).unwrap();
            let head: Block = image[block(geometry.cp)].try_into().unwrap();
            (geometry, head)
        };
        let stamp = crate::format::checkpoint::stamp(&head);
        let head = crate::format::checkpoint::Head::decode(&head, &geometry).unwrap();
        let [data, at] = [Log::WarmData, Log::WarmNode].map(|log| {
            let log = head.logs[log as usize];
            geometry.addr_of(log.segment, u32::from(log.at))
        });
        let mut inode = node::fresh(77, 77, 0);
        node::MODE.put(&mut inode[..], 0o100_644);
        node::LINKS.put(&mut inode[..], 1);
        node::SIZE.put(&mut inode[..], 4096);
        node::BLOCKS.put(&mut inode[..], 2);
        node::set_has(&mut inode, node::HAS_XATTR, true);
        node::set_name(&mut inode, 3, b"forced");
        node::set_addr(&mut inode, 0, data);
        node::FLAG.put(&mut inode[..], node::FSYNC | node::DENTRY);
        node::STAMP.put(&mut inode[..], stamp);
        node::NEXT.put(&mut inode[..], at + 1);
        image[block(at)].copy_from_slice(&inode[..]);
        image[block(data)].fill(7);
    }

    #[test]
    fn synced_file_unknown_to_the_checkpoint_is_recovered_with_its_name() {
        let mut image = vec![0; 16_384 * BLOCK];
        for (at, block) in mkfs(&MkfsOptions::new(16_384)).unwrap() {
            image[at as usize * BLOCK..(at as usize + 1) * BLOCK].copy_from_slice(&block[..]);
        }
        chain(&mut image);
        let kernel = Kernel::new();
        let disk = RamDisk::from_image(&kernel.sim(), &image);
        let (sim, port) = (kernel.sim(), disk.clone());
        kernel.block_on(async move {
            let mounted = mount(&sim, &port, MountOptions::default()).await;
            let (fs, recovery) = mounted.unwrap();
            assert_eq!((recovery.files, recovery.nodes), (1, 1));
            let root = fs.load(fs.root()).await.unwrap();
            let ino = fs.lookup(&root, b"forced").await.unwrap().unwrap();
            let file = fs.load(ino).await.unwrap();
            let mut bytes = [0; 4096];
            fs.read_direct(&file, 0, &mut bytes).await.unwrap();
            assert_eq!(bytes, [7; 4096]);
            let done = fs
                .write_direct(&Access::root(), &file, 4096, &[9; 512])
                .await;
            assert_eq!(done, Ok(512));
            fs.unmount().await.unwrap();
        });
        assert_eq!(crate::check(&disk.to_image()[..]), []);
    }
}
