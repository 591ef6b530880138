//! The implementation of [`Body`] for the file system in memory.

use super::{File, MemFs, Node, ROOT};
use crate::any::AnyBody;
use crate::body::{Body, DirtyPage, NewInode, Rename};
use crate::errno::{Errno, Result};
use crate::types::{
    Access, DirEntry, FallocateMode, FileKind, Ino, PAGE, SeekWhat, StatFs, Timestamp, XattrFlags,
};
use nand::Payload;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use units::SECTOR;

/// Alignment of direct reads and writes in bytes, as on a disk.
const ALIGNMENT: u64 = SECTOR;

impl File {
    /// Asserts that `name` leads where the caller says.
    fn check_name(&self, name: &[u8], leads: Option<&Node>) {
        let names = self.names.borrow();
        let there = names.get(name).map(|entry| entry.ino);
        assert_eq!(there, leads.map(|inode| inode.ino), "what a name leads to");
    }
}

impl MemFs {
    /// Checks that direct access from `offset` to `end` is aligned and within bounds.
    fn check_aligned(&self, offset: u64, end: u64) -> Result<()> {
        let whole = offset.is_multiple_of(ALIGNMENT) && end.is_multiple_of(ALIGNMENT);
        if whole || self.dax {
            Ok(())
        } else {
            Err(Errno::EINVAL)
        }
    }
}

/// Stamps a directory whose names have changed; `links` is the change of its link count, by
/// subdirectories.
fn changed(dir: &Node, links: i32, now: Timestamp) {
    let names = dir.private.names.borrow().len() as u64;
    dir.update(|attr| {
        attr.nlink = attr.nlink.wrapping_add_signed(links);
        attr.size = names * 32;
        (attr.mtime, attr.ctime) = (now, now);
    });
    dir.private.attr.set(dir.attr.get());
}

impl From<MemFs> for AnyBody {
    fn from(body: MemFs) -> Self {
        Self::new(body)
    }
}

impl Body for MemFs {
    type Private = Rc<File>;

    fn wants_duplicates(&self) -> bool {
        self.duplicates
    }

    fn is_dax(&self) -> bool {
        self.dax
    }

    fn max_size(&self) -> u64 {
        i64::MAX as u64
    }

