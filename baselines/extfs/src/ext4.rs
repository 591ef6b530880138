//! ext4 as Linux has it: the body over the block journal.
//!
//! Invariants: the journal is replayed before the body reads anything; an error that it has
//! recorded is in the superblock of the file system before it is forgotten in the journal.

use crate::fs::ExtFs;
use crate::geometry::MountError;
use crate::jbd2::{Jbd2, JournalConfig, JournalError, Mode, Recovery, inspect};
use crate::journal::{JournalPlace, find, find_torn_journal};
use crate::mkfs::{Blocks, MkfsError, MkfsOptions, mkfs};
use crate::mount::MountOptions;
use crate::placer::Placer;
use crate::{BLOCK, Run};
use host::{BlockPort, Disk, Purpose, Who};
use sim::{Boxed, Sim};
use ssd::{Content, IoError};
use units::{Extent, Ns, Origin, Placement, SECTOR};
use vfs::{AnyBody, Timestamp};

/// Host sectors of a block.
const SECTORS: u64 = BLOCK as u64 / SECTOR;
/// Blocks that are written at once when a file system is made: 1 MiB.
const AT_ONCE: usize = 256;

/// Options of an ext4 mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Journaling mode: metadata alone or file contents too, and their order.
    pub mode: Mode,
    /// Whether freed blocks are deallocated on the drive.
    pub discard: bool,
    /// Whether writes carry placement handles by kind of data, if the drive has handles.
    pub placed: bool,
    /// The time of day when the clock of the kernel stands at zero.
    pub start: Timestamp,
    /// Origin to which requests for journal and metadata are attributed.
    pub origin: Origin,
    /// Age at which a transaction is committed.
    pub commit_interval: Ns,
}

impl Default for Options {
    /// Ordered, with a commit at least each 5 s, as Linux mounts it.
    fn default() -> Self {
        Self {
            mode: Mode::Ordered,
            discard: false,
            placed: false,
            start: Timestamp::default(),
            origin: Origin(0),
            commit_interval: Ns::secs(5),
        }
    }
}

/// Why there is no file system to work with.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Ext4Error {
    /// The file system cannot be mounted.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// The journal cannot be opened.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The file system cannot be created with these options.
    #[error(transparent)]
    Mkfs(#[from] MkfsError),
    /// The drive failed a command.
    #[error("the drive failed: {0}")]
    Io(#[from] IoError),
    /// The file system has no journal.
    #[error(
        "the file system has no journal, which mkfs omits below 8 MiB unless --journal is given"
    )]
    NoJournal,
}

impl From<ExtFs<Jbd2>> for AnyBody {
    fn from(body: ExtFs<Jbd2>) -> Self {
        Self::new(body)
    }
}

/// Creates a file system on `port`. The whole drive is deallocated first.
///
/// # Errors
/// If the options are invalid or the drive fails.
pub fn format<'a>(
    port: &impl BlockPort,
    options: &'a MkfsOptions,
) -> Boxed<'a, Result<(), Ext4Error>> {
    format_disk(Disk::from(port), options)
}

/// As [`format()`], for any disk.
pub(crate) fn format_disk(port: Disk, options: &MkfsOptions) -> Boxed<'_, Result<(), Ext4Error>> {
    Box::pin(async move { make(&port, options).await })
}

async fn make(port: &Disk, options: &MkfsOptions) -> Result<(), Ext4Error> {
    let blocks = mkfs(options)?;
    host::deallocate(port).await?;
    for run in runs(&blocks) {
        write(port, run, &blocks).await?;
    }
    Ok(port.flush().await?)
}

/// Runs of consecutive blocks, each at most [`AT_ONCE`] blocks long.
fn runs(blocks: &Blocks) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for &block in blocks.keys() {
        match runs.last_mut() {
            Some(run) if run.start + run.len == block && run.len < AT_ONCE as u64 => run.len += 1,
            _ => runs.push(Run {
                start: block,
                len: 1,
            }),
        }
    }
    runs
}

