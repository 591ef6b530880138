//! The memory that a machine shares.
//!
//! Invariants: nothing outside of it is read or written, whatever the machine names; it lies in
//! files that are in memory themselves, since reading and writing any other could make the
//! thread of the drive wait for ever: for a file system of whoever shares it, say.

use crate::wire::{REGIONS_MAX, u32_at, u64_at};
use rustix::fs::{FileType, fstat, fstatfs};
use rustix::io::{Errno, pread, pwrite};
use std::os::fd::OwnedFd;

/// Magic numbers of `tmpfs` (files of `memfd_create`), `hugetlbfs` and `ramfs`, from
/// `linux/magic.h`.
const IN_MEMORY: [u32; 3] = [0x0102_1994, 0x9584_58f6, 0x8584_58f6];

/// A part of it, in one file.
struct Region {
    /// Where it begins, as the guest counts.
    guest: u64,
    /// Where it begins, as the process of the machine counts.
    user: u64,
    len: u64,
    /// Where it begins in the file.
    offset: u64,
    file: OwnedFd,
}

/// Something that is not there, or cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bad;

/// All of it.
#[derive(Default)]
pub(crate) struct Memory(Vec<Region>);

impl Memory {
    /// The memory that a table names, whose parts are in `files`.
    pub(crate) fn parse(table: &[u8], files: Vec<OwnedFd>) -> Result<Self, Bad> {
        let count = u32_at(table, 0) as usize;
        if count > REGIONS_MAX || count != files.len() || table.len() < 8 + 32 * count {
            return Err(Bad);
        }
        let region = |(index, file)| {
            let at = 8 + 32 * index;
            let [guest, len, user, offset] = [0, 8, 16, 24].map(|field| u64_at(table, at + field));
            // No sum of these is beyond what a number can hold.
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

    /// The file that has what is at `at`, where there, and how much of it follows.
    fn find(&self, at: u64) -> Result<(&OwnedFd, u64, usize), Bad> {
        let has = |region: &&Region| at >= region.guest && at - region.guest < region.len;
        let region = self.0.iter().find(has).ok_or(Bad)?;
        let inside = at - region.guest;
        let left = usize::try_from(region.len - inside).unwrap_or(usize::MAX);
        Ok((&region.file, region.offset + inside, left))
    }

    /// Reads what is at `at`.
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

    /// Writes to what is at `at`.
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

/// Whether a file is in memory.
fn is_in_memory(file: &OwnedFd) -> bool {
    let is_regular = kind(file) == Some(FileType::RegularFile);
    let system = fstatfs(file).map(|system| system.f_type as u32);
    is_regular && system.is_ok_and(|system| IN_MEMORY.contains(&system))
}

/// Whether a file is one for events, or another way between processes: to read and write these
/// without waiting can be asked for.
pub(crate) fn is_event(file: &OwnedFd) -> bool {
    // A file without a name in any file system has no type.
    let ways = [FileType::Unknown, FileType::Fifo, FileType::Socket];
    kind(file).is_some_and(|kind| ways.contains(&kind))
}

fn kind(file: &OwnedFd) -> Option<FileType> {
    let stat = fstat(file).ok()?;
    Some(FileType::from_raw_mode(stat.st_mode))
}
