//! The implementation of [`Body`] by [`NovaFs`].

use crate::entry::SIZE_MAX;
use crate::format::{ROOT, TIMES};
use crate::fs::{Node, NovaFs, Private};
use crate::names::LINKS_MAX;
use nand::Payload;
use std::ops::Range;
use units::Refusals;
use vfs::{
    Access, Body, DirEntry, DirtyPage, FallocateMode, Ino, NewInode, Rename, Result, SeekWhat,
    StatFs, TimeRange, Timestamp, XattrFlags,
};

impl Body for NovaFs {
    type Private = Private;

    fn is_dax(&self) -> bool {
        true
    }

    fn max_size(&self) -> u64 {
        SIZE_MAX
    }

    fn max_links(&self) -> u32 {
        LINKS_MAX
    }

    fn times(&self) -> TimeRange {
        TIMES
    }

    fn is_read_only(&self) -> bool {
        self.failed.get()
    }

    fn root(&self) -> Ino {
        ROOT
    }

    async fn load(&self, ino: Ino) -> Result<Node> {
        self.load_inode(ino).await
    }

    async fn evict(&self, inode: &Node) -> Result<()> {
        if inode.attr.get().nlink > 0 {
            return Ok(());
        }
        self.drop_inode(inode).await
    }

    async fn lookup(&self, dir: &Node, name: &[u8]) -> Result<Option<Ino>> {
        let lead = dir.private.state.borrow().lead(name);
        Ok(lead.map(|lead| lead.ino))
    }

    async fn create(&self, dir: &Node, name: &[u8], new: NewInode<'_>) -> Result<Node> {
        self.make(dir, name, new).await
    }

    async fn create_unnamed(&self, new: NewInode<'_>) -> Result<Node> {
        self.make_unnamed(new).await
    }

    async fn link(&self, dir: &Node, name: &[u8], inode: &Node, now: Timestamp) -> Result<()> {
        self.add_link(dir, name, inode, now).await
    }

    async fn unlink(&self, dir: &Node, name: &[u8], inode: &Node, now: Timestamp) -> Result<()> {
        self.drop_name(dir, name, inode, now).await
    }

    async fn rmdir(&self, dir: &Node, name: &[u8], inode: &Node, now: Timestamp) -> Result<()> {
        self.drop_name(dir, name, inode, now).await
    }

    async fn rename(&self, rename: Rename<'_, Private>) -> Result<()> {
        self.move_name(rename).await
    }

    async fn readlink(&self, inode: &Node) -> Result<Vec<u8>> {
        self.target_of(inode).await
    }

    async fn read_dir(&self, dir: &Node, cookie: u64, most: usize) -> Result<Vec<DirEntry>> {
        Ok(Self::list(dir, cookie, most))
    }

    async fn last_cookie(&self, dir: &Node) -> Result<u64> {
        Ok(dir.private.state.borrow().next_cookie() - 1)
    }

    async fn parent(&self, dir: &Node) -> Result<Ino> {
        Ok(dir.private.state.borrow().parent)
    }

    async fn store(&self, inode: &Node) -> Result<()> {
        self.store_attr(inode).await
    }

    async fn truncate(&self, inode: &Node, old: u64) -> Result<()> {
        self.resize(inode, old).await
    }

    async fn seal_end(&self, inode: &Node) -> Result<()> {
        self.zero_behind_end(inode).await
    }

    async fn read_pages(&self, inode: &Node, first: u64, pages: &mut [Payload]) -> Result<()> {
        self.read_whole(inode, first, pages).await
    }

    async fn reserve(&self, _: &Access, _: &Node, _: Range<u64>) -> Result<()> {
        Ok(())
    }

    async fn write_pages(&self, inode: &Node, pages: &[DirtyPage]) -> Result<()> {
        self.write_whole(inode, pages).await
    }

    async fn read_direct(&self, inode: &Node, offset: u64, out: &mut [u8]) -> Result<()> {
        self.read_at(inode, offset, out).await
    }

    async fn write_direct(
        &self,
        _: &Access,
        inode: &Node,
        offset: u64,
        bytes: &[u8],
    ) -> Result<u64> {
        self.write_at(inode, offset, bytes).await?;
        Ok(bytes.len() as u64)
    }

    async fn fallocate(
        &self,
        _: &Access,
        inode: &Node,
        mode: FallocateMode,
        range: Range<u64>,
        now: Timestamp,
    ) -> Result<()> {
        self.allocate(inode, mode, range, now).await
    }

    async fn seek(&self, inode: &Node, offset: u64, what: SeekWhat) -> Result<Option<u64>> {
        Ok(Self::seek_from(inode, offset, what))
    }

    async fn sync(&self, _: &Node, _: bool) -> Result<()> {
        // Every call was durable when it returned.
        Ok(())
    }

    async fn sync_all(&self) -> Result<()> {
        Ok(())
    }

    async fn unmount(&self) -> Result<()> {
        Ok(())
    }

    async fn get_xattr(&self, inode: &Node, name: &[u8]) -> Result<Vec<u8>> {
        self.xattr(inode, name).await
    }

    async fn set_xattr(
        &self,
        inode: &Node,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
        now: Timestamp,
    ) -> Result<()> {
        self.add_xattr(inode, name, value, flags, now).await
    }

    async fn remove_xattr(&self, inode: &Node, name: &[u8], now: Timestamp) -> Result<()> {
        self.drop_xattr(inode, name, now).await
    }

    async fn list_xattrs(&self, inode: &Node) -> Result<Vec<Vec<u8>>> {
        Ok(Self::xattr_names(inode))
    }

    fn stat(&self) -> StatFs {
        self.fullness()
    }

    fn refusals(&self) -> Refusals {
        self.refusals.borrow().clone()
    }
}
