//! Recovery of the undo journal: undoes uncommitted transactions before anything else of the file
//! system is read.
//!
//! # Invariants
//!
//! - Nothing is stored before all records were read and found sound, so a recovery
//!   that is refused has changed nothing.
//! - Records become void, by a new epoch, only once the lines that they restored are durable. So
//!   an interrupted recovery is repeated with the same result.
//! - Records are valid only while the superblock of the journal claims them (`claim`). A foreign
//!   tool that repairs the file system by force rewrites this superblock, which voids them.
//! - After recovery the file system has nothing to undo, or recovery has not changed it.

use super::area::Area;
use super::claim::Claim;
use super::format::{Line, REACH, Record, epoch_of, head};
use crate::buffer::BLOCK;
use crate::geometry::MountError;
use crate::journal::{find, find_torn_journal};
use crate::lines::medium::{broken, extent, failed};
use crate::persist::Run;
use host::{BlockPort, ByteDisk, BytePort, Purpose, Who};
use ssd::wlog::LINE;
use ssd::{ByteError, Content};
use std::collections::{BTreeMap, BTreeSet};
use units::{Origin, Placement};
use vfs::Errno;

/// Number of blocks that one read command covers: 1 MiB.
const AT_ONCE: u64 = 256;

/// Result of a recovery: the amount of undone work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// Transactions that had not committed.
    pub transactions: u64,
    /// Lines restored to their former contents.
    pub lines: u64,
}

/// An opened journal: its area and claim, the new epoch, and the undone work.
pub(super) struct Opened {
    pub(super) area: Area,
    pub(super) claim: Claim,
    pub(super) epoch: u64,
    pub(super) undone: Undone,
}

const fn who(origin: Origin) -> Who {
    Who {
        origin,
        purpose: Purpose::Journal,
    }
}

/// Finds the journal, undoes what it holds, begins a new epoch, and claims its blocks.
pub(super) async fn open(port: &ByteDisk, origin: Origin) -> Result<Opened, MountError> {
    let blocks = port.blocks();
    let place = find_torn_journal(&blocks).await?;
    let place = place.ok_or(MountError::Journal("there is none"))?;
    let area = Area::new(&place.runs, port.capacity().0 / BLOCK as u64)?;
    let recovery = Recovery { port, area, origin };
    let at = recovery.area.superblock();
    let mut block = [0; BLOCK];
    recovery.read(at, &mut block).await?;
    let claim = Claim::new(at, &block, who(origin))?;
    let mut line = [0; LINE];
    recovery.load(recovery.area.head(), &mut line).await?;
    let old = epoch_of(&line);
    let epoch = old.unwrap_or(0).wrapping_add(1);
    let mut undone = Undone::default();
    if claim.is_made() {
        let old = old.ok_or(MountError::Journal("the head of its records is damaged"))?;
        if !vfs::mutant::is("pmfs-recovery-without-undo") {
            undone = recovery.undo(old).await?;
        }
        recovery.begin(epoch).await?;
    }
    if let Err(error) = find(&blocks).await {
        // Nothing is left to undo, so the claim is dropped and other tools may repair the image.
        if claim.is_made() {
            claim.set(&blocks, false).await.map_err(failed)?;
        }
        return Err(match place.superblock {
            0 => error,
            copy => MountError::Copied(copy),
        });
    }
    if !claim.is_made() {
        if old.is_none() {
            recovery.wipe().await?;
        }
        recovery.begin(epoch).await?;
        claim.set(&blocks, true).await.map_err(failed)?;
    }
    Ok(Opened {
        area: recovery.area,
        claim,
        epoch,
        undone,
    })
}

/// Uncommitted transactions, each with the addresses and former contents of its lines.
type Open<'r> = BTreeMap<u32, Vec<(u64, &'r [u8])>>;

/// Address of the cache line that contains byte `at`.
const fn line_of(at: u64) -> u64 {
    at / LINE as u64 * LINE as u64
}

pub(super) struct Recovery<'a> {
    pub(super) port: &'a ByteDisk,
    pub(super) area: Area,
    pub(super) origin: Origin,
}

