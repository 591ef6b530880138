//! How what is not data persists: what the body asks of a strategy.
//!
//! # The contract
//!
//! - Tables are blocks with a number. [`Persist::write_tables`] writes new versions of
//!   them; which versions count is decided by the next [`Persist::commit`] alone, so a
//!   power cut before its end leaves all that the last one has left.
//! - Blocks of summaries are the exception: they describe blocks that the last commit
//!   does not lead to, or say the same of those it does lead to.
//! - [`Persist::commit`] makes everything durable that was written before it.
//! - Blocks of the main area are written where the body says, and it says so in rising
//!   order within a segment, unless it fills gaps.

use crate::format::Block;
use crate::format::checkpoint::Head;
use crate::format::superblock::Geometry;
use host::Who;
use nand::Payload;
use vfs::Result;

/// A block of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// Block of the node address table.
    Nat(u32),
    /// Block of the segment information table.
    Sit(u32),
    /// Summaries of a segment.
    Summary(u32),
}

/// The logs, as the format numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Log {
    /// Entries of directories, and contents that will not live long.
    HotData,
    /// Contents.
    WarmData,
    /// Contents that will live long, and what was moved by cleaning.
    ColdData,
    /// Nodes of directories.
    HotNode,
    /// Nodes of files, but for those that lead to nodes.
    WarmNode,
    /// Nodes that lead to nodes.
    ColdNode,
}

impl Log {
    /// All of them, by number.
    pub const ALL: [Self; 6] = [
        Self::HotData,
        Self::WarmData,
        Self::ColdData,
        Self::HotNode,
        Self::WarmNode,
        Self::ColdNode,
    ];

    /// Whether it is one of nodes.
    #[must_use]
    pub const fn is_node(self) -> bool {
        self as usize >= Self::HotNode as usize
    }
}

/// A state of the file system, to be committed.
pub struct Pack {
    /// What it says; where its parts lie and which versions of the tables count is the
    /// strategy's to fill in.
    pub(crate) head: Head,
    /// Inodes without a name that are in use.
    pub(crate) orphans: Vec<u32>,
    /// Summaries of the logs of data, compact if the head says so.
    pub(crate) data: Vec<Box<Block>>,
    /// Summaries of the logs of nodes, if the head says that this is an unmount.
    pub(crate) nodes: Vec<Box<Block>>,
}

/// The state that was committed last.
pub(crate) struct Found {
    pub(crate) geometry: Geometry,
    pub(crate) pack: Pack,
    /// What nodes carry that were written since.
    pub(crate) stamp: u64,
}

/// A strategy.
#[allow(async_fn_in_trait, reason = "a simulation is one thread")]
pub trait Persist: 'static {
    /// The version of a block of a table that counts, or one that was written since.
    ///
    /// # Errors
    /// `EIO`.
    async fn read_table(&self, table: Table) -> Result<Box<Block>>;

    /// Writes new versions of blocks of tables.
    ///
    /// # Errors
    /// `EIO`.
    async fn write_tables(&self, blocks: Vec<(Table, Box<Block>)>) -> Result<()>;

    /// Makes `pack`, and all that was written before, the state that a mount finds; gives
    /// what nodes carry that are written from now on.
    ///
    /// # Errors
    /// `EIO`: then nothing may be written any more.
    async fn commit(&self, pack: Pack) -> Result<u64>;

    /// Reads blocks of the main area from `addr` on.
    ///
    /// # Errors
    /// `EIO`.
    async fn read(&self, addr: u32, blocks: &mut [Payload], who: Who) -> Result<()>;

    /// Writes blocks of the main area from `addr` on, which are the next of `log`.
    ///
    /// # Errors
    /// `EIO`.
    async fn write(&self, addr: u32, blocks: &[Payload], log: Log, who: Who) -> Result<()>;

    /// Makes what was written durable, as recovery by nodes needs it.
    ///
    /// # Errors
    /// `EIO`.
    async fn flush(&self) -> Result<()>;

    /// Says that nobody needs these blocks of the main area any more.
    ///
    /// # Errors
    /// `EIO`.
    async fn discard(&self, addr: u32, blocks: u32) -> Result<()>;
}
