//! Allocation and freeing of blocks.
//!
//! A request has a goal and a wanted length. The allocator tries the run kept for the
//! file, then the goal itself, the goal's group and the groups after it; if no group
//! has a run of that length, it searches again for a quarter of the length.

use super::bits::{BITS, Busy, changed};
use super::{BlockMap, Group};
use crate::buffer::{BLOCK, Buffer};
use crate::format::{crc, group};
use crate::fs::ExtFs;
use crate::persist::{Persist, Run};
use host::Purpose;
use std::rc::Rc;
use vfs::{Errno, Result};

/// A free run at the goal of at least this many blocks is taken even if a longer one was
/// wanted: 16 blocks, our choice. Shorter runs would fragment large files.
const AT_GOAL: u32 = 16;

/// A request to [`ExtFs::allocate`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want {
    /// Inode that the blocks are for.
    pub(crate) ino: u32,
    /// Preferred first block on the medium.
    pub(crate) goal: u64,
    /// Most blocks to allocate.
    pub(crate) len: u32,
    /// Blocks behind the allocated run to keep for the inode.
    pub(crate) keep: u32,
}

impl<P: Persist> ExtFs<P> {
    /// Allocates a run of 1 to `want.len` blocks.
    ///
    /// # Errors
    ///
    /// The error of [`Self::refuse_block`] if no block is free, even without kept runs.
    pub(crate) async fn allocate(&self, tx: &P::Tx, want: Want) -> Result<Run> {
        self.reclaim().await?;
        if let Some(run) = self.take_kept(want) {
            self.mark(tx, run, true)?;
            return Ok(run);
        }
        self.unkeep(want.ino);
        let mut len = want.len.clamp(1, self.geometry.blocks_per_group);
        loop {
            if let Some(run) = self.search(tx, want.goal, len).await? {
                self.mark(tx, run, true)?;
                self.keep(want, run);
                return Ok(run);
            }
            if len > 1 {
                len = len.div_ceil(4);
            } else if !self.unkeep_all() {
                return Err(self.refuse_block());
            }
        }
    }

    async fn search(&self, tx: &P::Tx, goal: u64, len: u32) -> Result<Option<Run>> {
        let groups = self.geometry.groups;
        let goal = if goal < self.geometry.blocks { goal } else { 0 };
        let first = self.geometry.group_of(goal);
        for step in 0..groups {
            let number = (first + step) % groups;
            if !self.may_have(number, len) {
                continue;
            }
            self.load_blocks(tx, number).await?;
            let start = self.geometry.group_start(number);
            let from = (step == 0).then(|| (goal - start) as u32);
            if let Some((at, len)) = self.find_in(number, from, len) {
                let (start, len) = (start + u64::from(at), u64::from(len));
                return Ok(Some(Run { start, len }));
            }
        }
        Ok(None)
    }

    fn may_have(&self, number: u32, len: u32) -> bool {
        let alloc = self.alloc.borrow();
        let group = &alloc.groups[number as usize];
        let most = match &group.blocks {
            Some(map) => map.longest.min(map.free),
            None => group.descriptor.free_blocks,
        };
        !group.damaged && most >= len
    }

    /// Looks for `len` blocks in a loaded group, from `goal` on or where the last search ended.
    fn find_in(&self, number: u32, goal: Option<u32>, len: u32) -> Option<(u32, u32)> {
        let mut alloc = self.alloc.borrow_mut();
        let map = alloc.groups[number as usize].blocks.as_mut()?;
        let from = goal.filter(|&goal| goal != 0).unwrap_or(map.cursor);
        let here = map.busy.free_at(from, len);
        let found = if here >= len.min(AT_GOAL) && here > 0 {
            Some((from, here))
        } else {
            let enough = |found: &(u32, u32)| found.1 >= len;
            let after = map.busy.find(from, len);
            let found = after.filter(enough);
            found.or_else(|| {
                let all = map.busy.find(0, len);
                map.longest = all.map_or(0, |(_, longest)| longest.max(map.longest.min(len - 1)));
                all.filter(enough)
            })
        };
        if let Some((at, len)) = found {
            map.cursor = (at + len) % BITS;
        }
        found
    }

    /// Takes up to `want.len` blocks of the run kept for the inode, if the run begins at the goal.
    fn take_kept(&self, want: Want) -> Option<Run> {
        let mut alloc = self.alloc.borrow_mut();
        let kept = alloc.kept.get_mut(&want.ino)?;
        if kept.start != want.goal || kept.len == 0 {
            return None;
        }
        let len = kept.len.min(u64::from(want.len));
        let run = Run {
            start: kept.start,
            len,
        };
        kept.start += len;
        kept.len -= len;
        Some(run)
    }

