//! [`check`]: compares the files that the last checkpoint of an image leads to with its
//! tables. Nodes that were forced since the checkpoint are ignored: a mount recovers them.
//!
//! Invariant: a node is visited once, so the walk ends on any image.

mod dirs;
mod tables;

use crate::format::node;
use crate::format::superblock::ROOT;
use crate::format::{Block, NEW_ADDR, set_high_bit};
use crate::format::{path, sit};
use host::Image;
use std::collections::{BTreeMap, BTreeSet};
use tables::Tables;
use vfs::{FileKind, Finding, Findings};

/// A walk from the root directory and the orphans over all nodes of an image.
struct Check<'a, I: Image + ?Sized> {
    image: &'a I,
    tables: Tables,
    findings: Findings,
    /// Map of the blocks of each segment that the walk has found in use.
    met: Vec<[u8; sit::MAP]>,
    /// Numbers of the nodes that the walk has met.
    nodes: BTreeSet<u32>,
    /// Number of inodes that were met; `blocks` is that of node and data blocks, data blocks that
    /// are accounted for and not written included.
    inodes: u32,
    blocks: u64,
    /// For each inode, the links that the walk has counted and those in the inode.
    links: BTreeMap<u32, (u32, u32)>,
}

/// Checks an image without changing it; returns its faults, empty if the image is sound.
pub fn check<I: Image + ?Sized>(image: &I) -> Vec<Finding> {
    let tables = match Tables::read(image) {
        Ok(tables) => tables,
        Err(what) => return Findings::from(what).into_all(),
    };
    let mut check = Check {
        image,
        met: vec![[0; sit::MAP]; tables.geometry.main_segments as usize],
        tables,
        findings: Findings::default(),
        nodes: BTreeSet::new(),
        inodes: 0,
        blocks: 0,
        links: BTreeMap::new(),
    };
    check.walk();
    check.compare();
    check.findings.into_all()
}

