//! Interpretation of the blocks on the medium: the last checkpoint, and the transactions that the
//! log adds to it.
//!
//! Invariants: nothing here awaits or writes, so a mount and [`crate::Shown`] reach the same
//! result; a block with a wrong checksum is not used. The log ends at the first transaction that is
//! not whole. A power cut leaves such an end; but since each transaction is written only once the
//! one before is durable, a later transaction behind the end proves that the log was damaged.

use crate::format::{
    Block, Header, NONE, PER_DIRECTORY, Pair, Place, Record, Sums, Super, base_of,
    decode_directory, decode_header, decode_log, decode_super,
};
use crate::layout::SECTORS;
use crate::space::Space;
use ssd::IoError;
use std::ops::Range;

/// Reasons why a mount fails; each says what remains readable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The medium failed in another way than a lost block.
    #[error("the medium below failed: {0}")]
    Io(#[from] IoError),
    /// Neither copy of the superblock is valid: there is no layer, or both copies are damaged.
    #[error(
        "no remapping layer is here, or both copies of its superblock are damaged: which address \
         leads where cannot be told"
    )]
    NoSuperblock,
    /// The superblock belongs to a medium of another size or layout.
    #[error(
        "the superblock tells of {units} units of 4 KiB with areas that this medium of {found} \
         cannot have: it is of another medium, or of one that was larger"
    )]
    Layout {
        /// Units of the medium according to the superblock.
        units: u32,
        /// Units of this medium.
        found: u64,
    },
    /// Neither checkpoint header is valid.
    #[error("both checkpoints are damaged: only data that the log has written since can be found")]
    NoCheckpoint,
    /// The last checkpoint header is damaged: the log continues from a later checkpoint than the
    /// one that can be read.
    #[error(
        "the last checkpoint is damaged: transaction {tx} follows it, and the state before, of \
         checkpoint {sequence}, is the newest that can be read"
    )]
    Checkpoint {
        /// Sequence number of the readable, older checkpoint.
        sequence: u64,
        /// First transaction that cannot be applied to it.
        tx: u32,
    },
    /// A directory block of the last checkpoint is damaged.
    #[error(
        "block {index} of the directory of checkpoint {sequence} is damaged: pages {first} to \
         {last} of the tables cannot be found; all others can"
    )]
    Directory {
        /// Sequence number of the checkpoint.
        sequence: u64,
        /// Index of the block within the directory.
        index: u32,
        /// First table page that the block covers.
        first: u32,
        /// Last table page that the block covers.
        last: u32,
    },
    /// A table page is damaged or unreadable.
    #[error(
        "page {page} of the tables is damaged, in sector {sector}: where sectors {first} to {last} \
         lead cannot be told; all others can be read"
    )]
    Page {
        /// Number of the page, counted over all tables.
        page: u32,
        /// First sector of the page on the medium.
        sector: u64,
        /// First original sector that the page covers.
        first: u64,
        /// Last original sector that the page covers.
        last: u64,
    },
    /// The log is damaged before its end: a whole block of a later transaction follows a gap.
    #[error(
        "block {at} of the log is damaged: transaction {tx} is not whole and {later} follows it; \
         what was durable before it, with {replayed} transactions since the last checkpoint, can \
         be read"
    )]
    Log {
        /// Block of the log area at which the gap begins.
        at: u32,
        /// Transaction that is not whole.
        tx: u32,
        /// Later transaction found behind it.
        later: u32,
        /// Whole transactions between the last checkpoint and the gap.
        replayed: u32,
    },
    /// The block at which the log would continue cannot be read, so its end is unknown.
    #[error(
        "block {at} of the log cannot be read: transaction {tx} may be there; what was durable \
         before it can be read"
    )]
    Unreadable {
        /// Block of the log area that cannot be read.
        at: u32,
        /// Transaction that the block may belong to.
        tx: u32,
    },
    /// A pair leads out of its range, or two pairs lead to one unit.
    #[error(
        "sector {orig} leads to unit {unit} of the data area, {why}: the tables contradict \
         themselves, and all sectors before it can be read"
    )]
    Mapping {
        /// First original sector of the pair.
        orig: u64,
        /// Unit of the data area that the pair leads to.
        unit: u32,
        /// Reason why the pair is refused, as the end of a sentence.
        why: &'static str,
    },
}

