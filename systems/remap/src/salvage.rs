//! Salvage: opens a damaged layer read-only.
//!
//! Invariants: nothing is written; all damage is reported; an address resolves to the newest pair
//! that can be found, or is lost. An address is lost if its table page or the directory block of
//! that page is damaged, or if a newer pair has its unit.
//!
//! An unreadable transaction may have reused units that older pairs lead to. An older address whose
//! unit a readable newer pair holds is lost. Contents that the unreadable transaction itself wrote
//! cannot be told from the old contents, which is why such a layer is not mounted as if it were
//! whole.

use crate::config::Options;
use crate::format::{
    Block, Header, NONE, PER_DIRECTORY, PER_PAGE, Pair, Place, Record, Sums, Super, base_of,
    decode_directory, decode_log, decode_page, sequence_of,
};
use crate::layout::{HEADERS, SECTORS};
use crate::mount::{READ, read_blocks, shared, state};
use crate::port::{Remap, Shared};
use crate::restore::{self, OpenError};
use host::BlockPort;
use nand::UNIT;
use sim::Sim;
use ssd::IoError;
use std::ops::Range;
use std::rc::Rc;

/// Bitmap of the original units that cannot be resolved; empty in a layer that was mounted.
#[derive(Default)]
pub(crate) struct Lost(Vec<u64>);

impl Lost {
    #[inline]
    pub(crate) fn has(&self, orig: u32) -> bool {
        let word = self.0.get(orig as usize / 64);
        word.is_some_and(|word| word >> (orig % 64) & 1 == 1)
    }

    fn set(&mut self, orig: u32, lost: bool) {
        if let Some(word) = self.0.get_mut(orig as usize / 64) {
            *word = *word & !(1 << (orig % 64)) | u64::from(lost) << (orig % 64);
        }
    }
}

/// A whole transaction in the log: its number, its first block of the log area and its length.
struct Found {
    tx: u32,
    first: u32,
    blocks: u32,
}

/// Opens the layer on `port` read-only, however damaged. All tables stay in memory, writes fail
/// with [`IoError::ReadOnly`], and a lost address reads as a media error. Also returns the damage
/// found, empty for a layer that is whole.
///
/// # Errors
/// If no superblock or no checkpoint can be found or rebuilt, or the medium fails.
pub async fn salvage<P: BlockPort>(
    sim: &Sim,
    port: &P,
    options: Options,
) -> Result<(Remap<P>, Vec<OpenError>), OpenError> {
    let units = port.capacity().0 / UNIT as u64;
    if units < u64::from(HEADERS[1]) + 1 {
        return Err(OpenError::NoSuperblock);
    }
    let heads = read_blocks(port, 0, 4).await?;
    let layout = restore::superblock([heads[0], heads[1]], units)?;
    let sums = Sums::of(&layout.uuid);
    let (mut damage, log) = (Vec::new(), scan(port, &layout, sums).await?);
    let header = restore::header([heads[2], heads[3]], sums);
    let header = match header {
        Ok(header) if follows(&log, &header).is_none() => header,
        found => {
            damage.push(match &found {
                Err(error) => error.clone(),
                Ok(header) => OpenError::Checkpoint {
                    sequence: header.sequence,
                    tx: follows(&log, header).unwrap_or_default(),
                },
            });
            let rebuilt = rebuild(port, &layout, sums, &log).await?;
            rebuilt.or(found.ok()).ok_or(OpenError::NoCheckpoint)?
        }
    };
    let options = Options {
        memory: None,
        background: false,
        ..options
    };
    let places = vec![Place::Absent; layout.pages as usize];
    let mut state = state(&layout, &options, &header, places);
    state.lost = Lost(vec![0; (layout.logical as usize).div_ceil(64)]);
    let shared = shared(sim, port, options, layout, state);
    shared.failed.set(Some(IoError::ReadOnly));
    shared.closed.set(true);
    shared.take_pages(&header, &mut damage).await?;
    shared.take_log(&header, &log, &mut damage).await?;
    Ok((
        Remap {
            shared: Rc::new(shared),
        },
        damage,
    ))
}