impl<I: Image + ?Sized> Check<'_, I> {
    fn say(&mut self, what: String) {
        self.findings.say(what);
    }

    /// Visits all inodes below the root directory, and the orphans.
    fn walk(&mut self) {
        let orphans = self.tables.orphans.clone();
        let mut left = vec![(ROOT, ROOT, Some(FileKind::Directory))];
        left.extend(orphans.iter().map(|ino| (*ino, 0, None)));
        for ino in orphans {
            self.links.insert(ino, (0, 0));
        }
        while let Some((ino, parent, kind)) = left.pop() {
            let known = self.nodes.contains(&ino);
            if let Some(links) = self.links.get_mut(&ino)
                && known
            {
                links.0 += 1;
                if kind == Some(FileKind::Directory) {
                    self.say(format!("directory {ino} has more than one name"));
                }
                continue;
            }
            self.inode(ino, parent, kind, &mut left);
        }
    }

    /// Reads node `nid`, which must belong to inode `ino` and have place `offset` in the file.
    /// Reports a fault and returns `None` if the node was met before, cannot be read or is
    /// another one.
    fn node(&mut self, nid: u32, ino: u32, offset: u32) -> Option<Box<Block>> {
        let entry = self.tables.nat(self.image, nid);
        if !self.nodes.insert(nid) {
            self.say(format!("node {nid} is led to more than once"));
            return None;
        }
        let place = self.tables.geometry.is_main(entry.addr) && entry.ino == ino;
        let mut bytes = crate::format::blank();
        if !place || !self.image.read(u64::from(entry.addr), &mut bytes) {
            self.say(format!(
                "node {nid} of inode {ino} is at {:#x}, of {}",
                entry.addr, entry.ino
            ));
            return None;
        }
        let says = (node::NID.get(&bytes[..]), node::INO.get(&bytes[..]));
        if says != (nid, ino) || node::offset_of(&bytes) != offset {
            self.say(format!(
                "node {nid} of inode {ino} says that it is another one"
            ));
            return None;
        }
        self.block(entry.addr, nid, 0, true);
        Some(bytes)
    }

    /// Counts a block of the main area: a node itself, or the block at address `at` of node
    /// `nid`. Reports a block that is in use twice, or contradicts the table of its segment.
    fn block(&mut self, addr: u32, nid: u32, at: usize, is_node: bool) {
        self.blocks += 1;
        if addr == NEW_ADDR && !is_node {
            return;
        }
        if !self.tables.geometry.is_main(addr) {
            self.say(format!(
                "node {nid} leads to {addr:#x}, outside the main area"
            ));
            return;
        }
        let (segment, place) = self.tables.geometry.place_of(addr);
        let met = &mut self.met[segment as usize];
        if crate::format::high_bit(met, place as usize) {
            self.say(format!(
                "block {addr:#x} is in use more than once, by node {nid} too"
            ));
            return;
        }
        set_high_bit(met, place as usize, true);
        let log = self.tables.segments[segment as usize].log;
        if (log >= 3) != is_node {
            self.say(format!(
                "block {addr:#x} of node {nid} is in a segment of log {log}"
            ));
        }
        let owner = self.tables.owner(self.image, segment, place as usize);
        if let Some(owner) = owner
            && (owner.nid, usize::from(owner.at)) != (nid, at)
        {
            let (by, as_one) = (owner.nid, owner.at);
            self.say(format!(
                "block {addr:#x} is address {at} of node {nid}; its summary says {as_one} of {by}"
            ));
        }
    }

    fn inode(
        &mut self,
        ino: u32,
        parent: u32,
        kind: Option<FileKind>,
        left: &mut Vec<(u32, u32, Option<FileKind>)>,
    ) {
        let before = self.blocks;
        let Some(bytes) = self.node(ino, ino, 0) else {
            return;
        };
        self.inodes += 1;
        let found = FileKind::of_mode(node::MODE.get(&bytes[..]));
        if !node::is_sound_inode(&bytes) || kind.is_some_and(|kind| found != Some(kind)) {
            self.say(format!("inode {ino} is no sound {kind:?}"));
            return;
        }
        let xattrs = node::XATTR_NID.get(&bytes[..]);
        if xattrs != 0 {
            self.node(xattrs, ino, node::XATTR_OFFSET);
        }
        let device = matches!(found, Some(FileKind::BlockDevice | FileKind::CharDevice));
        let mut pages = BTreeMap::new();
        if !device && !node::has(&bytes, node::HAS_DATA | node::HAS_DENTRY) {
            self.pages(&bytes, ino, &mut pages);
        }
        let counted = self.blocks - before;
        let says = node::BLOCKS.get(&bytes[..]);
        if counted != says {
            self.say(format!("inode {ino} has {counted} blocks and says {says}"));
        }
        let links = node::LINKS.get(&bytes[..]);
        let names = u32::from(kind.is_some());
        self.links.insert(ino, (names, links));
        if found == Some(FileKind::Directory) {
            let dirs = self.directory(&bytes, ino, parent, &pages, left);
            let wanted = if kind.is_some() { dirs + 2 } else { 0 };
            self.links.insert(ino, (wanted, links));
        }
    }

    /// Collects the addresses of all pages of an inode, by page number.
    fn pages(&mut self, inode: &Block, ino: u32, pages: &mut BTreeMap<u64, u32>) {
        self.addrs(inode, 0, pages);
        let own = node::addrs(inode);
        let per = node::PER_NODE as u32;
        let tops = [(1, 0), (2, 0), (3, 1), (4 + per, 1), (5 + 2 * per, 2)];
        for (slot, (offset, depth)) in tops.into_iter().enumerate() {
            let nid = node::nid(inode, slot);
            if nid != 0 {
                self.below(nid, ino, offset, depth, own, pages);
            }
        }
    }

    /// Collects the addresses below node `nid`, which has `depth` levels of nodes below itself.
    /// `own` is the number of addresses in the inode.
    fn below(
        &mut self,
        nid: u32,
        ino: u32,
        offset: u32,
        depth: u32,
        own: usize,
        pages: &mut BTreeMap<u64, u32>,
    ) {
        let Some(bytes) = self.node(nid, ino, offset) else {
            return;
        };
        if depth == 0 {
            let first = path::first_page(offset, own).unwrap_or(0);
            self.addrs(&bytes, first, pages);
            return;
        }
        let step = if depth == 1 {
            1
        } else {
            node::PER_NODE as u32 + 1
        };
        for slot in 0..node::PER_NODE {
            let nid = node::nid(&bytes, slot);
            if nid != 0 {
                let offset = offset + 1 + slot as u32 * step;
                self.below(nid, ino, offset, depth - 1, own, pages);
            }
        }
    }

    fn addrs(&mut self, bytes: &Block, first: u64, pages: &mut BTreeMap<u64, u32>) {
        let nid = node::NID.get(bytes);
        for at in 0..node::addrs(bytes) {
            let addr = node::addr(bytes, at);
            if addr != 0 {
                self.block(addr, nid, at, false);
                pages.insert(first + at as u64, addr);
            }
        }
    }

    /// Compares the result of the walk with the tables and the checkpoint.
    fn compare(&mut self) {
        let links: Vec<_> = self
            .links
            .iter()
            .map(|(ino, links)| (*ino, *links))
            .collect();
        for (ino, (names, links)) in links {
            if names != links {
                self.say(format!("inode {ino} has {names} links and says {links}"));
            }
        }
        for segment in 0..self.met.len() {
            let entry = &self.tables.segments[segment];
            if !entry.is_sound() {
                self.say(format!("the entry of segment {segment} contradicts itself"));
            } else if entry.map != self.met[segment] {
                self.say(format!(
                    "other blocks of segment {segment} are in use than it says"
                ));
            }
        }
        let head = &self.tables.head;
        let empty = self.tables.empty_segments();
        let pairs = [
            ("blocks", self.blocks, head.valid_blocks),
            (
                "nodes",
                self.nodes.len() as u64,
                u64::from(head.valid_nodes),
            ),
            (
                "inodes",
                u64::from(self.inodes),
                u64::from(head.valid_inodes),
            ),
            (
                "free segments",
                u64::from(empty),
                u64::from(head.free_segments),
            ),
        ];
        for (what, met, said) in pairs {
            if met != said {
                self.say(format!(
                    "there are {met} {what}, and the checkpoint says {said}"
                ));
            }
        }
        let unmet = self.tables.used_nids(self.image);
        let unmet: Vec<u32> = unmet
            .into_iter()
            .filter(|nid| !self.nodes.contains(nid))
            .collect();
        for nid in unmet {
            self.say(format!("nothing leads to node {nid}"));
        }
    }
}
