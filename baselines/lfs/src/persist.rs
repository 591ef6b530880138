//! The [`Persist`] trait: strategy by which tables, checkpoints and logs reach the medium.
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

use crate::format::checkpoint::{self, Head};
use crate::format::superblock::Geometry;
use crate::format::{Block, SEG_BLOCKS};
use crate::turns::Turns;
use host::Who;
use nand::Payload;
use units::NoSpace;
use vfs::{Cleaning, Errno, Result};

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
    /// Contents of other files.
    WarmData,
    /// Contents that will live long, and what was moved by cleaning.
    ColdData,
    /// Inodes and direct nodes of directories.
    HotNode,
    /// Nodes of files, but for those that lead to nodes.
    WarmNode,
    /// Nodes that lead to nodes.
    ColdNode,
}

impl Log {
    /// Every log, in the order of the format's numbers.
    pub const ALL: [Self; 6] = [
        Self::HotData,
        Self::WarmData,
        Self::ColdData,
        Self::HotNode,
        Self::WarmNode,
        Self::ColdNode,
    ];

    /// Whether the log holds nodes and not data.
    #[must_use]
    pub const fn is_node(self) -> bool {
        self as usize >= Self::HotNode as usize
    }
}

/// A state of the file system, to be committed.
pub struct Pack {
    /// Head of the pack. [`Pack::encode`] fills in the places of its parts and the bitmaps that
    /// say which versions of the tables count.
    pub(crate) head: Head,
    /// Inodes without a name that are in use.
    pub(crate) orphans: Vec<u32>,
    /// Summaries of the logs of data, compact if the head says so.
    pub(crate) data: Vec<Box<Block>>,
    /// Summaries of the logs of nodes, if the head says that this is an unmount.
    pub(crate) nodes: Vec<Box<Block>>,
}

impl Pack {
    /// Blocks of the pack, which begin and end with its head, and the stamp of nodes that are
    /// written after it. The strategy calls [`Turns::committed`] once they are durable.
    ///
    /// # Errors
    /// `ENOSPC` if they are more than a segment holds.
    pub fn encode(self, turns: &Turns) -> Result<(Vec<Box<Block>>, u64)> {
        let Self {
            mut head,
            orphans,
            data,
            nodes,
        } = self;
        let orphans = checkpoint::orphan_blocks(&orphans);
        if !orphans.is_empty() {
            head.flags |= checkpoint::ORPHANS;
        }
        head.summaries_at = 1 + orphans.len() as u32;
        let between: Vec<_> = orphans.into_iter().chain(data).chain(nodes).collect();
        head.pack_blocks = between.len() as u32 + 2;
        if head.pack_blocks > SEG_BLOCKS {
            return Err(Errno::ENOSPC);
        }
        turns.put(&mut head);
        let bytes = head.encode();
        let stamp = checkpoint::stamp(&bytes);
        let mut blocks = vec![bytes.clone()];
        blocks.extend(between);
        blocks.push(bytes);
        Ok((blocks, stamp))
    }

    /// Decodes a pack; also returns the stamp of nodes written after it. `None` if the pack is
    /// not whole.
    pub fn decode(mut blocks: Vec<Box<Block>>, geometry: &Geometry) -> Option<(Self, u64)> {
        let last = Head::decode(&*blocks.pop()?, geometry)?;
        let head = Head::decode(blocks.first()?, geometry)?;
        if last.version != head.version || head.pack_blocks as usize != blocks.len() + 1 {
            return None;
        }
        let stamp = checkpoint::stamp(&blocks[0]);
        Some((Self::sort(head, blocks.split_off(1))?, stamp))
    }

