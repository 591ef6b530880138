//! How overwrites and changed nodes persist: what the body asks of a strategy.
//!
//! # The contract
//!
//! - [`Persist::recover`] is called before any tree is read. What it leaves on the port is
//!   the state that the last [`Persist::publish`] that has ended has made, or a later one.
//! - [`Persist::publish`] makes a state durable as a whole: after a power cut before it has
//!   ended, all of it is there, or nothing. Nodes that are written anew lie where nothing
//!   leads to before; nodes that are changed in their place, and the superblock, are what
//!   the state is made of. Everything that was written to the port before is durable, too.
//! - Which overwrites stay where they are is the strategy's to say ([`Persist::overwrite`]).
//!   [`Persist::replace`] does them, or says that there is no room for that now, and then
//!   they are copied. They are read from the port at once; where contents have sums, a power
//!   cut leaves them there only once a state has been published that names them by their
//!   ticket ([`Batch::replaced`]), which has their new sums, and what was there before until
//!   then. What the body cannot take in it hands back ([`Persist::forget`]). A copy is
//!   written to the port by the body alone.
//! - Extents and nodes that somebody else shares are copied whatever the strategy says.
//!
//! The body hands over bytes and addresses only. A strategy knows no tree and no file.

use crate::format::superblock::Superblock;
use crate::format::{Block, NODE_SECTORS, SECTOR, SECTOR_BYTES};
use crate::nodes::TreeKind;
use host::{BlockPort, Purpose, Who};
use nand::Payload;
use ssd::{Content, IoError};
use std::ops::Range;
use units::{Extent, Origin, Placement};
use vfs::{Errno, Result};

/// What happens to written pages of an extent that nobody else refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// New contents go to a new extent, and the old one is split around them.
    Copy,
    /// New contents take the place of the old ones ([`Persist::replace`]); extents stay
    /// as they are.
    Replace,
}

/// Contents that take the place of others.
#[derive(Clone, Debug)]
pub struct Replacement {
    /// Where, in bytes of the port; a whole number of sectors of 4,096 bytes.
    pub at: u64,
    /// The new contents, a payload for each sector.
    pub contents: Vec<Payload>,
}

/// Contents that take the place of others, as a strategy calls them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Why a state is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Somebody has forced a file.
    Forced,
    /// It was time, or somebody has asked for everything.
    Commit,
}

/// A node that is written where nothing leads to before.
#[derive(Clone, Debug)]
pub struct FreshNode {
    /// Its address in the file system.
    pub address: u64,
    /// Where each of its copies goes, in bytes of the port.
    pub places: Vec<u64>,
    /// Its bytes.
    pub contents: [Payload; NODE_SECTORS],
    /// The tree that it is of.
    pub tree: TreeKind,
}

/// A node that is changed in its place.
#[derive(Clone, Debug)]
pub struct ChangedNode {
    /// The node, with all of its bytes, sum included.
    pub node: FreshNode,
    /// The generation that it says it is of, which does not change.
    pub generation: u64,
    /// The bytes that differ from what was published before, in rising order; those of
    /// its sum are among them.
    pub ranges: Vec<Range<usize>>,
}

/// A state that is to be durable.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Why.
    pub reason: Reason,
    /// Nodes that are new, or copies of others, by address.
    pub fresh: Vec<FreshNode>,
    /// Nodes that are changed in their place, by address.
    pub changed: Vec<ChangedNode>,
    /// Contents whose sums are in it, in the order in which they were replaced: of two
    /// versions of a sector the later one counts.
    pub replaced: Vec<Ticket>,
    /// The superblock with where it goes, the first of which counts; none if it stays
    /// as it is.
    pub superblocks: Vec<(u64, Box<Block>)>,
    /// Whom it is booked under.
    pub origin: Origin,
}