/// Reads the whole log area: records of the valid blocks, with their place.
async fn scan<P: BlockPort>(
    port: &P,
    layout: &Super,
    sums: Sums,
) -> Result<Vec<(u32, Record)>, OpenError> {
    let mut found = Vec::new();
    for at in (0..layout.log_units).step_by(READ as usize) {
        let count = READ.min(layout.log_units - at);
        let blocks = read_blocks(port, layout.log + at, count).await?;
        for (at, block) in (at..).zip(&blocks) {
            let record = block.as_ref().and_then(|block| decode_log(block, sums));
            found.extend(record.map(|(record, _)| (at, record)));
        }
    }
    Ok(found)
}

/// Whether transaction `tx` is `from` or later; numbers wrap around.
const fn is_from(tx: u32, from: u32) -> bool {
    tx.wrapping_sub(from) < u32::MAX / 2
}

/// A transaction of the log that follows a later checkpoint than `header`, if any.
fn follows(log: &[(u32, Record)], header: &Header) -> Option<u32> {
    let base = base_of(header.sequence);
    let mut later = log.iter().map(|(_, record)| record);
    let found = later.find(|record| is_from(record.tx, header.next_tx) && record.base != base);
    found.map(|record| record.tx)
}

/// Rebuilds the header of the newest checkpoint, from the newest directory with a valid block and
/// from the first transaction of the log that follows it.
async fn rebuild<P: BlockPort>(
    port: &P,
    layout: &Super,
    sums: Sums,
    log: &[(u32, Record)],
) -> Result<Option<Header>, OpenError> {
    let blocks = 2 * layout.directory_units;
    let blocks = read_blocks(port, layout.directory, blocks).await?;
    let sequences = blocks.iter().flatten();
    let sequences = sequences.filter_map(|block| sequence_of(block, sums));
    let Some(sequence) = sequences.max() else {
        return Ok(None);
    };
    let added = log
        .iter()
        .filter(|(_, record)| record.base == base_of(sequence));
    let firsts = added.filter(|(_, record)| record.index == 0);
    let first = firsts.reduce(|a, b| match is_from(a.1.tx, b.1.tx) {
        true => b,
        false => a,
    });
    let next = log.iter().map(|(_, record)| record.tx.wrapping_add(1));
    let last = next.reduce(|a, b| if is_from(a, b) { a } else { b });
    let (log_at, next_tx) = match first {
        Some((at, record)) => (*at, record.tx),
        None => (0, last.unwrap_or(1)),
    };
    Ok(Some(Header {
        sequence,
        next_tx,
        log_at,
        entries: 0,
    }))
}

impl<P: BlockPort> Shared<P> {
    /// Fills the tables with the pages that can be read; the addresses of all others are lost.
    async fn take_pages(
        &self,
        header: &Header,
        damage: &mut Vec<OpenError>,
    ) -> Result<(), OpenError> {
        let at = self.layout.directory_at(header.sequence);
        let blocks = read_blocks(&self.port, at, self.layout.directory_units).await?;
        let mut places = vec![Place::Absent; self.layout.pages as usize];
        let parts = places.chunks_mut(PER_DIRECTORY);
        for ((index, block), part) in (0..).zip(&blocks).zip(parts) {
            let which = (header.sequence, index);
            if block.is_some_and(|block| decode_directory(&block, part, which, self.sums)) {
                continue;
            }
            part.fill(Place::Absent);
            let first = index * PER_DIRECTORY as u32;
            let last = first + part.len() as u32 - 1;
            damage.push(OpenError::Directory {
                sequence: header.sequence,
                index,
                first,
                last,
            });
            (first..=last).for_each(|page| self.lose(self.layout.addresses(page)));
        }
        for part in 0..self.layout.partitions() {
            let each = self.layout.pages_each();
            let own = &places[(part * each) as usize..((part + 1) * each) as usize];
            let pages = self.readable((part * each..).zip(own), damage).await?;
            if !pages.is_empty() {
                self.state.borrow_mut().tables.fill(part, &pages);
                self.find(part, damage);
            }
        }
        Ok(())
    }

    /// Marks the addresses of `origs` as lost.
    fn lose(&self, origs: Range<u32>) {
        let lost = &mut self.state.borrow_mut().lost;
        origs.for_each(|orig| lost.set(orig, true));
    }