    /// Splits the blocks between the heads into orphans and summaries; `None` if their numbers
    /// contradict `head`.
    fn sort(head: Head, mut blocks: Vec<Box<Block>>) -> Option<Self> {
        let at = (head.summaries_at as usize).checked_sub(1)?;
        let mut summaries = (at <= blocks.len()).then(|| blocks.split_off(at))?;
        let mut orphans = Vec::new();
        if head.flags & checkpoint::ORPHANS != 0 {
            for block in &blocks {
                orphans.extend(checkpoint::orphans_of(block)?);
            }
        }
        let nodes = match head.flags & checkpoint::UMOUNT {
            0 => Vec::new(),
            _ => summaries.split_off(summaries.len().checked_sub(3)?),
        };
        let fits = match head.flags & checkpoint::COMPACT {
            0 => summaries.len() == 3,
            _ => (1..3).contains(&summaries.len()),
        };
        fits.then_some(Self {
            head,
            orphans,
            data: summaries,
            nodes,
        })
    }

    /// The number of the checkpoint: of two, the higher one is newer.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.head.version
    }
}

/// The state that was committed last.
pub struct Found {
    /// Areas of the file system, from its superblock.
    pub geometry: Geometry,
    /// The newest whole checkpoint pack.
    pub pack: Pack,
    /// Stamp of nodes that were written after this checkpoint.
    pub stamp: u64,
}

/// State of a section after recovery, for [`MainArea::settle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectionUse {
    /// The section is empty: its next write is at its start.
    Free,
    /// The section holds valid blocks, and no log writes to it.
    Kept,
    /// The section stays as it is: a log continues in it, or a later recovery may have to see
    /// again how far it was written.
    Open,
}

/// The main area: sections to which the logs write contents and nodes.
#[allow(async_fn_in_trait, reason = "a simulation is one thread")]
pub trait MainArea: 'static {
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

    /// Discards `blocks` blocks of the main area from `addr` on, which hold nothing valid.
    ///
    /// # Errors
    /// `EIO`.
    async fn discard(&self, addr: u32, blocks: u32) -> Result<()>;

    /// Whether a log can go on at `addr`: always, where blocks are written in any order.
    fn takes(&self, addr: u32) -> bool {
        let _ = addr;
        true
    }

    /// Whether the place of `addr` takes no more writes because its flash has failed.
    fn is_lost(&self, addr: u32) -> bool {
        let _ = addr;
        false
    }

    /// Whether the block at `addr` of the main area was written before the power went, as
    /// far as the medium knows: where blocks are written in any order, it does not.
    fn has(&self, addr: u32) -> bool {
        let _ = addr;
        true
    }

    /// Brings the medium in line with the state that recovery has found; `uses` has one entry a
    /// section. Called before the first write of the mount.
    ///
    /// # Errors
    /// `EIO`.
    async fn settle(&self, uses: &[SectionUse]) -> Result<()> {
        let _ = uses;
        Ok(())
    }
}

/// A strategy that persists tables and checkpoints and gives access to the main area.
#[allow(async_fn_in_trait, reason = "a simulation is one thread")]
pub trait Persist: 'static {
    /// Main area of the strategy.
    type Main: MainArea;

    /// The main area, to which the logs are written.
    fn main(&self) -> &Self::Main;

    /// Reads the newest version of a block of a table, committed or not.
    ///
    /// # Errors
    /// `EIO`.
    async fn read_table(&self, table: Table) -> Result<Box<Block>>;

    /// Writes new versions of blocks of tables.
    ///
    /// # Errors
    /// `EIO`.
    async fn write_tables(&self, blocks: Vec<(Table, Box<Block>)>) -> Result<()>;

    /// Makes `pack`, and all that was written before, the state that a mount finds. Returns the
    /// stamp of nodes that are written from now on.
    ///
    /// # Errors
    /// `EIO`: then nothing may be written any more.
    async fn commit(&self, pack: Pack) -> Result<u64>;

    /// Takes the limit at which a call failed with `ENOSPC`; `None` if none did since the last
    /// `take_refusal`.
    fn take_refusal(&self) -> Option<NoSpace> {
        None
    }

    /// Bytes of memory for finding tables; 0 if each table has a fixed place.
    fn memory(&self) -> u64 {
        0
    }

    /// Cleaning of zones that hold tables, since the mount.
    fn cleaned(&self) -> Cleaning {
        Cleaning::default()
    }
}
