//! ByteFS-Dual: the part of ByteFS that needs nothing of the firmware.
//!
//! Changed lines of metadata go by bytes, new blocks and reads by blocks. File contents
//! go by blocks. The drive has a cache of pages and no transactions, so an undo journal
//! of lines on the host makes a change atomic ([`extfs::lines::undo`]).
//!
//! The paper does not say how its variant stays consistent without the log of the
//! firmware. A host can keep this journal by bytes; transactions of the firmware save
//! its records, its marks and two more verifications per transaction.
//= bytefs 5.4

use crate::config::{Options, Variant};
use extfs::lines::undo::{self, UndoLines, Undone};
pub use extfs::lines::undo::{format, mkfs_options};
use extfs::{ExtFs, MountError, MountOptions, Placer};
use host::BytePort;
use sim::{Boxed, Sim};

/// Recovers the file system on `port`, mounts it, and reports the transactions undone.
/// Ignores `variant`, `data` and `tx_ids` of `options`: this variant has no TxIDs.
///
/// # Errors
/// If the file system is damaged or unsupported, or if the drive fails.
pub fn mount(
    sim: &Sim,
    port: &impl BytePort,
    options: Options,
) -> Boxed<'static, Result<(ExtFs<UndoLines>, Undone), MountError>> {
    let placer = match options.placed {
        true => Placer::for_handles(port.handles()),
        false => Placer::default(),
    };
    let by_blocks = Options {
        variant: Variant::Log,
        ..options
    };
    let mounting = MountOptions {
        now: options.start,
        placer,
        discard: options.discard,
        ..MountOptions::default()
    };
    undo::mount(sim, port, by_blocks.lines(placer.metadata()), mounting)
}
