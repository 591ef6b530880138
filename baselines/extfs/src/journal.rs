//! Location of the journal, read from the bare medium before a strategy that needs the
//! journal is opened.

use crate::buffer::BLOCK;
use crate::extents::State;
use crate::format::extent::{self, Entry, Expect, Node};
use crate::format::{group, inode as raw, superblock as sb};
use crate::geometry::{Geometry, MountError};
use crate::mount::read_group;
use crate::nojournal::errno;
use crate::persist::Run;
use host::{BlockPort, Disk, Purpose, Who};
use sim::Boxed;
use units::{Extent, Origin, SECTOR};

/// Fewest blocks of a journal, as in Linux (`JBD2_MIN_JOURNAL_BLOCKS`).
pub(crate) const LEAST: u32 = 1024;

/// Location of a file system's journal, and what its superblock says about recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalPlace {
    /// Block of the superblock that led to the journal: 0, or the block of a copy.
    pub superblock: u64,
    /// Blocks of the journal, in the order of the journal.
    pub runs: Vec<Run>,
    /// Size of a block in bytes.
    pub block_size: u32,
    /// Whether the journal has to be replayed.
    pub needs_recovery: bool,
    /// Whether the superblock records an error, so that the file system has to be checked.
    /// A replay may restore an older superblock without the error.
    pub has_error: bool,
    /// UUID of the file system.
    pub uuid: [u8; 16],
}

impl JournalPlace {
    /// Number of blocks of the journal.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.runs.iter().map(|run| run.len).sum()
    }
}

async fn read(port: &Disk, block: u64) -> Result<[u8; BLOCK], MountError> {
    let sectors = BLOCK as u64 / SECTOR;
    let mut bytes = [0; BLOCK];
    let who = Who {
        origin: Origin(0),
        purpose: Purpose::Metadata,
    };
    let extent = Extent::new(block * sectors, sectors as u32);
    let done = port.read(extent, &mut bytes.as_mut_slice(), who).await;
    done.map_err(errno)?;
    Ok(bytes)
}

/// Finds the journal of the file system on `port`; `None` if the file system has no journal.
///
/// # Errors
/// If the file system or its journal is damaged or not supported, or `EIO`.
pub fn find_journal(
    port: &impl BlockPort,
) -> Boxed<'static, Result<Option<JournalPlace>, MountError>> {
    boxed(Disk::from(port))
}

fn boxed(port: Disk) -> Boxed<'static, Result<Option<JournalPlace>, MountError>> {
    Box::pin(async move { find(&port).await })
}

/// As [`find_journal`], for this crate.
pub(crate) async fn find(port: &Disk) -> Result<Option<JournalPlace>, MountError> {
    let first = read(port, 0).await?;
    locate(port, 0, &first[sb::OFFSET..sb::OFFSET + sb::SIZE]).await
}

/// [`find_journal`] on a file system with a superblock that may be torn, with lines of
/// different versions as an undo journal leaves them, or damaged. The fields that lead to the
/// journal never change, so a copy of the superblock leads there as well; in a file system of
/// one group, which has no copy, the torn superblock does.
pub(crate) async fn find_torn_journal(port: &Disk) -> Result<Option<JournalPlace>, MountError> {
    let mut first = read(port, 0).await?;
    let superblock = &mut first[sb::OFFSET..sb::OFFSET + sb::SIZE];
    let sum = sb::checksum(superblock);
    if sb::MAGIC.get(superblock) != sb::MAGIC_NUMBER || sb::CHECKSUM.get(superblock) != sum {
        if let Some(copy) = read_copy(port).await? {
            return locate(port, FIRST_COPY, &copy[..sb::SIZE]).await;
        }
        sb::CHECKSUM.put(superblock, sum);
    }
    locate(port, 0, superblock).await
}

/// Block of the first copy of the superblock, in a file system with groups of 32,768 blocks (the
/// bits of a block).
const FIRST_COPY: u64 = BLOCK as u64 * 8;

/// Reads the first copy of the superblock; `None` if the medium has none.
async fn read_copy(port: &Disk) -> Result<Option<[u8; BLOCK]>, MountError> {
    if port.capacity().0 / BLOCK as u64 <= FIRST_COPY {
        return Ok(None);
    }
    let copy = read(port, FIRST_COPY).await?;
    let superblock = &copy[..sb::SIZE];
    let is_copy = Geometry::decode(superblock).is_ok() && sb::BLOCK_GROUP.get(superblock) == 1;
    Ok(is_copy.then_some(copy))
}

