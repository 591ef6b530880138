//! HyFiM: copy-on-write inside the mapping, on open-channel flash and persistent memory.
//!
//! # The idea
//!
//! A copy-on-write file system changes the address of the data it overwrites, and so every node on
//! the path to the root. But the mapping below copies on write anyway. If the table of the mapping
//! lies in persistent memory, the table can switch to a new version at one instant, under the old
//! address. HyFiM *stages* an overwritten sector at a hidden *spare* sector, logs the four
//! addresses in a journal in persistent memory, and exchanges the two entries of the table. Small
//! changes of nodes go to a second journal, and the nodes are written back in place afterwards.
//! Both together are one *publication* ([`host::SwapPort`]), and [`Intra`] is a file system
//! strategy built from publications.
//!
//! # Guarantees at a power cut
//!
//! - A publication is atomic: its staged sectors and its changes of nodes are all there or none
//!   are. A publication that has returned is durable.
//! - Staged sectors that were not published are gone.
//! - No two sectors map to one block of the flash.
//! - Other writes have the guarantees of the mapping ([`hostftl`]).
//! - A drive that is being taken over from another mapping stays as that mapping left it until the
//!   takeover is complete ([`HyFim::adopt`]).
//! - A node that recovery cannot read, but has to change, is damaged and detectable by its checksum
//!   ([`Recovered::lost`]); nothing else is affected. A file system made with copies of nodes has
//!   another copy.
//!
//! # What the paper leaves open, and the choice made here
//!
//! - *Place of the new version until the exchange.* Entries are exchanged by logical address, so
//!   the new version needs one: the spare sectors lie behind the exported ones ([`HyfimConfig`]).
//! - *Redo.* A repeated exchange would undo itself. So a record holds absolute values, and redo
//!   sets them: the sector maps to the new block, and the spare sector to none.
//! - *Return of a publication.* Recovery drops records that are only committed, so a publication
//!   returns no sooner than its record is durably in state checkpointing.
//! - *Batches.* One record, with one state word, holds all sectors of a publication.
//! - *Contents and their checksums.* Contents are in one journal, and the node with their checksums
//!   is in the other. The record of the contents names the record of the nodes and is redone if
//!   that one is: the state of the nodes' record decides for both.
//! - *Nodes.* A record holds the bytes of all node changes of a publication. On flash the node may
//!   be torn or newer: records are redone in order over whatever is there, unless the generation
//!   shows that another node has taken the place. No other write reaches the place of a node while
//!   a record refers to that node.
//! - *Write-back of nodes.* Nodes are written back when half of the journal is in use, and at a
//!   flush; until then reads take them from memory.
//! - *Damage.* Superblock, heads and records have checksums or two copies; a mount fails if they do
//!   not match. Entries of the table have none: a word of zeros is not a valid entry, and the mount
//!   refuses a block that is unwritten or has two owners. Any other wrong entry is found by the
//!   checksums of the file system, if it keeps one of that data.
//! - *Room.* Entries have four bytes. A publication waits while the journal of nodes is full.
//!   Without enough spare sectors nothing is staged, and the file system copies instead; the file
//!   system also copies nodes beyond the most that one record can hold.
//! - *Forced sectors and units.* Forced data are padded to a program unit, as in the baseline. With
//!   [`HyfimConfig::lasting`] they need not reach flash: the write buffer is in persistent memory,
//!   and an exchange changes the owner of a buffer slot, which is one word.
//! - *Cleaning.* Sectors that an unfinished record names are pinned: neither relocated nor written.
//!
//! # Invariants
//!
//! A spare sector is mapped only while it is staged or given up. The record of an exchange is
//! checkpointed before its sectors are unpinned. Records of nodes are checkpointed in order, once
//! their nodes are on flash.

mod exchange;
mod journal;
mod mount;
mod overlay;
mod port;
mod queue;
mod record;
mod strategy;

pub use mount::{HyFim, HyfimConfig, HyfimStats, Recovered};
pub use queue::RecordState;
pub use strategy::{Intra, into_any, mount_files, snapshots};

use host::PmError;
use hostftl::FtlError;
use ssd::IoError;

/// Reasons why a format, a mount or a publication fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HyfimError {
    /// A record would need more room than its journal has in total.
    #[error("the batch needs {needs} bytes of the journal {queue}, which has {has}")]
    TooLarge {
        /// Name of the journal.
        queue: &'static str,
        /// Bytes that the record needs.
        needs: u64,
        /// Bytes of the journal.
        has: u64,
    },
    /// A change is empty, reaches past its node, lies past the end of the drive, or overlaps
    /// another change. Holds its first sector.
    #[error("a change of sector {0} does not fit its node, the drive or the other changes")]
    Change(u32),
    /// Persistent memory is too small, blank, or its region table is invalid.
    #[error(transparent)]
    Memory(#[from] PmError),
    /// A journal, named here, is damaged, or a record in it refers to sectors or blocks that do not
    /// exist or are taken.
    #[error("the journal {0} is damaged: a record leads to what there is not")]
    Damaged(&'static str),
    /// The mapping cannot be mounted.
    #[error(transparent)]
    Mapping(#[from] FtlError),
    /// The drive returned an error.
    #[error(transparent)]
    Io(#[from] IoError),
}
