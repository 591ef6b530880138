//! HyFiM: copy-on-write inside the mapping, on open-channel flash and persistent memory.
//!
//! # The idea
//!
//! A file system that copies on write changes the address of what it overwrites, and so
//! whatever leads to it, up to the root. But the mapping below copies on write anyway. If its
//! table lies in persistent memory, it can take a new version into use at one instant,
//! under the old address. HyFiM *stages* an overwritten sector at a *spare* sector that nobody
//! else sees, notes the four addresses in a journal in persistent memory, and exchanges the
//! two entries of the table. Small changes of nodes go to a second journal, and the nodes are
//! written in their places afterwards. Both are one *publication* ([`host::SwapPort`]), and
//! [`Intra`] is the strategy of a file system that is made of publications.
//! //= hyfim 3.2
//! //= hyfim 3.3
//!
//! # What is promised at a power cut
//!
//! - What a publication that has ended brought is there as a whole: what was staged, and
//!   changes of nodes. Of one that has not ended, all is there or nothing.
//! - What was staged and not published is not there.
//! - No two sectors are in one block of the flash.
//! - Other writes are as the mapping promises ([`hostftl`]).
//! - A drive that is being taken over from another mapping is as that left it until it is
//!   taken over as a whole ([`HyFim::adopt`]).
//! - A node that cannot be read when a record is redone over it is damaged as its sum says
//!   ([`Recovered::lost`]); nothing else is. The file system has another copy if it was made
//!   with copies of nodes.
//!
//! # What the paper leaves open, and what was chosen
//!
//! - *Where the new version is until the exchange.* Entries are exchanged by logical address,
//!   so the new version has one: spare sectors behind the exported ones ([`HyfimConfig`]).
//! - *Redo.* To exchange twice is to undo. A record has absolute values, and redo sets them:
//!   the sector leads to the new block, and the spare one nowhere.
//! - *When a force may return.* Recovery releases what is only committed, so no sooner than
//!   the record is checkpointing, durably.
//! - *Batches.* All sectors of a publication are in one record, with one word of state.
//! - *Contents and their checksums.* Contents are in one journal and the node with their sums
//!   is in the other one. The record of the contents names that of the nodes, and is done if
//!   that is: the state of the nodes' record is what counts for both.
//! - *Nodes.* A record has the bytes of all changes of a publication. The node may be torn or
//!   newer on flash: records are redone in order, over whatever is there, unless the node is
//!   of another generation and so another one. Nothing else comes to the place of a node
//!   while a record is about it.
//! - *When nodes are written back.* When half of the journal is in use, and when everything
//!   is flushed; until then they are read in memory.
//! - *Damage.* Superblock, heads and records have sums or are there twice, and what does not fit
//!   them is refused. Entries of the table have none: zeros are no entry, a block that is not
//!   written or that two sectors have is refused, and any other wrong block is found by the
//!   sums of the file system, if it has any of what lies there.
//! - *Room.* Entries are of four bytes. A full journal of nodes is waited for. While there are
//!   too few spare sectors nothing is staged, and the file system copies instead; so it does
//!   with nodes of which the journal could not hold more.
//! - *Forced sectors and units.* What is forced is padded to a unit, as in the baseline. With
//!   [`HyfimConfig::lasting`] it need not be on flash: the write buffer is in persistent memory,
//!   and an exchange has a slot of that be of the sector, which is one word.
//! - *Cleaning.* Sectors that an unfinished record names are pinned: neither moved nor
//!   written.
//!
//! # Invariants
//!
//! A spare sector is mapped only while it is staged or was given up. The record of an
//! exchange is done before its sectors are let go. Records of nodes are done in order, once
//! the nodes are on flash.

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
pub use strategy::Intra;

use host::PmError;
use hostftl::FtlError;
use ssd::IoError;

/// Why something was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HyfimError {
    /// A batch needs more room than a journal has.
    #[error("the batch needs {needs} bytes of the journal {queue}, which has {has}")]
    TooLarge {
        /// The journal.
        queue: &'static str,
        /// Bytes that the batch needs.
        needs: u64,
        /// Bytes that there are.
        has: u64,
    },
    /// A change is of nothing, reaches past its node or the node past the end, or another one
    /// is of the same node.
    #[error("a change of sector {0} does not fit its node, the drive or the other changes")]
    Change(u32),
    /// Persistent memory is too small, or makes no sense.
    #[error(transparent)]
    Memory(#[from] PmError),
    /// A record makes no sense.
    #[error("the journal {0} is damaged: a record leads to what there is not")]
    Damaged(&'static str),
    /// The mapping cannot be.
    #[error(transparent)]
    Mapping(#[from] FtlError),
    /// The drive.
    #[error(transparent)]
    Io(#[from] IoError),
}