    /// Reads the valid pages among `pages`; the addresses of the others are lost.
    async fn readable(
        &self,
        pages: impl Iterator<Item = (u32, &Place)>,
        damage: &mut Vec<OpenError>,
    ) -> Result<Vec<(u32, [u32; PER_PAGE])>, OpenError> {
        let mut readable = Vec::new();
        for (page, &place) in pages {
            let Some(unit) = self.layout.page_at(page, place) else {
                continue;
            };
            let block: Option<Block> = read_blocks(&self.port, unit, 1).await?[0];
            let mut entries = [NONE; PER_PAGE];
            if block.is_some_and(|block| decode_page(&block, &mut entries, page, self.sums)) {
                readable.push((page, entries));
            } else {
                damage.push(restore::damaged(&self.layout, page, unit));
                self.lose(self.layout.addresses(page));
            }
        }
        Ok(readable)
    }

    /// Records the pairs of a loaded table on the physical side. An address whose pair is out of
    /// range, or whose unit holds another address, is lost.
    fn find(&self, part: u32, damage: &mut Vec<OpenError>) {
        let mut pairs = Vec::new();
        let found = &mut |orig, trans| pairs.push(Pair { orig, trans });
        self.state.borrow().tables.each(part, found);
        let state = &mut *self.state.borrow_mut();
        state.tables.count(pairs.len() as u64);
        for pair in pairs {
            if let Err(error) = restore::found(&self.layout, &mut state.space, pair) {
                damage.push(error);
                state.tables.set(pair.orig, NONE);
                state.lost.set(pair.orig, true);
            }
        }
    }

    /// Applies the whole transactions behind the checkpoint, in order; a gap in their numbers is
    /// damage.
    async fn take_log(
        &self,
        header: &Header,
        log: &[(u32, Record)],
        damage: &mut Vec<OpenError>,
    ) -> Result<(), OpenError> {
        let (mut next, mut replayed) = (header.next_tx, 0);
        for found in whole(log, header, self.layout.log_units) {
            if found.tx != next {
                damage.push(OpenError::Log {
                    at: found.first,
                    tx: next,
                    later: found.tx,
                    replayed,
                });
            }
            next = found.tx.wrapping_add(1);
            replayed += 1;
            for block in 0..found.blocks {
                let at = self.layout.log + (found.first + block) % self.layout.log_units;
                let block = read_blocks(&self.port, at, 1).await?[0];
                let read = block.and_then(|block| decode_log(&block, self.sums));
                for pair in read.into_iter().flat_map(|(_, pairs)| pairs) {
                    self.take_pair(pair, damage);
                }
            }
        }
        Ok(())
    }

    /// Applies a pair that is newer than all before; an older address that led to its unit is lost.
    fn take_pair(&self, pair: Pair, damage: &mut Vec<OpenError>) {
        if let Err(error) = restore::check_pair(&self.layout, pair) {
            return damage.push(error);
        }
        let state = &mut *self.state.borrow_mut();
        let part = state.tables.partition_of(pair.orig);
        if !state.tables.is_in_memory(part) {
            state.tables.fill(part, &[]);
        }
        if pair.trans != NONE {
            let other = state
                .space
                .holds(pair.trans)
                .filter(|orig| *orig != pair.orig);
            if let Some(other) = other {
                state.tables.set(other, NONE);
                state.lost.set(other, true);
                state.space.lose(pair.trans);
                damage.push(OpenError::Mapping {
                    orig: u64::from(other) * SECTORS,
                    unit: pair.trans,
                    why: "where a newer one leads",
                });
            }
        }
        state.lost.set(pair.orig, false);
        if let Some(old) = state.tables.set(pair.orig, pair.trans) {
            state.space.lose(old);
        }
        if pair.trans != NONE {
            state.space.found(pair.trans, pair.orig);
        }
    }
}

/// Whole transactions behind `header`, in order of their numbers.
fn whole(log: &[(u32, Record)], header: &Header, units: u32) -> Vec<Found> {
    let base = base_of(header.sequence);
    let behind = |record: &Record| record.base == base && is_from(record.tx, header.next_tx);
    let firsts = log.iter().filter(|(_, r)| r.index == 0 && behind(r));
    let mut whole: Vec<Found> = firsts
        .filter(|(at, first)| {
            (1..first.blocks).all(|index| {
                let at = (at + u32::from(index)) % units;
                let found = log.binary_search_by_key(&at, |(at, _)| *at);
                found.is_ok_and(|found| log[found].1 == Record { index, ..*first })
            })
        })
        .map(|(at, first)| Found {
            tx: first.tx,
            first: *at,
            blocks: first.blocks.into(),
        })
        .collect();
    whole.sort_by_key(|found| found.tx.wrapping_sub(header.next_tx));
    whole
}
