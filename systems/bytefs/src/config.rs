//! Knobs.

use extfs::lines::LineOptions;
use units::{Ns, Origin, Placement};
use vfs::Timestamp;

/// How much of the mechanism is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
//= bytefs 5.4
pub enum Variant {
    /// ByteFS-Log: metadata by bytes in transactions of the firmware, contents of
    /// files by blocks alone.
    Log,
    /// ByteFS: contents as well by whichever interface suits the change.
    #[default]
    Full,
}

/// What becomes durable together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
//= bytefs 4.6
pub enum Data {
    /// Metadata; contents of files that they lead to are there before them.
    #[default]
    Ordered,
    /// Contents as well: small changes in the transaction of the firmware, others in
    /// the blocks of a journal, which commits with it.
    Journal,
}

/// How to mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How much of the mechanism is there.
    pub variant: Variant,
    /// What becomes durable together.
    pub data: Data,
    /// A page of which fewer than so many of its 64 lines have changed goes by bytes,
    /// and so does a new block of metadata, of which all have. 8 is R < 1/8, read
    /// strictly (`bytefs 4.6`); 0 is by blocks always.
    pub byte_lines: u32,
    /// Direct requests of up to so many bytes go by bytes: 512 (`bytefs 4.6` says
    /// "no greater than").
    pub direct_bytes: u64,
    /// Lines that may be in transactions that have not committed, as reserved by
    /// their handles: 2^20, our choice, or what the drive's log takes if that is less:
    /// a little under half of its lines, which are 3,355,443 in 256 MiB with 16 bytes
    /// beside each. Whoever would exceed it waits; what can never fit is refused with
    /// `ENOSPC`, as is part of what the body does with less than 5,056: its largest
    /// handle is of 79 blocks. A drive with less, a log under 795 KiB, is refused.
    pub open_lines: u64,
    /// Handles that one transaction takes in before new ones have to wait until it
    /// is closed: 64, our choice. It bounds how long a call goes uncommitted.
    pub handles: usize,
    /// TxIDs that are reserved at once, each time with one line: 65,536, our choice.
    pub tx_ids: u32,
    /// Clean blocks of metadata in memory: 65,536, which is 256 MiB, our choice.
    pub cache_blocks: usize,
    /// Whether freed blocks are deallocated on the drive.
    pub discard: bool,
    /// Whether the drive is told data apart, if it has placement handles.
    pub placed: bool,
    /// The time of day when the clock of the kernel stands at zero.
    pub start: Timestamp,
    /// Whom metadata are booked under.
    pub origin: Origin,
    /// Time that a core needs to compare a page with its duplicate: 312 ns, the 936
    /// cycles of `bytefs 4.6` at 3 GHz, the most that its processor is clocked at.
    pub compare: Ns,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            variant: Variant::default(),
            data: Data::default(),
            byte_lines: 8,
            direct_bytes: 512,
            open_lines: 1 << 20,
            handles: 64,
            tx_ids: 1 << 16,
            cache_blocks: 1 << 16,
            discard: false,
            placed: false,
            start: Timestamp::default(),
            origin: Origin(0),
            compare: Ns(312),
        }
    }
}

impl Options {
    /// What these say of transactions of lines.
    pub(crate) fn lines(&self, placement: Placement) -> LineOptions {
        let full = self.variant == Variant::Full;
        LineOptions {
            in_place: false,
            compares: full,
            byte_lines: self.byte_lines,
            direct_bytes: full.then_some(self.direct_bytes),
            open_lines: self.open_lines,
            handles: self.handles,
            cache_blocks: self.cache_blocks,
            origin: self.origin,
            placement,
            compare: self.compare,
        }
    }
}
