//! Checking a file system that is not mounted: everything that the newest superblock leads
//! to is walked, and set beside what the trees of extents, chunks and sums say. What was
//! forced since is for a mount to lay over it, and not looked at.
//!
//! Invariants: no two trees have one root, and a walk of a tree looks at a node once; what a node
//! refers to is counted once. So the work is bounded by trees times nodes, whatever the image says.

mod files;
mod inspect;
mod space;

use crate::format::node::{self, Expected};
use crate::format::superblock::{Start, Superblock};
use crate::format::tree::{Chunk, RootItem};
use crate::format::{Block, Key, NODE, SECTOR, SECTOR_BYTES, id, kind};
use crate::space::Space;
use files::Files;
use host::Image;
pub use inspect::{Inspector, ROOT};
use space::Met;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use vfs::{Finding, Findings};

/// State of a walk through all trees.
struct Check<'a, I: Image + ?Sized> {
    image: &'a I,
    superblock: Superblock,
    space: Space,
    findings: Findings,
    nodes: BTreeMap<u64, Option<Rc<node::Bytes>>>,
    met: Met,
    extents: Option<Start>,
    full: Option<Rc<BTreeSet<u64>>>,
}

/// Checks an image; returns no finding if it is sound.
pub fn check<I: Image + ?Sized>(image: &I) -> Vec<Finding> {
    let mut check = match Check::open(image) {
        Ok(check) => check,
        Err(findings) => return findings.into_all(),
    };
    check.trees();
    check.findings.into_all()
}

fn newest<I: Image + ?Sized>(image: &I, size: u64) -> Option<Superblock> {
    let mut best: Option<Superblock> = None;
    for at in Superblock::places(size) {
        let mut block: Block = [0; SECTOR];
        if !image.read(at / SECTOR_BYTES, &mut block) {
            continue;
        }
        let Ok(found) = Superblock::decode(&block, at, size) else {
            continue;
        };
        if best
            .as_ref()
            .is_none_or(|best| found.generation > best.generation)
        {
            best = Some(found);
        }
    }
    best
}

fn start_of(item: &RootItem) -> Start {
    Start {
        bytenr: item.bytenr(),
        generation: item.generation(),
        level: item.level(),
    }
}

impl<'a, I: Image + ?Sized> Check<'a, I> {
    /// Reads the newest superblock and the chunks that it leads to.
    fn open(image: &'a I) -> Result<Self, Findings> {
        let size = image.blocks().saturating_mul(SECTOR_BYTES);
        let none = || "there is no superblock that can be used".to_owned();
        let superblock = newest(image, size).ok_or_else(none)?;
        let mut check = Self {
            image,
            space: Space::new(superblock.total_bytes),
            superblock,
            findings: Findings::default(),
            nodes: BTreeMap::new(),
            met: Met::default(),
            extents: None,
            full: None,
        };
        if check.chunks() {
            return Ok(check);
        }
        Err(check.findings)
    }

    fn say(&mut self, what: String) {
        self.findings.say(what);
    }

    /// The bytes of a node, if it is whole.
    fn read(&self, expected: &Expected) -> Option<Rc<node::Bytes>> {
        let (copies, skip, room) = self.space.place(expected.bytenr)?;
        if room < NODE as u64 {
            return None;
        }
        let mut bytes = node::blank();
        for copy in copies {
            let first = (copy + skip) / SECTOR_BYTES;
            let mut whole = true;
            for (turn, out) in bytes.chunks_exact_mut(SECTOR).enumerate() {
                let mut block: Block = [0; SECTOR];
                whole &= self.image.read(first + turn as u64, &mut block);
                out.copy_from_slice(&block);
            }
            if whole && node::verify(&bytes, expected, &self.superblock.fsid).is_ok() {
                return Some(Rc::from(bytes));
            }
        }
        None
    }

    /// A node, which is said to be unsound once.
    fn node(&mut self, expected: &Expected) -> Option<Rc<node::Bytes>> {
        let bytenr = expected.bytenr;
        if let Some(known) = self.nodes.get(&bytenr) {
            let known = known.clone()?;
            let same = node::is(&known, expected);
            if !same {
                self.say(format!("node {bytenr} is not the one that is led to"));
            }
            return same.then_some(known);
        }
        let read = self.read(expected);
        if read.is_none() {
            let Expected {
                generation, level, ..
            } = expected;
            self.say(format!(
                "there is no node of level {level} and generation {generation} at {bytenr}"
            ));
        }
        self.nodes.insert(bytenr, read.clone());
        read
    }

