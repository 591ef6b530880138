//! Formatting and mounting of ByteFS.
//!
//! Invariant: the drive has recovered before anything is read, and TxIDs of this
//! mount are reserved before the body changes anything.

use crate::config::{Data, Options};
use crate::firmware::{ByteFs, Firmware, write_record};
use crate::format::Record;
use crate::ids::Ids;
use extfs::ext4::{self, Ext4Error};
use extfs::jbd2::JournalError;
use extfs::lines::{DataJournal, LINES, Lines, at_least};
use extfs::{ExtFs, JournalPlace, MkfsOptions, MountError, MountOptions, Placer, find_journal};
use host::{BlockPort, ByteDisk, BytePort, Purpose, Who};
use sim::{Boxed, Sim};
use ssd::ByteError;
use ssd::wlog::LINE;
use units::{Origin, Placement};
use vfs::AnyBody;

/// Cache lines that the largest handle of the body reserves, which has 79 blocks.
const LARGEST: u64 = 79 * LINES;

/// Reason why a file system cannot be made or mounted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ByteFsError {
    /// The file system cannot be formatted.
    #[error(transparent)]
    Format(#[from] Ext4Error),
    /// The file system on the medium cannot be mounted.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// A request to the drive failed.
    #[error("the drive failed: {0}")]
    Drive(#[from] ByteError),
    /// The firmware of the drive has no transactions, so no commit is atomic.
    #[error("the firmware of the drive has no transactions; ByteFS needs them")]
    NoTransactions,
    /// The log of the drive is too small for the changes of a call.
    #[error("the log of the drive takes {lines} lines of transactions; {LARGEST} are needed")]
    SmallLog {
        /// Cache lines of transactions that the log takes.
        lines: u64,
    },
    /// The block journal cannot be recovered or opened.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// [`Data::Journal`] is requested, but the file system has no block journal.
    #[error("the file system has no journal; mkfs makes one with --journal")]
    NoJournal,
    /// The file system is mounted, or its last mount ended without an unmount, and the
    /// drive has not been power-cycled since.
    #[error(
        "it was mounted since the drive was powered on and not unmounted: \
         lines that did not commit may be on the drive until its power is cycled"
    )]
    InUse,
}

/// Options for a file system of `blocks` blocks as in the paper, as far as the format
/// allows: inodes of 128 bytes and no block journal.
//= bytefs 4.5
#[must_use]
pub fn mkfs_options(blocks: u64) -> MkfsOptions {
    MkfsOptions {
        inode_size: 128,
        journal_blocks: None,
        ..MkfsOptions::new(blocks)
    }
}

/// Makes a file system on `port`. Recovers the drive first if that has not been done
/// since power-on, and deallocates its old contents.
///
/// # Errors
/// If `options` do not fit the drive, if it has no transactions, or if it fails.
pub fn format<'a>(
    port: &impl BytePort,
    options: &'a MkfsOptions,
) -> Boxed<'a, Result<(), ByteFsError>> {
    format_disk(ByteDisk::from(port), options)
}

fn format_disk(port: ByteDisk, options: &MkfsOptions) -> Boxed<'_, Result<(), ByteFsError>> {
    Box::pin(async move { make(&port, options).await })
}

async fn make(port: &ByteDisk, options: &MkfsOptions) -> Result<(), ByteFsError> {
    if !port.has_transactions() {
        return Err(ByteFsError::NoTransactions);
    }
    let recovered = port.recover_once().await?;
    let old = if recovered {
        None
    } else {
        read_record(port).await?
    };
    ext4::format(&port.blocks(), options).await?;
    // TxIDs that the drive may still know are not used again.
    let record = Record {
        clean: true,
        ..old.unwrap_or(Record::new())
    };
    port.store(0, &record.encode(), 0, superblock(Origin(0)))
        .await?;
    port.verify().await?;
    Ok(port.flush().await.map_err(ByteError::from)?)
}

