//! PMFS, reduced to its persistence of changes and its access to contents: the extent file system
//! over an undo journal of cache lines, with contents and metadata in place.
//!
//! It is the baseline that uses bytes alone. Only these accesses go by blocks: a change of the
//! superblock alone, as at mount and unmount, and of the journal's superblock; the reads of
//! journals in recovery, and zeroing of a journal that others have used; and deallocation.
//!
//! # The mechanism
//!
//! - Contents are loaded and stored where they lie, without a page cache. A write is
//!   durable when the call returns, in parts: what a power cut leaves of one that has
//!   not returned is any of its lines.
//! - Metadata are changed in transactions of cache lines over an undo journal
//!   ([`crate::lines::undo`]); a change of one line is atomic without it.
//! - New blocks are stored before anything leads to them, so they are not recorded.
//! - `fsync` waits for transactions that are on their way, and asks the drive for
//!   nothing.
//!
//! # Deviations from PMFS
//!
//! - The format is that of ext4, so that what is compared is how changes persist: maps
//!   are extents and not trees of blocks, directories have hash indexes. Checksums make
//!   an update of an inode two lines, where PMFS has changes of 8, 16 and 64 bytes that
//!   are atomic without its journal.
//! - Blocks of metadata are loaded once, line by line, and kept in memory, as the
//!   caches of a processor would keep a part of them; what records hold comes from there.
//! - Transactions of several calls may become one while they wait for others, as in the
//!   rest of the family; in PMFS each has its own.
//! - Nothing guards the mapped volume from stray stores, and pages are of 4 KiB alone.
//= bytefs 5.1
//= pmfs 1
//= pmfs 2

use crate::fs::ExtFs;
use crate::geometry::MountError;
use crate::lines::LineOptions;
use crate::lines::undo::{self, UndoLines, Undone};
pub use crate::lines::undo::{format, mkfs_options};
use crate::mount::MountOptions;
use crate::placer::Placer;
use host::BytePort;
use sim::{Boxed, Sim};
use units::{Ns, Origin};
use vfs::Timestamp;

/// Options of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Lines that may be in transactions that are not durable: 2^20, our choice, or what
    /// the journal has room for if that is less, a quarter of its lines.
    pub open_lines: u64,
    /// Handles that one transaction takes in: 64, our choice, as in ByteFS.
    pub handles: usize,
    /// Bound on unreferenced blocks of metadata in memory: 65,536, our choice.
    pub cache_blocks: usize,
    /// Whether freed blocks are deallocated on the drive.
    pub discard: bool,
    /// The time of day when the clock of the kernel stands at zero.
    pub start: Timestamp,
    /// Origin to which requests for metadata are attributed.
    pub origin: Origin,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            open_lines: 1 << 20,
            handles: 64,
            cache_blocks: 1 << 16,
            discard: false,
            start: Timestamp::default(),
            origin: Origin(0),
        }
    }
}

/// Recovers the file system on `port` and mounts it; also returns the undone work.
///
/// # Errors
/// If the file system is invalid or the drive fails.
pub fn mount(
    sim: &Sim,
    port: &impl BytePort,
    options: Options,
) -> Boxed<'static, Result<(ExtFs<UndoLines>, Undone), MountError>> {
    let placer = Placer::default();
    let lines = LineOptions {
        in_place: true,
        compares: false,
        byte_lines: u32::MAX,
        direct_bytes: None,
        open_lines: options.open_lines,
        handles: options.handles,
        commit_interval: None,
        cache_blocks: options.cache_blocks,
        origin: options.origin,
        placement: placer.metadata(),
        compare: Ns::ZERO,
    };
    let mounting = MountOptions {
        now: options.start,
        placer,
        discard: options.discard,
        ..MountOptions::default()
    };
    undo::mount(sim, port, lines, mounting)
}
