//! Contents of files: in the inode while they fit, then in blocks that are written to
//! new places each time.
//!
//! Invariants: a task that reads or changes the addresses of a file's pages holds the turn
//! of the file, but for relocation, which redirects addresses at one instant; an address
//! is in a node once its block is on the medium; a page that is dirty in the cache is
//! accounted for. The size on the medium grows only over pages that were written.

use crate::format::node::{self, INLINE_MOST};
use crate::format::path::SIZE_MAX;
use crate::format::summary::Owner;
use crate::format::{BLOCK, NEW_ADDR};
use crate::fs::{Core, File, damaged, owner_of, show_blocks};
use crate::inplace::runs;
use crate::nodes::{Found, NodeBuf};
use crate::persist::{Log, MainArea, Persist};
use host::{Purpose, Who};
use nand::Payload;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use vfs::direct::{gather, overlaid, page_of, sectors, touched, visible, within};
use vfs::{DirtyPage, Errno, FallocateMode, Hint, Result, SeekWhat, Timestamp};

const SIZE: u64 = BLOCK as u64;

/// The log that contents of a file go to.
fn log_of(file: &File) -> Log {
    let cold = node::ADVISE.get(&file.private.buf.bytes()[..]) & node::ADVISE_COLD != 0;
    match file.hint.get() {
        Hint::Extreme => Log::ColdData,
        _ if cold => Log::ColdData,
        Hint::Short => Log::HotData,
        _ => Log::WarmData,
    }
}

fn is_inline(file: &File) -> bool {
    node::has(&file.private.buf.bytes(), node::HAS_DATA)
}

/// The contents of a page that the inode has.
fn inline_page(buf: &NodeBuf) -> [u8; BLOCK] {
    let mut page = [0; BLOCK];
    page[..INLINE_MOST].copy_from_slice(node::inline(&buf.bytes()));
    page
}

impl<P: Persist> Core<P> {
    /// Gives back the block that was promised to a file.
    pub(crate) fn unpromise(&self, file: &File) {
        if file.private.promised.replace(false) {
            self.count(|counts| counts.promised -= 1);
        }
    }

    /// Fills `pages` with the contents of the pages from number `first` on.
    pub(crate) async fn read_pages(
        &self,
        file: &File,
        first: u64,
        pages: &mut [Payload],
    ) -> Result<()> {
        pages.fill(Payload::Zero);
        if is_inline(file) {
            if first == 0 && !pages.is_empty() {
                pages[0] = Payload::Bytes(Arc::new(inline_page(&file.private.buf)));
            }
            return Ok(());
        }
        let (mut at, count) = (0, pages.len());
        while at < count {
            let addr = self.addr_of(&file.private.buf, first + at as u64).await?;
            let mut len = 1;
            if addr != 0 && addr != NEW_ADDR {
                while at + len < count {
                    let next = self
                        .addr_of(&file.private.buf, first + (at + len) as u64)
                        .await?;
                    if next != addr + len as u32 {
                        break;
                    }
                    len += 1;
                }
                let part = &mut pages[at..at + len];
                self.persist.main().read(addr, part, owner_of(file)).await?;
            }
            at += len;
        }
        Ok(())
    }

    /// Accounts for `pages`, or for none of them.
    pub(crate) async fn reserve(&self, file: &File, pages: Range<u64>) -> Result<()> {
        if is_inline(file) {
            if pages.end <= 1 {
                if !file.private.promised.get() {
                    self.take_block()?;
                    self.count(|counts| {
                        counts.valid_blocks -= 1;
                        counts.promised += 1;
                    });
                    file.private.promised.set(true);
                }
                return Ok(());
            }
            self.outgrow_inode(file).await?;
        }
        self.reserve_each(file, pages).await.map(drop)
    }

    /// Accounts for `pages`, or on an error for none of them; returns the places of those that
    /// were not accounted for before.
    async fn reserve_each(
        &self,
        file: &File,
        pages: Range<u64>,
    ) -> Result<Vec<(Rc<NodeBuf>, usize)>> {
        let mut taken = Vec::new();
        for page in pages {
            match self.reserve_page(file, page).await {
                Ok(new) => taken.extend(new),
                Err(errno) => {
                    self.give_up(file, taken);
                    return Err(errno);
                }
            }
        }
        show_blocks(file);
        Ok(taken)
    }

    async fn reserve_page(&self, file: &File, page: u64) -> Result<Option<(Rc<NodeBuf>, usize)>> {
        let (buf, at) = self.find_or_make(&file.private.buf, page).await?;
        if buf.addr(at) != 0 {
            return Ok(None);
        }
        self.reserve_at(&file.private.buf, &buf, at)?;
        Ok(Some((buf, at)))
    }

