//! Mount and unmount.
//!
//! A mount reads the superblock and all group descriptors, marks the superblock as in use, and
//! frees the orphans that are left. The marks in the superblock (in use, journal to be replayed)
//! are home before the first change of the mount and are cleared after the last one.

use crate::alloc::Alloc;
use crate::buffer::BLOCK;
use crate::format::{group, superblock as sb};
use crate::fs::{ExtFs, group_checksum};
use crate::geometry::{Geometry, MountError};
use crate::inode::ROOT;
use crate::persist::{Persist, Run};
use crate::placer::Placer;
use host::Purpose;
use sim::Sim;
use std::cell::{Cell, RefCell};
use vfs::{FileKind, Result, Timestamp};

/// Options of a mount, from the strategy and its user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MountOptions {
    /// Time of the mount, for the superblock.
    pub now: Timestamp,
    /// Choice of placement handles for file contents.
    pub placer: Placer,
    /// Whether freed blocks are deallocated on the drive.
    pub discard: bool,
    /// Whether the journal, or the superblock before a replay, records an error. The mount
    /// records it in the superblock, so that the file system is checked.
    pub has_error: bool,
    /// Blocks of the journal, for reports of refused allocations.
    pub journal_blocks: u64,
}

impl<P: Persist> ExtFs<P> {
    /// Mounts the file system of `persist` for reading and writing.
    ///
    /// # Errors
    /// If the file system is damaged, not supported or not recovered, or `EIO`.
    pub async fn mount(
        sim: &Sim,
        persist: P,
        options: MountOptions,
    ) -> std::result::Result<Self, MountError> {
        let superblock = persist.read(0, Purpose::Superblock).await?;
        let bytes = superblock.bytes()[sb::OFFSET..sb::OFFSET + sb::SIZE].to_vec();
        let geometry = Geometry::decode(&bytes)?;
        if geometry.incompat & sb::INCOMPAT_RECOVER != 0 && !persist.needs_recovery() {
            return Err(MountError::Unrecovered);
        }
        let mut fs = Self {
            sim: sim.clone(),
            persist,
            geometry,
            options,
            superblock,
            descriptors: Vec::new(),
            system: Vec::new(),
            alloc: RefCell::default(),
            orphans: RefCell::default(),
            refusals: RefCell::default(),
            generation: Cell::new(options.now.secs as u32),
        };
        let groups = fs.read_groups().await?;
        fs.system = system_runs(&fs.geometry, &groups);
        *fs.alloc.borrow_mut() = Alloc::new(groups.into_iter());
        let root = fs.load_inode(ROOT, false).await?;
        if root.attr.get().kind != FileKind::Directory {
            return Err(MountError::Number("the kind of the root", 0));
        }
        fs.mark_in_use().await?;
        if !vfs::mutant::is("ext4-orphans-kept") {
            fs.clean_orphans().await?;
        }
        Ok(fs)
    }

    async fn read_groups(&mut self) -> std::result::Result<Vec<group::Descriptor>, MountError> {
        let size = self.geometry.descriptor_size;
        let mut groups = Vec::new();
        for block in 0..self.geometry.gdt_blocks() {
            let buffer = self
                .persist
                .read(u64::from(block) + 1, Purpose::Superblock)
                .await?;
            for bytes in buffer.bytes().chunks_exact(size) {
                let number = groups.len() as u32;
                if number == self.geometry.groups {
                    break;
                }
                groups.push(read_group(&self.geometry, number, bytes)?);
            }
            self.descriptors.push(buffer);
        }
        Ok(groups)
    }

    async fn mark_in_use(&self) -> Result<()> {
        let tx = self.persist.begin(1).await?;
        let recovers = self.recovers();
        self.edit_superblock(&tx, |bytes| {
            let mut state = sb::STATE.get(bytes) & !sb::STATE_CLEAN;
            if self.options.has_error {
                state |= sb::STATE_ERROR;
            }
            // With a journal the file system stays clean while it is mounted: a replay
            // restores a sound structure, and no check is needed.
            sb::STATE.put(
                bytes,
                if recovers {
                    state | sb::STATE_CLEAN
                } else {
                    state
                },
            );
            sb::MOUNTS.put(bytes, sb::MOUNTS.get(bytes).wrapping_add(1));
            sb::MOUNT_TIME.put(bytes, self.options.now.secs as u32);
            sb::WRITE_TIME.put(bytes, self.options.now.secs as u32);
            if recovers {
                let incompat = sb::INCOMPAT.get(bytes) | sb::INCOMPAT_RECOVER;
                sb::INCOMPAT.put(bytes, incompat);
            }
        });
        self.persist.end(tx).await?;
        self.persist.checkpoint().await
    }