/// A strategy.
#[allow(async_fn_in_trait, reason = "a simulation is one thread")]
pub trait Persist: 'static {
    /// What everything is read from, and contents and new nodes are written to.
    type Port: BlockPort;

    /// The port.
    fn port(&self) -> &Self::Port;

    /// Whether nodes that nobody shares are changed in their place. Then forces publish a
    /// state each, and there is no tree of what was forced.
    fn changes_nodes_in_place(&self) -> bool {
        false
    }

    /// Nodes that a state changes in their place at most; beyond that they are copied.
    fn most_changed_nodes(&self) -> usize {
        usize::MAX
    }

    /// What happens to written pages of an unshared extent that are written again;
    /// `forced` if a program waits for that. Contents with sums are replaced only where
    /// [`Persist::changes_nodes_in_place`], as their sums change with them.
    fn overwrite(&self, forced: bool) -> Overwrite {
        let _ = forced;
        Overwrite::Copy
    }

    /// Replaces contents of sectors that were written; none if there is no room for that
    /// now, and nothing was done.
    ///
    /// # Errors
    /// `EIO`, `EROFS`.
    async fn replace(&self, one: &Replacement, who: Who) -> Result<Option<Ticket>> {
        let Replacement { at, contents } = one;
        write_run(self.port(), *at, contents, Placement(0), who).await?;
        Ok(Some(Ticket(0)))
    }

    /// Contents whose sums will be in no state: what was there before is there again, where
    /// the strategy still has it.
    fn forget(&self, ticket: Ticket) {
        let _ = ticket;
    }

    /// Brings the port to the last state that was published.
    ///
    /// # Errors
    /// `EIO`.
    async fn recover(&self) -> Result<()> {
        Ok(())
    }

    /// Makes a state durable.
    ///
    /// # Errors
    /// `EIO`: then nothing may be written any more.
    async fn publish(&self, batch: Batch) -> Result<()> {
        debug_assert!(batch.changed.is_empty(), "nodes are copied");
        publish_copies(self.port(), batch).await
    }

    /// Where contents go whose lifetime is told by `hint`, on a port with handles.
    fn placement(&self, hint: vfs::Hint) -> Placement {
        let _ = hint;
        Placement(0)
    }
}

/// Publishes a state all of whose nodes are fresh: nodes, a flush, the first superblock,
/// and then its copies.
///
/// # Errors
/// `EIO`, `EROFS`.
//= btrfs-format 1.2
pub async fn publish_copies<P: BlockPort>(port: &P, batch: Batch) -> Result<()> {
    write_nodes(port, &batch.fresh, batch.origin).await?;
    if !vfs::mutant::is("btrfs-superblock-before-nodes") {
        port.flush().await.map_err(errno)?;
    }
    let who = Who {
        origin: batch.origin,
        purpose: Purpose::Superblock,
    };
    for (turn, (at, block)) in batch.superblocks.iter().enumerate() {
        let extent = extent(*at, 1);
        let content = Content::Bytes(&block[..]);
        let durable = turn == 0 && !vfs::mutant::is("btrfs-superblock-not-forced");
        let written = port.write(extent, content, Placement(0), who, durable);
        written.await.map_err(errno)?;
    }
    Ok(())
}

/// Writes nodes, runs of neighbours of a kind at once.
///
/// # Errors
/// `EIO`, `EROFS`.
pub async fn write_nodes<P: BlockPort>(
    port: &P,
    nodes: &[FreshNode],
    origin: Origin,
) -> Result<()> {
    let mut places: Vec<(u64, &FreshNode)> = Vec::new();
    for node in nodes {
        places.extend(node.places.iter().map(|place| (*place, node)));
    }
    places.sort_by_key(|(place, _)| *place);
    let mut writes = Vec::new();
    let mut left = &places[..];
    while let Some((start, first)) = left.first() {
        let follows = |(turn, (place, node)): &(usize, &(u64, &FreshNode))| {
            *place == start + *turn as u64 * crate::format::NODE_BYTES && node.tree == first.tree
        };
        let len = left.iter().enumerate().take_while(follows).count();
        let run: Vec<Payload> = left[..len]
            .iter()
            .flat_map(|(_, node)| node.contents.iter().cloned())
            .collect();
        let who = Who {
            origin,
            purpose: purpose(first.tree),
        };
        writes.push(async move { write_run(port, *start, &run, Placement(0), who).await });
        left = &left[len..];
    }
    // As many at once as a queue takes; the drive puts them into an order.
    let mut done = Ok(());
    while !writes.is_empty() {
        let some = writes.split_off(writes.len().saturating_sub(QUEUE));
        done = sim::join_all(some)
            .await
            .into_iter()
            .fold(done, Result::and);
    }
    done
}

/// Commands that are sent at once, a choice of ours.
const QUEUE: usize = 64;

