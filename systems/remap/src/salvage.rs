//! What is left of a damaged layer, to be read and nothing else.
//!
//! Invariants: nothing is written; what is damaged is told; an address is read where the
//! newest pair that can be found says, or not at all. It is lost if the page of its table or
//! the directory of that is, or if a newer pair has its unit.
//!
//! A transaction that cannot be read may have used units again that older pairs lead to.
//! Who else can be found there is lost; what that transaction itself put there cannot be
//! told from what was there before, which is why such a layer is not mounted as if nothing
//! were wrong.

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

/// The addresses of which it cannot be told where they lead.
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

/// A transaction in the log: its number, and where its blocks are.
struct Found {
    tx: u32,
    first: u32,
    blocks: u32,
}

/// Opens what is left of the layer on `port`, to be read and nothing else: all tables are
/// kept in memory, writes are refused, and an address that is lost reads as an error of the
/// medium. Gives what is damaged beside it; of a layer that is whole that is nothing.
///
/// # Errors
/// If it cannot be told of any address where it leads.
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

/// All blocks of the log that are whole, with where they are.
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

/// Whether `tx` is `from` or behind it, in numbers that go round.
const fn is_from(tx: u32, from: u32) -> bool {
    tx.wrapping_sub(from) < u32::MAX / 2
}

/// A transaction of the log that follows a later checkpoint than `header`.
fn follows(log: &[(u32, Record)], header: &Header) -> Option<u32> {
    let base = base_of(header.sequence);
    let mut later = log.iter().map(|(_, record)| record);
    let found = later.find(|record| is_from(record.tx, header.next_tx) && record.base != base);
    found.map(|record| record.tx)
}

/// The newest checkpoint that can be told without its header: that of the newest directory
/// which is there in any part, and what the log says that it adds.
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
    /// Fills the tables with the pages that can be read.
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

    /// Notes that it cannot be told where these lead.
    fn lose(&self, origs: Range<u32>) {
        let lost = &mut self.state.borrow_mut().lost;
        origs.for_each(|orig| lost.set(orig, true));
    }

    /// The pages of a table that can be read; the addresses of others are lost.
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

    /// Notes on the physical side where a table leads. An address that leads nowhere that is,
    /// or where another one leads, is lost.
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

    /// Applies the transactions that are there as a whole, in their order.
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

    /// A pair that is newer than all before: who else led to its unit is lost.
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

/// The transactions behind `header` that are there as a whole, in the order of their numbers.
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
