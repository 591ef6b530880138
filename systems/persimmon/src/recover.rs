//! Finding the last state: the superblock, the newest footer before a write pointer, and
//! what was appended to zones of metadata since.
//!
//! # Order
//!
//! The checkpoint says where the pages of the map were. Zones of metadata that have grown
//! since, or were opened since, are read on from there, in the order of their openings,
//! and each page that is found replaces the one before: pages are whole states, so it does
//! not matter how often that happens. The paper reads only the zone that was written
//! last; then what cleaning has moved through the one before would be lost. Of the other
//! pages those are read that the checkpoint leads to.
//!
//! Invariant: nothing is written here, and no bytes, however wrong, are taken for more
//! than they are: what the map leads to lies in zones of metadata before their write
//! pointers.

use crate::format::{
    Footer, PER_CHUNK, PER_DIRECTORY, Record, Sums, ZoneAt, blank, decode_directory, decode_page,
};
use crate::layout::{CHECKPOINTS, Layout};
use crate::map::Map;
use lfs::{Block, Found, Geometry, Pack, SuperError};
use ssd::ZoneLimits;
use vfs::{Errno, Result};

/// Blocks that are read at once where many are.
const AT_ONCE: u32 = 256;

/// Blocks of a pack of F2FS at most.
const PACK_MOST: u32 = 512;
/// Footers of a zone that are followed although what is before them is damaged. A power cut
/// leaves none such, since a footer is written last.
const TRIES: u32 = 16;
/// Openings of zones at most, of which no drive lives to see a part.
const EPOCH_MOST: u32 = u32::MAX / 2;

/// A drive to look at.
#[allow(async_fn_in_trait, reason = "a simulation is one thread")]
pub(crate) trait Medium {
    /// Its zones.
    fn limits(&self) -> ZoneLimits;

    /// Blocks of a zone that are written; all of them for one that is full.
    fn written(&self, zone: u32, zone_blocks: u32) -> u32;

    /// Reads blocks.
    async fn read(&self, addr: u32, count: u32) -> Result<Vec<Box<Block>>>;
}