    /// Gives pages back that were accounted for and not written.
    fn give_up(&self, file: &File, taken: Vec<(Rc<NodeBuf>, usize)>) {
        for (buf, at) in taken {
            self.free_addrs(&buf, at..at + 1);
            self.add_blocks(&file.private.buf, -1);
        }
        show_blocks(file);
    }

    /// Accounts for the page at an address that has none.
    fn reserve_at(&self, inode: &NodeBuf, buf: &NodeBuf, at: usize) -> Result<()> {
        self.take_block()?;
        buf.edit(|bytes| node::set_addr(bytes, at, NEW_ADDR));
        self.soil(buf);
        self.add_blocks(inode, 1);
        Ok(())
    }

    /// Accounts for the first page, which is dirty, as a block, and drops what the inode
    /// has of it. The promised block becomes this one without an await in between: if another
    /// task took the block, the page could not be written back.
    fn leave_inode(&self, file: &File) -> Result<()> {
        self.unpromise(file);
        self.take_block()?;
        let buf = &file.private.buf;
        buf.edit(|bytes| {
            node::drop_inline(bytes);
            node::set_addr(bytes, 0, NEW_ADDR);
        });
        self.soil(buf);
        self.add_blocks(buf, 1);
        Ok(())
    }

    /// Moves contents from the inode into a block.
    async fn outgrow_inode(&self, file: &File) -> Result<()> {
        let buf = &file.private.buf;
        let page = inline_page(buf);
        if page.iter().all(|&byte| byte == 0) {
            if file.private.promised.get() {
                return self.leave_inode(file);
            }
            buf.edit(node::drop_inline);
            self.soil(buf);
            return Ok(());
        }
        self.unpromise(file);
        self.take_block()?;
        let dirty = page_of(0, page);
        let place = [(Rc::clone(buf), 0, &dirty)];
        let written = self.write_new(&place, log_of(file), owner_of(file));
        let addrs = written.await.inspect_err(|_| self.give_block(0))?;
        buf.edit(|bytes| {
            node::drop_inline(bytes);
            node::set_addr(bytes, 0, addrs[0]);
        });
        self.add_blocks(buf, 1);
        show_blocks(file);
        Ok(())
    }

    /// Writes pages to the next places of `log`; gives where they are. Nothing leads to them yet.
    pub(crate) async fn write_new(
        &self,
        pages: &[(Rc<NodeBuf>, usize, &DirtyPage)],
        log: Log,
        who: Who,
    ) -> Result<Vec<u32>> {
        self.ensure_sound()?;
        let (mut placed, mut refused) = (Vec::new(), None);
        for (buf, at, page) in pages {
            let version = self.nat.borrow().get(buf.nid).unwrap_or_default().version;
            let owner = Owner {
                nid: buf.nid,
                version,
                at: *at as u16,
            };
            let given = match self.give(log, owner) {
                Ok(given) => given,
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            };
            placed.push((given.addr, page.now.clone()));
        }
        let addrs: Vec<u32> = placed.iter().map(|(addr, _)| *addr).collect();
        let writes = runs(placed.iter().cloned());
        let each = writes
            .iter()
            .map(|(addr, run)| self.persist.main().write(*addr, run, log, who));
        let done: Result<Vec<()>> = sim::join_all(each.collect()).await.into_iter().collect();
        let done = self.noted(done);
        // Pages with a place were written even after a refusal: later writes of the log continue
        // behind them.
        if let Some(errno) = done.err().or(refused) {
            self.take_back(&placed);
            return Err(errno);
        }
        self.note_change();
        Ok(addrs)
    }

    /// Frees places that nothing leads to.
    fn take_back(&self, placed: &[(u32, Payload)]) {
        let mut segments = self.segments.borrow_mut();
        placed
            .iter()
            .for_each(|(addr, _)| segments.free_block(*addr));
    }

    /// Writes the target of a long symbolic link to a block.
    pub(crate) async fn write_target(&self, buf: &Rc<NodeBuf>, target: &[u8]) -> Result<()> {
        let mut page = [0; BLOCK];
        let room = page.get_mut(..target.len()).ok_or(Errno::ENAMETOOLONG)?;
        room.copy_from_slice(target);
        self.take_block()?;
        let (dirty, who) = (page_of(0, page), self.who(Purpose::Data));
        let place = [(Rc::clone(buf), 0, &dirty)];
        let written = self.write_new(&place, Log::WarmData, who);
        let addrs = written.await.inspect_err(|_| self.give_block(0))?;
        buf.edit(|bytes| {
            node::drop_inline(bytes);
            node::set_addr(bytes, 0, addrs[0]);
        });
        self.add_blocks(buf, 1);
        Ok(())
    }