/// First valid superblock copy that fits a medium of `units`.
pub(crate) fn superblock(copies: [Option<Block>; 2], units: u64) -> Result<Super, OpenError> {
    let read = || copies.iter().flatten().filter_map(decode_super);
    let first = read().next().ok_or(OpenError::NoSuperblock)?;
    let sound = read().find(|layout| layout.is_sound(units));
    sound.ok_or(OpenError::Layout {
        units: first.units,
        found: units,
    })
}

/// Header of the last checkpoint: the valid copy with the higher sequence number.
pub(crate) fn header(copies: [Option<Block>; 2], sums: Sums) -> Result<Header, OpenError> {
    let read = copies.iter().flatten();
    let read = read.filter_map(|block| decode_header(block, sums));
    let newest = read.max_by_key(|header| header.sequence);
    newest.ok_or(OpenError::NoCheckpoint)
}

/// Places of all table pages, from the directory of checkpoint `sequence`; `read` returns a unit of
/// the medium.
pub(crate) fn directory(
    layout: &Super,
    sequence: u64,
    sums: Sums,
    mut read: impl FnMut(u32) -> Option<Block>,
) -> Result<Vec<Place>, OpenError> {
    let mut places = vec![Place::Absent; layout.pages as usize];
    for (index, part) in (0..).zip(places.chunks_mut(PER_DIRECTORY)) {
        let block = read(layout.directory_at(sequence) + index);
        let is_read = block.is_some_and(|b| decode_directory(&b, part, (sequence, index), sums));
        if !is_read {
            let first = index * PER_DIRECTORY as u32;
            return Err(OpenError::Directory {
                sequence,
                index,
                first,
                last: first + part.len() as u32 - 1,
            });
        }
    }
    Ok(places)
}

/// Replay of the log: takes its blocks one after the other, from where the checkpoint left the log,
/// and buffers no more than one transaction.
//= remap 3.5
pub(crate) struct Replay<'a> {
    layout: &'a Super,
    header: &'a Header,
    sums: Sums,
    /// Blocks taken so far.
    read: u32,
    /// Pairs of the transaction being read, and the number of its blocks taken (`index`).
    pairs: Vec<Pair>,
    index: u32,
    /// Block at which the log ends, once known.
    torn: Option<u32>,
    replayed: Replayed,
}

/// Extent of a replayed log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Replayed {
    pub(crate) transactions: u32,
    /// Number for the next transaction. After [`Replay::finish`], no block of the log carries this
    /// number.
    pub(crate) next_tx: u32,
    /// Block of the log area behind the last whole transaction.
    pub(crate) head: u32,
}

impl<'a> Replay<'a> {
    pub(crate) fn new(layout: &'a Super, header: &'a Header, sums: Sums) -> Self {
        Self {
            layout,
            header,
            sums,
            read: 0,
            pairs: Vec::new(),
            index: 0,
            torn: None,
            replayed: Replayed {
                next_tx: header.next_tx,
                head: header.log_at % layout.log_units,
                ..Replayed::default()
            },
        }
    }

    /// Block of the log area to read next; `None` once all were read.
    pub(crate) fn next(&self) -> Option<u32> {
        let start = self.header.log_at % self.layout.log_units;
        let at = (u64::from(start) + u64::from(self.read)) % u64::from(self.layout.log_units);
        (self.read < self.layout.log_units).then_some(at as u32)
    }

