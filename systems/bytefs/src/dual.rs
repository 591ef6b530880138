//! ByteFS-Dual: the part of ByteFS that needs nothing of the firmware.
//!
//! Metadata go by whichever interface suits: changed lines by bytes, new blocks and
//! reads by blocks. Contents of files go by blocks. The drive has a cache of pages and
//! no transactions, so an undo journal of lines on the host makes a change atomic
//! ([`extfs::lines::undo`]).
//!
//! The paper does not say how its variant stays consistent without the log of the
//! firmware. This journal is what a host can do by bytes; its records, marks and two
//! more verifications a transaction are what the transactions of the firmware save.
//= bytefs 5.4

use crate::config::{Options, Variant};
use extfs::lines::undo::{self, UndoLines, Undone};
pub use extfs::lines::undo::{format, mkfs_options};
use extfs::{ExtFs, MountError, MountOptions, Placer};
use host::BytePort;
use sim::Sim;

/// Recovers the file system on `port` and mounts it; what was undone. The variant is
/// this one whatever `options` say, and there are no TxIDs.
///
/// # Errors
/// What is wrong with it, or why the drive failed.
pub async fn mount<P: BytePort>(
    sim: &Sim,
    port: &P,
    options: Options,
) -> Result<(ExtFs<UndoLines<P>>, Undone), MountError> {
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
    undo::mount(sim, port, by_blocks.lines(placer.metadata()), mounting).await
}
