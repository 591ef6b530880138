//! Allocation and freeing of inodes.
//!
//! The search goes by flexible groups, as in Linux. A file goes to the first group with
//! a free inode from the start of its directory's flexible group on, so that few bitmaps
//! and table blocks change. A directory goes to the flexible group of its parent unless
//! that group is crowded; a directory in the root goes to the flexible group with the
//! fewest directories, so that trees spread.

use super::bits::{changed, first_clear};
use super::{Group, InodeMap};
use crate::buffer::{BLOCK, Buffer};
use crate::format::{crc, group};
use crate::fs::ExtFs;
use crate::persist::Persist;
use host::Purpose;
use std::rc::Rc;
use vfs::{Errno, Result};

/// The slot of a new inode in the inode table.
pub(crate) struct NewSlot {
    pub(crate) ino: u32,
    /// Block of the inode table.
    pub(crate) buffer: Rc<Buffer>,
    /// Offset of the slot in the block.
    pub(crate) at: usize,
}

/// Directories, free inodes and free blocks of a flexible group; or the limits of a search.
struct Counts {
    dirs: u64,
    inodes: u64,
    blocks: u64,
}

impl Counts {
    fn of(groups: &[Group]) -> Self {
        let sum = |count: fn(&group::Descriptor) -> u32| {
            let counts = groups.iter().map(|g| u64::from(count(&g.descriptor)));
            counts.sum()
        };
        Self {
            dirs: sum(|d| d.used_dirs),
            inodes: sum(|d| d.free_inodes),
            blocks: sum(|d| d.free_blocks),
        }
    }

    /// Whether the group has fewer directories than `limits` and at least as many free inodes and
    /// free blocks.
    const fn has_room(&self, limits: &Self) -> bool {
        self.dirs < limits.dirs && self.inodes >= limits.inodes && self.blocks >= limits.blocks
    }
}

impl<P: Persist> ExtFs<P> {
    /// Allocates an inode for a child of `parent`.
    pub(crate) async fn allocate_inode(
        &self,
        tx: &P::Tx,
        parent: u32,
        dir: bool,
    ) -> Result<NewSlot> {
        let (home, _) = self.geometry.place_of(parent);
        let first = if dir {
            self.group_for_dir(parent, home)
        } else {
            home & !(self.geometry.flex_groups - 1)
        };
        let groups = self.geometry.groups;
        for step in 0..groups {
            let number = (first + step) % groups;
            let usable = {
                let group = &self.alloc.borrow().groups[number as usize];
                group.descriptor.free_inodes > 0 && !group.damaged
            };
            if usable
                && self.load_inodes(tx, number).await?
                && let Some(index) = self.take_inode(tx, number, dir)
            {
                return self.open_slot(tx, number, index).await;
            }
        }
        Err(self.refuse_inode())
    }

    /// The group to search first for a directory's inode, by Orlov's rule over flexible groups.
    /// In the root: the flexible group with the fewest directories among those with average free
    /// inodes and blocks. Elsewhere: the first from the parent's on that is not crowded.
    fn group_for_dir(&self, parent: u32, home: u32) -> u32 {
        let alloc = self.alloc.borrow();
        let flex = self.geometry.flex_groups;
        let counts = alloc.groups.chunks(flex as usize).map(Counts::of);
        let counts: Vec<Counts> = counts.collect();
        let some = counts.len() as u64;
        let dirs: u64 = counts.iter().map(|c| c.dirs).sum();
        let (inodes, blocks) = (alloc.free_inodes / some, alloc.available() / some);
        if parent == crate::inode::ROOT {
            let average = Counts {
                dirs: u64::MAX,
                inodes: inodes.max(1),
                blocks,
            };
            let roomy = counts.iter().enumerate();
            let roomy = roomy.filter(|(_, counts)| counts.has_room(&average));
            let best = roomy.min_by_key(|(_, counts)| counts.dirs);
            return best.map_or(home, |(number, _)| number as u32 * flex);
        }
        let flex_inodes = u64::from(self.geometry.inodes_per_group) * u64::from(flex);
        let flex_blocks = u64::from(self.geometry.blocks_per_group) * u64::from(flex);
        let limits = Counts {
            dirs: dirs / some + flex_inodes / 16,
            inodes: inodes.saturating_sub(flex_inodes / 4).max(1),
            blocks: blocks.saturating_sub(flex_blocks / 4),
        };
        let near = home / flex;
        let mut order = (0..counts.len()).map(|step| (near as usize + step) % counts.len());
        let found = order.find(|&number| counts[number].has_room(&limits));
        found.map_or(home, |number| number as u32 * flex)
    }

    /// Marks the first free inode of a loaded group as used; `None` if other tasks took the last
    /// one while the bitmap was loading.
    fn take_inode(&self, tx: &P::Tx, number: u32, dir: bool) -> Option<u32> {
        let per_group = self.geometry.inodes_per_group;
        let mut alloc = self.alloc.borrow_mut();
        let group = &mut alloc.groups[number as usize];
        if group.descriptor.free_inodes == 0 {
            return None;
        }
        let map = group.inodes.as_mut()?;
        let lowest = if number == 0 {
            self.geometry.first_inode - 1
        } else {
            0
        };
        let from = map.first_free.max(lowest);
        let found = first_clear(&map.buffer.bytes(), from, per_group);
        let Some(index) = found else {
            group.damaged = true;
            return None;
        };
        map.first_free = index + 1;
        let change = changed(&map.buffer.bytes(), index, 1, true);
        let (at, bytes) = change?;
        self.persist.write(tx, &map.buffer, at, &bytes);
        let d = &mut group.descriptor;
        d.free_inodes -= 1;
        d.used_dirs += u32::from(dir);
        alloc.free_inodes = alloc.free_inodes.saturating_sub(1);
        Some(index)
    }