/// Recovers the file system on `port` and mounts it: first the drive writes its
/// committed lines home, then the block journal is replayed. Accepts any image in the
/// format of ext4. Returns the file system, and whether the drive recovered.
///
/// # Errors
/// If the file system is damaged, in use or unsupported, or if the drive fails.
//= bytefs 4.7
pub fn mount(
    sim: &Sim,
    port: &impl BytePort,
    options: Options,
) -> Boxed<'static, Result<(ExtFs<ByteFs>, bool), ByteFsError>> {
    mount_disk(sim.clone(), ByteDisk::from(port), options)
}

fn mount_disk(
    sim: Sim,
    port: ByteDisk,
    options: Options,
) -> Boxed<'static, Result<(ExtFs<ByteFs>, bool), ByteFsError>> {
    Box::pin(async move { open(&sim, &port, options).await })
}

/// The mounted file system as one of any kind.
#[must_use]
pub fn into_any(body: ExtFs<ByteFs>) -> AnyBody {
    AnyBody::new(body)
}

async fn open(
    sim: &Sim,
    port: &ByteDisk,
    options: Options,
) -> Result<(ExtFs<ByteFs>, bool), ByteFsError> {
    if !port.has_transactions() {
        return Err(ByteFsError::NoTransactions);
    }
    let lines = port.transaction_lines();
    if lines < LARGEST {
        return Err(ByteFsError::SmallLog { lines });
    }
    let options = Options {
        open_lines: options.open_lines.min(lines),
        ..options
    };
    options.lines(Placement(0)).check()?;
    at_least("tx_ids", u64::from(options.tx_ids), 1)?;
    let recovered = port.recover_once().await?;
    let record = read_record(port).await?.unwrap_or(Record::new());
    if !recovered && !record.clean {
        return Err(ByteFsError::InUse);
    }
    let placer = match options.placed {
        true => Placer::for_handles(port.handles()),
        false => Placer::default(),
    };
    let mut ids = Ids::new(record);
    let reservation = ids.reservation(options.tx_ids);
    ids.reserved(reservation);
    let place = find_journal(&port.blocks()).await?;
    let journal_blocks = place.as_ref().map_or(0, JournalPlace::blocks);
    let (journal, has_error) = open_journal(port, place, &options, placer.metadata()).await?;
    let firmware = Firmware::new(sim, ids, options.tx_ids);
    let lines = options.lines(placer.metadata());
    let strategy = Lines::with_journal(sim, port, lines, firmware, journal);
    let reserved = write_record(strategy.medium(), reservation).await;
    reserved.map_err(MountError::from)?;
    let mounting = MountOptions {
        now: options.start,
        placer,
        discard: options.discard,
        has_error,
        journal_blocks,
    };
    let body = ExtFs::mount(sim, strategy, mounting).await?;
    Ok((body, recovered))
}

/// Replays the journal of blocks, if there is one; and whether an error is recorded.
//= bytefs 4.7
async fn open_journal(
    port: &ByteDisk,
    place: Option<JournalPlace>,
    options: &Options,
    to: Placement,
) -> Result<(Option<DataJournal>, bool), ByteFsError> {
    let in_use = options.data == Data::Journal;
    let Some(place) = place else {
        return if in_use {
            Err(ByteFsError::NoJournal)
        } else {
            Ok((None, false))
        };
    };
    let epoch = u64::try_from(options.start.secs).unwrap_or(0);
    let whose = (to, options.origin);
    let blocks = port.blocks();
    let opened = DataJournal::open(&blocks, &place.runs, whose, (in_use, epoch));
    let (journal, recovery) = opened.await?;
    let has_error = place.has_error || recovery.errno != 0;
    Ok((Some(journal), has_error))
}

const fn superblock(origin: Origin) -> Who {
    Who {
        origin,
        purpose: Purpose::Superblock,
    }
}

/// Reads the record; `None` on a medium that ByteFS has not used yet.
async fn read_record(port: &ByteDisk) -> Result<Option<Record>, ByteError> {
    let mut line = [0; LINE];
    port.load(0, &mut line, superblock(Origin(0))).await?;
    Ok(Record::decode(&line))
}
