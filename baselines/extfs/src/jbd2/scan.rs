//! Scan of a log: its whole transactions, in order.
//!
//! Invariants: a walk visits at most as many blocks as the log has, whatever they
//! hold; a transaction counts only if the checksums of its commit block and of its
//! descriptor and revoke blocks are right; a scan keeps no more memory than the log.

use super::JournalError;
use super::format::{self, Block, Form, Kind, Superblock, Tag};
use super::log::{Map, Span, extent};
use host::{BlockPort, Disk, Who};
use nand::Payload;
use std::collections::BTreeMap;

/// Blocks per read of the log, 128 KiB: the read-ahead of jbd2 during recovery (`MAXBUF`).
const AHEAD: u32 = 32;

/// Reads a log, each block of the medium once.
pub(super) struct Reader<'a> {
    pub(super) port: &'a Disk,
    pub(super) map: &'a Map,
    pub(super) who: Who,
    chunks: BTreeMap<u32, Vec<Payload>>,
}

impl<'a> Reader<'a> {
    pub(super) const fn new(port: &'a Disk, map: &'a Map, who: Who) -> Self {
        Self {
            port,
            map,
            who,
            chunks: BTreeMap::new(),
        }
    }

    /// Block `index` of the log.
    pub(super) async fn block(&mut self, index: u32) -> Result<Payload, JournalError> {
        let first = index - index % AHEAD;
        if !self.chunks.contains_key(&first) {
            let chunk = self.chunk(first).await?;
            self.chunks.insert(first, chunk);
        }
        Ok(self.chunks[&first][(index - first) as usize].clone())
    }

    async fn chunk(&self, first: u32) -> Result<Vec<Payload>, JournalError> {
        let mut chunk = vec![Payload::Zero; AHEAD.min(self.map.len() - first) as usize];
        let mut done = 0;
        while done < chunk.len() {
            let (start, follow) = self.map.home(first + done as u32);
            let count = (follow as usize).min(chunk.len() - done);
            let mut sink = &mut chunk[done..done + count];
            let extent = extent(start, count);
            self.port.read(extent, &mut sink, self.who).await?;
            done += count;
        }
        Ok(chunk)
    }

    /// The superblock of the journal, checked against the blocks of the log.
    pub(super) async fn superblock(&mut self) -> Result<Superblock, JournalError> {
        if self.map.len() == 0 {
            return Err(JournalError::Shape);
        }
        let block = self.block(0).await?.to_bytes();
        let superblock = Superblock::parse(&block)?;
        if superblock.len > self.map.len() {
            return Err(JournalError::TooShort {
                has: self.map.len(),
                needs: superblock.len,
            });
        }
        Ok(superblock)
    }
}

/// A whole transaction found in the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) sequence: u32,
    /// Blocks of the log: the first of the transaction, and its commit block.
    pub(super) start: u32,
    pub(super) commit: u32,
    /// Tags of its copies, each with the block of the log that holds the copy.
    pub(super) copies: Vec<(Tag, u32)>,
    pub(super) revoked: Vec<u64>,
    pub(super) committed_at: (u64, u32),
    pub(super) tx: u32,
}

/// Result of a walk over a log: input of a recovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Scan {
    pub(super) transactions: Vec<Found>,
    /// The sequence number after that of the last whole transaction.
    pub(super) next: u32,
    /// The transaction `next` has a commit block no older than that of the last one, so
    /// it did commit, but a checksum in it is wrong.
    pub(super) damaged: bool,
}

/// Walks over the transactions of a log, from the start in its superblock.
pub(super) async fn scan(
    reader: &mut Reader<'_>,
    superblock: &Superblock,
) -> Result<Scan, JournalError> {
    let mut walk = Walk::new(superblock);
    if superblock.start == 0 {
        return Ok(walk.scan);
    }
    while walk.walked < walk.span.size() {
        let payload = reader.block(walk.at).await?;
        let mut head = [0; 12];
        let _ = payload.copy_to(0, &mut head);
        let Some((kind, sequence)) = format::header(&head) else {
            break;
        };
        if sequence != walk.scan.next || !walk.step(kind, &payload.to_bytes()) {
            break;
        }
    }
    Ok(walk.scan)
}

struct Walk {
    form: Form,
    span: Span,
    at: u32,
    walked: u32,
    /// The transaction whose commit block the walk has not reached yet.
    open: Found,
    /// Whether the checksums of the blocks of `open` so far are right.
    sound: bool,
    scan: Scan,
}

impl Walk {
    fn new(superblock: &Superblock) -> Self {
        let span = Span {
            first: superblock.first,
            end: superblock.end(),
            head: superblock.start,
            tail: superblock.start,
            tail_id: u64::from(superblock.sequence),
        };
        let scan = Scan {
            next: superblock.sequence,
            ..Scan::default()
        };
        Self {
            form: superblock.form(),
            span,
            at: superblock.start,
            walked: 0,
            open: Found::default(),
            sound: true,
            scan,
        }
    }

    /// Takes the block at `at` into `open`. False if the log ends here.
    fn step(&mut self, kind: Kind, block: &Block) -> bool {
        if self.open.start == 0 {
            self.open.start = self.at;
        }
        match kind {
            Kind::Descriptor => {
                self.sound &= self.form.is_whole(block);
                self.copies(block);
            }
            Kind::Revoke => {
                self.sound &= self.form.is_whole(block);
                self.open.revoked.extend(self.form.revoked(block));
            }
            Kind::Commit => return self.commit(block),
        }
        self.advance(1);
        true
    }

    fn advance(&mut self, count: u32) {
        self.walked += count;
        self.at = self.span.after(self.at, count);
    }

    fn copies(&mut self, block: &Block) {
        for tag in self.form.tags(block) {
            self.advance(1);
            self.open.copies.push((tag, self.at));
        }
    }

    fn commit(&mut self, block: &Block) -> bool {
        let at = format::committed_at(block);
        if !self.sound || !self.form.is_committed(block) {
            // Blocks left over from an earlier lap are older: no damage.
            let last = self.scan.transactions.last();
            self.scan.damaged = last.is_none_or(|last| at >= last.committed_at);
            return false;
        }
        let mut found = std::mem::take(&mut self.open);
        found.sequence = self.scan.next;
        found.commit = self.at;
        found.committed_at = at;
        found.tx = format::committed_in(block);
        self.scan.transactions.push(found);
        self.scan.next = self.scan.next.wrapping_add(1);
        self.advance(1);
        true
    }
}
