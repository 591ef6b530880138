//! Recovery: committed copies are written home, and the log is left empty.
//!
//! Three passes as in jbd2: find the whole transactions; collect their revoked blocks; write the
//! copies that are not revoked. Nothing is written before every copy has been checked, so a
//! rejected recovery has changed nothing; an interrupted recovery is repeated by the next one.

use super::JournalError;
use super::format::{Block, Superblock, Tag, feature, unescape};
use super::log::{LARGEST, Map, Piece, extent, payload, write_pieces};
use super::scan::{Found, Reader, Scan, scan};
use host::{BlockPort, Disk, Purpose, Who};
use nand::{Payload, UNIT};
use sim::Boxed;
use ssd::Content;
use std::collections::BTreeMap;
use units::Placement;

/// Result of a recovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// The superblock of the journal states an empty log.
    pub was_clean: bool,
    /// Transactions that were replayed.
    pub transactions: u64,
    /// Blocks that were written home.
    pub blocks: u64,
    /// Copies skipped because their own or a later transaction revoked them.
    pub revoked: u64,
    /// The transaction where the log ends has a commit block, but something in
    /// it has a wrong checksum: the file system should be checked.
    pub damaged: bool,
    /// Error recorded by an aborted journal, as a negative errno; 0 if none. It stays
    /// recorded until [`super::Jbd2::clear_errno`], which a mount calls once the
    /// superblock of the file system records the error.
    pub errno: i32,
}

/// Medium, location of the log, and placement and attribution of the writes of a recovery.
pub(super) struct Recover<'a> {
    pub(super) port: &'a Disk,
    pub(super) map: &'a Map,
    /// Size of the medium in blocks.
    pub(super) blocks: u64,
    pub(super) journal: (Placement, Who),
    pub(super) metadata: Placement,
}

impl Recover<'_> {
    /// Replays the log and leaves it empty. Returns its superblock and the report.
    pub(super) async fn run(&self) -> Result<(Superblock, Recovery), JournalError> {
        let mut reader = Reader::new(self.port, self.map, self.journal.1);
        let mut superblock = reader.superblock().await?;
        if superblock.is_lent() {
            return Err(JournalError::Lent);
        }
        let dirty = superblock.start != 0;
        let foreign = feature::ASYNC_COMMIT | feature::FAST_COMMIT;
        if dirty && superblock.incompat & foreign != 0 {
            return Err(JournalError::Foreign(superblock.incompat & foreign));
        }
        let scan = scan(&mut reader, &superblock).await?;
        let mut report = Recovery {
            was_clean: !dirty,
            transactions: scan.transactions.len() as u64,
            damaged: scan.damaged,
            errno: superblock.errno,
            ..Recovery::default()
        };
        let revoked = revocations(&scan);
        let copies = self.copies(&mut reader, &superblock, &scan, &revoked, &mut report);
        self.write(copies.await?).await?;
        // The uncommitted transaction may have left blocks with its number; so the next
        // transaction takes another one.
        superblock.sequence = scan.next.wrapping_add(1);
        superblock.start = 0;
        superblock.incompat = feature::OURS;
        if dirty {
            self.empty(&superblock).await?;
        }
        Ok((superblock, report))
    }

    /// The newest copy of each block that is not revoked.
    async fn copies(
        &self,
        reader: &mut Reader<'_>,
        superblock: &Superblock,
        scan: &Scan,
        revoked: &BTreeMap<u64, u32>,
        report: &mut Recovery,
    ) -> Result<BTreeMap<u64, Payload>, JournalError> {
        let mut copies = BTreeMap::new();
        for found in &scan.transactions {
            for &(tag, index) in &found.copies {
                if vfs::mutant::is("ext4-replay-of-oldest") && copies.contains_key(&tag.home) {
                    continue;
                }
                let revoked = revoked.get(&tag.home);
                let ignored = vfs::mutant::is("ext4-replay-of-revoked");
                if revoked.is_some_and(|&by| !is_after(found.sequence, by)) && !ignored {
                    report.revoked += 1;
                    continue;
                }
                let copy = reader.block(index).await?;
                let copy = self.checked(superblock, found, &tag, copy)?;
                copies.insert(tag.home, copy);
            }
        }
        report.blocks = copies.len() as u64;
        Ok(copies)
    }

    fn checked(
        &self,
        superblock: &Superblock,
        found: &Found,
        tag: &Tag,
        copy: Payload,
    ) -> Result<Payload, JournalError> {
        if tag.home >= self.blocks || self.map.holds(tag.home) {
            return Err(JournalError::Target {
                sequence: found.sequence,
                block: tag.home,
            });
        }
        let mut bytes: Block = copy.to_bytes();
        if !superblock.form().fits(tag, found.sequence, &bytes) {
            return Err(JournalError::Copy {
                sequence: found.sequence,
                block: tag.home,
            });
        }
        if !tag.escaped {
            return Ok(copy);
        }
        unescape(&mut bytes);
        Ok(payload(&bytes))
    }

    async fn write(&self, copies: BTreeMap<u64, Payload>) -> Result<(), JournalError> {
        let who = Who {
            origin: self.journal.1.origin,
            purpose: Purpose::Metadata,
        };
        let mut pieces: Vec<Piece> = Vec::new();
        for (block, copy) in copies {
            match pieces.last_mut() {
                Some(last)
                    if last.start + last.payloads.len() as u64 == block
                        && last.payloads.len() < LARGEST =>
                {
                    last.payloads.push(copy);
                }
                _ => pieces.push(Piece {
                    start: block,
                    payloads: vec![copy],
                    placement: self.metadata,
                    who,
                }),
            }
        }
        write_pieces(self.port, &pieces).await?;
        Ok(())
    }

    async fn empty(&self, superblock: &Superblock) -> Result<(), JournalError> {
        if !vfs::mutant::is("ext4-replay-not-flushed") {
            self.port.flush().await?;
        }
        let (placement, who) = self.journal;
        let block = superblock.encode();
        let extent = extent(self.map.home(0).0, 1);
        let content = Content::Bytes(&*block);
        let write = self.port.write(extent, content, placement, who, true);
        Ok(write.await?)
    }
}

