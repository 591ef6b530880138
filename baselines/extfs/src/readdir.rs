//! Listing of directories.
//!
//! A directory that has an index, or will get one when it grows, is listed in the
//! order of hashes, so that a cookie stays valid while entries move between leaves. Any
//! other directory is listed by position, and its entries never move.
//!
//! Invariant: an entry present from the first call to the last is listed exactly once.
//! Names whose hashes agree in all 63 bits come in one batch.

use crate::dir::{Role, dir_blocks};
use crate::format::dirent;
use crate::format::hash::Hasher;
use crate::format::superblock::COMPAT_DIR_INDEX;
use crate::fs::{ExtFs, Node, damaged};
use crate::persist::Persist;
use crate::{BLOCK, Buffer};
use vfs::{DirEntry, Ino, Result};

/// The cookie of a name: one more than its hashes, so that 0 is the start.
fn cookie(hasher: Hasher, name: &[u8]) -> u64 {
    let (major, minor) = hasher.hash(name);
    (u64::from(major >> 1) << 32 | u64::from(minor)) + 1
}

impl<P: Persist> ExtFs<P> {
    /// Up to `most` entries with cookies after `after`.
    pub(crate) async fn list(&self, dir: &Node, after: u64, most: usize) -> Result<Vec<DirEntry>> {
        if self.is_indexed(dir) {
            return self.list_index(dir, after, most).await;
        }
        let single = dir_blocks(dir) <= 1 && self.geometry.has_compat(COMPAT_DIR_INDEX);
        if !single {
            return self.list_positions(dir, after, most).await;
        }
        let hasher = damaged(self.geometry.hasher(self.geometry.hash_version))?;
        let mut list = Vec::new();
        if let Some((_, buffer)) = self.next_block(dir, 0).await? {
            self.collect(&buffer, hasher, after, &mut list)?;
        }
        Ok(cut(list, most))
    }

    async fn list_index(&self, dir: &Node, after: u64, most: usize) -> Result<Vec<DirEntry>> {
        let hasher = self.dir_hasher(dir).await?;
        let hash = (after.saturating_sub(1) >> 32 << 1) as u32;
        let mut way = self.probe(dir, hash).await?;
        let mut list = Vec::new();
        loop {
            let leaf = self.dir_block(dir, way.leaf(), Role::Leaf).await?;
            self.collect(&leaf, hasher, after, &mut list)?;
            let next = self.advance(dir, &mut way).await?;
            let goes_on = next.is_some_and(|hash| hash & 1 == 1);
            if next.is_none() || list.len() >= most && !goes_on {
                return Ok(cut(list, most));
            }
        }
    }

    fn collect(
        &self,
        buffer: &Buffer,
        hasher: Hasher,
        after: u64,
        list: &mut Vec<DirEntry>,
    ) -> Result<()> {
        for entry in self.own_entries(buffer)? {
            let cookie = cookie(hasher, &entry.name);
            if cookie > after {
                list.push(DirEntry {
                    cookie,
                    ino: Ino(u64::from(entry.ino)),
                    kind: dirent::kind_of(entry.kind),
                    name: entry.name,
                });
            }
        }
        Ok(())
    }

    async fn list_positions(&self, dir: &Node, after: u64, most: usize) -> Result<Vec<DirEntry>> {
        let mut list = Vec::new();
        let mut index = after / BLOCK as u64;
        while list.len() < most
            && let Some((at, buffer)) = self.next_block(dir, index).await?
        {
            let bytes = buffer.bytes();
            for entry in dirent::Entries::new(&bytes[..], self.geometry.dir_end()) {
                let entry = damaged(entry.ok())?;
                let position = at * BLOCK as u64 + entry.at as u64;
                let hidden = entry.ino == 0 || matches!(entry.name, b"." | b"..");
                if !hidden && position >= after && list.len() < most {
                    list.push(DirEntry {
                        cookie: position + entry.len as u64,
                        ino: Ino(u64::from(entry.ino)),
                        kind: dirent::kind_of(entry.kind),
                        name: entry.name.to_vec(),
                    });
                }
            }
            index = at + 1;
        }
        Ok(list)
    }
}

/// The first `most` by cookie, and those with the cookie of the last.
fn cut(mut list: Vec<DirEntry>, most: usize) -> Vec<DirEntry> {
    list.sort_by_key(|entry| entry.cookie);
    if most > 0 && list.len() > most {
        let last = list[most - 1].cookie;
        let end = list.partition_point(|entry| entry.cookie <= last);
        list.truncate(end);
    }
    list
}
