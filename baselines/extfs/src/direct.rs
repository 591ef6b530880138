//! Reading and writing around the cache, and changing allocation without data.

use crate::buffer::BLOCK;
use crate::delayed::EXTENT_CREDITS;
use crate::extents::State;
use crate::fs::{ExtFs, Node};
use crate::persist::Persist;
use crate::tree::STEP_CREDITS;
use crate::truncate::{FREE_CREDITS, has_tree};
use nand::Payload;
use std::ops::Range;
use std::sync::Arc;
use vfs::{Access, DirtyPage, Errno, FallocateMode, Result, SeekWhat, Timestamp};

const SIZE: u64 = BLOCK as u64;

/// Largest file: the number of its last block fits 32 bits with one to spare.
pub(crate) const FILE_MAX: u64 = (u32::MAX as u64) * SIZE;

impl<P: Persist> ExtFs<P> {
    /// Whether the medium takes direct requests like this one.
    fn check_direct(&self, offset: u64, len: usize) -> Result<()> {
        let len = len as u64;
        let unit = self.persist.direct_unit(len);
        let whole = offset.is_multiple_of(unit) && len.is_multiple_of(unit);
        whole.then_some(()).ok_or(Errno::EINVAL)
    }

    /// Reads bytes around the cache: whole sectors, as in Linux, also in holes,
    /// unless the medium has smaller ones.
    pub(crate) async fn direct_read(&self, node: &Node, offset: u64, out: &mut [u8]) -> Result<()> {
        self.check_direct(offset, out.len())?;
        let mut done = 0;
        while done < out.len() {
            let at = offset + done as u64;
            let (block, within) = (at / SIZE, at % SIZE);
            let piece = self.lookup_block(node, block).await?;
            let len = (piece.len.saturating_mul(SIZE) - within).min((out.len() - done) as u64);
            let part = &mut out[done..done + len as usize];
            match piece.state {
                State::Written(start) => {
                    let who = self.who(node);
                    self.persist.read_direct(start, within, part, who).await?;
                }
                State::Hole | State::Unwritten(_) => part.fill(0),
            }
            done += len as usize;
        }
        Ok(())
    }

