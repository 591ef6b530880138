//! The persistence strategy: how overwrites and changed nodes become durable.
//!
//! # The contract
//!
//! - The body calls [`Persist::recover`] before it reads any tree. The port then holds the
//!   state of the last [`Persist::publish`] that returned, or of a later one.
//! - [`Persist::publish`] is atomic: a power cut before it returns leaves the whole new state
//!   or the whole old one. The old state has no pointers to the fresh nodes of a batch; its
//!   changed nodes and its superblock switch to the new state. All earlier writes to the port
//!   are durable as well once it returns.
//! - [`Persist::overwrite`] selects the overwrites that stay at their address.
//!   [`Persist::replace`] performs them, or returns `None` for lack of room, and the body
//!   copies instead. Reads of the port return replaced contents at once. Replaced contents
//!   that have sums survive a power cut only once a published batch names their ticket
//!   ([`Batch::replaced`]) and holds their new sums; until then a power cut brings the old
//!   contents back. The body hands back a ticket that it cannot take in
//!   ([`Persist::forget`]). The body itself writes copies to the port.
//! - Extents and nodes with more than one reference are copied, whatever the strategy.
//!
//! A strategy receives only bytes and addresses. It must not know trees or files.

use crate::format::superblock::Superblock;
use crate::format::{Block, NODE_SECTORS, SECTOR, SECTOR_BYTES};
use crate::nodes::TreeKind;
use host::{BlockPort, Disk, Purpose, Who};
use nand::Payload;
use ssd::{Content, IoError};
use std::ops::Range;
use units::{Extent, Origin, Placement};
use vfs::{Errno, Result};

/// Treatment of an overwrite of written pages in an unshared extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// New contents go to a new extent; the file's reference to the old one is split around them.
    Copy,
    /// New contents replace the old ones at their address ([`Persist::replace`]); extents and
    /// references do not change.
    Replace,
}

/// New contents of sectors that were written before, to be stored at the same address.
#[derive(Clone, Debug)]
pub struct Replacement {
    /// Byte address on the port, a multiple of the sector size (4,096 bytes).
    pub at: u64,
    /// The new contents, one payload per sector.
    pub contents: Vec<Payload>,
}

/// A strategy's number for one [`Replacement`] that it has performed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Cause of a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A file was forced (`fsync`).
    Forced,
    /// Any other commit: the commit interval has expired, too much is dirty, space runs short,
    /// or a sync, a mount or a snapshot needs it.
    Commit,
}

/// A node at an address that nothing on the medium refers to before this batch.
#[derive(Clone, Debug)]
pub struct FreshNode {
    /// Logical address of the node in the file system.
    pub address: u64,
    /// Byte addresses on the port, one for each copy of the node.
    pub places: Vec<u64>,
    /// Bytes of the node, sum included, one payload per sector.
    pub contents: [Payload; NODE_SECTORS],
    /// Kind of the tree that owns the node.
    pub tree: TreeKind,
}

/// A node that is changed at its address.
#[derive(Clone, Debug)]
pub struct ChangedNode {
    /// The node with its addresses and all of its new bytes.
    pub node: FreshNode,
    /// Generation in the header of the node, which a change in place keeps.
    pub generation: u64,
    /// Byte ranges that differ from the published node, in ascending order; they include the
    /// bytes of its sum.
    pub ranges: Vec<Range<usize>>,
}

/// Changes that become durable together in one [`Persist::publish`].
#[derive(Clone, Debug)]
pub struct Batch {
    /// Cause of this publication.
    pub reason: Reason,
    /// New nodes and copies of changed nodes, in the order of their addresses.
    pub fresh: Vec<FreshNode>,
    /// Nodes that are changed in place, in the order of their addresses.
    pub changed: Vec<ChangedNode>,
    /// Tickets of replaced contents whose sums the nodes of this batch hold, in the order of
    /// replacement: of two versions of a sector the later one counts.
    pub replaced: Vec<Ticket>,
    /// Copies of the superblock with their byte addresses on the port, the primary one first:
    /// its write switches to the new state. Empty if the superblock does not change.
    pub superblocks: Vec<(u64, Box<Block>)>,
    /// Origin that the writes are charged to.
    pub origin: Origin,
}

