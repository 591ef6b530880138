//! The check of directories: names, their places by hash, and the inodes that they lead to.

use super::Check;
use crate::format::dentry::{self, Entry, IN_BLOCK, IN_INODE, LEVELS};
use crate::format::node;
use crate::format::{Block, NEW_ADDR};
use host::Image;
use std::collections::{BTreeMap, BTreeSet};
use vfs::FileKind;

/// An owned copy of an entry: inode, kind, name, and its block in the directory (`None` for an
/// entry inside the inode).
type Kept = (u32, Option<FileKind>, Vec<u8>, Option<u64>);

fn kept(entry: &Entry<'_>, block: Option<u64>) -> Kept {
    (entry.ino, entry.kind, entry.name.to_vec(), block)
}

impl<I: Image + ?Sized> Check<'_, I> {
    /// Checks all entries of directory `ino` and adds the inodes they lead to to `left`. `parent`
    /// is 0 if unknown. Returns the number of directories among the entries, without the dots.
    pub(super) fn directory(
        &mut self,
        inode: &Block,
        ino: u32,
        parent: u32,
        pages: &BTreeMap<u64, u32>,
        left: &mut Vec<(u32, u32, Option<FileKind>)>,
    ) -> u32 {
        let entries = self.entries(inode, pages);
        let (mut names, mut dirs) = (BTreeSet::new(), 0);
        for (to, kind, name, block) in entries {
            if block.is_some_and(|block| !self.belongs(inode, &name, block)) {
                self.say(format!(
                    "a name in directory {ino} is not where its hash leads"
                ));
            }
            let shown = String::from_utf8_lossy(&name).into_owned();
            if !names.insert(name.clone()) {
                self.say(format!("directory {ino} has {shown:?} twice"));
                continue;
            }
            let wanted = match &name[..] {
                b"." => ino,
                b".." if parent != 0 => parent,
                b".." => to,
                _ => {
                    dirs += u32::from(kind == Some(FileKind::Directory));
                    match kind {
                        Some(kind) => left.push((to, ino, Some(kind))),
                        None => self.say(format!("{shown:?} in directory {ino} has no kind")),
                    }
                    to
                }
            };
            if to != wanted {
                self.say(format!("{shown:?} in directory {ino} leads to {to}"));
            }
        }
        let dots = [&b"."[..], b".."]
            .into_iter()
            .all(|dot| names.contains(dot));
        if !dots {
            self.say(format!("directory {ino} has no dots"));
        }
        dirs
    }

    fn entries(&mut self, inode: &Block, pages: &BTreeMap<u64, u32>) -> Vec<Kept> {
        if node::has(inode, node::HAS_DENTRY) {
            let all = IN_INODE.entries(node::inline(inode), 0);
            return all.map(|entry| kept(&entry, None)).collect();
        }
        let mut found = Vec::new();
        for (&page, &addr) in pages {
            let mut bytes = crate::format::blank();
            if addr == NEW_ADDR || !self.image.read(u64::from(addr), &mut bytes) {
                continue;
            }
            let all = IN_BLOCK.entries(&bytes[..], 0);
            let all: Vec<_> = all
                .map(|entry| (kept(&entry, Some(page)), entry.hash))
                .collect();
            for (entry, hash) in all {
                if hash != dentry::hash(&entry.2) {
                    self.say(format!("the hash of a name of inode {} is wrong", entry.0));
                }
                found.push(entry);
            }
        }
        found
    }

    /// Whether the hash of `name` allows it in block `block` of the directory.
    fn belongs(&self, inode: &Block, name: &[u8], block: u64) -> bool {
        let (hash, level) = (dentry::hash(name), node::DIR_LEVEL.get(inode));
        (0..node::DEPTH.get(inode).min(LEVELS)).any(|at| {
            let first = dentry::bucket(at, level, hash);
            (first..first + dentry::bucket_blocks(at)).contains(&block)
        })
    }
}
