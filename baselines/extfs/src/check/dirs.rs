//! Every name of every directory, and the order of its index.

use super::inodes::Map;
use super::{Checker, Subject};
use crate::buffer::BLOCK;
use crate::format::hash::Hasher;
use crate::format::superblock::COMPAT_DIR_INDEX;
use crate::format::{dirent, htree, inode as raw};
use crate::image::Image;
use std::collections::BTreeSet;

/// A directory under check.
struct Dir<'a> {
    ino: u32,
    seed: u32,
    map: &'a Map,
    names: BTreeSet<Vec<u8>>,
    /// Blocks of the directory that the check has visited.
    met: u64,
    /// Inode number in the entry `..`.
    parent: u32,
}

/// Bounds on the hashes in a leaf, first to last; `None` without an index.
type Hashes = Option<(Hasher, u32, u32)>;

impl<I: Image + ?Sized> Checker<'_, I> {
    /// Checks a directory's blocks, entries and index; returns the inode of `..`.
    pub(super) fn check_dir(&mut self, ino: u32, seed: u32, slot: &[u8], map: &Map) -> u32 {
        let mut dir = Dir {
            ino,
            seed,
            map,
            names: BTreeSet::new(),
            met: 0,
            parent: 0,
        };
        let indexed = raw::FLAGS.get(slot) & raw::FLAG_INDEX != 0
            && self.geometry.has_compat(COMPAT_DIR_INDEX);
        let mapped: u64 = map.entries.iter().map(|entry| u64::from(entry.len)).sum();
        let whole = raw::size(slot) == mapped * BLOCK as u64;
        self.expect(
            whole && mapped > 0,
            Subject::Inode(ino),
            "is a directory with holes",
        );
        if indexed {
            self.check_root(&mut dir);
            let all = dir.met == mapped;
            self.expect(
                all,
                Subject::Inode(ino),
                "has an index that does not lead to all its blocks",
            );
        } else {
            for entry in &map.entries {
                for block in entry.logical..entry.logical.saturating_add(entry.len) {
                    self.check_leaf(&mut dir, block, None);
                }
            }
        }
        self.expect(
            dir.parent != 0,
            Subject::Inode(ino),
            "is a directory without a parent",
        );
        dir.parent
    }

    fn dir_block(&mut self, dir: &mut Dir<'_>, block: u32) -> Option<Box<[u8; BLOCK]>> {
        dir.met += 1;
        let wanted = u64::from(block);
        let covers = |entry: &&crate::format::extent::Entry| {
            u64::from(entry.logical) <= wanted && wanted < entry.end() && !entry.unwritten
        };
        let start = dir.map.entries.iter().find(covers);
        let place = start.map(|entry| entry.start + (wanted - u64::from(entry.logical)));
        match place {
            Some(place) => self.read(place),
            None => {
                self.find(Subject::Inode(dir.ino), "has an index that leads nowhere");
                None
            }
        }
    }

    fn check_root(&mut self, dir: &mut Dir<'_>) {
        let subject = Subject::Inode(dir.ino);
        let Some(bytes) = self.dir_block(dir, 0) else {
            return;
        };
        let mut own = dirent::Entries::new(&bytes[..], BLOCK).flatten();
        let dot = own.next().filter(|entry| entry.name == b".");
        let up = own.next().filter(|entry| entry.name == b"..");
        dir.parent = up.map_or(0, |entry| entry.ino);
        let named = dot.is_some_and(|entry| entry.ino == dir.ino);
        self.expect(named, subject, "has a damaged first block");
        let info = htree::info(&bytes);
        let hasher = info.and_then(|info| self.geometry.hasher(info.hash_version));
        let (Some(info), Some(hasher)) = (info, hasher) else {
            return self.find(subject, "has a damaged root of its index");
        };
        let range = (hasher, 0, u32::MAX);
        self.check_index(dir, &bytes, htree::ROOT_ENTRIES, info.levels, range);
    }

    fn check_index(
        &mut self,
        dir: &mut Dir<'_>,
        bytes: &[u8; BLOCK],
        at: usize,
        levels: u8,
        (hasher, first, last): (Hasher, u32, u32),
    ) {
        let subject = Subject::Inode(dir.ino);
        let tail = self.geometry.checksums;
        let whole = !tail || htree::is_whole(dir.seed, bytes, at);
        self.expect(
            whole,
            subject,
            "has a block of its index with a wrong checksum",
        );
        let Some(entries) = htree::entries(bytes, at, tail) else {
            return self.find(subject, "has a damaged block in its index");
        };
        for (index, entry) in entries.iter().enumerate() {
            let from = if index == 0 { first } else { entry.hash };
            let to = entries.get(index + 1).map_or(last, |next| next.hash);
            if levels == 0 {
                self.check_leaf(dir, entry.block, Some((hasher, from, to)));
            } else if let Some(bytes) = self.dir_block(dir, entry.block) {
                let range = (hasher, from, to);
                self.check_index(dir, &bytes, htree::NODE_ENTRIES, levels - 1, range);
            }
        }
    }

    fn check_leaf(&mut self, dir: &mut Dir<'_>, block: u32, hashes: Hashes) {
        let subject = Subject::Inode(dir.ino);
        let Some(bytes) = self.dir_block(dir, block) else {
            return;
        };
        if self.geometry.checksums {
            let sum = dirent::checksum(dir.seed, &bytes) == dirent::CHECKSUM.get(&bytes[..]);
            let whole = sum && dirent::has_tail(&bytes);
            self.expect(whole, subject, "has a block of names with a wrong checksum");
        }
        for entry in dirent::Entries::new(&bytes[..], self.geometry.dir_end()) {
            let Ok(entry) = entry else {
                return self.find(subject, "has a damaged block of names");
            };
            if entry.ino != 0 {
                self.check_entry(dir, &entry, hashes);
            }
        }
    }

    fn check_entry(&mut self, dir: &mut Dir<'_>, entry: &dirent::Entry<'_>, hashes: Hashes) {
        let subject = Subject::Inode(dir.ino);
        let sound =
            !entry.name.is_empty() && !entry.name.contains(&b'/') && !entry.name.contains(&0);
        self.expect(sound, subject, "has a name that cannot be");
        let once = dir.names.insert(entry.name.to_vec());
        self.expect(once, subject, "has a name twice");
        match entry.name {
            b"." => {
                self.expect(
                    entry.ino == dir.ino,
                    subject,
                    "is not where its own name leads",
                );
            }
            b".." => dir.parent = entry.ino,
            _ => self.names.push((dir.ino, entry.ino, entry.kind)),
        }
        if let Some((hasher, from, to)) = hashes {
            let (hash, _) = hasher.hash(entry.name);
            // An odd bound says that a hash goes on from the leaf before.
            let inside = hash >= from & !1 && hash <= to;
            self.expect(inside, subject, "has a name where its hash does not lead");
        }
    }
}