/// A persistence strategy, which owns the port; see the contract in the module docs.
#[allow(async_fn_in_trait, reason = "a simulation is one thread")]
pub trait Persist: 'static {
    /// The port below this strategy: it serves all reads, and takes copied contents and fresh
    /// nodes.
    fn port(&self) -> &Disk;

    /// Whether unshared nodes are changed in place. Each force is then a commit of its own,
    /// and no log tree is kept.
    fn changes_nodes_in_place(&self) -> bool {
        false
    }

    /// Maximum number of nodes that one batch changes in place; the body copies further ones.
    fn most_changed_nodes(&self) -> usize {
        usize::MAX
    }

    /// Treatment of written pages of an unshared extent that are written again. `forced` tells
    /// that a force waits for the write-back. Contents with sums are replaced only if
    /// [`Persist::changes_nodes_in_place`] holds: the nodes with their sums change as well.
    fn overwrite(&self, forced: bool) -> Overwrite {
        let _ = forced;
        Overwrite::Copy
    }

    /// Replaces contents of sectors that were written before. `None` if there is no room for
    /// that now; the old contents then stay.
    ///
    /// # Errors
    /// `EIO` if the medium fails; `EROFS` if the drive has become read-only.
    async fn replace(&self, one: &Replacement, who: Who) -> Result<Option<Ticket>> {
        let Replacement { at, contents } = one;
        write_run(self.port(), *at, contents, Placement(0), who).await?;
        Ok(Some(Ticket(0)))
    }

    /// Withdraws a replacement whose ticket no batch will name. The old contents return if the
    /// strategy still holds them.
    fn forget(&self, ticket: Ticket) {
        let _ = ticket;
    }

    /// Brings the port to the last published state, at mount.
    ///
    /// # Errors
    /// `EIO`.
    async fn recover(&self) -> Result<()> {
        Ok(())
    }

    /// Makes `batch` durable as a whole.
    ///
    /// # Errors
    /// `EIO`, `EROFS`: the body then refuses all further writes.
    async fn publish(&self, batch: Batch) -> Result<()> {
        debug_assert!(batch.changed.is_empty(), "nodes are copied");
        publish_copies(self.port(), batch).await
    }

    /// Placement handle for contents of the lifetime `hint`.
    fn placement(&self, hint: vfs::Hint) -> Placement {
        let _ = hint;
        Placement(0)
    }
}

/// Publishes a batch without changed nodes: writes the nodes, flushes, writes the primary
/// superblock with FUA, and then its copies without.
///
/// # Errors
/// `EIO`, `EROFS`.
//= btrfs-format 1.2
pub async fn publish_copies(port: &Disk, batch: Batch) -> Result<()> {
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

/// Writes all copies of `nodes`. Adjacent nodes of one tree kind form one run of commands.
///
/// # Errors
/// `EIO`, `EROFS`.
pub async fn write_nodes(port: &Disk, nodes: &[FreshNode], origin: Origin) -> Result<()> {
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
    // Up to QUEUE runs are in flight at once; their order does not matter.
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

/// Runs of nodes in flight at once; our choice.
const QUEUE: usize = 64;

/// Purpose that the ledger books nodes of a tree kind under.
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

/// Maximum sectors of one command: 1 MiB, the limit of Linux for a drive that reports none.
const COMMAND_SECTORS: usize = 256;

/// Writes contiguous sectors from byte `at` of the port, in commands of at most 1 MiB,
/// one after the other.
///
/// # Errors
/// `EIO`, `EROFS`.
pub async fn write_run(
    port: &Disk,
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

/// Reads contiguous sectors from byte `at` of the port, in commands of at most 1 MiB.
///
/// # Errors
/// `EIO`.
pub(crate) async fn read_run(port: &Disk, at: u64, out: &mut [Payload], who: Who) -> Result<()> {
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

/// Extent of the port, in units of 512 bytes, of `sectors` of 4,096 bytes from byte `at`.
pub(crate) fn extent(at: u64, sectors: usize) -> Extent {
    let each = SECTOR_BYTES / units::SECTOR;
    Extent::new(at / units::SECTOR, (sectors as u64 * each) as u32)
}

/// Btrfs as in Linux: nodes and contents are copied; with `nodatacow`, contents are
/// overwritten in place and new files have no sums.
pub struct Btrfs {
    port: Disk,
    in_place: bool,
}

impl Btrfs {
    /// Creates the strategy over `port`; `in_place` overwrites contents in place (`nodatacow`).
    #[must_use]
    pub fn new(port: &impl BlockPort, in_place: bool) -> Self {
        Self {
            port: Disk::from(port),
            in_place,
        }
    }
}

impl Persist for Btrfs {
    fn port(&self) -> &Disk {
        &self.port
    }

    fn overwrite(&self, _: bool) -> Overwrite {
        match self.in_place {
            true => Overwrite::Replace,
            false => Overwrite::Copy,
        }
    }

    /// Handle 0 without a hint; 1 for the shortest lifetime, and so on, up to the last handle.
    /// The other file systems here map hints alike.
    fn placement(&self, hint: vfs::Hint) -> Placement {
        let last = self.port.handles().saturating_sub(1);
        Placement((hint as u16).saturating_sub(1).min(last))
    }
}

/// Reads the valid superblock of the highest generation.
///
/// # Errors
/// The error of the first damaged copy if no copy is valid.
pub(crate) async fn newest(
    port: &Disk,
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
                // Among copies of one generation the primary counts: it alone leads to a log.
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