    /// Writes dirty pages back.
    pub(crate) async fn write_pages(&self, file: &File, pages: &[DirtyPage]) -> Result<()> {
        let size = file.attr.get().size;
        let inside = |page: &&DirtyPage| page.index * SIZE < size;
        let pages: Vec<&DirtyPage> = pages.iter().filter(inside).collect();
        let Some(last) = pages.last() else {
            return Ok(());
        };
        let end = size.min((last.index + 1) * SIZE);
        if is_inline(file) && last.index == 0 && size <= INLINE_MOST as u64 {
            let bytes = last.now.to_bytes();
            let buf = &file.private.buf;
            buf.edit(|inode| node::set_inline(inode, &bytes[..size as usize]));
            self.unpromise(file);
        } else {
            self.write_blocks(file, &pages).await?;
        }
        let known = file.private.disk_size.get();
        if !vfs::mutant::is("f2fs-fdatasync-skips-size") {
            file.private.disk_size.set(known.max(end));
        }
        self.store_inode(file);
        Ok(())
    }

    async fn write_blocks(&self, file: &File, pages: &[&DirtyPage]) -> Result<()> {
        if is_inline(file) {
            if pages[0].index == 0 {
                self.leave_inode(file)?;
            } else {
                self.outgrow_inode(file).await?;
            }
        }
        let inode = &file.private.buf;
        let mut places = Vec::new();
        for page in pages {
            let (buf, at) = self.find_or_make(inode, page.index).await?;
            if buf.addr(at) == 0 {
                self.reserve_at(inode, &buf, at)?;
            }
            places.push((buf, at, *page));
        }
        let addrs = self
            .write_new(&places, log_of(file), owner_of(file))
            .await?;
        for ((buf, at, _), addr) in places.iter().zip(addrs) {
            let old = buf.addr(*at);
            if self.geometry.is_main(old) {
                self.segments.borrow_mut().free_block(old);
            }
            buf.edit(|bytes| node::set_addr(bytes, *at, addr));
            self.soil(buf);
        }
        Ok(())
    }

    /// Reads around the cache, whole sectors.
    pub(crate) async fn read_direct(&self, file: &File, offset: u64, out: &mut [u8]) -> Result<()> {
        let range = sectors(offset, out.len(), SIZE_MAX)?;
        let pages = touched(&range);
        let mut payloads = vec![Payload::Zero; (pages.end - pages.start) as usize];
        self.read_pages(file, pages.start, &mut payloads).await?;
        gather(&range, &payloads, out)
    }

    /// Writes around the cache, whole sectors, to new places.
    pub(crate) async fn write_direct(&self, file: &File, offset: u64, bytes: &[u8]) -> Result<u64> {
        let range = sectors(offset, bytes.len(), SIZE_MAX)?;
        if is_inline(file) {
            self.outgrow_inode(file).await?;
        }
        let taken = self.reserve_each(file, touched(&range)).await?;
        let written = self.write_over(file, &range, bytes).await;
        if written.is_err() {
            // No write-back would write these pages: none of them is dirty in the cache.
            self.give_up(file, taken);
        }
        written.map(|()| bytes.len() as u64)
    }

    /// Writes a range whose pages are accounted for.
    async fn write_over(&self, file: &File, range: &Range<u64>, bytes: &[u8]) -> Result<()> {
        let old = file.attr.get().size;
        let seen = async |index| self.visible(file, index, old).await;
        let dirty = overlaid(range, bytes, seen).await?;
        file.update(|attr| attr.size = old.max(range.end));
        let written = self.write_pages(file, &dirty).await;
        if written.is_err() {
            file.update(|attr| attr.size = old);
        }
        written
    }

    /// Contents of page `index` of a file of `size` bytes; bytes behind its end are zero.
    async fn visible(&self, file: &File, index: u64, size: u64) -> Result<[u8; BLOCK]> {
        let mut page = [Payload::Zero];
        self.read_pages(file, index, &mut page).await?;
        visible(&page[0], index, size)
    }