    /// Writes bytes around the cache: over blocks that are there as they are, into others as whole
    /// blocks with zeros around. As in Linux, whole sectors are all that it takes, wherever they
    /// go. Gives how many were written, which is less where something failed after them.
    pub(crate) async fn direct_write(
        &self,
        who: &Access,
        node: &Node,
        offset: u64,
        bytes: &[u8],
    ) -> Result<u64> {
        self.check_direct(offset, bytes.len())?;
        if offset + bytes.len() as u64 > FILE_MAX {
            return Err(Errno::EFBIG);
        }
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            match self.direct_part(who, node, at, &bytes[done..]).await {
                Ok(len) => done += len,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        self.raise_size(node, offset + done as u64).await?;
        Ok(done as u64)
    }

    /// Writes the first bytes of `bytes`, as far as one extent or hole has place for them.
    async fn direct_part(&self, who: &Access, node: &Node, at: u64, bytes: &[u8]) -> Result<usize> {
        let (block, within) = (at / SIZE, at % SIZE);
        let piece = self.lookup_block(node, block).await?;
        let len = (piece.len.saturating_mul(SIZE) - within).min(bytes.len() as u64);
        if let State::Written(start) = piece.state {
            let part = &bytes[..len as usize];
            let placement = self.options.placer.data_of(node);
            let booked = self.who(node);
            let write = self
                .persist
                .write_direct(start, within, part, placement, booked);
            write.await?;
            return Ok(part.len());
        }
        let wanted = block..(at + len).div_ceil(SIZE);
        let pages = self.promise_some(who, node, wanted).await?;
        let until = (at + len).min(pages.end * SIZE);
        let part = &bytes[..(until - at) as usize];
        let old = node.attr.get().size;
        // Pages past the size are not written back: raise it first.
        node.update(|attr| attr.size = attr.size.max(until));
        let result = self.write_back(node, &pages_of(at, part)).await;
        if result.is_err() {
            self.unpromise(node, pages);
            // What came to the medium before the failure is there.
            let landed = node.private.disk_size.get();
            node.update(|attr| attr.size = old.max(landed));
            if landed > old.max(at) {
                return Ok((landed - at) as usize);
            }
        }
        result.map(|()| part.len())
    }

    /// Promises space to `pages`, or to fewer of the first of them where there is not
    /// enough; gives which. What is taken here may not be what was promised to others.
    async fn promise_some(
        &self,
        who: &Access,
        node: &Node,
        pages: Range<u64>,
    ) -> Result<Range<u64>> {
        let (kept, mut len) = (self.kept_from(who), pages.end - pages.start);
        loop {
            let some = pages.start..pages.start + len;
            match self.promise(node, some.clone(), kept).await {
                Ok(()) => return Ok(some),
                Err(Errno::ENOSPC) if len > 1 => len /= 2,
                Err(error) => return Err(error),
            }
        }
    }

    /// Raises the size, also on the medium; in place times go with it.
    async fn raise_size(&self, node: &Node, end: u64) -> Result<()> {
        node.update(|attr| attr.size = attr.size.max(end));
        let disk_size = &node.private.disk_size;
        if disk_size.get() >= end && !self.persist.is_dax() {
            return Ok(());
        }
        let tx = self.persist.begin(1).await?;
        // A write-back may have raised it further while this waited.
        disk_size.set(disk_size.get().max(end));
        self.store_data(&tx, node);
        self.persist.end(tx).await.map(|_| ())
    }

    /// Changes the allocation of a range.
    pub(crate) async fn change_allocation(
        &self,
        who: &Access,
        node: &Node,
        mode: FallocateMode,
        range: Range<u64>,
        now: Timestamp,
    ) -> Result<()> {
        if range.end > FILE_MAX {
            return Err(Errno::EFBIG);
        }
        if !has_tree(node) {
            return Err(Errno::EOPNOTSUPP);
        }
        let inner = range.start.div_ceil(SIZE)..range.end / SIZE;
        self.unpromise(node, inner.clone());
        let kept = self.kept_from(who);
        let keep_size = match mode {
            FallocateMode::Allocate { keep_size } => {
                self.fill(node, &range, kept).await?;
                keep_size
            }
            FallocateMode::Punch => {
                self.zero_edges(node, &range).await?;
                self.punch(node, inner).await?;
                true
            }
            FallocateMode::Zero { keep_size } => {
                self.zero_edges(node, &range).await?;
                self.unwrite(node, inner).await?;
                self.fill(node, &range, kept).await?;
                keep_size
            }
        };
        let tx = self.persist.begin(1).await?;
        node.update(|attr| (attr.mtime, attr.ctime) = (now, now));
        if !keep_size && range.end > node.attr.get().size {
            node.update(|attr| attr.size = range.end);
            node.private.disk_size.set(range.end);
        }
        self.store_data(&tx, node);
        self.persist.end(tx).await.map(|_| ())
    }

    /// Allocates the holes of a range as unwritten; `kept` blocks have to stay free.
    async fn fill(&self, node: &Node, range: &Range<u64>, kept: u64) -> Result<()> {
        let (mut block, end) = (range.start / SIZE, range.end.div_ceil(SIZE));
        let mut forced = false;
        while block < end {
            let piece = self.lookup_block(node, block).await?;
            let len = piece.len.min(end - block);
            if piece.state != State::Hole {
                block += len;
                continue;
            }
            // What is taken here may not be what was promised to others.
            let pages = block..block + len;
            self.promise_hole(node, pages.clone(), kept)?;
            let tx = self.persist.begin(EXTENT_CREDITS).await?;
            let turn = node.private.turn.acquire(1).await;
            let filled = self.fill_hole(&tx, node, block, len, true).await;
            self.store_data(&tx, node);
            drop(turn);
            match self.finish(tx, filled).await {
                Ok(entry) => block = entry.end(),
                Err(Errno::ENOSPC) if !forced => {
                    self.take_back_refusal();
                    self.persist.force_all().await?;
                    forced = true;
                }
                Err(error) => {
                    self.unpromise(node, pages);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    async fn punch(&self, node: &Node, blocks: Range<u64>) -> Result<()> {
        let tx = self.persist.begin(FREE_CREDITS).await?;
        let tx = self.free_range(tx, node, blocks.start, blocks.end).await?;
        self.persist.end(tx).await.map(|_| ())
    }

    /// Makes the extents of a range unwritten, so that they read as zeros.
    async fn unwrite(&self, node: &Node, blocks: Range<u64>) -> Result<()> {
        let mut block = blocks.start;
        while block < blocks.end {
            let piece = self.lookup_block(node, block).await?;
            let end = (block + piece.len).min(blocks.end);
            let mut done = !matches!(piece.state, State::Written(_));
            while !done {
                let tx = self.persist.begin(EXTENT_CREDITS + STEP_CREDITS).await?;
                let turn = node.private.turn.acquire(1).await;
                let converted = self.convert(&tx, node, block..end, true).await;
                self.store_data(&tx, node);
                drop(turn);
                done = self.finish(tx, converted).await?;
            }
            block = end;
        }
        Ok(())
    }

    /// Zeroes the bytes of a range that share a block with what stays.
    async fn zero_edges(&self, node: &Node, range: &Range<u64>) -> Result<()> {
        let (first, last) = (range.start / SIZE, range.end / SIZE);
        if first == last {
            return self
                .zero_in_block(node, first, range.start % SIZE..range.end % SIZE)
                .await;
        }
        self.zero_in_block(node, first, range.start % SIZE..SIZE)
            .await?;
        self.zero_in_block(node, last, 0..range.end % SIZE).await
    }

    /// Zeroes what is behind the end of a file in its last block.
    pub(crate) async fn zero_behind_end(&self, node: &Node) -> Result<()> {
        let size = node.attr.get().size;
        self.zero_in_block(node, size / SIZE, size % SIZE..SIZE)
            .await
    }

    async fn zero_in_block(&self, node: &Node, block: u64, range: Range<u64>) -> Result<()> {
        if range.is_empty() || range == (0..SIZE) {
            return Ok(());
        }
        let piece = self.lookup_block(node, block).await?;
        let State::Written(start) = piece.state else {
            return Ok(());
        };
        if self.persist.is_dax() {
            return self.zero_in_place(node, start, range).await;
        }
        let mut page = [Payload::Zero];
        self.persist
            .read_data(start, &mut page, self.who(node))
            .await?;
        if page[0] == Payload::Lost {
            return Err(Errno::EIO);
        }
        let mut bytes = page[0].to_bytes();
        let part = &mut bytes[range.start as usize..range.end as usize];
        if part.iter().all(|&byte| byte == 0) {
            return Ok(());
        }
        part.fill(0);
        let page = DirtyPage {
            index: block,
            now: Payload::Bytes(Arc::new(bytes)),
            before: None,
        };
        let write = crate::persist::DataWrite {
            start,
            pages: &[page],
            held: 0,
            end: u64::MAX,
            placement: self.options.placer.data_of(node),
            who: self.who(node),
        };
        self.persist.write_data(None, &[write]).await.map(|_| ())
    }

    /// Zeroes bytes of block `start`, unless they are zeros.
    async fn zero_in_place(&self, node: &Node, start: u64, range: Range<u64>) -> Result<()> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        let who = self.who(node);
        let read = self
            .persist
            .read_direct(start, range.start, &mut bytes, who);
        read.await?;
        if bytes.iter().all(|&byte| byte == 0) {
            return Ok(());
        }
        bytes.fill(0);
        let to = self.options.placer.data_of(node);
        self.persist
            .write_direct(start, range.start, &bytes, to, who)
            .await
    }

    /// The first offset from `offset` on where `what` begins.
    pub(crate) async fn find_piece(
        &self,
        node: &Node,
        offset: u64,
        what: SeekWhat,
    ) -> Result<Option<u64>> {
        let size = node.attr.get().size;
        let mut at = offset;
        while at < size {
            let block = at / SIZE;
            let piece = self.lookup_block(node, block).await?;
            let data = matches!(piece.state, State::Written(_));
            if data == (what == SeekWhat::Data) {
                return Ok(Some(at));
            }
            at = (block + piece.len).saturating_mul(SIZE);
        }
        Ok((what == SeekWhat::Hole && offset < size).then_some(size))
    }
}

/// The pages that `bytes` from `offset` on cover, with zeros around.
fn pages_of(offset: u64, bytes: &[u8]) -> Vec<DirtyPage> {
    let end = offset + bytes.len() as u64;
    let page = |index: u64| {
        let first = index * SIZE;
        let (from, to) = (offset.max(first), end.min(first + SIZE));
        let mut page = [0; BLOCK];
        page[(from - first) as usize..(to - first) as usize]
            .copy_from_slice(&bytes[(from - offset) as usize..(to - offset) as usize]);
        DirtyPage {
            index,
            now: Payload::Bytes(Arc::new(page)),
            before: None,
        }
    };
    (offset / SIZE..end.div_ceil(SIZE)).map(page).collect()
}