    /// Opens the slot of an inode that was just taken. A block of the inode table that holds no
    /// used slot yet is made new instead of read.
    async fn open_slot(&self, tx: &P::Tx, number: u32, index: u32) -> Result<NewSlot> {
        let per_block = (BLOCK / self.geometry.inode_size) as u32;
        let per_group = self.geometry.inodes_per_group;
        let (block, fresh) = {
            let mut alloc = self.alloc.borrow_mut();
            let d = &mut alloc.groups[number as usize].descriptor;
            let used = per_group.saturating_sub(d.unused_inodes);
            d.unused_inodes = d.unused_inodes.min(per_group - index - 1);
            let counted = self.geometry.checksums || self.geometry.old_checksums;
            let block = d.inode_table + u64::from(index / per_block);
            (block, counted && index / per_block * per_block >= used)
        };
        self.seal_inodes(tx, number);
        let buffer = if fresh {
            self.persist.create(tx, block, Purpose::Inode)
        } else {
            self.persist.read(block, Purpose::Inode).await?
        };
        let at = (index % per_block) as usize * self.geometry.inode_size;
        let ino = number * per_group + index + 1;
        Ok(NewSlot { ino, buffer, at })
    }

    /// Marks an inode as free in its bitmap and descriptor.
    ///
    /// # Errors
    ///
    /// `EUCLEAN` if the bitmap is damaged or the inode is free already.
    pub(crate) async fn release_inode(&self, tx: &P::Tx, ino: u32, dir: bool) -> Result<()> {
        let (number, index) = self.geometry.place_of(ino);
        if !self.load_inodes(tx, number).await? {
            return Err(Errno::EUCLEAN);
        }
        let mut alloc = self.alloc.borrow_mut();
        let group = &mut alloc.groups[number as usize];
        let map = group.inodes.as_mut().ok_or(Errno::EUCLEAN)?;
        let change = changed(&map.buffer.bytes(), index, 1, false);
        let (at, bytes) = change.ok_or(Errno::EUCLEAN)?;
        self.persist.write(tx, &map.buffer, at, &bytes);
        map.first_free = map.first_free.min(index);
        let d = &mut group.descriptor;
        d.free_inodes += 1;
        d.used_dirs -= u32::from(dir).min(d.used_dirs);
        alloc.free_inodes += 1;
        drop(alloc);
        self.seal_inodes(tx, number);
        Ok(())
    }

    fn seal_inodes(&self, tx: &P::Tx, number: u32) {
        if self.geometry.checksums {
            let mut alloc = self.alloc.borrow_mut();
            let group = &mut alloc.groups[number as usize];
            if let Some(map) = &group.inodes {
                group.descriptor.inode_csum = self.inodes_checksum(&map.buffer);
            }
        }
        self.store_group(tx, number);
    }

    //= ext4-layout 4.3
    fn inodes_checksum(&self, buffer: &Buffer) -> u32 {
        let len = self.geometry.inodes_per_group as usize / 8;
        let sum = crc(self.geometry.seed, &buffer.bytes()[..len]);
        if self.geometry.descriptor_size == group::SIZE {
            sum
        } else {
            sum & 0xFFFF
        }
    }

    /// Loads the inode bitmap of a group, or makes it if it was never written; false if it is
    /// damaged.
    pub(crate) async fn load_inodes(&self, tx: &P::Tx, number: u32) -> Result<bool> {
        let descriptor = {
            let group = &self.alloc.borrow().groups[number as usize];
            if group.inodes.is_some() {
                return Ok(true);
            }
            group.descriptor
        };
        if descriptor.flags & group::INODE_UNINIT != 0 {
            self.make_inodes(tx, number, descriptor.inode_bitmap);
            return Ok(true);
        }
        let buffer = self
            .persist
            .read(descriptor.inode_bitmap, Purpose::Bitmap)
            .await?;
        let whole = !self.geometry.checksums
            || buffer.checked.get()
            || self.inodes_checksum(&buffer) == descriptor.inode_csum;
        buffer.checked.set(whole);
        let mut alloc = self.alloc.borrow_mut();
        let group = &mut alloc.groups[number as usize];
        group.damaged |= !whole;
        if whole && group.inodes.is_none() {
            group.inodes = Some(InodeMap {
                buffer,
                first_free: 0,
            });
        }
        Ok(whole)
    }

    fn make_inodes(&self, tx: &P::Tx, number: u32, block: u64) {
        let buffer = self.persist.create(tx, block, Purpose::Bitmap);
        buffer.checked.set(true);
        let first = self.geometry.inodes_per_group as usize / 8;
        if first < BLOCK {
            self.persist
                .write(tx, &buffer, first, &[0xFF; BLOCK][first..]);
        }
        let mut alloc = self.alloc.borrow_mut();
        let group = &mut alloc.groups[number as usize];
        group.descriptor.flags &= !group::INODE_UNINIT;
        group.inodes = Some(InodeMap {
            buffer,
            first_free: 0,
        });
    }
}
