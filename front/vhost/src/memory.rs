//! Memory that a machine shares by file descriptors.
//!
//! Invariants: nothing outside the shared regions is read or written, whatever addresses the
//! machine names. The regions lie in files of an in-memory file system: access to another file,
//! say of a FUSE mount of the machine's owner, could block the thread of the drive for ever.

use crate::wire::{REGIONS_MAX, u32_at, u64_at};
use rustix::fs::{FileType, fstat, fstatfs};
use rustix::io::{Errno, pread, pwrite};
use std::os::fd::OwnedFd;

/// Magic numbers of `tmpfs` (files of `memfd_create`), `hugetlbfs` and `ramfs`, from
/// `linux/magic.h`.
const IN_MEMORY: [u32; 3] = [0x0102_1994, 0x9584_58f6, 0x8584_58f6];

/// A contiguous region of shared memory in one file.
struct Region {
    /// First address in the guest's physical memory.
    guest: u64,
    /// First address in the virtual memory of the machine's process.
    user: u64,
    len: u64,
    /// Offset of the region in `file`.
    offset: u64,
    file: OwnedFd,
}

/// Error for invalid input of the machine: an address, a message or a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bad;

/// Memory map of a machine: at most [`REGIONS_MAX`] regions.
#[derive(Default)]
pub(crate) struct Memory(Vec<Region>);

impl Memory {
    /// Decodes the memory table of a `SET_MEM_TABLE` message; `files` holds the file of each
    /// region, in the order of the table.
    ///
    /// # Errors
    /// If the counts differ, a region overflows, or a file is not in memory.
    pub(crate) fn parse(table: &[u8], files: Vec<OwnedFd>) -> Result<Self, Bad> {
        let count = u32_at(table, 0) as usize;
        if count > REGIONS_MAX || count != files.len() || table.len() < 8 + 32 * count {
            return Err(Bad);
        }
        let region = |(index, file)| {
            let at = 8 + 32 * index;
            let [guest, len, user, offset] = [0, 8, 16, 24].map(|field| u64_at(table, at + field));
            // `start + len` must not overflow.
            let ends = [guest, user, offset].map(|start| start.checked_add(len));
            ends.iter().all(Option::is_some).then_some(Region {
                guest,
                user,
                len,
                offset,
                file,
            })
        };
        if !files.iter().all(is_in_memory) {
            return Err(Bad);
        }
        let regions = files.into_iter().enumerate().map(region);
        regions.collect::<Option<_>>().map(Self).ok_or(Bad)
    }

    /// Guest address of the machine process's address `user`.
    pub(crate) fn guest_of(&self, user: u64) -> Result<u64, Bad> {
        let has = |region: &&Region| user >= region.user && user - region.user < region.len;
        let region = self.0.iter().find(has).ok_or(Bad)?;
        Ok(region.guest + (user - region.user))
    }

    /// Finds guest address `at`: its file, the offset in it, and the bytes left in the region.
    fn find(&self, at: u64) -> Result<(&OwnedFd, u64, usize), Bad> {
        let has = |region: &&Region| at >= region.guest && at - region.guest < region.len;
        let region = self.0.iter().find(has).ok_or(Bad)?;
        let inside = at - region.guest;
        let left = usize::try_from(region.len - inside).unwrap_or(usize::MAX);
        Ok((&region.file, region.offset + inside, left))
    }

    /// Fills `bytes` from guest address `at`; the range may span regions.
    pub(crate) fn read(&self, mut at: u64, mut bytes: &mut [u8]) -> Result<(), Bad> {
        while !bytes.is_empty() {
            let (file, offset, left) = self.find(at)?;
            let len = bytes.len().min(left);
            match pread(file, &mut bytes[..len], offset) {
                Ok(0) => return Err(Bad),
                Ok(read) => {
                    bytes = &mut bytes[read..];
                    at += read as u64;
                }
                Err(Errno::INTR) => {}
                Err(_) => return Err(Bad),
            }
        }
        Ok(())
    }

    /// Writes `bytes` to guest address `at`; the range may span regions.
    pub(crate) fn write(&self, mut at: u64, mut bytes: &[u8]) -> Result<(), Bad> {
        while !bytes.is_empty() {
            let (file, offset, left) = self.find(at)?;
            let len = bytes.len().min(left);
            match pwrite(file, &bytes[..len], offset) {
                Ok(0) => return Err(Bad),
                Ok(written) => {
                    bytes = &bytes[written..];
                    at += written as u64;
                }
                Err(Errno::INTR) => {}
                Err(_) => return Err(Bad),
            }
        }
        Ok(())
    }
}

/// Whether a file is a regular file of an in-memory file system.
fn is_in_memory(file: &OwnedFd) -> bool {
    let is_regular = kind(file) == Some(FileType::RegularFile);
    let system = fstatfs(file).map(|system| system.f_type as u32);
    is_regular && system.is_ok_and(|system| IN_MEMORY.contains(&system))
}

/// Whether a file is an eventfd, a pipe or a socket, which support nonblocking access.
pub(crate) fn is_event(file: &OwnedFd) -> bool {
    // An eventfd is an anonymous inode, which has no file type.
    let ways = [FileType::Unknown, FileType::Fifo, FileType::Socket];
    kind(file).is_some_and(|kind| ways.contains(&kind))
}

fn kind(file: &OwnedFd) -> Option<FileType> {
    let stat = fstat(file).ok()?;
    Some(FileType::from_raw_mode(stat.st_mode))
}
