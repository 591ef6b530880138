//! Listing directories.
//!
//! Cookies 1 and 2 stand for `.` and `..`; those of the body follow, two higher.

use crate::access::ensure;
use crate::body::Body;
use crate::errno::{Errno, Result};
use crate::file::Handle;
use crate::types::{DirEntry, FileKind, Ino};
use crate::vfs::Vfs;

/// Cookies that come before those of the body.
const DOTS: u64 = 2;

impl<B: Body> Vfs<B> {
    /// Up to `most` entries after `cookie` (0 from the start), with `.` and `..`;
    /// an empty list at the end. An entry that is there all the time is listed
    /// exactly once.
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
            let mut found = core.body.read_dir(&dir.inode, after, left).await?;
            for entry in &mut found {
                entry.cookie += DOTS;
            }
            entries.append(&mut found);
        }
        core.touch(dir).await?;
        Ok(entries)
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