/// For each revoked block the last transaction that revoked it.
fn revocations(scan: &Scan) -> BTreeMap<u64, u32> {
    let each = scan.transactions.iter();
    each.flat_map(|found| found.revoked.iter().map(|&block| (block, found.sequence)))
        .collect()
}

/// Whether sequence number `a` comes after `b`, going around.
fn is_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 > 0
}

/// Superblock and transactions of a log, for programs that list them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspection {
    /// Blocks of the log.
    pub len: u32,
    /// The sequence number that recovery expects first.
    pub sequence: u32,
    /// Block of the log where recovery starts; 0 if the log is empty.
    pub start: u32,
    /// Error recorded by an aborted journal, as a negative errno; 0 if none.
    pub errno: i32,
    /// Incompatible features, as bits.
    pub incompat: u32,
    /// UUID of the journal, the seed of its checksums.
    pub uuid: [u8; 16],
    /// Transactions that a recovery would replay.
    pub transactions: Vec<Inspected>,
    /// The transaction after the last of `transactions` committed, but a checksum in it is wrong.
    pub damaged: bool,
    /// The blocks of the log hold an undo journal of cache lines.
    pub lent: bool,
}

/// A whole transaction of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspected {
    /// Sequence number on the medium.
    pub sequence: u32,
    /// The block of the log where it starts.
    pub start: u32,
    /// The block of the log that commits it.
    pub commit: u32,
    /// Time of the commit: seconds since 1970, and nanoseconds.
    pub committed_at: (u64, u32),
    /// Number of the drive's transaction that stored the commit block; 0 in the journal of ext4.
    pub tx: u32,
    /// Copies of blocks, in the order of the log.
    pub copies: Vec<InspectedCopy>,
    /// Blocks that the transaction revokes.
    pub revoked: Vec<u64>,
}

/// A copy of a block in a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InspectedCopy {
    /// Block of the file system that was copied.
    pub home: u64,
    /// Block of the log that holds the copy.
    pub index: u32,
    /// The block starts with the magic number of the log, which the copy holds as zeros.
    pub escaped: bool,
}

impl From<Found> for Inspected {
    fn from(found: Found) -> Self {
        let copies = found.copies.iter().map(|&(tag, index)| InspectedCopy {
            home: tag.home,
            index,
            escaped: tag.escaped,
        });
        Self {
            sequence: found.sequence,
            start: found.start,
            commit: found.commit,
            committed_at: found.committed_at,
            tx: found.tx,
            copies: copies.collect(),
            revoked: found.revoked,
        }
    }
}

/// Lists what the log in `runs` holds, without changing it.
///
/// # Errors
/// If the runs hold no journal of a known kind, or if the medium fails.
pub fn inspect<'a>(
    port: &impl BlockPort,
    runs: &'a [crate::persist::Run],
) -> Boxed<'a, Result<Inspection, JournalError>> {
    boxed(Disk::from(port), runs)
}

fn boxed(port: Disk, runs: &[crate::persist::Run]) -> Boxed<'_, Result<Inspection, JournalError>> {
    Box::pin(async move { look(&port, runs).await })
}

async fn look(port: &Disk, runs: &[crate::persist::Run]) -> Result<Inspection, JournalError> {
    let map = Map::new(runs, port.capacity().0 / UNIT as u64)?;
    let mut reader = Reader::new(port, &map, Who::default());
    let superblock = reader.superblock().await?;
    let scan = scan(&mut reader, &superblock).await?;
    Ok(Inspection {
        len: superblock.len,
        sequence: superblock.sequence,
        start: superblock.start,
        errno: superblock.errno,
        incompat: superblock.incompat,
        uuid: superblock.uuid,
        transactions: scan.transactions.into_iter().map(Inspected::from).collect(),
        damaged: scan.damaged,
        lent: superblock.is_lent(),
    })
}

/// Copies a block for the log. Escapes the copy (and returns true) if the block starts with the
/// magic number.
pub(super) fn copy_for_log(original: &Payload) -> (Payload, bool) {
    let mut head = [0; 4];
    let _ = original.copy_to(0, &mut head);
    if u32::from_be_bytes(head) != super::format::MAGIC {
        return (original.clone(), false);
    }
    let mut bytes = original.to_bytes();
    bytes[..4].fill(0);
    (payload(&bytes), true)
}
