//! Putting the structures of a new file system onto its blocks.
//!
//! Invariant: what is used is one list of runs, and bitmaps and counts are made from it alone.

use super::{Blocks, GROUP_BLOCKS, JOURNAL_INODE, LOST_FOUND, MkfsError, MkfsOptions};
use crate::buffer::BLOCK;
use crate::format::extent::{Entry, LEN_MAX, Node, ROOT_MAX};
use crate::format::{crc, dirent, group, inode as raw, journal, superblock as sb};
use crate::geometry::Geometry;
use crate::mount::system_runs;
use crate::persist::Run;
use std::collections::BTreeMap;
use vfs::{Attr, FileKind};

/// Blocks of `lost+found`, as many as `mke2fs` gives it.
const LOST_FOUND_BLOCKS: u64 = 4;

/// A file system in the making.
pub(super) struct Maker<'a> {
    options: &'a MkfsOptions,
    geometry: Geometry,
    groups: Vec<group::Descriptor>,
    /// Runs in use, by their start; apart.
    used: BTreeMap<u64, u64>,
    blocks: Blocks,
}

impl<'a> Maker<'a> {
    pub(super) fn new(options: &'a MkfsOptions, geometry: Geometry) -> Self {
        Self {
            options,
            groups: vec![group::Descriptor::default(); geometry.groups as usize],
            geometry,
            used: BTreeMap::new(),
            blocks: Blocks::new(),
        }
    }

    pub(super) fn make(mut self) -> Result<Blocks, MkfsError> {
        self.place_groups()?;
        self.make_files()?;
        self.write_bitmaps();
        self.write_descriptors();
        Ok(self.blocks)
    }

    fn use_run(&mut self, run: Run) {
        self.used.insert(run.start, run.len);
    }

    /// The first free run of `len` blocks from `from` on.
    fn take(&mut self, from: u64, len: u64) -> Option<Run> {
        let mut start = from;
        if let Some((&before, &used)) = self.used.range(..=from).next_back() {
            start = start.max(before + used);
        }
        for (&next, &used) in self.used.range(start..) {
            if next >= start + len {
                break;
            }
            start = next + used;
        }
        let run = Run { start, len };
        if start + len > self.geometry.blocks {
            return None;
        }
        self.use_run(run);
        Some(run)
    }

    /// Puts copies of the superblock, then bitmaps and tables of each flexible
    /// group, block bitmaps first.
    //= ext4-layout 3.2
    fn place_groups(&mut self) -> Result<(), MkfsError> {
        for number in 0..self.geometry.groups {
            if let Some(run) = self.geometry.superblock_run(number) {
                self.use_run(run);
            }
        }
        let table = u64::from(self.geometry.table_blocks());
        let too_small = MkfsError::TooSmall(self.options.blocks);
        let flex = self.options.flex_groups;
        for first in (0..self.geometry.groups).step_by(flex as usize) {
            let goal = self.geometry.group_start(first);
            let last = (first + flex).min(self.geometry.groups);
            for number in first..last {
                let run = self.take(goal, 1).ok_or(too_small)?;
                self.groups[number as usize].block_bitmap = run.start;
            }
            for number in first..last {
                let run = self.take(goal, 1).ok_or(too_small)?;
                self.groups[number as usize].inode_bitmap = run.start;
            }
            for number in first..last {
                let run = self.take(goal, table).ok_or(too_small)?;
                self.groups[number as usize].inode_table = run.start;
            }
        }
        Ok(())
    }

    /// Makes the root, `lost+found` and the journal.
    fn make_files(&mut self) -> Result<(), MkfsError> {
        let too_small = MkfsError::TooSmall(self.options.blocks);
        let root = self.take(0, 1).ok_or(too_small)?;
        let mut block = dirent::first_block(2, 2, true);
        dirent::put(&mut block[..], 12, 2, 12, 2, b"..");
        let end = self.geometry.dir_end();
        dirent::put(&mut block[..], 24, LOST_FOUND, end - 24, 2, b"lost+found");
        self.put_dir_block(2, root.start, block);
        self.put_inode(2, self.dir_attr(0o755, 3, 1), &[root]);
        let lost = self.take(0, LOST_FOUND_BLOCKS).ok_or(too_small)?;
        self.put_dir_block(
            LOST_FOUND,
            lost.start,
            dirent::first_block(LOST_FOUND, 2, true),
        );
        for index in 1..LOST_FOUND_BLOCKS {
            let mut block = Box::new([0; BLOCK]);
            dirent::put(&mut block[..], 0, 0, end, 0, b"");
            dirent::put_tail(&mut block);
            self.put_dir_block(LOST_FOUND, lost.start + index, block);
        }
        self.put_inode(
            LOST_FOUND,
            self.dir_attr(0o700, 2, LOST_FOUND_BLOCKS),
            &[lost],
        );
        for reserved in 1..LOST_FOUND {
            if ![2, self.geometry.journal_inode].contains(&reserved) {
                self.put_reserved_inode(reserved);
            }
        }
        match self.options.journal_blocks {
            Some(blocks) => self.make_journal(blocks),
            None => Ok(()),
        }
    }