    fn max_links(&self) -> u32 {
        65_000
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn root(&self) -> Ino {
        ROOT
    }

    async fn load(&self, ino: Ino) -> Result<Node> {
        self.wait().await;
        let file = self.files.borrow().get(&ino.0).cloned();
        let private = file.ok_or(Errno::ENOENT)?;
        Ok(Node::new(ino, private.attr.get(), private))
    }

    async fn evict(&self, inode: &Node) -> Result<()> {
        let attr = inode.attr.get();
        inode.private.attr.set(attr);
        if attr.nlink == 0 {
            inode.private.data.borrow_mut().clear();
            self.book(inode);
            self.files.borrow_mut().remove(&inode.ino.0);
            self.free.borrow_mut().push(inode.ino.0);
            self.wait().await;
        }
        Ok(())
    }

    async fn lookup(&self, dir: &Node, name: &[u8]) -> Result<Option<Ino>> {
        self.wait().await;
        let names = dir.private.names.borrow();
        Ok(names.get(name).map(|entry| entry.ino))
    }

    async fn create(&self, dir: &Node, name: &[u8], new: NewInode<'_>) -> Result<Node> {
        dir.private.check_name(name, None);
        let made = self.allocate(new);
        made.private.parent.set(dir.ino);
        dir.private.insert(name, made.ino, new.kind);
        let links = i32::from(new.kind == FileKind::Directory);
        changed(dir, links, new.now);
        Ok(made)
    }

    async fn create_unnamed(&self, new: NewInode<'_>) -> Result<Node> {
        let made = self.allocate(new);
        made.update(|attr| attr.nlink = 0);
        made.private.attr.set(made.attr.get());
        Ok(made)
    }

    async fn link(&self, dir: &Node, name: &[u8], inode: &Node, now: Timestamp) -> Result<()> {
        dir.private.check_name(name, None);
        dir.private.insert(name, inode.ino, inode.attr.get().kind);
        inode.update(|attr| {
            attr.nlink += 1;
            attr.ctime = now;
        });
        changed(dir, 0, now);
        Ok(())
    }

    async fn unlink(&self, dir: &Node, name: &[u8], inode: &Node, now: Timestamp) -> Result<()> {
        dir.private.check_name(name, Some(inode));
        dir.private.remove(name);
        inode.update(|attr| {
            attr.nlink -= 1;
            attr.ctime = now;
        });
        changed(dir, 0, now);
        Ok(())
    }

    async fn rmdir(&self, dir: &Node, name: &[u8], inode: &Node, now: Timestamp) -> Result<()> {
        if !inode.private.names.borrow().is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        dir.private.check_name(name, Some(inode));
        dir.private.remove(name);
        inode.update(|attr| {
            attr.nlink = 0;
            attr.ctime = now;
        });
        changed(dir, -1, now);
        Ok(())
    }

    async fn rename(&self, rename: Rename<'_, Rc<File>>) -> Result<()> {
        let Rename { from, to, now, .. } = rename;
        from.private
            .check_name(rename.from_name, Some(rename.moved));
        to.private.check_name(rename.to_name, rename.replaced);
        let kind = rename.moved.attr.get().kind;
        let is_dir = |inode: &Node| inode.attr.get().kind == FileKind::Directory;
        if let Some(replaced) = rename.replaced.filter(|_| !rename.exchange) {
            if !replaced.private.names.borrow().is_empty() {
                return Err(Errno::ENOTEMPTY);
            }
            replaced.update(|attr| {
                let gone = kind == FileKind::Directory;
                attr.nlink = if gone { 0 } else { attr.nlink - 1 };
                attr.ctime = now;
            });
        }
        let mut links = (0, 0);
        if is_dir(rename.moved) {
            links = (-1, 1);
        }
        if rename.replaced.is_some_and(is_dir) {
            links.1 -= 1;
            links.0 += i32::from(rename.exchange);
        }
        from.private.remove(rename.from_name);
        if let Some(other) = rename.replaced.filter(|_| rename.exchange) {
            from.private
                .insert(rename.from_name, other.ino, other.attr.get().kind);
            other.private.parent.set(from.ino);
            other.update(|attr| attr.ctime = now);
        }
        to.private.insert(rename.to_name, rename.moved.ino, kind);
        rename.moved.private.parent.set(to.ino);
        rename.moved.update(|attr| attr.ctime = now);
        changed(from, links.0, now);
        changed(to, links.1, now);
        Ok(())
    }

    async fn readlink(&self, inode: &Node) -> Result<Vec<u8>> {
        Ok(inode.private.target.to_vec())
    }

    async fn read_dir(&self, dir: &Node, cookie: u64, most: usize) -> Result<Vec<DirEntry>> {
        let (order, names) = (dir.private.order.borrow(), dir.private.names.borrow());
        let after = order.range(cookie + 1..).take(most);
        let entries = after.filter_map(|(&cookie, name)| {
            let entry = names.get(name)?;
            Some(DirEntry {
                cookie,
                ino: entry.ino,
                kind: entry.kind,
                name: name.to_vec(),
            })
        });
        Ok(entries.collect())
    }

    async fn last_cookie(&self, dir: &Node) -> Result<u64> {
        Ok(dir.private.cookies.get())
    }

    async fn parent(&self, dir: &Node) -> Result<Ino> {
        Ok(dir.private.parent.get())
    }

    async fn store(&self, inode: &Node) -> Result<()> {
        inode.private.attr.set(inode.attr.get());
        Ok(())
    }

    async fn truncate(&self, inode: &Node, old: u64) -> Result<()> {
        if let Some(errno) = self.broken.get() {
            return Err(errno);
        }
        let size = inode.attr.get().size;
        let first = size.div_ceil(PAGE);
        inode.private.data.borrow_mut().split_off(&first);
        if self.dax && size < old {
            self.clear(inode, &(size..first * PAGE));
        }
        self.book(inode);
        Ok(())
    }

    async fn read_pages(&self, inode: &Node, first: u64, pages: &mut [Payload]) -> Result<()> {
        if self.recording {
            let call = (inode.ino, first, pages.len());
            self.reads.borrow_mut().push(call);
        }
        self.wait().await;
        let data = inode.private.data.borrow();
        for (index, page) in (first..).zip(pages) {
            *page = data.get(&index).cloned().unwrap_or_default();
        }
        Ok(())
    }

    async fn reserve(&self, _: &Access, inode: &Node, pages: Range<u64>) -> Result<()> {
        self.fill(inode, pages)
    }

    async fn write_pages(&self, inode: &Node, pages: &[DirtyPage]) -> Result<()> {
        let first = pages.first().map_or(0, |page| page.index);
        if self.recording {
            let call = (inode.ino, first, pages.len());
            self.writes.borrow_mut().push(call);
            if self.duplicates {
                self.last.borrow_mut().extend_from_slice(pages);
            }
        }
        self.wait().await;
        if let Some(errno) = self.broken.get() {
            return Err(errno);
        }
        let mut data = inode.private.data.borrow_mut();
        for page in pages {
            data.insert(page.index, page.now.clone());
        }
        drop(data);
        self.book(inode);
        Ok(())
    }

    async fn read_direct(&self, inode: &Node, offset: u64, out: &mut [u8]) -> Result<()> {
        let len = out.len() as u64;
        self.check_aligned(offset, offset + len)?;
        self.wait().await;
        let data = inode.private.data.borrow();
        let mut at = offset;
        while at < offset + len {
            let end = (at / PAGE + 1) * PAGE;
            let to = end.min(offset + len);
            let page = data.get(&(at / PAGE)).unwrap_or(&Payload::Zero);
            let part = &mut out[(at - offset) as usize..(to - offset) as usize];
            let _ = page.copy_to((at % PAGE) as usize, part);
            at = to;
        }
        Ok(())
    }

    async fn write_direct(
        &self,
        _: &Access,
        inode: &Node,
        offset: u64,
        bytes: &[u8],
    ) -> Result<u64> {
        let end = offset + bytes.len() as u64;
        self.check_aligned(offset, end)?;
        self.wait().await;
        self.fill(inode, offset / PAGE..end.div_ceil(PAGE))?;
        let mut data = inode.private.data.borrow_mut();
        let mut at = offset;
        while at < end {
            let to = ((at / PAGE + 1) * PAGE).min(end);
            let page = data.entry(at / PAGE).or_default();
            let mut whole = page.to_bytes();
            let (from, part) = ((at % PAGE) as usize, (at - offset) as usize);
            let len = (to - at) as usize;
            whole[from..from + len].copy_from_slice(&bytes[part..part + len]);
            *page = Payload::Bytes(Arc::new(whole));
            at = to;
        }
        inode.update(|attr| attr.size = attr.size.max(end));
        Ok(bytes.len() as u64)
    }

    async fn fallocate(
        &self,
        _: &Access,
        inode: &Node,
        mode: FallocateMode,
        range: Range<u64>,
        _: Timestamp,
    ) -> Result<()> {
        let pages = range.start / PAGE..range.end.div_ceil(PAGE);
        let keep = match mode {
            FallocateMode::Punch => {
                self.clear(inode, &range);
                return Ok(());
            }
            FallocateMode::Allocate { keep_size } => {
                self.fill(inode, pages)?;
                keep_size
            }
            FallocateMode::Zero { keep_size } => {
                self.clear(inode, &range);
                self.fill(inode, pages)?;
                keep_size
            }
        };
        if !keep {
            inode.update(|attr| attr.size = attr.size.max(range.end));
        }
        Ok(())
    }

    fn clones(&self) -> bool {
        !self.dax
    }

    async fn clone_range(
        &self,
        from: &Node,
        span: Range<u64>,
        to: &Node,
        place: u64,
        now: Timestamp,
    ) -> Result<bool> {
        let (len, end) = (span.end - span.start, place + (span.end - span.start));
        let ends = span.end == from.attr.get().size && end >= to.attr.get().size;
        let aligned = span.start.is_multiple_of(PAGE) && place.is_multiple_of(PAGE);
        if !aligned || !(len.is_multiple_of(PAGE) || ends) {
            return Ok(false);
        }
        let first = span.start / PAGE;
        let pages = first..span.end.div_ceil(PAGE);
        let held = from.private.data.borrow();
        let held: Vec<u64> = held.range(pages).map(|(&index, _)| index).collect();
        self.clear(to, &(place..end.next_multiple_of(PAGE)));
        for index in held {
            let there = index - first + place / PAGE;
            self.fill(to, there..there + 1)?;
            let page = from.private.data.borrow()[&index].clone();
            to.private.data.borrow_mut().insert(there, page);
        }
        to.update(|attr| {
            (attr.mtime, attr.ctime) = (now, now);
            attr.size = attr.size.max(end);
        });
        Ok(true)
    }

    async fn seek(&self, inode: &Node, offset: u64, what: SeekWhat) -> Result<Option<u64>> {
        let data = inode.private.data.borrow();
        let size = inode.attr.get().size;
        let first = offset / PAGE;
        let found = match what {
            SeekWhat::Data => data.range(first..).next().map(|(&index, _)| index),
            SeekWhat::Hole => (first..).find(|index| !data.contains_key(index)),
        };
        let found = found.map(|index| offset.max(index * PAGE));
        Ok(found.filter(|&found| found < size))
    }

    async fn sync(&self, _: &Node, _: bool) -> Result<()> {
        self.wait().await;
        Ok(())
    }

    async fn sync_all(&self) -> Result<()> {
        self.wait().await;
        Ok(())
    }

    async fn unmount(&self) -> Result<()> {
        Ok(())
    }

    async fn get_xattr(&self, inode: &Node, name: &[u8]) -> Result<Vec<u8>> {
        let xattrs = inode.private.xattrs.borrow();
        xattrs.get(name).cloned().ok_or(Errno::ENODATA)
    }

    async fn set_xattr(
        &self,
        inode: &Node,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
        now: Timestamp,
    ) -> Result<()> {
        let mut xattrs = inode.private.xattrs.borrow_mut();
        match (flags, xattrs.contains_key(name)) {
            (XattrFlags::Create, true) => return Err(Errno::EEXIST),
            (XattrFlags::Replace, false) => return Err(Errno::ENODATA),
            _ => xattrs.insert(name.to_vec(), value.to_vec()),
        };
        inode.update(|attr| attr.ctime = now);
        Ok(())
    }

    async fn remove_xattr(&self, inode: &Node, name: &[u8], now: Timestamp) -> Result<()> {
        let removed = inode.private.xattrs.borrow_mut().remove(name);
        inode.update(|attr| attr.ctime = now);
        removed.map(drop).ok_or(Errno::ENODATA)
    }

    async fn list_xattrs(&self, inode: &Node) -> Result<Vec<Vec<u8>>> {
        Ok(inode.private.xattrs.borrow().keys().cloned().collect())
    }

    fn stat(&self) -> StatFs {
        let free = self.pages.saturating_sub(self.used.get());
        StatFs {
            block_size: PAGE as u32,
            blocks: self.pages,
            blocks_free: free,
            blocks_available: free,
            files: self.pages,
            files_free: self.pages.saturating_sub(self.files.borrow().len() as u64),
            name_max: 255,
        }
    }
}
