//! The verbs of the file API.

use crate::buffer::BLOCK;
use crate::delayed::last_change;
use crate::direct::FILE_MAX;
use crate::fs::{ExtFs, Node, Private};
use crate::inode::{ROOT, number};
use crate::persist::{Persist, TxId};
use nand::Payload;
use std::ops::Range;
use units::Refusals;
use vfs::{
    Access, Body, Change, DirEntry, DirtyPage, Errno, FallocateMode, Ino, NewInode, Rename, Result,
    SeekWhat, StatFs, TimeRange, Timestamp, XattrFlags,
};

impl<P: Persist> Body for ExtFs<P> {
    type Private = Private;

    fn is_dax(&self) -> bool {
        self.persist.is_dax()
    }

    fn wants_duplicates(&self) -> bool {
        self.persist.wants_duplicates()
    }

    fn max_size(&self) -> u64 {
        FILE_MAX
    }

    fn max_links(&self) -> u32 {
        self.links_max()
    }

    fn times(&self) -> TimeRange {
        self.geometry.times()
    }

    fn is_read_only(&self) -> bool {
        self.persist.is_read_only()
    }

    fn root(&self) -> Ino {
        Ino(u64::from(ROOT))
    }

    async fn load(&self, ino: Ino) -> Result<Node> {
        let ino = u32::try_from(ino.0).map_err(|_| Errno::ENOENT)?;
        self.load_inode(ino, false).await
    }

    async fn evict(&self, inode: &Node) -> Result<()> {
        if inode.attr.get().nlink == 0 {
            return self.delete(inode).await;
        }
        self.unpromise(inode, 0..u64::MAX);
        self.unkeep(number(inode));
        Ok(())
    }

    async fn lookup(&self, dir: &Node, name: &[u8]) -> Result<Option<Ino>> {
        let Some(found) = self.find_name(dir, name).await? else {
            return Ok(None);
        };
        let known = (1..=self.geometry.inodes).contains(&found.ino);
        if !known {
            return Err(Errno::EUCLEAN);
        }
        Ok(Some(Ino(u64::from(found.ino))))
    }

    async fn create(&self, dir: &Node, name: &[u8], new: NewInode<'_>) -> Result<Node> {
        self.make(dir, name, new).await
    }

    async fn create_unnamed(&self, new: NewInode<'_>) -> Result<Node> {
        let root = self.load_inode(ROOT, false).await?;
        self.make_unnamed(&root, new).await
    }

    async fn link(&self, dir: &Node, name: &[u8], inode: &Node, now: Timestamp) -> Result<()> {
        self.add_link_to(dir, name, inode, now).await
    }

    async fn unlink(&self, dir: &Node, name: &[u8], inode: &Node, now: Timestamp) -> Result<()> {
        self.drop_link(dir, name, inode, now).await
    }

    async fn rmdir(&self, dir: &Node, name: &[u8], inode: &Node, now: Timestamp) -> Result<()> {
        self.drop_dir(dir, name, inode, now).await
    }

    async fn rename(&self, rename: Rename<'_, Private>) -> Result<()> {
        self.move_name(rename).await
    }

    async fn readlink(&self, inode: &Node) -> Result<Vec<u8>> {
        self.target_of(inode).await
    }

    async fn read_dir(&self, dir: &Node, cookie: u64, most: usize) -> Result<Vec<DirEntry>> {
        self.list(dir, cookie, most).await
    }

    async fn parent(&self, dir: &Node) -> Result<Ino> {
        Ok(Ino(u64::from(self.parent_of(dir).await?)))
    }

    async fn store(&self, inode: &Node) -> Result<()> {
        let tx = self.persist.begin(1).await?;
        self.store_inode(&tx, inode);
        self.persist.end(tx).await.map(|_| ())
    }

    async fn truncate(&self, inode: &Node, old: u64) -> Result<()> {
        let size = inode.attr.get().size;
        if size < old {
            return self.cut_to_size(inode).await;
        }
        let tx = self.persist.begin(1).await?;
        inode.private.disk_size.set(size);
        self.store_data(&tx, inode);
        self.persist.end(tx).await.map(|_| ())
    }

    async fn seal_end(&self, inode: &Node) -> Result<()> {
        self.zero_behind_end(inode).await
    }

    fn end_on_medium(&self, inode: &Node) -> u64 {
        inode.private.disk_size.get()
    }

    async fn read_pages(&self, inode: &Node, first: u64, pages: &mut [Payload]) -> Result<()> {
        self.read_back(inode, first, pages).await
    }

    async fn reserve(&self, who: &Access, inode: &Node, pages: Range<u64>) -> Result<()> {
        self.promise(inode, pages, self.kept_from(who)).await
    }

    async fn write_pages(&self, inode: &Node, pages: &[DirtyPage]) -> Result<()> {
        self.write_back(inode, pages).await
    }

    async fn read_direct(&self, inode: &Node, offset: u64, out: &mut [u8]) -> Result<()> {
        self.direct_read(inode, offset, out).await
    }

    async fn write_direct(
        &self,
        who: &Access,
        inode: &Node,
        offset: u64,
        bytes: &[u8],
    ) -> Result<u64> {
        self.direct_write(who, inode, offset, bytes).await
    }

    async fn fallocate(
        &self,
        who: &Access,
        inode: &Node,
        mode: FallocateMode,
        range: Range<u64>,
        now: Timestamp,
    ) -> Result<()> {
        self.change_allocation(who, inode, mode, range, now).await
    }

    async fn seek(&self, inode: &Node, offset: u64, what: SeekWhat) -> Result<Option<u64>> {
        self.find_piece(inode, offset, what).await
    }

    fn change(&self, inode: &Node) -> Change {
        Change(last_change(inode, false).0)
    }

    async fn settle(&self, change: Change) -> Result<()> {
        self.persist.settle(TxId(change.0)).await
    }

    async fn sync(&self, inode: &Node, data_only: bool) -> Result<()> {
        let is_dir = inode.attr.get().kind == vfs::FileKind::Directory;
        if is_dir && vfs::mutant::is("ext4-fsync-skips-directory") {
            return Ok(());
        }
        // As in Linux, where the contents of a directory are journaled like its attributes.
        let data_only = data_only && !is_dir;
        self.persist.force(last_change(inode, data_only)).await
    }

    async fn sync_all(&self) -> Result<()> {
        if vfs::mutant::is("ext4-sync-without-commit") {
            return Ok(());
        }
        self.persist.force_all().await
    }

    async fn unmount(&self) -> Result<()> {
        self.leave().await
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
        self.change_xattr(inode, name, Some(value), flags, now)
            .await
    }

    async fn remove_xattr(&self, inode: &Node, name: &[u8], now: Timestamp) -> Result<()> {
        let flags = XattrFlags::Replace;
        self.change_xattr(inode, name, None, flags, now).await
    }

    async fn list_xattrs(&self, inode: &Node) -> Result<Vec<Vec<u8>>> {
        self.xattr_names(inode).await
    }

    fn stat(&self) -> StatFs {
        let alloc = self.alloc.borrow();
        let free = alloc.available();
        let overhead: u64 = self.system.iter().map(|run| run.len).sum();
        StatFs {
            block_size: BLOCK as u32,
            blocks: self.geometry.blocks - overhead.min(self.geometry.blocks),
            blocks_free: free,
            blocks_available: free.saturating_sub(self.slack() + self.geometry.reserved_blocks),
            files: u64::from(self.geometry.inodes),
            files_free: alloc.free_inodes,
            name_max: 255,
        }
    }

    fn refusals(&self) -> Refusals {
        self.refusals.borrow().clone()
    }
}