    /// The journal lies in the middle of the medium, in as few runs as groups allow.
    fn make_journal(&mut self, blocks: u32) -> Result<(), MkfsError> {
        let too_large = MkfsError::Journal(blocks);
        let middle = self.geometry.group_start(self.geometry.groups / 2);
        let mut runs: Vec<Run> = Vec::new();
        let mut rest = u64::from(blocks);
        let mut piece = rest.min(u64::from(LEN_MAX));
        while rest > 0 {
            let from = runs.last().map_or(middle, |run| run.start + run.len);
            let run = self
                .take(from, piece.min(rest))
                .or_else(|| self.take(0, piece.min(rest)));
            match run {
                Some(run) => {
                    rest -= run.len;
                    runs.push(run);
                }
                None => piece /= 2,
            }
            if piece == 0 || runs.len() > ROOT_MAX {
                return Err(too_large);
            }
        }
        let first = runs[0].start;
        self.blocks
            .insert(first, journal::empty(blocks, self.options.uuid));
        let attr = Attr {
            kind: FileKind::Regular,
            ..self.dir_attr(0o600, 1, u64::from(blocks))
        };
        self.put_inode(JOURNAL_INODE, attr, &runs);
        Ok(())
    }

    fn dir_attr(&self, mode: u16, nlink: u32, blocks: u64) -> Attr {
        Attr {
            kind: FileKind::Directory,
            mode,
            nlink,
            uid: 0,
            gid: 0,
            rdev: 0,
            size: blocks * BLOCK as u64,
            sectors: blocks * 8,
            atime: self.options.now,
            mtime: self.options.now,
            ctime: self.options.now,
            btime: self.options.now,
            generation: 0,
        }
    }

    fn put_dir_block(&mut self, ino: u32, block: u64, mut bytes: Box<[u8; BLOCK]>) {
        let seed = raw::seed(self.geometry.seed, ino, 0);
        let sum = dirent::checksum(seed, &bytes);
        dirent::CHECKSUM.put(&mut bytes[..], sum);
        self.blocks.insert(block, bytes);
    }

    fn slot(&mut self, ino: u32) -> &mut [u8] {
        let size = self.geometry.inode_size;
        let byte = (ino as usize - 1) * size;
        let block = self.groups[0].inode_table + (byte / BLOCK) as u64;
        let bytes = self
            .blocks
            .entry(block)
            .or_insert_with(|| Box::new([0; BLOCK]));
        &mut bytes[byte % BLOCK..][..size]
    }

    fn put_inode(&mut self, ino: u32, attr: Attr, runs: &[Run]) {
        let (seed, extra) = (self.geometry.seed, self.geometry.extra_size);
        let mut logical = 0;
        let mut node = Node::default();
        for run in runs {
            node.entries.push(Entry {
                logical,
                len: run.len as u32,
                unwritten: false,
                start: run.start,
            });
            logical += run.len as u32;
        }
        let mut map = [0; raw::MAP_SIZE];
        node.encode(&mut map);
        let slot = self.slot(ino);
        if slot.len() > raw::OLD_SIZE {
            raw::EXTRA_SIZE.put(slot, extra);
        }
        raw::set_attr(slot, &attr);
        raw::set_size(slot, attr.size);
        raw::FLAGS.put(slot, raw::FLAG_EXTENTS);
        raw::MAP.put(slot, map);
        raw::seal(raw::seed(seed, ino, 0), slot);
    }

    /// Writes an unused reserved inode: an empty slot with its checksum.
    fn put_reserved_inode(&mut self, ino: u32) {
        let seed = raw::seed(self.geometry.seed, ino, 0);
        raw::seal(seed, self.slot(ino));
    }

