//! Counters of a stepped drive, under the names that they have in the record of a run.

use crate::fill::ratio;
use crate::run::Before;
use host::BlockDevice;

/// Traffic and work of a drive since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// Bytes that successful commands read.
    pub host_read_bytes: u64,
    /// Bytes that successful commands wrote.
    pub host_write_bytes: u64,
    /// Bytes that were deallocated.
    pub trim_bytes: u64,
    /// Flushes that have completed.
    pub flushes: u64,
    /// Flash pages read, for whatever cause.
    pub nand_read_pages: u64,
    /// Flash pages programmed, for whatever cause.
    pub nand_program_pages: u64,
    /// Flash blocks erased since then.
    pub nand_erase_blocks: u64,
    /// Bytes of a flash page.
    pub nand_page_bytes: u64,
    /// Write amplification: bytes programmed over bytes written by the host; 0 without writes. Data
    /// that are still in the write buffer are not programmed yet.
    pub waf: f64,
    /// Superblocks that garbage collection has emptied.
    pub gc_lines: u64,
}

impl Counters {
    /// The counters of `device` since those of `before`.
    pub(super) fn since(before: &Before, device: &BlockDevice) -> Self {
        let drive = device.drive();
        let host = device.ledger().since(&before.host);
        let ledger = drive.ledger().since(&before.drive);
        let page = u64::from(drive.layout().geometry.page_bytes);
        let programmed = ledger.programmed_pages() * drive.layout().page_bytes();
        Self {
            host_read_bytes: host.read_bytes(),
            host_write_bytes: host.write_bytes(),
            trim_bytes: host.trimmed,
            flushes: host.flushes,
            nand_read_pages: ledger.reads.iter().sum(),
            nand_program_pages: programmed / page,
            nand_erase_blocks: drive.flash_counters().erase_blocks - before.erased_blocks,
            nand_page_bytes: page,
            waf: ratio(programmed, host.write_bytes()),
            gc_lines: ledger.lines_collected,
        }
    }
}
