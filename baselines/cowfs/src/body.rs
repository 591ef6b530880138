//! The verbs of the file API over [`CowFs`].
//!
//! Invariants: a verb that changes or reads the mapping of a file's pages acquires the turn of
//! the file first, and operations begin below it. Two files are locked in the order of their
//! inode numbers.

use crate::format::id;
use crate::fs::{Core, CowFs, File, Private};
use crate::names::{LINKS_MAX, NAME_ITEMS};
use crate::persist::Persist;
use crate::read::SIZE_MAX;
use nand::Payload;
use std::ops::Range;
use units::Refusals;
use vfs::{
    Access, Body, DirEntry, DirtyPage, ExtentCounts, FallocateMode, Ino, NewInode, Rename, Result,
    SeekWhat, StatFs, Timestamp, TreeStats, XattrFlags,
};

impl<S: Persist> CowFs<S> {
    /// The strategy that persists overwrites and changed nodes.
    #[must_use]
    pub fn persist(&self) -> &S {
        &self.core.persist
    }
}

impl<S: Persist> Body for CowFs<S> {
    type Private = Private;

    fn max_size(&self) -> u64 {
        SIZE_MAX
    }

    fn max_links(&self) -> u32 {
        LINKS_MAX
    }

    fn is_read_only(&self) -> bool {
        self.core.failed.get()
    }

    fn is_frozen(&self, inode: &File) -> bool {
        self.core.ensure_changeable(&inode.private.tree).is_err()
    }

    fn root(&self) -> Ino {
        Ino(id::FIRST_FREE)
    }

    async fn load(&self, ino: Ino) -> Result<File> {
        let _operation = self.core.look().await;
        self.core.load_inode(ino).await
    }

    async fn evict(&self, inode: &File) -> Result<()> {
        self.core.release_all(inode);
        if inode.attr.get().nlink > 0 {
            return Ok(());
        }
        let private = &inode.private;
        self.core.delete(&private.tree, private.number).await
    }

    async fn lookup(&self, dir: &File, name: &[u8]) -> Result<Option<Ino>> {
        let _operation = self.core.look().await;
        self.core.lookup(dir, name).await
    }

    async fn create(&self, dir: &File, name: &[u8], new: NewInode<'_>) -> Result<File> {
        let _operation = self.core.operate(NAME_ITEMS + 2).await?;
        self.core.make(dir, name, new).await
    }

    async fn create_unnamed(&self, new: NewInode<'_>) -> Result<File> {
        let _operation = self.core.operate(NAME_ITEMS).await?;
        self.core.make_unnamed(new).await
    }

    async fn link(&self, dir: &File, name: &[u8], inode: &File, now: Timestamp) -> Result<()> {
        let _operation = self.core.operate(NAME_ITEMS).await?;
        self.core.link(dir, name, inode, now).await
    }

    async fn unlink(&self, dir: &File, name: &[u8], inode: &File, now: Timestamp) -> Result<()> {
        let _operation = self.core.operate_to_free(NAME_ITEMS + 1).await?;
        self.core.unlink(dir, name, inode, now).await
    }

    async fn rmdir(&self, dir: &File, name: &[u8], inode: &File, now: Timestamp) -> Result<()> {
        let _operation = self.core.operate_to_free(NAME_ITEMS + 1).await?;
        self.core.unlink(dir, name, inode, now).await
    }

    async fn rename(&self, rename: Rename<'_, Private>) -> Result<()> {
        let _operation = self.core.operate(3 * NAME_ITEMS).await?;
        self.core.rename(rename).await
    }

    async fn readlink(&self, inode: &File) -> Result<Vec<u8>> {
        let _operation = self.core.look().await;
        self.core.target(inode).await
    }

    async fn read_dir(&self, dir: &File, cookie: u64, most: usize) -> Result<Vec<DirEntry>> {
        let _operation = self.core.look().await;
        self.core.list(dir, cookie, most).await
    }

    async fn last_cookie(&self, dir: &File) -> Result<u64> {
        let _operation = self.core.look().await;
        Ok(self.core.next_index(dir).await? - 1)
    }

    async fn parent(&self, dir: &File) -> Result<Ino> {
        let _operation = self.core.look().await;
        self.core.parent(dir).await
    }

    async fn store(&self, inode: &File) -> Result<()> {
        self.core.ensure_changeable(&inode.private.tree)?;
        let _operation = self.core.operate(1).await?;
        self.core.store_inode(inode).await
    }

