//! The memory that a machine shares.
//!
//! Invariant: nothing outside of it is read or written, whatever the machine names.

use crate::wire::{REGIONS_MAX, u32_at, u64_at};
use rustix::io::{Errno, pread, pwrite};
use std::os::fd::OwnedFd;

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

/// Something that is not there, or can not be had.
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
        let regions = files.into_iter().enumerate().map(region);
        regions.collect::<Option<_>>().map(Self).ok_or(Bad)
    }

    /// Where the guest has what the process of the machine has at `user`.
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