    /// Sets the size that the file has already in its attributes.
    pub(crate) async fn resize(&self, file: &File, old: u64) -> Result<()> {
        let size = file.attr.get().size;
        let buf = &file.private.buf;
        if size < old && is_inline(file) {
            let keep = (size as usize).min(INLINE_MOST);
            buf.edit(|bytes| {
                let kept = node::inline(bytes)[..keep].to_vec();
                node::set_inline(bytes, &kept);
            });
        } else if size < old {
            self.cut_pages(buf, size.div_ceil(SIZE)).await?;
        } else if size > INLINE_MOST as u64 && is_inline(file) {
            self.outgrow_inode(file).await?;
        }
        file.private.disk_size.set(size);
        self.store_inode(file);
        Ok(())
    }

    /// Makes what the medium has behind the end of the file, in its last page, zeros.
    pub(crate) async fn seal_end(&self, file: &File) -> Result<()> {
        let size = file.attr.get().size;
        if size.is_multiple_of(SIZE) || is_inline(file) {
            return Ok(());
        }
        let index = size / SIZE;
        let addr = self.addr_of(&file.private.buf, index).await?;
        if !self.geometry.is_main(addr) {
            return Ok(());
        }
        let seen = self.visible(file, index, size).await?;
        let held = self.visible(file, index, u64::MAX).await?;
        if seen == held {
            return Ok(());
        }
        self.write_pages(file, &[page_of(index, seen)]).await
    }

    /// Allocates, punches or zeroes a range of bytes.
    pub(crate) async fn allocate(
        &self,
        file: &File,
        mode: FallocateMode,
        range: Range<u64>,
        now: Timestamp,
    ) -> Result<()> {
        if range.end > crate::format::path::SIZE_MAX {
            return Err(Errno::EFBIG);
        }
        if is_inline(file) {
            self.outgrow_inode(file).await?;
        }
        if !matches!(mode, FallocateMode::Allocate { .. }) {
            self.zero(file, &range).await?;
        }
        if mode != FallocateMode::Punch {
            self.reserve(file, touched(&range)).await?;
        }
        file.update(|attr| (attr.mtime, attr.ctime) = (now, now));
        let grows = vfs::mutant::is("f2fs-zero-range-grows")
            && matches!(mode, FallocateMode::Zero { .. })
            && range.end > file.attr.get().size;
        if grows {
            file.private.disk_size.set(range.end);
        }
        if let FallocateMode::Allocate { keep_size: false }
        | FallocateMode::Zero { keep_size: false } = mode
            && range.end > file.attr.get().size
        {
            file.update(|attr| attr.size = range.end);
            file.private.disk_size.set(range.end);
        }
        self.store_inode(file);
        Ok(())
    }

    /// Makes a range of bytes zeros: whole pages become holes.
    async fn zero(&self, file: &File, range: &Range<u64>) -> Result<()> {
        let size = file.attr.get().size;
        let pages = touched(range);
        let whole = range.start.div_ceil(SIZE)..range.end / SIZE;
        let edges = [pages.start, pages.end.saturating_sub(1)];
        for &index in &edges[..if edges[0] == edges[1] { 1 } else { 2 }] {
            let part = within(range, index);
            let there = self.addr_of(&file.private.buf, index).await?;
            if part.len() == BLOCK || !self.geometry.is_main(there) || index * SIZE >= size {
                continue;
            }
            let mut page = self.visible(file, index, size).await?;
            page[part].fill(0);
            self.write_blocks(file, &[&page_of(index, page)]).await?;
        }
        if whole.start < whole.end {
            self.free_pages(&file.private.buf, whole).await?;
        }
        Ok(())
    }

    /// Finds the first data or hole at or after `offset`.
    pub(crate) async fn seek(
        &self,
        file: &File,
        offset: u64,
        what: SeekWhat,
    ) -> Result<Option<u64>> {
        let size = file.attr.get().size;
        if offset >= size {
            return Ok(None);
        }
        if is_inline(file) {
            let at = if what == SeekWhat::Data { offset } else { size };
            return Ok(Some(at));
        }
        let mut page = offset / SIZE;
        while page * SIZE < size {
            let (data, next) = match self.find(&file.private.buf, page).await? {
                Found::Gap(next) => (false, next),
                Found::At(buf, at) => (self.geometry.is_main(buf.addr(at)), page + 1),
            };
            if data == (what == SeekWhat::Data) {
                return Ok(Some(offset.max(page * SIZE)));
            }
            page = next;
        }
        Ok((what == SeekWhat::Hole).then_some(size))
    }

    /// Reads the target of a symbolic link.
    pub(crate) async fn target(&self, file: &File) -> Result<Vec<u8>> {
        let size = file.attr.get().size;
        let len = damaged(usize::try_from(size).ok().filter(|len| *len < BLOCK))?;
        let page = self.visible(file, 0, size).await?;
        Ok(page[..len].to_vec())
    }
}