    /// Keeps up to `want.keep` free blocks behind `run` for the inode that `run` went to.
    fn keep(&self, want: Want, run: Run) {
        if want.keep == 0 {
            return;
        }
        let start = run.start + run.len;
        let number = self.geometry.group_of(run.start);
        let at = (start - self.geometry.group_start(number)) as u32;
        let mut alloc = self.alloc.borrow_mut();
        let Some(map) = alloc.groups[number as usize].blocks.as_mut() else {
            return;
        };
        let len = if at < BITS {
            map.busy.free_at(at, want.keep)
        } else {
            0
        };
        if len == 0 {
            return;
        }
        map.busy.set(at, len);
        map.free -= len;
        let len = u64::from(len);
        alloc.kept.insert(want.ino, Run { start, len });
    }

    /// Releases the run kept for an inode.
    pub(crate) fn unkeep(&self, ino: u32) {
        let kept = self.alloc.borrow_mut().kept.remove(&ino);
        if let Some(run) = kept {
            self.unbusy(run);
        }
    }

    fn unkeep_all(&self) -> bool {
        let kept = std::mem::take(&mut self.alloc.borrow_mut().kept);
        let any = kept.values().any(|run| run.len > 0);
        kept.into_values().for_each(|run| self.unbusy(run));
        any
    }

    fn unbusy(&self, run: Run) {
        let mut alloc = self.alloc.borrow_mut();
        self.by_group(run, |number, at, len| {
            if let Some(map) = &mut alloc.groups[number as usize].blocks {
                map.busy.clear(at, len);
                map.free += len;
                map.longest = BITS;
            }
        });
    }

    fn by_group(&self, run: Run, mut each: impl FnMut(u32, u32, u32)) {
        let (mut start, end) = (run.start, run.start + run.len);
        while start < end {
            let number = self.geometry.group_of(start);
            let first = self.geometry.group_start(number);
            let stop = end.min(first + u64::from(self.geometry.blocks_per_group));
            each(number, (start - first) as u32, (stop - start) as u32);
            start = stop;
        }
    }

    /// Makes blocks available whose freeing transaction has become durable; discards them first if
    /// the mount option is set.
    pub(crate) async fn reclaim(&self) -> Result<()> {
        for run in self.persist.freed() {
            if self.options.discard {
                self.persist.discard(run).await?;
            }
            self.unbusy(run);
        }
        Ok(())
    }

    /// Marks a run within one loaded group as used or free in the bitmap. A freed run stays busy
    /// until [`Self::reclaim`].
    fn mark(&self, tx: &P::Tx, run: Run, used: bool) -> Result<()> {
        let number = self.geometry.group_of(run.start);
        let (at, len) = (
            (run.start - self.geometry.group_start(number)) as u32,
            run.len as u32,
        );
        let mut alloc = self.alloc.borrow_mut();
        let group = &mut alloc.groups[number as usize];
        let map = group.blocks.as_mut().ok_or(Errno::EUCLEAN)?;
        let change = changed(&map.buffer.bytes(), at, len, used);
        let (first, bytes) = change.ok_or(Errno::EUCLEAN)?;
        if used && vfs::mutant::is("ext4-stale-block-bitmap") {
            map.buffer.bytes_mut()[first..first + bytes.len()].copy_from_slice(&bytes);
        } else {
            self.persist.write(tx, &map.buffer, first, &bytes);
        }
        let count = &mut group.descriptor.free_blocks;
        if used {
            let was_free = map.busy.free_at(at, len);
            map.busy.set(at, len);
            map.free -= was_free;
            *count = count.saturating_sub(len);
            alloc.free_blocks = alloc.free_blocks.saturating_sub(run.len);
        } else {
            *count += len;
            alloc.free_blocks += run.len;
        }
        drop(alloc);
        self.seal_blocks(tx, number);
        Ok(())
    }

    /// Updates the checksum of the group's block bitmap and stores the descriptor.
    fn seal_blocks(&self, tx: &P::Tx, number: u32) {
        if self.geometry.checksums {
            let mut alloc = self.alloc.borrow_mut();
            let group = &mut alloc.groups[number as usize];
            if let Some(map) = &group.blocks {
                group.descriptor.block_csum = self.blocks_checksum(&map.buffer);
            }
        }
        self.store_group(tx, number);
    }

    //= ext4-layout 4.3
    fn blocks_checksum(&self, buffer: &Buffer) -> u32 {
        let len = self.geometry.blocks_per_group as usize / 8;
        let sum = crc(self.geometry.seed, &buffer.bytes()[..len]);
        if self.geometry.descriptor_size == group::SIZE {
            sum
        } else {
            sum & 0xFFFF
        }
    }

