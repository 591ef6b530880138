//! Room for a workload on a file system, before its first call.
//!
//! Invariant: a workload is refused only if its files cannot be there at the same time, whatever the
//! file system needs besides.

use crate::error::StackError;
use crate::past::Past;
use crate::plan::Plan;
use std::ops::Not;
use units::{Bytes, MIB};
use vfs::StatFs;
use workload::files::{EntryKind, Setup};

/// A file system takes space beside the bytes of files: one byte in this many, our choice.
const BESIDE: u64 = 16;
/// Sizes of drives are given in multiples of this.
const STEP: u64 = 64 * MIB;

/// Statement of an error about a stack.
pub(super) struct Room {
    stack: String,
    past: Past,
    drive: Bytes,
}

impl Room {
    pub(super) fn of(plan: &Plan) -> Self {
        Self {
            stack: plan.stack.to_string(),
            past: plan.past(),
            drive: plan.drive.capacity,
        }
    }

    /// Rejects a tree that a file system with this space cannot hold.
    pub(super) fn check(self, stat: &StatFs, setup: &Setup) -> Result<(), StackError> {
        let block = u64::from(stat.block_size).max(1);
        let size = |kind: EntryKind| match kind {
            EntryKind::File { size } => size,
            _ => 0,
        };
        let sizes = setup.entries.iter().map(|entry| size(entry.kind));
        let needed = sizes.fold(0, u64::saturating_add);
        let free = stat.blocks_available.saturating_mul(block);
        let enough = (needed <= free)
            .not()
            .then(|| enough(self.drive.0, needed, free));
        enough.map_or(Ok(()), |enough| {
            Err(StackError::Room {
                stack: self.stack,
                past: self.past.to_string(),
                needed: Bytes(needed),
                free: Bytes(free),
                drive: self.drive,
                enough,
            })
        })
    }
}

/// Capacity in MiB of a drive with room for `needed` bytes, if one of `drive` bytes has it for
/// `free`: free space grows with the drive.
fn enough(drive: u64, needed: u64, free: u64) -> u64 {
    let needed = u128::from(needed) + u128::from(needed / BESIDE);
    let bytes = needed * u128::from(drive) / u128::from(free.max(STEP / BESIDE));
    let steps = bytes.div_ceil(u128::from(STEP));
    u64::try_from(steps * u128::from(STEP / MIB)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_that_would_do_grows_with_the_bytes_that_are_needed() {
        assert_eq!(enough(256 * MIB, 160 * MIB, 170 * MIB), 256);
        assert_eq!(enough(256 * MIB, 320 * MIB, 160 * MIB), 576);
        assert!(enough(1 << 40, u64::MAX, 0) > 1 << 30);
    }
}
