//! Listing directories.
//!
//! Cookies 1 and 2 stand for `.` and `..`; a cookie of the body is shifted up by two.

use crate::access::ensure;
use crate::body::Body;
use crate::errno::{Errno, Result};
use crate::file::{Handle, OpenFile};
use crate::types::{DirEntry, FileKind, Ino};
use crate::vfs::{Core, Vfs};

/// Cookies used for `.` and `..`.
const DOTS: u64 = 2;

impl<B: Body> Vfs<B> {
    /// Lists up to `most` entries after `cookie` (0: from the start), with `.` and `..`; empty at
    /// the end. An entry that exists during the whole listing is listed exactly once. An entry
    /// added after the start may be listed or not, but the listing ends: names appended behind its
    /// end appear only in the next listing.
    ///
    /// # Errors
    /// `EBADF`, `ENOTDIR`, `EIO`.
    pub async fn read_dir(
        &self,
        handle: &Handle,
        cookie: u64,
        most: usize,
    ) -> Result<Vec<DirEntry>> {
        let core = &self.core;
        core.pay(core.config.costs.call).await;
        let file = core.file(handle)?;
        let dir = &file.node;
        ensure(dir.is_dir(), Errno::ENOTDIR)?;
        if dir.attr().nlink == 0 {
            return Ok(Vec::new());
        }
        let mut entries = Vec::new();
        if cookie < 1 {
            file.listed_to.set(None);
        }
        if cookie < 1 && most > 0 {
            entries.push(dots(1, dir.ino(), b"."));
        }
        if cookie < DOTS && entries.len() < most {
            let parent = core.parent(dir).await?;
            entries.push(dots(DOTS, parent.ino(), b".."));
        }
        let (after, left) = (cookie.saturating_sub(DOTS), most - entries.len());
        if left > 0 {
            let _guard = dir.lock.read().await;
            let last = core.end_of_listing(&file).await?;
            let mut found = core.body.read_dir(&dir.inode, after, left).await?;
            found.retain(|entry| entry.cookie <= last);
            for entry in &mut found {
                entry.cookie += DOTS;
            }
            entries.append(&mut found);
        }
        core.touch(dir).await?;
        Ok(entries)
    }
}

impl<B: Body> Core<B> {
    /// The last cookie of the body in a listing; found out as it is begun.
    async fn end_of_listing(&self, file: &OpenFile<B::Private>) -> Result<u64> {
        if let Some(last) = file.listed_to.get() {
            return Ok(last);
        }
        let last = self.body.last_cookie(&file.node.inode).await?;
        file.listed_to.set(Some(last));
        Ok(last)
    }
}

fn dots(cookie: u64, ino: Ino, name: &[u8]) -> DirEntry {
    DirEntry {
        cookie,
        ino,
        kind: FileKind::Directory,
        name: name.to_vec(),
    }
}