async fn locate(
    port: &Disk,
    block: u64,
    superblock: &[u8],
) -> Result<Option<JournalPlace>, MountError> {
    let geometry = Geometry::decode(superblock)?;
    if !geometry.has_compat(sb::COMPAT_HAS_JOURNAL) {
        return Ok(None);
    }
    let slot = read_journal_inode(port, &geometry).await?;
    let runs = read_runs(port, &geometry, &slot).await?;
    Ok(Some(JournalPlace {
        superblock: block,
        runs,
        block_size: BLOCK as u32,
        needs_recovery: geometry.incompat & sb::INCOMPAT_RECOVER != 0,
        has_error: sb::STATE.get(superblock) & sb::STATE_ERROR != 0,
        uuid: geometry.uuid,
    }))
}

async fn read_journal_inode(port: &Disk, geometry: &Geometry) -> Result<Vec<u8>, MountError> {
    let ino = geometry.journal_inode;
    if ino == 0 {
        return Err(MountError::Journal("it is on another device"));
    }
    if ino >= geometry.first_inode {
        return Err(MountError::Journal(
            "its inode is none of the reserved ones",
        ));
    }
    if geometry.has_compat(sb::COMPAT_FAST_COMMIT) {
        return Err(MountError::Journal("it has the feature fast_commit"));
    }
    let descriptors = read(port, 1).await?;
    let descriptor = &descriptors[..geometry.descriptor_size];
    let group: group::Descriptor = read_group(geometry, 0, descriptor)?;
    let byte = (ino as usize - 1) * geometry.inode_size;
    let block = read(port, group.inode_table + (byte / BLOCK) as u64).await?;
    let slot = block[byte % BLOCK..][..geometry.inode_size].to_vec();
    let seed = raw::seed(geometry.seed, ino, raw::GENERATION.get(&slot));
    if geometry.checksums && !raw::is_whole(seed, &slot) {
        return Err(MountError::Journal("the checksum of its inode is wrong"));
    }
    Ok(slot)
}

/// Collects the extents of the journal from its tree. Each step goes down a level, and a node
/// must map blocks behind the previous ones, so a cycle ends.
async fn read_runs(port: &Disk, geometry: &Geometry, slot: &[u8]) -> Result<Vec<Run>, MountError> {
    const DAMAGED: MountError = MountError::Journal("its map is damaged");
    if raw::FLAGS.get(slot) & raw::FLAG_EXTENTS == 0 {
        return Err(MountError::Journal("it is not made of extents"));
    }
    let root = Node::decode(&raw::MAP.get(slot), Expect::ROOT).ok_or(DAMAGED)?;
    let mut runs = Vec::new();
    let mut next = 0;
    let mut rest = stacked(&root, Expect::ROOT.to);
    while let Some((entry, depth, to)) = rest.pop() {
        let Some(below) = depth.checked_sub(1) else {
            let usable =
                u64::from(entry.logical) == next && matches!(State::of(&entry), State::Written(_));
            let end = entry.start.checked_add(u64::from(entry.len));
            if !usable || end.is_none_or(|end| end > geometry.blocks) {
                return Err(DAMAGED);
            }
            next = entry.end();
            let len = u64::from(entry.len);
            runs.push(Run {
                start: entry.start,
                len,
            });
            continue;
        };
        let bytes = read(port, entry.start).await?;
        let expect = Expect {
            depth: Some(below),
            from: u64::from(entry.logical),
            to,
        };
        let node = Node::decode(&bytes[..extent::CHECKSUM.at], expect).ok_or(DAMAGED)?;
        rest.extend(stacked(&node, to));
    }
    let blocks = raw::size(slot) / BLOCK as u64;
    if blocks < u64::from(LEAST) || next < blocks {
        return Err(MountError::Journal("it is shorter than 1024 blocks"));
    }
    Ok(runs)
}

/// The entries of a node in reverse order, each with the depth of the node and the end of the
/// entry's range.
fn stacked(node: &Node, to: u64) -> Vec<(Entry, u16, u64)> {
    let ends = node.entries.iter().skip(1).map(|e| u64::from(e.logical));
    let ends = ends.chain([to]);
    let all = node.entries.iter().zip(ends);
    let mut all: Vec<_> = all.map(|(&entry, end)| (entry, node.depth, end)).collect();
    all.reverse();
    all
}