    fn root(start: Start) -> Expected {
        Expected {
            bytenr: start.bytenr,
            generation: start.generation,
            level: start.level,
            first: None,
        }
    }

    fn child(bytes: &node::Bytes, slot: usize) -> Expected {
        let pointer = node::pointer(bytes, slot);
        Expected {
            bytenr: pointer.bytenr,
            generation: pointer.generation,
            level: node::level(bytes) - 1,
            first: Some(pointer.key),
        }
    }

    /// Does `visit` with each node of a tree, in order.
    fn walk(&mut self, start: Start, visit: &mut dyn FnMut(&node::Bytes)) {
        let (mut left, mut met) = (vec![Self::root(start)], BTreeSet::new());
        while let Some(expected) = left.pop() {
            if !met.insert(expected.bytenr) {
                self.say(format!("node {} is twice in a tree", expected.bytenr));
                continue;
            }
            let Some(bytes) = self.node(&expected) else {
                continue;
            };
            visit(&bytes);
            if expected.level > 0 {
                let below = (0..node::items(&bytes)).rev();
                left.extend(below.map(|slot| Self::child(&bytes, slot)));
            }
        }
    }

    /// Does `visit` with each item of a tree, in order.
    fn items(&mut self, start: Start, visit: &mut dyn FnMut(Key, &[u8])) {
        self.walk(start, &mut |bytes| {
            let count = if node::level(bytes) == 0 {
                node::items(bytes)
            } else {
                0
            };
            for slot in 0..count {
                visit(node::key(bytes, slot), node::data(bytes, slot));
            }
        });
    }

    /// Reads chunks; gives whether they can be used.
    fn chunks(&mut self) -> bool {
        for chunk in self.superblock.system.clone() {
            if !self.space.add_chunk(chunk) {
                self.say("chunks of the superblock overlap".to_owned());
                return false;
            }
        }
        let (mut chunks, mut damaged) = (Vec::new(), false);
        self.items(self.superblock.chunk_root, &mut |key, data| {
            if key.kind == kind::CHUNK_ITEM {
                match Chunk::get(key.offset, data) {
                    Some(chunk) => chunks.push(chunk),
                    None => damaged = true,
                }
            }
        });
        let mut space = Space::new(self.superblock.total_bytes);
        damaged |= !chunks.into_iter().all(|chunk| space.add_chunk(chunk));
        if damaged {
            self.say("chunks overlap, or are of a kind that is not known".to_owned());
        }
        self.space = space;
        !damaged
    }

    fn trees(&mut self) {
        let superblock = self.superblock.clone();
        let mut roots: Vec<(u64, RootItem)> = Vec::new();
        self.items(superblock.root, &mut |key, data| {
            if key.kind == kind::ROOT_ITEM {
                roots.push((key.object, RootItem::get(data)));
            }
        });
        let (mut extents, mut sums, mut devices) = (None, None, None);
        let mut known = BTreeSet::new();
        for (tree, item) in &roots {
            let start = start_of(item);
            if !known.insert(start.bytenr) {
                self.say(format!("tree {tree} has the root of another one"));
                continue;
            }
            let place = match *tree {
                id::EXTENT_TREE => &mut extents,
                id::CSUM_TREE => &mut sums,
                id::DEV_TREE => &mut devices,
                _ => &mut None,
            };
            *place = Some(start);
            self.count_nodes(*tree, start, item.bytes_used());
            if id::is_subvolume(*tree) {
                self.files(*tree, start);
            }
        }
        self.extents = extents;
        self.refer_from(id::ROOT_TREE, superblock.root);
        self.refer_from(id::CHUNK_TREE, superblock.chunk_root);
        for (tree, item) in &roots {
            self.refer_from(*tree, start_of(item));
        }
        let (Some(extents), Some(sums), Some(devices)) = (extents, sums, devices) else {
            return self.say("a tree is missing".to_owned());
        };
        self.compare_space(extents, sums, devices);
    }

    /// Sets the nodes of a tree beside how many it says that it has.
    fn count_nodes(&mut self, tree: u64, start: Start, said: u64) {
        let mut nodes = 0_u64;
        self.walk(start, &mut |_| nodes += NODE as u64);
        // Dropping a shared node changes what others lead to without their knowing it.
        if nodes != said && !id::is_subvolume(tree) {
            self.say(format!(
                "tree {tree} has {nodes} bytes of nodes, and says {said}"
            ));
        }
    }

    fn files(&mut self, tree: u64, start: Start) {
        let mut files = Files::new(tree);
        self.items(start, &mut |key, data| files.take(key, data));
        for what in files.judge() {
            self.say(what);
        }
        self.met.take_sums(files.summed());
    }
}
