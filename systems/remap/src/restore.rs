//! What blocks of the medium say: which checkpoint is the last one, and what the log adds.
//!
//! Invariants: nothing here waits or writes, so that a mount and a look at a drive at rest
//! find the same; what a checksum does not vouch for is not believed. A log ends at the
//! first transaction that is not there as a whole. That is what a power cut leaves, unless
//! a later one follows: each is written once the one before is durable, so then the log
//! was damaged.

use crate::format::{
    Block, Header, NONE, PER_DIRECTORY, Pair, Place, Record, Sums, Super, base_of,
    decode_directory, decode_header, decode_log, decode_super,
};
use crate::layout::SECTORS;
use crate::space::Space;
use ssd::IoError;
use std::ops::Range;

/// Why a layer cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The medium failed.
    #[error("the medium below failed: {0}")]
    Io(#[from] IoError),
    /// There is none, or nothing can be told of it.
    #[error(
        "no remapping layer is here, or both copies of its superblock are damaged: which address \
         leads where cannot be told"
    )]
    NoSuperblock,
    /// It is of another medium.
    #[error(
        "the superblock tells of {units} units of 4 KiB with areas that this medium of {found} \
         cannot have: it is of another medium, or of one that was larger"
    )]
    Layout {
        /// Units that it tells of.
        units: u32,
        /// Units that there are.
        found: u64,
    },
    /// No checkpoint can be read.
    #[error("both checkpoints are damaged: only data that the log has written since can be found")]
    NoCheckpoint,
    /// The last checkpoint cannot be read, and the log goes on from it.
    #[error(
        "the last checkpoint is damaged: transaction {tx} follows it, and the state before, of \
         checkpoint {sequence}, is the newest that can be read"
    )]
    Checkpoint {
        /// The checkpoint that can be read.
        sequence: u64,
        /// The first transaction that cannot be applied.
        tx: u32,
    },
    /// The directory of the tables is damaged.
    #[error(
        "block {index} of the directory of checkpoint {sequence} is damaged: pages {first} to \
         {last} of the tables cannot be found; all others can"
    )]
    Directory {
        /// Which checkpoint.
        sequence: u64,
        /// Which block.
        index: u32,
        /// The first page that it tells of.
        first: u32,
        /// The last one.
        last: u32,
    },
    /// A page of a table is damaged.
    #[error(
        "page {page} of the tables is damaged, in sector {sector}: where sectors {first} to {last} \
         lead cannot be told; all others can be read"
    )]
    Page {
        /// Which page.
        page: u32,
        /// Its first sector on the medium.
        sector: u64,
        /// The first original address that it tells of.
        first: u64,
        /// The last one.
        last: u64,
    },
    /// The log is damaged before its end.
    #[error(
        "block {at} of the log is damaged: transaction {tx} is not whole and {later} follows it; \
         what was durable before it, with {replayed} transactions since the last checkpoint, can \
         be read"
    )]
    Log {
        /// Block of the log.
        at: u32,
        /// The transaction that is not whole.
        tx: u32,
        /// One behind it.
        later: u32,
        /// Transactions that are whole.
        replayed: u32,
    },
    /// A block of the log cannot be read where it goes on.
    #[error(
        "block {at} of the log cannot be read: transaction {tx} may be there; what was durable \
         before it can be read"
    )]
    Unreadable {
        /// Block of the log.
        at: u32,
        /// The transaction.
        tx: u32,
    },
    /// A pair leads out of the medium, or two lead to one unit.
    #[error(
        "sector {orig} leads to unit {unit} of the data area, {why}: the tables contradict \
         themselves, and all sectors before it can be read"
    )]
    Mapping {
        /// Original address.
        orig: u64,
        /// Where it leads to.
        unit: u32,
        /// What is wrong with that.
        why: &'static str,
    },
}

/// The superblock of a medium of `units`.
pub(crate) fn superblock(copies: [Option<Block>; 2], units: u64) -> Result<Super, OpenError> {
    let read = || copies.iter().flatten().filter_map(decode_super);
    let first = read().next().ok_or(OpenError::NoSuperblock)?;
    let sound = read().find(|layout| layout.is_sound(units));
    sound.ok_or(OpenError::Layout {
        units: first.units,
        found: units,
    })
}

/// The last checkpoint.
pub(crate) fn header(copies: [Option<Block>; 2], sums: Sums) -> Result<Header, OpenError> {
    let read = copies.iter().flatten();
    let read = read.filter_map(|block| decode_header(block, sums));
    let newest = read.max_by_key(|header| header.sequence);
    newest.ok_or(OpenError::NoCheckpoint)
}

/// Where the pages of the tables are, from the blocks of the directory.
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

/// What the log adds to a checkpoint, as it is read block after block from where the
/// checkpoint left it. No more of it is kept than one transaction.
//= remap 3.5
pub(crate) struct Replay<'a> {
    layout: &'a Super,
    header: &'a Header,
    sums: Sums,
    /// Blocks that were read.
    read: u32,
    /// Pairs of the transaction that is being read, and how many of its blocks those are of.
    pairs: Vec<Pair>,
    index: u32,
    /// The block at which the log ends, once that is known.
    torn: Option<u32>,
    replayed: Replayed,
}

/// How far a log goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Replayed {
    pub(crate) transactions: u32,
    /// The number that no block of the log has.
    pub(crate) next_tx: u32,
    /// The block behind the last transaction.
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

    /// The block of the log area that is to be read next; none once all were.
    pub(crate) fn next(&self) -> Option<u32> {
        let start = self.header.log_at % self.layout.log_units;
        let at = (u64::from(start) + u64::from(self.read)) % u64::from(self.layout.log_units);
        (self.read < self.layout.log_units).then_some(at as u32)
    }

    /// Takes the next block, or that it cannot be read. The pairs of a transaction that is
    /// there as a whole go to `take`.
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

    /// The transaction is whole, with its last block at `at`.
    fn commit(&mut self, at: u32) {
        self.pairs.clear();
        self.index = 0;
        self.replayed.head = (at + 1) % self.layout.log_units;
        self.replayed.transactions += 1;
        self.replayed.next_tx = self.replayed.next_tx.wrapping_add(1);
    }

    /// Behind the end of the log: no later transaction may be there.
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

    /// How far the log went, all of which was read.
    pub(crate) fn finish(self) -> Replayed {
        Replayed {
            // Blocks of the torn one may stay: nothing else may have its number.
            next_tx: self.replayed.next_tx.wrapping_add(1),
            ..self.replayed
        }
    }
}

/// Whether a pair can be.
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

/// Notes on the physical side where a pair leads; nothing else may lead there.
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

/// The damage of page `page` of the tables.
pub(crate) fn damaged(layout: &Super, page: u32, unit: u32) -> OpenError {
    let Range { start, end } = layout.addresses(page);
    OpenError::Page {
        page,
        sector: u64::from(unit) * SECTORS,
        first: u64::from(start) * SECTORS,
        last: u64::from(end) * SECTORS - 1,
    }
}
