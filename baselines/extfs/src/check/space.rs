//! Which blocks were met, and whether the bitmaps agree.

use super::{Checker, Subject};
use crate::buffer::BLOCK;
use crate::format::{crc, group};
use crate::geometry::Geometry;
use crate::image::Image;
use crate::persist::Run;
use std::collections::BTreeMap;

const BITS: u32 = BLOCK as u32 * 8;

/// Blocks that were met, by group; groups without any have no bits.
#[derive(Default)]
pub(super) struct Space {
    groups: BTreeMap<u32, Box<[u8; BLOCK]>>,
    pub(super) taken: u64,
}

impl Space {
    /// Takes a run; false if part of it was taken already.
    pub(super) fn take(&mut self, geometry: &Geometry, run: Run) -> bool {
        let mut alone = true;
        for block in run.start..run.start + run.len {
            let number = geometry.group_of(block);
            let bit = block - geometry.group_start(number);
            let bits = self
                .groups
                .entry(number)
                .or_insert_with(|| Box::new([0; BLOCK]));
            let (byte, mask) = (&mut bits[(bit / 8) as usize], 1 << (bit % 8));
            alone &= *byte & mask == 0;
            self.taken += u64::from(*byte & mask == 0);
            *byte |= mask;
        }
        alone
    }
}

impl<I: Image + ?Sized> Checker<'_, I> {
    /// Takes blocks for an inode.
    pub(super) fn take(&mut self, ino: u32, run: Run) {
        let subject = Subject::Inode(ino);
        let inside = run.start > 0
            && run
                .start
                .checked_add(run.len)
                .is_some_and(|end| end <= self.geometry.blocks);
        if self.expect(inside, subject, "leads past the end") {
            let alone = self.space.take(&self.geometry, run);
            self.expect(alone, subject, "has blocks that something else has too");
        }
    }

    pub(super) fn check_space(&mut self) {
        for number in 0..self.geometry.groups {
            self.check_blocks(number);
        }
    }

    fn check_blocks(&mut self, number: u32) {
        let (subject, descriptor) = (Subject::Group(number), self.groups[number as usize]);
        let mut met = self
            .space
            .groups
            .remove(&number)
            .unwrap_or_else(|| Box::new([0; BLOCK]));
        let len = self.geometry.group_len(number);
        (len..BITS).for_each(|bit| met[(bit / 8) as usize] |= 1 << (bit % 8));
        let free: u32 = met.iter().map(|byte| byte.count_zeros()).sum();
        let counted = free == descriptor.free_blocks;
        self.expect(counted, subject, "counts its free blocks wrongly");
        if descriptor.flags & group::BLOCK_UNINIT != 0 {
            let copies = self
                .geometry
                .superblock_run(number)
                .map_or(0, |run| run.len);
            let own = self.own_structures(number);
            let untouched = u64::from(len - free) == copies + own;
            self.expect(
                untouched,
                subject,
                "has files and a bitmap that was never written",
            );
            return;
        }
        let Some(bitmap) = self.read(descriptor.block_bitmap) else {
            return;
        };
        if self.geometry.checksums {
            let bytes = self.geometry.blocks_per_group as usize / 8;
            let sum = self.narrow(crc(self.geometry.seed, &bitmap[..bytes]));
            self.expect(
                sum == descriptor.block_csum,
                subject,
                "has a block bitmap with a wrong checksum",
            );
        }
        if bitmap != met {
            let lost = met
                .iter()
                .zip(bitmap.iter())
                .any(|(met, bit)| met & !bit != 0);
            let what = if lost {
                "has blocks in use that are marked free"
            } else {
                "has free blocks that are marked in use"
            };
            self.find(subject, what);
        }
    }

    /// Bitmaps and tables of a group that lie in it.
    fn own_structures(&self, number: u32) -> u64 {
        let d = &self.groups[number as usize];
        let start = self.geometry.group_start(number);
        let end = start + u64::from(self.geometry.group_len(number));
        let table = u64::from(self.geometry.table_blocks());
        let parts = [
            (d.block_bitmap, 1),
            (d.inode_bitmap, 1),
            (d.inode_table, table),
        ];
        let inside =
            |&(from, len): &(u64, u64)| (from + len).min(end).saturating_sub(from.max(start));
        parts.iter().map(inside).sum()
    }

    /// A checksum as a descriptor keeps it.
    pub(super) fn narrow(&self, sum: u32) -> u32 {
        if self.geometry.descriptor_size == group::SIZE {
            sum
        } else {
            sum & 0xFFFF
        }
    }
}