/// What nodes of a tree are booked as.
#[must_use]
pub const fn purpose(tree: TreeKind) -> Purpose {
    match tree {
        TreeKind::Log => Purpose::Journal,
        TreeKind::Files => Purpose::Inode,
        TreeKind::Extent | TreeKind::Device | TreeKind::Chunk => Purpose::Bitmap,
        TreeKind::Csum => Purpose::Checksum,
        TreeKind::Root | TreeKind::Other => Purpose::Metadata,
    }
}

/// Most sectors of one command: 1 MiB, as Linux sends at most to a drive that names no
/// limit of its own.
const COMMAND_SECTORS: usize = 256;

/// Writes a run of sectors, in commands of a size that drives take.
///
/// # Errors
/// `EIO`, `EROFS`.
pub async fn write_run<P: BlockPort>(
    port: &P,
    at: u64,
    contents: &[Payload],
    placement: Placement,
    who: Who,
) -> Result<()> {
    for (turn, some) in contents.chunks(COMMAND_SECTORS).enumerate() {
        let at = at + (turn * COMMAND_SECTORS * SECTOR) as u64;
        let content = Content::Sectors(some);
        let written = port.write(extent(at, some.len()), content, placement, who, false);
        written.await.map_err(errno)?;
    }
    Ok(())
}

/// Reads a run of sectors.
///
/// # Errors
/// `EIO`.
pub(crate) async fn read_run<P: BlockPort>(
    port: &P,
    at: u64,
    out: &mut [Payload],
    who: Who,
) -> Result<()> {
    for (turn, some) in out.chunks_mut(COMMAND_SECTORS).enumerate() {
        let at = at + (turn * COMMAND_SECTORS * SECTOR) as u64;
        let extent = extent(at, some.len());
        let mut sink = some;
        port.read(extent, &mut sink, who).await.map_err(errno)?;
    }
    Ok(())
}

pub(crate) fn errno(error: IoError) -> Errno {
    match error {
        IoError::ReadOnly => Errno::EROFS,
        _ => Errno::EIO,
    }
}

/// The sectors of the port at a byte.
pub(crate) fn extent(at: u64, sectors: usize) -> Extent {
    let each = SECTOR_BYTES / units::SECTOR;
    Extent::new(at / units::SECTOR, (sectors as u64 * each) as u32)
}

/// Btrfs as Linux has it: everything that changes is copied, or, without copies of
/// contents (`nodatacow`), contents are written in their place and have no sums.
pub struct Btrfs<P> {
    port: P,
    in_place: bool,
}

impl<P: BlockPort> Btrfs<P> {
    /// The strategy over a port; `in_place` if contents are overwritten in their place.
    #[must_use]
    pub const fn new(port: P, in_place: bool) -> Self {
        Self { port, in_place }
    }
}

impl<P: BlockPort> Persist for Btrfs<P> {
    type Port = P;

    fn port(&self) -> &P {
        &self.port
    }

    fn overwrite(&self, _: bool) -> Overwrite {
        match self.in_place {
            true => Overwrite::Replace,
            false => Overwrite::Copy,
        }
    }

    /// The handle of a lifetime that programs name, as other file systems here have it:
    /// short ones first.
    fn placement(&self, hint: vfs::Hint) -> Placement {
        let last = self.port.handles().saturating_sub(1);
        Placement((hint as u16).saturating_sub(1).min(last))
    }
}

/// The newest superblock of a port.
///
/// # Errors
/// Why there is none.
pub(crate) async fn newest<P: BlockPort>(
    port: &P,
    origin: Origin,
) -> std::result::Result<Superblock, crate::format::superblock::SuperError> {
    use crate::format::superblock::SuperError;
    let (size, mut best, mut why) = (port.capacity().0, None::<Superblock>, None);
    let who = Who {
        origin,
        purpose: Purpose::Superblock,
    };
    for at in Superblock::places(size) {
        let mut block: Block = [0; SECTOR];
        let mut sink = &mut block[..];
        let read = port.read(extent(at, 1), &mut sink, who).await;
        let read = read.map_err(|_| SuperError::Unread);
        match read.and_then(|()| Superblock::decode(&block, at, size)) {
            Ok(found) => {
                // Of those of a generation the first counts, which alone leads to a log.
                let newer = best
                    .as_ref()
                    .is_none_or(|b| found.generation > b.generation);
                best = if newer { Some(found) } else { best };
            }
            Err(error) => {
                why.get_or_insert(error);
            }
        }
    }
    best.ok_or(why.unwrap_or(SuperError::Magic))
}
