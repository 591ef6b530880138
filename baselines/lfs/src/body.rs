//! The verbs of the file API: each is an operation, and has the turn of the file whose
//! pages it changes or looks for.

use crate::format::path::SIZE_MAX;
use crate::format::superblock::ROOT;
use crate::fs::{Core, File, LfsFs, Private};
use crate::names::LINKS_MAX;
use crate::persist::Persist;
use nand::Payload;
use std::ops::Range;
use units::Refusals;
use vfs::{
    Access, Body, DirEntry, DirtyPage, FallocateMode, Ino, LogStats, NewInode, Rename, Result,
    SeekWhat, StatFs, Timestamp, XattrFlags,
};

impl<P: Persist> LfsFs<P> {
    /// Sections that were cleaned since it was mounted.
    #[must_use]
    pub fn cleaned(&self) -> u64 {
        let stats = self.core.stats.get();
        stats.foreground.calls + stats.background.calls
    }

    /// The strategy that persists the tables and logs of the file system.
    #[must_use]
    pub fn persist(&self) -> &P {
        &self.core.persist
    }
}

impl<P: Persist> Body for LfsFs<P> {
    type Private = Private;

    fn max_size(&self) -> u64 {
        SIZE_MAX
    }

    fn max_links(&self) -> u32 {
        LINKS_MAX
    }

    fn is_read_only(&self) -> bool {
        self.core.ensure_sound().is_err()
    }

    fn root(&self) -> Ino {
        Ino(u64::from(ROOT))
    }

    async fn load(&self, ino: Ino) -> Result<File> {
        let _operation = self.core.look().await;
        self.core.load_inode(ino).await
    }

    async fn evict(&self, inode: &File) -> Result<()> {
        if inode.attr.get().nlink > 0 {
            self.core.unpromise(inode);
            return Ok(());
        }
        let _operation = self.core.operate().await?;
        self.core.delete(inode).await
    }

    async fn lookup(&self, dir: &File, name: &[u8]) -> Result<Option<Ino>> {
        let _operation = self.core.look().await;
        let lead = self.core.find_name(dir, name).await?;
        Ok(lead.map(|lead| Ino(u64::from(lead.ino))))
    }

    async fn create(&self, dir: &File, name: &[u8], new: NewInode<'_>) -> Result<File> {
        let _operation = self.core.operate().await?;
        self.core.make(dir, name, new).await
    }

    async fn create_unnamed(&self, new: NewInode<'_>) -> Result<File> {
        let _operation = self.core.operate().await?;
        self.core.make_unnamed(new).await
    }

    async fn link(&self, dir: &File, name: &[u8], inode: &File, now: Timestamp) -> Result<()> {
        let _operation = self.core.operate().await?;
        self.core.link(dir, name, inode, now).await
    }

    async fn unlink(&self, dir: &File, name: &[u8], inode: &File, now: Timestamp) -> Result<()> {
        let _operation = self.core.operate().await?;
        self.core.unlink(dir, name, inode, now).await
    }

    async fn rmdir(&self, dir: &File, name: &[u8], inode: &File, now: Timestamp) -> Result<()> {
        let _operation = self.core.operate().await?;
        self.core.unlink(dir, name, inode, now).await
    }

    async fn rename(&self, rename: Rename<'_, Private>) -> Result<()> {
        let _operation = self.core.operate().await?;
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

    async fn parent(&self, dir: &File) -> Result<Ino> {
        let _operation = self.core.look().await;
        Ok(Ino(u64::from(self.core.parent(dir).await?)))
    }

    async fn store(&self, inode: &File) -> Result<()> {
        let _operation = self.core.operate().await?;
        self.core.store_inode(inode);
        Ok(())
    }

    async fn truncate(&self, inode: &File, old: u64) -> Result<()> {
        let _operation = self.core.operate().await?;
        let _turn = inode.private.turn.acquire(1).await;
        self.core.resize(inode, old).await
    }

    async fn seal_end(&self, inode: &File) -> Result<()> {
        let _operation = self.core.operate().await?;
        let _turn = inode.private.turn.acquire(1).await;
        self.core.seal_end(inode).await
    }

    fn end_on_medium(&self, inode: &File) -> u64 {
        inode.private.disk_size.get()
    }

    async fn read_pages(&self, inode: &File, first: u64, pages: &mut [Payload]) -> Result<()> {
        let _operation = self.core.look().await;
        let _turn = inode.private.turn.acquire(1).await;
        self.core.read_pages(inode, first, pages).await
    }

    async fn reserve(&self, _: &Access, inode: &File, pages: Range<u64>) -> Result<()> {
        let _operation = self.core.operate().await?;
        let _turn = inode.private.turn.acquire(1).await;
        self.core.reserve(inode, pages).await
    }

    async fn write_pages(&self, inode: &File, pages: &[DirtyPage]) -> Result<()> {
        let _operation = self.core.operate().await?;
        let _turn = inode.private.turn.acquire(1).await;
        self.core.write_pages(inode, pages).await
    }

    async fn read_direct(&self, inode: &File, offset: u64, out: &mut [u8]) -> Result<()> {
        let _operation = self.core.look().await;
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
        let _operation = self.core.operate().await?;
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
        let _operation = self.core.operate().await?;
        let _turn = inode.private.turn.acquire(1).await;
        self.core.allocate(inode, mode, range, now).await
    }

    async fn seek(&self, inode: &File, offset: u64, what: SeekWhat) -> Result<Option<u64>> {
        let _operation = self.core.look().await;
        let _turn = inode.private.turn.acquire(1).await;
        self.core.seek(inode, offset, what).await
    }

    async fn sync(&self, inode: &File, _: bool) -> Result<()> {
        let is_dir = inode.attr.get().kind == vfs::FileKind::Directory;
        if is_dir && vfs::mutant::is("f2fs-fsync-skips-directory") {
            return Ok(());
        }
        self.core.force(inode).await
    }

    async fn sync_all(&self) -> Result<()> {
        if vfs::mutant::is("f2fs-sync-without-checkpoint") {
            return Ok(());
        }
        self.core.force_all().await
    }

    async fn unmount(&self) -> Result<()> {
        self.core.leave().await
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
        let _operation = self.core.operate().await?;
        self.core
            .change_xattr(inode, name, Some(value), flags, now)
            .await
    }

    async fn remove_xattr(&self, inode: &File, name: &[u8], now: Timestamp) -> Result<()> {
        let _operation = self.core.operate().await?;
        let flags = XattrFlags::Replace;
        self.core.change_xattr(inode, name, None, flags, now).await
    }

    async fn list_xattrs(&self, inode: &File) -> Result<Vec<Vec<u8>>> {
        let _operation = self.core.look().await;
        self.core.xattr_names(inode).await
    }

    fn stat(&self) -> StatFs {
        Core::fullness(&self.core)
    }

    fn refusals(&self) -> Refusals {
        self.core.refusals.borrow().clone()
    }

    fn log_stats(&self) -> Option<LogStats> {
        Some(self.core.log_stats())
    }
}
