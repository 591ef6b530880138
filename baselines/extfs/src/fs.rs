//! A mounted file system: the state and helpers that all verbs share.

use crate::alloc::Alloc;
use crate::buffer::{BLOCK, Buffer};
use crate::extents::ExtentCache;
use crate::format::{Value, group, superblock as sb};
use crate::geometry::Geometry;
use crate::mount::MountOptions;
use crate::persist::{Persist, Run, TxId};
use sim::{Semaphore, Sim};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use units::Refusals;
use vfs::{Errno, Inode, Result};

/// A file system in the format of ext4, over the strategy `P`.
pub struct ExtFs<P: Persist> {
    pub(crate) sim: Sim,
    pub(crate) persist: P,
    pub(crate) geometry: Geometry,
    pub(crate) options: MountOptions,
    pub(crate) superblock: Rc<Buffer>,
    pub(crate) descriptors: Vec<Rc<Buffer>>,
    /// Runs of blocks that hold structures outside files, sorted and merged.
    pub(crate) system: Vec<Run>,
    pub(crate) alloc: RefCell<Alloc>,
    /// Inodes in use without a name, in reverse order of the list on the medium: the
    /// last element is the head of that list.
    pub(crate) orphans: RefCell<Vec<u32>>,
    /// Counts of requests that met a limit, by limit.
    pub(crate) refusals: RefCell<Refusals>,
    /// Counter from which new inodes take their generation.
    pub(crate) generation: Cell<u32>,
}

/// State that the body attaches to each inode in memory.
pub struct Private {
    /// The block of the inode table, pinned in memory by this reference.
    pub(crate) buffer: Rc<Buffer>,
    /// Byte offset of the inode in `buffer`.
    pub(crate) at: usize,
    /// Flags of the inode, as in its field on the medium.
    pub(crate) flags: Cell<u32>,
    /// Seed of the checksums over the inode and its structures.
    pub(crate) seed: u32,
    /// Size of the file on the medium, in bytes: it covers the contents written back.
    pub(crate) disk_size: Cell<u64>,
    /// Inode lock: held by a task that changes the map of the file or reads the map
    /// from the medium. Taken within a handle, never the other way round.
    pub(crate) turn: Semaphore,
    pub(crate) extents: RefCell<ExtentCache>,
    /// Ranges of pages with space reserved by delayed allocation.
    pub(crate) reserved: RefCell<crate::delayed::Reserved>,
    /// The last transaction that changed the inode, and the last that changed
    /// metadata needed to read the contents.
    pub(crate) changed: Cell<TxId>,
    pub(crate) data_changed: Cell<TxId>,
    /// Block of a directory in which an insertion last found room: a hint.
    pub(crate) room: Cell<u32>,
}

/// An inode in memory, with the state of this body.
pub(crate) type Node = Inode<Private>;

/// Turns `None`, the sign of damaged bytes, into `EUCLEAN`.
pub(crate) fn damaged<T>(value: Option<T>) -> Result<T> {
    value.ok_or(Errno::EUCLEAN)
}

/// The next range at or after `from` in which `old` and `new` differ. Differences
/// with fewer than eight equal bytes between them form one range.
fn next_change(old: &[u8], new: &[u8], from: usize) -> Option<(usize, usize)> {
    let word = |bytes: &[u8], at: usize| u64::load(&bytes[at..at + 8]);
    let differ = |at: usize| word(old, at) ^ word(new, at);
    let bytes_from = |at: usize| (at..new.len()).filter(|&at| old[at] != new[at]);
    let mut start = from;
    while start + 8 <= new.len() && differ(start) == 0 {
        start += 8;
    }
    let start = bytes_from(start).next()?;
    let mut end = start + 1;
    while end + 8 <= new.len() {
        let bits = differ(end);
        if bits == 0 {
            return Some((start, end));
        }
        end += 8 - bits.leading_zeros() as usize / 8;
    }
    Some((
        start,
        bytes_from(end).next_back().map_or(end, |last| last + 1),
    ))
}

impl<P: Persist> ExtFs<P> {
    /// The strategy that persists changes of this file system.
    #[must_use]
    pub fn persist(&self) -> &P {
        &self.persist
    }