/// Why there is no state to begin with.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OpenError {
    /// The superblock of F2FS.
    #[error(transparent)]
    Super(#[from] SuperError),
    /// What is beside it.
    #[error("the superblock is not one of Persimmon on the zones of this drive")]
    Record,
    /// No footer that leads to a whole checkpoint.
    #[error("neither zone of checkpoints has a whole one")]
    Checkpoint,
    /// What a checkpoint leads to.
    #[error("the checkpoint leads to a damaged map of the metadata")]
    Map,
    /// The drive failed.
    #[error("the drive could not be read: {0}")]
    Errno(#[from] Errno),
}

/// The last state.
pub(crate) struct State {
    pub(crate) found: Found,
    pub(crate) layout: Layout,
    pub(crate) sums: Sums,
    pub(crate) map: Map,
    /// Which zone of checkpoints it is in, 0 or 1.
    pub(crate) turn: usize,
    /// Blocks that are written of both.
    pub(crate) written: [u32; 2],
    /// The blocks of the pack, as F2FS has them.
    pub(crate) pack: Vec<Box<Block>>,
}

async fn one<M: Medium>(medium: &M, addr: u32) -> Result<Box<Block>> {
    let mut blocks = medium.read(addr, 1).await?;
    blocks.pop().ok_or(Errno::EIO)
}

/// A checkpoint that was found.
struct Checkpoint {
    footer: Footer,
    blocks: Vec<Box<Block>>,
    pages: Vec<u32>,
    pack: Pack,
    stamp: u64,
}

/// The newest whole checkpoint of a zone. The block before the write pointer is its
/// footer, unless the power went while one was written.
//= dissertation 4.4
async fn newest<M: Medium>(
    medium: &M,
    (start, written): (u32, u32),
    geometry: &Geometry,
    sums: Sums,
) -> Option<Checkpoint> {
    let parts = geometry.tables().len().div_ceil(PER_CHUNK);
    let directory = parts.div_ceil(PER_DIRECTORY) as u32;
    let mut tries = 0;
    for at in (0..written).rev() {
        if tries == TRIES {
            break;
        }
        // What cannot be read is no footer.
        let Ok(block) = one(medium, start + at).await else {
            continue;
        };
        let Some(footer) = Footer::decode(&block, sums) else {
            continue;
        };
        tries += 1;
        // Of these lengths, so that no footer asks for more than a checkpoint has.
        let fits =
            footer.pack <= PACK_MOST && footer.directory == directory && footer.epoch <= EPOCH_MOST;
        let before = fits.then(|| footer.pack + footer.directory);
        let Some(first) = before.and_then(|before| at.checked_sub(before)) else {
            continue;
        };
        let Ok(mut blocks) = medium.read(start + first, at - first).await else {
            continue;
        };
        let directory = blocks.split_off(footer.pack as usize);
        let pages: Option<Vec<Vec<u32>>> = directory
            .iter()
            .map(|block| decode_directory(block, sums))
            .collect();
        let pack = Pack::decode(blocks.clone(), geometry);
        let pack = pack.filter(|(pack, _)| pack.version() == footer.version);
        if let (Some(pages), Some((pack, stamp))) = (pages, pack) {
            return Some(Checkpoint {
                footer,
                blocks,
                pages: pages.concat(),
                pack,
                stamp,
            });
        }
    }
    None
}

/// Reads the superblock; the second one, if the first is damaged.
async fn superblock<M: Medium>(
    medium: &M,
) -> std::result::Result<(Geometry, Layout, Sums), OpenError> {
    match copy(medium, 0).await {
        Ok(first) => Ok(first),
        Err(why) => copy(medium, 1).await.map_err(|_| why),
    }
}

async fn copy<M: Medium>(
    medium: &M,
    at: u32,
) -> std::result::Result<(Geometry, Layout, Sums), OpenError> {
    let limits = medium.limits();
    let block = one(medium, at).await?;
    let geometry = Geometry::decode(&block, lfs::packing(limits).sectors() / 8)?;
    let sums = Sums::of(geometry.uuid());
    let record = Record::get(&block, sums);
    let layout = record.and_then(|record| Layout::of(record, &geometry, limits));
    Ok((geometry, layout.ok_or(OpenError::Record)?, sums))
}

/// The last state on a drive, with so many parts of the map in memory at most.
pub(crate) async fn find<M: Medium>(
    medium: &M,
    parts: Option<usize>,
) -> std::result::Result<State, OpenError> {
    let (geometry, layout, sums) = superblock(medium).await?;
    let mut best: Option<(usize, Checkpoint)> = None;
    let mut written = [0; 2];
    for (turn, zone) in CHECKPOINTS.into_iter().enumerate() {
        written[turn] = medium.written(zone, layout.zone_blocks);
        let start = layout.blocks(zone).start;
        let found = newest(medium, (start, written[turn]), &geometry, sums).await;
        let Some(found) = found else { continue };
        let is_newer = best
            .as_ref()
            .is_none_or(|(_, best)| found.footer.version > best.footer.version);
        if is_newer {
            best = Some((turn, found));
        }
    }
    let (turn, checkpoint) = best.ok_or(OpenError::Checkpoint)?;
    let known = (&checkpoint.footer, &checkpoint.pages[..]);
    let mut empty = Map::new(layout, geometry.tables());
    empty.limit(parts);
    let map = map(medium, sums, empty, known).await?;
    let found = Found {
        geometry,
        pack: checkpoint.pack,
        stamp: checkpoint.stamp,
    };
    Ok(State {
        found,
        layout,
        sums,
        map,
        turn,
        written,
        pack: checkpoint.blocks,
    })
}

/// An empty map becomes what a checkpoint has, with what was appended since.
pub(crate) async fn map<M: Medium>(
    medium: &M,
    sums: Sums,
    mut map: Map,
    (footer, pages): (&Footer, &[u32]),
) -> std::result::Result<Map, OpenError> {
    let layout = *map.layout();
    let parts = map.pages().len();
    if pages.len() < parts {
        return Err(OpenError::Map);
    }
    let mut grown = zones(medium, sums, &mut map, footer).await?;
    grown.sort_by_key(|grown| grown.epoch);
    for (part, &page) in (0..).zip(&pages[..parts]) {
        map.set_found(part, page);
    }
    for Grown { zone, from, .. } in grown {
        let (start, end) = (
            layout.metadata(zone).start,
            map.zones[zone as usize].at.written,
        );
        let mut at = from;
        while at < end {
            let count = (end - at).min(AT_ONCE);
            let blocks = read_all(medium, start + at, count).await;
            for (addr, block) in (start + at..).zip(blocks) {
                let page = decode_page(&block, sums);
                let page = page.filter(|(about, _)| usize::from(about.index) < parts);
                if let Some((about, entries)) = page {
                    map.set_found(u32::from(about.index), addr);
                    map.keep(u32::from(about.index), entries);
                }
            }
            at += count;
        }
    }
    for part in 0..parts as u32 {
        count(medium, sums, &mut map, part).await?;
    }
    Ok(map)
}

/// Reads blocks; zeros for those that cannot be read, which are no pages then.
async fn read_all<M: Medium>(medium: &M, addr: u32, count: u32) -> Vec<Box<Block>> {
    if let Ok(blocks) = medium.read(addr, count).await {
        return blocks;
    }
    let mut blocks = Vec::new();
    for addr in addr..addr + count {
        blocks.push(one(medium, addr).await.unwrap_or_else(|_| blank()));
    }
    blocks
}

/// Counts what a part leads to, which is read if it is not in memory.
async fn count<M: Medium>(
    medium: &M,
    sums: Sums,
    map: &mut Map,
    part: u32,
) -> std::result::Result<(), OpenError> {
    let addr = map.pages()[part as usize];
    if addr == 0 {
        return Ok(());
    }
    let known = map.part(part).copied();
    if let Some(entries) = known {
        return map.count(addr, &entries).ok_or(OpenError::Map);
    }
    if !map.is_written(addr) {
        return Err(OpenError::Map);
    }
    let block = one(medium, addr).await?;
    let page = decode_page(&block, sums);
    let page = page.filter(|(about, _)| u32::from(about.index) == part);
    let (_, entries) = page.ok_or(OpenError::Map)?;
    map.count(addr, &entries).ok_or(OpenError::Map)?;
    map.keep(part, entries);
    Ok(())
}

/// A zone of metadata that has blocks which the checkpoint does not know.
struct Grown {
    zone: u32,
    epoch: u32,
    from: u32,
}

/// The number nearest to `epoch` whose lower half is `low`; none if there is none.
const fn since(epoch: u32, low: u16) -> Option<u32> {
    let step = low.wrapping_sub(epoch as u16).cast_signed();
    epoch.checked_add_signed(step as i32)
}

/// Looks at each zone of metadata: the page at its start tells the number of its opening.
async fn zones<M: Medium>(
    medium: &M,
    sums: Sums,
    map: &mut Map,
    footer: &Footer,
) -> std::result::Result<Vec<Grown>, OpenError> {
    let layout = *map.layout();
    let mut grown = Vec::new();
    map.epoch = footer.epoch;
    for zone in 0..layout.metadata_zones {
        let range = layout.metadata(zone);
        let written = medium.written(range.start / layout.zone_blocks, layout.zone_blocks);
        if written == 0 {
            continue;
        }
        let known = footer.zones[zone as usize];
        let first = one(medium, range.start).await.unwrap_or_else(|_| blank());
        let epoch = decode_page(&first, sums).map(|(about, _)| about.epoch);
        // Its lower half is in the page. A zone without one was cut off at its start.
        let epoch = match epoch {
            Some(low) if known.epoch != 0 && low == known.epoch as u16 => known.epoch,
            Some(low) => since(footer.epoch, low).ok_or(OpenError::Map)?,
            None if known.epoch == 0 => 0,
            None => return Err(OpenError::Map),
        };
        let (from, is_of_use) = match epoch {
            _ if epoch == known.epoch && epoch != 0 => (known.written, true),
            _ => (0, epoch > footer.epoch),
        };
        map.zones[zone as usize].at = ZoneAt {
            // What is of no use is reset before the zone is written again.
            epoch: if is_of_use { epoch } else { 0 },
            written: if is_of_use { written } else { 0 },
        };
        if is_of_use && written < from {
            return Err(OpenError::Map);
        }
        if is_of_use && epoch >= map.epoch {
            (map.epoch, map.current) = (epoch, zone);
        }
        if is_of_use && written > from {
            grown.push(Grown { zone, epoch, from });
        }
    }
    Ok(grown)
}
