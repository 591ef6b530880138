//! Mounting and unmounting.
//!
//! Mounting reads the superblock and all group descriptors, says in the
//! superblock that the file system is in use, and finishes what orphans are left.
//! The superblock that says so, and whether a journal has to be replayed, is home
//! before the first change and after the last one.

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

/// How to mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MountOptions {
    /// The present, for the superblock.
    pub now: Timestamp,
    /// Where the drive shall put contents of files.
    pub placer: Placer,
    /// Whether freed blocks are deallocated on the drive.
    pub discard: bool,
    /// Whether something failed before, as a journal says or the superblock did
    /// before a replay: it is written down, so that it is checked.
    pub has_error: bool,
    /// Blocks of the journal: what it holds when there is no space.
    pub journal_blocks: u64,
}

impl<P: Persist> ExtFs<P> {
    /// Mounts what `persist` holds, for reading and writing.
    ///
    /// # Errors
    /// What is wrong with it, or `EIO`.
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
            // A journal brings back a sound structure: only that is clean which
            // was unmounted, but none has to look for damage.
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

    /// Whether the superblock says that a journal has to be replayed.
    fn recovers(&self) -> bool {
        self.persist.needs_recovery() && self.geometry.has_compat(sb::COMPAT_HAS_JOURNAL)
    }

    /// Leaves the medium as a clean unmount does: all is home, then the
    /// superblock says so.
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

/// Reads and checks a descriptor.
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
        // Without checksums nothing says what was left out: all is there.
        descriptor.flags &= !(group::INODE_UNINIT | group::BLOCK_UNINIT);
    }
    Ok(descriptor)
}

/// Where structures lie that are not in files: sorted, neighbours merged.
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