    /// Makes the bytes of `buffer` from `at` on equal to `new`; writes only ranges that differ.
    pub(crate) fn write_changed(&self, tx: &P::Tx, buffer: &Rc<Buffer>, at: usize, new: &[u8]) {
        let mut from = 0;
        loop {
            let change = next_change(&buffer.bytes()[at..at + new.len()], new, from);
            let Some((start, end)) = change else { return };
            self.persist.write(tx, buffer, at + start, &new[start..end]);
            from = end;
        }
    }

    /// Applies `edit` to the superblock and renews its checksum, if it has one.
    pub(crate) fn edit_superblock(&self, tx: &P::Tx, edit: impl FnOnce(&mut [u8])) {
        let mut bytes = [0; sb::SIZE];
        bytes.copy_from_slice(&self.superblock.bytes()[sb::OFFSET..sb::OFFSET + sb::SIZE]);
        edit(&mut bytes);
        if self.geometry.checksums {
            let sum = sb::checksum(&bytes);
            sb::CHECKSUM.put(&mut bytes, sum);
        }
        self.write_changed(tx, &self.superblock, sb::OFFSET, &bytes);
    }

    /// Encodes the descriptor of group `number` into its buffer, with its checksum.
    pub(crate) fn store_group(&self, tx: &P::Tx, number: u32) {
        let size = self.geometry.descriptor_size;
        let per_block = BLOCK / size;
        let (block, at) = (
            number as usize / per_block,
            number as usize % per_block * size,
        );
        let buffer = &self.descriptors[block];
        let mut bytes = [0; group::SIZE];
        let bytes = &mut bytes[..size];
        bytes.copy_from_slice(&buffer.bytes()[at..at + size]);
        self.alloc.borrow().groups[number as usize]
            .descriptor
            .encode(bytes);
        seal_group(&self.geometry, number, bytes);
        self.write_changed(tx, buffer, at, bytes);
    }

    /// Whether `run` can belong to a file: it lies on the medium, past block 0, and
    /// apart from `system`.
    pub(crate) fn is_for_files(&self, run: Run) -> bool {
        let Some(end) = run.start.checked_add(run.len) else {
            return false;
        };
        let next = self
            .system
            .partition_point(|zone| zone.start + zone.len <= run.start);
        let free = self.system.get(next).is_none_or(|zone| zone.start >= end);
        run.start > 0 && end <= self.geometry.blocks && free
    }
}

/// Sets the checksum of the descriptor of group `number`.
pub(crate) fn seal_group(geometry: &Geometry, number: u32, bytes: &mut [u8]) {
    let sum = group_checksum(geometry, number, bytes);
    group::CHECKSUM.put(bytes, sum);
}

/// The expected checksum of the descriptor of group `number`; 0 if the file system
/// has no checksums.
pub(crate) fn group_checksum(geometry: &Geometry, number: u32, bytes: &[u8]) -> u16 {
    if geometry.checksums {
        group::checksum(geometry.seed, number, bytes)
    } else if geometry.old_checksums {
        group::checksum16(&geometry.uuid, number, bytes)
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_change_merges_differences_fewer_than_eight_bytes_apart() {
        let old = [0; 128];
        let mut new = old;
        (new[40], new[45], new[100]) = (1, 1, 1);
        assert_eq!(next_change(&old, &new, 0), Some((40, 46)));
        assert_eq!(next_change(&old, &new, 46), Some((100, 101)));
        assert_eq!(next_change(&old, &new, 101), None);
    }

    #[test]
    fn next_change_agrees_with_a_bytewise_search() {
        let mut rng = sim::Seed(3).stream("changes");
        for _ in 0..20_000 {
            let len = 1 + rng.below(70) as usize;
            let (old, mut new) = (vec![0_u8; len], vec![0_u8; len]);
            for _ in 0..rng.below(6) {
                new[rng.below(len as u64) as usize] = 1 << rng.below(8);
            }
            let from = rng.below(len as u64) as usize;
            let changed: Vec<_> = (from..len).filter(|&at| new[at] != 0).collect();
            let apart = |pair: &[usize]| pair[1] >= pair[0] + 9;
            let last = changed.windows(2).position(apart);
            let end = last.map_or(changed.last(), |at| changed.get(at));
            let expected = changed.first().zip(end).map(|(&a, &b)| (a, b + 1));
            assert_eq!(next_change(&old, &new, from), expected);
        }
    }
}
