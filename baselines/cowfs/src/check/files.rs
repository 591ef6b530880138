//! Check of a subvolume's tree: names against names, extents against sizes.

use crate::format::extent::{Piece, piece};
use crate::format::inode::{InodeItem, NODATASUM, entries, name_refs};
use crate::format::{Key, id, kind};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use vfs::FileKind;

/// A name: the directory, its number there, and its bytes.
type Name = (u64, u64, Vec<u8>);

/// Findings about an inode, collected over its items.
#[derive(Default)]
struct Inode {
    item: Option<InodeItem>,
    /// Names that it says it has.
    names: BTreeSet<Name>,
    /// Bytes of its pieces.
    bytes: u64,
    /// End of its last extent in the file.
    end: u64,
    /// Bytes of the names in it, twice.
    size: u64,
    overlaps: bool,
    orphan: bool,
}

/// A tree of files.
pub(super) struct Files {
    tree: u64,
    inodes: BTreeMap<u64, Inode>,
    /// Entries by number, and what each leads to.
    by_index: BTreeMap<Name, Key>,
    /// Entries by the hash of their names: directory and name.
    by_hash: BTreeMap<(u64, Vec<u8>), Key>,
    /// Written ranges of addresses, each with the inode that refers to it.
    summed: Vec<(u64, Range<u64>)>,
}

impl Files {
    pub(super) fn new(tree: u64) -> Self {
        Self {
            tree,
            inodes: BTreeMap::new(),
            by_index: BTreeMap::new(),
            by_hash: BTreeMap::new(),
            summed: Vec::new(),
        }
    }

    fn inode(&mut self, number: u64) -> &mut Inode {
        self.inodes.entry(number).or_default()
    }

    /// Takes the next item of the tree in.
    pub(super) fn take(&mut self, key: Key, data: &[u8]) {
        let number = key.object;
        match key.kind {
            kind::INODE_ITEM => self.inode(number).item = Some(InodeItem::get(data)),
            kind::INODE_REF | kind::INODE_EXTREF => {
                let names = name_refs(key, data);
                let names = names.map(|(_, name)| (name.parent, name.index, name.name.to_vec()));
                self.inode(number).names.extend(names);
            }
            kind::DIR_ITEM => {
                for entry in entries(data) {
                    self.inode(number).size += 2 * entry.name.len() as u64;
                    let name = (number, entry.name.to_vec());
                    self.by_hash.insert(name, entry.location);
                }
            }
            kind::DIR_INDEX => {
                for entry in entries(data) {
                    let name = (number, key.offset, entry.name.to_vec());
                    self.by_index.insert(name, entry.location);
                }
            }
            kind::EXTENT_DATA => self.take_piece(key, data),
            kind::ORPHAN_ITEM => self.inode(key.offset).orphan = true,
            _ => {}
        }
    }

    fn take_piece(&mut self, key: Key, data: &[u8]) {
        let at = key.offset;
        let inode = self.inode(key.object);
        inode.overlaps |= at < inode.end;
        match piece(data) {
            Some(Piece::Inline(bytes)) => {
                inode.bytes += bytes.len() as u64;
                inode.end = 1;
            }
            Some(Piece::Extent(part)) => {
                inode.end = at + part.bytes;
                if part.is_hole() {
                    return;
                }
                inode.bytes = inode.bytes.saturating_add(part.bytes);
                if part.written {
                    let start = part.bytenr + part.offset;
                    self.summed.push((key.object, start..start + part.bytes));
                }
            }
            None => {}
        }
    }

    /// Ranges of addresses whose contents must have checksums: those of inodes without `NODATASUM`.
    pub(super) fn summed(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let has = |number: &u64| {
            let item = self.inodes.get(number).and_then(|inode| inode.item);
            item.is_some_and(|item| item.flags & NODATASUM == 0)
        };
        let summed = self.summed.iter().filter(move |(number, _)| has(number));
        summed.map(|(_, span)| span.clone())
    }

    /// Compares the items of each inode and reports contradictions.
    pub(super) fn judge(&self) -> Vec<String> {
        let mut found = Vec::new();
        let tree = self.tree;
        for (number, inode) in &self.inodes {
            let mut say = |what: &str| found.push(format!("inode {number} of tree {tree} {what}"));
            let Some(item) = inode.item else {
                say("has items, and is not there");
                continue;
            };
            if inode.overlaps {
                say("has pieces that overlap");
            }
            let kind = FileKind::of_mode(item.mode as u16);
            let is_dir = kind == Some(FileKind::Directory);
            if kind.is_none() {
                say("is of no kind");
            }
            if !is_dir && inode.bytes != item.nbytes {
                say(&format!(
                    "has {} bytes, and says {}",
                    inode.bytes, item.nbytes
                ));
            }
            if is_dir && inode.size != item.size {
                say(&format!(
                    "has names of {} bytes, and says {}",
                    inode.size, item.size
                ));
            }
            let names = inode.names.len() as u64;
            if names != u64::from(item.nlink) {
                say(&format!("has {names} names, and says {}", item.nlink));
            }
            if names == 0 && !inode.orphan {
                say("has no name, and nothing says so");
            }
            if is_dir && names > 1 {
                say("is a directory with more than one name");
            }
        }
        self.judge_names(&mut found);
        found
    }

    /// Sets the three places of a name beside each other.
    fn judge_names(&self, found: &mut Vec<String>) {
        let tree = self.tree;
        let mut said: BTreeMap<&Name, u64> = BTreeMap::new();
        for (number, inode) in &self.inodes {
            for name in &inode.names {
                said.insert(name, *number);
                let top = *number == id::FIRST_FREE && name.2 == b"..";
                let leads = self.by_index.get(name).map(|key| (key.object, key.kind));
                if !top && leads != Some((*number, kind::INODE_ITEM)) {
                    found.push(format!(
                        "a name of inode {number} of tree {tree} leads elsewhere"
                    ));
                }
            }
        }
        for (name, key) in &self.by_index {
            let (dir, index, bytes) = name;
            if self.by_hash.get(&(*dir, bytes.clone())) != Some(key) {
                found.push(format!(
                    "entry {index} of directory {dir} of tree {tree} is not found"
                ));
            }
            if key.kind == kind::INODE_ITEM && said.get(name) != Some(&key.object) {
                found.push(format!(
                    "entry {index} of directory {dir} of tree {tree} is not known to what it \
                     leads to"
                ));
            }
        }
        if self.by_hash.len() != self.by_index.len() {
            found.push(format!(
                "entries of tree {tree} are found by name or by number alone"
            ));
        }
    }
}