    /// The bits of `number` that are used, and their count.
    fn block_bits(&self, number: u32) -> (Box<[u8; BLOCK]>, u32) {
        let mut bitmap = Box::new([0; BLOCK]);
        let (start, len) = (
            self.geometry.group_start(number),
            self.geometry.group_len(number),
        );
        let end = start + u64::from(len);
        let mut count = 0;
        let before = self.used.range(..start).next_back();
        for (&from, &used) in before.into_iter().chain(self.used.range(start..end)) {
            for bit in from.max(start)..(from + used).min(end) {
                let bit = bit - start;
                bitmap[(bit / 8) as usize] |= 1 << (bit % 8);
                count += 1;
            }
        }
        for bit in u64::from(len)..GROUP_BLOCKS {
            bitmap[(bit / 8) as usize] |= 1 << (bit % 8);
        }
        (bitmap, count)
    }

    /// Writes the bitmaps of groups in use; others are left out, but those that
    /// every tool expects: of the first group and the last.
    fn write_bitmaps(&mut self) {
        let system = system_runs(&self.geometry, &self.groups);
        for number in 0..self.geometry.groups {
            let (bitmap, count) = self.block_bits(number);
            let untouched = self.is_untouched(number, count, &system);
            let d = &mut self.groups[number as usize];
            d.free_blocks = self.geometry.group_len(number) - count;
            if untouched {
                d.flags |= group::BLOCK_UNINIT;
            } else {
                let len = self.geometry.blocks_per_group as usize / 8;
                d.block_csum = crc(self.geometry.seed, &bitmap[..len]);
                self.blocks.insert(d.block_bitmap, bitmap);
            }
            let per_group = self.geometry.inodes_per_group;
            d.free_inodes = per_group;
            d.unused_inodes = per_group;
            if number > 0 {
                d.flags |= group::INODE_UNINIT;
            }
        }
        self.write_first_inodes();
    }

    /// Whether a group has nothing but its own copies of the superblock.
    fn is_untouched(&self, number: u32, count: u32, system: &[Run]) -> bool {
        let copies = self
            .geometry
            .superblock_run(number)
            .map_or(0, |run| run.len);
        let inner = number > 0 && number + 1 < self.geometry.groups;
        inner && u64::from(count) == copies && !system.is_empty()
    }

    fn write_first_inodes(&mut self) {
        let per_group = self.geometry.inodes_per_group;
        let mut bitmap = Box::new([0; BLOCK]);
        let all = (0..LOST_FOUND).chain(per_group..GROUP_BLOCKS as u32);
        all.for_each(|bit| bitmap[(bit / 8) as usize] |= 1 << (bit % 8));
        let d = &mut self.groups[0];
        d.free_inodes -= LOST_FOUND;
        d.unused_inodes -= LOST_FOUND;
        d.used_dirs = 2;
        d.inode_csum = crc(self.geometry.seed, &bitmap[..per_group as usize / 8]);
        self.blocks.insert(d.inode_bitmap, bitmap);
    }

    /// Writes descriptors and superblocks, all their copies.
    fn write_descriptors(&mut self) {
        let mut table = vec![0; self.geometry.gdt_blocks() as usize * BLOCK];
        for (number, bytes) in table.chunks_exact_mut(group::SIZE).enumerate() {
            if let Some(descriptor) = self.groups.get(number) {
                descriptor.encode(bytes);
                let sum = group::checksum(self.geometry.seed, number as u32, bytes);
                group::CHECKSUM.put(bytes, sum);
            }
        }
        for number in 0..self.geometry.groups {
            let Some(run) = self.geometry.superblock_run(number) else {
                continue;
            };
            let superblock = self.superblock(number);
            self.blocks.insert(run.start, superblock);
            for (index, bytes) in table.chunks_exact(BLOCK).enumerate() {
                let mut block = Box::new([0; BLOCK]);
                block.copy_from_slice(bytes);
                self.blocks.insert(run.start + 1 + index as u64, block);
            }
        }
    }

    /// The block with the copy of the superblock of a group.
    fn superblock(&self, number: u32) -> Box<[u8; BLOCK]> {
        let mut block = Box::new([0; BLOCK]);
        let at = if number == 0 { sb::OFFSET } else { 0 };
        let bytes = &mut block[at..at + sb::SIZE];
        self.put_counts(bytes);
        self.put_features(bytes);
        let now = self.options.now.secs as u32;
        sb::WRITE_TIME.put(bytes, now);
        sb::LAST_CHECK.put(bytes, now);
        sb::MKFS_TIME.put(bytes, now);
        sb::MOUNTS_MAX.put(bytes, !0);
        sb::BLOCK_GROUP.put(bytes, number as u16);
        let sum = sb::checksum(bytes);
        sb::CHECKSUM.put(bytes, sum);
        block
    }