    /// Whether this mount marks its journal as to be replayed.
    fn recovers(&self) -> bool {
        self.persist.needs_recovery() && self.geometry.has_compat(sb::COMPAT_HAS_JOURNAL)
    }

    /// Unmounts: brings all changes home, then marks the superblock as clean and shuts the
    /// strategy down.
    pub(crate) async fn leave(&self) -> Result<()> {
        self.persist.checkpoint().await?;
        self.reclaim().await?;
        let tx = self.persist.begin(1).await?;
        let (blocks, inodes) = {
            let alloc = self.alloc.borrow();
            (alloc.free_blocks, alloc.free_inodes)
        };
        let recovers = self.recovers();
        self.edit_superblock(&tx, |bytes| {
            sb::FREE_BLOCKS_LO.put(bytes, blocks as u32);
            sb::FREE_BLOCKS_HI.put(bytes, (blocks >> 32) as u32);
            sb::FREE_INODES.put(bytes, inodes as u32);
            let state = sb::STATE.get(bytes) | sb::STATE_CLEAN;
            sb::STATE.put(bytes, state);
            if recovers {
                let incompat = sb::INCOMPAT.get(bytes) & !sb::INCOMPAT_RECOVER;
                sb::INCOMPAT.put(bytes, incompat);
            }
        });
        self.persist.end(tx).await?;
        self.persist.shut_down().await
    }
}

/// Decodes and checks the descriptor of group `number`.
pub(crate) fn read_group(
    geometry: &Geometry,
    number: u32,
    bytes: &[u8],
) -> std::result::Result<group::Descriptor, MountError> {
    let descriptor = group::Descriptor::decode(bytes);
    let summed = geometry.checksums || geometry.old_checksums;
    if summed && group::CHECKSUM.get(bytes) != group_checksum(geometry, number, bytes) {
        let what = "the checksum of a group descriptor";
        return Err(MountError::Number(
            what,
            u64::from(group::CHECKSUM.get(bytes)),
        ));
    }
    let fits = geometry.is_possible(&descriptor)
        && descriptor.free_blocks <= geometry.group_len(number)
        && descriptor.free_inodes <= geometry.inodes_per_group
        && descriptor.unused_inodes <= geometry.inodes_per_group;
    if !fits {
        return Err(MountError::Number(
            "the descriptor of group",
            u64::from(number),
        ));
    }
    let mut descriptor = descriptor;
    if !summed {
        // The flags are valid with checksums only; without them mkfs initializes all.
        descriptor.flags &= !(group::INODE_UNINIT | group::BLOCK_UNINIT);
    }
    Ok(descriptor)
}

/// Runs of the blocks that hold structures outside of files (superblocks, descriptors, bitmaps,
/// inode tables): sorted, adjacent runs merged.
pub(crate) fn system_runs(geometry: &Geometry, groups: &[group::Descriptor]) -> Vec<Run> {
    let mut runs = Vec::new();
    for (number, descriptor) in groups.iter().enumerate() {
        runs.extend(geometry.superblock_run(number as u32));
        let one = |start| Run { start, len: 1 };
        runs.push(one(descriptor.block_bitmap));
        runs.push(one(descriptor.inode_bitmap));
        runs.push(Run {
            start: descriptor.inode_table,
            len: u64::from(geometry.table_blocks()),
        });
    }
    runs.sort_unstable();
    let mut merged: Vec<Run> = Vec::new();
    for run in runs {
        match merged.last_mut() {
            Some(last) if run.start <= last.start + last.len => {
                last.len = last.len.max(run.start + run.len - last.start);
            }
            _ => merged.push(run),
        }
    }
    merged
}

const _: () = assert!(sb::OFFSET + sb::SIZE <= BLOCK);