    async fn truncate(&self, inode: &File, old: u64) -> Result<()> {
        let _turn = inode.private.turn.acquire(1).await;
        self.core.resize(inode, old).await
    }

    async fn seal_end(&self, inode: &File) -> Result<()> {
        let _turn = inode.private.turn.acquire(1).await;
        self.core.seal_end(inode).await
    }

    fn end_on_medium(&self, inode: &File) -> u64 {
        inode.private.disk_size.get()
    }

    async fn read_pages(&self, inode: &File, first: u64, pages: &mut [Payload]) -> Result<()> {
        let _turn = inode.private.turn.acquire(1).await;
        self.core.read_pages(inode, first, pages).await
    }

    async fn reserve(&self, _: &Access, inode: &File, pages: Range<u64>) -> Result<()> {
        let _turn = inode.private.turn.acquire(1).await;
        self.core.reserve(inode, pages).await
    }

    async fn write_pages(&self, inode: &File, pages: &[DirtyPage]) -> Result<()> {
        let _turn = inode.private.turn.acquire(1).await;
        self.core.write_pages(inode, pages).await
    }

    async fn read_direct(&self, inode: &File, offset: u64, out: &mut [u8]) -> Result<()> {
        let _turn = inode.private.turn.acquire(1).await;
        self.core.read_direct(inode, offset, out).await
    }

    async fn write_direct(
        &self,
        _: &Access,
        inode: &File,
        offset: u64,
        bytes: &[u8],
    ) -> Result<u64> {
        let _turn = inode.private.turn.acquire(1).await;
        self.core.write_direct(inode, offset, bytes).await
    }

    async fn fallocate(
        &self,
        _: &Access,
        inode: &File,
        mode: FallocateMode,
        range: Range<u64>,
        now: Timestamp,
    ) -> Result<()> {
        let _turn = inode.private.turn.acquire(1).await;
        self.core.allocate(inode, mode, range, now).await
    }

    fn clones(&self) -> bool {
        true
    }

    async fn clone_range(
        &self,
        from: &File,
        span: Range<u64>,
        to: &File,
        place: u64,
        now: Timestamp,
    ) -> Result<bool> {
        let (one, other) = (&from.private.turn, &to.private.turn);
        let (first, second) = if from.ino <= to.ino {
            (one, other)
        } else {
            (other, one)
        };
        let _first = first.acquire(1).await;
        let _second = match from.ino == to.ino {
            true => None,
            false => Some(second.acquire(1).await),
        };
        self.core.clone_range(from, span, to, place, now).await
    }

    async fn seek(&self, inode: &File, offset: u64, what: SeekWhat) -> Result<Option<u64>> {
        let _turn = inode.private.turn.acquire(1).await;
        self.core.seek(inode, offset, what).await
    }

    async fn sync(&self, inode: &File, data_only: bool) -> Result<()> {
        self.core.force(inode, data_only).await
    }

    async fn sync_all(&self) -> Result<()> {
        self.core.commit().await
    }

    async fn unmount(&self) -> Result<()> {
        self.core.commit().await
    }

    async fn get_xattr(&self, inode: &File, name: &[u8]) -> Result<Vec<u8>> {
        let _operation = self.core.look().await;
        self.core.xattr(inode, name).await
    }

    async fn set_xattr(
        &self,
        inode: &File,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
        now: Timestamp,
    ) -> Result<()> {
        let _operation = self.core.operate(2).await?;
        self.core
            .change_xattr(inode, name, Some(value), flags, now)
            .await
    }

    async fn remove_xattr(&self, inode: &File, name: &[u8], now: Timestamp) -> Result<()> {
        let _operation = self.core.operate(2).await?;
        let flags = XattrFlags::Replace;
        self.core.change_xattr(inode, name, None, flags, now).await
    }

    async fn list_xattrs(&self, inode: &File) -> Result<Vec<Vec<u8>>> {
        let _operation = self.core.look().await;
        self.core.xattr_names(inode).await
    }

    async fn count_extents(&self) -> Result<Option<ExtentCounts>> {
        let _operation = self.core.look().await;
        self.core.count_extents().await.map(Some)
    }

    fn tree_stats(&self) -> Option<TreeStats> {
        Some(self.core.tree_stats())
    }

    fn stat(&self) -> StatFs {
        Core::fullness(&self.core)
    }

    fn refusals(&self) -> Refusals {
        self.core.refusals.borrow().clone()
    }
}
