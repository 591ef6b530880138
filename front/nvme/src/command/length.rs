//! Data length of a command, for PCIe: the host passes pages, and their number follows from the
//! command.
//!
//! Invariant: the length is the most that the command transfers; for a command that will be
//! rejected it may be any, as no data move.

use super::QueueKind;
use super::io::{COPY_RANGE, DATASET_RANGE, PLACEMENT};
use crate::entry::Entry;
use crate::layout::identify::IDENTIFY_BYTES;

/// Data length in bytes of `entry` on a queue of this kind; `block` returns the block size in bytes
/// of a namespace.
//= nvme-2.1 4.3
pub(crate) fn data_len(
    entry: &Entry,
    queue: QueueKind,
    block: impl FnOnce(u32) -> Option<u64>,
) -> u64 {
    match queue {
        QueueKind::Admin => admin(entry),
        QueueKind::Io => io(entry, block),
    }
}

fn admin(entry: &Entry) -> u64 {
    match entry.opcode() {
        0x02 => {
            let (first, second) = (entry.dword(10), entry.dword(11));
            let last = u64::from(second.word(0)) << 16 | u64::from(first.word(16));
            dwords(last)
        }
        0x06 => IDENTIFY_BYTES as u64,
        0x09 => match entry.dword(10).byte(0) {
            0x0e => 8,
            0x16 => 512,
            _ => 0,
        },
        0x0a => match entry.dword(10).byte(0) {
            0x0e | 0x1e => 8,
            0x16 => 512,
            0x81 => 16,
            _ => 0,
        },
        0x1a => dwords(entry.dword(10).0.into()),
        _ => 0,
    }
}

fn io(entry: &Entry, block: impl FnOnce(u32) -> Option<u64>) -> u64 {
    let (tenth, twelfth) = (entry.dword(10), entry.dword(12));
    let ranges = |count: u8, bytes: usize| (u64::from(count) + 1) * bytes as u64;
    match entry.opcode() {
        // Write, read, compare, append.
        0x01 | 0x02 | 0x05 | 0x7d => {
            let blocks = u64::from(twelfth.word(0)) + 1;
            block(entry.nsid()).map_or(0, |block| blocks * block)
        }
        0x09 => ranges(tenth.byte(0), DATASET_RANGE),
        0x12 => dwords(entry.dword(11).0.into()),
        0x19 => ranges(twelfth.byte(0), COPY_RANGE),
        0x1d => (u64::from(tenth.word(16)) + 1) * PLACEMENT as u64,
        0x7a => dwords(twelfth.0.into()),
        // STORE and LOAD of the byte interface.
        0x81 | 0x82 => twelfth.0.into(),
        _ => 0,
    }
}

/// Bytes of a zero-based number of dwords.
fn dwords(last: u64) -> u64 {
    (last + 1) * 4
}