    /// Frees a run. With `metadata` the blocks held metadata, which the strategy forgets.
    ///
    /// # Errors
    ///
    /// `EUCLEAN` if the run contains blocks of structures or blocks that are free already.
    pub(crate) async fn release(&self, tx: &P::Tx, run: Run, metadata: bool) -> Result<()> {
        if !self.is_for_files(run) {
            return Err(Errno::EUCLEAN);
        }
        let mut parts = Vec::new();
        self.by_group(run, |number, at, len| parts.push((number, at, len)));
        for (number, at, len) in parts {
            self.load_blocks(tx, number).await?;
            let start = self.geometry.group_start(number) + u64::from(at);
            let part = Run {
                start,
                len: u64::from(len),
            };
            if metadata {
                (start..start + part.len).for_each(|block| self.persist.forget(tx, block));
            }
            self.mark(tx, part, false)?;
            self.persist.free(tx, part);
        }
        Ok(())
    }

    /// Loads the block bitmap of a group, or makes it if it was never written. A damaged bitmap
    /// marks its group as damaged.
    async fn load_blocks(&self, tx: &P::Tx, number: u32) -> Result<()> {
        let (descriptor, ready) = {
            let alloc = self.alloc.borrow();
            let group = &alloc.groups[number as usize];
            (group.descriptor, group.blocks.is_some() || group.damaged)
        };
        if ready {
            return Ok(());
        }
        if descriptor.flags & group::BLOCK_UNINIT != 0 {
            self.make_blocks(tx, number);
            return Ok(());
        }
        let buffer = self
            .persist
            .read(descriptor.block_bitmap, Purpose::Bitmap)
            .await?;
        let whole = !self.geometry.checksums
            || buffer.checked.get()
            || self.blocks_checksum(&buffer) == descriptor.block_csum;
        buffer.checked.set(whole);
        self.put_blocks(number, buffer, whole);
        Ok(())
    }

    /// Makes the block bitmap of a group with `BLOCK_UNINIT`.
    fn make_blocks(&self, tx: &P::Tx, number: u32) {
        let bitmap = self.fresh_bitmap(number);
        let block = self.alloc.borrow().groups[number as usize]
            .descriptor
            .block_bitmap;
        let buffer = self.persist.create(tx, block, Purpose::Bitmap);
        buffer.checked.set(true);
        self.write_changed(tx, &buffer, 0, &bitmap[..]);
        self.alloc.borrow_mut().groups[number as usize]
            .descriptor
            .flags &= !group::BLOCK_UNINIT;
        self.put_blocks(number, buffer, true);
        self.seal_blocks(tx, number);
    }

    /// The bitmap of a group without files: structures and blocks past the group's end are set.
    fn fresh_bitmap(&self, number: u32) -> Box<[u8; BLOCK]> {
        let mut bitmap = Box::new([0; BLOCK]);
        let (start, len) = (
            self.geometry.group_start(number),
            self.geometry.group_len(number),
        );
        let mut set = |bit: u64| bitmap[(bit / 8) as usize] |= 1 << (bit % 8);
        (u64::from(len)..u64::from(BITS)).for_each(&mut set);
        let end = start + u64::from(len);
        let first = self
            .system
            .partition_point(|zone| zone.start + zone.len <= start);
        for zone in self.system[first..]
            .iter()
            .take_while(|zone| zone.start < end)
        {
            let (from, to) = (zone.start.max(start), (zone.start + zone.len).min(end));
            (from - start..to - start).for_each(&mut set);
        }
        bitmap
    }

    fn put_blocks(&self, number: u32, buffer: Rc<Buffer>, whole: bool) {
        let len = self.geometry.group_len(number);
        let mut alloc = self.alloc.borrow_mut();
        let group: &mut Group = &mut alloc.groups[number as usize];
        if group.blocks.is_some() {
            return;
        }
        let mut busy = Busy::of(&buffer.bytes(), len);
        if !whole || busy.free() != group.descriptor.free_blocks {
            group.damaged = true;
            return;
        }
        let start = self.geometry.group_start(number);
        let first = self
            .system
            .partition_point(|zone| zone.start + zone.len <= start);
        let end = start + u64::from(len);
        for zone in self.system[first..]
            .iter()
            .take_while(|zone| zone.start < end)
        {
            let (from, to) = (zone.start.max(start), (zone.start + zone.len).min(end));
            busy.set((from - start) as u32, (to - from) as u32);
        }
        group.blocks = Some(BlockMap {
            free: busy.free(),
            longest: BITS,
            cursor: 0,
            busy,
            buffer,
        });
    }
}