impl Recovery<'_> {
    async fn read(&self, start: u64, mut out: &mut [u8]) -> Result<(), MountError> {
        let extent = extent(start, out.len() / BLOCK);
        let read = self.port.read(extent, &mut out, who(self.origin)).await;
        Ok(read.map_err(failed)?)
    }

    async fn load(&self, at: u64, line: &mut Line) -> Result<(), MountError> {
        let loaded = self.port.load(at, line, who(self.origin)).await;
        loaded.map_err(|_| MountError::Medium(Errno::EIO))
    }

    async fn store(&self, at: u64, line: &Line, who: Who) -> Result<(), ByteError> {
        self.port.store(at, line, 0, who).await
    }

    async fn verify(&self) -> Result<(), MountError> {
        Ok(self.port.verify().await.map_err(broken)?)
    }

    /// Durably begins `epoch`, which voids all records before.
    pub(super) async fn begin(&self, epoch: u64) -> Result<(), MountError> {
        let (at, line) = (self.area.head(), head(epoch));
        let stored = self.store(at, &line, who(self.origin)).await;
        stored.map_err(broken)?;
        self.verify().await
    }

    /// Parts of the journal, each of which one command reads or writes.
    fn parts(&self) -> impl Iterator<Item = Run> {
        let runs = self.area.runs().into_iter();
        runs.flat_map(|run| {
            let starts = (0..run.len).step_by(AT_ONCE as usize);
            starts.map(move |skip| Run {
                start: run.start + skip,
                len: AT_ONCE.min(run.len - skip),
            })
        })
    }

    /// Zeroes blocks that the block journal has used, so that no line looks like a record.
    async fn wipe(&self) -> Result<(), MountError> {
        for part in self.parts() {
            let mut bytes = vec![0; part.len as usize * BLOCK];
            self.read(part.start, &mut bytes).await?;
            if bytes.iter().all(|&byte| byte == 0) {
                continue;
            }
            bytes.fill(0);
            let extent = extent(part.start, part.len as usize);
            let content = Content::Bytes(&bytes);
            let who = who(self.origin);
            let written = self.port.write(extent, content, Placement(0), who, false);
            written.await.map_err(failed)?;
        }
        Ok(self.port.flush().await.map_err(failed)?)
    }

    /// All lines of the journal other than zeros, head included.
    async fn lines(&self) -> Result<Vec<Line>, MountError> {
        let mut lines = Vec::new();
        for part in self.parts() {
            let mut bytes = vec![0; part.len as usize * BLOCK];
            self.read(part.start, &mut bytes).await?;
            let (some, _) = bytes.as_chunks::<LINE>();
            lines.extend(some.iter().filter(|line| **line != [0; LINE]));
        }
        Ok(lines)
    }

    /// Restores the lines that uncommitted transactions of `epoch` changed.
    ///
    /// # Errors
    ///
    /// If a record is not sound (nothing is stored then) or the drive fails.
    pub(super) async fn undo(&self, epoch: u64) -> Result<Undone, MountError> {
        let lines = self.lines().await?;
        let records = lines.iter().filter_map(|line| Record::decode(epoch, line));
        let records: Vec<Record<'_>> = records.collect();
        let open = self.open_of(&records)?;
        let mut undone = Undone {
            transactions: open.len() as u64,
            lines: 0,
        };
        let mut old = self.now(&open).await?;
        // Newest first: the oldest contents of a line stay.
        for &(at, bytes) in open.values().rev().flatten() {
            for (at, &byte) in (at..).zip(bytes) {
                let line = old.get_mut(&line_of(at)).expect("it was loaded");
                line[(at - line_of(at)) as usize] = byte;
            }
        }
        for (&at, line) in &old {
            let who = Who {
                origin: self.origin,
                purpose: Purpose::Metadata,
            };
            self.store(at, line, who).await.map_err(broken)?;
            undone.lines += 1;
        }
        self.verify().await?;
        Ok(undone)
    }

    /// The present contents of the lines to restore, by address.
    async fn now(&self, open: &Open<'_>) -> Result<BTreeMap<u64, Line>, MountError> {
        let all = open.values().flatten();
        let ends = all.flat_map(|&(at, old)| [at, at + old.len() as u64 - 1]);
        let firsts: BTreeSet<u64> = ends.map(line_of).collect();
        let mut lines = BTreeMap::new();
        for at in firsts {
            let mut line = [0; LINE];
            self.load(at, &mut line).await?;
            lines.insert(at, line);
        }
        Ok(lines)
    }

    /// Collects the former contents in records of uncommitted transactions that are not done. A
    /// record that leads past the volume or into the journal is an error.
    fn open_of<'r>(&self, records: &[Record<'r>]) -> Result<Open<'r>, MountError> {
        let damaged = MountError::Journal("a record leads to nowhere");
        let end = self.port.capacity().0.min(REACH);
        let mut committed = BTreeSet::new();
        let mut oldest = 0;
        for record in records {
            let last = record.at.checked_add(record.old.len() as u64);
            let within = last.is_some_and(|last| last <= end);
            let inside = !record.old.is_empty() && self.area.holds(record.at);
            if !record.is_sound() || !within || inside || u32::from(record.back) > record.tx {
                return Err(damaged);
            }
            oldest = oldest.max(record.tx - u32::from(record.back));
            if record.old.is_empty() {
                committed.insert(record.tx);
            }
        }
        let mut open = Open::new();
        let live = |r: &&Record<'_>| r.tx >= oldest && !committed.contains(&r.tx);
        for record in records.iter().filter(live) {
            let of_tx = open.entry(record.tx).or_default();
            of_tx.push((record.at, record.old));
        }
        Ok(open)
    }
}