    /// Takes the next block (`None`: unreadable). Calls `take` with the pairs of each transaction
    /// that is complete.
    pub(crate) fn push(
        &mut self,
        block: Option<&Block>,
        take: &mut impl FnMut(&[Pair]) -> Result<(), OpenError>,
    ) -> Result<(), OpenError> {
        let Some(at) = self.next() else {
            return Ok(());
        };
        self.read += 1;
        let (tx, base) = (self.replayed.next_tx, base_of(self.header.sequence));
        let found = block.and_then(|block| decode_log(block, self.sums));
        if self.torn.is_none() {
            if block.is_none() {
                return Err(OpenError::Unreadable { at, tx });
            }
            match &found {
                Some((record, pairs))
                    if record.tx == tx && self.index == u32::from(record.index) =>
                {
                    if record.base != base {
                        let sequence = self.header.sequence;
                        return Err(OpenError::Checkpoint { sequence, tx });
                    }
                    self.pairs.extend_from_slice(pairs);
                    self.index += 1;
                    if self.index == u32::from(record.blocks) {
                        take(&self.pairs)?;
                        self.commit(at);
                    }
                    return Ok(());
                }
                _ => self.torn = Some(at),
            }
        }
        found.map_or(Ok(()), |(record, _)| self.check_behind(record))
    }

    /// Ends a whole transaction whose last block is `at`.
    fn commit(&mut self, at: u32) {
        self.pairs.clear();
        self.index = 0;
        self.replayed.head = (at + 1) % self.layout.log_units;
        self.replayed.transactions += 1;
        self.replayed.next_tx = self.replayed.next_tx.wrapping_add(1);
    }

    /// Checks a block behind the end of the log: it must not belong to a later transaction.
    fn check_behind(&self, later: Record) -> Result<(), OpenError> {
        let (next, sequence) = (self.replayed.next_tx, self.header.sequence);
        if later.tx.wrapping_sub(next).wrapping_sub(1) >= u32::MAX / 2 {
            return Ok(());
        }
        Err(match later.base == base_of(sequence) {
            true => OpenError::Log {
                at: self.torn.unwrap_or_default(),
                tx: next,
                later: later.tx,
                replayed: self.replayed.transactions,
            },
            false => OpenError::Checkpoint {
                sequence,
                tx: later.tx,
            },
        })
    }

    /// Ends the replay, after all blocks were taken.
    pub(crate) fn finish(self) -> Replayed {
        Replayed {
            // Blocks of the torn transaction may remain, so its number is not reused.
            next_tx: self.replayed.next_tx.wrapping_add(1),
            ..self.replayed
        }
    }
}

/// Checks that both addresses of a pair are within their ranges.
pub(crate) fn check_pair(layout: &Super, pair: Pair) -> Result<(), OpenError> {
    let (outside, orig) = ("which it does not have", u64::from(pair.orig) * SECTORS);
    let beyond = "though the layer offers no such sector";
    let why = match pair {
        _ if pair.orig >= layout.logical => beyond,
        Pair { trans: NONE, .. } => return Ok(()),
        _ if pair.trans >= layout.data_units => outside,
        _ => return Ok(()),
    };
    Err(OpenError::Mapping {
        orig,
        unit: pair.trans,
        why,
    })
}

/// Records a pair on the physical side; fails if its unit already holds an address.
pub(crate) fn found(layout: &Super, space: &mut Space, pair: Pair) -> Result<(), OpenError> {
    check_pair(layout, pair)?;
    if space.found(pair.trans, pair.orig) {
        return Ok(());
    }
    Err(OpenError::Mapping {
        orig: u64::from(pair.orig) * SECTORS,
        unit: pair.trans,
        why: "where another one leads",
    })
}

/// The error for damaged page `page` of the tables, on `unit` of the medium.
pub(crate) fn damaged(layout: &Super, page: u32, unit: u32) -> OpenError {
    let Range { start, end } = layout.addresses(page);
    OpenError::Page {
        page,
        sector: u64::from(unit) * SECTORS,
        first: u64::from(start) * SECTORS,
        last: u64::from(end) * SECTORS - 1,
    }
}