    fn put_counts(&self, bytes: &mut [u8]) {
        let g = &self.geometry;
        let free: u64 = self.groups.iter().map(|d| u64::from(d.free_blocks)).sum();
        let inodes: u32 = self.groups.iter().map(|d| d.free_inodes).sum();
        sb::INODES_COUNT.put(bytes, g.inodes);
        sb::BLOCKS_LO.put(bytes, g.blocks as u32);
        sb::BLOCKS_HI.put(bytes, (g.blocks >> 32) as u32);
        sb::RESERVED_LO.put(bytes, g.reserved_blocks as u32);
        sb::RESERVED_HI.put(bytes, (g.reserved_blocks >> 32) as u32);
        sb::FREE_BLOCKS_LO.put(bytes, free as u32);
        sb::FREE_BLOCKS_HI.put(bytes, (free >> 32) as u32);
        sb::FREE_INODES.put(bytes, inodes);
        sb::LOG_BLOCK_SIZE.put(bytes, 2);
        sb::LOG_CLUSTER_SIZE.put(bytes, 2);
        sb::BLOCKS_PER_GROUP.put(bytes, g.blocks_per_group);
        sb::CLUSTERS_PER_GROUP.put(bytes, g.blocks_per_group);
        sb::INODES_PER_GROUP.put(bytes, g.inodes_per_group);
    }

    fn put_features(&self, bytes: &mut [u8]) {
        let g = &self.geometry;
        sb::MAGIC.put(bytes, sb::MAGIC_NUMBER);
        sb::STATE.put(bytes, sb::STATE_CLEAN);
        sb::ERRORS.put(bytes, 1);
        sb::REVISION.put(bytes, 1);
        sb::FIRST_INODE.put(bytes, g.first_inode);
        sb::INODE_SIZE.put(bytes, g.inode_size as u16);
        sb::COMPAT.put(bytes, g.compat);
        sb::INCOMPAT.put(bytes, g.incompat);
        sb::RO_COMPAT.put(bytes, g.ro_compat);
        sb::UUID.put(bytes, g.uuid);
        let mut label = [0; 16];
        let name = self.options.label.as_bytes();
        label[..name.len()].copy_from_slice(name);
        sb::LABEL.put(bytes, label);
        sb::JOURNAL_INODE.put(bytes, g.journal_inode);
        sb::HASH_SEED.put(bytes, self.options.hash_seed);
        sb::HASH_VERSION.put(bytes, g.hash_version);
        sb::DESCRIPTOR_SIZE.put(bytes, group::SIZE as u16);
        sb::MIN_EXTRA_ISIZE.put(bytes, g.extra_size);
        sb::WANT_EXTRA_ISIZE.put(bytes, g.extra_size);
        sb::FLAGS.put(bytes, sb::FLAG_SIGNED_HASH);
        let flex = self.options.flex_groups.trailing_zeros();
        sb::LOG_GROUPS_PER_FLEX.put(bytes, flex as u8);
        sb::CHECKSUM_TYPE.put(bytes, sb::CHECKSUM_CRC32C);
        self.put_journal_copy(bytes);
    }

    /// A copy of the journal's map and size, for repairs.
    fn put_journal_copy(&self, bytes: &mut [u8]) {
        if self.geometry.journal_inode == 0 {
            return;
        }
        let byte = (JOURNAL_INODE as usize - 1) * self.geometry.inode_size;
        let block = self.groups[0].inode_table + (byte / BLOCK) as u64;
        let Some(table) = self.blocks.get(&block) else {
            return;
        };
        let slot = &table[byte % BLOCK..][..raw::OLD_SIZE];
        let mut copy = [0; 68];
        copy[..raw::MAP_SIZE].copy_from_slice(&raw::MAP.get(slot));
        copy[raw::MAP_SIZE..64].copy_from_slice(&raw::SIZE_HI.get(slot).to_le_bytes());
        copy[64..].copy_from_slice(&raw::SIZE_LO.get(slot).to_le_bytes());
        sb::JOURNAL_BLOCKS.put(bytes, copy);
        sb::JOURNAL_BACKUP_TYPE.put(bytes, 1);
    }
}