async fn write(port: &Disk, run: Run, blocks: &Blocks) -> Result<(), IoError> {
    let bytes: Vec<u8> = (run.start..run.start + run.len)
        .flat_map(|block| blocks[&block].iter().copied())
        .collect();
    let extent = Extent::new(run.start * SECTORS, (run.len * SECTORS) as u32);
    let who = Who {
        origin: Origin(0),
        purpose: Purpose::Metadata,
    };
    let content = Content::Bytes(&bytes);
    port.write(extent, content, Placement(0), who, false).await
}

/// Whether the superblock has lines of different times, as an undo journal leaves them.
async fn is_torn(port: &Disk) -> bool {
    let Ok(Some(place)) = find_torn_journal(port).await else {
        return false;
    };
    inspect(port, &place.runs).await.is_ok_and(|log| log.lent)
}

async fn locate(port: &Disk) -> Result<Option<JournalPlace>, Ext4Error> {
    match find(port).await {
        Err(MountError::Checksum) if is_torn(port).await => Err(JournalError::Lent.into()),
        found => Ok(found?),
    }
}

/// Whether [`mount`] would replay the journal.
///
/// # Errors
/// If the file system or its journal is invalid or the drive fails; [`JournalError::Lent`] if the
/// journal holds records of another mechanism.
pub fn has_to_recover(port: &impl BlockPort) -> Boxed<'static, Result<bool, Ext4Error>> {
    has_records(Disk::from(port))
}

fn has_records(port: Disk) -> Boxed<'static, Result<bool, Ext4Error>> {
    Box::pin(async move { look(&port).await })
}

async fn look(port: &Disk) -> Result<bool, Ext4Error> {
    let Some(place) = locate(port).await? else {
        return Ok(false);
    };
    match inspect(port, &place.runs).await {
        Ok(log) if log.lent => Err(JournalError::Lent.into()),
        Ok(log) => Ok(place.needs_recovery || log.start != 0),
        Err(error) if place.needs_recovery => Err(error.into()),
        // The journal is not needed for recovery; the checker reports its damage.
        Err(_) => Ok(false),
    }
}

/// Replays the journal of the file system on `port` and mounts it.
///
/// # Errors
/// If the file system or its journal is invalid or the drive fails.
pub fn mount(
    sim: &Sim,
    port: &impl BlockPort,
    options: Options,
) -> Boxed<'static, Result<(ExtFs<Jbd2>, Recovery), Ext4Error>> {
    mount_disk(sim.clone(), Disk::from(port), options)
}

fn mount_disk(
    sim: Sim,
    port: Disk,
    options: Options,
) -> Boxed<'static, Result<(ExtFs<Jbd2>, Recovery), Ext4Error>> {
    Box::pin(async move { open(&sim, &port, options).await })
}

async fn open(
    sim: &Sim,
    port: &Disk,
    options: Options,
) -> Result<(ExtFs<Jbd2>, Recovery), Ext4Error> {
    let place = locate(port).await?.ok_or(Ext4Error::NoJournal)?;
    let placer = match options.placed {
        true => Placer::for_handles(port.handles()),
        false => Placer::default(),
    };
    let (had_error, journal_blocks) = (place.has_error, place.blocks());
    let config = JournalConfig {
        mode: options.mode,
        commit_interval: options.commit_interval,
        journal_placement: placer.metadata(),
        metadata_placement: placer.metadata(),
        origin: options.origin,
        epoch: u64::try_from(options.start.secs).unwrap_or(0),
        ..JournalConfig::new(place.runs)
    };
    let (journal, recovery) = Jbd2::open(sim, port, config).await?;
    let options = MountOptions {
        now: options.start,
        placer,
        discard: options.discard,
        has_error: had_error || recovery.errno != 0,
        journal_blocks,
    };
    let body = ExtFs::mount(sim, journal, options).await?;
    if recovery.errno != 0 {
        let cleared = body.persist().clear_errno().await;
        cleared.map_err(MountError::from)?;
    }
    Ok((body, recovery))
}
